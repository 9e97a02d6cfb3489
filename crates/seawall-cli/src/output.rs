//! What the program prints: answers on standard output, everything else on standard error.

pub(crate) mod color;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod stdout;
pub(crate) mod text;
pub(crate) mod verbose;
pub(crate) mod width;
