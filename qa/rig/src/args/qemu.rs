//! The options of `qemu`.

use super::Place;
use super::device::{parse_delay, parse_millis};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, Args)]
pub(crate) struct Qemu {
    /// Number of cycles of each kind; each boots a guest
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cycles: u32,
    /// What is cut
    #[arg(long, value_enum, value_name = "KIND,...", value_delimiter = ',')]
    #[arg(default_value = "server,waiting,machine,announced,unannounced")]
    pub(crate) kinds: Vec<QemuCut>,
    /// How often the server is killed in a cycle of the kinds server and waiting; each tenth time
    /// it is stopped instead
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) kills: u32,
    /// Time that a flush of the device takes whose power is cut, in milliseconds
    #[arg(long, value_name = "MS", default_value = "20", value_parser = parse_delay)]
    pub(crate) delay: Duration,
    /// Time from the power failure to the stop of everything, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1000", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// Number of processes in the guest that write
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=7))]
    pub(crate) clients: u16,
    /// Seed that decides what the guest writes, and when something is cut
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The folder of an unpacked kernel package
    #[arg(long, value_name = "DIR", default_value = "/var/cache/seawall-rig/kernel")]
    pub(crate) kernel: PathBuf,
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// What is cut under a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QemuCut {
    /// SIGKILL for the server while it is armed, repeatedly; its keeper lives, the guest goes on
    Server,
    /// The same, write-through on a slow device: nearly each kill meets a flush in progress
    Waiting,
    /// SIGKILL for QEMU; the server lives
    Machine,
    /// SIGPWR; after the hold-up time server, device and guest are gone
    Announced,
    /// Like announced, without SIGPWR: the control, which must lose blocks
    Unannounced,
}

impl QemuCut {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Waiting => "waiting",
            Self::Machine => "machine",
            Self::Announced => "announced",
            Self::Unannounced => "unannounced",
        }
    }
}

pub(super) const QEMU: &str = "\
Examples:
  seawall-rig qemu
  seawall-rig qemu --kinds server --cycles 10 --kills 100
  seawall-rig qemu --kinds announced,unannounced --out qemu.json

Each cycle boots a Linux guest in QEMU, without KVM, with the disk by
vhost-user. It writes numbered and checksummed blocks, flushes, and tells on its
console which blocks a flush that returned has covered. Then something is cut,
and every such block is looked for. The device whose power is cut is simulated.

The kernel is that of a package, unpacked:
  apt-get download linux-image-6.1.0-56-cloud-amd64
  dpkg-deb -x linux-image-*.deb /var/cache/seawall-rig/kernel

The exit code is 0 if nothing that was acknowledged is lost, but for the
control; 10 otherwise.";
