//! Flips one bit, and compares what the log and plain JSON lines report.

use super::earthquake::{Catalogue, Earthquake};
use super::stage::trouble;
use seawall::damage::Lost;
use seawall::format::SegmentId;
use seawall::{Error, LogReader, Lsn, Maintenance};
use seawall_format::{SegmentHeader, frame};
use seawall_host::read_start;
use seawall_io::{Access, Entropy, PosixStorage, SeededEntropy, Storage};
use seawall_output::report::Failure;
use seawall_output::text::to_u64;
use serde::Serialize;
use std::io;
use std::path::Path;

/// The copy of the log that is damaged.
pub(super) const COPY: &str = "damaged.wal";

/// The effect of the flipped bit.
#[derive(Debug, Serialize)]
pub(super) struct Damaged {
    pub(super) lsn: u64,
    /// The lost records according to `verify`.
    pub(super) lost: String,
    /// Whether `verify` names the damaged record and no other.
    pub(super) named_exactly: bool,
    /// Records other than the damaged one.
    pub(super) others: u64,
    /// Whether all other records, and not the damaged one, can be read.
    pub(super) others_read: bool,
    pub(super) json_lines: JsonLines,
    #[serde(skip)]
    pub(super) place: String,
}

/// The effect of one flipped bit on the same events stored as JSON lines.
#[derive(Debug, Serialize)]
pub(super) struct JsonLines {
    /// The magnitude of the event; `read` is the magnitude that is read instead.
    pub(super) written: f64,
    pub(super) read: f64,
    pub(super) lines: u64,
    pub(super) lines_that_parse: u64,
}

impl Damaged {
    pub(super) fn holds(&self) -> bool {
        self.named_exactly && self.others_read
    }
}

/// Copies the log into `folder`, flips a bit of one record in the copy, and reads it.
pub(super) fn flip_one_bit(
    log: &Path,
    folder: &Path,
    catalogue: &Catalogue,
    dice: &SeededEntropy,
) -> Result<Damaged, Failure> {
    let damaged = folder.join(COPY);
    let fail = |error| Failure::of(&error, "demo", &damaged);
    Maintenance::at(log).back_up(&damaged).map_err(fail)?;
    let records = Maintenance::at(&damaged).verify().map_err(fail)?.records;
    let draw = dice.random().map_err(|error| trouble("draw a number", &error))?;
    // Not the first or last record, so that it has neighbours on both sides.
    let lsn = Lsn::new(2 + draw % records.saturating_sub(2).max(1)).expect("not 0");
    let Found { payload, .. } =
        flip_in(&damaged, lsn, dice).map_err(|error| trouble("damage the copy", &error))?;
    debug_assert!(catalogue.knows(&payload), "records are events");
    let event: Earthquake = rmp_serde::from_slice(&payload)
        .map_err(|error| trouble("read the record", &io::Error::other(error)))?;
    let (lost, named_exactly) = what_verify_says(&damaged, lsn).map_err(fail)?;
    let read = read_around(&damaged, lsn).map_err(fail)?;
    let json_lines = flip_in_json_lines(&event)
        .ok_or_else(|| trouble("find the event", &io::ErrorKind::NotFound.into()))?;
    Ok(Damaged {
        lsn: lsn.get(),
        lost,
        named_exactly,
        others: records - 1,
        others_read: read == Some(records - 1),
        json_lines,
        place: event.place,
    })
}

/// A place in a record's payload: the file, the offset in the file, and the whole payload.
pub(super) struct Found {
    pub(super) file: String,
    pub(super) at: u64,
    pub(super) payload: Vec<u8>,
}

/// Finds a record by its frame, which is valid for this record alone.
pub(super) fn find(log: &PosixStorage, lsn: Lsn) -> io::Result<Found> {
    let mut files = log.list()?;
    files.retain(|file| SegmentId::from_file_name(file).is_some());
    // Newest segment first: of a record that recovery carried over, the newer copy counts.
    for file in files.into_iter().rev() {
        let bytes = read_start(&*log.open(&file, Access::Read)?, u64::MAX)?;
        let salt = SegmentHeader::decode(&bytes).map_err(io::Error::other)?.salt();
        let read = |at| Some((at, frame::read(&bytes, at, lsn)?.0.payload));
        let is_it = |(at, payload): &(usize, &[u8])| {
            !payload.is_empty() && frame::is_valid(&bytes, *at, lsn, &salt)
        };
        if let Some((at, payload)) = (0..bytes.len()).step_by(8).filter_map(read).find(is_it) {
            let (at, payload) = (to_u64(at + frame::HEADER_SIZE), payload.to_vec());
            return Ok(Found { file, at, payload });
        }
    }
    Err(io::Error::other(format!("record {lsn} is nowhere")))
}

