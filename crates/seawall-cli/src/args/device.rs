//! What `seawall disk device` and `seawall disk drill` are asked for.

use super::Look;
use super::disk::{parse_disk_size, parse_millis};
use crate::human;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// `seawall disk device`
#[derive(Debug, Args)]
pub(crate) struct DiskDevice {
    /// The file with what is durable of the export `home`; IMG.area has that of `area`. Both are
    /// made where there are none
    #[arg(value_name = "IMG")]
    #[arg(help = "The file with what is durable of the export home; IMG.area has that of area. \
                  Both are made where there are none")]
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
    /// What a flush takes, however little there is to write
    #[arg(long, value_name = "MS", default_value = "0", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// Bytes a second that it writes on top of that; 0: as many as there are
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = human::parse_size)]
    pub(crate) bandwidth: u64,
    /// What SIGUSR1 leaves of what was not flushed follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall disk drill`
#[derive(Debug, Args)]
pub(crate) struct DiskDrill {
    /// How often something is cut
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) cycles: u32,
    /// How long the clients work before each cut
    #[arg(long, value_name = "S", default_value = "1", value_parser = parse_work)]
    pub(crate) seconds: Duration,
    /// What a flush of the device takes
    #[arg(long, value_name = "MS", default_value = "8.3", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// How long everything runs on when the power has failed
    #[arg(long, value_name = "MS", default_value = "150", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) clients: u16,
    /// What the clients do and what a cut leaves follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Be one client, as a process that can be killed: the drill starts this itself
    #[arg(long, value_name = "URI,N,ABOVE", hide = true)]
    pub(crate) share: Option<Share>,
    #[command(flatten)]
    pub(crate) kind: DrilledKind,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What a client of a drill works on.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    /// Where the disk is.
    pub(crate) uri: String,
    /// Which of the clients it is.
    pub(crate) number: u16,
    /// Its first version is above this.
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
            _ => Err("this is for the drill itself".to_owned()),
        }
    }
}

/// Which of the drills, one at most.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct DrilledKind {
    /// SIGPWR comes first, and the power holds for the hold-up (this is what is done unasked)
    #[arg(long)]
    announced: bool,
    /// No SIGPWR: the control, which has to lose
    #[arg(long)]
    unannounced: bool,
    /// A client is killed within its work; device and server stay
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

/// A delay of at most a minute, with parts of a millisecond behind a point.
pub(super) fn parse_delay(text: &str) -> Result<Duration, String> {
    let millis = text.parse::<f64>().ok().filter(|millis| (0.0..=60_000.0).contains(millis));
    let none = || format!("`{text}` is no number of milliseconds; 0 to 60000, as 8.3");
    millis.map(|millis| Duration::from_secs_f64(millis / 1000.0)).ok_or_else(none)
}

fn parse_work(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    let none = || format!("`{text}` is no number of seconds; 0.01 to 3600");
    seconds.map(Duration::from_secs_f64).ok_or_else(none)
}
