//! The records of a small replay: read once, and kept for the second pass.

use crate::apply::partitions::{Chunk, weight_of};
use crate::error::Result;
use crate::operation::Operation;
use crate::record_summary::RecordSummary;
use crate::small::packed::PackedLog;
use crate::source::Source;
use seawall::Lsn;
use seawall::format::RecordId;

/// The maximum number of records kept, and their maximum size in bytes.
const RECORDS_MAX: usize = 65_536;
const BYTES_MAX: usize = 16 << 20;

/// The first records that a replay reads.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) records: Records,
    /// The first record that was not read; `None` if all were read.
    pub(crate) next: Option<Lsn>,
}

/// Records that were read.
#[derive(Debug)]
pub(crate) enum Records {
    /// All records, packed.
    Packed(PackedLog),
    /// All records, decoded, because at least one has no packed form.
    Decoded(Chunk),
}

impl Held {
    /// Holds no records. `next` is the first one to read.
    pub(crate) fn none(next: Lsn) -> Self {
        Self { records: Records::Packed(PackedLog::default()), next: Some(next) }
    }

    /// Reads the records from `from` to `until`, or as many as the limits permit.
    pub(crate) fn read(source: &dyn Source, (from, until): (Lsn, Option<Lsn>)) -> Result<Self> {
        let mut records = Records::Packed(PackedLog::default());
        let (mut next, mut weight) = (from, 0);
        for entry in source.operations(from)? {
            // Planning continues at this record and reports the damage. If planning can skip the
            // damage, the second pass reports it.
            let Ok((record, operation)) = entry else {
                return Ok(Self { records, next: Some(next) });
            };
            if until.is_some_and(|until| record.lsn > until) {
                break;
            }
            weight += operation.as_ref().map_or(0, weight_of);
            if records.count() == RECORDS_MAX || weight > BYTES_MAX {
                return Ok(Self { records, next: Some(record.lsn) });
            }
            next = record.lsn.next();
            records.add(record, operation)?;
            if until == Some(record.lsn) {
                break;
            }
        }
        Ok(Self { records, next: None })
    }

    /// Returns the records if all were read.
    pub(crate) fn all(self) -> Option<Records> {
        self.next.is_none().then_some(self.records)
    }
}

impl Records {
    /// The number of records.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Packed(log) => log.count(),
            Self::Decoded(records) => records.len(),
        }
    }

    /// Returns the summaries of the records.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = (Lsn, Option<RecordSummary>)> {
        let (packed, decoded) = match self {
            Self::Packed(log) => (Some(log.summaries()), &[][..]),
            Self::Decoded(records) => (None, records.as_slice()),
        };
        let summary = |(record, operation): &(RecordId, Option<Operation>)| {
            (record.lsn, operation.as_ref().map(RecordSummary::from))
        };
        packed.into_iter().flatten().chain(decoded.iter().map(summary))
    }

    fn add(&mut self, record: RecordId, operation: Option<Operation>) -> Result<()> {
        if let Self::Packed(log) = self {
            if log.add(record, operation.as_ref())? {
                return Ok(());
            }
            *self = Self::Decoded(log.unpack()?);
        }
        if let Self::Decoded(records) = self {
            records.push((record, operation));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::{Change, Operation};
    use crate::source::{Operations, RecordSummaries};
    use crate::store::memory::MemoryStore;
    use crate::{Error, RecordSummary, Replay};
    use seawall::format::{LogId, RecordId};

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    /// A log of `count` changes, of which record `broken` cannot be read.
    struct Log {
        count: u64,
        broken: u64,
        /// Whether the first pass reads summaries without decoding the broken record.
        has_summary: bool,
    }

    impl Source for Log {
        fn log_id(&self) -> seawall::Result<LogId> {
            Ok(LogId(1))
        }

        fn record_id(&self, lsn: Lsn) -> seawall::Result<Option<RecordId>> {
            Ok(Some(RecordId { lsn, time_us: 0, crc: 0 }))
        }

        fn oldest(&self) -> seawall::Result<Lsn> {
            Ok(Lsn::FIRST)
        }

        fn operations(&self, from: Lsn) -> seawall::Result<Operations<'_>> {
            let read = |number: u64| {
                if number == self.broken {
                    let source = std::io::ErrorKind::Other.into();
                    return Err(seawall::Error::Io { log: None, what: "read".to_owned(), source });
                }
                let change = Change::put("", number.to_le_bytes(), "value");
                let record = RecordId { lsn: lsn(number), time_us: 0, crc: 0 };
                Ok((record, Some(Operation::from(change))))
            };
            Ok(Box::new((from.get()..=self.count).map(read)))
        }

        fn summaries(&self, from: Lsn) -> seawall::Result<RecordSummaries<'_>> {
            let broken = if self.has_summary { 0 } else { self.broken };
            let read = move |number: u64| {
                if number == broken {
                    self.operations(lsn(number))?.next().unwrap()?;
                }
                Ok((lsn(number), Some(RecordSummary::Atomic(1))))
            };
            Ok(Box::new((from.get()..=self.count).map(read)))
        }
    }

    #[test]
    fn unreadable_record_ends_a_small_replay_with_its_error() {
        for has_summary in [false, true] {
            let (log, store) = (Log { count: 9, broken: 4, has_summary }, MemoryStore::new());
            let error = Replay::new().run(&log, &store).unwrap_err();
            assert!(matches!(error, Error::Log(_)), "{error}");
            // If the first pass skips the damage, all records before it are applied.
            assert_eq!(store.rows("").len(), if has_summary { 3 } else { 0 });
        }
    }

    #[test]
    fn small_and_large_logs_are_applied_whole() {
        let edge = u64::try_from(RECORDS_MAX).unwrap();
        for count in [0, 1, 3, edge, edge + 1, edge + 700] {
            let (log, store) = (Log { count, broken: 0, has_summary: true }, MemoryStore::new());
            let held = Held::read(&log, (Lsn::FIRST, None)).unwrap();
            assert_eq!(held.next, (count > edge).then(|| lsn(edge + 1)));
            let report = Replay::new().run(&log, &store).unwrap();
            assert_eq!((report.applied, report.last), (count, Lsn::new(count)));
            let rows = u64::try_from(store.rows("").len()).unwrap();
            assert_eq!(rows, count);
        }
    }

    #[test]
    fn replay_until_a_record_keeps_no_later_one() {
        let (log, store) = (Log { count: 9, broken: 7, has_summary: false }, MemoryStore::new());
        let report = Replay::new().until(lsn(6)).run(&log, &store).unwrap();
        assert_eq!((report.applied, store.rows("").len()), (6, 6));
    }
}
