//! What the caller of a failed operation can do.

use crate::base::error::Error;
use std::io;

/// The action open to the caller of a failed operation.
///
/// For an [`Error::Io`] the kind of the device's error decides:
///
/// | [`io::ErrorKind`] | action | why |
/// |---|---|---|
/// | `NotFound`, `PermissionDenied`, `AlreadyExists` | `Usage` | path or permissions are wrong |
/// | `NotADirectory`, `IsADirectory`, `DirectoryNotEmpty` | `Usage` | the path leads elsewhere |
/// | `InvalidInput`, `InvalidFilename` | `Usage` | not a file, or not a name, for a log |
/// | `ReadOnlyFilesystem`, `Unsupported` | `Usage` | mount it for writing, or use another one |
/// | `InvalidData`, `UnexpectedEof` | `Repair` | a file contradicts the log, or is too short |
/// | `StaleNetworkFileHandle` | `Reopen` | the server does not know the open files any more |
/// | others, such as `StorageFull`, `TimedOut` or `Other` | `Retry` | the device can recover |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The log is unchanged. The same call can succeed later: when the device works again, has
    /// space, or the other writer has exited.
    Retry,
    /// This handle cannot write any more. Open the log again to see which records survived.
    Reopen,
    /// Stored bytes are damaged, or a crash may have left them unfinished. See
    /// [`Maintenance`](crate::Maintenance).
    Repair,
    /// The call does not fit the log, its state or its environment: other options, a position that
    /// does not exist, a record that has no encoding, a path without permission.
    Usage,
}

impl Error {
    /// Returns the action open to the caller.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{ErrorKind, Log, Options};
    ///
    /// let missing = std::env::temp_dir().join("seawall-doc-no-such-log");
    /// let error = Options::new().create(false).open::<u32, seawall::Json>(missing).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Usage);
    /// assert!(!error.is_retryable());
    /// ```
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => of_io(source.kind()),
            Self::Busy { .. } | Self::DiskFull { .. } | Self::WouldBlock { .. } => ErrorKind::Retry,
            Self::Poisoned { .. } | Self::Closed { .. } | Self::Forked { .. } => ErrorKind::Reopen,
            Self::Damaged { .. } | Self::Ambiguous { .. } | Self::Unconfirmed { .. } => {
                ErrorKind::Repair
            }
            Self::NotALog { .. }
            | Self::Unsupported { .. }
            | Self::Key { .. }
            | Self::Mismatch { .. }
            | Self::InvalidOption { .. }
            | Self::TooLarge { .. }
            | Self::Encode { .. }
            | Self::Decode { .. }
            | Self::Pruned { .. }
            | Self::Rewound { .. }
            | Self::BeyondEnd { .. }
            | Self::Reentrant { .. } => ErrorKind::Usage,
        }
    }

    /// Returns whether the same call can succeed later without any other action.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Retry
    }
}

/// The action after an error of the device: the table of [`ErrorKind`].
fn of_io(kind: io::ErrorKind) -> ErrorKind {
    use io::ErrorKind as Io;
    match kind {
        Io::NotFound
        | Io::PermissionDenied
        | Io::AlreadyExists
        | Io::NotADirectory
        | Io::IsADirectory
        | Io::DirectoryNotEmpty
        | Io::InvalidInput
        | Io::InvalidFilename
        | Io::ReadOnlyFilesystem
        | Io::Unsupported => ErrorKind::Usage,
        Io::InvalidData | Io::UnexpectedEof => ErrorKind::Repair,
        Io::StaleNetworkFileHandle => ErrorKind::Reopen,
        _ => ErrorKind::Retry,
    }
}
