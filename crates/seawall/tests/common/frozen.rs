//! Read-only media: any call that would change something panics. A sync changes nothing.

use seawall_io::{Access, Storage};

use super::watched::{Call, Watch, Watched};

/// Storage that can only be read.
pub type Frozen = Watched<Frost>;

#[derive(Debug)]
pub struct Frost;

impl Watch for Frost {
    fn before(&self, call: Call) {
        use Call::{IsLocked, Len, List, Open, Read, Sync, SyncDir};
        let reads = [Open(Access::Read), List, IsLocked, Read, Len, Sync, SyncDir];
        assert!(reads.contains(&call), "a reader wants to change something: {call:?}");
    }
}

impl Frozen {
    pub fn new(inner: impl Storage + 'static) -> Self {
        Self::by(Frost, inner).0
    }
}
