//! Runs, starts, awaits and kills other programs.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use seawall_io::{Clock, SystemClock};
use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An error in words for a person.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a command of the system and returns its standard output.
///
/// # Errors
///
/// The command cannot be run or fails; the error has its standard error.
pub(crate) fn run(words: &[&str]) -> Result<String, Failure> {
    let [program, arguments @ ..] = words else { return Err("no command".into()) };
    output(Command::new(program).args(arguments))
}

/// Runs a command and returns its standard output.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{shown}: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{shown}: {}: {}", done.status, said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Starts a command whose standard error is appended to a file.
///
/// # Errors
///
/// The command cannot be started, or the file cannot be opened.
pub(crate) fn start(command: &mut Command, log: &Path) -> Result<Child, Failure> {
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    let shown = format!("{command:?}");
    let started = command.stdin(Stdio::null()).stderr(log.try_clone()?).spawn();
    started.map_err(|error| format!("{shown}: {error}").into())
}

/// Returns a TCP port that no program of this machine uses now.
///
/// # Errors
///
/// No port can be bound.
pub(crate) fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

pub(crate) fn pause(time: Duration) {
    SystemClock::new().sleep(time);
}

/// Waits until `look` returns a value, at most as long as `limit`.
pub(crate) fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let clock = SystemClock::new();
    loop {
        let found = look();
        if found.is_some() || clock.now() > limit {
            return found;
        }
        clock.sleep(PAUSE);
    }
}

/// Sends a signal to a process that this program started.
pub(crate) fn signal(child: &Child, signal: Signal) -> Result<(), Failure> {
    let pid = pid(child.id()).ok_or("a process has a number above 0")?;
    kill_process(pid, signal).map_err(|error| format!("process {}: {error}", child.id()).into())
}

/// Kills a process and all its descendants. Returns when they are gone, or after ten seconds.
pub(crate) fn kill_all(number: u32) {
    let mut all = vec![number];
    let mut at = 0;
    while let Some(parent) = all.get(at).copied() {
        all.extend(children(parent));
        at += 1;
    }
    let pids: Vec<Pid> = all.into_iter().filter_map(pid).collect();
    for pid in &pids {
        // The process may have ended already.
        let _ = kill_process(*pid, Signal::KILL);
    }
    let is_alive = |pid: &Pid| test_kill_process(*pid).is_ok() && !is_zombie(*pid);
    let gone = || (!pids.iter().any(is_alive)).then_some(());
    let _ = wait_for(Duration::from_secs(10), gone);
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Whether the process has ended, but its parent has not read its exit status.
fn is_zombie(pid: Pid) -> bool {
    stat(pid.as_raw_nonzero().get().unsigned_abs()).is_some_and(|(state, _)| state == 'Z')
}

fn children(parent: u32) -> Vec<u32> {
    let numbers = processes().into_iter();
    numbers.filter(|number| stat(*number).is_some_and(|(_, its)| its == parent)).collect()
}

/// The ids of all processes of the machine.
pub(crate) fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The command line of a process, each word ended by a zero byte; empty if the process has ended.
pub(crate) fn command_line(number: u32) -> Vec<u8> {
    let mut line = Vec::new();
    let opened = fs::OpenOptions::new().read(true).open(format!("/proc/{number}/cmdline"));
    let _ = opened.and_then(|mut file| file.read_to_end(&mut line));
    line
}

/// The processor time of all threads of a process, in steps of ten milliseconds.
pub(crate) fn processor_time(number: u32) -> Option<Duration> {
    // Linux reports hundredths of a second to programs, whatever it uses itself.
    const TICK: Duration = Duration::from_millis(10);
    let fields = stat_fields(number)?;
    let ticks = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(TICK * ticks(11)?.checked_add(ticks(12)?)?)
}

/// State and parent of a process, from /proc.
fn stat(number: u32) -> Option<(char, u32)> {
    let fields = stat_fields(number)?;
    Some((fields.first()?.chars().next()?, fields.get(1)?.parse().ok()?))
}

/// The fields of a process in /proc after its name.
fn stat_fields(number: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let (_, after) = text.rsplit_once(") ")?;
    Some(after.split(' ').map(str::to_owned).collect())
}

/// Finds the first program of this name.
pub(crate) fn find(name: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.map(|folder| format!("{folder}/{name}")).find(|path| Path::new(path).is_file())
}
