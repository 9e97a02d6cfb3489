//! `seawall-bench cwal`: the benchmarks of the `CWal` library, with the same parameters, run by
//! `CWal`'s method and by Seawall.

mod theirs;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use seawall::{Level, Log, Options, Raw, Retention};
use seawall_io::{Clock, SystemClock};
use seawall_measure::contest::{Entry, Row, hold};
use seawall_measure::human::{folded, number, to_f64};
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, nanoseconds, rate};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use theirs::{Method, Writer};

/// Number of entries, and bytes of an entry, in the runs that `CWal` published.
const PUBLISHED: (u64, usize) = (1000, 1000);
/// Number of different entries, which are appended in turn.
const DIFFERENT: usize = 16;

/// How Seawall appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Buffered,
    /// Synced at every n-th append.
    Every(u64),
    /// In atomic sets of n, each durable.
    Sets(u64),
}

const WARNING: &str = "A sync of cwal's does not write the buffer of its stream first: up to 8 \
                       KiB of what was appended before is not in the file then. None of its rows \
                       is durable. Of ours, the n-th append and each set are when they return, and \
                       all others within 10 ms.";

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
        let size = self.common.size(Self::NAME);
        vec![
            ("logs", json!(self.logs)),
            ("log_bytes", json!(size)),
            ("flush", json!(self.flush)),
            ("sync_periods", json!(self.sync_period)),
            ("batches", json!(self.batches())),
        ]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        vec![(Self::NAME, format!("{} logs of {size} bytes", number(self.logs)))]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        let data = entries_of(self.common.size(Self::NAME));
        let mut ours = vec![];
        for (name, way) in self.ours() {
            let log = open(&stage.folder().join(&name), way);
            ours.push((name, log.map_err(|error| fail(Trouble::Ours(error)))?, way));
        }
        let mut entries = vec![];
        for (name, method) in self.theirs() {
            let writer = Writer::new(stage.folder(), method);
            let mut writer = writer.map_err(|error| fail(Trouble::Plain(error)))?;
            let data = &data;
            let run = move |times: &mut Times| their_run(&mut writer, (data, self.logs), times);
            entries.push(whole_runs(name, run));
        }
        for (name, log, way) in &ours {
            let data = &data;
            let run = move |times: &mut Times| our_run(log, (data, self.logs), *way, times);
            entries.push(whole_runs(name.clone(), run));
        }
        let standings = hold(&mut entries, stage.time()).map_err(fail)?;
        drop(entries);
        for (_, log, _) in ours {
            log.close().map_err(|error| fail(Trouble::Ours(error)))?;
        }
        stage.keep_one(self.contests(), standings)
    }

    fn remarks(&self, (): &(), held: &[Compared]) -> Vec<String> {
        let line = |[name, published, total, here, sum]: [&str; 5]| {
            format!("{name:<25}{published:>14}{total:>10}{here:>15}{sum:>10}")
        };
        let heads = [["", "published", "", "here", ""], TIMES];
        let mut lines = vec![String::new()];
        lines.extend(heads.map(line));
        for [name, published, total, here, sum] in self.times(held) {
            lines.push(line([&format!("  {name}"), &published, &total, &here, &sum]));
        }
        lines.extend([String::new(), folded(WARNING, 0)]);
        lines
    }

    fn results(&self, (): &(), held: &[Compared]) -> Fields {
        let published: Value = self
            .theirs()
            .into_iter()
            .filter_map(|(name, method)| Some((name, json!(self.published(method)?))))
            .collect();
        let rows = held.iter().flat_map(|compared| &compared.contest.standings.rows);
        let runs: Value = rows.map(|row| (row.name.to_string(), json!(self.run_ms(row)))).collect();
        let contest = held.first().map(Compared::as_json);
        vec![("published_us", published), ("run_ms", runs), ("contest", json!(contest))]
    }

    /// The tables of the text output: the contest, and the published times.
    fn page(&self, (): &(), held: &[Compared]) -> String {
        let contests: String = held.iter().map(page::contest).collect();
        let heads = ["", "published, us", "published, run ms", "here, us", "here, run ms"];
        let first = vec![heads.map(str::to_owned).into()];
        let times = self.times(held).into_iter().map(Into::into);
        let published = page::table(&first.into_iter().chain(times).collect::<Vec<_>>());
        contests + &published + &format!("<p>{}</p>\n", page::escaped(WARNING))
    }
}

