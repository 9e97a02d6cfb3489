//! The workload: a few lives of one log that make every system call a log can make. It runs in its
//! own process and prints, line by line, what it does and what was acknowledged.
//!
//! `witness.rs` describes the lines.

use super::config::{Config, content, keys, number};
use seawall::encryption::{Key, Padding};
use seawall::format::Geometry;
use seawall::parity::Parity;
use seawall::{Error, Json, Layout, Level, Log, LogReader, Lsn, Maintenance, Options, Ticket};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

type Work = Log<Value, Json>;

/// Exit code: every operation succeeded.
const WENT_ON: u8 = 0;
/// Exit code: an operation failed; the others were done.
const REFUSED: u8 = 3;

/// Number of records in the first life, over all threads. Enough of them are large to fill two
/// segments.
const RECORDS: u64 = 24;

/// Runs the workload in `folder`, which exists and is empty.
pub(super) fn run(folder: &Path, config: Config) -> ExitCode {
    let log = folder.join("log");
    let mut refused = false;
    let lives: &[Life] = match config {
        Config { stream: true, .. } => &[stream, look],
        _ if config.is_encrypted() => &[cut, buffer, rekey, look],
        _ => &[fill, cut, buffer, reuse, look],
    };
    for (life, live) in (1..).zip(lives) {
        if let Err(error) = live(&Scene { folder, log: &log, config, life }) {
            say(&format!("error life {life}: {error}"));
            refused = true;
        }
    }
    say("done");
    ExitCode::from(if refused { REFUSED } else { WENT_ON })
}

type Life = fn(&Scene<'_>) -> seawall::Result<()>;

/// The parameters of a life.
#[derive(Clone, Copy)]
struct Scene<'a> {
    folder: &'a Path,
    log: &'a Path,
    config: Config,
    life: u64,
}

impl Scene<'_> {
    fn open(&self, level: Level) -> seawall::Result<Work> {
        let layout = if self.config.readable { Layout::Text } else { Layout::Binary };
        let mut options = Options::new().geometry(Geometry::DEFAULT, SEGMENT).segment_size(SEGMENT);
        if self.config.stream {
            // Every batch makes a stream, and a segment has space for four of the largest batches.
            let geometry = Geometry { batch_max: 128 << 10, ..Geometry::DEFAULT };
            options = options.geometry(geometry, 2 * SEGMENT).segment_size(2 * SEGMENT);
            options = options.writes_in_flight(3).stream_batch(1, 1);
        }
        let mut options = options.layout(layout).idle_mark(Some(IDLE)).on_failover(|failover| {
            say(&format!("failover {}: {}", failover.segment, failover.cause));
        });
        let parity = self.config.parity.then_some(Parity::DEFAULT);
        if self.config.is_encrypted() {
            let [first, _] = keys();
            options = options.key(first).encrypt(Padding::Off);
        }
        let log = options.level(level).parity(parity).open(self.log)?;
        say("opened");
        Ok(log)
    }

    /// Appends `count` records in each thread; returns an error unless all were acknowledged.
    fn append(&self, log: &Work, count: u64) -> seawall::Result<()> {
        say("appending");
        let commit = |thread| self.commit(log, thread, count);
        let ended = thread::scope(|scope| {
            let mut running = vec![];
            let mut ended = vec![];
            for thread in 1..self.config.threads {
                let name = format!("committer-{thread}");
                let start = thread::Builder::new().name(name);
                match start.spawn_scoped(scope, move || commit(thread)) {
                    Ok(started) => running.push(started),
                    // A failure to start a thread is a fault of this program, not of the log.
                    Err(_) => ended.push(commit(thread)),
                }
            }
            ended.push(commit(0));
            for thread in running {
                ended.push(thread.join().expect("a committer does not panic"));
            }
            ended
        });
        say("appended");
        ended.into_iter().collect()
    }

    fn commit(&self, log: &Work, thread: u64, count: u64) -> seawall::Result<()> {
        let mut outcome = Ok(());
        for index in 0..count {
            let n = number(self.life, thread, index);
            say(&format!("try {n}"));
            match log.append(&content(n)) {
                Ok(lsn) => say(&format!("ack {lsn} {n} {}", word(log.level()))),
                Err(error) => {
                    let may_go_on = refuse(n, &error);
                    outcome = Err(error);
                    if !may_go_on {
                        break;
                    }
                }
            }
        }
        outcome
    }

    /// Appends one record that belongs to the thread `ALONE`.
    fn append_one(&self, log: &Work, index: u64) -> seawall::Result<Lsn> {
        let n = number(self.life, ALONE, index);
        say(&format!("try {n}"));
        match log.append(&content(n)) {
            Ok(lsn) => {
                say(&format!("ack {lsn} {n} {}", word(log.level())));
                Ok(lsn)
            }
            Err(error) => {
                refuse(n, &error);
                Err(error)
            }
        }
    }

    /// Appends an atomic set of three records.
    fn append_set(&self, log: &Work, index: u64) -> seawall::Result<()> {
        let numbers = [0, 1, 2].map(|more| number(self.life, ALONE, index + more));
        let set = numbers.map(content);
        say(&format!("set {} {}", numbers[0], numbers[2]));
        let lsns = log.append_batch(&set)?;
        for (lsn, n) in (lsns.start().get()..).zip(numbers) {
            say(&format!("ack {lsn} {n} {}", word(log.level())));
        }
        Ok(())
    }
}

