//! Reports the server's state to systemd, or to another listener at `NOTIFY_SOCKET`.

use super::service::{Service, spawn};
use seawall_io::{Clock, SystemClock};
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

/// The maximum length of a status in characters: a longer datagram would not arrive.
const STATUS_MAX: usize = 500;
/// Variables that a program started by `--run` must not inherit.
pub(super) const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// Sends notifications. A listener is optional, and slow listeners are never waited for.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: Option<UnixDatagram>,
    /// The timeout of the watchdog, if there is one.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads the environment.
    pub(super) fn from_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(|name| connect(&name));
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_ours && *micros > 0);
        Self { socket, watchdog: watchdog.map(Duration::from_micros) }
    }

    /// Reports that the disk is ready, with this status.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// Reports a new status.
    pub(super) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// Reports that the server is stopping.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining");
    }

    /// Notifies the watchdog in time as long as the disk responds.
    pub(super) fn keep_alive(self: &Arc<Self>, service: &Arc<Service>) -> std::io::Result<()> {
        let Some(watchdog) = self.watchdog else { return Ok(()) };
        let pause = (watchdog / 3).max(Duration::from_millis(1));
        let (notifier, service) = (self.clone(), service.clone());
        let signs = move || {
            loop {
                // Takes the lock that all writers take, so a disk that hangs sends no notification.
                let _ = service.disk.status();
                notifier.send("WATCHDOG=1");
                SystemClock::new().sleep(pause);
            }
        };
        spawn("watchdog", signs)
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // A listener that is missing or slow loses the message.
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// Connects to a path, or after `@` to a name in Linux's abstract namespace.
fn connect(name: &OsStr) -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    match name.as_bytes() {
        [b'/', ..] => socket.connect(name).ok()?,
        [b'@', name @ ..] => connect_abstract(&socket, name)?,
        _ => return None,
    }
    Some(socket)
}

#[cfg(target_os = "linux")]
fn connect_abstract(socket: &UnixDatagram, name: &[u8]) -> Option<()> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
    socket.connect_addr(&address).ok()
}

#[cfg(not(target_os = "linux"))]
fn connect_abstract(_: &UnixDatagram, _: &[u8]) -> Option<()> {
    None
}

/// Reduces a status to one line: another line would be another message.
fn line(status: &str) -> String {
    let clean = |letter: char| if letter.is_control() { ' ' } else { letter };
    status.chars().take(STATUS_MAX).map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_one_short_line() {
        assert_eq!(line("fine\nREADY=1\0"), "fine READY=1 ");
        assert_eq!(line(&"\u{e4}".repeat(9999)).chars().count(), STATUS_MAX);
    }

    #[test]
    fn invalid_notify_socket_is_ignored() {
        for name in ["", "@", "relative", "/there/is/none", "vsock:2:1"] {
            assert!(connect(OsStr::new(name)).is_none(), "{name}");
        }
    }
}
