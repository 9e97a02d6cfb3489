//! The options of `power`.

use super::device::{parse_delay, parse_millis};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Power {
    /// Number of cycles: of twelve, ten go on battery, in one upsd is killed, in one it hangs
    #[arg(long, value_name = "N", default_value_t = 120)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) cycles: u32,
    /// The folder for power.jsonl, a line for each cycle, and power.json; a run continues there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Time that a flush of the device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "2", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// Time from the power failure to the stop of everything, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) clients: u16,
    /// Seed that decides what the clients do and what survives a cut
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The program seawall [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) seawall: Option<PathBuf>,
}

pub(super) const POWER: &str = "\
Examples:
  seawall-rig power --out power
  seawall-rig power --out power --cycles 12 --hold-up 2000
  seawall-rig power --out slow --delay 8.3 && jq .on_battery slow/power.json

Each cycle serves a disk on a simulated device with --power nut:... under a load
of writes and flushes. Then the dummy UPS of a real upsd goes on battery, or
upsd is killed, or it hangs. The server has to notice within its detection time
and to write what it owes within --hold-up; then server and device are cut, and
every block whose flush was acknowledged is read back.

The exit code is 0 if all of that holds, and 10 otherwise.";
