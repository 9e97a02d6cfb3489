//! Serves a [`Disk`](crate::Disk), or any other [`Target`], over NBD, the network block device that
//! every system has a client for.
//!
//! [`Session`] is the protocol alone: bytes in, replies and jobs out, no I/O. [`Server`] drives one
//! for each connection, on a socket of this machine. [`Client`] is the other side: a disk of such a
//! server, or of another one, as a file.
//!
//! What it speaks: the fixed newstyle handshake with `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO`
//! and `STRUCTURED_REPLY`; reads, writes, flushes, trims and zeroing, each with FUA. A flush covers
//! what was acknowledged on any connection, so clients may open several. It has no TLS and no
//! access control: who may open the socket may write the disk.
//!
//! - Requests begin and end at any byte; blocks of 4096 work best, and a read or a write may have
//!   32 MiB.
//! - A write of up to a MiB is taken in when it has come as a whole; a longer one in pieces that
//!   end at blocks. A client that dies on the way leaves each block old or new.
//! - A trim does nothing, which the protocol allows. Zeroing writes zeros.
//! - Memory for one connection is fixed, whatever its peer says.

mod client;
mod handshake;
mod protocol;
mod server;
mod session;
mod socket;
pub(crate) mod target;
mod transmission;
mod uri;
mod wire;

pub use client::Client;
pub use protocol::{EXPORTS_MAX, Export, Job, NEED_MAX, REPLY_MAX, Step};
pub use server::{Limits, Server};
pub use session::Session;
pub use socket::{Address, Listen};
pub use target::Target;
pub use uri::Uri;
pub use wire::Code;