/// Flips a bit of a record's payload. Returns the place of that byte, and the original payload.
pub(super) fn flip_in(log: &Path, lsn: Lsn, dice: &SeededEntropy) -> io::Result<Found> {
    let log = PosixStorage::open(log)?;
    let mut found = find(&log, lsn)?;
    found.at += dice.random()? % to_u64(found.payload.len());
    let file = log.open(&found.file, Access::ReadWrite)?;
    let mut byte = [0];
    file.read_at(&mut byte, found.at)?;
    let bit = dice.random()? % 8;
    file.write_at(&byte.map(|byte| byte ^ (1 << bit)), found.at)?;
    Ok(found)
}

/// Overwrites `size` bytes from `start` on with zeros, but does not extend the file.
pub(super) fn erase(log: &Path, file: &str, start: u64, size: usize) -> io::Result<()> {
    let file = PosixStorage::open(log)?.open(file, Access::ReadWrite)?;
    let left = usize::try_from(file.len()?.saturating_sub(start)).unwrap_or(size);
    file.write_at(&vec![0; left.min(size)], start)
}

/// Returns the lost records in words, and whether `lsn` is the only lost record.
fn what_verify_says(log: &Path, lsn: Lsn) -> seawall::Result<(String, bool)> {
    let found = Maintenance::at(log).verify()?;
    let lost: Vec<Lost> = found.damage.iter().filter_map(|damage| damage.lost).collect();
    let words: Vec<String> = lost.iter().map(Lost::to_string).collect();
    let named = if words.is_empty() { "nothing is lost".to_owned() } else { words.join(", ") };
    Ok((format!("lost: {named}"), lost == [Lost::new(lsn, Some(lsn))]))
}

/// Counts the readable records; `None` if the damaged one is among them.
fn read_around(log: &Path, lsn: Lsn) -> seawall::Result<Option<u64>> {
    let reader: LogReader<Earthquake> = LogReader::open(log)?.skip_damaged(true);
    let mut read = 0;
    for entry in reader.read_from(Lsn::FIRST)? {
        match entry {
            Ok((found, _)) if found == lsn => return Ok(None),
            Ok(_) => read += 1,
            Err(Error::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(read))
}

/// Takes the same events as JSON lines, flips one bit of a digit, and parses the lines.
fn flip_in_json_lines(event: &Earthquake) -> Option<JsonLines> {
    let mut text = Catalogue::lines().as_bytes().to_vec();
    *text.get_mut(digit_of(Catalogue::lines(), event)?)? ^= 1;
    let lines = String::from_utf8_lossy(&text);
    let read = lines.lines().map(serde_json::from_str::<Earthquake>);
    let parsed: Vec<Earthquake> = read.filter_map(Result::ok).collect();
    let misread = parsed.iter().find(|read| read.id == event.id);
    Some(JsonLines {
        written: event.mag,
        read: misread.map_or(f64::NAN, |read| read.mag),
        lines: to_u64(lines.lines().count()),
        lines_that_parse: to_u64(parsed.len()),
    })
}

/// Finds the last digit of the event's magnitude.
fn digit_of(text: &str, event: &Earthquake) -> Option<usize> {
    let line = text.find(&format!("\"id\":\"{}\"", event.id))?;
    let value = line + text.get(line..)?.find("\"mag\":")? + "\"mag\":".len();
    let length = text.get(value..)?.find(',')?;
    Some(value + length - 1)
}

/// Damages a log of two hundred events in 24 random ways, each in a new folder.
#[cfg(test)]
pub(super) fn by_lot(name: &str, damage: impl Fn((&Path, &Path), &Catalogue, &SeededEntropy)) {
    let place = seawall_measure::scratch::Scratch::new(&std::env::temp_dir(), name);
    let place = place.expect("a folder");
    let log = place.path().join("earthquakes.wal");
    let catalogue = Catalogue::read().expect("the events are in the program");
    let opened: seawall::Log<Earthquake> = seawall::Log::open(&log).expect("a new log");
    for number in 0..200 {
        opened.append(catalogue.event(number)).expect("there is room");
    }
    opened.close().expect("there is room");
    for seed in 0..24 {
        let folder = place.path().join(seed.to_string());
        PosixStorage::create(&folder).expect("a new folder");
        damage((&log, &folder), &catalogue, &SeededEntropy::new(seed));
    }
}
