//! Sizes of blocks and sectors, and how they become numbers on the device.

/// What a device writes at once. Smaller runs wait for more, up to a second.
pub const BLOCK_SIZE: usize = 4096;

/// What a device writes or loses as a whole.
pub const SECTOR_SIZE: usize = 512;

/// What zeroing writes, again and again.
pub(crate) static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

/// A size of something that is in memory, or is about to be.
pub(crate) fn to_usize(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
