//! What the background threads are asked to do next.

use crate::base::env::Env;
use crate::base::sync::JoinHandle;
use crate::parity::writer::ParityFlush;
use crate::write::preallocation::file::PreallocatedSegment;
use crate::write::preallocation::rate::PreallocationRate;
use std::collections::VecDeque;
use std::time::Duration;

/// The preparer and what it is at.
#[derive(Debug, Default)]
pub(crate) struct PreallocationState {
    pub(crate) thread: Option<JoinHandle<()>>,
    /// It has nothing to do.
    pub(crate) is_asleep: bool,
    /// The next segment's file: with what, and how fast.
    pub(crate) wanted: Option<(Env, PreallocationRate)>,
    pub(crate) is_busy: bool,
    /// After an error it is not asked again before this time.
    pub(crate) retry_after: Duration,
    /// Parity to be made durable.
    pub(crate) parity_flushes: VecDeque<ParityFlush>,
    /// What it made, until a leader takes it.
    pub(crate) made: Option<PreallocatedSegment>,
}
