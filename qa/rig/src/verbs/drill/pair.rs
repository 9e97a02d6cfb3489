//! The pair of processes in a drill, device and server: starts them and cuts their power.

use super::process::{PATIENCE, Process, start, start_device, words};
use super::work::SIZE;
use crate::disk::ask;
use crate::process::Failure;
use crate::verbs::device::HOME;
use seawall_disk::nbd::{Client, Uri};
use seawall_host::Notice;
use seawall_io::{Clock, SystemClock};
use seawall_measure::scratch::Folder;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How often the server is asked whether the dump is written.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The server's name for the disk.
const NAME: &str = "log";

/// Observations of one power cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    /// Bytes that were only in the server's memory.
    pub(super) dirty: u64,
    /// Time that the dump took; `None` if it did not end within the hold-up time, or if the cut was
    /// not announced.
    pub(super) emergency_ms: Option<f64>,
    /// Unflushed sectors of the device that did not survive.
    pub(super) sectors_lost: Option<u64>,
}

/// How device and server are started.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The program `seawall` that serves the disk.
    pub(super) program: PathBuf,
    pub(super) delay: Duration,
    pub(super) hold_up: Duration,
    /// The server's option --power.
    pub(super) power: String,
}

/// The device, the server, and the folder with their files.
#[derive(Debug)]
pub(super) struct Pair {
    setup: Setup,
    scratch: Folder,
    device: Process,
    server: Process,
}

impl Pair {
    /// Starts the device and the server.
    pub(super) fn start(setup: Setup, seed: u64) -> Result<Self, Failure> {
        let scratch = Folder::new(&std::env::temp_dir(), "seawall-drill")?;
        let device = start_device(scratch.path(), SIZE, (setup.delay, seed))?;
        let server = start_server(&setup, &scratch)?;
        Ok(Self { setup, scratch, device, server })
    }

    /// Starts the device and the server again after a cut.
    pub(super) fn start_again(&mut self, seed: u64) -> Result<(), Failure> {
        self.device = start_device(self.scratch.path(), SIZE, (self.setup.delay, seed))?;
        self.server = start_server(&self.setup, &self.scratch)?;
        Ok(())
    }

    /// Sets the option --power for the next start of the server.
    pub(super) fn set_power(&mut self, power: String) {
        self.setup.power = power;
    }

    /// The address of the disk for clients.
    pub(super) fn uri(&self) -> Uri {
        Uri::new(NAME, &self.scratch.path().join("s"))
    }

    /// Connects a client to the disk.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        Client::connect(&self.uri()).map_err(|error| self.server.failure(&error.to_string()))
    }

    pub(super) fn status(&self) -> Result<Value, Failure> {
        ask(&self.scratch.path().join("state"), "status", PATIENCE)
    }

    /// Sends SIGPWR, and cuts the power when the hold-up time is over.
    pub(super) fn cut_announced(&mut self) -> Result<Cut, Failure> {
        let clock = SystemClock::new();
        self.server.signal(Notice::Power)?;
        let mut cut = Cut::default();
        while clock.now() < self.setup.hold_up {
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
        clock.sleep(self.setup.hold_up.saturating_sub(clock.now()));
        self.kill_server()?;
        cut.sectors_lost = self.cut_device()?;
        Ok(cut)
    }

    /// Cuts the device's power. Returns how many of its sectors did not survive.
    pub(super) fn cut_device(&mut self) -> Result<Option<u64>, Failure> {
        self.device.signal(Notice::User)?;
        let answer = self.device.answer("the device does not say what it lost")?;
        let lost = answer.get("sectors").and_then(|sectors| sectors.get("lost"));
        self.device.wait()?;
        Ok(lost.and_then(Value::as_u64))
    }

    /// Cuts the power without a warning.
    pub(super) fn cut_unannounced(&mut self) -> Result<Cut, Failure> {
        let dirty = self.dirty()?;
        self.kill_server()?;
        self.device.kill()?;
        Ok(Cut { dirty, ..Cut::default() })
    }

    /// Bytes that are only in the server's memory.
    pub(super) fn dirty(&self) -> Result<u64, Failure> {
        Ok(self.status()?.get("dirty").and_then(Value::as_u64).unwrap_or_default())
    }

    pub(super) fn kill_server(&mut self) -> Result<(), Failure> {
        if !self.server.is_running() {
            return Err(self.server.failure("the server ended by itself"));
        }
        self.server.kill()
    }
}

fn start_server(setup: &Setup, scratch: &Folder) -> Result<Process, Failure> {
    let path = |name| scratch.path().join(name);
    // Without a keeper, since that would lose its memory in the same cut.
    let mut arguments = words("disk serve --json --quiet --no-keeper --power");
    let detection = ["--detection", "1", "--hold-up"].map(Into::into);
    arguments.extend([setup.power.clone().into()].into_iter().chain(detection));
    let hold_up = setup.hold_up.as_millis().to_string();
    arguments.extend([hold_up.into(), "--name".into(), NAME.into()]);
    arguments.extend(["--state".into(), path("state").into_os_string(), "--export".into()]);
    arguments.push(joined("nbd:unix:", path("s")));
    arguments.push(Uri::new(HOME, &path("d")).to_string().into());
    start("the server", &setup.program, &arguments)
}

fn joined(prefix: &str, path: PathBuf) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(path);
    text
}
