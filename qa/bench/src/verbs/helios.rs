//! `seawall-bench helios`: the three modes of HeliosDB Nano's log, rebuilt as its document
//! describes them, beside Seawall. The rebuilt modes write to a file that was written before, which
//! is their fastest case, or into a store, as the document has it.

use crate::args::{self, Common};
use crate::chart::{Names, Series, log_log};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use crate::stores::{Stores, find, open};
use seawall::{Level, Lsn, Options};
use seawall_io::{File, PosixStorage, Storage};
use seawall_measure::contest::{Contest, Entry, Row, hold};
use seawall_measure::human::{count, rounded, to_f64, to_u64};
use seawall_measure::pairs::{Ours, Trouble};
use seawall_measure::scratch::Scratch;
use seawall_measure::slice::{Slice, by_threads};
use seawall_replay::{Batch, Edit, Store, Write};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The colours of the ways in the chart, in CSS notation.
const COLORS: [&str; 5] = ["#b3541e", "#d9a05b", "#8a94a0", "#0b6e4f", "#5fa8d3"];
/// The window of HeliosDB Nano's group commit.
const WINDOW: Duration = Duration::from_millis(10);
/// The published figures of each mode: transactions per second, then the mean and the 99th
/// percentile of the latency in microseconds.
const PUBLISHED: [(&str, [&str; 3]); 3] = [
    ("10 ms window", ["10,000-50,000", "20-100", "10,000"]),
    ("sync", ["1,000", "1,000", "2,000"]),
    ("async, NOT durable", ["100,000", "10", "50"]),
];
/// The size of a log's segments.
const FILE_SIZE: u64 = 64 << 20;

/// `seawall-bench helios`, with the stores that the program was built with.
pub(crate) struct Modes {
    pub(crate) args: args::Helios,
    pub(crate) stores: Stores,
}

impl Modes {
    fn size(&self) -> usize {
        self.args.common.size(Self::NAME)
    }
}

impl Bench for Modes {
    const NAME: &'static str = "helios";
    const TITLE: &'static str = "Commits a second, beside a fixed window";
    type Found = ();

    fn common(&self) -> &Common {
        &self.args.common
    }

    fn about(&self) -> String {
        "The modes of HeliosDB Nano's log, rebuilt as its document describes them, and this log."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        let store = self.args.store.as_ref().map(|store| &store.name);
        vec![("record_bytes", json!(self.size())), ("store", json!(store))]
    }

