//! Options of `seawall disk`.

use super::holdup::DiskHoldUp;
use super::power::{self, Power};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use seawall_measure::human::parse_size;
use seawall_output::{Look, help, text};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// The description of `seawall disk` in a build with these features.
pub const ABOUT: &str = match (cfg!(feature = "fuse"), cfg!(feature = "vhost-user")) {
    (false, false) => "A virtual disk for the log of another program, served over NBD",
    (true, false) => "A virtual disk for the log of another program, served over NBD or FUSE",
    (false, true) => "A virtual disk for the log of another program, served over NBD or vhost-user",
    (true, true) => {
        "A virtual disk for the log of another program, served over NBD, FUSE or vhost-user"
    }
};

/// `seawall disk`
#[derive(Debug, Args)]
pub struct Disk {
    #[command(subcommand)]
    pub(crate) what: DiskVerb,
}

/// The verbs of `seawall disk`.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskVerb {
    /// Serve a disk image as a virtual disk until stopped
    #[command(after_help = help!("disk-serve"))]
    Serve(Box<DiskServe>),
    /// Hold the memory of a virtual disk, so that a crash of its server loses nothing
    #[command(after_help = help!("disk-keep"))]
    Keep(DiskKeep),
    /// Print a configuration file for serve --config, with all defaults
    #[command(after_help = help!("disk-config"))]
    Config,
    /// Show the state of a running virtual disk
    #[command(after_help = help!("disk-status"))]
    Status(DiskStatus),
    /// Flush the disk as a client would; returns early while armed
    #[command(after_help = help!("disk-flush"))]
    Flush(DiskAsk),
    /// Wait until everything is on the device, armed or not
    #[command(after_help = help!("disk-drain"))]
    Drain(DiskAsk),
    /// Let flushes return early again, if the power source and the device allow it
    #[command(after_help = help!("disk-arm"))]
    Arm(DiskAsk),
    /// Let every flush wait for the device until the disk is armed by hand
    #[command(after_help = help!("disk-disarm"))]
    Disarm(DiskAsk),
    /// Disconnect clients, write everything to the device, and end the server
    #[command(after_help = help!("disk-stop"))]
    Stop(DiskAsk),
    /// Dump unsaved data now, as on power failure (read-only afterwards)
    #[command(after_help = help!("disk-emergency"))]
    EmergencyFlush(DiskAsk),
    /// Measure how long this machine runs on after a power failure, with another as witness
    #[command(name = "measure-holdup", after_help = help!("disk-measure-holdup"))]
    MeasureHoldUp(DiskHoldUp),
}

