//! Uses a damaged log in four ways and records the results.

use super::image::Image;
use super::sample::{RECORDS, options, payload};
use super::scratch::Scratch;
use seawall::damage::{Damage, Lost};
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Log, LogReader, Lsn, OpenMode, Raw, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// After this many errors a reader counts as looping.
const ERRORS_MAX: usize = 1000;

/// The results for a damaged log.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) verdict: Verdict,
    /// The damage that `verify` reports.
    pub(super) damage: Vec<Damage>,
    /// Number of places that `verify` restored from parity.
    pub(super) mended: usize,
    /// Segment, offset and length of a torn or ambiguous tail.
    pub(super) tail: Option<(u64, u64, u64)>,
    /// A reader that skips damage, without a writer.
    pub(super) reader: Reading,
    /// An ordinary open for append.
    pub(super) open: Opened,
    /// A strict open for append.
    pub(super) strict: Opened,
}

/// The records that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// Records with exactly the bytes that were written.
    pub(super) intact: BTreeSet<Lsn>,
    /// Other records: other bytes, another order, or never written.
    pub(super) wrong: Vec<Lsn>,
    /// Records that errors reported as lost.
    pub(super) lost: Vec<Lost>,
    /// Failures that must not happen.
    pub(super) troubles: Vec<String>,
}

/// The result of an open for append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// The records read afterwards; another append succeeded and left the log undamaged.
    Yes(Reading),
    /// The open was refused, with this error.
    No(String),
}

/// Uses the log in four ways, each on its own copy.
pub(super) fn look(image: &Image) -> io::Result<Seen> {
    let scratch = Scratch::new()?;
    image.write(scratch.path())?;
    let found = seawall::Maintenance::at(scratch.path()).verify().map_err(io::Error::other)?;
    let reader = LogReader::<[u8], Raw>::open(scratch.path()).map_err(io::Error::other)?;
    let entries = reader.skip_damaged(true).read_from(Lsn::FIRST).map_err(io::Error::other)?;
    // Blocks restored from parity stay damaged on disk until a repair; the log continues.
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

/// Whether an append succeeds and leaves the log as it should be.
fn goes_on(log: Log<[u8], Raw>, folder: &Path, sound: Verdict) -> Result<(), String> {
    log.append(b"and on").map_err(|error| error.to_string())?;
    log.close().map_err(|error| error.to_string())?;
    let found = seawall::Maintenance::at(folder).verify().map_err(|error| error.to_string())?;
    let is_sound = found.verdict == Verdict::Clean || found.verdict == sound;
    if is_sound { Ok(()) } else { Err(found.verdict.name().to_owned()) }
}
