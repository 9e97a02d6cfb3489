//! Threads that commit at the same time and share the device's syncs: group commit.
//!
//! `committers LOG THREADS RECORDS [json]` deals the records out to the threads and prints a line
//! "LSN thread record" for each one once it is durable. What is refused is said on standard error
//! and tried again, for ever: that a disk is full passes. If writing ended, this ends with 1. With
//! `json` a new log is a readable one.

#![forbid(unsafe_code)]

use seawall::format::CodecId;
use seawall::recovery::Failover;
use seawall::{Error, Layout, Log, Lsn, Options, Raw};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// How long a thread leaves the log alone after a refusal.
const REST: Duration = Duration::from_millis(20);

/// Which records are appended, and how.
#[derive(Clone, Copy)]
struct Work {
    threads: u64,
    records: u64,
    is_json: bool,
}

fn main() -> ExitCode {
    let Some((log, work)) = arguments() else {
        say("usage: committers LOG THREADS RECORDS [json]");
        return ExitCode::from(2);
    };
    match run(log, work) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("committers: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<(PathBuf, Work)> {
    let mut given = std::env::args_os().skip(1);
    let log = PathBuf::from(given.next()?);
    let mut number = || given.next()?.to_str()?.parse().ok().filter(|number| *number > 0);
    let (threads, records) = (number()?, number()?);
    let is_json = given.next().is_some_and(|last| last == "json");
    Some((log, Work { threads, records, is_json }))
}

/// Whether every record was acknowledged.
fn run(path: PathBuf, work: Work) -> seawall::Result<bool> {
    let mut options = Options::new().segment_size(4 << 20).on_failover(tell);
    if work.is_json {
        options = options.codec(CodecId::Json).layout(Layout::Text);
    }
    // One handle for all of them: an append waits in its thread, and threads that wait at the same
    // time wait for the same sync.
    let log: Log<[u8], Raw> = options.open(path)?;
    let all_went_well = thread::scope(|scope| {
        let log = &log;
        let start = |thread| scope.spawn(move || commit(log, thread, work));
        let running: Vec<_> = (1..=work.threads).map(start).collect();
        let mut well = running.into_iter().map(|thread| thread.join().is_ok_and(|well| well));
        // The scope waits for the others, whatever one of them says.
        well.all(|well| well)
    });
    log.close()?;
    Ok(all_went_well)
}

/// Appends each record that is this thread's; whether all of them were acknowledged.
fn commit(log: &Log<[u8], Raw>, thread: u64, work: Work) -> bool {
    let step = usize::try_from(work.threads).unwrap_or(usize::MAX);
    (thread..=work.records).step_by(step).all(|number| {
        match insist(log, &work.record(thread, number)) {
            Ok(lsn) => writeln!(io::stdout(), "{lsn} {thread} {number}").is_ok(),
            Err(error) => {
                say(&format!("thread {thread} ended at record {number}: {error}"));
                false
            }
        }
    })
}

/// A refused record has no number and the log is as it was: only then may it be tried again.
fn insist(log: &Log<[u8], Raw>, record: &[u8]) -> seawall::Result<Lsn> {
    loop {
        match log.append(record) {
            Err(error @ (Error::DiskFull { .. } | Error::Io { .. })) => {
                say(&format!("refused: {error}"));
                thread::park_timeout(REST);
            }
            done => return done,
        }
    }
}

impl Work {
    /// A text that names its writer, and whose length follows from its number.
    fn record(self, thread: u64, number: u64) -> Vec<u8> {
        let padding = usize::try_from(50 + number * 37 % 24_000).unwrap_or(50);
        let text = format!("thread {thread} record {number} {:0padding$}", 0);
        if self.is_json { format!("\"{text}\"").into_bytes() } else { text.into_bytes() }
    }
}

fn tell(failover: &Failover) {
    say(&format!("{}; went on in segment {}", failover.cause, failover.segment));
}

fn say(text: &str) {
    // Nobody may be left to read it.
    let _ = writeln!(io::stderr(), "{text}");
}
