//! `seawall-bench cwal`: the benchmarks of the `CWal` library with its parameters, with its method
//! and with Seawall.

mod theirs;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use seawall::{Level, Log, Options, Raw, Retention};
use seawall_io::{Clock, SystemClock};
use seawall_measure::contest::{Entry, Row, hold};
use seawall_measure::human::{folded, number};
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, nanoseconds, rate};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use theirs::{Method, Writer};

/// Its six runs: what it calls them, how they are made, and its time for an append, in what its
/// source measures: microseconds, though its output says ms.
const THEIRS: [(&str, Method, f64); 6] = [
    ("cwal, synced each", Method::Regular { flush: false, sync: Some(1) }, 107.60),
    ("cwal, synced each 10", Method::Regular { flush: false, sync: Some(10) }, 63.92),
    ("cwal, batches of 31", Method::Batched(31), 98.27),
    ("cwal, batches of 10", Method::Batched(10), 101.75),
    ("cwal, flushed", Method::Regular { flush: true, sync: None }, 3.56),
    ("cwal, in its buffer", Method::Regular { flush: false, sync: None }, 2.93),
];

const OURS: [(&str, Level, usize); 4] = [
    ("seawall, synced each", Level::Synced, 1),
    ("seawall, sets of 10", Level::Synced, 10),
    ("seawall, sets of 31", Level::Synced, 31),
    ("seawall, buffered", Level::Buffered, 1),
];

const WARNING: &str = "A sync of cwal's does not write the buffer of its stream first: up to 8 \
                       KiB of what was appended before is not in the file then. None of its rows \
                       is durable; of ours all but the last are when an append returns, and that \
                       one within 10 ms.";

impl Bench for args::Cwal {
    const NAME: &'static str = "cwal";
    const TITLE: &'static str = "The benchmarks of CWal, beside seawall";
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "Its benchmarks, by its method and by this log.".to_owned()
    }

    fn settings(&self) -> Fields {
        vec![("logs", json!(self.logs)), ("log_bytes", json!(self.common.size(Self::NAME)))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        vec![(Self::NAME, format!("{} logs of {size} bytes", number(self.logs)))]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        let data = vec![0x5a; self.common.size(Self::NAME)];
        let mut ours = vec![];
        for (name, level, set) in OURS {
            let log = open(&stage.folder().join(name), level);
            ours.push((name, log.map_err(|error| fail(Trouble::Ours(error)))?, set));
        }
        let mut entries = vec![];
        for (name, method, _) in THEIRS {
            let writer = Writer::new(stage.folder(), method);
            let writer = writer.map_err(|error| fail(Trouble::Plain(error)))?;
            let mut round = Round { writer, data: &data, count: self.logs };
            entries.push(Entry::new(name, move |time| round.slice(time)));
        }
        for (name, log, set) in &ours {
            let clock = SystemClock::new();
            let data = &data;
            let act = move |time| our_slice(log, (data, *set), (&clock, time));
            entries.push(Entry::new(*name, act));
        }
        let standings = hold(&mut entries, stage.time()).map_err(fail)?;
        drop(entries);
        for (_, log, _) in ours {
            log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        }
        stage.keep_one(self.contests(), standings)
    }

    fn remarks(&self, (): &(), held: &[Compared]) -> Vec<String> {
        let line =
            |[name, published, here]: [&str; 3]| format!("{name:<25}{published:>16}{here:>16}");
        let mut lines = vec![String::new(), line(TIMES)];
        for [name, published, here] in times(held) {
            lines.push(line([&format!("  {name}"), &published, &here]));
        }
        lines.extend([String::new(), folded(WARNING, 0)]);
        lines
    }

    fn results(&self, (): &(), held: &[Compared]) -> Fields {
        let published: Value =
            THEIRS.iter().map(|(name, _, time)| ((*name).to_owned(), json!(time))).collect();
        let contest = held.first().map(Compared::as_json);
        vec![("published_us", published), ("contest", json!(contest))]
    }

    /// Both tables.
    fn page(&self, (): &(), held: &[Compared]) -> String {
        let contests: String = held.iter().map(page::contest).collect();
        let first = vec![TIMES.map(str::to_owned).into()];
        let times = times(held).into_iter().map(Into::into);
        let published = page::table(&first.into_iter().chain(times).collect::<Vec<_>>());
        contests + &published + &format!("<p>{}</p>\n", page::escaped(WARNING))
    }
}

fn open(path: &Path, level: Level) -> seawall::Result<Log<[u8], Raw>> {
    // CWal starts its file again; Seawall's past is bounded, too.
    let retention = Retention::new().max_bytes(64 << 20).without_checkpoints();
    Options::new().level(level).retention(retention).idle_mark(None).open(path)
}

/// Appends of the other log, repeated.
struct Round<'a> {
    writer: Writer,
    data: &'a [u8],
    count: u64,
}

impl Round<'_> {
    fn slice(&mut self, time: Duration) -> Result<Slice, Trouble> {
        let clock = SystemClock::new();
        let mut times = vec![];
        let mut spent = Duration::ZERO;
        while spent < time {
            self.writer.begin().map_err(Trouble::Plain)?;
            let begin = clock.now();
            let mut now = begin;
            for number in 0..self.count {
                self.writer.append(number, self.data).map_err(Trouble::Plain)?;
                let then = std::mem::replace(&mut now, clock.now());
                times.push(nanoseconds(now - then));
                if spent + (now - begin) >= time {
                    break;
                }
            }
            spent += now - begin;
        }
        Ok(Slice { per_second: rate(times.len(), spent), times })
    }
}

/// Appends in sets; each record of a set took its part of the time.
fn our_slice(
    log: &Log<[u8], Raw>,
    (data, set): (&[u8], usize),
    (clock, time): (&SystemClock, Duration),
) -> Result<Slice, Trouble> {
    let begin = clock.now();
    let (mut times, mut now) = (vec![], begin);
    let part = u32::try_from(set).expect("a few");
    while now - begin < time {
        let done = match set {
            1 => log.append(data).map(drop),
            _ => log.append_batch(std::iter::repeat_n(data, set)).map(drop),
        };
        done.map_err(Trouble::Ours)?;
        let then = std::mem::replace(&mut now, clock.now());
        times.extend(std::iter::repeat_n(nanoseconds((now - then) / part), set));
    }
    Ok(Slice { per_second: rate(times.len(), now - begin), times })
}

/// Its published times and ours, in microseconds an append: name, published, here.
fn times(held: &[Compared]) -> Vec<[String; 3]> {
    let row = |row: &Row| {
        let published = published(&row.name).map_or("-".to_owned(), |time| format!("{time:.2}"));
        [row.name.to_string(), published, format!("{:.2}", 1e6 / row.per_second.median.max(1e-9))]
    };
    held.iter().flat_map(|compared| &compared.contest.standings.rows).map(row).collect()
}

const TIMES: [&str; 3] = ["microseconds an append", "published", "here"];

fn published(name: &str) -> Option<f64> {
    THEIRS.iter().find(|entry| entry.0 == name).map(|entry| entry.2)
}
