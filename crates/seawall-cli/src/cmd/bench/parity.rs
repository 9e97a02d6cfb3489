//! `seawall bench parity`: what parity beside the segments costs those who commit.

use super::beside::{Past, Report, compare};
use super::{failure, tell_conditions};
use crate::args::BenchParity;
use crate::human::{count, rounded, to_f64};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use seawall::{Level, Options, Retention};
use seawall_measure::contest::{Contest, Entry, hold_in_slices};
use seawall_measure::machine::{Conditions, processor_time};
use seawall_measure::page;
use seawall_measure::pairs::{Ours, Plain, Trouble};
use seawall_measure::slice::Slice;
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

const SCHEMA: &str = "seawall.bench-parity/1";
/// As large as a log's segments.
const PLAIN_FILE: u64 = 64 << 20;
/// Long enough for what is made durable behind the back of those who commit.
const SLICE: Duration = Duration::from_millis(250);
/// What a log keeps of what was written, in bytes.
const KEPT: u64 = 256 << 20;

/// Measures both logs beside plain syncs, for each number of writers.
pub(crate) fn run(args: &BenchParity) -> Result<Exit, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    let settings = [
        ("schema", json!(SCHEMA)),
        ("record_bytes", json!(args.size)),
        ("parity", json!(args.parity.to_string())),
    ];
    let past = Past::read(&args.beside, &settings)?;
    let report = Report::begin(args.beside.report.as_deref())?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let mut plain = Plain::new(scratch.path(), PLAIN_FILE, args.size)
        .map_err(|error| fail(Trouble::Plain(error)))?;
    let log = |name, parity| Side::new(&scratch.path().join(name), parity, args.size);
    let with = log("with", Some(args.parity)).map_err(|error| fail(Trouble::Ours(error)))?;
    let without = log("without", None).map_err(|error| fail(Trouble::Ours(error)))?;
    let time = Duration::from_secs_f64(args.time);
    let mut rows = vec![];
    for writers in &args.writers {
        with.forget();
        without.forget();
        let mut entries: Vec<Entry<'_, Trouble>> = vec![
            Entry::new(format!("parity {}", args.parity), |time| with.slice(*writers, time)),
            Entry::new("none", |time| without.slice(*writers, time)),
            Entry::new("plain writes and syncs", |time| plain.slice(time).map_err(Trouble::Plain)),
        ];
        let standings = hold_in_slices(&mut entries, time, SLICE).map_err(fail)?;
        drop(entries);
        let count = count(u64::try_from(*writers).unwrap_or(u64::MAX), "writer");
        let asks = format!("{count}, records of {} bytes, synced", args.size);
        let name =
            NAMES.iter().find(|(count, _)| count == writers).map_or("writers", |name| name.1);
        let mut contest = Contest { name, asks, standings };
        compare(&mut contest, past.as_ref())?;
        rows.push(Found { contest, cost_us: [with.cost_us(), without.cost_us()] });
    }
    with.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
    without.log.close().map_err(|error| fail(Trouble::Ours(error)))?;
    let conditions = Conditions::of(rows.iter().map(|row| row.contest.standings.others));
    let mut out = Output::new();
    if args.look.json {
        let mut answer = as_json(args, &rows, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    } else {
        for row in &rows {
            out.lines(&row.contest.lines());
            out.line(&row.says());
            out.line("");
        }
    }
    tell_conditions(&mut out, args.look, &conditions);
    report.write("seawall bench parity", || {
        let about = "Two logs, one that keeps parity beside its segments and one that does not, by \
                     turns, beside plain writes, each with its sync.";
        let title = "What parity costs those who commit";
        let mut body = page::head(title, &conditions, (about, &args.dir));
        for row in &rows {
            body += &page::contest(&row.contest);
            body.extend(["<p>", &page::escaped(&row.says()), "</p>\n"]);
        }
        body
    })?;
    Ok(out.finish())
}

/// What contests are called that an earlier build is asked for.
const NAMES: [(usize, &str); 5] =
    [(1, "1 writer"), (2, "2 writers"), (8, "8 writers"), (64, "64 writers"), (256, "256 writers")];

/// One of the logs, and what it cost the processor.
struct Side {
    log: Ours,
    commits: Cell<u64>,
    time: Cell<Duration>,
}

impl Side {
    fn new(path: &Path, parity: Option<seawall::Parity>, size: usize) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        let options = Options::new().level(Level::Synced).parity(parity).retention(kept);
        let log = Ours::new(path, &options, size)?;
        Ok(Self { log, commits: Cell::default(), time: Cell::default() })
    }

    fn slice(&self, writers: usize, time: Duration) -> Result<Slice, Trouble> {
        let before = processor_time();
        let slice = self.log.slice(writers, time).map_err(Trouble::Ours)?;
        if let (Some(before), Some(after)) = (before, processor_time()) {
            self.time.set(self.time.get() + after.saturating_sub(before));
            let count = u64::try_from(slice.times.len()).unwrap_or(u64::MAX);
            self.commits.set(self.commits.get() + count);
        }
        Ok(slice)
    }

    fn forget(&self) {
        self.commits.take();
        self.time.take();
    }

    /// Processor time of a commit, in microseconds.
    fn cost_us(&self) -> Option<f64> {
        let commits = Some(self.commits.get()).filter(|commits| *commits > 0)?;
        Some(self.time.get().as_secs_f64() * 1e6 / to_f64(commits))
    }
}

/// What came of one number of writers.
struct Found {
    contest: Contest,
    /// Processor time of a commit with parity and without, in microseconds.
    cost_us: [Option<f64>; 2],
}

impl Found {
    fn says(&self) -> String {
        match self.cost_us {
            [Some(with), Some(without)] => format!(
                "A commit took {} us of processor time with parity, {} without.",
                rounded(with),
                rounded(without)
            ),
            _ => "The system does not tell what a commit costs the processor.".to_owned(),
        }
    }
}

fn as_json(args: &BenchParity, rows: &[Found], conditions: &Conditions) -> Value {
    let costs = rows.iter().map(|row| json!({ "parity": row.cost_us[0], "none": row.cost_us[1] }));
    json!({
        "schema": SCHEMA,
        "dir": args.dir.display().to_string(),
        "record_bytes": args.size,
        "parity": args.parity.to_string(),
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "commit_us": costs.collect::<Vec<_>>(),
        "contests": rows.iter().map(|row| row.contest.as_json()).collect::<Vec<_>>(),
    })
}
