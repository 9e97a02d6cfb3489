//! Watermarks: the progress of a replay, which every batch stores with its writes.

use crate::store::error::StoreError;
use seawall::Lsn;
use seawall::format::{LogId, RecordId};

/// The progress of one partition of a store, and the log that it was replayed from.
///
/// An LSN alone is not enough: another log has the same LSNs, and after a truncation other records
/// get them. So the last commit is stored as a [`RecordId`] and compared with the log's record
/// before anything else is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The id of the log; `None` in a watermark of an earlier version, which did not store it.
    pub log: Option<LogId>,
    /// The last commit whose changes the partition has applied.
    pub applied: Option<RecordId>,
    /// The first record to read when continuing: no transaction that commits later began before it.
    pub restart: Lsn,
    /// The number of partitions.
    pub partitions: u32,
}

/// The algorithm that assigns keys to partitions. Stored, because another algorithm would move keys
/// between partitions.
const DEAL: u32 = 1;

/// The size of a watermark without a log id, in bytes.
const SIZE_WITHOUT_LOG: usize = 24;

impl Watermark {
    /// The size of an encoded watermark, in bytes.
    pub const SIZE: usize = 44;

    /// Creates the watermark of a store with one partition that has applied `applied` of this log.
    #[must_use]
    pub fn new(log: LogId, applied: Option<RecordId>, restart: Lsn) -> Self {
        Self { log: Some(log), applied, restart, partitions: 1 }
    }

    /// Returns the LSN of the last commit.
    #[must_use]
    pub fn applied_lsn(&self) -> Option<Lsn> {
        self.applied.map(|record| record.lsn)
    }

    /// Returns the first record that the log must keep: where reading starts, or the last commit if
    /// it is earlier. The last commit proves that the store belongs to the log.
    #[must_use]
    pub fn needed_from(&self) -> Lsn {
        self.applied_lsn().map_or(self.restart, |applied| applied.min(self.restart))
    }

    /// Encodes the watermark. All numbers are little-endian:
    ///
    /// ```text
    /// byte  size  field
    ///    0     8  LSN of the last commit, 0 for none
    ///    8     8  restart
    ///   16     4  number of partitions
    ///   20     4  algorithm that assigns keys to partitions
    ///   24     8  log id, 0 for none
    ///   32     8  time of the last commit
    ///   40     4  checksum of the last commit
    /// ```
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let RecordId { time_us, crc, .. } =
            self.applied.unwrap_or(RecordId { lsn: Lsn::FIRST, time_us: 0, crc: 0 });
        let fields = self.applied_lsn().map_or(0, Lsn::get).to_le_bytes().into_iter();
        let fields = fields.chain(self.restart.get().to_le_bytes());
        let fields = fields.chain(self.partitions.to_le_bytes()).chain(DEAL.to_le_bytes());
        let fields = fields.chain(self.log.map_or(0, |log| log.0).to_le_bytes());
        let fields = fields.chain(time_us.to_le_bytes()).chain(crc.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        bytes
    }

    /// Decodes a watermark, also one of 24 bytes without a log id.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the bytes are not a watermark, or if another algorithm assigned
    /// keys to partitions.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = || StoreError::failed(format!("{bytes:02x?} is not a watermark"));
        let field = |at: usize, size: usize| {
            let mut field = [0; 8];
            let found = bytes.get(at..at + size).ok_or_else(wrong)?;
            field.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
            Ok(u64::from_le_bytes(field))
        };
        let has_log = bytes.len() == Self::SIZE;
        if !(has_log || bytes.len() == SIZE_WITHOUT_LOG) || field(20, 4)? != u64::from(DEAL) {
            return Err(wrong());
        }
        let (log, time_us, crc) =
            if has_log { (field(24, 8)?, field(32, 8)?, field(40, 4)?) } else { (0, 0, 0) };
        let crc = u32::try_from(crc).map_err(|_| wrong())?;
        let partitions = u32::try_from(field(16, 4)?).map_err(|_| wrong())?;
        let restart = Lsn::new(field(8, 8)?).ok_or_else(wrong)?;
        let applied = Lsn::new(field(0, 8)?).map(|lsn| RecordId { lsn, time_us, crc });
        Ok(Self { log: Some(LogId(log)).filter(|log| log.0 != 0), applied, restart, partitions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    fn mark() -> Watermark {
        let applied = RecordId { lsn: lsn(1 << 40), time_us: 1 << 50, crc: 0xdead_beef };
        let new = Watermark::new(LogId(0x0123_4567_89ab_cdef), Some(applied), lsn(77));
        Watermark { partitions: 4, ..new }
    }

    #[test]
    fn watermark_is_read_back_and_other_bytes_are_refused() {
        let bytes = mark().to_bytes();
        assert_eq!(Watermark::from_bytes(&bytes).unwrap(), mark());
        let none = Watermark { applied: None, ..mark() };
        assert_eq!(Watermark::from_bytes(&none.to_bytes()).unwrap(), none);
        for size in (0..Watermark::SIZE).filter(|size| *size != SIZE_WITHOUT_LOG) {
            Watermark::from_bytes(&bytes[..size]).unwrap_err();
        }
        Watermark::from_bytes(&[0; 24]).unwrap_err();
        Watermark::from_bytes(&[0; 44]).unwrap_err();
        let mut other = bytes;
        other[20] = 2;
        Watermark::from_bytes(&other).unwrap_err();
    }

    #[test]
    fn watermark_of_an_earlier_version_has_no_log_id() {
        let read = Watermark::from_bytes(&mark().to_bytes()[..24]).unwrap();
        assert_eq!(
            (read.log, read.applied_lsn(), read.restart),
            (None, Some(lsn(1 << 40)), lsn(77))
        );
        assert_eq!(Watermark::from_bytes(&read.to_bytes()).unwrap(), read);
    }

    #[test]
    fn log_must_keep_the_last_commit_and_open_transactions() {
        let at = |applied: u64, restart: u64| {
            let applied = RecordId { lsn: lsn(applied), time_us: 0, crc: 0 };
            Watermark::new(LogId(1), Some(applied), lsn(restart)).needed_from().get()
        };
        assert_eq!([at(9, 10), at(9, 4)], [9, 4]);
        assert_eq!(Watermark::new(LogId(1), None, lsn(7)).needed_from(), lsn(7));
    }
}
