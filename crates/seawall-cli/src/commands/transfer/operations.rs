//! Reads a log of operations with any codec.

use crate::args::Until;
use seawall::format::{CodecId, LogId, RecordId};
use seawall::versioned::Versioned;
use seawall::{Cursor, Error, LogReader, Lsn, Raw, Record};
use seawall_format::nesting::{TOO_DEEP, is_shallow};
use seawall_output::report::{Exit, Failure};
use seawall_replay::{Operation, Operations, RecordSummaries, Source, known_id};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::path::Path;

/// The operations in a log, stored as `MessagePack`, JSON, or bytes that contain JSON.
pub(crate) struct OperationLog(LogReader<[u8], Raw>);

impl OperationLog {
    pub(crate) fn new(reader: LogReader<[u8], Raw>) -> Self {
        Self(reader)
    }

    /// The last record to read for a replay that ends at `until`; `None` for all.
    pub(crate) fn last_until(
        &self,
        until: Option<Until>,
        log: &Path,
    ) -> Result<Option<Lsn>, Failure> {
        let time_us = match until {
            None => return Ok(None),
            Some(Until::Lsn(lsn)) => return Ok(Some(lsn)),
            Some(Until::Time(time_us)) => time_us,
        };
        let found = self.written_by(time_us);
        let (last, later) = found.map_err(|error| Failure::of(&error, "replay", log))?;
        match later {
            Some(first) if last.is_none() => {
                let shown = seawall_format::time::to_text(first).unwrap_or_default();
                let what = format!("the log begins after that time, at {shown}");
                Err(Failure::new(Exit::Usage, what).at(log.display()).next("give a later time"))
            }
            Some(_) => Ok(last),
            // The whole log was written by that time.
            None => Ok(None),
        }
    }

    fn decoded<T>(&self, from: Lsn) -> Result<Decoded<T>, Error> {
        let (cursor, codec) = (self.0.cursor(from)?, self.0.codec());
        let is_named = self.0.type_name() == Operation::NAME;
        Ok(Decoded { cursor, codec, is_named, item: PhantomData })
    }

    /// Finds the last record written by a time, and when the next one was written.
    fn written_by(&self, time_us: u64) -> Result<(Option<Lsn>, Option<u64>), Error> {
        let mut cursor = self.0.cursor(self.0.oldest()?)?;
        let mut last = None;
        loop {
            match cursor.next_record() {
                Ok(Some(record)) if record.time_us > time_us => {
                    return Ok((last, Some(record.time_us)));
                }
                Ok(Some(record)) => last = Some(record.lsn),
                Ok(None) => return Ok((last, None)),
                // Follows the last record. The replay reports it.
                Err(Error::Damaged { damage, .. }) if damage.lost.is_none() => {
                    return Ok((last, None));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Source for OperationLog {
    fn log_id(&self) -> Result<LogId, Error> {
        known_id(&self.0)
    }

    fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>, Error> {
        self.0.record_id(lsn)
    }

    fn oldest(&self) -> Result<Lsn, Error> {
        self.0.oldest()
    }

    fn operations(&self, from: Lsn) -> Result<Operations<'_>, Error> {
        let (mut decoded, layout) = (self.decoded(from)?, self.0.layout());
        let next = move || decoded.next(|record| RecordId::of(record, layout));
        Ok(Box::new(std::iter::from_fn(next)))
    }

    fn summaries(&self, from: Lsn) -> Result<RecordSummaries<'_>, Error> {
        let mut decoded = self.decoded(from)?;
        Ok(Box::new(std::iter::from_fn(move || decoded.next(|record| record.lsn))))
    }
}

/// Decodes records to operations or to their summaries.
struct Decoded<T> {
    cursor: Cursor,
    codec: CodecId,
    /// Whether the log stores the type name of operations; only then are record schemas checked.
    is_named: bool,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Decoded<T> {
    /// Decodes the next record; `name` gives its identity.
    fn next<N>(
        &mut self,
        name: impl Fn(&Record<'_>) -> N,
    ) -> Option<Result<(N, Option<T>), Error>> {
        let (codec, is_named) = (self.codec, self.is_named);
        let decode = |record: &Record<'_>| {
            let decoded = match record.schema {
                newer if is_named && newer > Operation::SCHEMA => {
                    Err(format!("it has schema {newer}, of a newer version").into())
                }
                _ => decode(codec, record.payload).map_err(seawall::CodecError::from),
            };
            let lsn = record.lsn;
            let decoded = decoded.map_err(|source| Error::decode(lsn, source))?;
            Ok((name(record), Some(decoded)))
        };
        match self.cursor.next_record() {
            Ok(record) => record.as_ref().map(decode),
            Err(error) => Some(Err(error)),
        }
    }
}

fn decode<T: DeserializeOwned>(codec: CodecId, payload: &[u8]) -> Result<T, String> {
    match codec {
        // Both are decoded in the same way.
        CodecId::MessagePack | CodecId::Positional if !is_shallow(payload) => Err(TOO_DEEP.into()),
        CodecId::MessagePack | CodecId::Positional => {
            rmp_serde::from_slice(payload).map_err(|error| error.to_string())
        }
        _ => serde_json::from_slice(payload).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::{Codec, Json, MessagePack, Options, Positional};
    use seawall_measure::scratch::Scratch;
    use seawall_replay::{Change, TxId};

    fn operations() -> Vec<Operation> {
        let put = Change::put("t", [0xff, 1], "v");
        vec![Operation::Begin(TxId(7)), Operation::Change(TxId(7), put), Operation::Commit(TxId(7))]
    }

    fn read<C: Codec<Operation>>(name: &str) -> Vec<Operation> {
        let scratch = Scratch::new(&std::env::temp_dir(), name).unwrap();
        let path = scratch.path().join("log");
        let log = Options::new().open::<Operation, C>(&path).unwrap();
        log.append_batch(&operations()).unwrap();
        log.close().unwrap();
        let source = OperationLog::new(LogReader::open_any(&path).unwrap());
        source.operations(Lsn::FIRST).unwrap().map(|read| read.unwrap().1.unwrap()).collect()
    }

    #[test]
    fn operations_of_every_codec_are_read() {
        assert_eq!(read::<MessagePack>("seawall-operations-named"), operations());
        assert_eq!(read::<Positional>("seawall-operations-placed"), operations());
        assert_eq!(read::<Json>("seawall-operations-json"), operations());
        assert_eq!(decode(CodecId::Raw, br#"{"abort":3}"#), Ok(Operation::Abort(TxId(3))));
        decode::<Operation>(CodecId::Raw, b"no operation").unwrap_err();
        // An unknown member is skipped level by level, so its nesting is limited too.
        let unknown = [&[0x81, 0xa1, b'x'], vec![0x91; 100_000].as_slice()].concat();
        let skipped = decode::<Operation>(CodecId::MessagePack, &unknown).unwrap_err();
        assert_eq!(skipped, TOO_DEEP);
        decode::<Operation>(CodecId::Json, br#"{"commit":"three"}"#).unwrap_err();
    }
}
