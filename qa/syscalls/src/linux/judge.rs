//! Reads the log that a workload left, and compares it with the output of the workload.

use super::config::{content, keys, thread_of};
use super::witness::{Keys, Known, Witness};
use seawall::encryption::{Key, Padding};
use seawall::{Error, Json, Log, LogReader, Lsn, Maintenance, Options};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Number of each record that was read, by LSN.
type Found = BTreeMap<u64, u64>;

/// The number of the record that the judge appends; no workload uses it.
const AFTER: u64 = 999_998;

/// Returns descriptions of the promises that are broken in `folder`. `lags`: `live` could not be
/// written, so a copy made while the writer runs may lack the newest records: guarantees.md,
/// section 5.
pub(super) fn broken(
    folder: &Path,
    witness: &Witness,
    (is_encrypted, lags): (bool, bool),
) -> Vec<String> {
    let mut broken: Vec<String> =
        witness.wrong.iter().map(|wrong| format!("the workload saw: {wrong}")).collect();
    let log = JudgedLog { path: &folder.join("log"), is_encrypted };
    let promised = !witness.known.must.is_empty();
    if promised || log.path.exists() {
        let shown = look_back(log, &witness.known, promised, &mut broken);
        append_after(log, &witness.known, &shown, &mut broken);
    }
    if let Some(mut known) = witness.copied.clone() {
        if lags {
            known.must.clear();
        }
        let copy = JudgedLog { path: &folder.join("copy"), is_encrypted };
        look_back(copy, &known, true, &mut broken);
    }
    broken
}

/// A log that a run left.
#[derive(Clone, Copy)]
struct JudgedLog<'a> {
    path: &'a Path,
    is_encrypted: bool,
}

impl JudgedLog<'_> {
    /// Returns the key that opens the log, if it is encrypted.
    fn key(self, may: Keys, broken: &mut Vec<String>) -> Option<Key> {
        if !self.is_encrypted {
            return None;
        }
        let opens = keys().map(|key| {
            let opened = Options::new().key(key).open_any_reader(self.path);
            !matches!(opened, Err(Error::Key { .. }))
        });
        let is_right = match may {
            Keys::First => opens == [true, false],
            Keys::Either => opens != [false, false],
            Keys::Second => opens == [false, true],
        };
        if !is_right {
            broken.push(format!("the first and second key open it: {opens:?}, not {may:?}"));
        }
        keys().into_iter().zip(opens).find_map(|(key, opens)| opens.then_some(key))
    }
}

fn with_key(key: Option<&Key>) -> Options {
    key.cloned().into_iter().fold(Options::new(), Options::key)
}

/// Verifies and reads the log without opening it for append; returns the records read.
fn look_back(log: JudgedLog<'_>, known: &Known, promised: bool, broken: &mut Vec<String>) -> Found {
    // A failed creation may have left a log that is not encrypted yet.
    let mut ignored = vec![];
    let key = log.key(known.keys, if promised { broken } else { &mut ignored });
    let maintenance = Maintenance::at(log.path);
    match key.iter().cloned().fold(maintenance, Maintenance::key).verify() {
        Ok(found) if found.damage.is_empty() => {}
        Ok(found) => broken.push(format!("verify names damage: {:?}", found.damage)),
        // A failed creation has promised nothing.
        Err(_) if !promised => {}
        Err(error) => broken.push(format!("verify: {error}")),
    }
    let reader = with_key(key.as_ref()).open_reader(log.path);
    let read = reader.and_then(|reader: LogReader<Value, Json>| {
        collect(reader.read_from(reader.oldest()?)?, broken)
    });
    match read {
        Ok(found) => {
            compare(known, &found, broken);
            found
        }
        Err(_) if !promised => Found::new(),
        Err(error) => {
            broken.push(format!("reading: {error}"));
            Found::new()
        }
    }
}