/// The thread number of records that are not appended in parallel.
const ALONE: u64 = 99;

/// The size of a segment, in bytes. It is below the minimum for users, because each segment is
/// filled with zeros thousands of times.
const SEGMENT: u64 = 256 << 10;

/// The idle time before a mark, so short that one is written while the workload waits.
const IDLE: Duration = Duration::from_millis(4);

/// Prints that `n` was not appended; returns whether the log is unchanged.
fn refuse(n: u64, error: &Error) -> bool {
    let is_as_it_was = matches!(error, Error::Io { .. } | Error::DiskFull { .. });
    say(&format!("{} {n} {error}", if is_as_it_was { "refused" } else { "unknown" }));
    is_as_it_was
}

/// One thread appends with a few records in flight, over four segments.
fn stream(scene: &Scene<'_>) -> seawall::Result<()> {
    let log = scene.open(Level::Synced)?;
    let (mut outcome, mut waiting) = (Ok(()), VecDeque::new());
    say("appending");
    for n in (0..2 * RECORDS).map(|index| number(scene.life, 0, index)) {
        say(&format!("try {n}"));
        match log.submit(&content(n)) {
            Ok(ticket) => waiting.push_back((n, ticket)),
            Err(error) => {
                let may_go_on = refuse(n, &error);
                outcome = Err(error);
                if !may_go_on {
                    break;
                }
            }
        }
        if waiting.len() > 4 {
            outcome = outcome.and(waiting.pop_front().map_or(Ok(()), wait));
        }
    }
    for one in waiting {
        outcome = outcome.and(wait(one));
    }
    say("appended");
    say(&format!("overlapped {}", log.stats().overlapped));
    outcome?;
    close(log)
}

fn wait((n, ticket): (u64, Ticket)) -> seawall::Result<()> {
    match ticket.wait() {
        Ok(lsn) => say(&format!("ack {lsn} {n} synced")),
        Err(error) => {
            say(&format!("unknown {n} {error}"));
            return Err(error);
        }
    }
    Ok(())
}

/// Creates a log; rotations, a set, a ticket, a checkpoint, a clean close.
fn fill(scene: &Scene<'_>) -> seawall::Result<()> {
    let log = scene.open(Level::Synced)?;
    scene.append(&log, RECORDS / scene.config.threads)?;
    // Two of its three records are large: their blocks bypass the page cache.
    scene.append_set(&log, 1)?;
    let n = number(scene.life, ALONE, 10);
    say(&format!("try {n}"));
    let lsn = log.submit(&content(n))?.wait()?;
    say(&format!("ack {lsn} {n} synced"));
    check(lsn, log.get(lsn)?.as_ref());
    say(&format!("checkpoint {lsn}"));
    log.checkpoint(lsn)?;
    // The log idles, and writes a mark.
    thread::park_timeout(IDLE * 3);
    close(log)
}

