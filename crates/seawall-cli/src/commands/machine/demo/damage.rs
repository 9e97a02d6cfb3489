//! One flipped bit: what the log says of it, and what plain JSON lines say.

use super::earthquake::{Catalogue, Earthquake};
use super::stage::trouble;
use crate::output::report::Failure;
use seawall::damage::Lost;
use seawall::format::{Offset, SegmentId};
use seawall::{Error, LogReader, Lsn};
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{SegmentHeader, batch, frame};
use seawall_io::{Access, Entropy, PosixStorage, SeededEntropy, Storage};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The copy of the log that is damaged.
pub(super) const COPY: &str = "damaged.wal";

/// What the flip did.
#[derive(Debug)]
pub(super) struct Damaged {
    pub(super) lsn: u64,
    pub(super) magnitude: f64,
    pub(super) place: String,
    /// What `verify` says is lost.
    pub(super) named: String,
    /// It is that record, and nothing else.
    pub(super) is_named: bool,
    /// Records besides the damaged one.
    pub(super) others: u64,
    /// All of them are read around the damage, and the damaged one is not.
    pub(super) others_read: bool,
    /// The magnitude that a plain text log reads after one flipped bit.
    pub(super) misread: f64,
    pub(super) lines: u64,
    pub(super) lines_that_parse: u64,
}

impl Damaged {
    pub(super) fn holds(&self) -> bool {
        self.is_named && self.others_read
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "lsn": self.lsn,
            "lost": self.named,
            "named_exactly": self.is_named,
            "others": self.others,
            "others_read": self.others_read,
            "json_lines": {
                "written": self.magnitude,
                "read": self.misread,
                "lines": self.lines,
                "lines_that_parse": self.lines_that_parse,
            },
        })
    }
}

/// Copies the log into `folder`, flips a bit of one record there, and looks.
pub(super) fn flip_one_bit(
    log: &Path,
    folder: &Path,
    catalogue: &Catalogue,
    dice: &SeededEntropy,
) -> Result<Damaged, Failure> {
    let damaged = folder.join(COPY);
    let fail = |error| Failure::of(&error, "demo", &damaged);
    let copied = |error| trouble("copy the log", &error);
    let copy = copy_log(log, &damaged).map_err(copied)?;
    let last = seawall::Maintenance::at(&damaged).verify().map_err(fail)?.records;
    let draw = || dice.random().map_err(|error| trouble("draw a number", &error));
    // Not at an end, so that there are neighbours on both sides.
    let lsn = Lsn::new(2 + draw()? % last.saturating_sub(2).max(1)).expect("not 0");
    let (segment, place, payload) = find(&copy, lsn).map_err(copied)?;
    let at = draw()? % u64::try_from(payload.len()).expect("a record is small");
    flip(&copy, (&segment.file_name(), place.0 + at), draw()? % 8).map_err(copied)?;
    let event: Earthquake = rmp_serde::from_slice(&payload)
        .map_err(|error| trouble("read the record", &io::Error::other(error)))?;
    let (named, is_named) = what_verify_says(&damaged, lsn).map_err(fail)?;
    let read = read_around(&damaged, lsn).map_err(fail)?;
    let plain = flip_in_plain_text(folder, &event).map_err(copied)?;
    debug_assert!(catalogue.knows(&payload), "records are events");
    Ok(Damaged {
        lsn: lsn.get(),
        magnitude: event.mag,
        place: event.place,
        named,
        is_named,
        others: last - 1,
        others_read: read == Some(last - 1),
        misread: plain.misread,
        lines: plain.lines,
        lines_that_parse: plain.parsed,
    })
}

pub(super) fn copy_log(source: &Path, target: &Path) -> io::Result<PosixStorage> {
    let (source, target) = (PosixStorage::open(source)?, PosixStorage::create(target)?);
    for name in source.list()? {
        let bytes = read_all(&source, &name)?;
        target.create(&name)?.write_at(&bytes, 0)?;
    }
    Ok(target)
}

