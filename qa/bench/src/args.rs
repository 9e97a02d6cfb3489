//! The command line of `seawall-bench`.

mod examples;

use crate::failure::Failure;
use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};
use examples::{
    APPEND, COMPRESS, CWAL, DISK, ENCRYPT, FRAME, HELIOS, OPEN, PAPER, PARITY, READ, REPLAY, ROLL,
    STREAM,
};
use seawall::Level;
use seawall_measure::human;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Benchmarks for developers of Seawall
#[derive(Debug, Parser)]
#[command(name = "seawall-bench", version, arg_required_else_help = true)]
#[command(after_help = ABOUT)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const ABOUT: &str = "\
The ways to do something take turns in short slices, and each is compared with
the first one of the same round. Where other programs use 5 % of the processors
or more, nothing is ranked: run this alone, as `chrt -f 1 seawall-bench VERB`.

Exit codes: 0 measured; 1 I/O or environment error; 2 usage error, or a baseline
that was measured differently; 9 the report exists.";

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Measure durable commits beside plain write-and-sync, with a page and a baseline
    #[command(after_help = APPEND)]
    Append(Append),
    /// Measure how fast verified records are read, beside the minimum work of any reader
    #[command(after_help = READ)]
    Read(Read),
    /// Measure the tables of the paper on a log in Rust, with its method and with Seawall
    #[command(after_help = PAPER)]
    Paper(Paper),
    /// Measure the benchmarks of the `CWal` library, its way and with Seawall
    #[command(about = "Measure the benchmarks of the CWal library, its way and with Seawall")]
    #[command(after_help = CWAL)]
    Cwal(Cwal),
    /// Measure the three modes of HeliosDB Nano's log beside Seawall
    #[command(after_help = HELIOS)]
    Helios(Helios),
    /// Measure appends that do not wait for each record, beside plain writes of a mebibyte
    #[command(after_help = STREAM)]
    Stream(Stream),
    /// Measure the cost of starting a new segment
    #[command(after_help = ROLL)]
    Roll(Roll),
    /// Measure the cost of a record in memory, before it is written
    #[command(after_help = FRAME)]
    Frame(Frame),
    /// Measure what compression and encryption save and cost, with real records
    #[command(after_help = COMPRESS)]
    Compress(Compress),
    /// Measure the cost of encryption for commits and for a stream
    #[command(after_help = ENCRYPT)]
    Encrypt(Encrypt),
    /// Measure the cost of parity, or of filled blocks, for commits
    #[command(after_help = PARITY)]
    Parity(Parity),
    /// Measure how fast a log is applied to a store: one by one, in batches, by `seawall replay`
    #[command(after_help = REPLAY)]
    Replay(Replay),
    /// Measure how long a log takes to open after its process was killed
    #[command(after_help = OPEN)]
    Open(Open),
    /// Measure the virtual disk: a write and its flush while armed, and the dump of a full ring
    #[command(after_help = DISK)]
    Disk(Disk),
    /// The reader whose memory `read` measures
    #[command(hide = true)]
    Reader(Reader),
    /// The process that `open` kills
    #[command(hide = true)]
    Opener(Opener),
}

/// The verbs that only other verbs run.
const HIDDEN: [&str; 2] = ["reader", "opener"];

/// The options that all benches have.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Seconds to measure each table, or all of it
    #[arg(long, value_name = "SECONDS", value_parser = human::parse_seconds)]
    pub(crate) time: Option<f64>,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", value_parser = human::parse_record_size)]
    size: Option<usize>,
    #[command(flatten)]
    pub(crate) beside: Beside,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A baseline to compare with, and a page to write.
#[derive(Debug, Args)]
pub(crate) struct Beside {
    /// Compare with an earlier build: a file with the output of its `--json`
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write a page with charts to this new file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// Defaults of `--time` and `--size`; `None` for a verb without the option.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) time: Option<f64>,
    pub(crate) size: Option<usize>,
}

const fn of(time: f64, size: usize) -> Defaults {
    Defaults { time: Some(time), size: Some(size) }
}

const DEFAULTS: [(&str, Defaults); 12] = [
    ("append", of(3.0, 116)),
    ("cwal", of(12.0, 1000)),
    ("compress", Defaults { time: Some(3.0), size: None }),
    ("encrypt", of(9.0, 116)),
    ("frame", Defaults { time: Some(3.0), size: None }),
    ("helios", of(6.0, 116)),
    ("open", Defaults { time: None, size: Some(116) }),
    ("paper", Defaults { time: Some(1.0), size: None }),
    ("parity", of(6.0, 116)),
    ("read", Defaults { time: Some(3.0), size: None }),
    ("roll", of(12.0, 4096)),
    ("stream", of(12.0, 116)),
];

