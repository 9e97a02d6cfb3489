//! Error reports in three lines (what, where, what next), and the table of exit codes.

use crate::text::typed;
use seawall::Error;
use seawall::encryption::KeyError;
use seawall::format::Refused;
use seawall::verify::Verdict;
use seawall_measure::scratch::NoFolder;
use serde::{Serialize, Serializer};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The outcome of the program; the same for all verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success, which includes an ordinary torn tail.
    Fine,
    /// An I/O or environment error; nothing is known about the log.
    Failed,
    /// The command line is invalid.
    Usage,
    /// The tail is a torn write or damage; with `--strict`: any torn tail.
    Unsure,
    /// Damage, but every record can still be read.
    Correctable,
    /// Damage, and records are lost.
    Lost,
    /// Another process writes the log.
    Busy,
    /// A wrong or missing key, or tampering.
    Key,
    /// Not a Seawall log, or a log of a newer version.
    Format,
    /// The target exists with different content.
    Conflict,
    /// Synced data is not durable here.
    Contract,
    /// The exit code of a program started by `--run`.
    Theirs(u8),
    /// A signal ended the program after an orderly stop.
    Signalled(u8),
}

/// Code and rank: of several results, the highest rank determines the exit code.
pub const TABLE: [(Exit, u8, u8); 11] = [
    (Exit::Fine, 0, 0),
    (Exit::Failed, 1, 1),
    (Exit::Usage, 2, 2),
    (Exit::Unsure, 3, 8),
    (Exit::Correctable, 4, 9),
    (Exit::Lost, 5, 10),
    (Exit::Busy, 6, 3),
    (Exit::Key, 7, 7),
    (Exit::Format, 8, 6),
    (Exit::Conflict, 9, 4),
    (Exit::Contract, 10, 5),
];

/// The meaning of each exit code. `--help` prints this table; `seawall explain` and
/// docs/operations.md begin with the same words, and a test compares them.
pub const MEANINGS: [(&str, &str); 14] = [
    ("0", "success; a torn tail after a crash is normal"),
    ("1", "I/O or environment error; no such path"),
    ("2", "usage error"),
    ("3", "ambiguous tail: torn write or damage (with --strict: any torn tail)"),
    ("4", "damage, but all records can be read"),
    ("5", "damage, and the named records are lost"),
    ("6", "another process has the log open for writing"),
    ("7", "no key or a wrong one; or bytes that no holder of the key wrote"),
    ("8", "not a Seawall log, or written by a newer version"),
    ("9", "the target exists with different content"),
    ("10", "synced data can be lost here, or no sync confirms the last records"),
    ("101", "a bug in Seawall"),
    ("129, 130, 143", "ended by SIGHUP, Ctrl-C or SIGTERM"),
    ("141", "the reader of the output closed the pipe"),
];

impl Exit {
    /// The exit code for the shell.
    #[must_use]
    pub fn code(self) -> u8 {
        self.row().1
    }

    /// The worse of two: 5, then 4, 3, 7, 8, 10, 9, 6, 2, 1, 0. An error never hides lost records.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.row().2 > self.row().2 { other } else { self }
    }

    /// The exit code for a verdict.
    #[must_use]
    pub fn of(verdict: Verdict, strict: bool) -> Self {
        match verdict {
            Verdict::Torn if strict => Self::Unsure,
            Verdict::Clean | Verdict::Torn => Self::Fine,
            Verdict::Unsure => Self::Unsure,
            Verdict::Correctable => Self::Correctable,
            // A verdict unknown to this program counts as the worst.
            _ => Self::Lost,
        }
    }

    fn row(self) -> (Self, u8, u8) {
        if let Self::Theirs(code) = self {
            // Our own errors rank above the exit code of a child process.
            return (self, code, 0);
        }
        if let Self::Signalled(signal) = self {
            return (self, 128 + signal, 10);
        }
        TABLE.into_iter().find(|row| row.0 == self).expect("every exit has a row")
    }
}

impl Serialize for Exit {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(self.code())
    }
}

/// An error for people.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    what: String,
    place: String,
    next: String,
}

impl Failure {
    /// An error with its first line; [`at`](Self::at) and [`next`](Self::next) give the others.
    pub fn new(exit: Exit, what: impl Display) -> Self {
        Self { exit, what: what.to_string(), place: String::new(), next: String::new() }
    }

