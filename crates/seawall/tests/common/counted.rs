//! A device that counts reads, opens and directory listings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seawall_io::Storage;

use super::watched::{Call, Watch, Watched};

/// Storage that counts reads.
pub type Counted = Watched<Counts>;

#[derive(Debug, Default)]
pub struct Counts {
    bytes: AtomicU64,
    opens: AtomicU64,
    lists: AtomicU64,
}

/// The reads since the last count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    pub bytes: u64,
    /// Files that were opened.
    pub opens: u64,
    /// Directory listings.
    pub lists: u64,
}

impl Counts {
    /// Returns the reads since the last call, and resets the counts.
    pub fn take(&self) -> Reads {
        let take = |count: &AtomicU64| count.swap(0, Ordering::SeqCst);
        Reads { bytes: take(&self.bytes), opens: take(&self.opens), lists: take(&self.lists) }
    }
}

impl Watch for Counts {
    fn before(&self, call: Call) {
        match call {
            Call::Open(_) => drop(self.opens.fetch_add(1, Ordering::SeqCst)),
            Call::List => drop(self.lists.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
    }

    fn was_read(&self, bytes: usize) {
        self.bytes.fetch_add(u64::try_from(bytes).unwrap(), Ordering::SeqCst);
    }
}

impl Counted {
    pub fn new(inner: impl Storage + 'static) -> (Self, Arc<Counts>) {
        Self::by(Counts::default(), inner)
    }
}
