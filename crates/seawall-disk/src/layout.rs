//! Block and sector sizes, and conversions between sizes in memory and on the device.

/// The unit in which the device is written. Smaller runs wait for more bytes, up to a second.
pub const BLOCK_SIZE: usize = 4096;

/// The unit that a device writes or loses as a whole.
pub const SECTOR_SIZE: usize = 512;

/// The source of zeros for writes of zeros.
pub(crate) static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// Converts a size of something that is, or will be, in memory.
pub(crate) fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
