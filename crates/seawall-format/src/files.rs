//! The files of a log: segments with their marks, the manifest, `live`, keys and parity.

pub(crate) mod authenticator;
pub mod before;
pub mod keys;
pub(crate) mod live;
pub(crate) mod manifest;
pub mod parity;
pub(crate) mod preamble;
pub(crate) mod segment;