/// `seawall disk serve`
#[derive(Debug, Args)]
pub(crate) struct DiskServe {
    /// The disk image: a file or a block device with all bytes of the disk and nothing else, or
    /// one that a server of NBD has, as `nbd+unix:///NAME?socket=PATH`
    #[arg(help = "The disk image: a raw file, a block device, or the export of an NBD server \
                  (nbd+unix:///NAME?socket=PATH)")]
    #[arg(value_name = "IMG")]
    pub(crate) image: PathBuf,
    /// Where the disk appears: `nbd:unix:PATH`, `nbd:tcp:PORT` of 127.0.0.1, `fuse:FILE`,
    /// `fuse-dir:DIR`, `vhost-user:SOCK`
    #[arg(long, value_name = "EXPORT", value_parser = export_parser())]
    #[arg(help = "Where the disk appears: nbd:unix:PATH, nbd:tcp:PORT of 127.0.0.1 (0: any \
                  free port; every user of this machine can then write to the disk), fuse:FILE, \
                  fuse-dir:DIR, a directory with files, or vhost-user:SOCK, for a guest of QEMU")]
    pub(crate) export: Export,
    /// Create the image with this size if it does not exist, a multiple of 4KiB
    #[arg(long, value_name = "SIZE", value_parser = blocks(DISK_SIZE_MAX))]
    pub(crate) size: Option<u64>,
    /// Directory of dump area, settings, lock and control socket [default: IMG.seawall]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// What to do with a pending dump when the image may hold newer data
    #[arg(long, value_enum)]
    pub(crate) dump: Option<WaitingDump>,
    /// The name of the NBD export; to a guest, the disk's serial number
    #[arg(long, value_name = "NAME", default_value = "log")]
    pub(crate) name: String,
    /// Number of memory buffers for data that is not on the device yet, 4GiB in all at most
    #[arg(long, value_name = "N", default_value_t = 240)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) buffers: u16,
    /// Size of each buffer, a multiple of 4KiB, 64MiB at most
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    #[arg(value_parser = blocks(BUFFER_SIZE_MAX))]
    pub(crate) buffer_size: u64,
    /// How long the machine keeps running after a power failure; 10 unless measured on site
    #[arg(long, value_name = "MS", default_value = "10", value_parser = parse_millis)]
    pub(crate) hold_up: Duration,
    /// How long it takes to notify this program of a power failure, or its monitor
    #[arg(long, value_name = "MS", value_parser = parse_millis)]
    #[arg(help = "How long it takes to notify this program of a power failure, or its monitor \
                  [default: 1; nut: 2000; apcupsd: 60000]")]
    pub(crate) detection: Option<Duration>,
    /// The power source: unknown, ok, or where it is watched. While it is healthy, flushes may
    /// return before the device has the data
    #[arg(long, value_name = "SOURCE", default_value = "unknown", value_parser = power::parse)]
    #[arg(help = "The power source: unknown; ok; or watched by nut:UPS@HOST[:PORT], \
                  apcupsd:HOST[:PORT], command:CMD or fd:NUMBER. While it is healthy, flushes may \
                  return before the device has the data")]
    pub(crate) power: Power,
    /// Do not let another process hold the memory: a crash of the server loses what is in it
    #[arg(long)]
    pub(crate) no_keeper: bool,
    #[command(flatten)]
    pub(crate) confined: DiskConfined,
    /// Read options from this file; `seawall disk config` prints a template
    #[arg(long, value_name = "FILE")]
    #[arg(help = "Read options from this file; seawall disk config prints a template")]
    pub(crate) config: Option<PathBuf>,
    /// Serve Prometheus metrics on unix:PATH or tcp:PORT of 127.0.0.1, at /metrics
    #[arg(long, value_name = "PLACE", value_parser = metrics_parser())]
    pub(crate) metrics: Option<Metrics>,
    /// Run this command with sh -c once ready, with the disk's URI in `SEAWALL_DISK_URI`; exit
    /// when it ends
    #[arg(long, value_name = "CMD")]
    #[arg(help = "Run this command with sh -c once ready, with the disk's URI in \
                  SEAWALL_DISK_URI; exit when it ends")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall disk keep`
#[derive(Debug, Args)]
pub(crate) struct DiskKeep {
    /// The state directory of the disk: IMG.seawall, or that of --state
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// End when the server has ended and everything is on the device
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) confined: DiskConfined,
}

/// What a process of a disk gives up.
#[derive(Debug, Args)]
pub(crate) struct DiskConfined {
    /// Started as root, become this user before anything else; names or numbers
    #[arg(long, value_name = "USER[:GROUP]")]
    pub(crate) user: Option<String>,
    /// Give up all files and system calls that are not needed, where the kernel can refuse them
    #[arg(long, value_enum, default_value_t = Sandbox::On)]
    pub(crate) sandbox: Sandbox,
}

/// Whether a process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sandbox {
    On,
    Off,
}

/// What to do with a dump of another image, or of this image before it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitingDump {
    /// Write it to the image, over the present data
    Apply,
    /// Serve the image as it is; keep a copy of the dump in the state directory
    Discard,
}

/// Where a disk appears to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Export {
    /// NBD at a unix socket of this path.
    NbdUnix(PathBuf),
    /// NBD at a TCP port of this machine.
    NbdTcp(u16),
    /// As a file.
    Fuse(PathBuf),
    /// As a folder with the files of a volume.
    FuseFolder(PathBuf),
    /// To a virtual machine, at a unix socket of this path.
    VhostUser(PathBuf),
}

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Metrics {
    /// At a unix socket of this path.
    Unix(PathBuf),
    /// At a TCP port of this machine.
    Tcp(u16),
}

