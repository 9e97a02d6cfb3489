//! `seawall bench roll`: what it costs that a log goes on in a new segment, and how long the
//! longest write takes while the next file is made beside it.

use super::beside::{Past, Report, compare};
use super::{failure, tell_conditions};
use crate::args::BenchRoll;
use crate::human::{bytes, rounded, times};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use seawall::{Log, Options, Raw, Retention};
use seawall_io::{Clock, SystemClock};
use seawall_measure::contest::{Contest, Entry, hold_in_slices};
use seawall_measure::machine::Conditions;
use seawall_measure::page;
use seawall_measure::pairs::{Plain, Trouble};
use seawall_measure::slice::{Slice, by_one, per_mille};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

const SCHEMA: &str = "seawall.bench-roll/1";
/// The segments of the log that hardly ever rolls; and the plain file.
const LARGE: u64 = 64 << 20;
/// What the others may have.
const SEGMENTS: RangeInclusive<u64> = 1 << 20..=LARGE;
/// What a log keeps of what was written, in bytes.
const KEPT: u64 = 256 << 20;
/// Bytes of the sets that fill what comes before.
const FILL: usize = 1 << 20;
/// What the next segment's file is made in, for as many bytes.
const FILL_PAUSE: Duration = Duration::from_millis(15);
/// Long enough for a few rolls.
const SLICE: Duration = Duration::from_millis(250);

/// Measures both logs beside the plain file.
pub(crate) fn run(args: &BenchRoll) -> Result<Exit, Failure> {
    let fail = |trouble: Trouble| failure(&args.dir, &trouble);
    if !SEGMENTS.contains(&args.segment_size) {
        let says = format!("segments of {} are not between 1 and 64 MiB", bytes(args.segment_size));
        let failure = Failure::new(Exit::Usage, says).at("--segment-size");
        return Err(failure.next("give a size in between, as 4MiB"));
    }
    let settings = [
        ("schema", json!(SCHEMA)),
        ("record_bytes", json!(args.size)),
        ("segment_bytes", json!(args.segment_size)),
    ];
    let past = Past::read(&args.beside, &settings)?;
    let asks = format!("synced writes of {} bytes by one thread", args.size);
    if let Some(past) = &past {
        past.has([("roll", asks.clone())].into_iter())?;
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let plain = Plain::new(scratch.path(), LARGE, args.size);
    let plain = RefCell::new(plain.map_err(|error| fail(Trouble::Plain(error)))?);
    let make = |name, size| Rolling::new(&scratch.path().join(name), size, args.size);
    let seldom = make("seldom", LARGE).map_err(|error| fail(Trouble::Ours(error)))?;
    let often = make("often", args.segment_size).map_err(|error| fail(Trouble::Ours(error)))?;
    let longest = RefCell::new(0);
    let by_plain = |time| {
        let slice = plain.borrow_mut().slice(time).map_err(Trouble::Plain)?;
        let mut longest = longest.borrow_mut();
        *longest = slice.times.iter().copied().fold(*longest, u32::max);
        Ok(slice)
    };
    let named = |size| format!("segments of {}", bytes(size));
    let mut entries: Vec<Entry<'_, Trouble>> = vec![
        Entry::new(named(LARGE), |time| seldom.slice(time).map_err(Trouble::Ours)),
        Entry::new(named(args.segment_size), |time| often.slice(time).map_err(Trouble::Ours)),
        Entry::new("plain writes and syncs", by_plain),
    ];
    let time = Duration::from_secs_f64(args.time);
    let standings = hold_in_slices(&mut entries, time, SLICE).map_err(fail)?;
    drop(entries);
    let longest = [seldom.longest(), often.longest(), longest.into_inner()];
    let crossings = often.close().map_err(|error| fail(Trouble::Ours(error)))?;
    seldom.close().map_err(|error| fail(Trouble::Ours(error)))?;
    let mut contest = Contest { name: "roll", asks, standings };
    compare(&mut contest, past.as_ref())?;
    let found = Found { crossings, longest };
    let mut out = Output::new();
    let conditions = Conditions::of([contest.standings.others]);
    if args.look.json {
        let mut answer = found.as_json(args, &conditions, &contest);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    } else {
        out.lines(&contest.lines());
        out.line("");
        out.lines(&found.lines());
    }
    tell_conditions(&mut out, args.look, &conditions);
    report.write("seawall bench roll", || {
        let about = "One thread that waits for each of its records, in a log of large segments \
                     and in one of small ones, beside plain writes, each with its sync.";
        let title = "What a new segment costs";
        let body = page::head(title, &conditions, (about, &args.dir)) + &page::contest(&contest);
        let [crossing, longest] = found.lines();
        format!("{body}<p>{crossing}</p>\n<p>{longest}</p>\n")
    })?;
    Ok(out.finish())
}

