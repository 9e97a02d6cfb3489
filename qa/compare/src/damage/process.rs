//! Runs a step in a separate process, and reports how it ended.

use crate::args::Act;
use crate::payload::Delivered;
use crate::peer::{Done, Kind};
use crate::tell;
use seawall_io::{Clock, SystemClock};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A step that takes longer counts as hung.
const TIME_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);
/// The exit code of a step that returned an error.
const FAILED: i32 = 1;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    /// The log returned an error.
    Failed,
    /// A panic, or a signal.
    Crashed,
    /// The process was killed after the time limit.
    Hung,
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) end: End,
    /// The records that a reading step delivered.
    pub(super) delivered: Delivered,
}

/// Runs a step of `kind` in the current folder `home`, because some logs write there.
pub(super) fn run(act: Act, kind: &Kind, home: &Path) -> Done<Ran> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["step", act.name(), "--peer", &tell::key(kind)])
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let end = match wait(&mut child)? {
        None => End::Hung,
        Some(status) if status.success() => End::Done,
        Some(status) if status.code() == Some(FAILED) => End::Failed,
        Some(_) => End::Crashed,
    };
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut text)?;
    }
    Ok(Ran { end, delivered: Delivered::parse(text.lines().last().unwrap_or_default()) })
}

/// Waits for the process; `None` if it had to be killed.
fn wait(child: &mut Child) -> Done<Option<ExitStatus>> {
    let clock = SystemClock::new();
    while clock.now() < TIME_MAX {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        clock.sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
