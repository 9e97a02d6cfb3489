//! Preallocation: files for the next segment, created before the tail segment is full.

pub(crate) mod file;
pub(crate) mod named_ahead;
pub(crate) mod rate;
pub(crate) mod reused;
pub(crate) mod state;
