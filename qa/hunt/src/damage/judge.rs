//! Finds the promises that the results for a damaged log break.

use super::look::{Opened, Reading, Seen};
use super::sample::numbers;
use seawall::Lsn;
use seawall::damage::{Damage, Lost};
use seawall::verify::Verdict;
use std::collections::BTreeSet;

/// The effect of a change, and what is required of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Records whose batch or segment header the change touched. All other records must be
    /// readable.
    pub(super) touched: BTreeSet<Lsn>,
    /// Records that may be missing if the verdict is `unsure` or `torn`.
    pub(super) window: BTreeSet<Lsn>,
    /// Whether nothing in the log shows the loss.
    pub(super) is_blind: bool,
    /// Whether the log must open without repair.
    pub(super) must_open: bool,
    /// Whether parity must restore everything.
    pub(super) must_mend: bool,
}

/// Returns one sentence for each broken promise.
pub(super) fn broken(truth: &Truth, seen: &Seen) -> Vec<String> {
    let mut found = vec![];
    reading(truth, seen, &mut found);
    opening(truth, seen, ("an open", &seen.open), &mut found);
    opening(truth, seen, ("a strict open", &seen.strict), &mut found);
    if truth.must_open && matches!(seen.open, Opened::No(_)) {
        found.push("a torn write at the end must not need help".to_owned());
    }
    if truth.must_mend {
        mending(seen, &mut found);
    }
    found
}

/// Checks that parity restored everything: the reader delivers every record and the log opens.
fn mending(seen: &Seen, found: &mut Vec<String>) {
    if seen.verdict > Verdict::Correctable {
        found.push(format!("{}, and parity could mend it", seen.verdict.name()));
    }
    say("missing, and parity has it", &missing(&seen.reader), found);
    if matches!(seen.open, Opened::No(_)) {
        found.push("an open must go on beside what parity mends".to_owned());
    }
}

/// Number of records that are reported as lost but can be read.
pub(super) fn named_in_vain(seen: &Seen) -> usize {
    seen.reader.intact.iter().filter(|lsn| is_named(lost(&seen.damage), **lsn)).count()
}

/// The records that a reader did not deliver.
pub(super) fn missing(reading: &Reading) -> BTreeSet<Lsn> {
    numbers().filter(|lsn| !reading.intact.contains(lsn)).collect()
}

fn reading(truth: &Truth, seen: &Seen, found: &mut Vec<String>) {
    say("delivered, and not what was written", &seen.reader.wrong, found);
    found.extend(seen.reader.troubles.iter().cloned());
    let missing = missing(&seen.reader);
    let is_told = |lsn: &Lsn| {
        is_named(lost(&seen.damage), *lsn) && is_named(seen.reader.lost.iter().copied(), *lsn)
    };
    let silent = missing.iter().filter(|lsn| !is_told(lsn) && !is_excused(truth, seen, **lsn));
    say("missing, and not named", silent, found);
    say("intact, and not reached", missing.difference(&truth.touched), found);
}

fn opening(truth: &Truth, seen: &Seen, (what, opened): (&str, &Opened), found: &mut Vec<String>) {
    let Opened::Yes(reading) = opened else { return };
    say(&format!("not what was written after {what}"), &reading.wrong, found);
    found.extend(reading.troubles.iter().map(|trouble| format!("{what}: {trouble}")));
    let missing = missing(reading);
    let silent = missing.iter().filter(|lsn| !is_excused(truth, seen, **lsn));
    say(&format!("missing after {what}"), silent, found);
    if lost(&seen.damage).next().is_some() {
        found.push(format!("{what} takes a log of which records are lost"));
    }
}

/// Whether this record may be missing without a report.
fn is_excused(truth: &Truth, seen: &Seen, lsn: Lsn) -> bool {
    let is_doubtful = matches!(seen.verdict, Verdict::Torn | Verdict::Unsure);
    truth.is_blind || (is_doubtful && truth.window.contains(&lsn))
}

fn lost(damage: &[Damage]) -> impl Iterator<Item = Lost> {
    damage.iter().filter_map(|damage| damage.lost)
}

fn is_named(mut lost: impl Iterator<Item = Lost>, lsn: Lsn) -> bool {
    lost.any(|lost| lost.from <= lsn && lost.to.is_none_or(|to| lsn <= to))
}

/// Adds a sentence about these records, if there are any.
fn say<'a>(what: &str, records: impl IntoIterator<Item = &'a Lsn>, found: &mut Vec<String>) {
    let records: Vec<_> = records.into_iter().collect();
    match records.as_slice() {
        [] => {}
        [one] => found.push(format!("record {one}: {what}")),
        [first, .., last] => {
            found.push(format!("{} records from {first} to {last}: {what}", records.len()));
        }
    }
}
