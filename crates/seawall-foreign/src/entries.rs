//! What every source of entries offers, and why one ends.

use std::io;

/// The most bytes that an entry has: room for the JSON of the largest record of a log, in which a
/// byte may take six. What claims more is damage.
pub const ENTRY_MAX: usize = 64 << 20;

/// Lends the entries of a source one after the other.
pub trait Entries {
    /// The next intact entry; `None` at the end. An error is the end, too.
    ///
    /// # Errors
    ///
    /// [`Stop`] says why there is none that is intact.
    fn next(&mut self) -> Result<Option<&[u8]>, Stop>;

    /// Where the entry stands that was lent last: in bytes from the start, or its number.
    fn position(&self) -> u64;

    /// What is to be said of the source, as far as it is read.
    fn remarks(&self) -> Vec<Remark> {
        vec![]
    }
}

/// Why there is no further entry.
#[derive(Debug)]
pub enum Stop {
    /// The stream failed: nothing is said about its bytes.
    Io(io::Error),
    /// The log could not be read.
    Log(seawall::Error),
    /// What follows is not what was written.
    Damaged(Damage),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where a source stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first entry that is not intact, counted from 1.
    pub entry: u64,
    /// Where it begins, in bytes from the start of its file.
    pub offset: u64,
    /// A word for it; `seawall explain` knows it.
    pub cause: &'static str,
    /// The same in a sentence.
    pub why: String,
    /// The file, where the source has several.
    pub segment: Option<u64>,
    /// Whether every record can be read all the same.
    pub harmless: bool,
}

/// The source ends within an entry.
pub const CUT_SHORT: &str = "cut-short";
/// An entry is not the one that its checksum was made of.
pub const CHECKSUM: &str = "checksum";
/// A length that no entry has.
pub const LENGTH: &str = "length";
/// Bytes that no entry begins or ends with.
pub const SYNTAX: &str = "syntax";
/// Zeros that could pass for entries, and nothing sound behind them.
pub const ZEROS: &str = "zeros";

/// What somebody should know of a source though its entries are intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// How many empty entries at the end are all zeros, like bytes that were never written.
    ZerosAtEnd(u64),
    /// What lies behind the last record of a log could be a write that nobody was promised, or
    /// damage.
    UnsureTail,
    /// Records that a repair gave up: their numbers are skipped.
    GivenUp(seawall::damage::Lost),
}
