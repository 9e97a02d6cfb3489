//! A device for tests whose power can be cut: written bytes are durable only when a flush of them
//! has taken its full time.
//!
//! [`Cache`] is the volatile cache alone, without I/O, time or randomness. [`Device`] drives it
//! over files that hold the durable bytes. Several regions share one cache and one flush, as
//! partitions of a disk do.

mod cache;
mod driver;

pub use cache::{Cache, Fate, Place, Run};
pub use driver::{CACHE_MAX, Cost, Device, Region};
