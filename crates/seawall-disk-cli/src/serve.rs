//! `seawall disk serve`: opens the files, runs the server, and ends it cleanly.

pub(super) mod sandbox;

use super::answers::{Home, Stopped};
use super::claim::{self, Claim, Taken};
use super::control::{self, Stop};
use super::export::{self, Transport};
use super::keeper::{self, Keeping};
use super::metrics;
use super::notify::{self, Notifier};
use super::power::{PowerWatch, SIGPWR, detection, dump};
use super::service::{Arming, Residence, Service, lock, spawn};
use crate::args::{DiskServe, Power, ROOM_MAX};
use crate::state::image::{self, Device};
use crate::state::named::{Names, Removed};
use crate::state::place::{self, CONTROL, Place};
use sandbox::Standing;
use seawall_disk::nbd::Bound;
use seawall_disk::{Disk, Options, Recovered, Supply};
use seawall_host::ImageKind;
use seawall_io::SystemClock;
use seawall_output::answer;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use seawall_output::text::{bytes, count, to_u64};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// How often to check whether the device must be measured again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Serves until a signal, a request to stop, or the end of the program of `--run`.
pub(crate) fn run(args: &DiskServe) -> Result<Exit, Failure> {
    end_on_panic();
    check_buffers(args)?;
    export::check(args)?;
    sandbox::check(args)?;
    let oom_score = seawall_host::oom_score().ok();
    sandbox::assume_user(&args.confined, &args.image)?;
    let lowered = seawall_host::oom_score().ok();
    let notifier = Arc::new(Notifier::from_environment());
    let clock = Arc::new(SystemClock::new());
    let mut watch = PowerWatch::start(args)?;
    // A power failure must not end a start that saves the memory of the last server.
    let signals = Signals::new(SIGPWR);
    let signals = signals.map_err(|error| failed(&args.image, "wait for signals", &error))?;
    let Opened { claimed, disk, names, recovered, has_lost, front } =
        open(args, watch.as_ref(), clock.clone())?;
    let no_keeper = || Arc::new(Mutex::new(Err("there is no keeper".to_owned())));
    let kept = claimed.keeping.as_ref().map_or_else(no_keeper, |keeping| keeping.state.clone());
    tell_recovered(args, recovered.as_ref());
    if has_lost {
        tell_lost(args);
    }
    let disk = Arc::new(disk);
    let residence = Residence::ask(lowered);
    if let (Err(why), false) = (&residence.locked, args.look.quiet) {
        say(&format!("seawall: memory is NOT locked, and an emergency may have to wait: {why}"));
    }

    // From here on, signals are handled instead of ending the process.
    let added = [SIGTERM, SIGINT].into_iter().try_for_each(|signal| signals.add_signal(signal));
    added.map_err(|error| failed(&args.image, "wait for signals", &error))?;
    // Writing a dump to the image may have taken minutes since the first answer.
    let counts_for = watch.as_mut().map_or(Duration::MAX, |watch| {
        watch.ask();
        watch.counts_for()
    });
    disk.supplied_for(supply(args, watch.as_ref()), counts_for);
    let (transport, at) = Transport::start(args, front.bound, disk.clone())?;
    let service = Arc::new(Service {
        image: args.image.display().to_string(),
        place: claimed.place.clone(),
        at,
        residence,
        kept,
        standing: front.standing,
        transport: Mutex::new(Some(transport)),
        arming: Mutex::new(Arming::default()),
        power: Mutex::new(watch.as_ref().map(PowerWatch::says)),
        emergency: Mutex::new(None),
        disk,
        names,
        recovered,
        has_lost,
        clock,
        room: room(args),
    });
    // Measuring takes time, in which the power source can fail.
    let watches = watch.map_or(Ok(()), |watch| watch.go_on(&service));
    watches.map_err(|error| failed(&args.image, "watch the power source", &error))?;
    let served = attend(args, (&claimed, &service), (signals, front.metrics, &notifier), oom_score);
    let exit = match served {
        Ok(stop) => end(args, &claimed, &service, stop),
        Err(failure) => Err(match close(args, &claimed, &service) {
            Ok(()) => failure,
            // Clients have written, and flushes may have returned early: a loss comes first.
            Err(loss) if loss.exit == Exit::Contract => {
                failure.tell();
                loss
            }
            Err(other) => {
                other.tell();
                failure
            }
        }),
    };
    claimed.place.remove_control();
    exit
}

