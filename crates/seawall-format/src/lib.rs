//! The bytes of a Seawall log: what stands where, and when it is valid.
//!
//! Nothing here does I/O or waits: bytes come in, what was found out goes out. The text that this
//! crate follows is `docs/format.md`, section by section:
//!
//! | module | what | section |
//! |---|---|---|
//! | [`Lsn`], [`Offset`], [`SegmentId`], [`Epoch`] | numbers that cannot be mixed up | 1 |
//! | [`Salt`] | CRC-32C bound to the place of the bytes | 2 |
//! | [`Geometry`], [`SegmentHeader`], [`Mark`], [`Seal`] | a segment's first blocks | 3.1, 3.2 |
//! | [`frame`], [`batch`] | records on disk, and what closes over them | 3.3 |
//! | [`Manifest`], [`Live`] | the two small files beside the segments | 4, 5 |
//! | [`scan`] | walking the batches of a segment | 3.3, 7 |
//! | `text`, `lines` | records as lines of JSON, and their sets | 9 |
//! | [`tail`] | what lies behind the last valid batch | 7 |
//! | [`parity`] | what stands beside a segment, to compute lost blocks from | 10 |

#![forbid(unsafe_code)]

pub mod batch;
#[cfg(feature = "json")]
mod canonical;
mod field;
pub mod frame;
#[cfg_attr(not(feature = "json"), path = "no_lines.rs")]
pub mod lines;
mod live;
mod manifest;
mod number;
mod options;
pub mod parity;
mod preamble;
mod salt;
pub mod scan;
mod segment;
pub mod tail;
#[cfg(feature = "json")]
pub mod text;
pub mod time;

pub use field::{Field, Table};
pub use live::Live;
pub use manifest::{Closed, MANIFEST_SLOT_SIZE, Manifest, SegmentRef};
pub use number::{Epoch, LogId, Lsn, Offset, SegmentId, lsn_or_zero, next_lsn};
pub use options::{CodecId, Geometry, Layout, Level, RecordType, TYPE_NAME_MAX};
pub use preamble::{DRAFT, Refused, VERSION};
pub use salt::Salt;
pub use segment::{HEADER_SIZE, Mark, MarkSlot, Seal, SegmentHeader};

/// The smallest piece that a device writes or loses as a whole, in bytes.
pub const SECTOR: usize = 512;

/// Miri is a thousand times slower: there, a test that tries every bit tries one in so many.
#[cfg(test)]
const EVERY: usize = if cfg!(miri) { 101 } else { 1 };

/// Every byte table of the format, as format.md names it: for the test that compares the two.
#[must_use]
pub fn tables() -> Vec<(&'static str, Table)> {
    vec![
        ("preamble", preamble::TABLE),
        ("header", segment::header_table()),
        ("mark", segment::mark_table()),
        ("seal", segment::seal_table()),
        ("batch", batch::TABLE),
        ("frame", frame::TABLE),
        ("manifest", manifest::TABLE),
        ("live", live::TABLE),
        ("parity", parity::head_table()),
        ("stripe", parity::stripe_table()),
    ]
}
