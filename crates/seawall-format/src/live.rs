//! `live`: what the running writer tells readers on the same boot. FORMAT.md section 5.

use crate::field::{behind, get, get_u32, put, slice, slice_mut, table};
use crate::{LogId, Lsn, Offset, Salt, SegmentRef, lsn_or_zero};

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

/// How far readers beside the writer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Which log.
    pub log: LogId,
    /// The run of the machine that this is about; on another one it says nothing.
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
        let crc = Salt::of_log(self.log).checksum(Offset(0), behind(&bytes, CRC));
        put(&mut bytes, CRC, u64::from(crc));
        bytes
    }

    /// What the file says, if it is valid.
    #[must_use]
    pub fn decode(file: &[u8]) -> Option<Self> {
        let bytes = file.first_chunk::<SIZE>()?;
        let log = LogId(get(bytes, LOG_ID));
        let crc = Salt::of_log(log).checksum(Offset(0), behind(bytes, CRC));
        if crc != get_u32(bytes, CRC) || slice(bytes, MAGIC) != b"LIVE" {
            return None;
        }
        let segment = SegmentRef::from_numbers(get(bytes, SEGMENT_ID), get(bytes, SEGMENT_EPOCH))?;
        let boot_id = slice(bytes, BOOT_ID).try_into().expect("a field of 16 bytes");
        let durable = Lsn::new(get(bytes, DURABLE));
        Some(Self { log, boot_id, segment, durable, time_us: get(bytes, TIME) })
    }
}
