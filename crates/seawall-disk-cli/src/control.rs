//! The control socket: one request and one answer per connection, each a line of JSON.

pub(super) mod request;

use super::answers::Outcome;
use super::service::{Service, spawn};
use request::Request;
use seawall_io::{Clock, SystemClock};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The maximum size of a request in bytes.
const REQUEST_MAX: u64 = 4096;
/// How long a client may take to send a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of clients at a time; others are disconnected.
const ASKERS_MAX: usize = 64;
/// The pause after a failed accept: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a server stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// A signal.
    Signal,
    /// A client requested it and waits for the result.
    Asked(UnixStream),
    /// The program started by `--run` has ended.
    Child(io::Result<std::process::ExitStatus>),
}

/// Listens on a socket that only its owner can use.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers requests until the process ends.
pub(super) fn answer_all(
    listener: &UnixListener,
    service: &Arc<Service>,
    stops: &mpsc::Sender<Stop>,
) {
    let askers = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            SystemClock::new().sleep(PAUSE);
            continue;
        };
        if askers.fetch_add(1, Ordering::SeqCst) >= ASKERS_MAX {
            askers.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (service, stops, its) = (service.clone(), stops.clone(), askers.clone());
        let spawned = spawn("control", move || {
            // The client is gone: no error can be reported.
            let _ = answer_one(stream, &service, &stops);
            its.fetch_sub(1, Ordering::SeqCst);
        });
        if spawned.is_err() {
            askers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn answer_one(
    mut stream: UnixStream,
    service: &Service,
    stops: &mpsc::Sender<Stop>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let line = read_line(&stream, REQUEST_MAX)?;
    match Request::read(&line) {
        Ok(Request::Stop) => {
            // A missing receiver means that the server is already stopping.
            let _ = stops.send(Stop::Asked(stream));
            Ok(())
        }
        Ok(request) => say(&mut stream, &service.answer(request)),
        Err(why) => say(&mut stream, &Outcome::failed(why)),
    }
}

/// Writes one line.
pub(super) fn say(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(value)?;
    stream.write_all(format!("{line}\n").as_bytes())
}

/// Reads the first line, up to `max` bytes.
pub(super) fn read_line(stream: &UnixStream, max: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    io::BufRead::read_until(&mut io::BufReader::new(stream.take(max)), b'\n', &mut line)?;
    Ok(line)
}
