//! The content of a record, whatever the layout: its checksum, and how deep it is nested.

pub mod nesting;

use crate::checksum::crc32c;
use crate::types::Layout;

/// The checksum of a payload by itself: CRC-32C, bound to nothing. In the readable layout it covers
/// the canonical form (format.md section 9.2), since white space and the order of members may
/// change there.
///
/// # Examples
///
/// ```
/// use seawall_format::{Layout, content_crc};
///
/// let (one, other) = (br#"{"a":1,"b":2}"#, br#"{ "b": 2, "a": 1 }"#);
/// assert_ne!(content_crc(one, Layout::Binary), content_crc(other, Layout::Binary));
/// # #[cfg(feature = "json")]
/// assert_eq!(content_crc(one, Layout::Text), content_crc(other, Layout::Text));
/// ```
#[must_use]
pub fn content_crc(payload: &[u8], layout: Layout) -> u32 {
    match layout {
        #[cfg(feature = "json")]
        Layout::Text => crate::text::canonical::crc(payload).unwrap_or_else(|| crc32c(payload)),
        _ => crc32c(payload),
    }
}
