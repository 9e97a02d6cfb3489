//! Records as frames in batches. format.md section 3.3.

pub mod batch;
pub(crate) mod changed;
pub(crate) mod chunk;
pub(crate) mod compressor;
pub mod encoded;
#[cfg(feature = "encryption")]
pub mod encrypted;
pub(crate) mod encrypted_sizes;
pub mod frame;
#[cfg(feature = "lz4")]
pub(crate) mod lz4;
#[cfg(not(feature = "encryption"))]
pub mod not_encrypted;
pub(crate) mod scan;
pub(crate) mod step;
#[cfg(feature = "zstd")]
pub(crate) mod zstd;
