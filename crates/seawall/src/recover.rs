//! Opens a log: inspects it, decides what its end means, and resumes writing.

pub(crate) mod decision;
pub(crate) mod handover;
pub(crate) mod inspection;
pub(crate) mod open;
pub(crate) mod orphan_files;
pub(crate) mod remaining;
pub(crate) mod report;
