//! Appends: group commit, the writer of the tail segment, rotation and truncation.

pub(crate) mod background;
pub(crate) mod commit_delay;
pub(crate) mod coordinator;
pub(crate) mod direct_io;
pub(crate) mod fork_guard;
pub(crate) mod group_commit;
pub(crate) mod in_flight;
pub(crate) mod pending;
pub(crate) mod preallocation;
pub(crate) mod record_set;
pub(crate) mod rotation;
pub(crate) mod tail;
pub(crate) mod truncation;
pub(crate) mod wakers;
pub(crate) mod writer;
