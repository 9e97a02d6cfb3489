//! The environment of a log: its storage, clock and randomness.

use crate::base::deferred_delete::DeferredDelete;
use crate::base::options::Options;
use crate::base::sync::AtomicU64;
use seawall_io::{Clock, Entropy, Storage};
use std::sync::Arc;

/// The environment that a log runs in.
#[derive(Clone, Debug)]
pub(crate) struct Env {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The next number for a preallocated file.
    pub(crate) spares: Arc<AtomicU64>,
    pub(crate) deferred_delete: Arc<DeferredDelete>,
}

impl Env {
    pub(crate) fn new(options: &Options, storage: Arc<dyn Storage>) -> Self {
        let (clock, entropy) = (options.clock.clone(), options.entropy.clone());
        let deferred_delete = Arc::new(DeferredDelete::new(options.preallocate));
        Self { storage, clock, entropy, spares: Arc::new(AtomicU64::new(1)), deferred_delete }
    }
}
