//! Signals to child processes.

use std::io;
use std::process::Child;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// A signal for a program. To kill it unconditionally, use
/// [`Child::kill`](std::process::Child::kill).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// SIGPWR: power is about to fail.
    Power,
    /// SIGTERM: terminate.
    End,
    /// SIGUSR1: defined by the program.
    User,
}

/// Sends a signal to a child. If the child has ended, nothing happens.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] for a signal that this system does not have; otherwise the
/// system's error.
///
/// # Examples
///
/// ```
/// use seawall_host::{Notice, send_signal};
/// use std::os::unix::process::ExitStatusExt;
/// use std::process::Command;
///
/// let mut child = Command::new("sleep").arg("60").spawn()?;
/// send_signal(&child, Notice::End)?;
/// assert_eq!(child.wait()?.signal(), Some(15));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn send_signal(child: &Child, notice: Notice) -> io::Result<()> {
    let signal = match notice {
        Notice::End => Signal::TERM,
        Notice::User => Signal::USR1,
        #[cfg(target_os = "linux")]
        Notice::Power => Signal::POWER,
        #[cfg(not(target_os = "linux"))]
        Notice::Power => return Err(io::ErrorKind::Unsupported.into()),
    };
    // The child has not been waited for, so its process id cannot belong to another process.
    match kill_process(Pid::from_child(child), signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
