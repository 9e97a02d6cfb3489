//! Serves a [`Disk`](crate::Disk) as one file or as a folder through FUSE, for programs that do not
//! use NBD.
//!
//! [`Server::start`] mounts a file system over one empty file, which then shows all bytes of the
//! disk. A loop device makes it a block device: `losetup --direct-io=on --find --show FILE`.
//!
//! - The file bypasses the page cache: written bytes are in the disk's ring, and `fsync` and writes
//!   with `O_DSYNC` return when the disk has [flushed](crate::Disk::flush).
//! - Its size is fixed. A write beyond the end fails for lack of space, and it cannot be truncated.
//! - Punching a hole and zeroing a range write zeros.
//! - Only its owner may open it, and mounting requires root.
//! - Memory is bounded: a fixed number of threads, and 1 MiB for each request.
//!
//! [`Server::start_folder`] mounts the files of a [`Volume`](crate::Volume), for a program that can
//! store its log there. These files bypass the page cache, too, so they cannot be mapped with
//! `MAP_SHARED`. The owners and modes of the files decide who may open them. If a file has several
//! names, only the newest survives the server.

mod folder;
mod gate;
mod mount;
mod requests;
mod server;

pub use server::{Parting, Server};