impl Defaults {
    /// The defaults of a verb.
    pub(crate) fn of(verb: &str) -> Self {
        DEFAULTS.into_iter().find(|row| row.0 == verb).map(|row| row.1).unwrap_or_default()
    }
}

impl Common {
    /// Bytes in a record, for the verb of this name.
    pub(crate) fn size(&self, verb: &str) -> usize {
        self.size.or(Defaults::of(verb).size).unwrap_or_default()
    }

    /// Refuses an option that this verb does not use.
    pub(crate) fn refuse_unused(&self, verb: &str, defaults: Defaults) -> Result<(), Failure> {
        let unused = [
            ("--time", self.time.is_some() && defaults.time.is_none()),
            ("--size", self.size.is_some() && defaults.size.is_none()),
        ];
        let Some((option, _)) = unused.into_iter().find(|(_, is_unused)| *is_unused) else {
            return Ok(());
        };
        let what = format!("`{verb}` has no option {option}");
        Err(Failure::usage(what, "command line", format!("seawall-bench {verb} --help")))
    }
}

/// The command, with the defaults of each verb in its help.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    let verbs: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for verb in verbs.iter().filter(|verb| !HIDDEN.contains(&verb.as_str())) {
        let Defaults { time, size } = Defaults::of(verb);
        let told =
            [("time", time.map(|time| time.to_string())), ("size", size.map(|s| s.to_string()))];
        for (option, value) in told {
            command = command.mut_subcommand(verb, |verb| {
                verb.mut_arg(option, |arg| match value {
                    None => arg.hide(true),
                    Some(value) => {
                        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                        arg.help(format!("{help} [default: {value}]"))
                    }
                })
            });
        }
    }
    command
}

/// A durability level by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelName {
    Buffered,
    Synced,
    Confirmed,
}

impl LevelName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Synced => "synced",
            Self::Confirmed => "confirmed",
        }
    }

    pub(crate) fn level(self) -> Level {
        match self {
            Self::Buffered => Level::Buffered,
            Self::Synced => Level::Synced,
            Self::Confirmed => Level::Confirmed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Append {
    /// Number of threads that commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Use tasks on one thread, which await their records, instead of threads
    #[arg(long)]
    pub(crate) tasks: bool,
    /// The durability level of a commit
    #[arg(long, value_enum, default_value_t = LevelName::Synced)]
    pub(crate) level: LevelName,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Read {
    /// Number of records in the logs; each takes about 300 bytes
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    #[arg(value_name = "N", value_parser = parse_records)]
    pub(crate) records: Vec<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The reader whose memory `read` measures.
#[derive(Debug, Args)]
pub(crate) struct Reader {
    /// The log
    pub(crate) log: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Paper {
    /// Number of records to write and read back; the default takes about 2 GiB
    #[arg(long, value_name = "N", default_value = "2000000", value_parser = parse_records)]
    pub(crate) records: u64,
    /// Number of runs
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Helios {
    /// Number of threads that commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,256")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Let their modes write to a store, created in PLACE and removed [default: a file]
    #[arg(long, value_name = "NAME:PLACE")]
    pub(crate) store: Option<StorePlace>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Stream {
    /// Bytes that may be appended and not yet durable
    #[arg(long, value_delimiter = ',', default_value = "256K,1M,8M")]
    #[arg(value_name = "BYTES", value_parser = human::parse_size)]
    pub(crate) windows: Vec<u64>,
    /// Write to new files only: nothing is removed, no file is used again
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Bytes that the log keeps of what was streamed
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = human::parse_size)]
    #[arg(conflicts_with = "fresh")]
    pub(crate) keep: u64,
    /// Also measure what a log could reach: the same records, copied with a checksum and written by
    /// two threads, without a log
    #[arg(long)]
    pub(crate) pipeline: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Encrypt {
    /// Number of threads that commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Parity {
    /// Number of threads that commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Blocks of data and of parity in a stripe
    #[arg(long = "parity", value_name = "D+P", default_value = "16+2")]
    pub(crate) stripe: seawall::parity::Parity,
    /// Measure the cost of filled blocks instead
    #[arg(long, conflicts_with = "stripe")]
    pub(crate) fill_blocks: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Roll {
    /// Size of the small segments, measured beside segments of 64 MiB
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = human::parse_size)]
    pub(crate) segment_size: u64,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Size of a segment
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = human::parse_size)]
    pub(crate) segment_size: u64,
    /// Number of kills, for each of the two logs
    #[arg(long, value_name = "N", default_value = "12")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The process that `open` kills.
#[derive(Debug, Args)]
pub(crate) struct Opener {
    /// The log
    pub(crate) log: PathBuf,
    #[arg(long)]
    pub(crate) segment_size: u64,
    #[arg(long)]
    pub(crate) record_size: usize,
    #[arg(long)]
    pub(crate) reuse: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Frame {
    /// Bytes in a record, one table for each
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "116,4096")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) sizes: Vec<usize>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Compress {
    /// Records in a batch, one table for each
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "1,64,853")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) records: Vec<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Clone, Debug)]
pub(crate) struct StorePlace {
    pub(crate) name: String,
    pub(crate) place: PathBuf,
}

impl FromStr for StorePlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((name, place)) if !name.is_empty() && !place.is_empty() => {
                Ok(Self { name: name.to_owned(), place: place.into() })
            }
            _ => Err("write NAME:PLACE, as fjall:/var/lib/app".to_owned()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The store; created in PLACE and removed [default: a store in memory]
    #[arg(long, value_name = "NAME:PLACE")]
    pub(crate) store: Option<StorePlace>,
    /// Number of operations in the logs; a store in memory takes about 900 bytes for each
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = parse_records)]
    pub(crate) count: u64,
    /// Number of runs
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Let each write sleep this long, and measure 1, 2, 4 and 8 threads that apply
    #[arg(long, value_name = "MICROSECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) apply_cost: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Cwal {
    /// `LOG_LENGTH`: appends of one run
    #[arg(long, value_name = "N", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) logs: u64,
    /// `RFLUSH`: also flush each append of the runs that sync
    #[arg(long)]
    pub(crate) flush: bool,
    /// `SYNC_PERIOD` of the runs with `SYNC`
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,10")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) sync_period: Vec<u64>,
    /// `BATCH_SIZE` [default: the square root and the cube root of --logs]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) batch: Vec<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Disk {
    /// Number of writes to time, each with its flush
    #[arg(long, value_name = "N", default_value = "100000", value_parser = parse_records)]
    pub(crate) writes: u64,
    /// Writes a second; at full speed the ring fills up, and the device is timed
    #[arg(long, value_name = "N", default_value_t = 5000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// Number of dumps of a full ring, on each device
    #[arg(long, value_name = "N", default_value_t = 12)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) emergencies: u32,
    /// Number of threads that write until after the power fails
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) writers: u16,
    /// Time that a flush of the simulated device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Parses a number of records.
