//! Requests to the preallocator, and its results.

use crate::base::env::Env;
use crate::base::sync::JoinHandle;
use crate::parity::writer::ParityFlush;
use crate::write::preallocation::file::PreallocatedSegment;
use crate::write::preallocation::rate::PreallocationRate;
use std::collections::VecDeque;
use std::time::Duration;

/// State of the preallocator thread.
#[derive(Debug, Default)]
pub(crate) struct PreallocationState {
    pub(crate) thread: Option<JoinHandle<()>>,
    /// The thread sleeps because it has nothing to do.
    pub(crate) is_asleep: bool,
    /// The requested file of the next segment.
    pub(crate) wanted: Option<(Env, PreallocationRate)>,
    pub(crate) is_busy: bool,
    /// No request before this time, after an error.
    pub(crate) retry_after: Duration,
    /// Parity to be synced.
    pub(crate) parity_flushes: VecDeque<ParityFlush>,
    /// The finished file, until a leader takes it.
    pub(crate) made: Option<PreallocatedSegment>,
}
