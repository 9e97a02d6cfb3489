//! Adds the key to everything that opens an encrypted log.

use seawall::encryption::Key;
use seawall::{LogReader, Maintenance, Options, Raw};
use seawall_io::Storage;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Whether the log of the run in this thread is encrypted.
    static IS_ENCRYPTED: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether the log of the run that begins is encrypted.
pub(crate) fn begin(is_encrypted: bool) {
    IS_ENCRYPTED.set(is_encrypted);
}

fn key() -> Option<Key> {
    IS_ENCRYPTED.get().then(|| Key::new(&[7; 32]))
}

/// Adds the key to `options`, and chunks that leave enough space for records.
pub(crate) fn options(options: Options) -> Options {
    match key() {
        Some(key) => options.key(key).encode_sizes(0, 2000),
        None => options,
    }
}

/// Opens a reader for records of any codec.
pub(crate) fn reader(storage: Arc<dyn Storage>) -> seawall::Result<LogReader<[u8], Raw>> {
    options(Options::new()).open_any_reader_in(storage)
}

/// Returns maintenance with the key.
pub(crate) fn maintenance<'a>(storage: &Arc<dyn Storage>) -> Maintenance<'a> {
    let maintenance = Maintenance::on(storage);
    match key() {
        Some(key) => maintenance.key(key),
        None => maintenance,
    }
}
