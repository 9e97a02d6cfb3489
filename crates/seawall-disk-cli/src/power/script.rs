//! Runs a command repeatedly, for a limited time each.

use seawall_io::{Clock, SystemClock};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How often to look whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A command for `sh -c`, and its last run if that took too long.
#[derive(Debug)]
pub(super) struct Script {
    command: String,
    late: Option<Late>,
    /// Kills a group of processes; tests replace it.
    kill: fn(u32) -> io::Result<()>,
}

/// A run that took too long.
#[derive(Debug)]
struct Late {
    shell: Child,
    /// Whether the shell was waited for. Another group can have its number from then on.
    is_reaped: bool,
}

impl Script {
    pub(super) fn new(command: &str) -> Self {
        Self { command: command.to_owned(), late: None, kill: seawall_host::kill_group }
    }

    /// Runs the command and returns its exit code.
    ///
    /// A run that takes longer than `limit` is killed, and not waited for: it may have the rights
    /// of another user, or wait for a device. Until it has ended, no other is started.
    pub(super) fn run(&mut self, limit: Duration) -> Result<i32, String> {
        let said = |error: io::Error| error.to_string();
        if self.is_late() {
            return Err("an earlier run of the command cannot be ended".to_owned());
        }
        let mut child = start(&self.command).map_err(said)?;
        let clock = SystemClock::new();
        let end = clock.now() + limit;
        loop {
            match child.try_wait().map_err(said)?.map(|status| status.code()) {
                Some(Some(code)) => return Ok(code),
                Some(None) => return Err("a signal ended the command".to_owned()),
                None if clock.now() > end => {
                    // The command may have ended by now.
                    let _ = (self.kill)(child.id());
                    self.late = Some(Late { shell: child, is_reaped: false });
                    return Err(format!("the command runs longer than {} ms", limit.as_millis()));
                }
                None => clock.sleep(LOOK_EVERY),
            }
        }
    }

    /// Whether a run that took too long has not ended, with all that it started.
    fn is_late(&mut self) -> bool {
        let is_late = self.late.as_mut().is_some_and(|late| !late.has_ended(self.kill));
        if !is_late {
            self.late = None;
        }
        is_late
    }
}

impl Late {
    /// Returns whether nothing of the run goes on. What has ended, and nothing waits for, is no
    /// obstacle.
    fn has_ended(&mut self, kill: fn(u32) -> io::Result<()>) -> bool {
        let group = self.shell.id();
        if !self.is_reaped {
            // It may have become possible: a program can give up its rights.
            let _ = kill(group);
            if seawall_host::is_group_running(group) == Some(true) {
                return false;
            }
            self.is_reaped = !matches!(self.shell.try_wait(), Ok(None));
            seawall_host::reap_group(group);
        }
        let is_left = || match seawall_host::is_group_running(group) {
            Some(is_running) => is_running,
            None => seawall_host::is_group_foreign(group),
        };
        self.is_reaped && !is_left()
    }
}

/// Starts a command in a group of its own: the processes that it starts are killed with it.
fn start(command: &str) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.process_group(0);
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any command here takes, on any machine.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn nothing_is_left_of_a_command_that_takes_too_long() {
        // Killing only the outer shell would leave the inner one running.
        let marker = format!("sleep 98.{}", std::process::id());
        let mut script = Script::new(&format!("({marker}; true); true"));
        script.run(Duration::from_millis(200)).unwrap_err();
        let is_left = || {
            let left = Command::new("pgrep").args(["-f", &format!("^{marker}")]).output();
            left.is_ok_and(|left| !left.stdout.is_empty())
        };
        let clock = SystemClock::new();
        while is_left() {
            assert!(clock.now() < PATIENCE, "it is left");
            clock.sleep(LOOK_EVERY);
        }
    }

    /// As if the command had the rights of another user.
    #[test]
    fn command_that_cannot_be_killed_is_neither_waited_for_nor_started_again() {
        let denied = |_| Err(io::ErrorKind::PermissionDenied.into());
        let mut script = Script { kill: denied, ..Script::new("exec sleep 15") };
        let slow = script.run(Duration::from_millis(30));
        assert_eq!(slow, Err("the command runs longer than 30 ms".to_owned()));
        let first =
            script.late.as_mut().map(|late| (late.shell.id(), late.shell.try_wait().unwrap()));
        assert!(matches!(first, Some((_, None))), "it was waited for: {first:?}");
        // This run would say that the power source is healthy.
        "exit 0".clone_into(&mut script.command);
        let earlier = Err("an earlier run of the command cannot be ended".to_owned());
        assert_eq!(script.run(PATIENCE), earlier);
        assert_eq!(script.late.as_ref().map(|late| (late.shell.id(), None)), first, "another one");
        script.kill = seawall_host::kill_group;
        let clock = SystemClock::new();
        while script.run(PATIENCE) == earlier {
            assert!(clock.now() < PATIENCE, "it was not killed");
            clock.sleep(LOOK_EVERY);
        }
        assert!(script.late.is_none());
        assert_eq!(script.run(PATIENCE), Ok(0));
    }

    /// As if a process that the command has started waited for a device.
    #[test]
    #[cfg(target_os = "linux")]
    fn command_is_not_started_again_while_a_process_of_it_cannot_be_killed() {
        let only_the_shell = |shell: u32| {
            let killed = Command::new("kill").args(["-KILL", &shell.to_string()]).status()?;
            killed.success().then_some(()).ok_or_else(|| io::ErrorKind::Other.into())
        };
        let mut script = Script { kill: only_the_shell, ..Script::new("sleep 15 & exec sleep 16") };
        // Long enough for the shell to start the other process.
        script.run(Duration::from_secs(2)).unwrap_err();
        // These runs would say that the power source is healthy.
        "exit 0".clone_into(&mut script.command);
        let earlier = Err("an earlier run of the command cannot be ended".to_owned());
        let clock = SystemClock::new();
        for _ in 0..20 {
            assert_eq!(script.run(PATIENCE), earlier);
            clock.sleep(LOOK_EVERY);
        }
        script.kill = seawall_host::kill_group;
        while script.run(PATIENCE) == earlier {
            assert!(clock.now() < PATIENCE, "it was not killed");
            clock.sleep(LOOK_EVERY);
        }
        assert_eq!(script.run(PATIENCE), Ok(0));
    }
}
