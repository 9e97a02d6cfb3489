//! Options of `seawall replay`.

use super::common::KeyOption;
use super::values;
use crate::output::progress::Patience;
use clap::Args;
use seawall::Lsn;
use seawall_output::Look;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// `seawall replay`
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The log of operations
    pub(crate) log: PathBuf,
    /// Where to apply the transactions: json:-, json:FILE, cmd:PROGRAM, or a store as NAME:PLACE
    #[arg(long, value_name = "TARGET")]
    pub(crate) into: Target,
    /// Changes in a batch; auto picks the cheapest size
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) batch: Batch,
    /// Partitions of the keys, each applied by its own thread; a store may allow fewer
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Where to start for a new target that already holds all earlier records; for json: the first
    /// commit to print
    #[arg(long, value_name = "LSN", value_parser = values::parse_lsn)]
    pub(crate) from: Option<u64>,
    /// Apply only what was committed up to this record or time, e.g. 2025-11-21T04:40:00Z
    #[arg(long, value_name = "LSN|TIME")]
    pub(crate) until: Option<Until>,
    #[command(flatten)]
    pub(crate) accept: Accept,
    /// Show what would be applied, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the result as Prometheus metrics
    #[arg(long, conflicts_with = "json")]
    pub(crate) prometheus: bool,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What a replay accepts only on request.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Accept {
    /// Trust a target whose position cannot be checked: it was stored by an earlier version, or its
    /// last record is no longer in the log
    #[arg(long)]
    pub(crate) adopt: bool,
    /// Go on without transactions that lack records: a repair gave up some, or their begin is gone
    #[arg(long)]
    pub(crate) skip_incomplete: bool,
}

/// Where transactions are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Standard output, as lines of JSON.
    Output,
    /// A new file of such lines.
    File(PathBuf),
    /// A line of shell that takes batches.
    Program(String),
    /// A store that is compiled in.
    Store(StorePlace),
}

/// A store: its kind and its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlace {
    pub(crate) name: String,
    pub(crate) place: PathBuf,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("json", "-")) => Ok(Self::Output),
            Some(("json" | "cmd", "")) | None => {
                Err("write json:-, json:FILE, cmd:PROGRAM, or NAME:PLACE for a store".to_owned())
            }
            Some(("json", file)) => Ok(Self::File(file.into())),
            Some(("cmd", program)) => Ok(Self::Program(program.to_owned())),
            Some(_) => text.parse().map(Self::Store),
        }
    }
}

impl FromStr for StorePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !name.is_empty() && name.chars().all(plain)
        };
        match text.split_once(':') {
            Some((name, place)) if is_name(name) && !place.is_empty() => {
                Ok(Self { name: name.to_owned(), place: place.into() })
            }
            _ => Err(format!("`{text}` is not a store; write NAME:PLACE, e.g. fjall:state")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output => f.write_str("json:-"),
            Self::File(path) => write!(f, "json:{}", path.display()),
            Self::Program(program) => write!(f, "cmd:{program}"),
            Self::Store(store) => store.fmt(f),
        }
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.place.display())
    }
}

/// Changes per batch; `None` adapts the size to the measured cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch(pub(crate) Option<usize>);

impl FromStr for Batch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
        let wrong = || format!("`{text}` is not a number of changes: auto, or 1 to 1000000");
        number.map(|number| Self(Some(number))).ok_or_else(wrong)
    }
}

/// Where a replay ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Lsn(Lsn),
    /// Microseconds since 1970.
    Time(u64),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.chars().all(|c| c.is_ascii_digit()) {
            let number = values::parse_lsn(text)?;
            return Lsn::new(number).map(Self::Lsn).ok_or_else(|| "numbers begin at 1".to_owned());
        }
        let wrong = || {
            format!(
                "`{text}` is neither an LSN nor a time; write 120, or 2025-11-21T04:40:00Z (UTC)"
            )
        };
        time(text).map(Self::Time).ok_or_else(wrong)
    }
}

/// A time in UTC, with up to six digits of a second's fraction.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = match text.strip_suffix('Z')?.split_once('.') {
        Some((_, "")) => return None,
        Some((seconds, fraction)) => (seconds, fraction),
        None => (text.strip_suffix('Z')?, ""),
    };
    seawall_format::time::from_text(&format!("{seconds}.{fraction:0<6}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_parsed_and_displayed_unchanged() {
        for text in ["json:-", "json:all.jsonl", "cmd:sh apply.sh a:b", "fjall:/var/lib/state"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), text);
        }
        for wrong in ["", "json", "json:", "cmd:", "fjall", "fjall:", ":place", "a b:place"] {
            wrong.parse::<Target>().expect_err(wrong);
        }
    }

    #[test]
    fn until_is_an_lsn_or_a_time() {
        let until = |text: &str| text.parse::<Until>().ok();
        assert_eq!(until("7"), Lsn::new(7).map(Until::Lsn));
        let second = 1_763_700_000_000_000;
        assert_eq!(until("2025-11-21T04:40:00Z"), Some(Until::Time(second)));
        assert_eq!(until("2025-11-21T04:40:00.5Z"), Some(Until::Time(second + 500_000)));
        assert_eq!(until("2025-11-21T04:40:00.000001Z"), Some(Until::Time(second + 1)));
        let wrong = ["", "0", "-1", "noon", "2025-11-21", "2025-11-21T04:40:00", "Z", "\u{e9}Z"];
        for wrong in wrong.into_iter().chain(["2025-11-21T04:40:00.Z", "2025-13-21T04:40:00Z"]) {
            assert_eq!(until(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn batch_is_auto_or_a_number() {
        let batch = |text: &str| text.parse().ok();
        assert_eq!(batch("auto"), Some(Batch(None)));
        assert_eq!(batch("100"), Some(Batch(Some(100))));
        for wrong in ["0", "", "many", "-1", "1000001"] {
            assert_eq!(batch(wrong), None, "{wrong}");
        }
    }
}