    fn also(&self) -> Fields {
        vec![("window_ms", json!(10))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.size();
        let store = self.args.store.as_ref();
        let store = store.map(|store| format!(", theirs in {}", store.name)).unwrap_or_default();
        let asks = |writers: &usize| match writers {
            1 => format!("records of {size} bytes by one thread{store}"),
            _ => format!("records of {size} bytes by {writers} threads{store}"),
        };
        self.args.writers.iter().map(|writers| (Self::NAME, asks(writers))).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let fail = |trouble: Trouble| failure(&self.args.common.dir, &trouble);
        let size = self.size();
        // Dropped after the store, so that the store is closed before its folder is removed.
        let folder =
            self.args.store.as_ref().map(|store| Scratch::new(&store.place, "seawall-bench-modes"));
        let folder = folder.transpose()?;
        let tail = match self.args.store.as_ref().zip(folder.as_ref()) {
            Some((store, folder)) => {
                let path = folder.path().join("store");
                Tail::Store(open(find(self.stores, store)?, &path)?, Lsn::FIRST)
            }
            None => Tail::file(stage.folder()).map_err(|error| fail(Trouble::Plain(error)))?,
        };
        let theirs = Theirs { tail: Arc::new(Mutex::new(tail)), record: vec![0x5a; size] };
        let window = Window::start(theirs.tail.clone());
        let window = window.map_err(|error| fail(Trouble::Plain(error)))?;
        let open = |name: &str, level| {
            let options = Options::new().level(level);
            let ours = Ours::new(&stage.folder().join(name), &options, size);
            ours.map_err(|error| fail(Trouble::Ours(error)))
        };
        let (synced, buffered) =
            (open("synced", Level::Synced)?, open("buffered", Level::Buffered)?);
        let by_us = |ours: &Ours, writers, time| ours.slice(writers, time).map_err(Trouble::Ours);
        for ((name, asks), writers) in
            self.contests().into_iter().zip(self.args.writers.iter().copied())
        {
            let mut entries = [
                Entry::new("10 ms window", |time| window.slice((writers, time), &theirs)),
                Entry::new("sync", |time| theirs.slice((writers, time), true)),
                Entry::new("async, NOT durable", |time| theirs.slice((writers, time), false)),
                Entry::new("seawall, synced", |time| by_us(&synced, writers, time)),
                Entry::new("seawall, buffered", |time| by_us(&buffered, writers, time)),
            ];
            let standings = hold(&mut entries, stage.time()).map_err(fail)?;
            stage.keep(Contest { name, asks, standings })?;
        }
        for ours in [synced, buffered] {
            ours.close().map_err(|error| fail(Trouble::Ours(error)))?;
        }
        Ok(())
    }

    fn remarks(&self, (): &(), held: &[Compared]) -> Vec<String> {
        let line = |name: &str, [rate, mean, p99]: [&str; 3], [here, ours, ours_p99]: [&str; 3]| {
            format!("{name:<21}{rate:>14}{mean:>9}{p99:>9}{here:>11}{ours:>8}{ours_p99:>8}")
        };
        let mut lines = vec![];
        for (writers, compared) in self.args.writers.iter().zip(held) {
            let here = count(to_u64(*writers), "thread");
            lines.push(String::new());
            lines.push(format!("{:<21}{:>32}{here:>27}", "", "published"));
            let heads = ["a second", "mean us", "p99 us"];
            lines.push(line("", heads, heads));
            for row in &compared.contest.standings.rows {
                let published = PUBLISHED.iter().find(|(name, _)| *name == row.name);
                let published = published.map_or(["-"; 3], |(_, figures)| *figures);
                let here = [row.per_second.median, row.mean_us, row.p99_us].map(rounded);
                let here = here.each_ref().map(String::as_str);
                lines.push(line(&format!("  {}", row.name), published, here));
            }
        }
        lines
    }

    fn results(&self, (): &(), held: &[Compared]) -> Fields {
        let published: Value = PUBLISHED
            .iter()
            .map(|(name, [rate, mean, p99])| {
                let figures = json!({ "per_s": rate, "mean_us": mean, "p99_us": p99 });
                ((*name).to_owned(), figures)
            })
            .collect();
        let results = self.args.writers.iter().zip(held).map(
            |(writers, compared)| json!({ "writers": writers, "contest": compared.as_json() }),
        );
        vec![("published", published), ("results", results.collect())]
    }

    /// A line per way over the number of writers, and all tables.
    fn page(&self, (): &(), held: &[Compared]) -> String {
        let mut body = String::new();
        // A chart needs at least two points.
        if let [first, _, ..] = held {
            let names = Names {
                title: "Commits a second",
                x: "threads that commit at the same time",
                y: "commits a second",
            };
            let series = |(way, color): (&Row, &'static str)| {
                let rate = |(writers, compared): (&usize, &Compared)| {
                    let rows = &compared.contest.standings.rows;
                    let row = rows.iter().find(|row| row.name == way.name)?;
                    Some((to_f64(to_u64(*writers)), row.per_second.median))
                };
                (
                    way.name.clone(),
                    color,
                    self.args.writers.iter().zip(held).filter_map(rate).collect(),
                )
            };
            let ways = first.contest.standings.rows.iter().zip(COLORS).map(series);
            let ways: Vec<(_, _, Vec<(f64, f64)>)> = ways.collect();
            let series: Vec<Series<'_>> = ways
                .iter()
                .map(|(name, color, points)| Series { name, color, points: points.clone() })
                .collect();
            body.extend(["<figure>", &log_log(&names, &series), "</figure>\n"]);
        }
        body.extend(held.iter().map(page::contest));
        body
    }
}

/// The modes `Sync` and `Async`: each commit is one write under a lock, in `Sync` with a sync.
struct Theirs {
    tail: Arc<Mutex<Tail>>,
    record: Vec<u8>,
}

/// The destination of the next record.
enum Tail {
    /// A file, and the offset in it.
    File(Arc<dyn File>, u64),
    /// A store, and the number of the record.
    Store(Box<dyn Store>, Lsn),
}

impl Tail {
    fn file(folder: &Path) -> io::Result<Self> {
        let storage = PosixStorage::open(folder)?;
        let file = storage.create("theirs")?;
        file.fill_with_zeros(FILE_SIZE)?;
        file.sync()?;
        storage.sync_dir()?;
        Ok(Self::File(file, 0))
    }

    fn write(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        match self {
            Self::File(file, at) => {
                let joined;
                let bytes = match records {
                    [one] => one,
                    more => {
                        joined = more.concat();
                        &joined
                    }
                };
                let size = u64::try_from(bytes.len()).expect("fits in 64 bits");
                if *at + size > FILE_SIZE {
                    *at = 0;
                }
                file.write_at(bytes, *at)?;
                *at += size;
                Ok(())
            }
            Self::Store(store, next) => {
                let put = |record: &Vec<u8>| {
                    let lsn = *next;
                    *next = lsn.next();
                    let key = format!("wal:{:020}", lsn.get()).into_bytes();
                    let edit = Edit::Put { key, value: record.clone() };
                    Write { lsn, table: String::new(), edit }
                };
                let writes = records.iter().map(put).collect();
                let batch = Batch { writes, watermarks: vec![] };
                store.write(&batch).map_err(io::Error::other)
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.sync(),
            Self::Store(store, _) => store.flush().map_err(io::Error::other),
        }
    }
}

impl Theirs {
    fn slice(&self, how: (usize, Duration), is_synced: bool) -> Result<Slice, Trouble> {
        by_threads(how, &|_| {
            let mut tail = lock(&self.tail);
            tail.write(std::slice::from_ref(&self.record)).map_err(Trouble::Plain)?;
            if is_synced { tail.sync().map_err(Trouble::Plain) } else { Ok(()) }
        })
    }
}

/// The mode `GroupCommit`: a thread sleeps for the window, takes all waiting commits, writes them,
/// and syncs once.
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
            // The thread sleeps even if no commit is waiting.
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
            let (records, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            let mut tail = lock(&self.tail);
            let written = tail.write(&records).and_then(|()| tail.sync());
            drop(tail);
            for tell in waiting {
                let again = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
                let told = written.as_ref().copied().map_err(again);
                // Sending fails if the committer is gone, which is not an error.
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
