//! Applies committed changes: distributes them by key to partitions, folds them into batches and
//! writes the batches.

pub(crate) mod batch_size;
pub(crate) mod fold;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod standing;
