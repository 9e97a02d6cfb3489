//! Sizes that several structures have to agree on.

/// The smallest piece that a device writes or loses as a whole, in bytes.
pub const SECTOR: usize = 512;

/// Bytes of a batch before its frames.
pub(crate) const BATCH_HEADER: usize = 48;

/// Bytes of a frame before its payload.
pub(crate) const FRAME_HEADER: usize = 8;

/// Miri is a thousand times slower: there, a test that tries every bit tries one in this many.
#[cfg(test)]
pub(crate) const EVERY: usize = if cfg!(miri) { 101 } else { 1 };
