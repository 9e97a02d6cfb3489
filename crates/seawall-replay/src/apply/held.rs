//! The records of a small replay: read once, and kept decoded for the second pass.

use crate::apply::partitions::{Chunk, weight_of};
use crate::error::Result;
use crate::source::Source;
use seawall::Lsn;

/// Up to this many records, of up to this many bytes, are kept.
const RECORDS_MAX: usize = 65_536;
const BYTES_MAX: usize = 16 << 20;

/// Decoded records from the first one that a replay reads.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) records: Chunk,
    /// The first record that was not read; `None` if all were.
    pub(crate) next: Option<Lsn>,
}

impl Held {
    /// No records, before `next`.
    pub(crate) fn none(next: Lsn) -> Self {
        Self { records: vec![], next: Some(next) }
    }

    /// Reads the records from `from` to `until`, or as many as are kept.
    pub(crate) fn read(source: &dyn Source, (from, until): (Lsn, Option<Lsn>)) -> Result<Self> {
        let (mut records, mut weight): (Chunk, usize) = (vec![], 0);
        for entry in source.operations(from)? {
            let next = Some(records.last().map_or(from, |(record, _)| record.lsn.next()));
            // The pass that applies reports an error after it has applied what is before.
            let Ok((record, operation)) = entry else { return Ok(Self { records, next }) };
            if until.is_some_and(|until| record.lsn > until) {
                break;
            }
            weight += operation.as_ref().map_or(0, weight_of);
            if records.len() == RECORDS_MAX || weight > BYTES_MAX {
                return Ok(Self { records, next: Some(record.lsn) });
            }
            records.push((record, operation));
            if until == Some(record.lsn) {
                break;
            }
        }
        Ok(Self { records, next: None })
    }

    /// The records, if these are all.
    pub(crate) fn all(self) -> Option<Chunk> {
        self.next.is_none().then_some(self.records)
    }
}
