//! Requests to the preallocator, and its results.

use crate::base::env::Env;
use crate::base::spare_files::SpareFile;
use crate::base::sync::JoinHandle;
use crate::parity::writer::ParityFlush;
use crate::write::preallocation::file::PreallocatedSegment;
use crate::write::preallocation::named_ahead::NextSegment;
use crate::write::preallocation::rate::PreallocationRate;
use crate::write::truncation::removal::SegmentRemoval;
use seawall_format::SegmentId;
use std::collections::VecDeque;
use std::time::Duration;

/// State of the preallocator thread.
#[derive(Debug, Default)]
pub(crate) struct PreallocationState {
    pub(crate) thread: Option<JoinHandle<()>>,
    /// The thread sleeps because it has nothing to do.
    pub(crate) is_asleep: bool,
    /// The requested file of the next segment.
    pub(crate) wanted: Option<Request>,
    pub(crate) is_busy: bool,
    /// No request before this time, after an error.
    pub(crate) retry_after: Duration,
    /// Parity to be synced.
    pub(crate) parity_flushes: VecDeque<ParityFlush>,
    /// Files of removed segments that are to be removed.
    pub(crate) removals: VecDeque<SegmentRemoval>,
    /// The thread is removing files.
    pub(crate) is_removing: bool,
    /// The finished file, until a leader takes it.
    pub(crate) made: Option<PreallocatedSegment>,
}

/// A request for the file of the next segment.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) env: Env,
    pub(crate) rate: PreallocationRate,
    /// Where records begin.
    pub(crate) data_start: u64,
    /// The file to use again, and the segment that it is for; `None` asks for a new file.
    pub(crate) reuse: Option<(SpareFile, SegmentId)>,
    /// The segment to make of it; `None` if it gets no name yet.
    pub(crate) next: Option<NextSegment>,
}