    /// The error of a verb on a log.
    #[must_use]
    pub fn of(error: &Error, verb: &str, log: &Path) -> Self {
        let exit = exit_of(error);
        let next = next_after(error, verb, log);
        Self::new(exit, what_of(error, log)).at(log.display()).next(next)
    }

    /// Returns the error of a verb that creates a new log from `log`.
    #[must_use]
    pub fn of_making(error: &Error, verb: &str, (log, target): (&Path, &Path)) -> Self {
        let partial = PathBuf::from(format!("{}.partial", target.display()));
        match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                if target.symlink_metadata().is_ok() {
                    let failure = Self::new(Exit::Conflict, "the target exists");
                    return failure.at(target.display()).next("give a name that does not exist");
                }
                let what = "an earlier run did not finish, and left its temporary directory";
                let next = "remove it, unless another process is still using it; then try again";
                Self::new(Exit::Conflict, what).at(partial.display()).next(next)
            }
            Error::Io { source, .. } if !is_missing(source, log) => {
                let place = format!("{}, to be written to {}", log.display(), target.display());
                let is_complete = target.symlink_metadata().is_ok();
                let next = match source.kind() {
                    _ if is_complete => "check the device, then give another path",
                    io::ErrorKind::StorageFull => "free some space, or give another path",
                    io::ErrorKind::FileTooLarge => "raise that limit",
                    io::ErrorKind::NotFound => "make the directory of the new log first",
                    _ => "check the path, its permissions and its device, then try again",
                };
                // If the new log cannot be removed, or only its name is not durable, it stays.
                let left = match (is_complete, partial.symlink_metadata().is_ok()) {
                    (true, _) => format!("{} exists", target.display()),
                    (false, true) => format!("remove {}", partial.display()),
                    (false, false) => "nothing was created".to_owned(),
                };
                let next = format!("{next}; {left}, and the log is unchanged");
                Self::new(Exit::Failed, what_of(error, log)).at(place).next(next)
            }
            _ => Self::of(error, verb, log),
        }
    }

    /// The error of writing a report.
    #[must_use]
    pub fn of_page(error: &io::Error, path: &Path) -> Self {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let what = "the report exists, or an unfinished one";
            return Self::new(Exit::Conflict, what)
                .at(format!("{0} or {0}.partial", path.display()))
                .next("give a name that does not exist");
        }
        if error.kind() == io::ErrorKind::InvalidInput {
            return Self::new(Exit::Failed, error).at(path.display()).next("give a path that does");
        }
        let failure = Self::new(Exit::Failed, format!("cannot write the report: {error}"));
        failure.at(path.display()).next("give a name in a writable directory")
    }

    /// Sets where the error happened: a path, an option, an offset.
    #[must_use]
    pub fn at(mut self, place: impl Display) -> Self {
        self.place = place.to_string();
        self
    }

    /// Sets the advice on what to do next.
    #[must_use]
    pub fn next(mut self, next: impl Display) -> Self {
        self.next = next.to_string();
        self
    }

    /// The first line, without the program's name.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Prints the error, and returns its exit code.
    #[expect(clippy::must_use_candidate, reason = "it is called to print")]
    pub fn tell(&self) -> Exit {
        let Self { exit, what, place, next } = self;
        say(&format!("seawall: {what}\n  where: {place}\n  next: {next}"));
        *exit
    }
}

impl From<NoFolder> for Failure {
    fn from(error: NoFolder) -> Self {
        let NoFolder { path, source } = &error;
        if source.kind() == io::ErrorKind::AlreadyExists {
            let what = "a killed run left its directory";
            let failure = Self::new(Exit::Failed, what).at(path.display());
            return failure.next("remove it, and try again");
        }
        let failure = Self::new(Exit::Failed, &error).at(path.display());
        failure.next("give another directory that is writable")
    }
}

/// Prints to standard error, ignoring errors.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Overwrites the current line on a terminal; nothing clears it afterwards.
pub fn say_over(text: &str) {
    let mut terminal = io::stderr().lock();
    let _ = write!(terminal, "\r{text:<40}\r").and_then(|()| terminal.flush());
}

