//! Logs of others: each format as a reader of entries out of any stream of bytes, and its writer.
//!
//! An entry is delivered after every check that its format has, with the promise that it is what
//! was written; what a format cannot tell is said where its reader stands. Memory is bounded by
//! [`ENTRY_MAX`], whatever the bytes claim.
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
