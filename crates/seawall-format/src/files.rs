//! The files of a log: segments with their marks, the manifest, `live` and parity.

pub mod before;
pub(crate) mod live;
pub(crate) mod manifest;
pub mod parity;
pub(crate) mod preamble;
pub(crate) mod segment;
