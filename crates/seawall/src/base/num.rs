//! Conversions between integers that cannot fail on the supported targets.

/// Bytes per read: fits the second-level cache.
pub(crate) const READ_SIZE: u64 = 256 << 10;

#[inline]
pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}
