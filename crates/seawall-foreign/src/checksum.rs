//! The checksum of foreign logs.

/// CRC-32 of IEEE 802.3, as used by zip and Ethernet.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}
