//! The processes of a drill: a device, a server over it, and what becomes of them.

use super::super::ask::ask;
use super::super::control::Request;
use super::super::device::HOME;
use super::work::SIZE;
use crate::args::{DiskDrill, DiskName};
use crate::report::{Exit, Failure};
use seawall_disk::nbd::{Client, Uri};
use seawall_io::{Clock, Notice, SystemClock, send_signal};
use seawall_measure::scratch::Scratch;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How long a process may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked whether the dump is written.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// What a process says beyond this is not kept.
const SAID_MAX: u64 = 64 * 1024;
/// What the server calls the disk.
const NAME: &str = "log";

/// A process of ours, killed if it does not end before this does.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Its answer, line by line.
    pub(super) lines: mpsc::Receiver<String>,
    said: Arc<Mutex<String>>,
}

impl Process {
    pub(super) fn start(arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (sender, lines) = mpsc::channel();
        let said = Arc::new(Mutex::new(String::new()));
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(out).lines();
                lines.map_while(Result::ok).try_for_each(|line| sender.send(line).map_err(drop))
            });
        }
        if let (Some(error), its) = (child.stderr.take(), said.clone()) {
            thread::spawn(move || {
                let mut lines = BufReader::new(error.take(SAID_MAX)).lines();
                while let Some(Ok(line)) = lines.next() {
                    let mut said = its.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push_str(&line);
                    said.push_str("; ");
                }
            });
        }
        Ok(Self { child, lines, said })
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Why there is no answer.
    fn failure(&self, what: &str) -> Failure {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let next = if said.is_empty() { "it said nothing" } else { said.trim_end_matches("; ") };
        Failure::new(Exit::Failed, what).next(format!("see what it said: {next}"))
    }

    /// The next line of its answer.
    fn answer(&self, what: &str) -> Result<Value, Failure> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|_| self.failure(what))?;
        serde_json::from_str(&line).map_err(|_| self.failure(what))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.kill();
    }
}

/// What was seen of a cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// Bytes that were in memory alone.
    pub(super) dirty: u64,
    /// What the dump took; none if it was not done within the hold-up, or nobody warned.
    pub(super) emergency_ms: Option<f64>,
    /// Sectors of the device that were not flushed and did not survive.
    pub(super) sectors_lost: Option<u64>,
}

/// Device and server, and the folder of their files.
#[derive(Debug)]
pub(super) struct Rig {
    scratch: Scratch,
    delay: Duration,
    hold_up: Duration,
    device: Process,
    server: Process,
}

impl Rig {
    /// Starts both; `seed` is the device's.
    pub(super) fn start(args: &DiskDrill, seed: u64) -> Result<Self, Failure> {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-drill")?;
        let (delay, hold_up) = (args.delay, args.hold_up);
        let device = start_device(&scratch, delay, seed)?;
        let server = start_server(&scratch, hold_up)?;
        Ok(Self { scratch, delay, hold_up, device, server })
    }

    /// Starts both again, behind a cut.
    pub(super) fn start_again(&mut self, seed: u64) -> Result<(), Failure> {
        self.device = start_device(&self.scratch, self.delay, seed)?;
        self.server = start_server(&self.scratch, self.hold_up)?;
        Ok(())
    }

    /// Where clients find the disk.
    pub(super) fn uri(&self) -> Uri {
        Uri::new(NAME, &self.scratch.path().join("s"))
    }

    /// A client of the disk.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Client::connect(&self.uri()).map_err(|error| self.server.failure(&error.to_string()))
    }

    pub(super) fn status(&self) -> Result<Value, Failure> {
        let name = DiskName { image: None, state: Some(self.scratch.path().join("state")) };
        ask(&name, Request::Status, Some(PATIENCE))
    }

    /// The power fails: SIGPWR, and when the hold-up is over the cut.
    pub(super) fn cut_announced(&mut self) -> Result<Cut, Failure> {
        let clock = SystemClock::new();
        signal(&self.server, Notice::Power)?;
        let mut cut = Cut::default();
        while clock.now() < self.hold_up {
            let answer = self.status()?;
            let emergency = answer.get("emergency");
            let number = |name| emergency?.get(name)?.as_f64();
            if let Some(ms) = number("ms") {
                cut.emergency_ms = Some(ms);
                let bytes = emergency.and_then(|emergency| emergency.get("bytes"));
                cut.dirty = bytes.and_then(Value::as_u64).unwrap_or_default();
                break;
            }
            clock.sleep(LOOK_EVERY);
        }
        clock.sleep(self.hold_up.saturating_sub(clock.now()));
        self.kill_server()?;
        signal(&self.device, Notice::User)?;
        let answer = self.device.answer("the device does not say what it lost")?;
        let lost = answer.get("sectors").and_then(|sectors| sectors.get("lost"));
        cut.sectors_lost = lost.and_then(Value::as_u64);
        self.device.child.wait().map_err(|error| self.device.failure(&error.to_string()))?;
        Ok(cut)
    }

    /// The power fails, and nobody said so.
    pub(super) fn cut_unannounced(&mut self) -> Result<Cut, Failure> {
        let dirty = self.dirty()?;
        self.kill_server()?;
        let killed = self.device.kill();
        killed.map_err(|error| self.device.failure(&error.to_string()))?;
        Ok(Cut { dirty, ..Cut::default() })
    }

    /// Bytes that are in the server's memory alone.
    pub(super) fn dirty(&self) -> Result<u64, Failure> {
        Ok(self.status()?.get("dirty").and_then(Value::as_u64).unwrap_or_default())
    }

    fn kill_server(&mut self) -> Result<(), Failure> {
        if !self.server.is_running() {
            return Err(self.server.failure("the server ended by itself"));
        }
        let killed = self.server.kill();
        killed.map(drop).map_err(|error| self.server.failure(&error.to_string()))
    }
}

fn signal(process: &Process, notice: Notice) -> Result<(), Failure> {
    let sent = send_signal(&process.child, notice);
    sent.map_err(|error| process.failure(&format!("cannot send it a signal: {error}")))
}

fn start(what: &str, arguments: &[OsString]) -> Result<Process, Failure> {
    let process = Process::start(arguments).map_err(|error| {
        let next = "see whether this machine lets it start processes";
        Failure::new(Exit::Failed, format!("cannot start {what}: {error}")).next(next)
    })?;
    // Its first line says that it is ready.
    process.answer(&format!("{what} does not get ready"))?;
    Ok(process)
}

fn start_device(scratch: &Scratch, delay: Duration, seed: u64) -> Result<Process, Failure> {
    let path = |name| scratch.path().join(name).into_os_string();
    let delay = format!("{}", delay.as_secs_f64() * 1000.0);
    let mut arguments = words("disk device --json --size");
    arguments.extend([SIZE.to_string().into(), "--delay".into(), delay.into()]);
    arguments.extend(["--seed".into(), seed.to_string().into()]);
    arguments.extend(["--unix".into(), path("d"), path("img")]);
    start("the device", &arguments)
}

fn start_server(scratch: &Scratch, hold_up: Duration) -> Result<Process, Failure> {
    let path = |name| scratch.path().join(name);
    let mut arguments = words("disk serve --json --quiet --power ok --hold-up");
    arguments.extend([hold_up.as_millis().to_string().into(), "--name".into(), NAME.into()]);
    arguments.extend(["--state".into(), path("state").into_os_string(), "--export".into()]);
    arguments.push(joined("nbd:unix:", path("s")));
    arguments.push(Uri::new(HOME, &path("d")).to_string().into());
    start("the server", &arguments)
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

fn joined(prefix: &str, path: PathBuf) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text
}
