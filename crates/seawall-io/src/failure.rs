//! Device errors that name the operation and the file.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

/// An operating system error together with the operation that failed.
///
/// It is the payload of an [`io::Error`] of the same kind. Its text includes the text of the
/// original error, so that error is not its `source`; [`into_parts`] separates the two.
#[derive(Debug)]
struct Failure {
    act: &'static str,
    object: String,
    source: io::Error,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.act, self.object, self.source)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// Adds the context "`act` on `object`" to `error` and keeps its kind. [`into_parts`] removes it.
pub fn explain(act: &'static str, object: &str, error: impl Into<io::Error>) -> io::Error {
    let source = error.into();
    io::Error::new(source.kind(), Failure { act, object: object.to_owned(), source })
}

/// Separates an error of this crate into its context, such as `open log/live`, and the operating
/// system's own error with its number. An error without context has `None` as its first part.
///
/// # Examples
///
/// ```
/// use seawall_io::{PosixStorage, into_parts};
///
/// let error = PosixStorage::open("/nowhere/at/all".as_ref()).unwrap_err();
/// let (what, cause) = into_parts(error);
/// assert_eq!(what.as_deref(), Some("open /nowhere/at/all"));
/// assert_eq!(cause.kind(), std::io::ErrorKind::NotFound);
/// ```
#[must_use]
pub fn into_parts(error: io::Error) -> (Option<String>, io::Error) {
    match error.downcast::<Failure>() {
        Ok(Failure { act, object, source }) => (Some(format!("{act} {object}")), source),
        Err(other) => (None, other),
    }
}

/// Refuses a name that is not a plain file name, as every [`Storage`](crate::Storage) does.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`]: the name is empty, has a separator, or is `.` or `..`.
pub fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty()
        || name == "."
        || name == ".."
        || name.bytes().any(|byte| matches!(byte, b'/' | 0))
    {
        let message = format!("{name:?} is not a plain file name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

/// Refuses to `act` on the bytes up to `end` of the file `label` if they exceed the limit on the
/// size of this process's files (`RLIMIT_FSIZE`). The system would also send SIGXFSZ, which ends a
/// process that does not handle it.
pub(crate) fn check_size(
    act: &'static str,
    label: impl FnOnce() -> String,
    end: u64,
) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current.filter(|limit| *limit < end) {
        None => Ok(()),
        Some(limit) => {
            let (label, why) = (label(), "the file size limit (ulimit -f)");
            let object = format!("{label} beyond {limit} bytes, {why}");
            Err(explain(act, &object, Errno::FBIG))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explained_error_has_context_kind_and_number() {
        let error = explain("write", "/log/1.seg", Errno::NOSPC);
        assert!(error.to_string().starts_with("cannot write /log/1.seg: No space left"));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.source().is_none(), "the text includes it");
        let (what, source) = into_parts(error);
        assert_eq!(what.as_deref(), Some("write /log/1.seg"));
        assert_eq!(source.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(into_parts(source).0, None);
    }

    #[test]
    fn only_plain_file_names_are_accepted() {
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0b"] {
            assert_eq!(check_name(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        for name in ["a", "0000000001.seg", ".hidden", "..."] {
            check_name(name).unwrap();
        }
    }
}
