//! The first 16 bytes of a header and of a manifest slot: alike in every version, for ever.

use crate::field::{get, get_u32, put, slice, slice_mut, table};
use crate::salt::crc32c;
use std::fmt;

/// The format version that this crate writes.
pub const VERSION: u16 = 0;

/// The draft of that version.
pub const DRAFT: u16 = 2;

table! {
    MAGIC = 0, 8, "magic";
    VERSION_FIELD = 8, 2, "version";
    DRAFT_FIELD = 10, 2, "draft";
    CRC = 12, 4, "preamble crc";
}

/// Why bytes were not taken for what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not valid: never was, or damaged.
    Invalid,
    /// Sound, and written by another version of Seawall.
    OtherVersion {
        /// The version found.
        version: u16,
        /// The draft found.
        draft: u16,
    },
    /// Sound, with a feature, codec or layout that this version does not know.
    Unknown {
        /// What it is, and its number.
        what: String,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("not valid"),
            Self::OtherVersion { version, draft } => write!(
                f,
                "format version {version} draft {draft}; this program reads version {VERSION} \
                 draft {DRAFT}"
            ),
            Self::Unknown { what } => write!(f, "{what}, unknown to this program"),
        }
    }
}

impl std::error::Error for Refused {}

pub(crate) fn encode(bytes: &mut [u8], magic: [u8; 8]) {
    slice_mut(bytes, MAGIC).copy_from_slice(&magic);
    put(bytes, VERSION_FIELD, u64::from(VERSION));
    put(bytes, DRAFT_FIELD, u64::from(DRAFT));
    let crc = crc32c(covered(bytes));
    put(bytes, CRC, u64::from(crc));
}

pub(crate) fn check(bytes: &[u8], magic: [u8; 8]) -> Result<(), Refused> {
    if *slice(bytes, MAGIC) != magic || crc32c(covered(bytes)) != get_u32(bytes, CRC) {
        return Err(Refused::Invalid);
    }
    let number = |field| u16::try_from(get(bytes, field)).expect("a field of 2 bytes");
    let (version, draft) = (number(VERSION_FIELD), number(DRAFT_FIELD));
    if (version, draft) != (VERSION, DRAFT) {
        return Err(Refused::OtherVersion { version, draft });
    }
    Ok(())
}

fn covered(bytes: &[u8]) -> &[u8] {
    bytes.get(..CRC.at).expect("the structure begins with a preamble")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_found_and_what_this_program_knows() {
        let other = Refused::OtherVersion { version: 3, draft: 4 };
        assert_eq!(
            other.to_string(),
            "format version 3 draft 4; this program reads version 0 draft 2"
        );
        let unknown = Refused::Unknown { what: "codec 9".to_owned() };
        assert_eq!(unknown.to_string(), "codec 9, unknown to this program");
        assert_eq!(Refused::Invalid.to_string(), "not valid");
    }
}
