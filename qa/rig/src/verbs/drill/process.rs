//! Child processes of a drill: servers, and this program as a device or client.

use crate::process::{Failure, signal};
use rustix::process::Signal;
use seawall_host::{Notice, send_signal};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// How long a process may take to be ready, or to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of standard error that are kept.
const SAID_MAX: u64 = 64 * 1024;

/// A child process, killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Its standard output, line by line.
    pub(super) lines: mpsc::Receiver<String>,
    said: Arc<Mutex<String>>,
}

impl Process {
    pub(super) fn start(program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::of(command)
    }

    pub(super) fn of(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null());
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

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(|error| self.failure(&error.to_string()))
    }

    pub(super) fn wait(&mut self) -> Result<(), Failure> {
        let ended = self.child.wait();
        ended.map(drop).map_err(|error| self.failure(&error.to_string()))
    }

    pub(super) fn signal(&self, notice: Notice) -> Result<(), Failure> {
        let sent = send_signal(&self.child, notice);
        sent.map_err(|error| self.failure(&format!("cannot send it a signal: {error}")))
    }

    /// Suspends the process with SIGSTOP, or resumes it with SIGCONT.
    pub(super) fn pause(&self, is_paused: bool) -> Result<(), Failure> {
        signal(&self.child, if is_paused { Signal::STOP } else { Signal::CONT })
    }

    /// Describes whether and how the process has ended.
    pub(super) fn ending(&mut self) -> String {
        match self.child.try_wait() {
            Ok(None) => "it is running".to_owned(),
            Ok(Some(status)) => format!("it has ended: {status}"),
            Err(error) => error.to_string(),
        }
    }

    /// An error with everything that the process wrote to standard error.
    pub(super) fn failure(&self, what: &str) -> Failure {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let next = if said.is_empty() { "it said nothing" } else { said.trim_end_matches("; ") };
        format!("{what}: {next}").into()
    }

    /// Reads the next line of output, which is JSON.
    pub(super) fn answer(&self, what: &str) -> Result<Value, Failure> {
        let line = self.lines.recv_timeout(PATIENCE).map_err(|_| self.failure(what))?;
        serde_json::from_str(&line).map_err(|_| self.failure(what))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.kill();
    }
}

pub(super) fn start(what: &str, program: &Path, words: &[OsString]) -> Result<Process, Failure> {
    let process = Process::start(program, words);
    let process = process.map_err(|error| format!("cannot start {what}: {error}"))?;
    // The first line reports that the process is ready.
    process.answer(&format!("{what} does not get ready"))?;
    Ok(process)
}

/// Starts a device in this folder, with the socket `d`; its export `home` has `size` bytes.
pub(crate) fn start_device(
    folder: &Path,
    size: u64,
    (delay, seed): (Duration, u64),
) -> Result<Process, Failure> {
    let path = |name| folder.join(name).into_os_string();
    let delay = format!("{}", delay.as_secs_f64() * 1000.0);
    let mut arguments = words("device --json --size");
    arguments.extend([size.to_string().into(), "--delay".into(), delay.into()]);
    arguments.extend(["--seed".into(), seed.to_string().into()]);
    arguments.extend(["--unix".into(), path("d"), path("img")]);
    start("the device", &std::env::current_exe()?, &arguments)
}

pub(super) fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}
