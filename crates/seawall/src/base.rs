//! Types and helpers that every layer uses: errors, options, codecs, time and threads.

pub(crate) mod codec;
pub(crate) mod deferred_delete;
pub(crate) mod env;
pub(crate) mod error;
pub(crate) mod event_count;
#[cfg(feature = "json")]
pub(crate) mod json;
#[cfg(feature = "encryption")]
pub(crate) mod key_source;
pub(crate) mod keys;
pub(crate) mod num;
pub(crate) mod options;
pub(crate) mod record_type;
pub(crate) mod retention;
pub(crate) mod spare_files;
pub(crate) mod sync;
pub(crate) mod versioned;
