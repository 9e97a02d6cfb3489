//! The source of a conversion: a file in a foreign format, or a log.

use super::place::{Place, unreadable};
use crate::args::{Convert, ForeignFormat};
use crate::commands::foreign::{entries, recognised};
use crate::commands::opener::Opener;
use crate::commands::records::intact::damage_from;
use seawall::damage::Lost;
use seawall::format::{CodecId, SegmentId};
use seawall::recovery::TailState;
use seawall::{Cursor, Error, Lsn};
use seawall_foreign::{Damage, Entries, Remark, Stop};
use seawall_io::{Access, File, Storage};
use seawall_output::report::{Exit, Failure};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open source.
pub(super) struct Source {
    pub(super) format: ForeignFormat,
    /// The codec of its entries, if the format defines it.
    pub(super) codec: Option<CodecId>,
    /// Whether the entries have a type name or a schema number.
    pub(super) is_typed: bool,
    pub(super) entries: Box<dyn Entries>,
    /// The size in bytes, if known.
    pub(super) size: Option<u64>,
}

impl Source {
    pub(super) fn open(args: &Convert, opener: &Opener) -> Result<Self, Failure> {
        let path = &args.source;
        match args.from {
            Some(ForeignFormat::Seawall) => Self::open_log(path, opener),
            None if path.is_dir() => Self::open_log(path, opener),
            None => Self::recognise(path),
            Some(format) => {
                let (file, size) = open_file(path)?;
                Ok(Self::of(format, &file, size))
            }
        }
    }

    /// Detects the format from the first entry. Formats with checksums are tried first.
    fn recognise(path: &Path) -> Result<Self, Failure> {
        let (file, size) = open_file(path)?;
        if size == 0 {
            let failure = Failure::new(Exit::Format, "this file is empty").at(path.display());
            return Err(failure.next("give its format with --from, if it should be empty"));
        }
        let found = recognised(&file).map_err(|error| unreadable(path, error))?;
        if let Some(format) = found {
            return Ok(Self::of(format, &file, size));
        }
        let what = "the first entry is not cwal, cwal-text, msgpack or json";
        let failure = Failure::new(Exit::Format, what).at(path.display());
        Err(failure.next("give its format with --from, if its beginning is damaged"))
    }

    fn of(format: ForeignFormat, file: &Arc<dyn File>, size: u64) -> Self {
        let codec = match format {
            ForeignFormat::Json => Some(CodecId::Json),
            ForeignFormat::Msgpack => Some(CodecId::MessagePack),
            _ => None,
        };
        let entries = entries(format, file);
        Self { format, codec, is_typed: false, entries, size: Some(size) }
    }

    /// Returns the location of the current entry, as text to append to the path.
    pub(super) fn place(&self) -> String {
        match self.format {
            ForeignFormat::Seawall => format!(", LSN {}", self.entries.position()),
            _ => format!(", byte {}", self.entries.position()),
        }
    }

    fn open_log(path: &Path, opener: &Opener) -> Result<Self, Failure> {
        let fail = |error: Error| Failure::of(&error, "convert", path);
        let reader = opener.reader(path).map_err(fail)?.skip_damaged(true);
        let oldest = reader.oldest().map_err(fail)?;
        let cursor = reader.cursor(oldest).map_err(fail)?;
        let records = Records {
            path: path.to_owned(),
            opener: opener.clone(),
            cursor,
            from: oldest,
            next: oldest,
            entries: 0,
            lent: (oldest, vec![]),
            remarks: vec![],
        };
        Ok(Self {
            format: ForeignFormat::Seawall,
            codec: Some(reader.codec()),
            is_typed: reader.schema() > 0 || !reader.type_name().is_empty(),
            entries: Box::new(records),
            size: None,
        })
    }
}

fn open_file(path: &Path) -> Result<(Arc<dyn File>, u64), Failure> {
    let place = Place::find_real(path)?;
    let file = place.folder.open(&place.name, Access::Read);
    let file = file.map_err(|error| unreadable(path, error))?;
    let size = file.len().map_err(|error| unreadable(path, error))?;
    Ok((file, size))
}

/// Reads the records of a log up to the first lost one.
struct Records {
    path: PathBuf,
    opener: Opener,
    cursor: Cursor,
    from: Lsn,
    /// The LSN expected next.
    next: Lsn,
    entries: u64,
    lent: (Lsn, Vec<u8>),
    remarks: Vec<Remark>,
}

impl Records {
    /// Verifies the log after the last record: only this tells whether that is the end of the log.
    fn judge_end(&mut self) -> Result<(), Stop> {
        let found = self.opener.maintenance(&self.path).verify().map_err(Stop::Log)?;
        if let Some(damage) = damage_from(&found, self.from).next() {
            return Err(self.damaged(damage));
        }
        let behind = found.given_up.into_iter().filter(|lost| lost.from >= self.next);
        self.remarks.extend(behind.map(Remark::GivenUp));
        if found.tail == TailState::Ambiguous {
            self.remarks.push(Remark::UnsureTail);
        }
        Ok(())
    }

    fn damaged(&self, damage: &seawall::damage::Damage) -> Stop {
        Stop::Damaged(Damage {
            entry: self.entries + 1,
            offset: damage.offset.0,
            cause: damage.cause.name(),
            why: damage.to_string(),
            segment: damage.segment.map(SegmentId::get),
            harmless: damage.lost.is_none(),
        })
    }
}

impl Entries for Records {
    fn next(&mut self) -> Result<Option<&[u8]>, Stop> {
        loop {
            match self.cursor.next_record() {
                // No record is lost, so continue; verification at the end reports the damage.
                Err(Error::Damaged { damage, .. }) if damage.lost.is_none() => {}
                Err(Error::Damaged { damage, .. }) => return Err(self.damaged(&damage)),
                Err(error) => return Err(Stop::Log(error)),
                Ok(None) => {
                    self.judge_end()?;
                    return Ok(None);
                }
                Ok(Some(record)) => {
                    // Lost records would have ended the iteration, so a repair gave up the missing
                    // records.
                    let (from, to) = (self.next, record.lsn.previous());
                    if let Some(to) = to.filter(|to| from <= *to) {
                        self.remarks.push(Remark::GivenUp(Lost::new(from, Some(to))));
                    }
                    self.next = record.lsn.next();
                    self.lent.0 = record.lsn;
                    self.lent.1.clear();
                    self.lent.1.extend_from_slice(record.payload);
                    break;
                }
            }
        }
        self.entries += 1;
        Ok(Some(&self.lent.1))
    }

    /// The position of a record is its LSN.
    fn position(&self) -> u64 {
        self.lent.0.get()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.remarks.clone()
    }
}