fn read_all(storage: &PosixStorage, name: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(name, Access::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or_default()];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The place of a record's payload, and its bytes.
pub(super) fn find(log: &PosixStorage, lsn: Lsn) -> io::Result<(SegmentId, Offset, Vec<u8>)> {
    let missing = || io::Error::other(format!("record {lsn} is nowhere"));
    let ids: Vec<_> =
        log.list()?.iter().filter_map(|name| SegmentId::from_file_name(name)).collect();
    // The newest one that can hold it: what recovery carried over counts there.
    for id in ids.into_iter().rev() {
        let bytes = read_all(log, &id.file_name())?;
        let header = SegmentHeader::decode(&bytes).map_err(|_| missing())?;
        if header.base <= lsn {
            let (place, payload) = find_in(&bytes, &header, lsn).ok_or_else(missing)?;
            return Ok((id, place, payload));
        }
    }
    Err(missing())
}

fn find_in(bytes: &[u8], header: &SegmentHeader, lsn: Lsn) -> Option<(Offset, Vec<u8>)> {
    let length = u64::try_from(bytes.len()).ok()?;
    let mut scanner = Scanner::new(header, length, Limit::Open);
    while let Step::Batch(found) = scanner.step(Window { start: Offset(0), bytes }) {
        let (mut position, mut number) = (0, found.header.first);
        while let Some((record, behind)) = frame::read(&found.body, position, number) {
            if number == lsn {
                let before = batch::HEADER_SIZE + position + frame::HEADER_SIZE;
                let place = Offset(found.offset.0 + u64::try_from(before).ok()?);
                return Some((place, record.payload.to_vec()));
            }
            (position, number) = (behind, number.next());
        }
    }
    None
}

pub(super) fn flip(log: &PosixStorage, (name, offset): (&str, u64), bit: u64) -> io::Result<()> {
    let file = log.open(name, Access::ReadWrite)?;
    let mut byte = [0];
    file.read_at(&mut byte, offset)?;
    file.write_at(&byte.map(|byte| byte ^ (1 << bit)), offset)
}

/// What is lost, in words; whether that is `lsn` alone.
fn what_verify_says(log: &Path, lsn: Lsn) -> seawall::Result<(String, bool)> {
    let found = seawall::Maintenance::at(log).verify()?;
    let lost: Vec<Lost> = found.damage.iter().filter_map(|damage| damage.lost).collect();
    let words: Vec<String> = lost.iter().map(Lost::to_string).collect();
    let named = if words.is_empty() { "nothing is lost".to_owned() } else { words.join(", ") };
    Ok((format!("lost: {named}"), lost == [Lost::new(lsn, Some(lsn))]))
}

/// How many records are read around the damage; `None` if the damaged one is among them.
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

struct PlainText {
    misread: f64,
    lines: u64,
    parsed: u64,
}

/// The same events as JSON lines: one bit of a digit is flipped, and the file is read back.
fn flip_in_plain_text(folder: &Path, event: &Earthquake) -> io::Result<PlainText> {
    let storage = PosixStorage::open(folder)?;
    let text = Catalogue::lines();
    let file = storage.create("earthquakes.jsonl")?;
    file.write_at(text.as_bytes(), 0)?;
    let at = digit_of(text, event).ok_or_else(|| io::Error::other("the event is not there"))?;
    flip(&storage, ("earthquakes.jsonl", at), 0)?;
    let bytes = read_all(&storage, "earthquakes.jsonl")?;
    let mut found = PlainText { misread: f64::NAN, lines: 0, parsed: 0 };
    for line in String::from_utf8_lossy(&bytes).lines() {
        found.lines += 1;
        if let Ok(read) = serde_json::from_str::<Earthquake>(line) {
            found.parsed += 1;
            if read.id == event.id {
                found.misread = read.mag;
            }
        }
    }
    Ok(found)
}

/// The place of the last digit of the event's magnitude; one bit of it is flipped.
fn digit_of(text: &str, event: &Earthquake) -> Option<u64> {
    let line = text.find(&format!("\"id\":\"{}\"", event.id))?;
    let value = line + text.get(line..)?.find("\"mag\":")? + "\"mag\":".len();
    let length = text.get(value..)?.find(',')?;
    u64::try_from(value + length - 1).ok()
}

/// Damages a log of two hundred events by 24 lots: the log, and a new folder for each.
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
