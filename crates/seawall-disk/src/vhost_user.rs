//! Serves a [`Disk`](crate::Disk), or any other [`Target`](crate::nbd::Target), as a block device
//! of a virtual machine, through vhost-user-blk, which QEMU and others support.
//!
//! The server reads requests from the guest's memory, which both processes map, and answers there.
//!
//! - Reads, writes, flushes, zeroing, and the serial number. A flush returns when the disk has
//!   [flushed](crate::Disk::flush). For a guest without flushes, each write includes one.
//! - One virtual machine at a time, with up to [`QUEUES_MAX`] queues and a thread for each.
//! - What the guest has written is checked before it is used. A request that is too long, or not
//!   within its memory, fails; memory is bounded: 1 MiB for each queue in use.
//! - There is no access control: a process that may open the socket may write the disk. A process
//!   that shrinks the memory that it shares ends the server.
//!
//! # After a crash
//!
//! Each queue's requests are executed in their order, one after another. So the guest's memory
//! alone says which are complete: those before the index of the used ring. A server that is started
//! again executes the others. This may execute a request twice, with the same bytes, which are
//! still in the memory of the guest. The region for requests in flight, of protocol feature
//! `INFLIGHT_SHMFD`, is for devices that complete out of order.
//!
//! With `reconnect=1`, QEMU 7.2 reconnects each second and sends the same index. QEMU before 9.1
//! gives up, and the guest hangs, if a server dies in the milliseconds after the connection.

mod backend;
mod chain;
mod config;
mod request;
mod server;

pub use config::QUEUES_MAX;
pub use server::Server;
