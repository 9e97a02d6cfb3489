//! Serves a [`Disk`](crate::Disk), or any other [`Target`], over NBD (network block device), for
//! which every system has a client.
//!
//! [`Session`] is the protocol alone: bytes in, replies and jobs out, no I/O. [`Server`] drives one
//! session for each connection on a local socket. [`Client`] makes an export of this or another
//! server usable as a file.
//!
//! It supports the fixed newstyle handshake with `EXPORT_NAME`, `ABORT`, `LIST`, `INFO`, `GO` and
//! `STRUCTURED_REPLY`, and reads, writes, flushes, trims and zeroing, each with FUA. A flush covers
//! what was acknowledged on any connection, so clients may open several. There is no TLS and no
//! access control: a process that may open the socket may write the disk.
//!
//! - Requests may begin and end at any byte. Blocks of 4096 bytes work best; a read or write may
//!   have up to 32 MiB.
//! - A write of up to 1 MiB is accepted only when all of it has arrived, a longer one in pieces
//!   that end at block boundaries. If a client dies during a write, each block is old or new.
//! - A trim does nothing, which the protocol allows. Zeroing writes zeros.
//! - The memory for one connection is bounded, whatever the client sends.

mod client;
mod handshake;
pub(crate) mod locked_path;
mod protocol;
mod server;
mod session;
pub(crate) mod socket;
pub(crate) mod target;
mod transmission;
mod uri;
mod wire;

pub use client::Client;
pub use protocol::{EXPORTS_MAX, Export, Job, NEED_MAX, REPLY_MAX, Step};
pub use server::{Bound, Limits, Server};
pub use session::Session;
pub use socket::{Address, Listen};
pub use target::Target;
pub use uri::Uri;
pub use wire::Code;
