//! The files of a log, one module for each kind. They know their own bytes and no other file.

pub(crate) mod consistent_read;
pub(crate) mod directory;
#[cfg(feature = "encryption")]
pub(crate) mod keys_file;
pub(crate) mod live;
pub(crate) mod local_writer;
pub(crate) mod manifest;
pub(crate) mod overlay;
pub(crate) mod parity_file;
pub(crate) mod read_buffer;
pub(crate) mod segment;
pub(crate) mod segment_reader;
pub(crate) mod staging;
pub(crate) mod unlock;
pub(crate) mod unreadable_heads;
