//! Logs of others: each format as a reader of entries out of any stream of bytes, and its writer.
//!
//! An entry is delivered after every check that its format has, with the promise that it is what
//! was written; what a format cannot tell is said where its reader stands. Memory is bounded by
//! [`ENTRY_MAX`], whatever the bytes claim.

pub(crate) mod cwal;
mod feed;
pub(crate) mod json;
pub(crate) mod msgpack;
pub(crate) mod pack;
#[cfg(test)]
mod tests;
pub(crate) mod translate;

use std::io;

pub(crate) use feed::Feed;

/// The most bytes that an entry has: room for the JSON of the largest record of a log, in which a
/// byte may take six. What claims more is damage.
pub(crate) const ENTRY_MAX: usize = 64 << 20;

/// Lends the entries of a source one after the other.
pub(crate) trait Entries {
    /// The next intact entry; `None` at the end. An error is the end, too.
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
pub(crate) enum Stop {
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
pub(crate) struct Damage {
    /// The first entry that is not intact, counted from 1.
    pub(crate) entry: u64,
    /// Where it begins, in bytes from the start of its file.
    pub(crate) offset: u64,
    /// A word for it; `seawall explain` knows it.
    pub(crate) cause: &'static str,
    pub(crate) why: String,
    /// The file, where the source has several.
    pub(crate) segment: Option<u64>,
    /// Whether every record can be read all the same.
    pub(crate) harmless: bool,
}

/// The source ends within an entry.
pub(crate) const CUT_SHORT: &str = "cut-short";
/// An entry is not the one that its checksum was made of.
pub(crate) const CHECKSUM: &str = "checksum";
/// A length that no entry has.
pub(crate) const LENGTH: &str = "length";
/// Bytes that no entry begins or ends with.
pub(crate) const SYNTAX: &str = "syntax";
/// Zeros that could pass for entries, and nothing sound behind them.
pub(crate) const ZEROS: &str = "zeros";

/// What somebody should know of a source though its entries are intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// So many empty entries at the end are nothing but zeros, as bytes that were never written.
    ZerosAtEnd(u64),
    /// What lies behind the last record of a log could be a write that nobody was promised, or
    /// damage.
    UnsureTail,
    /// Records that a repair gave up: their numbers are skipped.
    GivenUp(seawall::Lost),
}

/// CRC-32 of IEEE 802.3, as zip and Ethernet have it.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}
