//! How the threads of a [`Disk`](crate::Disk) meet: locks, condition variables and threads.
//!
//! They are std's. qa/disk-scheduled compiles this same source with those of a
//! scheduler that tries interleavings; the server, its clients and the device for tests stay with
//! std's there, and are not run.

#[cfg(seawall_scheduled)]
use scheduler as machine;
#[cfg(not(seawall_scheduled))]
use std as machine;

pub(crate) use machine::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use machine::thread::{Builder, JoinHandle};
