//! `seawall disk flush`, `drain` and other verbs: requests over the server's control socket.

use super::control::request::Request;
use super::control::{read_line, say};
use super::service::spawn;
use crate::args::{DiskAsk, DiskName};
use crate::state::image;
use crate::state::place::CONTROL;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{bytes, typed};
use serde_json::{Value, json};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// The maximum size of an answer in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// Sends the request and prints how long it took.
pub(super) fn run(args: &DiskAsk, request: Request) -> Result<Exit, Failure> {
    let name = request.name();
    let mut answer = ask(&args.name, request, args.deadline)?;
    let took = answer.get("ms").and_then(Value::as_f64).unwrap_or_default();
    let is_late = args.deadline.is_some_and(|deadline| took > deadline.as_secs_f64() * 1000.0);
    let mut out = Output::lock();
    if args.look.json {
        if let (Value::Object(object), Some(_)) = (&mut answer, args.deadline) {
            object.insert("late".to_owned(), is_late.into());
        }
        out.json(&answer);
    }
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        let is_broken = answer.get("broken").and_then(Value::as_bool).unwrap_or_default();
        let is_broken = is_broken || request == Request::EmergencyFlush;
        let exit = if is_broken { Exit::Contract } else { Exit::Failed };
        let next = format!("seawall disk status {}", typed_name(&args.name));
        out.finish();
        return Err(Failure::new(exit, format!("the {name} failed: {error}"))
            .at(shown(&args.name))
            .next(next));
    }
    if !args.look.json && !args.look.quiet {
        let dumped = answer.get("bytes").and_then(Value::as_u64);
        let dumped = dumped.map(|dumped| format!(", {} dumped", bytes(dumped)));
        let disk = shown(&args.name);
        let time = answer.get("ms").map_or(String::new(), |_| format!(" in {took:.3} ms"));
        out.line(&format!("{disk}: {name}{time}{}", dumped.unwrap_or_default()));
    }
    let exit = out.finish();
    if request == Request::Arm && answer.get("state").and_then(Value::as_str) != Some("armed") {
        let next = format!("seawall disk status {}", typed_name(&args.name));
        let what = "the disk is not armed: every flush waits for the device";
        return Err(Failure::new(Exit::Failed, what).at(shown(&args.name)).next(next));
    }
    if is_late {
        let what = format!("the {name} took {took:.3} ms, longer than its deadline");
        return Err(missed(&args.name, &what));
    }
    Ok(exit)
}

/// Sends one request and waits for the answer, up to the deadline.
pub(super) fn ask(
    disk: &DiskName,
    request: Request,
    limit: Option<Duration>,
) -> Result<Value, Failure> {
    let path = folder(disk)?.join(CONTROL);
    let hung_up = || {
        let what = "the server closed the connection: it is stopping, or has too many clients";
        Failure::new(Exit::Failed, what).at(path.display()).next("try again")
    };
    let asked = || {
        let mut stream = connect(&path, limit)?;
        stream.set_read_timeout(limit)?;
        say(&mut stream, &json!({ "do": request.name() }))?;
        read_line(&stream, ANSWER_MAX)
    };
    let line = asked().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if request == Request::Status => {
            let what = "the server does not answer, and whether its data is safe is not known";
            let next = "check whether the process hangs, and its device";
            Failure::new(Exit::Failed, what).at(shown(disk)).next(next)
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let name = request.name();
            missed(disk, &format!("the {name} missed its deadline and continues"))
        }
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => hung_up(),
        _ => none_serves(disk, &error),
    })?;
    serde_json::from_slice(&line).map_err(|_| hung_up())
}

/// Connects within `limit`: a server that accepts no connection can let it wait for ever.
fn connect(path: &Path, limit: Option<Duration>) -> io::Result<UnixStream> {
    let Some(limit) = limit else { return UnixStream::connect(path) };
    let (path, (sender, connected)) = (path.to_owned(), mpsc::channel());
    spawn("connect", move || drop(sender.send(UnixStream::connect(path))))?;
    connected.recv_timeout(limit).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The state directory, which contains the server's socket.
fn folder(disk: &DiskName) -> Result<PathBuf, Failure> {
    match (&disk.image, &disk.state) {
        (Some(image), state) => image::state_of(image, state.as_deref()),
        (None, state) => Ok(state.clone().unwrap_or_default()),
    }
}

/// The name of a disk in messages.
fn shown(disk: &DiskName) -> String {
    let path = disk.image.as_ref().or(disk.state.as_ref());
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// The disk as typed on a command line.
fn typed_name(disk: &DiskName) -> String {
    let image = disk.image.as_ref().map(|image| typed(image));
    let state = disk.state.as_ref().map(|state| format!("--state {}", typed(state)));
    let parts: Vec<String> = image.into_iter().chain(state).collect();
    parts.join(" ")
}

/// Refuses a path that is not a disk.
fn check(disk: &DiskName) -> Result<(), Failure> {
    let at = |exit, what: &str| {
        Err(Failure::new(exit, what).at(shown(disk)).next("give the image of a running server"))
    };
    let path = disk.image.as_ref().filter(|image| !image::is_uri(image));
    match path.or(disk.state.as_ref()).map(|path| path.metadata()) {
        Some(Err(_)) => at(Exit::Failed, "no such disk image"),
        Some(Ok(status)) if status.is_dir() && path.is_some() => {
            at(Exit::Format, "not a disk image: a directory")
        }
        _ => Ok(()),
    }
}

fn missed(disk: &DiskName, what: &str) -> Failure {
    let next = "do not rely on this deadline: reduce --hold-up, or use a faster device";
    Failure::new(Exit::Contract, what).at(shown(disk)).next(next)
}

fn none_serves(disk: &DiskName, error: &io::Error) -> Failure {
    if let Err(failure) = check(disk) {
        return failure;
    }
    let (what, next) = match error.kind() {
        io::ErrorKind::PermissionDenied => (
            "only the owner of the server may use its socket".to_owned(),
            "run this as that user".to_owned(),
        ),
        io::ErrorKind::InvalidInput => {
            let next = "change to the parent directory, and give a shorter path".to_owned();
            (format!("the socket's path is too long: {error}"), next)
        }
        _ => {
            let next = format!("seawall disk serve {} --export nbd:unix:PATH", typed_name(disk));
            ("no server for this disk".to_owned(), next)
        }
    };
    Failure::new(Exit::Failed, what).at(shown(disk)).next(next)
}
