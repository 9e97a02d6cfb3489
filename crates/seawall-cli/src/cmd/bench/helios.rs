//! `seawall bench helios`: the three modes of HeliosDB Nano's log, rebuilt as its document
//! describes them, and this log. Theirs write to a file that was written before, not to a store
//! below: that is the best they can do.

use super::beside::{Past, Report, compare};
use super::{failure, tell_conditions};
use crate::args::BenchHelios;
use crate::human::to_f64;
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use seawall::{Level, Options};
use seawall_io::{File, PosixStorage, Storage};
use seawall_measure::chart::{Names, Series, log_log};
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::machine::Conditions;
use seawall_measure::page;
use seawall_measure::pairs::{Ours, Trouble};
use seawall_measure::slice::{Slice, by_threads};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const SCHEMA: &str = "seawall.bench-helios/1";
/// Of the ways in the chart, as CSS writes them.
const COLORS: [&str; 5] = ["#b3541e", "#d9a05b", "#8a94a0", "#0b6e4f", "#5fa8d3"];
/// The window of its group commit.
const WINDOW: Duration = Duration::from_millis(10);
/// As large as a log's segments.
const FILE_SIZE: u64 = 64 << 20;

/// Measures every number of writers.
pub(crate) fn run(args: &BenchHelios) -> Result<Exit, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    let settings = [("schema", json!(SCHEMA)), ("record_bytes", json!(args.size))];
    let past = Past::read(&args.beside, &settings)?;
    if let Some(past) = &past {
        past.has(args.writers.iter().map(|writers| ("helios", asks(args.size, *writers))))?;
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let theirs = Theirs::new(scratch.path(), args.size).map_err(|e| fail(Trouble::Plain(e)))?;
    let window = Window::start(theirs.tail.clone()).map_err(|e| fail(Trouble::Plain(e)))?;
    let open = |name: &str, level| {
        let options = Options::new().level(level);
        let ours = Ours::new(&scratch.path().join(name), &options, args.size);
        ours.map_err(|error| fail(Trouble::Ours(error)))
    };
    let (synced, buffered) = (open("synced", Level::Synced)?, open("buffered", Level::Buffered)?);
    let mut out = Output::new();
    let mut asked = vec![];
    for writers in args.writers.iter().copied() {
        let mut entries = [
            Entry::new("10 ms window", |time| window.slice((writers, time), &theirs)),
            Entry::new("sync", |time| theirs.slice((writers, time), true)),
            Entry::new("async, NOT durable", |time| theirs.slice((writers, time), false)),
            Entry::new("seawall, synced", |time| {
                synced.slice(writers, time).map_err(Trouble::Ours)
            }),
            Entry::new("seawall, buffered", |time| {
                buffered.slice(writers, time).map_err(Trouble::Ours)
            }),
        ];
        let standings = hold(&mut entries, Duration::from_secs_f64(args.time)).map_err(fail)?;
        let asks = asks(args.size, writers);
        let mut contest = Contest { name: "helios", asks, standings };
        compare(&mut contest, past.as_ref())?;
        if !args.look.json {
            out.lines(&contest.lines());
        }
        asked.push((writers, contest));
    }
    for ours in [synced, buffered] {
        ours.close().map_err(|error| fail(Trouble::Ours(error)))?;
    }
    let conditions = Conditions::of(asked.iter().map(|(_, contest)| contest.standings.others));
    tell_conditions(&mut out, args.look, &conditions);
    if args.look.json {
        let mut answer = as_json(args, &asked, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    }
    report.write("seawall bench helios", || page(args, &asked, &conditions))?;
    Ok(out.finish())
}

fn asks(size: usize, writers: usize) -> String {
    match writers {
        1 => format!("records of {size} bytes by one thread"),
        _ => format!("records of {size} bytes by {writers} threads"),
    }
}

fn as_json(args: &BenchHelios, asked: &[(usize, Contest)], conditions: &Conditions) -> Value {
    let result = |(writers, contest): &(usize, Contest)| -> Value {
        json!({ "writers": writers, "contest": contest.as_json() })
    };
    json!({
        "schema": SCHEMA,
        "dir": args.dir.display().to_string(),
        "record_bytes": args.size,
        "window_ms": 10,
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "results": asked.iter().map(result).collect::<Vec<_>>(),
    })
}

/// As a page: a line for each way over the number of writers, and all tables.
fn page(args: &BenchHelios, asked: &[(usize, Contest)], conditions: &Conditions) -> String {
    let about = "The modes of HeliosDB Nano's log, rebuilt as its document describes them, and \
                 this log.";
    let title = "Commits a second, beside a fixed window";
    let mut body = page::head(title, conditions, (about, &args.dir));
    // One point is no line.
    if let [(_, first), _, ..] = asked {
        let names = Names {
            title: "Commits a second",
            x: "threads that commit at the same time",
            y: "commits a second",
        };
        let ways = first.standings.rows.iter().zip(COLORS);
        let series: Vec<Series<'_>> = ways
            .map(|(way, color)| {
                let rate = |(writers, contest): &(usize, Contest)| {
                    let writers = to_f64(u64::try_from(*writers).unwrap_or(u64::MAX));
                    let row = contest.standings.rows.iter().find(|row| row.name == way.name);
                    Some((writers, row?.per_second.median))
                };
                Series { name: &way.name, color, points: asked.iter().filter_map(rate).collect() }
            })
            .collect();
        body.extend(["<figure>", &log_log(&names, &series), "</figure>\n"]);
    }
    body.extend(asked.iter().map(|(_, contest)| page::contest(contest)));
    body
}

/// Its modes `Sync` and `Async`: each commit is one write, and in the first its sync, under a lock.
struct Theirs {
    tail: Arc<Mutex<Tail>>,
    record: Vec<u8>,
}

/// Where the next record goes.
struct Tail {
    file: Arc<dyn File>,
    at: u64,
}

impl Tail {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let size = u64::try_from(bytes.len()).expect("fits in 64 bits");
        if self.at + size > FILE_SIZE {
            self.at = 0;
        }
        self.file.write_at(bytes, self.at)?;
        self.at += size;
        Ok(())
    }
}