impl args::Cwal {
    /// The sizes of `BATCH_SIZE`. Defaults to the square root and the cube root of the number of
    /// entries, as the text of `CWal` has it.
    fn batches(&self) -> Vec<u64> {
        if self.batch.is_empty() {
            return [2, 3].map(|degree| root(self.logs, degree)).into();
        }
        self.batch.clone()
    }

    /// The runs of `CWal`: with a sync, in batches, and without a sync.
    fn theirs(&self) -> Vec<(String, Method)> {
        let synced = self.sync_period.iter().map(|period| {
            let flushed = if self.flush { "flushed and " } else { "" };
            let method = Method::Regular { flush: self.flush, sync: Some(*period) };
            (format!("cwal, {flushed}{}", synced(*period)), method)
        });
        let batches = self.batches().into_iter();
        let batches =
            batches.map(|size| (format!("cwal, batches of {size}"), Method::Batched(size)));
        let plain = [("cwal, flushed", true), ("cwal, in its buffer", false)];
        let plain =
            plain.map(|(name, flush)| (name.to_owned(), Method::Regular { flush, sync: None }));
        synced.chain(batches).chain(plain).collect()
    }

    fn ours(&self) -> Vec<(String, Ours)> {
        let synced = self
            .sync_period
            .iter()
            .map(|period| (format!("seawall, {}", synced(*period)), Ours::Every(*period)));
        let sets = self.batches().into_iter();
        let sets = sets.map(|size| (format!("seawall, sets of {size}"), Ours::Sets(size)));
        synced.chain(sets).chain([("seawall, buffered".to_owned(), Ours::Buffered)]).collect()
    }

    /// The published time of an append in microseconds, the unit that the source of `CWal`
    /// measures, though its output says ms. `None` if the parameters differ.
    fn published(&self, method: Method) -> Option<f64> {
        if (self.logs, self.common.size(Self::NAME)) != PUBLISHED {
            return None;
        }
        match method {
            Method::Regular { flush: false, sync: None } => Some(2.93),
            Method::Regular { flush: true, sync: None } => Some(3.56),
            Method::Regular { flush: false, sync: Some(1) } => Some(107.60),
            Method::Regular { flush: false, sync: Some(10) } => Some(63.92),
            Method::Batched(31) => Some(98.27),
            Method::Batched(10) => Some(101.75),
            _ => None,
        }
    }

    /// Milliseconds of a whole run.
    fn run_ms(&self, row: &Row) -> f64 {
        to_f64(self.logs) * 1e3 / row.per_second.median.max(1e-9)
    }

    /// The times of each row: its name, then microseconds per append and milliseconds per run,
    /// first published, then measured here.
    fn times(&self, held: &[Compared]) -> Vec<[String; 5]> {
        let theirs = self.theirs();
        let row = |row: &Row| {
            let method =
                theirs.iter().find(|(name, _)| *name == row.name).map(|(_, method)| *method);
            let published = method.and_then(|method| self.published(method));
            let shown =
                |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.2}"));
            let run = published.map(|time| time * to_f64(self.logs) / 1e3);
            let here = Some(1e6 / row.per_second.median.max(1e-9));
            let name = row.name.to_string();
            [name, shown(published), shown(run), shown(here), shown(Some(self.run_ms(row)))]
        };
        held.iter().flat_map(|compared| &compared.contest.standings.rows).map(row).collect()
    }
}

fn synced(period: u64) -> String {
    if period == 1 { "synced each".to_owned() } else { format!("synced each {period}") }
}

/// The largest number whose power of this degree is at most `count`.
fn root(count: u64, degree: u32) -> u64 {
    let is_below = |root: &u64| root.checked_pow(degree).is_some_and(|power| power <= count);
    (1..=count).take_while(is_below).last().unwrap_or(1)
}

