//! What the background threads are asked to do next.

use crate::base::env::Machine;
use crate::base::sync::JoinHandle;
use crate::parity::writer::Settling;
use crate::write::preallocated::SpareSegment;
use crate::write::preallocation_rate::Pace;
use std::collections::VecDeque;
use std::time::Duration;

/// The preparer and what it is at.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) thread: Option<JoinHandle<()>>,
    /// It has nothing to do.
    pub(crate) is_asleep: bool,
    /// The next segment's file: with what, and how fast.
    pub(crate) wanted: Option<(Machine, Pace)>,
    pub(crate) is_busy: bool,
    /// After an error it is not asked again before this time.
    pub(crate) rests_until: Duration,
    /// Parity to be made durable.
    pub(crate) unsettled: VecDeque<Settling>,
    /// What it made, until a leader takes it.
    pub(crate) made: Option<SpareSegment>,
}
