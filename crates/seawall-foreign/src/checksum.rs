//! The checksum that other logs use.

/// CRC-32 of IEEE 802.3, as zip and Ethernet have it.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}
