//! The verbs that bring records to other formats and stores.

pub(super) mod convert;
mod operations;
pub(super) mod replay;