/// Prints the error, if any, and returns the outcome.
#[must_use]
pub fn exit(done: Result<Exit, Failure>) -> Exit {
    done.unwrap_or_else(|failure| failure.tell())
}

fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => Exit::Format,
        Error::Busy { .. } => Exit::Busy,
        Error::NotALog { .. } | Error::Unsupported { .. } => Exit::Format,
        Error::Key { .. } => Exit::Key,
        Error::Mismatch { .. } | Error::InvalidOption { .. } => Exit::Usage,
        Error::Damaged { damage, .. } if damage.lost.is_none() => Exit::Correctable,
        Error::Damaged { .. } => Exit::Lost,
        Error::Ambiguous { .. } => Exit::Unsure,
        Error::Unconfirmed { .. } => Exit::Contract,
        _ => Exit::Failed,
    }
}

fn what_of(error: &Error, log: &Path) -> String {
    match error {
        Error::Io { source, .. } if is_missing(source, log) => {
            format!("no such log: {}", log.display())
        }
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => {
            "not a Seawall log: a log is a directory".to_owned()
        }
        Error::Unsupported { refused, .. } => {
            format!("this log was written by another version of Seawall: {refused}")
        }
        Error::NotALog { found, .. } => format!("not a Seawall log: {found}"),
        Error::Busy { .. } => format!("another process has {} open for writing", log.display()),
        Error::Damaged { damage, .. } => format!("{} is damaged: {damage}", log.display()),
        Error::Pruned { oldest, .. } => {
            format!("{}: records before {oldest} were truncated away", log.display())
        }
        Error::DiskFull { source, .. } => {
            let log = log.display();
            format!(
                "no room for the next segment of {log}: nothing that was acknowledged is lost \
                 ({source})"
            )
        }
        other => format!("{:#}", other.without_log()),
    }
}

