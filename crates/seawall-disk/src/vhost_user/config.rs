//! The features and the configuration that the device reports to the guest.

/// The most queues.
pub const QUEUES_MAX: usize = 16;
/// The most requests that a queue may hold.
pub(super) const QUEUE_SIZE: usize = 1024;
/// The most segments of a request, without its header and its status.
pub(super) const SEGMENTS_MAX: u32 = 126;
/// The most bytes of a segment.
const SEGMENT_SIZE_MAX: u32 = 256 << 10;
/// The most bytes of a request.
pub(super) const REQUEST_MAX: u32 = SEGMENTS_MAX * SEGMENT_SIZE_MAX;
/// The most sectors that one request sets to zero.
pub(super) const ZERO_SECTORS_MAX: u32 = 8192;
/// The unit of all offsets and sizes, in bytes.
pub(super) const SECTOR: u64 = 512;
/// The length of the serial number.
pub(super) const SERIAL_SIZE: usize = 20;
/// The most bytes of configuration that the protocol can ask for.
const SIZE: usize = 256;

/// Bits of the features, as the virtio specification numbers them.
mod feature {
    pub(super) const SEGMENT_SIZE_MAX: u64 = 1 << 1;
    pub(super) const SEGMENTS_MAX: u64 = 1 << 2;
    pub(super) const BLOCK_SIZE: u64 = 1 << 6;
    pub(super) const FLUSH: u64 = 1 << 9;
    pub(super) const TOPOLOGY: u64 = 1 << 10;
    pub(super) const QUEUES: u64 = 1 << 12;
    pub(super) const WRITE_ZEROES: u64 = 1 << 14;
    pub(super) const INDIRECT: u64 = 1 << 28;
    pub(super) const EVENT_INDEX: u64 = 1 << 29;
    pub(super) const VHOST_USER_PROTOCOL: u64 = 1 << 30;
    pub(super) const VERSION_1: u64 = 1 << 32;
}

/// All features that the device offers.
pub(super) const FEATURES: u64 = feature::SEGMENT_SIZE_MAX
    | feature::SEGMENTS_MAX
    | feature::BLOCK_SIZE
    | feature::FLUSH
    | feature::TOPOLOGY
    | feature::QUEUES
    | feature::WRITE_ZEROES
    | feature::INDIRECT
    | feature::EVENT_INDEX
    | feature::VHOST_USER_PROTOCOL
    | feature::VERSION_1;

/// Whether a guest that has accepted these features sends flushes.
pub(super) fn has_flushes(accepted: u64) -> bool {
    accepted & feature::FLUSH != 0
}

/// Returns a part of the configuration space of a disk of `size` bytes; no bytes if the part
/// exceeds the space.
///
/// ```text
/// byte  size  field
///    0     8  sectors of 512 bytes
///    8     4  most bytes of a segment
///   12     4  most segments of a request
///   20     4  logical block size
///   24     1  physical block size: 2^n logical blocks
///   26     2  smallest size of efficient requests, in logical blocks
///   34     2  queues
///   48     4  most sectors of a request to zero
///   52     4  most ranges of such a request
/// ```
pub(super) fn read(size: u64, offset: u32, length: u32) -> Vec<u8> {
    let mut space = [0; SIZE];
    let mut put = |at: usize, bytes: &[u8]| {
        space.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    put(0, &(size / SECTOR).to_le_bytes());
    put(8, &SEGMENT_SIZE_MAX.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &512_u32.to_le_bytes());
    put(24, &[3]);
    put(26, &8_u16.to_le_bytes());
    put(34, &u16::try_from(QUEUES_MAX).unwrap_or(u16::MAX).to_le_bytes());
    put(48, &ZERO_SECTORS_MAX.to_le_bytes());
    put(52, &1_u32.to_le_bytes());
    let at = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
    let part = space.get(at(offset)..at(offset.saturating_add(length)));
    part.unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_beyond_the_configuration_is_empty() {
        assert_eq!(read(1 << 20, 0, 8), 2048_u64.to_le_bytes());
        assert_eq!(read(1 << 20, 0, 256).len(), 256);
        for (offset, length) in [(0, 257), (256, 1), (u32::MAX, u32::MAX)] {
            assert!(read(1 << 20, offset, length).is_empty(), "{offset} {length}");
        }
    }
}