impl Theirs {
    fn new(folder: &Path, size: usize) -> io::Result<Self> {
        let storage = PosixStorage::open(folder)?;
        let file = storage.create("theirs")?;
        file.fill_with_zeros(FILE_SIZE)?;
        file.sync()?;
        storage.sync_dir()?;
        let tail = Arc::new(Mutex::new(Tail { file, at: 0 }));
        Ok(Self { tail, record: vec![0x5a; size] })
    }

    fn slice(&self, how: (usize, Duration), is_synced: bool) -> Result<Slice, Trouble> {
        by_threads(how, &|_| {
            let mut tail = lock(&self.tail);
            tail.write(&self.record).map_err(Trouble::Plain)?;
            if is_synced { tail.file.sync().map_err(Trouble::Plain) } else { Ok(()) }
        })
    }
}

/// Its mode `GroupCommit`: a thread sleeps for the window, takes what waits, and syncs once.
struct Window {
    shared: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    state: Mutex<Waiting>,
    stop: Condvar,
    tail: Arc<Mutex<Tail>>,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<(Vec<u8>, SyncSender<io::Result<()>>)>,
    stopping: bool,
}

impl Window {
    fn start(tail: Arc<Mutex<Tail>>) -> io::Result<Self> {
        let shared = Arc::new(Queue { state: Mutex::default(), stop: Condvar::new(), tail });
        let own = shared.clone();
        let thread = std::thread::Builder::new().spawn(move || own.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    fn slice(&self, how: (usize, Duration), theirs: &Theirs) -> Result<Slice, Trouble> {
        by_threads(how, &|_| {
            let (tell, told) = sync_channel(1);
            lock(&self.shared.state).queue.push_back((theirs.record.clone(), tell));
            told.recv().unwrap_or_else(|gone| Err(io::Error::other(gone))).map_err(Trouble::Plain)
        })
    }
}

impl Queue {
    fn run(&self) {
        loop {
            let state = lock(&self.state);
            // It sleeps whether somebody waits or not.
            let slept = self.stop.wait_timeout_while(state, WINDOW, |state| !state.stopping);
            let mut state = slept.unwrap_or_else(PoisonError::into_inner).0;
            if state.stopping {
                return;
            }
            let waiting = std::mem::take(&mut state.queue);
            drop(state);
            if waiting.is_empty() {
                continue;
            }
            let bytes: Vec<u8> = waiting.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            let mut tail = lock(&self.tail);
            let written = tail.write(&bytes).and_then(|()| tail.file.sync());
            drop(tail);
            for (_, tell) in waiting {
                let again = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
                let told = written.as_ref().copied().map_err(again);
                // Who does not wait any more need not hear of it.
                let _ = tell.send(told);
            }
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        lock(&self.shared.state).stopping = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
