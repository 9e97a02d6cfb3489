//! `seawall disk status`: the state of a running disk.

use super::ask::ask;
use super::control::request::Request;
use super::metrics::render;
use crate::args::DiskStatus;
use seawall_io::{Clock, SystemClock};
use seawall_output::color::Tone;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{bytes, count};
use serde_json::Value;
use std::time::Duration;

/// How long the server may take: a check must not hang with it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two updates.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints the state. The exit code is 10 if acknowledged data may be lost.
pub(super) fn run(args: &DiskStatus) -> Result<Exit, Failure> {
    let mut out = Output::lock();
    loop {
        let answer = ask(&args.name, Request::Status, Some(PATIENCE))?;
        let is_broken = answer.get("broken").and_then(Value::as_bool).unwrap_or(true);
        let exit = if is_broken { Exit::Contract } else { Exit::Fine };
        if args.prometheus {
            out.lines(&render(&answer).lines().collect::<Vec<_>>());
        } else if args.look.json {
            out.json(&answer);
        } else {
            tell(&mut out, &answer, exit);
        }
        out.flush();
        if !args.watch || !out.is_open() {
            return Ok(exit.worse(out.finish()));
        }
        SystemClock::new().sleep(PAUSE);
    }
}

fn tell(out: &mut Output, answer: &Value, exit: Exit) {
    let text = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name| answer.get(name).and_then(Value::as_u64).unwrap_or_default();
    let counted = |name: &str| answer.pointer(&format!("/counts/{name}")).and_then(Value::as_u64);
    let state = text("state");
    let tone = match (exit, state) {
        (Exit::Fine, "armed" | "write-through") => Tone::Good,
        (Exit::Fine, _) => Tone::Doubtful,
        _ => Tone::Bad,
    };
    let head = format!("{}   {state}", text("image"));
    out.headline(&head, (state, tone), &format!("exit {}", exit.code()));
    out.line(&format!("  {}", text("says")));
    let line = |name: &str, value: String| format!("  {name:<12}{value}");
    let clients = count(number("connections"), "client");
    out.line(&line(
        "served",
        format!("{} at {}, {clients}", bytes(number("bytes")), text("ready")),
    ));
    let (dirty, most) = (bytes(number("dirty")), bytes(number("dirty_max")));
    out.line(&line("dirty", format!("{dirty} not on the device, {most} at most")));
    let of = |name: &str| counted(name).unwrap_or_default();
    let writes = format!("{}, {} had to wait", count(of("writes"), "write"), of("deferred"));
    out.line(&line("taken in", writes));
    let [early, waited, idle] =
        ["early", "waited", "idle"].map(|how| of(&format!("flushes_{how}")));
    let flushes = format!("{early} early, {waited} waited, {idle} with nothing to do");
    out.line(&line("flushes", flushes));
    let (drained, synced) = (bytes(of("drained_bytes")), count(of("device_flushes"), "sync"));
    let device = format!("{drained} in {synced}, {}", failures(of("failures")));
    out.line(&line("device", device));
    if let Some(power) = power(answer) {
        out.line(&line("power", power));
    }
    if let Some(monitor) = answer.pointer("/supply/monitor").and_then(Value::as_str) {
        out.line(&line("source", monitor.to_owned()));
    }
    out.line(&line("memory", memory(answer)));
    for name in ["server", "keeper"] {
        if let Some(confined) = confined(answer, name) {
            out.line(&line(name, confined));
        }
    }
    if answer.get("lost") == Some(&Value::Bool(true)) {
        out.line(&line("opened", "flushed data of the last server may be LOST".to_owned()));
    }
    if let Some(lost) = answer.pointer("/recovered/lost").and_then(Value::as_u64) {
        let runs = answer.pointer("/recovered/runs").and_then(Value::as_u64).unwrap_or_default();
        let found = format!("a dump was found: {} restored, {lost} LOST", count(runs, "run"));
        let found = if lost == 0 { found.replace(", 0 LOST", "") } else { found };
        out.line(&line("opened", found));
    }
}

/// The user and sandbox of a process.
fn confined(answer: &Value, process: &str) -> Option<String> {
    let text = |name| answer.pointer(&format!("/{process}/{name}")).and_then(Value::as_str);
    let (user, landlock, seccomp) = (text("user")?, text("landlock")?, text("seccomp")?);
    Some(format!("user {user}, landlock {landlock}, seccomp {seccomp}"))
}

fn failures(number: u64) -> String {
    if number == 0 { "no failure".to_owned() } else { count(number, "failure") }
}

fn memory(answer: &Value) -> String {
    let locked = match answer.get("memory_why").and_then(Value::as_str) {
        Some(why) => format!("NOT locked: {why}"),
        None => "locked".to_owned(),
    };
    let kept = match answer.get("kept_why").and_then(Value::as_str) {
        Some(why) => format!("NOT kept: {why}"),
        None => "kept".to_owned(),
    };
    match answer.get("oom_score_adj").and_then(Value::as_i64) {
        Some(score) => format!("{locked}, {kept}; oom_score_adj {score}"),
        None => format!("{locked}, {kept}"),
    }
}

/// The basis for early flushes; `None` if the device was not measured.
fn power(answer: &Value) -> Option<String> {
    let millis = |pointer| answer.pointer(pointer).and_then(Value::as_f64);
    let (hold_up, worst) = (millis("/supply/hold_up_ms")?, millis("/calibration/flush_worst_ms")?);
    let margin = millis("/calibration/margin_ms")?;
    Some(format!("{hold_up} ms of hold-up, worst flush {worst:.3} ms, margin {margin:.3} ms"))
}
