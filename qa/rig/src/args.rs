//! What the rig is asked for.

mod device;

use clap::{Args, Parser, Subcommand, ValueEnum};
use device::{DEVICE, DRILL};
pub(crate) use device::{Device, Drill, Drilled, Share};
use std::path::PathBuf;

/// PostgreSQL with its log on a Seawall disk: how fast, and what a power cut leaves
#[derive(Debug, Parser)]
#[command(name = "seawall-rig", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Measure pgbench with the log on the file system, on the disk write-through, and armed
    Bench(Bench),
    /// Cut the power under a client that counts, again and again, and look for what it was told
    Crash(Crash),
    /// Let the kernel of a guest panic, again and again, and look for what its client was told
    Guest(Guest),
    /// Take the device away under a log, again and again, on the same boot, and look whether all
    /// who read it show what was acknowledged; 77 where that cannot be
    Detach(Detach),
    /// Simulate a device with a volatile cache, whose power can be cut
    #[command(after_help = DEVICE)]
    Device(Device),
    /// Cut the power of a simulated device under a workload, and read back every promised block
    #[command(after_help = DRILL)]
    Drill(Drill),
    /// One short round of bench and one cycle of each kind of crash; 77 where that cannot be
    Smoke(Place),
    /// Take away what a run that was killed has left: mounts, loop devices, processes, files
    Clean(Place),
}

/// Where and with what.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The folder for all files of the run, on the device that is to be measured; removed at the
    /// end
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The seawall to try, built with the feature fuse; that beside this program if it is not said
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) seawall: Option<PathBuf>,
    /// The folder with the programs of PostgreSQL
    #[arg(long, value_name = "DIR", default_value = "/usr/lib/postgresql/15/bin")]
    pub(crate) postgres: PathBuf,
}

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
    /// How long the device of the log takes for a flush, in milliseconds; 0 is the device of the
    /// folder as it is
    #[arg(long, value_name = "MS,...", value_delimiter = ',', default_value = "0,1,8.3")]
    #[arg(value_parser = parse_delay)]
    pub(crate) delays: Vec<f64>,
    /// Clients of pgbench
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,8")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// pgbench's scale
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) scale: u32,
    /// What the disk is told of the time that the power lasts, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    pub(crate) hold_up: u32,
    /// The folder for bench.json, bench.html and bench.svg; made where there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Crash {
    /// How many times
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    /// How long the device of the log takes for a flush, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: f64,
    /// What happens
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// How long the power lasts behind its warning, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hold_up: u32,
    /// Say what came out as JSON, too, in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Guest {
    /// How many times
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    /// How long the device of the log takes for a flush, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: f64,
    /// What the disk is told of the time that the power lasts, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hold_up: u32,
    /// Have PostgreSQL flush nothing: the control, which is to lose
    #[arg(long)]
    pub(crate) without_fsync: bool,
    /// The image of the guest's root file system; made by mmdebstrap where there is none, and kept
    #[arg(long, value_name = "FILE", default_value = "/var/cache/seawall-rig/bookworm.img")]
    pub(crate) root: PathBuf,
    /// Say what came out as JSON, too, in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Detach {
    /// How many times, for each way to use the log
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What happens to PostgreSQL, its disk and its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// SIGKILL for all of PostgreSQL; the disk lives on
    Killed,
    /// SIGPWR, and when the hold-up is over the device, the disk and PostgreSQL are gone
    Announced,
    /// As announced, without SIGPWR: the control, which is to lose
    Unannounced,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Announced => "announced",
            Self::Unannounced => "unannounced",
        }
    }
}

fn parse_delay(text: &str) -> Result<f64, String> {
    let delay = text.parse().ok().filter(|delay| (0.0..=1000.0).contains(delay));
    delay.ok_or_else(|| format!("`{text}` is no number of milliseconds from 0 to 1000"))
}
