//! The version that this crate reads and writes, and why bytes were not accepted.

use std::fmt;

/// The format version that this crate writes.
pub const VERSION: u16 = 1;

/// The draft number of that version: 0, because it is frozen. format.md section 11.
pub const DRAFT: u16 = 0;

/// Why bytes were not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// Not valid: never written, or damaged.
    Invalid,
    /// Sound, and written by another version of Seawall.
    OtherVersion {
        /// The version found.
        version: u16,
        /// The draft number; 0 for a version that is frozen.
        draft: u16,
    },
    /// Sound, and it uses what this version does not know: a feature, a codec, a layout, or bytes
    /// that are kept for later.
    Unknown {
        /// Its name and its number.
        what: String,
    },
    /// Sound, and compressed in a way that this build lacks.
    NotBuiltIn {
        /// The method, which is also the name of the cargo feature.
        compression: &'static str,
    },
    /// Sound, and not encrypted, in an encrypted segment.
    NotEncrypted,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("not valid"),
            Self::OtherVersion { version, draft: 0 } if *version != 0 => {
                write!(f, "format version {version}; this program reads version {VERSION}")
            }
            Self::OtherVersion { version, draft } => write!(
                f,
                "draft {draft} of a format, version {version}, that was for trial; this program \
                 reads version {VERSION}"
            ),
            Self::NotBuiltIn { compression } => write!(
                f,
                "the log uses {compression} compression: build this program with the cargo feature \
                 `{compression}`"
            ),
            Self::NotEncrypted => f.write_str("not encrypted, in an encrypted segment"),
            Self::Unknown { what } => write!(f, "{what}, unknown to this program"),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
impl Refused {
    /// Why a readable log with something that only binary logs have is refused: without the
    /// feature `json`, for its layout.
    pub(crate) fn binary_only() -> Self {
        let unknown = || Self::Unknown { what: "layout 1".to_owned() };
        if cfg!(feature = "json") { Self::Invalid } else { unknown() }
    }
}
