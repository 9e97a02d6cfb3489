//! The output of a workload: which records must, may and must not be in the log.
//!
//! ```text
//! try N                   record N is about to be appended
//! set N M                 records N to M are about to be appended as one atomic set
//! ack LSN N LEVEL         append returned
//! refused N why           append failed and the log is unchanged
//! unknown N why           append failed; reopening shows whether the log has record N
//! flushed LSN             everything up to LSN is durable; `closed`: everything is
//! after LSN               records after LSN are about to be truncated; `after-done LSN`: they are
//! before LSN              records before LSN may be truncated
//! copy, copied            a copy is about to be made; it is made
//! appending, appended     only appends happen in between
//! rekey, rekeyed          the key is about to be replaced; it is
//! overlapped N            N writes began while others were in flight
//! wrong what              the workload itself saw a broken promise
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// What the log must contain at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// LSN and number of each record that must be there.
    pub(super) must: BTreeMap<u64, u64>,
    /// Records that are acknowledged, but not durable yet.
    buffered: BTreeMap<u64, u64>,
    /// Every record whose append began.
    pub(super) tried: BTreeSet<u64>,
    /// Records that must not be there: refused, or truncated for good.
    pub(super) gone: BTreeSet<u64>,
    /// First and last number of each atomic set.
    pub(super) sets: Vec<(u64, u64)>,
    /// Records before this LSN may be missing.
    pub(super) needed_from: u64,
    /// Which of the two keys open the log, if it is encrypted.
    pub(super) keys: Keys,
    /// Records after a truncation that has begun and not ended.
    cutting: BTreeMap<u64, u64>,
}

/// Which of two keys open an encrypted log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Keys {
    /// The first key only.
    #[default]
    First,
    /// At least one: the key was being replaced.
    Either,
    /// The second key only.
    Second,
}

/// The output of a workload, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Witness {
    pub(super) known: Known,
    /// What the log had to contain when a copy began, if the copy was completed.
    pub(super) copied: Option<Known>,
    /// Whether the workload ran to its end.
    pub(super) done: bool,
    /// Broken promises that the workload saw itself.
    pub(super) wrong: Vec<String>,
    /// Errors that the workload got.
    pub(super) errors: Vec<String>,
    /// How often the log continued in a new segment.
    pub(super) failovers: u64,
    /// Number of writes that began while others were in flight.
    pub(super) overlapped: u64,
}

impl Witness {
    /// Decodes the output; a line without a line end is ignored.
    pub(super) fn read(text: &str) -> Self {
        let mut witness = Self::default();
        let mut at_copy = None;
        let whole = text.rfind('\n').map_or("", |end| text.get(..end).unwrap_or_default());
        for line in whole.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "copy" => at_copy = Some(witness.known.clone()),
                "copied" => witness.copied = at_copy.take(),
                "done" => witness.done = true,
                "wrong" => witness.wrong.push(rest.to_owned()),
                "error" => witness.errors.push(rest.to_owned()),
                "failover" => witness.failovers += 1,
                "overlapped" => witness.overlapped = rest.parse().unwrap_or_default(),
                "refused" | "unknown" => {
                    witness.errors.push(line.to_owned());
                    witness.known.hear(word, rest);
                }
                _ => witness.known.hear(word, rest),
            }
        }
        witness.wrong.append(&mut witness.known.twice_given());
        witness
    }

    /// Whether only appends were running when the first `said` bytes had been printed.
    pub(super) fn only_appends(text: &str, said: u64) -> bool {
        let until = usize::try_from(said).ok().and_then(|said| text.get(..said));
        let phases = until.unwrap_or_default().lines().rev();
        phases
            .map(|line| line == "appending")
            .zip(until.unwrap_or_default().lines().rev().map(|line| line == "appended"))
            .find(|(began, ended)| *began || *ended)
            .is_some_and(|(began, _)| began)
    }
}

impl Known {
    fn hear(&mut self, word: &str, rest: &str) {
        let numbers: Vec<u64> = rest.split(' ').map_while(|word| word.parse().ok()).collect();
        match (word, numbers.as_slice()) {
            ("try", [n]) => {
                self.tried.insert(*n);
            }
            ("set", [first, last]) => {
                self.tried.extend(*first..=*last);
                self.sets.push((*first, *last));
            }
            ("ack", [lsn, n]) => self.acknowledge(*lsn, *n, rest.ends_with("buffered")),
            ("refused", [n, ..]) => {
                self.gone.insert(*n);
            }
            ("flushed", [lsn]) => self.settle(*lsn),
            ("closed", []) => self.settle(u64::MAX),
            ("after", [lsn]) => {
                self.settle(*lsn);
                self.cutting = self.must.split_off(&(lsn + 1));
            }
            ("after-done", [_]) => {
                self.gone.extend(std::mem::take(&mut self.cutting).into_values());
            }
            ("rekey", []) => self.keys = Keys::Either,
            ("rekeyed", []) => self.keys = Keys::Second,
            ("before", [lsn]) => self.needed_from = self.needed_from.max(*lsn),
            _ => {}
        }
    }

    fn acknowledge(&mut self, lsn: u64, n: u64, buffered: bool) {
        if buffered {
            self.buffered.insert(lsn, n);
        } else {
            self.settle(lsn);
            self.must.insert(lsn, n);
        }
    }

    /// Notes that all records acknowledged up to `lsn` are durable.
    fn settle(&mut self, lsn: u64) {
        let behind = lsn.checked_add(1).map(|next| self.buffered.split_off(&next));
        let settled = std::mem::replace(&mut self.buffered, behind.unwrap_or_default());
        self.must.extend(settled);
    }

    /// Returns an error for each record that was acknowledged with two LSNs.
    fn twice_given(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        let twice = self.must.iter().filter_map(|(lsn, n)| {
            let other = seen.insert(n, lsn)?;
            Some(format!("record {n} has the numbers {other} and {lsn}"))
        });
        twice.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn must(text: &str) -> Vec<(u64, u64)> {
        Witness::read(text).known.must.into_iter().collect()
    }

    #[test]
    fn what_is_acknowledged_must_be_there() {
        assert_eq!(must("try 7\nack 1 7 synced\ntry 8\n"), [(1, 7)]);
        // The line has no end, so it is ignored.
        assert_eq!(must("try 7\nack 1 7 synced"), []);
    }

    #[test]
    fn a_buffered_record_must_be_there_once_something_makes_it_durable() {
        let text = "try 7\nack 1 7 buffered\ntry 8\nack 2 8 buffered\n";
        assert_eq!(must(text), []);
        assert_eq!(must(&format!("{text}flushed 1\n")), [(1, 7)]);
        assert_eq!(must(&format!("{text}closed\n")), [(1, 7), (2, 8)]);
        assert_eq!(must(&format!("{text}try 9\nack 3 9 synced\n")).len(), 3);
    }

    #[test]
    fn truncated_records_may_be_there_until_the_truncation_is_done() {
        let text = "try 7\nack 1 7 synced\ntry 8\nack 2 8 synced\nafter 1\n";
        assert_eq!(must(text), [(1, 7)]);
        assert!(Witness::read(text).known.gone.is_empty());
        let done = Witness::read(&format!("{text}after-done 1\n"));
        assert_eq!(done.known.gone.into_iter().collect::<Vec<_>>(), [8]);
    }

    #[test]
    fn only_appends_happen_between_the_two_words() {
        let text = "opened\nappending\ntry 7\nappended\nclosed\n";
        for (said, expected) in [(0, false), (7, false), (17, true), (23, true), (32, false)] {
            assert_eq!(Witness::only_appends(text, said), expected, "{said}");
        }
    }
}
