//! The verbs that explain the program itself.

pub(super) mod completions;
pub(super) mod explain;
pub(super) mod man;