/// Makes entries of random letters and digits, as `CWal`'s benchmark does.
fn entries_of(size: usize) -> Vec<Vec<u8>> {
    const SYMBOLS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut state = 1_u64;
    let mut symbol = || {
        // The minimal standard generator of Park and Miller.
        state = state * 48_271 % 2_147_483_647;
        let at = usize::try_from(state).unwrap_or_default() % SYMBOLS.len();
        SYMBOLS.get(at).copied().unwrap_or(b'0')
    };
    (0..DIFFERENT).map(|_| (0..size).map(|_| symbol()).collect()).collect()
}

fn open(path: &Path, way: Ours) -> seawall::Result<Log<[u8], Raw>> {
    // CWal truncates its file before each run, so the log is bounded, too.
    let retention = Retention::new().max_bytes(64 << 20).without_checkpoints();
    let options = Options::new().retention(retention).idle_mark(None);
    match way {
        Ours::Buffered => options.level(Level::Buffered),
        Ours::Every(1) | Ours::Sets(_) => options.level(Level::Synced),
        Ours::Every(period) => options.sync_every(period),
    }
    .open(path)
}

/// The time of each append, in nanoseconds.
type Times = Vec<u32>;

/// A way that repeats whole runs until the time is over. `run` returns its duration.
fn whole_runs<'a>(
    name: String,
    mut run: impl FnMut(&mut Times) -> Result<Duration, Trouble> + 'a,
) -> Entry<'a, Trouble> {
    Entry::new(name, move |time| {
        let (mut times, mut spent) = (vec![], Duration::ZERO);
        while spent < time {
            spent += run(&mut times)?;
        }
        Ok(Slice { per_second: rate(times.len(), spent), times })
    })
}

fn their_run(
    writer: &mut Writer,
    (data, count): (&[Vec<u8>], u64),
    times: &mut Times,
) -> Result<Duration, Trouble> {
    let clock = SystemClock::new();
    writer.begin().map_err(Trouble::Plain)?;
    let begin = clock.now();
    let mut now = begin;
    for (number, entry) in (0..count).zip(data.iter().cycle()) {
        writer.append(number, entry).map_err(Trouble::Plain)?;
        let then = std::mem::replace(&mut now, clock.now());
        times.push(nanoseconds(now - then));
    }
    Ok(now - begin)
}

/// Appends `count` records. The time of a set is divided evenly among its records.
fn our_run(
    log: &Log<[u8], Raw>,
    (data, count): (&[Vec<u8>], u64),
    way: Ours,
    times: &mut Times,
) -> Result<Duration, Trouble> {
    let clock = SystemClock::new();
    let begin = clock.now();
    let (mut now, mut left, mut entries) = (begin, count, data.iter().map(Vec::as_slice).cycle());
    let set = if let Ours::Sets(size) = way { size } else { 1 };
    while left > 0 {
        let size = set.min(left);
        let part = usize::try_from(size).unwrap_or(usize::MAX);
        let set: Vec<&[u8]> = entries.by_ref().take(part).collect();
        match set.as_slice() {
            [entry] => log.append(entry).map(drop),
            _ => log.append_batch(set.iter().copied()).map(drop),
        }
        .map_err(Trouble::Ours)?;
        left -= size;
        let then = std::mem::replace(&mut now, clock.now());
        let each = u32::try_from(size).map_or(Duration::ZERO, |size| (now - then) / size);
        times.extend(std::iter::repeat_n(nanoseconds(each), part));
    }
    Ok(now - begin)
}

/// Headers of the columns below `published` and `here`.
const TIMES: [&str; 5] = ["", "us an append", "ms a run", "us an append", "ms a run"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_the_roots_of_the_entries() {
        assert_eq!([1, 2, 999, 1000, 10_000].map(|count| root(count, 2)), [1, 1, 31, 31, 100]);
        assert_eq!([1, 7, 999, 1000, 10_000].map(|count| root(count, 3)), [1, 1, 9, 10, 21]);
    }

    #[test]
    fn entries_are_random_letters_and_digits() {
        let entries = entries_of(1000);
        assert!(entries.iter().all(|entry| entry.len() == 1000));
        assert!(entries.iter().flatten().all(u8::is_ascii_alphanumeric));
        let different: std::collections::BTreeSet<_> = entries.iter().flatten().collect();
        assert_eq!((different.len(), entries_of(9).len()), (62, DIFFERENT));
    }
}
