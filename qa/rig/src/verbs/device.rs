//! `seawall-rig device`: runs a simulated device, whose power can be cut, as a separate process.

use crate::args;
use crate::process::Failure;
use crate::rig::say;
use seawall_bench::output;
use seawall_disk::device::{Cost, Device, Fate};
use seawall_disk::nbd::{Limits, Listen, Server, Target};
use seawall_io::{Access, File, PosixStorage, Storage, SystemClock};
use seawall_measure::human::bytes;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Names of the exports, one for each region.
pub(crate) const HOME: &str = "home";
pub(crate) const AREA: &str = "area";

/// Exit code, as in `seawall`: another process uses the image.
const BUSY: u8 = 6;
/// Exit code: the image has another size.
const CONFLICT: u8 = 9;

/// The files with the durable bytes of each region.
type Regions = Vec<Arc<dyn File>>;

/// Serves until SIGUSR1 cuts the power, or until SIGTERM or SIGINT. Returns the exit code.
pub(crate) fn run(args: &args::Device) -> Result<u8, Failure> {
    let image = args.image.display();
    let name = args.image.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{image}: not the name of a file"))?;
    let parent = args.image.parent().filter(|parent| !parent.as_os_str().is_empty());
    let storage = PosixStorage::open(parent.unwrap_or(Path::new(".")))?;
    let Some(_lock) = storage.lock_file(&format!("{name}.lock"))? else {
        say(&format!("seawall-rig: {image}: another process serves this device"));
        return Ok(BUSY);
    };
    let sizes = [(name.to_owned(), args.size), (format!("{name}.{AREA}"), args.area)];
    let mut files = Regions::new();
    for (name, size) in &sizes {
        let Some(file) = region(&storage, name, *size)? else { return Ok(CONFLICT) };
        files.push(file);
    }
    let cost = Cost { delay: args.delay, bandwidth: args.bandwidth };
    let device = Arc::new(Device::new(files, cost, Arc::new(SystemClock::new()))?);
    // From here on, signals are caught and do not end the process.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1])?;
    let exports: [(&str, Arc<dyn Target>); 2] =
        [(HOME, Arc::new(device.region(0))), (AREA, Arc::new(device.region(1)))];
    let listen = Listen::Unix(args.unix.clone());
    let server = Server::start_all(&exports, &listen, Limits::default())
        .map_err(|error| format!("{}: cannot listen: {error}", args.unix.display()))?;
    ready(args)?;
    // Only a signal ends this wait.
    let signal = signals.forever().next().unwrap_or(SIGTERM);
    if signal == SIGUSR1 {
        let fate = device.cut(args.seed)?;
        // The power is off, so the server does not wait for its clients.
        std::mem::forget(server);
        return tell(args, fate);
    }
    server.stop()?;
    Ok(0)
}

/// Opens or creates a file of this size. If it has another size, prints that and returns `None`.
fn region(storage: &PosixStorage, name: &str, size: u64) -> Result<Option<Arc<dyn File>>, Failure> {
    let file = match storage.open(name, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(name),
        other => other,
    }?;
    match file.len()? {
        // New, or left empty by a run that ended while creating it.
        0 => file.set_len(size).and_then(|()| storage.sync_dir())?,
        there if there == size => {}
        there => {
            let what = format!("has {} already, not {}", bytes(there), bytes(size));
            say(&format!("seawall-rig: {name} {what}; give that size, or another image"));
            return Ok(None);
        }
    }
    Ok(Some(file))
}

fn ready(args: &args::Device) -> Result<(), Failure> {
    let line = if args.json {
        let answer = json!({
            "schema": "seawall.disk.device/1",
            "simulated": true,
            "image": args.image.display().to_string(),
            "socket": args.unix.display().to_string(),
            "exports": [
                { "name": HOME, "bytes": args.size },
                { "name": AREA, "bytes": args.area },
            ],
            "delay_ms": args.delay.as_secs_f64() * 1000.0,
            "bytes_per_s": args.bandwidth,
            "seed": args.seed,
        });
        answer.to_string()
    } else {
        format!("ready nbd unix:{}", args.unix.display())
    };
    Ok(output::say(&[line])?)
}

/// Prints what a power cut left.
fn tell(args: &args::Device, fate: Fate) -> Result<u8, Failure> {
    let Fate { kept, older, lost } = fate;
    let line = if args.json {
        let answer = json!({
            "schema": "seawall.disk.device.cut/1",
            "seed": args.seed,
            "sectors": { "kept": kept, "older": older, "lost": lost },
        });
        answer.to_string()
    } else {
        format!(
            "cut by seed {}; of the sectors not flushed {lost} lost, {older} older, {kept} kept",
            args.seed
        )
    };
    output::say(&[line])?;
    Ok(0)
}
