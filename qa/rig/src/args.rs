//! The arguments of the rig.

mod bench;
mod device;
mod figures;
mod power;
mod qemu;
mod suite;

use crate::workload::Workload;
use bench::BENCH;
pub(crate) use bench::{Bench, Buffers, Kinds, Load};
use clap::{Args, Parser, Subcommand, ValueEnum};
use device::{DEVICE, DRILL};
pub(crate) use device::{Device, Drill, Drilled, Share};
use figures::FIGURES;
pub(crate) use figures::Figures;
use power::POWER;
pub(crate) use power::Power;
use qemu::QEMU;
pub(crate) use qemu::{Qemu, QemuCut};
use std::path::PathBuf;
use suite::SUITE;
pub(crate) use suite::{Suite, SuiteOf};

/// Measure PostgreSQL with its log on a Seawall disk, and test what survives a power cut
#[derive(Debug, Parser)]
#[command(name = "seawall-rig", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Measure a database with its log on the file system, on the disk write-through, and armed
    #[command(after_help = BENCH)]
    Bench(Bench),
    /// Measure what the figures of `RapiLog`'s paper show, and write a page with tables and charts
    #[command(
        about = "Measure what the figures of RapiLog's paper show, and write a page with tables \
                       and charts"
    )]
    #[command(after_help = FIGURES)]
    Figures(Figures),
    /// Kill a database or its disk, or cut the power, while a client inserts, repeatedly, and look
    /// for every acknowledged insert
    Crash(Crash),
    /// Let the kernel of a guest panic, repeatedly, and look for every acknowledged insert
    Guest(Guest),
    /// Remove the device of a log while the machine runs, repeatedly, and compare all readers with
    /// the acknowledged records; exits with 77 where that is not possible
    Detach(Detach),
    /// Simulate a device with a volatile cache, whose power can be cut
    #[command(after_help = DEVICE)]
    Device(Device),
    /// Cut the power of a simulated device under a workload, and read back every promised block
    #[command(after_help = DRILL)]
    Drill(Drill),
    /// Cut the power of a simulated device after a real upsd has told it, or has fallen silent, and
    /// read back every promised block; exits with 77 where that is not possible
    #[command(after_help = POWER)]
    Power(Power),
    /// Kill the server or QEMU under a guest, or cut the power, and read back every promised block;
    /// exits with 77 where that is not possible
    #[command(after_help = QEMU)]
    Qemu(Qemu),
    /// Run a database's own tests with its log on an armed disk whose power is cut, repeatedly;
    /// exits with 77 where that is not possible
    #[command(after_help = SUITE)]
    Suite(Suite),
    /// Move PostgreSQL's log to a disk and back, as docs/disk.md says
    Walk(Place),
    /// Run one short round of bench, one cycle of each kind of crash, and the walk; exits with 77
    /// where that is not possible
    Smoke(Place),
    /// Remove the mounts, loop devices, processes and files of a run that was killed
    Clean(Place),
}

/// The folder and programs of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The folder for all files of the run, on the device to measure; removed at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The program seawall, built with the feature fuse [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) seawall: Option<PathBuf>,
    /// The folder with PostgreSQL's programs
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/postgresql/15/bin")]
    pub(crate) postgres: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Crash {
    /// Number of cycles
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    /// Time that a flush of the log's device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: f64,
    /// The kind of crash
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// The database, as Debian has it
    #[arg(long, value_enum, default_value_t = Engine::Postgres)]
    pub(crate) database: Engine,
    /// How the disk appears to the database
    #[arg(long, value_enum, default_value_t = Transport::Dir)]
    pub(crate) transport: Transport,
    /// Time from the warning to the loss of power, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hold_up: u32,
    /// Also run TPC-C with 4 clients, and check its conditions of consistency after each crash;
    /// the only client of SQLite runs its transactions between the inserts
    #[arg(long)]
    pub(crate) tpcc: bool,
    /// Number of warehouses of TPC-C
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) warehouses: u32,
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

impl Crash {
    /// What runs beside the client that counts.
    pub(crate) fn workload(&self) -> Option<Workload> {
        self.tpcc.then_some(Workload { load: Load::Tpcc, size: self.warehouses })
    }
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Guest {
    /// Number of cycles
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    /// Time that a flush of the log's device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: f64,
    /// Value of the disk's option --hold-up, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hold_up: u32,
    /// Run PostgreSQL without fsync: the control, which must lose records
    #[arg(long)]
    pub(crate) without_fsync: bool,
    /// The image of the guest's root file system; created with mmdebstrap if missing, and kept
    #[arg(long, value_name = "FILE", default_value = "/var/cache/seawall-rig/bookworm.img")]
    pub(crate) root: PathBuf,
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Detach {
    /// Number of cycles for each way to use the log
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// How a disk appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// A directory: fuse-dir
    Dir,
    /// A file by FUSE, with a loop device and ext4 on it
    Loop,
    /// The same, but by nbdfuse: the device without a Seawall disk
    #[value(skip)]
    Bare,
}

impl Transport {
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Dir => "a directory by FUSE",
            Self::Loop => "ext4 on a loop device past the cache, on a file by FUSE",
            Self::Bare => "absent: nbdfuse, a loop device past the cache, and ext4",
        }
    }
}

/// A database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// PostgreSQL 15
    Postgres,
    /// `MariaDB` with its engine `InnoDB`
    Mariadb,
    /// `SQLite` in its WAL mode
    Sqlite,
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
            Self::Sqlite => "SQLite",
        }
    }
}

/// What happens to the database, its disk and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// SIGKILL for all of the database; the disk keeps running
    Killed,
    /// SIGKILL for the disk's server, whose keeper holds its memory; then for the database
    Server,
    /// SIGPWR; after the hold-up time the device, the disk and the database are gone
    Announced,
    /// Like announced, without SIGPWR: the control, which must lose records
    Unannounced,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Server => "server",
            Self::Announced => "announced",
            Self::Unannounced => "unannounced",
        }
    }
}

fn parse_delay(text: &str) -> Result<f64, String> {
    let delay = text.parse().ok().filter(|delay| (0.0..=1000.0).contains(delay));
    delay.ok_or_else(|| format!("`{text}` is not a number of milliseconds from 0 to 1000"))
}
