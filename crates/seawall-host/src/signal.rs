//! Signals to a process that this one has started.

use std::io;
use std::process::Child;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// What a program is told by a signal. The end that it cannot refuse is [`Child::kill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// SIGPWR: the power is about to fail.
    Power,
    /// SIGTERM: end.
    End,
    /// SIGUSR1: whatever the program says that it means.
    User,
}

/// Sends a signal to a child; one that has ended already is not told.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] for a signal that this system does not have; whatever it says.
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
    // It is not waited for yet, or this would be impossible: so its number is its own.
    match kill_process(Pid::from_child(child), signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
