//! Opens logs with the key that the command line gives, if any.

use crate::args::KeyOption;
use seawall::encryption::{Key, KeyError, KeyFile, KeySource};
use seawall::{Error, LogReader, Maintenance, Options, Raw};
use seawall_output::report::{Exit, Failure};
use std::path::Path;

/// Opens logs, with a key or without.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Opener(Option<Key>);

impl Opener {
    /// Reads the key. A verb calls this only once, because a pipe delivers the key only once.
    pub(in crate::commands) fn of(option: &KeyOption) -> Result<Self, Failure> {
        option.key_file.as_deref().map(read_key).transpose().map(Self)
    }

    /// Returns options with the key, if any.
    pub(in crate::commands) fn options(&self) -> Options {
        self.0.iter().cloned().fold(Options::new(), Options::key)
    }

    /// Returns the maintenance of this log, with the key, if any.
    pub(in crate::commands) fn maintenance(&self, log: &Path) -> Maintenance<'static> {
        self.0.iter().cloned().fold(Maintenance::at(log), Maintenance::key)
    }

    /// Opens a reader of this log for any codec.
    pub(in crate::commands) fn reader(&self, log: &Path) -> Result<LogReader<[u8], Raw>, Error> {
        self.options().open_any_reader(log)
    }

    /// Opens a reader; `None` if the log is encrypted and there is no key.
    pub(in crate::commands) fn reader_unless_locked(
        &self,
        log: &Path,
    ) -> Result<Option<LogReader<[u8], Raw>>, Error> {
        match self.reader(log) {
            Err(Error::Key { source: KeyError::NoKey, .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Refuses a key that does not belong to this log.
    pub(in crate::commands) fn check(&self, log: &Path) -> Result<(), Error> {
        match (&self.0, self.reader(log)) {
            (Some(_), Err(error @ Error::Key { .. })) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Reads the key in this file.
pub(in crate::commands) fn read_key(file: &Path) -> Result<Key, Failure> {
    KeyFile::new(file).key().map_err(|error| {
        let failure = Failure::new(Exit::Key, format!("no key: {error}"));
        failure.at(file.display()).next("give a file that `seawall keygen` made")
    })
}
