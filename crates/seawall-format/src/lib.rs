//! The bytes of a Seawall log: what is stored at which offset, and when it is valid.
//!
//! Nothing here does I/O or waits: functions take bytes and return what they found. This crate
//! follows `docs/format.md`, section by section:
//!
//! | module | what | section |
//! |---|---|---|
//! | [`Lsn`], [`Offset`], [`SegmentId`], [`Epoch`] | numbers that cannot be mixed up | 1 |
//! | [`Salt`] | CRC-32C bound to the place of the bytes | 2 |
//! | [`Geometry`], [`SegmentHeader`], [`Mark`], [`Seal`] | a segment's first blocks | 3.1, 3.2 |
//! | [`frame`], [`batch`] | records on disk, and the batches that hold them | 3.3 |
//! | [`encoded`] | compressed batches | 3.6 |
//! | [`encryption`], [`encrypted`] | keys, and encrypted batches | 3.7 |
//! | [`keys`], [`Authenticator`] | the file `keys`, and the proof of who wrote a header | 3.7 |
//! | [`before`] | what a reused file held before its segment | 3.4 |
//! | [`Manifest`], [`Live`] | the two small files beside the segments | 4, 5 |
//! | [`scan`] | walking the batches of a segment | 3.3, 7 |
//! | `text`, `lines` | records as lines of JSON, and their sets | 9 |
//! | [`tail`] | the bytes after the last valid batch | 7 |
//! | [`nesting`] | how deep a `MessagePack` value may be | 13.2 |
//! | [`parity`] | parity files, from which lost blocks are computed | 10 |

#![forbid(unsafe_code)]

mod binary;
mod checksum;
mod content;
pub mod encryption;
mod fields;
mod files;
mod ids;
mod layout;
mod refused;
pub mod scan;
pub mod tail;
pub mod text;
pub mod time;
mod types;

pub use binary::changed::{ChangedPart, changed_part};
#[cfg(feature = "encryption")]
pub use binary::encrypted;
pub use binary::encrypted_sizes::EncryptedSizes;
#[cfg(not(feature = "encryption"))]
pub use binary::not_encrypted as encrypted;
pub use binary::{batch, encoded, frame};
pub use checksum::Salt;
pub use content::{content_crc, nesting};
pub use fields::sizes::SECTOR;
pub use fields::{Field, Table};
pub use files::authenticator::{
    AUTHENTICATOR_AT, AUTHENTICATOR_SIZE, Authenticator, Claims, STORED_MAX, Stored,
};
pub use files::before;
pub use files::keys;
pub use files::live::Live;
pub use files::manifest::{Closed, MANIFEST_SLOT_SIZE, Manifest};
pub use files::parity;
pub use files::segment::{HEADER_SIZE, IN_FLIGHT_MAX, Mark, MarkSlot, Seal, SegmentHeader};
pub use ids::{Epoch, KeyNumber, LogId, Lsn, Offset, SegmentId, SegmentRef, lsn_or_zero, next_lsn};
pub use layout::Finished;
pub use refused::{DRAFT, Refused, VERSION};
pub use text::line_set as lines;
pub use types::{CodecId, Compression, Geometry, Layout, Level, RecordType, TYPE_NAME_MAX};

/// Every byte table of the format, as format.md names it: for the test that compares the two.
#[must_use]
pub fn tables() -> Vec<(&'static str, Table)> {
    vec![
        ("preamble", files::preamble::TABLE),
        ("header", files::segment::header::TABLE),
        ("mark", files::segment::mark::TABLE),
        ("seal", files::segment::seal::TABLE),
        ("batch", batch::TABLE),
        ("frame", frame::TABLE),
        ("prefix", binary::chunk::prefix::TABLE),
        ("chunk", binary::chunk::TABLE),
        ("encrypted prefix", binary::chunk::encrypted_prefix::TABLE),
        ("encrypted chunk", binary::chunk::encrypted::TABLE),
        ("content", binary::chunk::content::TABLE),
        ("authenticator", files::authenticator::TABLE),
        ("keys", keys::TABLE),
        ("key", keys::entry::TABLE),
        ("manifest", files::manifest::TABLE),
        ("closing", files::manifest::closing::TABLE),
        ("live", files::live::TABLE),
        ("before", before::TABLE),
        ("parity", parity::head::TABLE),
        ("stripe", parity::stripe::TABLE),
    ]
}
