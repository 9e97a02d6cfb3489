//! `seawall bench cwal`: the benchmarks of the `CWal` library with its parameters, by its method
//! and by this log.

mod theirs;

use super::beside::{Past, Report, compare};
use super::{failure, tell_conditions};
use crate::args::BenchCwal;
use crate::human::{folded, number};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use seawall::{Level, Log, Options, Raw, Retention};
use seawall_io::{Clock, SystemClock};
use seawall_measure::contest::{Contest, Entry, Row, hold};
use seawall_measure::machine::Conditions;
use seawall_measure::page;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, nanoseconds, rate};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use theirs::{Method, Writer};

const SCHEMA: &str = "seawall.bench-cwal/1";

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

/// Measures, and says what came of it.
pub(crate) fn run(args: &BenchCwal) -> Result<Exit, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    let settings =
        [("schema", json!(SCHEMA)), ("logs", json!(args.logs)), ("log_bytes", json!(args.size))];
    let past = Past::read(&args.beside, &settings)?;
    let asks = format!("{} logs of {} bytes", number(args.logs), args.size);
    if let Some(past) = &past {
        past.has([("cwal", asks.clone())].into_iter())?;
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let data = vec![0x5a; args.size];
    let mut ours = vec![];
    for (name, level, set) in OURS {
        let log = open(&scratch.path().join(name), level).map_err(|e| fail(Trouble::Ours(e)))?;
        ours.push((name, log, set));
    }
    let mut entries = vec![];
    for (name, method, _) in THEIRS {
        let writer = Writer::new(scratch.path(), method).map_err(|e| fail(Trouble::Plain(e)))?;
        let mut round = Round { writer, data: &data, count: args.logs };
        entries.push(Entry::new(name, move |time| round.slice(time)));
    }
    for (name, log, set) in &ours {
        let clock = SystemClock::new();
        let data = &data;
        entries.push(Entry::new(*name, move |time| our_slice(log, (data, *set), (&clock, time))));
    }
    let standings = hold(&mut entries, Duration::from_secs_f64(args.time)).map_err(fail)?;
    drop(entries);
    for (_, log, _) in ours {
        log.close().map_err(|error| fail(Trouble::Ours(error)))?;
    }
    let mut contest = Contest { name: "cwal", asks, standings };
    compare(&mut contest, past.as_ref())?;
    let mut out = Output::new();
    if !args.look.json {
        out.lines(&contest.lines());
        tell_published(&mut out, &contest);
    }
    let conditions = Conditions::of([contest.standings.others]);
    tell_conditions(&mut out, args.look, &conditions);
    if args.look.json {
        let mut answer = as_json(args, &contest, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    }
    report.write("seawall bench cwal", || page(args, &contest, &conditions))?;
    Ok(out.finish())
}

fn open(path: &Path, level: Level) -> seawall::Result<Log<[u8], Raw>> {
    // Theirs begins its file anew; what ours keeps of the past is bounded, too.
    let retention = Retention::new().max_bytes(64 << 20).without_checkpoints();
    Options::new().level(level).retention(retention).idle_mark(None).open(path)
}

/// So many appends of theirs, again and again.
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
fn times(contest: &Contest) -> Vec<[String; 3]> {
    let row = |row: &Row| {
        let published = published(&row.name).map_or("-".to_owned(), |time| format!("{time:.2}"));
        [row.name.to_string(), published, format!("{:.2}", 1e6 / row.per_second.median.max(1e-9))]
    };
    contest.standings.rows.iter().map(row).collect()
}

const TIMES: [&str; 3] = ["microseconds an append", "published", "here"];

fn tell_published(out: &mut Output, contest: &Contest) {
    let line = |[name, published, here]: [&str; 3]| format!("{name:<25}{published:>16}{here:>16}");
    out.line("");
    out.line(&line(TIMES));
    for [name, published, here] in times(contest) {
        out.line(&line([&format!("  {name}"), &published, &here]));
    }
    out.line("");
    out.line(&folded(WARNING, 0));
}

/// As a page: both tables.
fn page(args: &BenchCwal, contest: &Contest, conditions: &Conditions) -> String {
    let about = "Its benchmarks, by its method and by this log.";
    let title = "The benchmarks of CWal, beside seawall";
    let body = page::head(title, conditions, (about, &args.dir));
    let head = vec![TIMES.map(str::to_owned).into()];
    let times: Vec<Vec<String>> = times(contest).into_iter().map(Into::into).collect();
    let published = page::table(&head.into_iter().chain(times).collect::<Vec<_>>());
    let warning = format!("<p>{}</p>\n", page::escaped(WARNING));
    [body, page::contest(contest), published, warning].concat()
}

fn published(name: &str) -> Option<f64> {
    THEIRS.iter().find(|entry| entry.0 == name).map(|entry| entry.2)
}

fn as_json(args: &BenchCwal, contest: &Contest, conditions: &Conditions) -> Value {
    let published: Value =
        THEIRS.iter().map(|(name, _, time)| ((*name).to_owned(), json!(time))).collect();
    json!({
        "schema": SCHEMA,
        "dir": args.dir.display().to_string(),
        "logs": args.logs,
        "log_bytes": args.size,
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "published_us": published,
        "contest": contest.as_json(),
    })
}
