//! Settings and record contents that the workload and the judge share.

use super::tool::Verb;
use seawall::encryption::Key;
use serde_json::{Value, json};

/// Whether a log is encrypted, and what runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encrypted {
    /// Not encrypted.
    No,
    /// The workload, in which the keys are replaced.
    Workload,
    /// A verb of the command line runs in place of the workload.
    Verb(Verb),
}

/// The settings of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Config {
    /// Whether the layout is readable; otherwise it is binary.
    pub(super) readable: bool,
    /// Number of threads that append at the same time.
    pub(super) threads: u64,
    /// Whether the log has parity.
    pub(super) parity: bool,
    /// Whether one thread appends without waiting for each record, with several writes in flight.
    pub(super) stream: bool,
    /// Whether the log is encrypted, and what runs on it.
    pub(super) encrypted: Encrypted,
}

impl Config {
    const FIRST: Self = Self {
        readable: false,
        threads: 1,
        parity: false,
        stream: false,
        encrypted: Encrypted::No,
    };

    /// The settings that are tested by default.
    pub(super) const ALL: [Self; 10] = [
        Self::FIRST,
        Self { threads: 4, ..Self::FIRST },
        Self { readable: true, ..Self::FIRST },
        Self { readable: true, threads: 4, ..Self::FIRST },
        Self { parity: true, ..Self::FIRST },
        Self { readable: true, parity: true, ..Self::FIRST },
        Self { stream: true, ..Self::FIRST },
        Self { encrypted: Encrypted::Workload, ..Self::FIRST },
        Self { encrypted: Encrypted::Verb(Verb::Append), ..Self::FIRST },
        Self { encrypted: Encrypted::Verb(Verb::Rekey), ..Self::FIRST },
    ];

    /// Returns the name, one word on the command line of the workload's process.
    pub(super) fn name(self) -> String {
        let layout = if self.readable { "readable" } else { "binary" };
        let parity = if self.parity { "-parity" } else { "" };
        let stream = if self.stream { "-stream" } else { "" };
        let encrypted = if self.is_encrypted() { "-encrypted" } else { "" };
        let verb = self.verb().map_or("", Verb::suffix);
        format!("{layout}-{}{parity}{stream}{encrypted}{verb}", self.threads)
    }

    /// Whether the log has a key.
    pub(super) fn is_encrypted(self) -> bool {
        self.encrypted != Encrypted::No
    }

    /// Returns the verb that runs in place of the workload.
    pub(super) fn verb(self) -> Option<Verb> {
        match self.encrypted {
            Encrypted::Verb(verb) => Some(verb),
            Encrypted::No | Encrypted::Workload => None,
        }
    }

    /// Returns the settings with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|config| config.name() == name)
    }
}

/// The keys of an encrypted log: the first one, and its replacement.
pub(super) const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

/// Returns both keys in the form that the log takes.
pub(super) fn keys() -> [Key; 2] {
    KEYS.map(|bytes| Key::new(&bytes))
}

/// Returns the number of a record: unique, and ascending within a thread.
pub(super) fn number(life: u64, thread: u64, index: u64) -> u64 {
    life * 100_000 + thread * 1_000 + index
}

/// Returns the thread that appends record `n`.
pub(super) fn thread_of(n: u64) -> u64 {
    n % 100_000 / 1_000
}

/// Returns the payload of record `n`. Its length depends on `n`, and every second one is large.
pub(super) fn content(n: u64) -> Value {
    let large = n % 2 == 1;
    let length = if large { 35_000 + n * 37 % 25_000 } else { 50 + n * 37 % 1_000 };
    let [start, length] = [n % 26, length].map(|n| usize::try_from(n).expect("a small number"));
    // The text is copied: creating it letter by letter took an eighth of the time of all runs.
    let letters = "abcdefghijklmnopqrstuvwxyz".repeat(length / 26 + 2);
    json!({ "n": n, "text": letters.get(start..start + length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_workload() {
        for config in Config::ALL {
            assert_eq!(Config::named(&config.name()), Some(config));
        }
        assert_eq!(Config::named("binary-2"), None);
    }

    #[test]
    fn numbers_differ_and_so_do_contents() {
        let numbers = [number(1, 0, 1), number(1, 1, 0), number(2, 0, 0), number(1, 99, 0)];
        for (at, one) in numbers.iter().enumerate() {
            assert!(numbers[at + 1..].iter().all(|other| content(*other) != content(*one)));
        }
        assert_eq!(thread_of(number(3, 99, 5)), 99);
    }
}
