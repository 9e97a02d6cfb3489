//! `seawall disk`: a virtual disk for the log of another program.

mod ask;
mod control;
mod place;
mod serve;
mod service;
mod status;

use crate::args::{DiskMake, DiskVerb};
use crate::human::bytes;
use crate::output::Output;
use crate::report::{Exit, Failure};
use control::Request;
use place::{Place, Rings};
use serde_json::json;

/// Does what was asked for.
pub(crate) fn run(verb: &DiskVerb) -> Result<Exit, Failure> {
    match verb {
        DiskVerb::Make(args) => make(args),
        DiskVerb::Serve(args) => serve::run(args),
        DiskVerb::Status(args) => status::run(args),
        DiskVerb::Flush(args) => ask::run(args, Request::Flush),
        DiskVerb::Drain(args) => ask::run(args, Request::Drain),
        DiskVerb::EmergencyFlush(args) => ask::run(args, Request::EmergencyFlush),
    }
}

fn make(args: &DiskMake) -> Result<Exit, Failure> {
    let rings = Rings { buffers: u64::from(args.buffers), buffer_size: args.buffer_size };
    let place = Place::for_new(&args.dir)?;
    let area_size = place.make(args.size, rings)?;
    let mut out = Output::new();
    if args.look.json {
        let answer = json!({
            "schema": "seawall.disk.make/1",
            "dir": args.dir.display().to_string(),
            "bytes": args.size,
            "area_bytes": area_size,
            "buffers": rings.buffers,
            "buffer_bytes": rings.buffer_size,
        });
        out.line(&answer.to_string());
    } else if !args.look.quiet {
        let (size, memory) = (bytes(args.size), bytes(rings.buffers * rings.buffer_size));
        let dir = args.dir.display();
        out.line(&format!("{dir}: a disk of {size}, with {memory} of buffers, durable"));
    }
    Ok(out.finish())
}
