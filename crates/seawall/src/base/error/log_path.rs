//! Adds to an error the log that it is about. Only the methods of the public handles know the log.

use crate::base::error::{Error, Result};
use seawall_io::Storage;
use std::path::{Path, PathBuf};

/// Adds the log to the errors that a public method returns. An error that names its log already,
/// such as one about a replica, keeps it.
pub(crate) trait NamesLog {
    /// Adds the log in `storage`.
    fn of_log(self, storage: &dyn Storage) -> Self;

    /// Adds the log at `path`.
    fn of_log_at(self, path: &Path) -> Self;
}

impl NamesLog for Error {
    fn of_log(mut self, storage: &dyn Storage) -> Self {
        self.log_mut().get_or_insert_with(|| storage.path());
        self
    }

    fn of_log_at(mut self, path: &Path) -> Self {
        self.log_mut().get_or_insert_with(|| path.to_owned());
        self
    }
}

impl<T> NamesLog for Result<T> {
    #[inline]
    fn of_log(self, storage: &dyn Storage) -> Self {
        self.map_err(|error| error.of_log(storage))
    }

    #[inline]
    fn of_log_at(self, path: &Path) -> Self {
        self.map_err(|error| error.of_log_at(path))
    }
}

/// The field `log` of an error, shared or mutable as the error is.
macro_rules! log_of {
    ($error:expr) => {
        match $error {
            Error::Io { log, .. }
            | Error::Busy { log, .. }
            | Error::NotALog { log, .. }
            | Error::Unsupported { log, .. }
            | Error::Key { log, .. }
            | Error::Mismatch { log, .. }
            | Error::InvalidOption { log, .. }
            | Error::Damaged { log, .. }
            | Error::Ambiguous { log, .. }
            | Error::TooLarge { log, .. }
            | Error::DiskFull { log, .. }
            | Error::Encode { log, .. }
            | Error::Decode { log, .. }
            | Error::Poisoned { log, .. }
            | Error::Pruned { log, .. }
            | Error::Rewound { log, .. }
            | Error::BeyondEnd { log, .. }
            | Error::Unconfirmed { log, .. }
            | Error::WouldBlock { log }
            | Error::Closed { log }
            | Error::Reentrant { log }
            | Error::Forked { log, .. } => log,
        }
    };
}

impl Error {
    /// The path of the log, or its name in another kind of storage.
    ///
    /// Each method of this crate that returns an error about a log sets it. `None` in an error that
    /// a program made itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Options};
    ///
    /// let missing = std::env::temp_dir().join("seawall-doc-no-such-log");
    /// let error = Options::new().create(false).open::<u32, seawall::Json>(&missing).unwrap_err();
    /// assert_eq!(error.log(), Some(&*missing));
    /// ```
    #[must_use]
    pub fn log(&self) -> Option<&Path> {
        log_of!(self).as_deref()
    }

    fn log_mut(&mut self) -> &mut Option<PathBuf> {
        log_of!(self)
    }
}