/// A log whose writes are told apart by whether they went on in a new segment.
struct Rolling {
    log: Log<[u8], Raw>,
    record: Vec<u8>,
    times: RefCell<Crossings>,
}

/// How long writes took, in nanoseconds.
#[derive(Debug, Default)]
struct Crossings {
    /// Of those that went on in a new segment.
    crossing: Vec<u32>,
    others: Vec<u32>,
}

impl Rolling {
    fn new(path: &Path, segment: u64, size: usize) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        let options = Options::new().idle_mark(None).retention(kept).segment_size(segment);
        let log: Log<[u8], Raw> = options.open(path)?;
        let record = vec![0x5a; size];
        // The first segments are small; what is measured begins when they have their size. Slowly,
        // so that the next one is always there: its blocks then count as written.
        let set: Vec<&[u8]> = vec![&record; (FILL / size.max(1)).max(1)];
        let clock = SystemClock::new();
        while log.stats().bytes < 2 * segment + segment / 4 {
            log.append_batch(set.iter().copied())?;
            clock.sleep(FILL_PAUSE);
        }
        Ok(Self { log, record, times: RefCell::default() })
    }

    fn slice(&self, time: Duration) -> seawall::Result<Slice> {
        let (mut rolls, mut rolled) = (self.log.stats().rolls, vec![]);
        let slice = by_one(time, || {
            self.log.append(&self.record)?;
            let before = std::mem::replace(&mut rolls, self.log.stats().rolls);
            rolled.push(rolls > before);
            Ok(())
        })?;
        let mut times = self.times.borrow_mut();
        for (took, rolled) in slice.times.iter().zip(rolled) {
            let kind = if rolled { &mut times.crossing } else { &mut times.others };
            kind.push(*took);
        }
        Ok(slice)
    }

    fn longest(&self) -> u32 {
        let times = self.times.borrow();
        times.crossing.iter().chain(&times.others).copied().max().unwrap_or(0)
    }

    fn close(self) -> seawall::Result<Crossings> {
        self.log.close()?;
        Ok(self.times.into_inner())
    }
}

/// What a table of rates does not say.
struct Found {
    crossings: Crossings,
    /// Of large segments, small ones, and plain, in nanoseconds.
    longest: [u32; 3],
}

impl Found {
    /// Half of the crossing writes, and of the others, took less, in microseconds; `None`: there
    /// were none.
    fn medians(&self) -> [Option<f64>; 2] {
        let Crossings { crossing, others } = &self.crossings;
        let half = |times: &Vec<u32>| per_mille(&mut times.clone(), 500);
        [crossing, others].map(|times| (!times.is_empty()).then(|| half(times)))
    }

    fn longest_us(&self) -> [f64; 3] {
        self.longest.map(|time| f64::from(time) / 1000.0)
    }

    fn lines(&self) -> [String; 2] {
        let count = self.crossings.crossing.len();
        let crossing = match self.medians() {
            [Some(crossing), Some(others)] => format!(
                "Half of the {count} writes that went on in a new segment took less than {} us, {} \
                 more than the others.",
                rounded(crossing),
                rounded(crossing - others),
            ),
            _ => "No write went on in a new segment: --time is too short for that.".to_owned(),
        };
        let [seldom, often, plain] = self.longest_us();
        let beside = |time: f64| times(time / plain.max(1e-9));
        let longest = format!(
            "The longest write: {} us ({}) and {} us ({}), plain {} us.",
            rounded(seldom),
            beside(seldom),
            rounded(often),
            beside(often),
            rounded(plain),
        );
        [crossing, longest]
    }

    fn as_json(&self, args: &BenchRoll, conditions: &Conditions, contest: &Contest) -> Value {
        let [crossing, others] = self.medians();
        let [seldom, often, plain] = self.longest_us();
        json!({
            "schema": SCHEMA,
            "dir": args.dir.display().to_string(),
            "record_bytes": args.size,
            "segment_bytes": args.segment_size,
            "ranked": conditions.are_good(),
            "others_share": conditions.others().share(),
            "crossings": self.crossings.crossing.len(),
            "crossing_p50_us": crossing,
            "other_p50_us": others,
            "longest_us": { "large": seldom, "small": often, "plain": plain },
            "contests": [contest.as_json()],
        })
    }
}
