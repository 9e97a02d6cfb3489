//! The verbs that convert records and apply them to stores.

pub(super) mod convert;
mod operations;
pub(super) mod replay;
