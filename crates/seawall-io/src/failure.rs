//! Device errors that say what was done to which file.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

/// An error of the machine with the operation that met it.
///
/// It travels inside an [`io::Error`] of the same kind; the machine's own error, with its number,
/// is its `source`.
#[derive(Debug)]
struct Failure {
    act: &'static str,
    object: String,
    source: io::Error,
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.act, self.object, self.source)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Says that `act` on `object` met `error`; the kind stays.
pub(crate) fn explain(act: &'static str, object: &str, error: impl Into<io::Error>) -> io::Error {
    let source = error.into();
    io::Error::new(source.kind(), Failure { act, object: object.to_owned(), source })
}

/// Refuses what is not a plain file name.
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        let message = format!("{name:?} is not a plain file name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn an_explained_error_says_where_and_keeps_kind_and_number() {
        let error = explain("write", "1.seg in /log", Errno::NOSPC);
        assert!(error.to_string().starts_with("write of 1.seg in /log: No space left"));
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }

    #[test]
    fn only_plain_file_names_pass() {
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0b"] {
            assert_eq!(check_name(name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        for name in ["a", "0000000001.seg", ".hidden", "..."] {
            check_name(name).unwrap();
        }
    }
}
