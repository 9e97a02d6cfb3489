//! Erases part of the damaged copy: lost records are named, all others go to a new log.

use super::damage;
use super::earthquake::Earthquake;
use super::stage::trouble;
use seawall::damage::Lost;
use seawall::{LogReader, Lsn, Maintenance};
use seawall_io::{Entropy, PosixStorage, SeededEntropy};
use seawall_output::report::Failure;
use serde::Serialize;
use std::io;
use std::path::Path;

/// Two blocks of the disk.
pub(super) const ERASED: usize = 8192;

/// The result of the rescue.
#[derive(Debug, Serialize)]
pub(super) struct Rescue {
    pub(super) erased_bytes: usize,
    /// The lost records in words.
    pub(super) lost: String,
    pub(super) lost_records: u64,
    /// The number of records in the new log.
    pub(super) rescued: u64,
    /// Whether the new log has every record not named as lost, with its LSN, and nothing else.
    pub(super) all_others: bool,
}

/// Erases part of the already damaged copy of `log`, and rescues the rest.
pub(super) fn erase_and_rescue(
    log: &Path,
    folder: &Path,
    dice: &SeededEntropy,
) -> Result<Rescue, Failure> {
    let (damaged, rescued) = (folder.join(damage::COPY), folder.join("rescued.wal"));
    erase(log, &damaged, dice).map_err(|error| trouble("erase a part of the copy", &error))?;
    let fail = |error| Failure::of(&error, "demo", &damaged);
    let found = Maintenance::at(&damaged).verify().map_err(fail)?;
    let lost: Vec<Lost> = found.damage.iter().filter_map(|damage| damage.lost).collect();
    let done = Maintenance::at(&damaged).salvage(&rescued).map_err(fail)?;
    let fail = |error| Failure::of(&error, "demo", &rescued);
    let is_sound = Maintenance::at(&rescued).verify().map_err(fail)?.damage.is_empty();
    let is_rest = is_rest_of(&rescued, log, &lost).map_err(fail)?;
    Ok(Rescue {
        erased_bytes: ERASED,
        lost: in_words(&lost),
        lost_records: lost.iter().map(count).sum(),
        rescued: done.records,
        all_others: !lost.is_empty() && done.records == found.records && is_sound && is_rest,
    })
}

/// Overwrites some records in the middle with zeros. The undamaged log gives their offset.
fn erase(log: &Path, damaged: &Path, dice: &SeededEntropy) -> io::Result<()> {
    let last = Maintenance::at(log).verify().map_err(io::Error::other)?.records;
    let draw = dice.random()? % last.div_ceil(3).max(1);
    let lsn = Lsn::new(1 + last / 3 + draw).expect("not 0");
    let found = damage::find(&PosixStorage::open(log)?, lsn)?;
    damage::erase(damaged, &found.file, found.at, ERASED)
}

/// The lost records in words, with adjacent ranges merged.
fn in_words(lost: &[Lost]) -> String {
    let mut ranges: Vec<Lost> = vec![];
    for next in lost {
        match ranges.last_mut() {
            Some(range) if range.to.map(Lsn::next) == Some(next.from) => range.to = next.to,
            _ => ranges.push(*next),
        }
    }
    let words: Vec<String> = ranges.iter().map(Lost::to_string).collect();
    words.join(", ")
}

/// Whether `rescued` has exactly the records of `log` that are not `lost`.
pub(super) fn is_rest_of(rescued: &Path, log: &Path, lost: &[Lost]) -> seawall::Result<bool> {
    let open = |path: &Path| -> seawall::Result<_> {
        let reader: LogReader<Earthquake> = LogReader::open(path)?;
        reader.read_from(Lsn::FIRST)
    };
    let mut rest = open(rescued)?;
    for entry in open(log)? {
        let (lsn, event) = entry?;
        if lost.iter().any(|lost| holds(lost, lsn)) {
            continue;
        }
        if rest.next().transpose()? != Some((lsn, event)) {
            return Ok(false);
        }
    }
    Ok(rest.next().is_none())
}

fn holds(lost: &Lost, lsn: Lsn) -> bool {
    lost.from <= lsn && lost.to.is_none_or(|to| lsn <= to)
}

fn count(lost: &Lost) -> u64 {
    lost.to.map_or(0, |to| to.get() - lost.from.get() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::machine::demo::damage::by_lot;

    /// Flips one bit at various places in a log of one segment; the erased region may come after
    /// that bit.
    #[test]
    fn rescue_works_for_every_flipped_bit() {
        by_lot("seawall-rescue", |(log, folder), catalogue, dice| {
            let damaged = damage::flip_one_bit(log, folder, catalogue, dice);
            assert!(damaged.expect("a copy").holds(), "{folder:?}");
            let rescue = erase_and_rescue(log, folder, dice);
            assert!(rescue.expect("a copy").all_others, "{folder:?}");
        });
    }
}
