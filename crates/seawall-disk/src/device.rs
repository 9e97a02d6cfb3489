//! A device for tests, whose power can be cut: what was written is durable when a flush of it has
//! taken its time, and not before.
//!
//! [`Cache`] is the volatile cache alone: no I/O, no time, no chance of its own. [`Device`] drives
//! it over files that hold what is durable. Several regions share one cache and one flush, as
//! partitions of one disk do.

mod cache;
mod driver;

pub use cache::{Cache, Fate, Place, Run};
pub use driver::{CACHE_MAX, Cost, Device, Region};
