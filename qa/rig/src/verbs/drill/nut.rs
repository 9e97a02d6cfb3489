//! A real upsd with two simulated UPS: one is in use while the other recovers.

use super::process::{PATIENCE, Process};
use crate::need::{DUMMY_UPS, UPSD};
use crate::process::{Failure, wait_for};
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often upsd is queried for a changed status.
const ASK_EVERY: Duration = Duration::from_millis(2);
const NAMES: [&str; 2] = ["first", "second"];
/// The file ups.conf; a driver polls at most once a second.
const CONFIG: &str = "\
[first]
driver = dummy-ups
port = ups.dev
mode = dummy-once
pollinterval = 1
[second]
driver = dummy-ups
port = ups.dev
mode = dummy-once
pollinterval = 1
";
const USERS: &str = "[rig]\npassword = rig\nactions = SET\n";

/// upsd, its drivers, and the folder of their files.
#[derive(Debug)]
pub(super) struct Nut {
    folder: PathBuf,
    port: u16,
    upsd: Process,
    drivers: Vec<Process>,
}

/// A connection to upsd.
struct Line(BufReader<TcpStream>);

impl Line {
    fn open(port: u16) -> Result<Self, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    fn ask(&mut self, request: &str) -> Result<String, Failure> {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes())?;
        let mut answer = String::new();
        self.0.read_line(&mut answer)?;
        Ok(answer)
    }

    /// Whether upsd reports this status for this UPS.
    fn has(&mut self, ups: &str, status: &str) -> Result<bool, Failure> {
        let answer = self.ask(&format!("GET VAR {ups} ups.status"))?;
        Ok(answer == format!("VAR {ups} ups.status \"{status}\"\n"))
    }
}

impl Nut {
    /// Starts the drivers and upsd in this folder, and returns once both UPS are online.
    pub(super) fn start(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir(folder)?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let listen = format!("LISTEN 127.0.0.1 {port}\n");
        let files = [
            ("ups.conf", CONFIG),
            ("upsd.conf", &listen),
            ("upsd.users", USERS),
            ("ups.dev", "ups.status: OL\n"),
        ];
        for (name, text) in files {
            let opened =
                fs::OpenOptions::new().write(true).create_new(true).open(folder.join(name));
            opened.and_then(|mut file| file.write_all(text.as_bytes()))?;
        }
        let (drivers, upsd) = start_all(folder)?;
        let nut = Self { folder: folder.to_owned(), port, upsd, drivers };
        nut.wait_until_online()?;
        Ok(nut)
    }

    /// The option --power for a disk served in this cycle.
    pub(super) fn power(&self, cycle: u64) -> String {
        format!("nut:{}@127.0.0.1:{}", name(cycle), self.port)
    }

    /// Switches the UPS of this cycle to battery, and waits until upsd reports that. Returns the
    /// time on this clock at which upsd last reported that all was well.
    pub(super) fn fail(&self, cycle: u64, clock: &SystemClock) -> Result<Duration, Failure> {
        self.set(cycle, "OB DISCHRG")?;
        let mut line = Line::open(self.port)?;
        let end = clock.now() + PATIENCE;
        let mut before = clock.now();
        loop {
            let now = clock.now();
            if line.has(name(cycle), "OB DISCHRG")? {
                return Ok(before);
            }
            if now > end {
                return Err("upsd does not tell that its UPS is on battery".into());
            }
            before = now;
            clock.sleep(ASK_EVERY);
        }
    }

    /// Switches the UPS of this cycle back online, which takes about a second.
    pub(super) fn recover(&self, cycle: u64) -> Result<(), Failure> {
        self.set(cycle, "OL")
    }

    /// Kills upsd with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.upsd.kill()
    }

    /// Suspends upsd, so that it hangs, or resumes it.
    pub(super) fn pause(&self, is_paused: bool) -> Result<(), Failure> {
        self.upsd.pause(is_paused)
    }

    /// Restarts the drivers and upsd after upsd was killed: a driver of NUT 2.8.0 aborts when it
    /// writes to an upsd that is gone.
    pub(super) fn start_again(&mut self) -> Result<(), Failure> {
        for driver in &mut self.drivers {
            driver.kill()?;
        }
        let storage = PosixStorage::open(&self.folder)?;
        for name in NAMES {
            storage.remove(&socket(name))?;
        }
        (self.drivers, self.upsd) = start_all(&self.folder)?;
        Ok(())
    }

    /// Waits until both UPS are online.
    pub(super) fn wait_until_online(&self) -> Result<(), Failure> {
        let is_online = |ups: &str| {
            Line::open(self.port).and_then(|mut line| line.has(ups, "OL")).unwrap_or_default()
        };
        let all_online = || NAMES.iter().all(|name| is_online(name)).then_some(());
        let found = wait_for(PATIENCE, all_online);
        found.ok_or_else(|| self.upsd.failure("upsd does not tell that its UPS are online"))
    }

    fn set(&self, cycle: u64, status: &str) -> Result<(), Failure> {
        let mut line = Line::open(self.port)?;
        let set = format!("SET VAR {} ups.status \"{status}\"", name(cycle));
        for request in ["USERNAME rig", "PASSWORD rig", &set] {
            let answer = line.ask(request)?;
            if !answer.starts_with("OK") {
                return Err(format!("upsd answers {request} with {}", answer.trim_end()).into());
            }
        }
        Ok(())
    }
}

fn name(cycle: u64) -> &'static str {
    let [first, second] = NAMES;
    if cycle.is_multiple_of(2) { first } else { second }
}

fn socket(name: &str) -> String {
    format!("dummy-ups-{name}")
}

/// Starts the drivers, then upsd.
fn start_all(folder: &Path) -> Result<(Vec<Process>, Process), Failure> {
    let drivers = NAMES.map(|name| run(folder, DUMMY_UPS, &["-F", "-a", name]));
    let drivers = drivers.into_iter().collect::<Result<Vec<Process>, Failure>>()?;
    let all_up = || NAMES.iter().all(|name| folder.join(socket(name)).exists()).then_some(());
    wait_for(PATIENCE, all_up).ok_or("the drivers of the UPS do not start")?;
    Ok((drivers, run(folder, UPSD, &["-F"])?))
}

/// Starts a NUT program with all its files in this folder.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<Process, Failure> {
    let mut command = Command::new(program);
    for variable in ["NUT_CONFPATH", "NUT_STATEPATH", "NUT_ALTPIDPATH"] {
        command.env(variable, folder);
    }
    if rustix::process::geteuid().is_root() {
        // Otherwise the program switches to a user without access to the folder.
        command.args(["-u", "root"]);
    }
    let started = Process::of({
        command.args(arguments);
        command
    });
    started.map_err(|error| format!("cannot start {program}: {error}").into())
}