/// Confirmed records, and a truncation of the last ones.
fn cut(scene: &Scene<'_>) -> seawall::Result<()> {
    let log = scene.open(Level::Confirmed)?;
    scene.append(&log, 2)?;
    let last = scene.append_one(&log, 0)?;
    scene.append_one(&log, 1)?;
    scene.append_one(&log, 2)?;
    say(&format!("after {last}"));
    log.truncate_after(Some(last))?;
    say(&format!("after-done {last}"));
    scene.append_one(&log, 3)?;
    close(log)
}

/// Buffered records, pruning, and a copy while the writer runs.
fn buffer(scene: &Scene<'_>) -> seawall::Result<()> {
    let log = scene.open(Level::Buffered)?;
    scene.append(&log, 3)?;
    scene.append_set(&log, 0)?;
    if let Some(lsn) = log.flush()? {
        say(&format!("flushed {lsn}"));
    }
    let keep = log.replay_start();
    say(&format!("before {keep}"));
    log.truncate_before(keep)?;
    let copied = scene.folder.join("copy");
    say("copy");
    Maintenance::at(scene.log).back_up(copied)?;
    say("copied");
    scene.append_one(&log, 10)?;
    if let Some(lsn) = log.confirm()? {
        say(&format!("flushed {lsn}"));
    }
    close(log)
}

/// Reuses the files of removed segments; in one workload only, because it takes long.
fn reuse(scene: &Scene<'_>) -> seawall::Result<()> {
    if scene.config != Config::ALL[0] {
        return Ok(());
    }
    let log = scene.open(Level::Synced)?;
    scene.append(&log, RECORDS / scene.config.threads)?;
    let keep = scene.append_one(&log, 0)?;
    say(&format!("before {keep}"));
    log.truncate_before(keep)?;
    // The records must differ from those before.
    let scene = Scene { life: scene.life + 10, ..*scene };
    scene.append(&log, RECORDS / scene.config.threads)?;
    close(log)
}

/// Replaces both keys: the user's, and the log's own.
fn rekey(scene: &Scene<'_>) -> seawall::Result<()> {
    let log = scene.open(Level::Synced)?;
    scene.append_one(&log, 0)?;
    say("rekey");
    let [_, second] = keys();
    log.change_key(&second)?;
    say("rekeyed");
    scene.append_one(&log, 2)?;
    log.renew_log_key()?;
    scene.append_one(&log, 4)?;
    close(log)
}

/// Reads and verifies the log.
fn look(scene: &Scene<'_>) -> seawall::Result<()> {
    if !scene.config.is_encrypted() {
        return look_with(scene, &Options::new(), Maintenance::at(scene.log));
    }
    let look = |key: Key| {
        let maintenance = Maintenance::at(scene.log).key(key.clone());
        look_with(scene, &Options::new().key(key), maintenance)
    };
    let [first, second] = keys();
    match look(second) {
        // An error may have left the first key.
        Err(Error::Key { .. }) => look(first),
        done => done,
    }
}

fn look_with(
    scene: &Scene<'_>,
    options: &Options,
    mut maintenance: Maintenance<'_>,
) -> seawall::Result<()> {
    let reader: LogReader<Value, Json> = options.open_reader(scene.log)?;
    for entry in reader.read_from(reader.oldest()?)? {
        let (lsn, value) = entry?;
        check(lsn, Some(&value));
    }
    let found = maintenance.verify()?;
    if !found.damage.is_empty() {
        say(&format!("wrong verify names damage: {:?}", found.damage));
    }
    Ok(())
}

/// Checks that a record that was read has the content that was written.
fn check(lsn: Lsn, value: Option<&Value>) {
    let n = value.and_then(|value| value.get("n")).and_then(Value::as_u64);
    if n.map(content).as_ref() != value {
        say(&format!("wrong record {lsn} is read with other content"));
    }
}

fn close(log: Work) -> seawall::Result<()> {
    log.close()?;
    say("closed");
    Ok(())
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Buffered => "buffered",
        Level::Synced => "synced",
        Level::Confirmed => "confirmed",
    }
}

/// Prints a line in one call, so that it is complete whenever this process is killed.
fn say(line: &str) {
    let line = format!("{line}\n");
    let written = io::stdout().lock().write_all(line.as_bytes());
    // Without its output, the run cannot be checked.
    assert!(written.is_ok(), "the tracer is gone");
}
