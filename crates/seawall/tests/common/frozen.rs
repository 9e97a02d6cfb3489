//! Read-only media: whatever would change something panics.

use seawall_io::{Access, Storage};

use super::watched::{Call, Watch, Watched};

/// Storage that can only be read.
pub type Frozen = Watched<Frost>;

#[derive(Debug)]
pub struct Frost;

impl Watch for Frost {
    fn before(&self, call: Call) {
        let reads = [Call::Open(Access::Read), Call::List, Call::IsLocked, Call::Read, Call::Len];
        assert!(reads.contains(&call), "a reader wants to change something: {call:?}");
    }
}

impl Frozen {
    pub fn new(inner: impl Storage + 'static) -> Self {
        Self::by(Frost, inner).0
    }
}