/// Opens the log and appends a record. The open may find records that were being written: more than
/// a reader was shown, never fewer.
fn append_after(log: JudgedLog<'_>, known: &Known, shown: &Found, broken: &mut Vec<String>) {
    let mut all = known.clone();
    all.must.extend(shown);
    let mut options = Options::new();
    if log.is_encrypted {
        let [first, _] = keys();
        let found = log.key(known.keys, &mut vec![]);
        options = options.key(found.unwrap_or(first)).encrypt(Padding::Off);
    }
    let appended = options.open(log.path).and_then(|log: Log<Value, Json>| {
        let found = collect(log.read_from(log.oldest())?, broken)?;
        compare(&all, &found, broken);
        let lsn = log.append(&content(AFTER))?.get();
        if found.last_key_value().is_some_and(|(last, _)| lsn != last + 1) {
            broken.push(format!("the next append got number {lsn} in vain"));
        }
        all.must.extend(found);
        all.must.insert(lsn, AFTER);
        all.tried.insert(AFTER);
        log.close()
    });
    match appended {
        Ok(()) => {
            look_back(log, &all, true, broken);
        }
        Err(error) => broken.push(format!("the next append: {error}")),
    }
}

fn collect(
    entries: impl Iterator<Item = seawall::Result<(Lsn, Value)>>,
    broken: &mut Vec<String>,
) -> seawall::Result<Found> {
    let mut found = Found::new();
    for entry in entries {
        let (lsn, value) = entry?;
        match value.get("n").and_then(Value::as_u64) {
            Some(n) if value == content(n) => {
                found.insert(lsn.get(), n);
            }
            _ => broken.push(format!("record {lsn} has other content")),
        }
    }
    Ok(found)
}

fn compare(known: &Known, found: &Found, broken: &mut Vec<String>) {
    for (lsn, n) in known.must.range(known.needed_from..) {
        match found.get(lsn) {
            Some(there) if there == n => {}
            Some(there) => broken.push(format!("number {lsn}: record {there} and not {n}")),
            None => broken.push(format!("acknowledged record {lsn} is not there")),
        }
    }
    let mut last_of_thread = BTreeMap::new();
    let mut before = None;
    for (lsn, n) in found {
        if !known.tried.contains(n) {
            broken.push(format!("record {n} was never appended"));
        }
        if known.gone.contains(n) {
            broken.push(format!("record {n} was cut off or refused, and is there"));
        }
        if before.is_some_and(|before: u64| before + 1 != *lsn) {
            broken.push(format!("a gap before number {lsn}"));
        }
        if last_of_thread.insert(thread_of(*n), *n).is_some_and(|last| last >= *n) {
            broken.push(format!("record {n} is there twice, or out of order"));
        }
        before = Some(*lsn);
    }
    for (first, last) in &known.sets {
        let there = found.values().filter(|n| (first..=last).contains(n)).count();
        let whole = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
        // A prune may remove a part of a set with its segment.
        let oldest = found.first_key_value().map_or(0, |(lsn, _)| *lsn);
        if there != 0 && there != whole && oldest <= 1 {
            broken.push(format!("{there} of the {whole} records of a set are there"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amiss(said: &str, found: &[(u64, u64)]) -> usize {
        let mut broken = vec![];
        let known = Witness::read(said).known;
        compare(&known, &found.iter().copied().collect(), &mut broken);
        broken.len()
    }

    const TWO: &str = "try 7\nack 1 7 synced\ntry 8\nack 2 8 synced\ntry 9\n";

    #[test]
    fn an_intact_log_has_its_records_and_perhaps_those_being_written() {
        assert_eq!(amiss(TWO, &[(1, 7), (2, 8)]), 0);
        assert_eq!(amiss(TWO, &[(1, 7), (2, 8), (3, 9)]), 0);
    }

    #[test]
    fn missing_or_changed_records_are_noticed() {
        for found in [
            &[(1, 7)][..],
            &[(1, 7), (2, 9)],
            &[(1, 7), (2, 8), (3, 10)],
            &[(1, 7), (2, 8), (4, 9)],
            &[(1, 7), (2, 8), (3, 8)],
        ] {
            assert_ne!(amiss(TWO, found), 0, "{found:?}");
        }
        let cut = format!("{TWO}after 1\nafter-done 1\n");
        assert_ne!(amiss(&cut, &[(1, 7), (2, 8)]), 0);
        assert_ne!(amiss("refused 9 no\ntry 9\n", &[(1, 9)]), 0);
        assert_ne!(amiss("set 1 3\n", &[(1, 1), (2, 2)]), 0);
    }
}