fn parse_records(text: &str) -> Result<u64, String> {
    let number = text.replace(['_', ','], "").parse().ok();
    let number = number.filter(|number| (1_000..=100_000_000).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number of records from 1000 to 100000000"))
}

/// Parses a delay of at most a minute, in milliseconds with an optional fraction.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let millis = text.parse::<f64>().ok().filter(|millis| (0.0..=60_000.0).contains(millis));
    let none = || format!("`{text}` is not a number of milliseconds from 0 to 60000, as 8.3");
    millis.map(|millis| Duration::from_secs_f64(millis / 1000.0)).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_three_valid_examples() {
        command().debug_assert();
        let command = command();
        let verbs: Vec<&Command> =
            command.get_subcommands().filter(|verb| !HIDDEN.contains(&verb.get_name())).collect();
        assert_eq!(verbs.len(), 14);
        for verb in verbs {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = help.strip_prefix("Examples:\n").expect("examples come first");
            let lines = lines.lines().take_while(|line| line.starts_with("  "));
            let mut count = 0;
            for line in lines {
                let at = line.find("seawall-bench").expect("each line is one of ours");
                let words = line[at..].split(" | ").next().unwrap_or_default();
                let words = words.split(" > ").next().unwrap_or_default();
                let words = words.split_whitespace();
                command.clone().try_get_matches_from(words).expect(line);
                count += 1;
            }
            assert!(count >= 3, "{}", verb.get_name());
            assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        }
    }

    #[test]
    fn an_option_that_a_verb_does_not_use_is_refused() {
        let common = |line: &str| {
            let cli = Cli::try_parse_from(line.split(' ')).expect("the option is known");
            let Verb::Disk(args) = cli.verb else { panic!("{line}") };
            args.common
        };
        let refused = |line: &str| common(line).refuse_unused("disk", Defaults::of("disk"));
        refused("seawall-bench disk --time 3").unwrap_err();
        refused("seawall-bench disk --size 3").unwrap_err();
        refused("seawall-bench disk").unwrap();
        assert_eq!(common("seawall-bench disk").size("cwal"), 1000);
        for verb in DEFAULTS.map(|row| row.0) {
            assert!(Cli::command().find_subcommand(verb).is_some(), "{verb}");
        }
    }
}
