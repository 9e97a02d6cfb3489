//! Encryption at rest: keys, and what is computed with them. format.md section 3.7.
//!
//! Nothing here draws random numbers, reads keys or knows a file: callers pass what they have. Keys
//! are cleared from memory when they are dropped, and `Debug` never shows one.

#[cfg(feature = "aws-lc-rs")]
mod aws_lc;
mod basics;
#[cfg(feature = "encryption")]
#[cfg(any(test, not(feature = "aws-lc-rs")))]
mod cipher;
#[cfg(feature = "encryption")]
mod keys;
#[cfg(feature = "encryption")]
mod mac;
mod padding;
#[cfg(feature = "encryption")]
#[cfg(test)]
pub(crate) mod tests;

#[cfg(feature = "aws-lc-rs")]
use aws_lc::Cipher;
pub use basics::{KEY_SIZE, KeyError, NONCE_SIZE, Nonce};
pub(crate) use basics::{MAC_SIZE, Mac, TAG_SIZE, Tag};
#[cfg(feature = "encryption")]
#[cfg(not(feature = "aws-lc-rs"))]
use cipher::Cipher;
#[cfg(feature = "encryption")]
pub use keys::{KeyBytes, KeyEncryptionKey, LogKey, SegmentKeys};
#[cfg(feature = "encryption")]
pub use mac::MacKey;
pub use padding::{Padding, PaddingSize};

/// The keys of one segment, of which a build without encryption has none.
#[cfg(not(feature = "encryption"))]
#[derive(Debug)]
pub enum SegmentKeys {}
