//! Committed changes dealt out by key to partitions, folded into batches and written.

pub(crate) mod batch_size;
pub(crate) mod fold;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod standing;
