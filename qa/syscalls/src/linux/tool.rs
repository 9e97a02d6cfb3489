//! Verbs of the command line on an encrypted log: their input, and the output that they must give.

use super::config::{KEYS, content, keys, number};
use super::tracer::{End, Struck};
use seawall::encryption::Padding;
use seawall::format::Geometry;
use seawall::{Json, Level, Log, Options};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::Path;

/// A process with this name runs the command line of `seawall`.
pub(super) const NAME: &str = "seawall";

/// A verb of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// `append`, of more records than fit in the segment.
    Append,
    /// `rekey`, which replaces both keys.
    Rekey,
}

/// Records in the log before the verb runs, which fill most of its first segment.
const BEFORE: u64 = 7;
/// Records that `append` adds.
const ADDED: u64 = 8;
/// The size of a segment, in bytes.
const SEGMENT: u64 = 256 << 10;

impl Verb {
    /// Returns the end of the workload's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Append => "-append",
            Self::Rekey => "-rekey",
        }
    }

    /// Returns the command line after `seawall`.
    pub(super) fn arguments(self, folder: &Path) -> Vec<String> {
        let at = |name: &str| folder.join(name).display().to_string();
        let words = match self {
            Self::Append => &["append", "--format", "json", "--level", "synced", "--ack", "-q"][..],
            Self::Rekey => &["rekey", "--new-key-file"][..],
        };
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        if self == Self::Rekey {
            words.push(at("second.key"));
        }
        words.extend(["--key-file".to_owned(), at("first.key"), at("log")]);
        words
    }

    /// Returns the standard input of the verb.
    pub(super) fn input(self) -> String {
        match self {
            Self::Append => lines(&added().map(|n| content(n).to_string()).collect::<Vec<_>>()),
            Self::Rekey => String::new(),
        }
    }

    /// Converts how the verb ended, and what it wrote to standard output and standard error, to
    /// lines for the witness.
    pub(super) fn testimony(self, end: End, (out, err): (&str, &str)) -> String {
        let mut said = match self {
            Self::Append => testimony_of_append(end, out),
            Self::Rekey if end == End::Exit(0) || err.contains("the log has the new key") => {
                vec!["rekeyed".to_owned()]
            }
            Self::Rekey => vec!["rekey".to_owned()],
        };
        if let End::Exit(code @ 1..) = end {
            said.push(match err.lines().find(|line| line.starts_with("seawall: ")) {
                Some(complaint) => format!("error exit code {code}: {complaint}"),
                None => format!("wrong exit code {code} without a word: {err}"),
            });
        }
        lines(&said)
    }
}

fn testimony_of_append(end: End, out: &str) -> Vec<String> {
    let whole = out.rfind('\n').and_then(|end| out.get(..end)).unwrap_or_default();
    let acknowledged = whole.lines().zip(added());
    let mut said: Vec<String> = added().map(|n| format!("try {n}")).collect();
    said.extend(acknowledged.map(|(lsn, n)| format!("ack {lsn} {n} synced")));
    if end == End::Exit(0) && whole.lines().count() != added().count() {
        said.push("wrong exit code 0 without all acknowledgements".to_owned());
    }
    said
}

fn lines(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// Creates the log and the files with its keys; returns lines for the witness.
pub(super) fn prepare(folder: &Path) -> io::Result<String> {
    for (name, key) in ["first.key", "second.key"].into_iter().zip(KEYS) {
        write(&folder.join(name), &key)?;
    }
    let [first, _] = keys();
    let options = Options::new().key(first).encrypt(Padding::Off).level(Level::Buffered);
    let options = options.geometry(Geometry::DEFAULT, SEGMENT).segment_size(SEGMENT);
    let log: Log<Value, Json> = options.open(folder.join("log")).map_err(io::Error::other)?;
    let mut said = vec![];
    for n in (0..BEFORE).map(|index| number(1, 0, index)) {
        let lsn = log.append(&content(n)).map_err(io::Error::other)?;
        said.extend([format!("try {n}"), format!("ack {lsn} {n} synced")]);
    }
    log.close().map_err(io::Error::other)?;
    Ok(lines(&said))
}

/// Returns the numbers of the records that `append` adds.
fn added() -> impl Iterator<Item = u64> {
    (0..ADDED).map(|index| number(2, 0, index))
}

/// Whether a verb may end with this exit code: 1 after any failed call, 7 if its key file could not
/// be read.
pub(super) fn may_exit(code: i32, struck: Option<&Struck>) -> bool {
    match code {
        0 => true,
        1 => struck.is_some(),
        7 => struck.is_some_and(|at| at.path.extension().is_some_and(|ending| ending == "key")),
        _ => false,
    }
}

#[expect(clippy::disallowed_methods, reason = "a key's file is not part of a log")]
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}
