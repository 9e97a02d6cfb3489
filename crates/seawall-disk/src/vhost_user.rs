//! Serves a [`Disk`](crate::Disk), or any other [`Target`](crate::nbd::Target), as a block device
//! of a virtual machine: vhost-user-blk, for which QEMU and others have the other end.
//!
//! The requests are read from the memory of the guest and written there, which both processes map.
//!
//! - Reads, writes, flushes, zeroing, and the serial number. A flush returns when the disk has
//!   [flushed](crate::Disk::flush). To a guest that does not know flushes, each write includes one.
//! - One virtual machine at a time, with up to [`QUEUES_MAX`] queues and a thread for each.
//! - What the guest has written is checked before it is used. A request that is too long, or not
//!   within its memory, fails; memory is bounded: 1 MiB for each queue in use.
//! - There is no access control: a process that may open the socket may write the disk. One that
//!   shrinks memory that it shares ends the server.
//!
//! # After a crash
//!
//! Each queue's requests are executed in their order, one after another. So the guest's memory
//! alone says which are complete: those before the index of the used ring. A server that is started
//! again executes the others, which may execute one twice; its bytes are still those in the memory
//! of the guest. The region for requests in flight, of protocol feature `INFLIGHT_SHMFD`, serves
//! devices that complete out of order.
//!
//! QEMU 7.2 connects again each second with `reconnect=1`, and names the same index. Before 9.1 it
//! gives up, and the guest hangs, if a server dies in the milliseconds after QEMU has connected.

mod backend;
mod chain;
mod config;
mod request;
mod server;

pub use config::QUEUES_MAX;
pub use server::Server;
