//! The reader interface of all formats, and its errors.

use std::io;

/// The maximum size of an entry, enough for the JSON of the largest record of a log, in which a
/// byte can take six. A larger entry is [too large](Stop::TooLarge) if it is intact.
pub const ENTRY_MAX: usize = 64 << 20;

/// Reads the entries of a log one after the other.
pub trait Entries {
    /// Returns the next valid entry; `None` at the end. Reading ends after an error.
    ///
    /// # Errors
    ///
    /// [`Stop`] with the reason why there is no valid entry.
    fn next(&mut self) -> Result<Option<&[u8]>, Stop>;

    /// The position of the entry returned last, or of one that is too large: its offset in bytes,
    /// or its number.
    fn position(&self) -> u64;

    /// Observations about the part read so far.
    fn remarks(&self) -> Vec<Remark> {
        vec![]
    }
}

/// The reason why reading stopped.
#[derive(Debug)]
pub enum Stop {
    /// The stream failed. This says nothing about the stored bytes.
    Io(io::Error),
    /// The log could not be read.
    Log(seawall::Error),
    /// The next bytes are not what was written.
    Damaged(Damage),
    /// The next entry is larger than [`ENTRY_MAX`], and nothing suggests damage: its checksum
    /// matches, if it has one. [`Entries::position`] is where it begins.
    TooLarge,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The first damage in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The number of the first damaged entry, from 1.
    pub entry: u64,
    /// The offset of that entry in its file.
    pub offset: u64,
    /// A keyword for the cause, as known to `seawall explain`.
    pub cause: &'static str,
    /// The cause in a sentence.
    pub why: String,
    /// The segment, for logs with several files.
    pub segment: Option<u64>,
    /// Whether all records are readable nevertheless.
    pub harmless: bool,
}

/// The log ends within an entry.
pub const CUT_SHORT: &str = "cut-short";
/// The checksum of an entry does not match.
pub const CHECKSUM: &str = "checksum";
/// A length exceeds the maximum, and no intact entry of that length is there.
pub const LENGTH: &str = "length";
/// Bytes do not follow the format.
pub const SYNTAX: &str = "syntax";
/// Zeros that could be empty entries, without a valid entry after them.
pub const ZEROS: &str = "zeros";

/// A remark about a log whose entries are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The number of empty entries at the end, which consist of zeros like bytes that were never
    /// written.
    ZerosAtEnd(u64),
    /// The bytes after the last record are either an unacknowledged write or damage.
    UnsureTail,
    /// Records that a repair gave up; their numbers are skipped.
    GivenUp(seawall::damage::Lost),
}
