//! The options of `device` and `drill`.

use clap::Args;
use seawall_measure::human;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Device {
    /// The file with the durable bytes of the export `home`; IMG.area has those of `area`. Both are
    /// created if missing
    #[arg(value_name = "IMG")]
    #[arg(
        help = "The file with the durable bytes of the export home; IMG.area has those of area. \
                  Both are created if missing"
    )]
    pub(crate) image: PathBuf,
    /// The size of `home`, a multiple of 4KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_disk_size)]
    #[arg(help = "The size of home, a multiple of 4KiB")]
    pub(crate) size: u64,
    /// The size of `area`
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_disk_size)]
    #[arg(help = "The size of area")]
    pub(crate) area: u64,
    /// Listen at this path, with a unix socket
    #[arg(long, value_name = "SOCK")]
    pub(crate) unix: PathBuf,
    /// Time that each flush takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// Bytes that the device writes in a second; 0: no limit
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = human::parse_size)]
    pub(crate) bandwidth: u64,
    /// Seed that decides which unflushed bytes survive SIGUSR1
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Number of cuts
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) cycles: u32,
    /// How long the clients work before each cut
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_work)]
    pub(crate) seconds: Duration,
    /// Time that a flush of the device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// Time from the power failure to the stop of everything, in milliseconds
    #[arg(long, value_name = "MS", default_value = "150", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) clients: u16,
    /// Seed that decides what the clients do and what survives a cut
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Run as one client, in a process that can be killed; the drill starts this itself
    #[arg(long, value_name = "URI,N,ABOVE", hide = true)]
    pub(crate) share: Option<Share>,
    #[command(flatten)]
    pub(crate) kind: DrilledKind,
    /// The program seawall [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) seawall: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The part of the disk that a client of a drill uses.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// The address of the disk.
    pub(crate) uri: String,
    /// The client's number.
    pub(crate) number: u16,
    /// The client's versions are above this.
    pub(crate) above: u64,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.rsplitn(3, ',');
        let above = parts.next().and_then(|above| above.parse().ok());
        let number = parts.next().and_then(|number| number.parse().ok());
        match (parts.next(), number, above) {
            (Some(uri), Some(number), Some(above)) => {
                Ok(Self { uri: uri.to_owned(), number, above })
            }
            _ => Err("only the drill itself uses this option".to_owned()),
        }
    }
}

/// The kind of drill.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DrilledKind {
    /// Send SIGPWR first; the power stays for the hold-up time (default)
    #[arg(long)]
    announced: bool,
    /// Cut without SIGPWR: the control, which must lose blocks
    #[arg(long)]
    unannounced: bool,
    /// Kill a client during its work; device and server keep running
    #[arg(long)]
    killed_client: bool,
}

/// What a drill cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drilled {
    /// The power, with a warning.
    Announced,
    /// The power, without one.
    Unannounced,
    /// A client.
    KilledClient,
}

impl From<DrilledKind> for Drilled {
    fn from(kind: DrilledKind) -> Self {
        match kind {
            DrilledKind { unannounced: true, .. } => Self::Unannounced,
            DrilledKind { killed_client: true, .. } => Self::KilledClient,
            DrilledKind { .. } => Self::Announced,
        }
    }
}

/// Parses a delay in milliseconds, possibly fractional, of at most a minute.
pub(super) fn parse_delay(text: &str) -> Result<Duration, String> {
    let millis = text.parse::<f64>().ok().filter(|millis| (0.0..=60_000.0).contains(millis));
    let none = || format!("`{text}` is not a number of milliseconds from 0 to 60000, as 8.3");
    millis.map(|millis| Duration::from_secs_f64(millis / 1000.0)).ok_or_else(none)
}

fn parse_work(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    let none = || format!("`{text}` is not a number of seconds from 0.01 to 3600");
    seconds.map(Duration::from_secs_f64).ok_or_else(none)
}

/// Parses a size in whole blocks, at least one.
fn parse_disk_size(text: &str) -> Result<u64, String> {
    let size = human::parse_size(text)?;
    if size == 0 || !size.is_multiple_of(4096) {
        return Err(format!("`{text}` is not a multiple of 4KiB"));
    }
    Ok(size)
}

pub(super) fn parse_millis(text: &str) -> Result<Duration, String> {
    let millis = text.parse().ok().filter(|millis| (1..=60_000).contains(millis));
    let none = || format!("`{text}` is not a number of milliseconds from 1 to 60000");
    millis.map(Duration::from_millis).ok_or_else(none)
}

pub(super) const DEVICE: &str = "\
Examples:
  seawall-rig device dev.img --size 64MiB --unix dev.sock --delay 8.3
  seawall-rig device dev.img --size 64MiB --unix dev.sock --bandwidth 100MiB
  seawall-rig device dev.img --size 1GiB --unix dev.sock --seed 7 --json

`seawall disk serve` takes it as nbd+unix:///home?socket=dev.sock for its IMG.

A simulated device for tests: it keeps writes in memory until a flush has taken
its time. home and area are two exports with one such cache: a flush of either
makes both durable. SIGKILL cuts the power and loses everything unflushed.
SIGUSR1 cuts it so that each sector of 512 bytes keeps its durable version or
any later one, depending on --seed; the device then prints the number of lost
sectors and exits with 0. SIGTERM and SIGINT make everything durable.";

pub(super) const DRILL: &str = "\
Examples:
  seawall-rig drill
  seawall-rig drill --cycles 40 --seconds 2 --delay 8.3 --hold-up 150
  seawall-rig drill --unannounced --cycles 20
  seawall-rig drill --killed-client --json | jq .lost

SIMULATED: each cycle starts `seawall-rig device` and `seawall disk serve` as
processes of this machine, lets clients write numbered and checksummed blocks
and flush, cuts, starts both again, and reads back every block whose flush was
acknowledged. An announced cut sends SIGPWR to the server, and after the hold-up
SIGKILL to it and the cut to the device. It says nothing about a real power
supply, or about a real device that lies about its flush.

The exit code is 0 if nothing that was acknowledged is lost, and 10 otherwise;
also with --unannounced, where losses are expected.";
