//! Records as lines of JSON, and their sets. format.md section 9.

#[cfg(feature = "json")]
pub(crate) mod canonical;
#[cfg(feature = "json")]
pub(crate) mod changed;
#[cfg(feature = "json")]
pub(crate) mod line;
#[cfg_attr(not(feature = "json"), path = "text/stub.rs")]
pub mod line_set;

/// Longer lines are not judged by [`changed_part`].
pub const CHANGED_LINE_MAX: u64 = 16 << 20;

/// Without a parser for JSON, nothing is known of a line.
#[cfg(not(feature = "json"))]
#[must_use]
pub fn changed_part(
    _: &[u8],
    _: &crate::checksum::Salt,
) -> Option<crate::binary::changed::ChangedPart> {
    None
}

#[cfg(feature = "json")]
pub use changed::changed_part;
#[cfg(feature = "json")]
pub use line::{Content, ENVELOPE_MAX, Found, LINE_START, Line, Read, is_valid_data, read};