/// Lets flushes return early, starts the other threads, and waits for a reason to stop.
fn attend(
    args: &DiskServe,
    (claimed, service): (&Claimed, &Arc<Service>),
    (signals, metrics, notifier): (Signals, Option<metrics::Listener>, &Arc<Notifier>),
    oom_score: Option<i32>,
) -> Result<Stop, Failure> {
    let cannot = |act| move |error: io::Error| failed(&args.image, act, &error);
    // No flush has returned early so far: the device has not been measured.
    let cannot_note = |error| place::failed(claimed.place.path(), &error);
    claimed.place.note_armed(args.power != Power::Unknown).map_err(cannot_note)?;
    if let Err(error) = service.keep_armed() {
        say(&format!("seawall: the device could not be measured, and flushes wait: {error}"));
    }
    let (stops, stopped) = mpsc::channel();
    start(&claimed.place, (service, &stops), signals)?;
    let serves = metrics.map_or(Ok(()), |listener| metrics::serve(listener, service));
    serves.map_err(cannot("serve metrics"))?;
    notifier.keep_alive(service).map_err(cannot("feed the watchdog"))?;
    // Standard error has the loss, and from here on `status` reports it.
    claimed.place.note_reported().map_err(cannot_note)?;
    ready(args, service);
    notifier.ready(&standing(service));
    if let Some(command) = &args.run {
        run_beside(args, (command, oom_score), (service, stops.clone()))?;
    }
    let stop = wait(service, notifier, &stopped);
    notifier.stopping();
    Ok(stop)
}

/// The total size of all buffers in bytes.
fn room(args: &DiskServe) -> u64 {
    u64::from(args.buffers).saturating_mul(args.buffer_size)
}

fn check_buffers(args: &DiskServe) -> Result<(), Failure> {
    if room(args) <= ROOM_MAX {
        return Ok(());
    }
    let what = format!("{} buffers of {}", args.buffers, bytes(args.buffer_size));
    let what = format!("{what} are more than {}", bytes(ROOM_MAX));
    let failure = Failure::new(Exit::Usage, what).at("--buffers and --buffer-size");
    Err(failure.next("give fewer or smaller ones"))
}

/// Makes a panic end the process, so that it is started again: the keeper has the memory.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// The files and the memory that this process holds exclusively while it serves.
struct Claimed {
    place: Arc<Place>,
    device: Device,
    keeping: Option<Arc<Keeping>>,
}

/// Reports what was restored from a dump, and with emphasis what was lost.
fn tell_recovered(args: &DiskServe, recovered: Option<&Recovered>) {
    let Some(Recovered { runs, lost, .. }) = recovered else { return };
    let runs = count(u64::try_from(*runs).unwrap_or(u64::MAX), "run");
    if *lost > 0 {
        let lost = count(u64::from(*lost), "run");
        let what = format!("THE DUMP WAS TORN: {lost} of it are LOST, {runs} were restored");
        let failure = Failure::new(Exit::Contract, what).at(args.image.display());
        failure.next("check the content of the disk: the power failed during the dump").tell();
    } else if !args.look.quiet {
        say(&format!("seawall: found a dump of {runs}; all of it was restored"));
    }
}

/// Reports that flushed data may be lost, with emphasis.
fn tell_lost(args: &DiskServe) {
    let what = "the last server may have acknowledged flushes early. It did not drain, and its \
                memory is gone or its dump was torn: what it acknowledged last may be LOST";
    let failure = Failure::new(Exit::Contract, what).at(args.image.display());
    failure.next("check the content of the disk").tell();
}

/// An open disk, and what was found when it was opened.
struct Opened {
    claimed: Claimed,
    disk: Disk,
    names: Names,
    recovered: Option<Recovered>,
    has_lost: bool,
    front: Front,
}

/// The listening sockets. No connection is accepted yet.
struct Front {
    bound: Option<Bound>,
    metrics: Option<metrics::Listener>,
    /// The user and sandbox of this process from here on.
    standing: Standing,
}

impl Front {
    /// Listens, and then confines the process.
    fn open(
        args: &DiskServe,
        claimed: (&Place, &Device),
        watch: Option<&PowerWatch>,
    ) -> Result<Self, Failure> {
        let bound = export::bind(args)?;
        let metrics = args.metrics.as_ref().map(metrics::listen).transpose()?;
        let ports = watch.map_or_else(Vec::new, PowerWatch::ports);
        let standing = sandbox::of_server(args, claimed, &ports)?;
        Ok(Self { bound, metrics, standing })
    }
}

/// The hold-up time, the detection time and the health of the power source.
fn supply(args: &DiskServe, watch: Option<&PowerWatch>) -> Supply {
    let is_healthy = watch.map_or(args.power == Power::Ok, PowerWatch::is_healthy);
    Supply { hold_up: args.hold_up, detection: detection(args), is_healthy }
}

