//! `seawall disk`: a virtual disk for the log of another program.

mod answers;
mod ask;
mod claim;
mod control;
mod export;
mod image;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(not(target_os = "linux"))]
#[path = "disk/keeper/absent.rs"]
mod keeper;
mod metrics;
mod notify;
mod place;
mod power;
mod serve;
mod service;
mod settings;
mod status;

use crate::args::{DiskVerb, template};
use crate::output::report::{Exit, Failure};
use crate::output::stdout::Output;
use control::request::Request;

/// Runs a verb of `seawall disk`.
pub(crate) fn run(verb: &DiskVerb) -> Result<Exit, Failure> {
    match verb {
        DiskVerb::Serve(args) => serve::run(args),
        DiskVerb::Config => {
            let mut out = Output::new();
            out.lines(&template().lines().collect::<Vec<_>>());
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
