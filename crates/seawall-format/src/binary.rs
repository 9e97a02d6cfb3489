//! Records as frames in batches. format.md section 3.3.

pub mod batch;
pub(crate) mod chunk;
pub mod encoded;
#[cfg(feature = "encryption")]
pub mod encrypted;
pub mod frame;
pub(crate) mod lz4;
pub(crate) mod scan;
pub(crate) mod step;
