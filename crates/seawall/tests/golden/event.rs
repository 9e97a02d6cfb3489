//! The records of the typed golden files.

use serde::{Deserialize, Serialize};

/// A record of a program, with every shape of value that a codec must restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    id: u64,
    name: String,
    delta: i32,
    ratio: f64,
    tags: Vec<String>,
    parent: Option<u64>,
    kind: Kind,
    is_last: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Opened,
    Moved { from: String, to: String },
    Paid(u32),
}

impl Event {
    /// The number of events.
    pub(crate) const COUNT: u64 = 6;

    /// The event of record `lsn`.
    pub(crate) fn of(lsn: u64) -> Self {
        let kind = match lsn % 3 {
            0 => Kind::Opened,
            1 => Kind::Moved { from: "here".to_owned(), to: "th\u{e9}re \"quoted\"".to_owned() },
            _ => Kind::Paid(u32::MAX),
        };
        Self {
            id: u64::MAX - lsn,
            name: ["", "one", "\u{1F30A}\n\t\\"][usize::try_from(lsn % 3).unwrap()].to_owned(),
            delta: -40_000,
            ratio: [0.1, -0.0, 1e300][usize::try_from(lsn % 3).unwrap()],
            tags: (0..lsn % 4).map(|tag| format!("tag {tag}")).collect(),
            parent: lsn.checked_sub(2),
            kind,
            is_last: lsn == Self::COUNT,
        }
    }
}