/// Selects a disk by its image or by its state directory.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct DiskName {
    /// The image of the running disk
    #[arg(value_name = "IMG")]
    pub(crate) image: Option<PathBuf>,
    /// The directory given to `serve` with --state, if any
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// `seawall disk status`
#[derive(Debug, Args)]
pub(crate) struct DiskStatus {
    #[command(flatten)]
    pub(crate) name: DiskName,
    /// Show it again each second, until the server ends
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print Prometheus metrics
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    pub(crate) prometheus: bool,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// `seawall disk flush`, `drain`, `arm`, `disarm`, `stop` and `emergency-flush`
#[derive(Debug, Args)]
pub(crate) struct DiskAsk {
    #[command(flatten)]
    pub(crate) name: DiskName,
    /// Exit with 10 if it takes longer; the operation continues
    #[arg(long, value_name = "MS", value_parser = parse_millis)]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// The largest disk to create. The whole image is zeroed, so a typing error must not fill a device.
const DISK_SIZE_MAX: u64 = 1 << 40;
const BUFFER_SIZE_MAX: u64 = 64 << 20;
/// The largest total of all buffers.
pub(crate) const ROOM_MAX: u64 = 4 << 30;
/// One hour: no power supply bridges a longer outage.
const MILLIS_MAX: u64 = 3_600_000;

/// Parses a size of at least one block, in whole blocks.
fn blocks(max: u64) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| match parse_size(text)? {
        size if size == 0 || !size.is_multiple_of(4096) => {
            Err(format!("`{text}` is not a positive multiple of 4KiB"))
        }
        size if size > max => Err(format!("`{text}` is more than {}", text::bytes(max))),
        size => Ok(size),
    }
}

fn parse_millis(text: &str) -> Result<Duration, String> {
    let millis = text.parse().ok().filter(|millis| (1..=MILLIS_MAX).contains(millis));
    let none = || format!("`{text}` is not a number of milliseconds from 1 to {MILLIS_MAX}");
    millis.map(Duration::from_millis).ok_or_else(none)
}

/// Parses an export. The path may contain any bytes.
fn export_parser() -> impl TypedValueParser<Value = Export> {
    OsStringValueParser::new().try_map(|text| parse_export(&text))
}

fn parse_export(text: &OsStr) -> Result<Export, String> {
    let bytes = text.as_bytes();
    let found = path_behind(bytes, "nbd:unix:")
        .map(Export::NbdUnix)
        .or_else(|| path_behind(bytes, "fuse:").map(Export::Fuse))
        .or_else(|| path_behind(bytes, "fuse-dir:").map(Export::FuseFolder))
        .or_else(|| path_behind(bytes, "vhost-user:").map(Export::VhostUser))
        .or_else(|| port_behind(bytes, "nbd:tcp:").map(Export::NbdTcp));
    found.ok_or_else(|| {
        "give nbd:unix:PATH, nbd:tcp:PORT with a number up to 65535, fuse:FILE, fuse-dir:DIR, or \
         vhost-user:SOCK"
            .to_owned()
    })
}

fn metrics_parser() -> impl TypedValueParser<Value = Metrics> {
    OsStringValueParser::new().try_map(|text| {
        let bytes = text.as_bytes();
        let unix = path_behind(bytes, "unix:").map(Metrics::Unix);
        let found = unix.or_else(|| port_behind(bytes, "tcp:").map(Metrics::Tcp));
        found.ok_or("give unix:PATH, or tcp:PORT with a number up to 65535")
    })
}

fn path_behind(text: &[u8], kind: &str) -> Option<PathBuf> {
    let rest = text.strip_prefix(kind.as_bytes()).filter(|rest| !rest.is_empty());
    rest.map(|rest| PathBuf::from(OsStr::from_bytes(rest)))
}

fn port_behind(text: &[u8], kind: &str) -> Option<u16> {
    std::str::from_utf8(text.strip_prefix(kind.as_bytes())?).ok()?.parse().ok()
}
