//! Errors in three lines: what, where, what next. And how the program ends.

use seawall_measure::scratch::NoFolder;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};
use std::path::Path;

/// I/O or environment.
const FAILED: u8 = 1;
/// The command line asks for what cannot be.
pub const USAGE: u8 = 2;
/// There is something else where the report should be.
const CONFLICT: u8 = 9;

/// An error as a person reads it.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    what: String,
    place: String,
    next: String,
}

impl Failure {
    /// I/O or environment: what is wrong, where, and what to do next.
    pub fn new(what: impl Display, place: impl Display, next: impl Display) -> Self {
        let [what, place, next] = [what.to_string(), place.to_string(), next.to_string()];
        Self { code: FAILED, what, place, next }
    }

    /// What was asked for cannot be.
    pub fn usage(what: impl Display, place: impl Display, next: impl Display) -> Self {
        Self { code: USAGE, ..Self::new(what, place, next) }
    }

    /// The report cannot be written.
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

    /// Tells the person; how the program ends.
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
