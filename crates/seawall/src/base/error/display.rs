//! How an error reads: the log, then what is wrong, then what to do.

use crate::base::error::{Error, Lost};
use std::fmt;
use std::path::Path;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(log) = self.log().filter(|log| !self.names(log)) {
            write!(f, "log {}: ", log.display())?;
        }
        fmt::Display::fmt(&WithoutLog(self), f)
    }
}

/// An error's own text.
struct WithoutLog<'a>(&'a Error);

impl fmt::Display for WithoutLog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        error.own_text(f)?;
        if f.alternate() {
            let first = std::error::Error::source(*error);
            for cause in std::iter::successors(first, |error| error.source()) {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl Error {
    /// Prints the error as `Display` does, but without the path of the log, for programs that print
    /// the path elsewhere. `{:#}` adds the causes.
    #[must_use]
    pub fn without_log(&self) -> impl fmt::Display {
        WithoutLog(self)
    }

    /// Whether the error's own text contains the path of this log already, usually in a file name.
    fn names(&self, log: &Path) -> bool {
        let text: &str = match self {
            Self::Io { what: text, .. }
            | Self::Unsupported { place: text, .. }
            | Self::Key { place: Some(text), .. }
            | Self::InvalidOption { why: text, .. } => text,
            Self::Poisoned { cause, .. } => cause,
            _ => return false,
        };
        let log = log.display().to_string();
        text.match_indices(&log).any(|(at, _)| {
            let (before, after) = (text.get(..at), text.get(at + log.len()..));
            let is_start = before.is_some_and(|before| before.is_empty() || before.ends_with(' '));
            is_start && after.is_some_and(|after| after.is_empty() || after.starts_with(['/', ':']))
        })
    }

    fn own_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, .. } => write!(f, "cannot {what}"),
            Self::Busy { .. } => f.write_str("another writer holds this log"),
            Self::NotALog { found, .. } => write!(f, "not a Seawall log: {found}"),
            Self::Unsupported { place, .. } => write!(f, "cannot read {place}"),
            Self::Key { place: Some(place), .. } => write!(f, "cannot trust {place}"),
            Self::Key { .. } => f.write_str("cannot decrypt the log"),
            Self::Mismatch { what, has, requested, .. } => {
                write!(f, "{what} mismatch: the log has {has}, but {requested} was requested")
            }
            Self::InvalidOption { why, .. } => f.write_str(why),
            Self::Damaged { damage, .. } => write!(f, "{damage}; run seawall verify"),
            Self::Ambiguous { segment, offset, .. } => write!(
                f,
                "segment {segment}, offset {offset}: ambiguous end: an unacknowledged torn write, \
                 or damage"
            ),
            Self::TooLarge { size, max, .. } => {
                write!(f, "record or atomic set of {size} bytes exceeds the maximum of {max}")
            }
            Self::DiskFull { .. } => f.write_str("no space for another segment"),
            Self::Encode { .. } => f.write_str("cannot encode the record"),
            Self::Decode { lsn, .. } => write!(f, "cannot decode record {lsn}"),
            Self::Poisoned { cause, .. } => {
                write!(f, "poisoned by a failure: {cause}; reopen the log to recover")
            }
            Self::Pruned { oldest, .. } => {
                write!(f, "earlier records were truncated; the log begins at record {oldest}")
            }
            Self::Rewound { next, .. } => {
                write!(f, "records that were read have been truncated; the next record is {next}")
            }
            Self::BeyondEnd { from, next, .. } => {
                write!(f, "position {from} is beyond the end of the log; the next record is {next}")
            }
            Self::Unconfirmed { from, to, .. } => {
                let lost = Lost { from: *from, to: *to };
                write!(f, "not confirmed as durable, and the sync failed: {lost}")
            }
            Self::WouldBlock { .. } => f.write_str("the log takes no record at the moment; retry"),
            Self::Closed { .. } => f.write_str("the log is closed"),
            Self::Reentrant { .. } => {
                f.write_str("a failover hook must not write to its log or wait for it")
            }
            Self::Forked { opened_in, .. } => write!(
                f,
                "the log was opened by process {opened_in}; a forked child must open it again"
            ),
        }
    }
}