/// Opens the disk and its state directory. A dump found there is written to the image.
fn open(
    args: &DiskServe,
    watch: Option<&PowerWatch>,
    clock: Arc<SystemClock>,
) -> Result<Opened, Failure> {
    let folder = image::state_of(&args.image, args.state.as_deref())?;
    let mut device = image::open(args, image::look(args)?)?;
    if ImageKind::of(&folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        claim::check(args, &device)?;
    }
    let place = Place::open(&folder)?;
    // Both are bounded by the parser of the command line.
    let buffer_size = usize::try_from(args.buffer_size).unwrap_or(usize::MAX);
    let (buffers, supply) = (usize::from(args.buffers), supply(args, watch));
    let options = Options { buffers, buffer_size, supply };
    let Taken { files, recovered, identity, has_lost } =
        Claim::new(args, &place, &device)?.take(&options)?;
    let is_new = device.finish(&args.image)?;
    // The process must be confined before the disk starts its threads.
    let front = Front::open(args, (&place, &device), watch)?;
    let failed = |error: io::Error| place::failed(place.path(), &error);
    let (memory, descriptor) = keeper::make(args, &options).map_err(failed)?;
    // A new image has its name by now.
    let (names, files) = Names::watch(&device, files);
    let opened = Disk::open_in(files, &options, clock, (memory, identity));
    let (disk, _) = opened.map_err(failed)?;
    // The keeper needs the memory before the first write is accepted.
    let held = descriptor.map(|memory| Keeping::start(args, (&place, &front.standing), memory));
    let keeping = held.transpose().map_err(failed)?;
    if is_new && !args.look.quiet {
        say(&format!("seawall: created an image of {}, durable", bytes(disk.size())));
    }
    let claimed = Claimed { place: Arc::new(place), device, keeping };
    Ok(Opened { claimed, disk, names, recovered, has_lost, front })
}

/// Starts the threads for the control socket and for signals.
fn start(
    place: &Place,
    (service, stops): (&Arc<Service>, &mpsc::Sender<Stop>),
    mut signals: Signals,
) -> Result<(), Failure> {
    let path = place.path().join(CONTROL);
    place.remove_control();
    let cannot = |error: io::Error| failed(&path, "listen", &error);
    let listener = control::listen(&path).map_err(cannot)?;
    let (its, its_stops) = (service.clone(), stops.clone());
    let answers = move || control::answer_all(&listener, &its, &its_stops);
    spawn("control", answers).map_err(cannot)?;

    let (its, its_stops) = (service.clone(), stops.clone());
    let hears = move || {
        for signal in signals.forever() {
            if Some(signal) == SIGPWR {
                dump(&its, "SIGPWR");
            } else {
                // A missing receiver means that the server is already stopping.
                let _ = its_stops.send(Stop::Signal);
            }
        }
    };
    spawn("signals", hears).map_err(cannot)
}

fn ready(args: &DiskServe, service: &Service) {
    let (state, says) = service.state(&service.disk.status());
    if !args.look.quiet {
        let more = match (state, service.kept()) {
            ("armed", Ok(_)) => "; a crash of the kernel loses what they covered",
            ("armed", Err(_)) => {
                "; a crash of this process or of the kernel loses what they covered"
            }
            _ => "",
        };
        say(&format!("seawall: {state}: {says}{more}"));
    }
    let mut out = Output::lock();
    if args.look.json {
        out.json(&Serving::of(service, state, says));
    } else {
        out.line(&format!("ready {}", service.at.ready));
    }
    // A closed standard output does not stop the server.
    out.finish();
}

answer! {
    /// `seawall disk serve --json`, when it is ready.
    #[serde(tag = "schema", rename = "seawall.disk.serve/1")]
    struct Serving(service: &Service, state: &'static str, says: String) {
        image: String = service.image.clone(),
        dir: String = service.place.path().display().to_string(),
        ready: String = service.at.ready.clone(),
        uri: String = service.at.uri.clone(),
        bytes: u64 = service.disk.size(),
        state: &'static str = state,
        says: String = says,
        recovered: Option<Home> = service.recovered.as_ref().map(Home::of),
    }
}

/// Runs a program. The server stops when it ends.
fn run_beside(
    args: &DiskServe,
    (command, oom_score): (&str, Option<i32>),
    (service, stops): (&Service, mpsc::Sender<Stop>),
) -> Result<(), Failure> {
    let cannot = |error: io::Error| failed(&args.image, "run the command", &error);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).env("SEAWALL_DISK_URI", &service.at.uri);
    for name in notify::VARIABLES {
        shell.env_remove(name);
    }
    let mut child = shell.spawn().map_err(cannot)?;
    if let Some(score) = oom_score {
        // The child must not inherit our protection; it may have ended already.
        let _ = seawall_host::set_oom_score(Some(child.id()), score);
    }
    let waits = move || drop(stops.send(Stop::Child(child.wait())));
    spawn("run", waits).map_err(cannot)
}

