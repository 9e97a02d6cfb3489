//! Serves a [`Disk`](crate::Disk) as one file of this machine, by FUSE: for programs that want a
//! file or a block device, and speak no NBD.
//!
//! [`Server`] mounts a file system over one empty file, which then has all bytes of the disk. A
//! loop device makes it a block device: `losetup --direct-io=on --find --show FILE`.
//!
//! - The file is past the cache of the system: what was written is in the disk's ring, and `fsync`
//!   and writes with `O_DSYNC` return when the disk has [flushed](crate::Disk::flush).
//! - Its size is fixed. What would go beyond its end finds no space, and nobody can cut it.
//! - A hole and a range of zeros are written as zeros.
//! - Only its owner may open it, and it takes root to mount it.
//! - Memory is fixed: so many threads, and a MiB for each request.

mod mount;
mod requests;
mod server;

pub use server::{Parting, Server};
