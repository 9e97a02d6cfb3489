//! Output: answers to standard output, everything else to standard error.

pub(crate) mod color;
pub(crate) mod progress;
pub(crate) mod prometheus;
pub(crate) mod report;
pub(crate) mod stdout;
pub(crate) mod text;
pub(crate) mod verbose;
pub(crate) mod width;
