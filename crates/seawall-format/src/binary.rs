//! Records as frames in batches. format.md section 3.3.

pub mod batch;
pub(crate) mod chunk;
pub mod encoded;
#[cfg(feature = "encryption")]
pub mod encrypted;
pub(crate) mod encrypted_sizes;
pub mod frame;
pub(crate) mod lz4;
#[cfg(not(feature = "encryption"))]
pub mod not_encrypted;
pub(crate) mod scan;
pub(crate) mod step;
