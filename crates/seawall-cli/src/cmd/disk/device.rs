//! `seawall disk device`: a simulated device as a process of its own, whose power can be cut.

use crate::args::DiskDevice;
use crate::human::bytes;
use crate::output::Output;
use crate::report::{Exit, Failure};
use seawall_disk::device::{Cost, Device, Fate};
use seawall_disk::nbd::{Limits, Listen, Server, Target};
use seawall_io::{Access, File, Lock, PosixStorage, Storage, SystemClock};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Its exports, one for each region.
pub(crate) const HOME: &str = "home";
pub(crate) const AREA: &str = "area";

/// What is durable of each region.
type Regions = Vec<Arc<dyn File>>;

/// Serves until the power is cut, or until it is told to end.
pub(crate) fn run(args: &DiskDevice) -> Result<Exit, Failure> {
    let cannot = |error| failed(&args.image, &error);
    let (files, _lock) = open(args)?;
    let cost = Cost { delay: args.delay, bandwidth: args.bandwidth };
    let device = Device::new(files, cost, Arc::new(SystemClock::new())).map_err(cannot)?;
    let device = Arc::new(device);
    // From here on a signal is waited for, and does not end the process by itself.
    let signals = [SIGTERM, SIGINT, SIGUSR1];
    let mut signals = Signals::new(signals).map_err(cannot)?;
    let exports: [(&str, Arc<dyn Target>); 2] =
        [(HOME, Arc::new(device.region(0))), (AREA, Arc::new(device.region(1)))];
    let listen = Listen::Unix(args.unix.clone());
    let server = Server::start_all(&exports, &listen, Limits::default()).map_err(|error| {
        let failure = Failure::new(Exit::Failed, format!("cannot listen: {error}"));
        let next = "give a path that is free and shorter than 100 bytes, or end who listens there";
        failure.at(args.unix.display()).next(next)
    })?;
    ready(args);
    // If they ended, nobody could end this.
    let signal = signals.forever().next().unwrap_or(SIGTERM);
    if signal == SIGUSR1 {
        let fate = device.cut(args.seed).map_err(cannot)?;
        // The power is off: nobody is waited for.
        std::mem::forget(server);
        return Ok(tell(args, fate));
    }
    server.stop().map_err(cannot)?;
    Ok(Exit::Fine)
}

/// The files, made where they are missing; nobody else has them.
fn open(args: &DiskDevice) -> Result<(Regions, Box<dyn Lock>), Failure> {
    let cannot = |error| failed(&args.image, &error);
    let name = args.image.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        let failure = Failure::new(Exit::Usage, "this is no name for a file");
        failure.at(args.image.display()).next("give the path of an image")
    })?;
    let parent = args.image.parent().filter(|parent| !parent.as_os_str().is_empty());
    let storage = PosixStorage::open(parent.unwrap_or(Path::new("."))).map_err(cannot)?;
    let lock = storage.lock_file(&format!("{name}.lock")).map_err(cannot)?.ok_or_else(|| {
        let failure = Failure::new(Exit::Busy, "another process is this device");
        failure.at(args.image.display()).next("end that one, or give another image")
    })?;
    let sizes = [(name.to_owned(), args.size), (format!("{name}.{AREA}"), args.area)];
    let files = sizes.iter().map(|(name, size)| region(&storage, name, *size));
    Ok((files.collect::<Result<_, _>>()?, lock))
}

fn region(storage: &PosixStorage, name: &str, size: u64) -> Result<Arc<dyn File>, Failure> {
    let cannot = |error| failed(Path::new(name), &error);
    let file = match storage.open(name, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(name),
        other => other,
    };
    let file = file.map_err(cannot)?;
    match file.len().map_err(cannot)? {
        // New, or made and not filled.
        0 => file.set_len(size).and_then(|()| storage.sync_dir()).map_err(cannot)?,
        there if there == size => {}
        there => {
            let what = format!("it has {} already, not {}", bytes(there), bytes(size));
            let failure = Failure::new(Exit::Conflict, what).at(name);
            return Err(failure.next("give the size that it has, or another image"));
        }
    }
    Ok(file)
}

fn ready(args: &DiskDevice) {
    let mut out = Output::new();
    if args.look.json {
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
        out.line(&answer.to_string());
    } else {
        out.line(&format!("ready nbd unix:{}", args.unix.display()));
    }
    // Whoever does not want to know is served, too.
    out.finish();
}

/// What a cut left.
fn tell(args: &DiskDevice, fate: Fate) -> Exit {
    let Fate { kept, older, lost } = fate;
    let mut out = Output::new();
    if args.look.json {
        let answer = json!({
            "schema": "seawall.disk.device.cut/1",
            "seed": args.seed,
            "sectors": { "kept": kept, "older": older, "lost": lost },
        });
        out.line(&answer.to_string());
    } else {
        out.line(&format!(
            "cut by seed {}; of the sectors not flushed {lost} lost, {older} older, {kept} kept",
            args.seed
        ));
    }
    out.finish()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let next = "check the path, its permissions and the room there";
    Failure::new(Exit::Failed, format!("the device: {error}")).at(path.display()).next(next)
}
