//! `live`: the durable end that the running writer publishes to readers. format.md section 5.

use crate::checksum::Salt;
use crate::fields::{get, put, slice, slice_mut, table};
use crate::ids::{LogId, Lsn, Offset, SegmentRef, lsn_or_zero};

table! {
    CRC = 0, 4, "crc";
    MAGIC = 4, 4, "magic";
    LOG_ID = 8, 8, "log id";
    BOOT_ID = 16, 16, "boot id";
    SEGMENT_ID = 32, 8, "segment id";
    SEGMENT_EPOCH = 40, 8, "segment epoch";
    DURABLE = 48, 8, "durable";
    TIME = 56, 8, "time";
}

const SIZE: usize = 64;

/// How far readers of a running log may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Which log.
    pub log: LogId,
    /// The boot of the machine for which the file is valid; during another boot it says nothing.
    pub boot_id: [u8; 16],
    /// The newest segment.
    pub segment: SegmentRef,
    /// The last durable record.
    pub durable: Option<Lsn>,
    /// Microseconds since 1970; informational.
    pub time_us: u64,
}

impl Live {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        slice_mut(&mut bytes, MAGIC).copy_from_slice(b"LIVE");
        put(&mut bytes, LOG_ID, self.log.0);
        slice_mut(&mut bytes, BOOT_ID).copy_from_slice(&self.boot_id);
        put(&mut bytes, SEGMENT_ID, self.segment.id.get());
        put(&mut bytes, SEGMENT_EPOCH, self.segment.epoch.0);
        put(&mut bytes, DURABLE, lsn_or_zero(self.durable));
        put(&mut bytes, TIME, self.time_us);
        Salt::of_log(self.log).put_checksum(Offset(0), &mut bytes, CRC);
        bytes
    }

    /// Decodes the file; `None` if it is not valid.
    #[must_use]
    pub fn decode(file: &[u8]) -> Option<Self> {
        let bytes = file.first_chunk::<SIZE>()?;
        let log = LogId(get(bytes, LOG_ID));
        if !Salt::of_log(log).matches(Offset(0), bytes, CRC) || slice(bytes, MAGIC) != b"LIVE" {
            return None;
        }
        let segment = SegmentRef::from_numbers(get(bytes, SEGMENT_ID), get(bytes, SEGMENT_EPOCH))?;
        let boot_id = slice(bytes, BOOT_ID).try_into().expect("a field of 16 bytes");
        let durable = Lsn::new(get(bytes, DURABLE));
        Some(Self { log, boot_id, segment, durable, time_us: get(bytes, TIME) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::behind;

    fn sample(durable: Option<Lsn>) -> Live {
        Live {
            log: LogId(3),
            boot_id: *b"0123456789abcdef",
            segment: SegmentRef::from_numbers(7, 77).unwrap(),
            durable,
            time_us: 5,
        }
    }

    #[test]
    fn live_file_is_read_back() {
        for said in [sample(Lsn::new(9)), sample(None)] {
            assert_eq!(Live::decode(&said.encode()), Some(said));
        }
    }

    #[test]
    fn flipped_bits_and_truncation_of_live_are_detected() {
        let good = sample(Lsn::new(9)).encode();
        for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Live::decode(&bytes), None, "bit {bit}");
        }
        assert_eq!(Live::decode(&good[..63]), None);
    }

    #[test]
    fn a_sound_checksum_is_no_excuse() {
        for (field, number) in [(MAGIC, 0), (SEGMENT_ID, 0)] {
            let mut bytes = sample(None).encode();
            put(&mut bytes, field, number);
            let crc = Salt::of_log(LogId(3)).checksum(Offset(0), behind(&bytes, CRC));
            put(&mut bytes, CRC, u64::from(crc));
            assert_eq!(Live::decode(&bytes), None, "{field:?}");
        }
    }
}
