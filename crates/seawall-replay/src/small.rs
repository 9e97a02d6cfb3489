//! Small replays: the records are read once, kept in memory and applied by the calling thread.

pub(crate) mod held;
pub(crate) mod packed;
