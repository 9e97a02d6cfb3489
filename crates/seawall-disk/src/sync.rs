//! The synchronization primitives of a [`Disk`](crate::Disk): locks, condition variables and
//! threads.
//!
//! Normally they are those of std. qa/disk-scheduled compiles this source with the primitives of a
//! scheduler that tries interleavings. The server, its clients and the device for tests use std
//! even there, and are not run.

#[cfg(seawall_scheduled)]
use scheduler as machine;
#[cfg(not(seawall_scheduled))]
use std as machine;

pub(crate) use machine::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use machine::thread::{Builder, JoinHandle};
