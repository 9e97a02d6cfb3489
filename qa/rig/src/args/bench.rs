//! The options of `bench`.

use super::{Engine, Place, Transport, parse_delay};
use crate::workload::Workload;
use clap::{Args, ValueEnum};
use seawall_measure::human;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub(crate) struct Bench {
    /// Rounds; each measures every cell once
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Seconds for each cell
    #[arg(long, value_name = "S", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// Time that a flush of the log's device takes, in milliseconds; 0 adds no delay
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0,1,8.3")]
    #[arg(value_parser = parse_delay)]
    pub(crate) delays: Vec<f64>,
    /// Where the log is, and what a commit waits for
    #[arg(long, value_name = "KIND,...", value_enum, value_delimiter = ',')]
    #[arg(default_value = "native,async,pass-through,armed")]
    pub(crate) ways: Vec<Kinds>,
    /// Number and size of the disk's buffers
    #[arg(long, value_name = "NxSIZE,...", value_delimiter = ',', default_value = "480x16KiB")]
    pub(crate) buffers: Vec<Buffers>,
    /// Values of PostgreSQL's `commit_delay`, in microseconds
    #[arg(help = "Values of PostgreSQL's commit_delay, in microseconds")]
    #[arg(long, value_name = "US,...", value_delimiter = ',', default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) commit_delays: Vec<u32>,
    /// The database, as Debian has it: postgres or mariadb
    #[arg(long, value_enum, default_value_t = Engine::Postgres)]
    pub(crate) database: Engine,
    /// The workload
    #[arg(long, value_enum, default_value_t = Load::Pgbench)]
    pub(crate) load: Load,
    /// Number of warehouses of TPC-C
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) warehouses: u32,
    /// Number of clients
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,8")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// pgbench's scale
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) scale: u32,
    /// Value of the disk's option --hold-up, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    pub(crate) hold_up: u32,
    /// How the disk appears to the database
    #[arg(long, value_enum, default_value_t = Transport::Dir)]
    pub(crate) transport: Transport,
    /// Keep filled tables in this folder, and take them from there
    #[arg(long, value_name = "DIR")]
    pub(crate) tables: Option<PathBuf>,
    /// The folder for bench.json, bench.html and bench.svg; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
}

impl Bench {
    pub(crate) fn workload(&self) -> Workload {
        let size = match self.load {
            Load::Pgbench => self.scale,
            Load::Tpcc => self.warehouses,
        };
        Workload { load: self.load, size }
    }
}

/// Where the log is, and what a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kinds {
    /// On the file system of the machine; with a delay, on the disk's device without the disk
    Native,
    /// The same, but commits do not wait: a crash of the database loses some
    Async,
    /// On that device with its write cache on: flushes cost nothing, and a power cut loses data
    Cached,
    /// Both
    CachedAsync,
    /// On the disk, write-through
    PassThrough,
    /// On the disk, armed
    Armed,
}

impl Kinds {
    pub(crate) const ALL: [Self; 6] = [
        Self::Native,
        Self::Async,
        Self::Cached,
        Self::CachedAsync,
        Self::PassThrough,
        Self::Armed,
    ];
    /// The default of `--ways`.
    pub(crate) const USUAL: [Self; 4] = [Self::Native, Self::Async, Self::PassThrough, Self::Armed];
}

/// Number and size of a disk's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffers {
    pub(crate) count: u16,
    /// In bytes.
    pub(crate) size: u64,
}

impl Buffers {
    /// The disk's default buffers.
    pub(crate) const USUAL: Self = Self { count: 480, size: 16 * 1024 };
}

impl fmt::Display for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            size if size % 1024 == 0 => write!(f, "{}x{}KiB", self.count, size / 1024),
            size => write!(f, "{}x{size}", self.count),
        }
    }
}

impl FromStr for Buffers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("`{text}` is not a number and a size, such as 6x512KiB");
        let (count, size) = text.split_once('x').ok_or_else(error)?;
        let count = count.trim().parse().map_err(|_| error())?;
        let size = human::parse_size(size.trim()).map_err(|_| error())?;
        if count == 0 || size == 0 { Err(error()) } else { Ok(Self { count, size }) }
    }
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// pgbench's TPC-B
    Pgbench,
    /// TPC-C by go-tpc, without think time
    Tpcc,
}

pub(super) const BENCH: &str = "\
Examples:
  seawall-rig bench --delays 0 --clients 1,4,8,16 --out fast
  seawall-rig bench --delays 8.3 --buffers 1x128KiB,6x512KiB --ways armed --out b
  seawall-rig bench --database mariadb --load tpcc --tables filled --out maria";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_a_number_and_a_size() {
        let usual = Buffers::USUAL;
        assert_eq!("480x16KiB".parse(), Ok(usual));
        assert_eq!(usual.to_string().parse(), Ok(usual));
        for bad in ["", "6", "6x", "x1KiB", "0x1KiB", "6x0", "-1x1KiB", "6x1KiBx"] {
            assert!(bad.parse::<Buffers>().is_err(), "{bad}");
        }
    }
}
