//! `seawall disk`: a virtual disk for the log of another program.
//!
//! The command line of `seawall` has [`Disk`] as a verb, and [`run`] runs it. `seawall_disk` is the
//! disk itself; this crate has its options, its server and the verbs that send requests to the
//! server.

#![forbid(unsafe_code)]

mod answers;
mod args;
mod ask;
mod claim;
mod control;
mod export;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(not(target_os = "linux"))]
#[path = "keeper/absent.rs"]
mod keeper;
mod metrics;
mod notify;
mod power;
mod serve;
mod service;
mod state;
mod status;

use args::DiskVerb;
pub use args::{ABOUT, Disk, with_config};
use control::request::Request;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;

/// Runs a verb of `seawall disk`.
///
/// # Errors
///
/// The verb failed; the failure has the exit code.
///
/// # Examples
///
/// ```
/// use clap::{Args, Command, FromArgMatches};
/// use seawall_disk_cli::{Disk, run};
///
/// let command = Disk::augment_args(Command::new("disk"));
/// let matches = command.try_get_matches_from(["disk", "config"])?;
/// let exit = run(&Disk::from_arg_matches(&matches)?).map_or_else(|failure| failure.tell(), |e| e);
/// assert_eq!(exit.code(), 0);
/// # Ok::<(), clap::Error>(())
/// ```
pub fn run(disk: &Disk) -> Result<Exit, Failure> {
    match &disk.what {
        DiskVerb::Serve(args) => serve::run(args),
        DiskVerb::Config => {
            let mut out = Output::lock();
            out.lines(&args::template().lines().collect::<Vec<_>>());
            Ok(out.finish())
        }
        DiskVerb::Keep(args) => keeper::run(args),
        DiskVerb::Status(args) => status::run(args),
        DiskVerb::Flush(args) => ask::run(args, Request::Flush),
        DiskVerb::Drain(args) => ask::run(args, Request::Drain),
        DiskVerb::Arm(args) => ask::run(args, Request::Arm),
        DiskVerb::Disarm(args) => ask::run(args, Request::Disarm),
        DiskVerb::Stop(args) => ask::run(args, Request::Stop),
        DiskVerb::EmergencyFlush(args) => ask::run(args, Request::EmergencyFlush),
        DiskVerb::MeasureHoldUp(args) => power::holdup::run(args),
    }
}