fn next_after(error: &Error, verb: &str, log: &Path) -> String {
    let shown = typed(log);
    match error {
        Error::Io { source, .. } => next_after_io(source, verb, log),
        Error::Busy { .. } => "wait until it ends; reading works meanwhile".to_owned(),
        Error::NotALog { .. } => {
            "give the directory that `seawall append` was given, or a new one to append".to_owned()
        }
        Error::Unsupported { refused: Refused::OtherVersion { version, draft }, .. }
            if *version == 0 || *draft != 0 =>
        {
            format!(
                "seawall cat {shown} -o len32, with the seawall that wrote it; then append that to \
                 a new log with this one"
            )
        }
        Error::Unsupported { refused: Refused::NotBuiltIn { compression }, .. } => {
            format!("use a seawall that was built with --features {compression}")
        }
        Error::Unsupported { .. } => "use the version of seawall that wrote it".to_owned(),
        Error::Mismatch { what, .. } => match option_for(what) {
            Some(option) => format!("omit {option}, or give another log"),
            None => "give a log of this kind".to_owned(),
        },
        Error::Key { source, .. } => next_after_key(*source, &shown),
        Error::InvalidOption { .. } => format!("seawall {verb} --help"),
        Error::Damaged { .. } => {
            format!("seawall repair {shown}, for a plan; or seawall cat {shown} --skip-damaged")
        }
        Error::Unconfirmed { .. } => format!(
            "check the system journal for errors of this device; seawall append {shown} </dev/null \
             then settles what becomes of them"
        ),
        Error::TooLarge { .. } => "split it into smaller records".to_owned(),
        Error::Poisoned { .. } => format!(
            "fix the cause, then open the log again: seawall verify {shown} shows what survived"
        ),
        Error::DiskFull { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => format!(
            "{}, then send the rest again: acknowledged records are kept",
            raise_limit(verb)
        ),
        Error::DiskFull { .. } => {
            "free some space, then send the rest again: acknowledged records are kept".to_owned()
        }
        Error::Pruned { oldest, .. } => {
            format!("begin with record {oldest}, the oldest in the log")
        }
        Error::Rewound { next, .. } | Error::BeyondEnd { next, .. } => match next.previous() {
            Some(last) => format!(
                "the log was truncated to {last}: discard what you derived from later records, and \
                     set the cursor to {next}"
            ),
            None => format!("discard what you derived from it, and set the cursor to {next}"),
        },
        _ => format!("seawall verify {shown}"),
    }
}

fn next_after_key(error: KeyError, log: &str) -> String {
    match error {
        KeyError::NoKey => "give the key with --key-file".to_owned(),
        KeyError::WrongKey => "give the key of this log with --key-file".to_owned(),
        KeyError::NotEncrypted => format!(
            "read it without --key-file; to encrypt new records: seawall append {log} --encrypt \
             --key-file KEY. If it should be encrypted, this is another log"
        ),
        _ => format!(
            "if the key is right, someone changed the log: compare it with a backup; seawall \
             verify {log} without a key checks it for damage"
        ),
    }
}

fn is_device_error(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if number == Some(EIO) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The option of `append` that sets this property of a log.
fn option_for(what: &str) -> Option<&'static str> {
    match what {
        "layout" => Some("--log-format"),
        "segment size" => Some("--segment-size"),
        "codec" => Some("--codec"),
        _ => None,
    }
}

/// Whether the path of the log does not exist.
fn is_missing(error: &io::Error, log: &Path) -> bool {
    error.kind() == io::ErrorKind::NotFound && log.symlink_metadata().is_err()
}

fn next_after_io(error: &io::Error, verb: &str, log: &Path) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if is_missing(error, log) => {
            let parent = log.parent().filter(|parent| !parent.as_os_str().is_empty());
            match parent.filter(|parent| !parent.exists()) {
                Some(parent) => format!("mkdir -p {}", typed(parent)),
                None if verb == "append" => {
                    "check the path; without --no-create, append creates the log".to_owned()
                }
                None => "check the path".to_owned(),
            }
        }
        io::ErrorKind::NotADirectory => "give the log's directory".to_owned(),
        io::ErrorKind::PermissionDenied => "check the permissions".to_owned(),
        io::ErrorKind::StorageFull => {
            "free some space, then try again: acknowledged records are kept".to_owned()
        }
        io::ErrorKind::FileTooLarge => {
            format!("{}, then try again: acknowledged records are kept", raise_limit(verb))
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is mounted read-only: give another place, or remount it".to_owned()
        }
        io::ErrorKind::InvalidFilename => "give a shorter name".to_owned(),
        io::ErrorKind::QuotaExceeded => "free some space in your quota, then try again".to_owned(),
        // EIO has no `ErrorKind`.
        _ if is_device_error(error) => {
            "look for errors of this device in the kernel log (dmesg), then try again".to_owned()
        }
        _ => "check the path, then try again".to_owned(),
    }
}

/// The advice for a file that would exceed the process's limit, which the error names.
fn raise_limit(verb: &str) -> &'static str {
    match verb {
        "append" => "raise that limit, or give new logs a smaller --segment-size",
        _ => "raise that limit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::Log;
    use seawall_measure::scratch::Scratch;

    #[test]
    fn error_of_a_copy_says_whether_something_was_created() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-report").unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["unfinished.partial", "complete"] {
            Log::<u32>::open(at(name)).unwrap();
        }
        let next = |name: &str| {
            let source = io::Error::from(io::ErrorKind::StorageFull);
            let error = Error::Io { log: None, what: "sync".to_owned(), source };
            Failure::of_making(&error, "copy", (&at("log"), &at(name))).next
        };
        let found = ["none", "unfinished", "complete"].map(next);
        let says = |index: usize, text: &str| found[index].contains(text);
        assert!(says(0, "; nothing was created, and"), "{found:?}");
        assert!(says(1, "unfinished.partial, and") && says(2, "complete exists, and"), "{found:?}");
    }

    #[test]
    fn worst_exit_follows_the_documented_order() {
        let order = [
            Exit::Lost,
            Exit::Correctable,
            Exit::Unsure,
            Exit::Key,
            Exit::Format,
            Exit::Contract,
            Exit::Conflict,
            Exit::Busy,
            Exit::Usage,
            Exit::Failed,
            Exit::Fine,
        ];
        for pair in order.windows(2) {
            let [worse, better] = pair else { panic!("windows of two") };
            assert_eq!((worse.worse(*better), better.worse(*worse)), (*worse, *worse));
        }
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let codes = TABLE.map(|row| row.0.code());
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
