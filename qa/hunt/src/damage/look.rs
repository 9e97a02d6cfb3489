//! Uses a damaged log in four ways (verify, read, open, strict open) and returns the results.

use super::image::Image;
use super::sample::{RECORDS, options, payload};
use super::scratch::Scratch;
use seawall::damage::{Damage, Lost};
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Log, LogReader, Lsn, OpenMode, Raw, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// After this many errors the reader is taken to loop.
const ERRORS_MAX: usize = 1000;

/// The results for a damaged log.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) verdict: Verdict,
    /// The damage that `verify` reports.
    pub(super) damage: Vec<Damage>,
    /// Number of damaged places that `verify` could restore from parity.
    pub(super) mended: usize,
    /// Segment, offset and length of a torn or ambiguous tail.
    pub(super) tail: Option<(u64, u64, u64)>,
    /// The records delivered by a reader that skips damage, without an open writer.
    pub(super) reader: Reading,
    /// The result of an open for append in the default mode.
    pub(super) open: Opened,
    /// The result of an open for append in strict mode.
    pub(super) strict: Opened,
}

/// The records that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Records delivered with exactly the bytes that were written.
    pub(super) intact: BTreeSet<Lsn>,
    /// Other delivered records: different bytes, out of order, or never written.
    pub(super) wrong: Vec<Lsn>,
    /// Records that errors reported as lost.
    pub(super) lost: Vec<Lost>,
    /// Errors that must not occur.
    pub(super) troubles: Vec<String>,
}

/// The result of an open for append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The open succeeded. Holds the records read afterwards, and any error of a further append.
    Yes(Reading),
    /// The open was refused with this error.
    No(String),
}

/// Verifies and reads a copy of the log, and opens two more copies: in the default and in strict
/// mode.
pub(super) fn look(image: &Image) -> io::Result<Seen> {
    let scratch = Scratch::new()?;
    image.write(scratch.path())?;
    let found = seawall::Maintenance::at(scratch.path()).verify().map_err(io::Error::other)?;
    let reader = LogReader::<[u8], Raw>::open(scratch.path()).map_err(io::Error::other)?;
    let entries = reader.skip_damaged(true).read_from(Lsn::FIRST).map_err(io::Error::other)?;
    // Blocks restored from parity stay damaged on disk until a repair, even if the log continues.
    let sound = if found.mended.is_empty() { Verdict::Clean } else { Verdict::Correctable };
    Ok(Seen {
        verdict: found.verdict,
        tail: tail(&found),
        mended: found.mended.len(),
        damage: found.damage,
        reader: read(entries),
        open: open(image, (OpenMode::Standard, sound))?,
        strict: open(image, (OpenMode::Strict, sound))?,
    })
}

fn tail(found: &Verification) -> Option<(u64, u64, u64)> {
    let (segment, offset) = found.tail_at.filter(|_| found.tail_bytes > 0)?;
    Some((segment.get(), offset.0, found.tail_bytes))
}

fn read<P: AsRef<[u8]>>(entries: impl Iterator<Item = Result<(Lsn, P)>>) -> Reading {
    let mut reading = Reading::default();
    let mut last = None;
    for entry in entries {
        match entry {
            Ok((lsn, bytes)) => {
                let is_next = Some(lsn) > last && lsn.get() <= RECORDS;
                last = Some(lsn);
                if is_next && bytes.as_ref() == payload(lsn) {
                    reading.intact.insert(lsn);
                } else {
                    reading.wrong.push(lsn);
                }
            }
            Err(Error::Damaged { damage, .. }) => reading.lost.extend(damage.lost),
            Err(error) => reading.troubles.push(format!("the reader fails: {error}")),
        }
        let errors = reading.lost.len() + reading.troubles.len();
        if errors > ERRORS_MAX || reading.wrong.len() > ERRORS_MAX {
            reading.troubles.push("the reader goes in circles".to_owned());
            break;
        }
    }
    reading
}

fn open(image: &Image, (mode, sound): (OpenMode, Verdict)) -> io::Result<Opened> {
    let scratch = Scratch::new()?;
    image.write(scratch.path())?;
    let opened = options().create(false).mode(mode).open(scratch.path());
    let log: Log<[u8], Raw> = match opened {
        Ok(log) => log,
        Err(error @ (Error::Damaged { .. } | Error::Ambiguous { .. })) => {
            return Ok(Opened::No(error.to_string()));
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    let mut reading = read(log.read_from(Lsn::FIRST).map_err(io::Error::other)?);
    if let Err(trouble) = goes_on(log, scratch.path(), sound) {
        reading.troubles.push(format!("opened, and does not go on: {trouble}"));
    }
    Ok(Opened::Yes(reading))
}

/// Checks that an append succeeds and that the log then has verdict `Clean` or `sound`.
fn goes_on(log: Log<[u8], Raw>, folder: &Path, sound: Verdict) -> Result<(), String> {
    log.append(b"and on").map_err(|error| error.to_string())?;
    log.close().map_err(|error| error.to_string())?;
    let found = seawall::Maintenance::at(folder).verify().map_err(|error| error.to_string())?;
    let is_sound = found.verdict == Verdict::Clean || found.verdict == sound;
    if is_sound { Ok(()) } else { Err(found.verdict.name().to_owned()) }
}
