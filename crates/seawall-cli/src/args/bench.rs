//! The options of `seawall bench`.

use super::device::parse_delay;
use super::examples::{
    BENCH_CWAL_EXAMPLES, BENCH_DISK_EXAMPLES, BENCH_EXAMPLES, BENCH_FRAME_EXAMPLES,
    BENCH_HELIOS_EXAMPLES, BENCH_PAPER_EXAMPLES, BENCH_PARITY_EXAMPLES, BENCH_READ_EXAMPLES,
    BENCH_REPLAY_EXAMPLES, BENCH_ROLL_EXAMPLES, BENCH_STREAM_EXAMPLES,
};
use super::replay::StorePlace;
use super::{LevelName, Look};
use crate::human;
use crate::progress::Patience;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `seawall bench`
#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) what: BenchVerb,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Durable commits beside plain write-and-sync, in alternating slices
    #[command(after_help = BENCH_EXAMPLES)]
    Append(BenchAppend),
    /// Verified records out of a log, beside the least that any reader must do
    #[command(after_help = BENCH_READ_EXAMPLES)]
    Read(BenchRead),
    /// The tables of the paper on a log in Rust, by its method and by this log
    #[command(after_help = BENCH_PAPER_EXAMPLES)]
    Paper(BenchPaper),
    /// The benchmarks of the `CWal` library, by its method and by this log
    #[command(after_help = BENCH_CWAL_EXAMPLES)]
    Cwal(BenchCwal),
    /// The modes of HeliosDB Nano's log, its group commit by a window of 10 ms first, and this log
    #[command(after_help = BENCH_HELIOS_EXAMPLES)]
    Helios(BenchHelios),
    /// Appends that do not wait for each record, beside plain writes of a mebibyte
    #[command(after_help = BENCH_STREAM_EXAMPLES)]
    Stream(BenchStream),
    /// Cost of starting a new segment
    #[command(after_help = BENCH_ROLL_EXAMPLES)]
    Roll(BenchRoll),
    /// Cost of a record in memory, before it is written
    #[command(after_help = BENCH_FRAME_EXAMPLES)]
    Frame(BenchFrame),
    /// Cost of parity for commits
    #[command(after_help = BENCH_PARITY_EXAMPLES)]
    Parity(BenchParity),
    /// A store brought back from a log: one by one, in batches of 100, and by `seawall replay`
    #[command(after_help = BENCH_REPLAY_EXAMPLES)]
    Replay(BenchReplay),
    /// The virtual disk: a write and its flush while it is armed, and the dump of a full ring
    #[command(after_help = BENCH_DISK_EXAMPLES)]
    Disk(BenchDisk),
}

impl BenchVerb {
    /// Where it writes.
    pub(crate) fn dir(&self) -> &Path {
        match self {
            Self::Append(args) => &args.dir,
            Self::Read(args) => &args.dir,
            Self::Paper(args) => &args.dir,
            Self::Cwal(args) => &args.dir,
            Self::Helios(args) => &args.dir,
            Self::Stream(args) => &args.dir,
            Self::Roll(args) => &args.dir,
            Self::Frame(args) => &args.dir,
            Self::Parity(args) => &args.dir,
            Self::Replay(args) => &args.dir,
            Self::Disk(args) => &args.dir,
        }
    }
}

