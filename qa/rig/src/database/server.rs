//! The server process of a database: starts, kills and shuts it down.

use crate::disk::tail;
use crate::process::{Failure, kill_all, signal, start, wait_for};
use rustix::process::Signal;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take to answer; it may have to recover.
const READY: Duration = Duration::from_secs(60);
/// How long a server may take to shut down.
const ENDED: Duration = Duration::from_secs(60);

/// A process, or none; killed when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Server(Option<Child>);

impl Server {
    /// Starts the server and returns once it answers.
    pub(super) fn start(
        &mut self,
        command: &mut Command,
        log: &Path,
        answers: impl Fn() -> bool,
    ) -> Result<(), Failure> {
        let mut child = start(command.stdout(Stdio::null()), log)?;
        let is_up = || match child.try_wait() {
            Ok(None) => answers().then_some(true),
            Ok(Some(_)) | Err(_) => Some(false),
        };
        let is_up = wait_for(READY, is_up) == Some(true);
        self.0 = Some(child);
        if is_up {
            return Ok(());
        }
        self.kill();
        Err(format!("the database does not start:\n{}", tail(log)).into())
    }

    /// Kills the server, and all processes that it started, with SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            kill_all(child.id());
            let _ = child.wait();
        }
    }

    /// Sends the signal that shuts the server down, and waits for its end.
    pub(super) fn stop(&mut self, how: Signal) -> Result<(), Failure> {
        let Some(child) = &mut self.0 else { return Ok(()) };
        signal(child, how)?;
        let ended = wait_for(ENDED, || child.try_wait().ok().flatten());
        self.kill();
        ended.map(drop).ok_or_else(|| "the database does not shut down".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
