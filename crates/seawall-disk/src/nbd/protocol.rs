//! Types and limits that the handshake, the transmission phase and the session share.

use std::io;
use std::sync::Arc;

/// The most input, in bytes, that a [`Session`](super::Session) asks for at once.
pub const NEED_MAX: usize = 1 << 20;

/// The most bytes that one step adds to the replies.
pub const REPLY_MAX: usize = 16 * 1024;

/// The longest read or write, in bytes.
pub(crate) const REQUEST_MAX: u32 = 32 << 20;

/// The longest name of an export, in bytes.
pub(crate) const NAME_MAX: usize = 4096;

/// The most exports of one server. The answer to a list request must fit into [`REPLY_MAX`].
pub const EXPORTS_MAX: usize = 3;

const _: () = assert!(
    EXPORTS_MAX * (24 + NAME_MAX) + 20 <= REPLY_MAX,
    "the list of all exports must fit into one reply"
);

/// A disk as the server offers it: its name and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    name: String,
    size: u64,
}

impl Export {
    /// A disk of `size` bytes. Clients reach the first export also by the empty name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a name that NBD cannot carry: longer than 4096 bytes, or
    /// with a NUL.
    pub fn new(name: &str, size: u64) -> io::Result<Self> {
        if name.len() > NAME_MAX || name.contains('\0') {
            let why = "the name of an export has at most 4096 bytes, and no NUL among them";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self { name: name.to_owned(), size })
    }

    /// The name by which clients ask for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl From<Export> for Arc<[Export]> {
    /// The exports of a server that has only this one.
    fn from(export: Export) -> Self {
        Self::from([export])
    }
}

/// What the driver of a session must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read until the input has at least this many bytes, at most [`NEED_MAX`].
    Need(usize),
    /// Drop this many bytes from the front of the input.
    Used(usize),
    /// Do this job and report its result to [`Session::finished`](super::Session::finished).
    Do(Job),
    /// Send the remaining replies and close the connection.
    End,
}

/// A request for the disk. Offsets and sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// Write the first `size` bytes of the input, and drop them whether or not the write succeeds.
    Write {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, at most [`NEED_MAX`].
        size: usize,
    },
    /// Read, and send the bytes after the replies if the read succeeds.
    Read {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, at most [`NEED_MAX`].
        size: usize,
    },
    /// Write zeros.
    Zero {
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes, at most [`NEED_MAX`].
        size: usize,
    },
    /// Make every acknowledged write durable.
    Flush,
}