/// What a bench is compared with, and where it is shown.
#[derive(Debug, Args)]
pub(crate) struct Beside {
    /// Compare with an earlier build: what its `--json` printed, in a file
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write a page with charts to this new file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

/// `seawall bench append`
#[derive(Debug, Args)]
pub(crate) struct BenchAppend {
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many threads commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// The writers are tasks on one thread, which await their records; not threads
    #[arg(long)]
    pub(crate) tasks: bool,
    /// Seconds for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    /// What a commit waits for
    #[arg(long, value_enum, default_value_t = LevelName::Synced)]
    pub(crate) level: LevelName,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench read`
#[derive(Debug, Args)]
pub(crate) struct BenchRead {
    /// Where to write; room for some 300 bytes a record
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many records the logs have
    #[arg(long, value_delimiter = ',', default_value = "10000,100000,1000000")]
    #[arg(value_name = "N", value_parser = human::parse_records)]
    pub(crate) records: Vec<u64>,
    /// Seconds for each table
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The reader whose memory `bench read` looks at.
#[derive(Debug, Args)]
pub(crate) struct BenchReader {
    /// The log
    pub(crate) log: PathBuf,
}

/// `seawall bench paper`
#[derive(Debug, Args)]
pub(crate) struct BenchPaper {
    /// Where to write; room for some 2 GiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many records are written and read back
    #[arg(long, value_name = "N", default_value = "2000000", value_parser = human::parse_records)]
    pub(crate) records: u64,
    /// How often all of it is measured
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,
    /// Seconds for what syncs each set, which would take minutes: its rate is that of so long
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Write a page with charts to this new file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) patience: Patience,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench helios`
#[derive(Debug, Args)]
pub(crate) struct BenchHelios {
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many threads commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,256")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Seconds for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench stream`
#[derive(Debug, Args)]
pub(crate) struct BenchStream {
    /// Where to write; room for some 2 GiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How much may be appended and not durable yet
    #[arg(long, value_delimiter = ',', default_value = "256K,1M,8M")]
    #[arg(value_name = "BYTES", value_parser = human::parse_size)]
    pub(crate) windows: Vec<u64>,
    /// Seconds for all of them
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench parity`
#[derive(Debug, Args)]
pub(crate) struct BenchParity {
    /// Where to write; room for some 800 MiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many threads commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Blocks of data and of parity in a stripe
    #[arg(long, value_name = "D+P", default_value = "16+2")]
    pub(crate) parity: seawall::Parity,
    /// Seconds for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "116")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench roll`
#[derive(Debug, Args)]
pub(crate) struct BenchRoll {
    /// Where to write; room for some 700 MiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The small segments, beside those of 64 MiB
    #[arg(long, value_name = "BYTES", default_value = "4MiB", value_parser = human::parse_size)]
    pub(crate) segment_size: u64,
    /// Seconds for all of it
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "4096")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench frame`
#[derive(Debug, Args)]
pub(crate) struct BenchFrame {
    /// Where to write what is submitted
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "116,4096")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) sizes: Vec<usize>,
    /// Seconds for each size
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench replay`
#[derive(Debug, Args)]
pub(crate) struct BenchReplay {
    /// Where to write the logs; room for some 400 bytes an operation
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The store; new ones are made in PLACE and removed [default: one in memory]
    #[arg(long, value_name = "NAME:PLACE")]
    pub(crate) store: Option<StorePlace>,
    /// How many operations the logs have; a store in memory takes some 900 bytes for each
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = human::parse_records)]
    pub(crate) count: u64,
    /// How often all of it is measured
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Let each write take so long, asleep, and measure 1, 2, 4 and 8 threads that apply
    #[arg(long, value_name = "MICROSECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) apply_cost: Option<u64>,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench cwal`
#[derive(Debug, Args)]
pub(crate) struct BenchCwal {
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Seconds for all rows
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = human::parse_seconds)]
    pub(crate) time: f64,
    /// `LOG_LENGTH`: appends of one run
    #[arg(long, value_name = "N", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) logs: u64,
    /// `LOG_SIZE`: bytes of an append
    #[arg(long, value_name = "BYTES", default_value = "1000")]
    #[arg(value_parser = human::parse_record_size)]
    pub(crate) size: usize,
    #[command(flatten)]
    pub(crate) beside: Beside,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall bench disk`
#[derive(Debug, Args)]
pub(crate) struct BenchDisk {
    /// Where the disk's files are; room for some 100 MiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How many writes are timed, each with its flush
    #[arg(long, value_name = "N", default_value = "100000", value_parser = human::parse_records)]
    pub(crate) writes: u64,
    /// Writes a second; as many as go make the ring full, and then what is timed is the device
    #[arg(long, value_name = "N", default_value_t = 5000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) rate: u32,
    /// How often a full ring is dumped, on each device
    #[arg(long, value_name = "N", default_value_t = 12)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) emergencies: u32,
    /// Threads that write until the power fails, and beyond
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) writers: u16,
    /// What a flush of the simulated device takes
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    #[command(flatten)]
    pub(crate) look: Look,
}
