//! The checksum of foreign logs.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32 of IEEE 802.3, as used by zip and Ethernet.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}

/// The same checksum of bytes that arrive in parts.
pub(crate) struct Crc32(Digest);

impl Crc32 {
    pub(crate) fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.finalize()
    }
}
