//! Readers and writers of foreign log formats.
//!
//! A reader returns an entry only after all checks of its format. The documentation of each reader
//! says which damage its format cannot detect. Memory is bounded by [`ENTRY_MAX`], whatever the
//! input claims.
//!
//! ```
//! use seawall_foreign::{Entries, cwal};
//!
//! let mut bytes = vec![];
//! cwal::write_binary(b"first", &mut bytes);
//! cwal::write_binary(b"second", &mut bytes);
//! bytes.truncate(bytes.len() - 1);
//! let mut log = cwal::Binary::new(bytes.as_slice());
//! assert_eq!(log.next().unwrap(), Some(&b"first"[..]));
//! assert!(log.next().is_err(), "the second is cut short");
//! ```

#![forbid(unsafe_code)]

mod checksum;
pub mod cwal;
mod entries;
mod feed;
pub mod framing;
pub mod json;
pub mod msgpack;
mod number;
pub mod pack;
pub mod query;
#[cfg(test)]
mod tests;
pub mod translate;
pub mod value;

pub use checksum::crc32;
pub use entries::{
    CHECKSUM, CUT_SHORT, Damage, ENTRY_MAX, Entries, LENGTH, Remark, SYNTAX, Stop, ZEROS,
};
