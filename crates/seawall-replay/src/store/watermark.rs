//! How far a store is, and in which history: what every batch keeps with its writes.

use crate::store::error::StoreError;
use seawall::Lsn;
use seawall::format::{LogId, RecordId};

/// How far one lane of a replay has come in a store, and in which log.
///
/// A number alone would not do: another log has the same numbers, and a log that was truncated
/// gives them to other records. So the last commit is kept as a [`RecordId`], and is compared with
/// the log's record before anything else is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The log that it belongs to; `None` in one that a version kept which did not note it.
    pub log: Option<LogId>,
    /// The commit of the last transaction whose changes it has applied, those of its keys.
    pub applied: Option<RecordId>,
    /// Where reading begins to go on from there: no transaction that is committed later began
    /// before.
    pub restart: Lsn,
    /// How many lanes the keys were dealt out to.
    pub lanes: u32,
}

/// How keys are dealt out to lanes; stands in each watermark, as another way would tear keys.
const DEAL: u32 = 1;

/// Bytes of a watermark that names neither a log nor a record.
const SIZE_WITHOUT_LOG: usize = 24;

impl Watermark {
    /// Bytes of a watermark in a store.
    pub const SIZE: usize = 44;

    /// That of a store with one lane, which has applied this commit of this log.
    #[must_use]
    pub fn new(log: LogId, applied: Option<RecordId>, restart: Lsn) -> Self {
        Self { log: Some(log), applied, restart, lanes: 1 }
    }

    /// The number of the last commit.
    #[must_use]
    pub fn applied_lsn(&self) -> Option<Lsn> {
        self.applied.map(|record| record.lsn)
    }

    /// The first record that the log must keep: where reading begins, or the last commit, which
    /// shows that the store belongs to the log.
    #[must_use]
    pub fn needed_from(&self) -> Lsn {
        self.applied_lsn().map_or(self.restart, |applied| applied.min(self.restart))
    }

    /// As a store keeps it, little-endian: number of the last commit (8 bytes, 0 for none), restart
    /// (8), lanes (4), the way in which keys are dealt out to them (4), log (8, 0 for none), time
    /// (8) and checksum (4) of the last commit.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let RecordId { time_us, crc, .. } =
            self.applied.unwrap_or(RecordId { lsn: Lsn::FIRST, time_us: 0, crc: 0 });
        let fields = self.applied_lsn().map_or(0, Lsn::get).to_le_bytes().into_iter();
        let fields = fields.chain(self.restart.get().to_le_bytes());
        let fields = fields.chain(self.lanes.to_le_bytes()).chain(DEAL.to_le_bytes());
        let fields = fields.chain(self.log.map_or(0, |log| log.0).to_le_bytes());
        let fields = fields.chain(time_us.to_le_bytes()).chain(crc.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        bytes
    }

    /// The watermark that a store has kept; one of 24 bytes, without a log, is taken too.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if these bytes are not a watermark, or are of a release that deals
    /// keys out in another way.
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
        let lanes = u32::try_from(field(16, 4)?).map_err(|_| wrong())?;
        let restart = Lsn::new(field(8, 8)?).ok_or_else(wrong)?;
        let applied = Lsn::new(field(0, 8)?).map(|lsn| RecordId { lsn, time_us, crc });
        Ok(Self { log: Some(LogId(log)).filter(|log| log.0 != 0), applied, restart, lanes })
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
        Watermark { lanes: 4, ..new }
    }

    #[test]
    fn a_watermark_is_read_back_and_nothing_else_passes_for_one() {
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
    fn a_watermark_of_an_earlier_version_names_no_log() {
        let read = Watermark::from_bytes(&mark().to_bytes()[..24]).unwrap();
        assert_eq!(
            (read.log, read.applied_lsn(), read.restart),
            (None, Some(lsn(1 << 40)), lsn(77))
        );
        assert_eq!(Watermark::from_bytes(&read.to_bytes()).unwrap(), read);
    }

    #[test]
    fn the_last_commit_is_needed_as_well_as_what_is_open() {
        let at = |applied: u64, restart: u64| {
            let applied = RecordId { lsn: lsn(applied), time_us: 0, crc: 0 };
            Watermark::new(LogId(1), Some(applied), lsn(restart)).needed_from().get()
        };
        assert_eq!([at(9, 10), at(9, 4)], [9, 4]);
        assert_eq!(Watermark::new(LogId(1), None, lsn(7)).needed_from(), lsn(7));
    }
}
