//! The state of a disk as Prometheus metrics, for `status --prometheus` and over HTTP.

use super::control::request::Request;
use super::service::{Service, spawn};
use crate::args::Metrics;
use seawall_host::{folder_and_name, is_socket};
use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use seawall_output::prometheus::MetricList;
use seawall_output::report::{Exit, Failure};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The maximum size of a request in bytes.
const REQUEST_MAX: usize = 8192;
/// The time limit for one request; requests are answered one after another.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after a failed accept: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// The metrics of a disk.
const METRICS: MetricList = MetricList {
    prefix: "seawall_disk",
    label: ("image", "/image"),
    lines: include_str!("metrics.txt"),
};

/// Formats the answer of `status` for Prometheus.
pub(super) fn render(status: &Value) -> String {
    METRICS.render(status)
}

/// The listening socket.
#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Listens. Connections are accepted later.
pub(super) fn listen(place: &Metrics) -> Result<Listener, Failure> {
    let listener = match place {
        Metrics::Unix(path) => bind(path).map(Listener::Unix),
        Metrics::Tcp(port) => TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map(Listener::Tcp),
    };
    listener.map_err(|error: io::Error| {
        let failure = Failure::new(Exit::Failed, format!("cannot listen: {error}"));
        let next = "give --metrics a path or a port that is free";
        match place {
            Metrics::Unix(path) => failure.at(path.display()),
            Metrics::Tcp(port) => failure.at(format!("127.0.0.1:{port}")),
        }
        .next(next)
    })
}

/// Answers HTTP requests until the process ends.
pub(super) fn serve(listener: Listener, service: &Arc<Service>) -> io::Result<()> {
    let service = service.clone();
    spawn("metrics", move || answer_all(&listener, &service))
}

/// Listens on a Unix socket. Replaces the socket of a dead server, but no other file.
fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let refused = UnixStream::connect(path).err().map(|error| error.kind());
            // Connecting to a regular file is refused, too.
            if refused != Some(io::ErrorKind::ConnectionRefused) || !is_socket(path)? {
                return Err(error);
            }
        }
        other => return other,
    }
    let (folder, name) = folder_and_name(path).ok_or(io::ErrorKind::InvalidFilename)?;
    PosixStorage::open(folder)?.remove(name)?;
    UnixListener::bind(path)
}

fn answer_all(listener: &Listener, service: &Service) {
    loop {
        // The client is gone: no error can be reported.
        let accepted = match listener {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| {
                let _ = answer(stream, UnixStream::set_read_timeout, service);
            }),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| {
                let _ = answer(stream, TcpStream::set_read_timeout, service);
            }),
        };
        if accepted.is_err() {
            SystemClock::new().sleep(PAUSE);
        }
    }
}

/// Reads a request, and answers it.
fn answer<S: Read + Write>(
    mut stream: S,
    limit: fn(&S, Option<Duration>) -> io::Result<()>,
    service: &Service,
) -> io::Result<()> {
    let clock = SystemClock::new();
    let end = clock.now() + PATIENCE;
    let mut request = Vec::new();
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = end.saturating_sub(clock.now());
        if left.is_zero() || request.len() > REQUEST_MAX {
            return Ok(());
        }
        limit(&stream, Some(left))?;
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
            return Ok(());
        };
        request.extend_from_slice(bytes);
    }
    stream.write_all(&response(&request, || render(&service.answer(Request::Status))))
}

/// The response to a request. `/metrics` and `/` return the same page.
fn response(request: &[u8], page: impl FnOnce() -> String) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (code, kind, body) = match (words.next(), words.next()) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics" | b"/")) => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", page())
        }
        (Some(b"GET" | b"HEAD"), _) => {
            ("404 Not Found", "text/plain", "there is /metrics\n".to_owned())
        }
        _ => ("405 Method Not Allowed", "text/plain", "GET it\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.0 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let is_head = line.starts_with(b"HEAD ");
    let body = if is_head { String::new() } else { body };
    [head.into_bytes(), body.into_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_metrics_page_is_served() {
        let said = |request: &[u8]| {
            let answer = response(request, || "page\n".to_owned());
            String::from_utf8(answer).unwrap()
        };
        let page = said(b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.0 200 OK\r\n") && page.ends_with("\r\n\r\npage\n"));
        assert!(page.contains("Content-Length: 5\r\n"));
        assert!(said(b"HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(said(b"GET /etc HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 404 "));
        for wrong in [&b"POST / HTTP/1.1\r\n\r\n"[..], b"\r\n\r\n", b"\xff", b""] {
            assert!(said(wrong).starts_with("HTTP/1.0 405 "));
        }
    }
}
