//! Errors in three lines: what is wrong, where, and what to do next; and the exit codes.

use seawall_measure::scratch::NoFolder;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::path::Path;

/// Exit code of an I/O or environment error.
const FAILED: u8 = 1;
/// Exit code of a usage error.
pub const USAGE: u8 = 2;
/// Exit code if the report's file exists already.
const CONFLICT: u8 = 9;

/// An error as printed for people.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    what: String,
    place: String,
    next: String,
}

impl Failure {
    /// Creates an I/O or environment error: what is wrong, where, and what to do next.
    pub fn new(what: impl Display, place: impl Display, next: impl Display) -> Self {
        let [what, place, next] = [what.to_string(), place.to_string(), next.to_string()];
        Self { code: FAILED, what, place, next }
    }

    /// Creates a usage error.
    pub fn usage(what: impl Display, place: impl Display, next: impl Display) -> Self {
        Self { code: USAGE, ..Self::new(what, place, next) }
    }

    /// Creates the error of a report that cannot be written.
    #[must_use]
    pub fn of_page(error: &io::Error, path: &Path) -> Self {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let what = "there is something where the report should be";
            let place = format!("{0} or {0}.partial", path.display());
            return Self {
                code: CONFLICT,
                ..Self::new(what, place, "give a name that does not exist")
            };
        }
        let what = format!("cannot write the report: {error}");
        Self::new(what, path.display(), "give a name in a writable directory")
    }

    /// Prints the error and returns the exit code.
    #[must_use]
    pub fn tell(&self) -> u8 {
        let Self { code, what, place, next } = self;
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default().display();
        let text = format!("{program}: {what}\n  where: {place}\n  next: {next}");
        // If standard error is closed, nothing can be reported.
        let _ = writeln!(io::stderr().lock(), "{text}");
        *code
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { what, place, next, .. } = self;
        write!(f, "{place}: {what}; {next}")
    }
}

impl Error for Failure {}

impl From<NoFolder> for Failure {
    fn from(error: NoFolder) -> Self {
        Self::new(&error, error.path.display(), "give --dir and --store directories that exist")
    }
}
