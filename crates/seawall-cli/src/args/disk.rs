//! What `seawall disk` is asked for.

use super::Look;
use super::examples::{
    DISK_DRAIN_EXAMPLES, DISK_EMERGENCY_EXAMPLES, DISK_FLUSH_EXAMPLES, DISK_MAKE_EXAMPLES,
    DISK_SERVE_EXAMPLES, DISK_STATUS_EXAMPLES,
};
use crate::human;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `seawall disk`
#[derive(Debug, Args)]
pub(crate) struct Disk {
    #[command(subcommand)]
    pub(crate) what: DiskVerb,
}

/// What is done with a virtual disk.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskVerb {
    /// Make the files of a virtual disk
    #[command(after_help = DISK_MAKE_EXAMPLES)]
    Make(DiskMake),
    /// Serve a virtual disk over NBD until it is told to stop
    #[command(after_help = DISK_SERVE_EXAMPLES)]
    Serve(DiskServe),
    /// Say how a virtual disk that is served stands
    #[command(after_help = DISK_STATUS_EXAMPLES)]
    Status(DiskStatus),
    /// Flush it as a client would; early while it is armed
    #[command(after_help = DISK_FLUSH_EXAMPLES)]
    Flush(DiskAsk),
    /// Wait until everything is on the device, armed or not
    #[command(after_help = DISK_DRAIN_EXAMPLES)]
    Drain(DiskAsk),
    /// The power fails: take no more writes, and dump what is not on the device
    #[command(after_help = DISK_EMERGENCY_EXAMPLES)]
    EmergencyFlush(DiskAsk),
}

/// `seawall disk make`
#[derive(Debug, Args)]
pub(crate) struct DiskMake {
    /// The directory for its files; made where there is none
    pub(crate) dir: PathBuf,
    /// The size of the disk, a multiple of 4KiB
    #[arg(long, value_name = "SIZE", value_parser = parse_disk_size)]
    pub(crate) size: u64,
    /// Buffers in memory for what is not on the device yet
    #[arg(long, value_name = "N", default_value_t = 6)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) buffers: u32,
    /// The size of each, a multiple of 4KiB, 64MiB at most
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_buffer_size)]
    pub(crate) buffer_size: u64,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall disk serve`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("place").required(true))]
pub(crate) struct DiskServe {
    /// The directory that `seawall disk make` was given
    pub(crate) dir: PathBuf,
    /// Listen at this path, with a unix socket
    #[arg(long, value_name = "PATH", group = "place")]
    pub(crate) unix: Option<PathBuf>,
    /// Listen at this port of 127.0.0.1, or any free one for 0; every user of this machine may
    /// write the disk then
    #[arg(long, value_name = "N", group = "place")]
    pub(crate) port: Option<u16>,
    /// What clients call the disk
    #[arg(long, value_name = "NAME", default_value = "log")]
    pub(crate) export: String,
    /// How long the machine runs on when the power has failed; 10 unless measured on site
    #[arg(long, value_name = "MS", default_value = "10", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// How long it takes until this program is told of it
    #[arg(long, value_name = "MS", default_value = "1", value_parser = parse_millis)]
    pub(crate) detection: Duration,
    /// What is known of the power source; ok lets flushes return before the device has the bytes
    #[arg(long, value_enum, default_value_t = Power::Unknown)]
    pub(crate) power: Power,
    /// Run this by sh -c when it is ready, with the disk's URI in `SEAWALL_DISK_URI`; end with it
    #[arg(long, value_name = "CMD")]
    #[arg(help = "Run this by sh -c when it is ready, with the disk's URI in SEAWALL_DISK_URI; \
                  end with it")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// What whoever starts the server says of the power source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Power {
    /// It is well, somebody watches it, and that one sends SIGPWR when it fails
    #[value(help = "It is well, somebody watches it, and that one sends SIGPWR when it fails")]
    Ok,
    /// Nobody knows: every flush waits for the device
    Unknown,
}

/// `seawall disk status`
#[derive(Debug, Args)]
pub(crate) struct DiskStatus {
    /// The directory that is served
    pub(crate) dir: PathBuf,
    /// Say it again each second, until the server ends
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall disk flush`, `drain` and `emergency-flush`
#[derive(Debug, Args)]
pub(crate) struct DiskAsk {
    /// The directory that is served
    pub(crate) dir: PathBuf,
    /// End with 10 if it takes longer; it goes on even then
    #[arg(long, value_name = "MS", value_parser = parse_millis)]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The largest disk. It is zeroed as a whole, so that a typing error is not to fill a device.
const DISK_SIZE_MAX: u64 = 1 << 40;
const BUFFER_SIZE_MAX: u64 = 64 << 20;
/// An hour: what is longer is no time that a power supply bridges.
const MILLIS_MAX: u64 = 3_600_000;

fn parse_disk_size(text: &str) -> Result<u64, String> {
    parse_blocks(text, DISK_SIZE_MAX)
}

fn parse_buffer_size(text: &str) -> Result<u64, String> {
    parse_blocks(text, BUFFER_SIZE_MAX)
}

/// Reads a size of whole blocks, one at least.
fn parse_blocks(text: &str, max: u64) -> Result<u64, String> {
    let size = human::parse_size(text)?;
    if size == 0 || !size.is_multiple_of(4096) {
        return Err(format!("`{text}` is no multiple of 4KiB, and at least that"));
    }
    if size > max {
        return Err(format!("`{text}` is more than {}", human::bytes(max)));
    }
    Ok(size)
}

fn parse_millis(text: &str) -> Result<Duration, String> {
    let millis = text.parse().ok().filter(|millis| (1..=MILLIS_MAX).contains(millis));
    let none = || format!("`{text}` is no number of milliseconds; 1 to {MILLIS_MAX}");
    millis.map(Duration::from_millis).ok_or_else(none)
}