/// The state of the disk as one line.
fn standing(service: &Service) -> String {
    let (state, says) = service.state(&service.disk.status());
    format!("{state}: {says}")
}

/// Waits for a reason to stop, and measures the device from time to time.
fn wait(service: &Service, notifier: &Notifier, stopped: &mpsc::Receiver<Stop>) -> Stop {
    let (mut told, mut was_safe) = (standing(service), true);
    loop {
        if let Ok(stop) = stopped.recv_timeout(LOOK_EVERY) {
            return stop;
        }
        if let Err(error) = service.keep_armed() {
            say(&format!("seawall: the device could not be measured again: {error}"));
        }
        let now = standing(service);
        let is_safe = service.is_safe();
        if is_safe != was_safe {
            say(&format!("seawall: {now}"));
            was_safe = is_safe;
        }
        if now != told {
            notifier.status(&now);
            told = now;
        }
    }
}

/// Ends a server, and answers the client that asked for the stop.
fn end(
    args: &DiskServe,
    claimed: &Claimed,
    service: &Service,
    stop: Stop,
) -> Result<Exit, Failure> {
    let ended = close(args, claimed, service);
    match stop {
        Stop::Asked(mut stream) => {
            let failure = ended.as_ref().err();
            let broken = failure.is_some_and(|failure| failure.exit == Exit::Contract);
            let error = failure.map(Failure::what);
            let answer = Stopped { image: &service.image, error, broken };
            // The client may have disconnected.
            let _ = control::say(&mut stream, &answer);
            ended.and_then(|()| left(args))
        }
        Stop::Signal => ended.and_then(|()| left(args)),
        Stop::Child(status) => {
            ended?;
            let status = status.map_err(|error| failed(&args.image, "wait for it", &error))?;
            Ok(Exit::Theirs(code(status)))
        }
    }
}

/// Disconnects all clients and drains. Then records that nothing is owed, and releases the keeper.
fn close(args: &DiskServe, claimed: &Claimed, service: &Service) -> Result<(), Failure> {
    let transport = lock(&service.transport).take();
    let drained = transport.map_or(Ok(()), Transport::stop);
    // After a failure, the keeper still has the data that is not on the device.
    drained.or_else(|error| settle(args, service, &error))?;
    if service.names.removed() == Some(Removed::Image) {
        let failure = Failure::new(Exit::Contract, "the image was REMOVED while it was served");
        return Err(failure.at(args.image.display()).next("restore it from a backup"));
    }
    if let Err(error) = claim::leave(&claimed.place, &claimed.device) {
        let what = format!("the clean end was not recorded: {error}");
        let failure = Failure::new(Exit::Failed, what).at(claimed.place.path().display());
        failure.next("nothing is lost, although the next start may say so").tell();
    }
    if let Some(keeping) = &claimed.keeping {
        keeping.release();
    }
    Ok(())
}

/// Reports a failed drain: data that is not on the device may be in the dump area.
fn settle(args: &DiskServe, service: &Service, error: &io::Error) -> Result<(), Failure> {
    let is_owing = service.disk.status().is_owing;
    if let Ok(done) = service.emergency() {
        if !args.look.quiet {
            let dumped = bytes(to_u64(done.bytes));
            say(&format!(
                "seawall: {dumped} wait in the dump area; the next start writes them to the image"
            ));
        }
        return Ok(());
    }
    // Without early flushes, no flushed data is lost.
    let exit = if is_owing { Exit::Contract } else { Exit::Failed };
    let (fate, next) = match service.kept() {
        Ok(_) => {
            let next = "check the device, and start the server again before the machine is off";
            ("only in the memory of the keeper", next)
        }
        Err(_) => ("lost", "check the system journal for errors of this device"),
    };
    let what = format!("what was not on the device is {fate}: {error}");
    Err(Failure::new(exit, what).at(args.image.display()).next(next))
}

/// Reports a server that stopped before the program of `--run`.
fn left(args: &DiskServe) -> Result<Exit, Failure> {
    let Some(command) = &args.run else { return Ok(Exit::Fine) };
    let what = "the server was stopped before its command had ended";
    let next = "stop the command: its disk is gone, after a complete drain";
    Err(Failure::new(Exit::Failed, what).at(command).next(next))
}

/// The exit code as a shell reports it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn failed(path: &Path, act: &str, error: &io::Error) -> Failure {
    let next = match error.kind() {
        // A socket's path has about a hundred bytes at most.
        io::ErrorKind::InvalidInput => "change to its directory, and give a shorter path",
        _ => "check the path and its permissions",
    };
    Failure::new(Exit::Failed, format!("cannot {act}: {error}")).at(path.display()).next(next)
}
