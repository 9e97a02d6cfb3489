//! Kinds of bytes that encryption works with, and why some are refused.

use crate::ids::KeyNumber;
use std::fmt;

/// The size of a key, in bytes.
pub const KEY_SIZE: usize = 32;

/// The size of a nonce, in bytes.
pub const NONCE_SIZE: usize = 12;

/// The size of a tag, in bytes. It follows what it authenticates.
pub(crate) const TAG_SIZE: usize = 16;

/// The size of a message authentication code, in bytes.
pub(crate) const MAC_SIZE: usize = 16;

/// Random bits, drawn for one use and never used again.
///
/// They come from the operating system. A counter, an LSN or an offset cannot be a nonce: a log
/// that is copied, or opened again after a write that was lost, would use it twice.
pub type Nonce = [u8; NONCE_SIZE];

pub(crate) type Tag = [u8; TAG_SIZE];

pub(crate) type Mac = [u8; MAC_SIZE];

/// Why bytes with right checksums were not accepted as written by a holder of the key.
///
/// None of these is damage: damage is what checksums find. A program that meets one changes
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The log is encrypted, and no key was given.
    NoKey,
    /// The log is not encrypted, but a key was given or is to be replaced.
    NotEncrypted,
    /// The log keys are wrapped with another key-encryption key.
    WrongKey,
    /// The log key with this number is not among those of the log.
    NoSuchKey(KeyNumber),
    /// What is stored was not written by a holder of the key, or belongs elsewhere; or the file
    /// `keys` is older than the log.
    Forged,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("the log is encrypted, and no key was given"),
            Self::NotEncrypted => f.write_str("the log is not encrypted"),
            Self::WrongKey => f.write_str("the log is encrypted with another key"),
            Self::NoSuchKey(number) => write!(f, "log key {number} is missing"),
            Self::Forged => f.write_str("not written with the key of this log, or moved"),
        }
    }
}

impl std::error::Error for KeyError {}
