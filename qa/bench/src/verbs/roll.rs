//! `seawall-bench roll`: the cost of starting a new segment, and the longest write while the next
//! file is created in the background.

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage, failure};
use crate::failure::Failure;
use crate::page;
use seawall::{Log, Options, Raw, Retention};
use seawall_io::{Clock, PosixStorage, SystemClock};
use seawall_measure::contest::{Entry, hold_in_slices};
use seawall_measure::human::{bytes, rounded, times};
use seawall_measure::pairs::{Plain, Trouble};
use seawall_measure::slice::{Slice, by_one, per_mille};
use serde_json::json;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Segment size of the log that hardly ever rotates, and size of the plain file.
const LARGE: u64 = 64 << 20;
/// The allowed range of the smaller segment size.
const SEGMENTS: RangeInclusive<u64> = 1 << 20..=LARGE;
/// Number of full segments that a log keeps. Each new segment removes the oldest.
const KEPT: u64 = 2;
/// Bytes of a set that fills the log before the measurement.
const FILL: usize = 1 << 20;
/// Pause after each set, so that the next segment's file is ready in time.
const FILL_PAUSE: Duration = Duration::from_millis(15);
/// Long enough for several rotations.
const SLICE: Duration = Duration::from_millis(250);

impl Bench for args::Roll {
    const NAME: &'static str = "roll";
    const TITLE: &'static str = "What a new segment costs";
    type Found = Found;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "One thread that waits for each of its records, in a log of large segments and in one of \
         small ones, beside plain writes, each with its sync, one by one and two at once, as in \
         a rotation."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![
            ("record_bytes", json!(self.common.size(Self::NAME))),
            ("segment_bytes", json!(self.segment_size)),
        ]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        vec![(Self::NAME, format!("synced writes of {size} bytes by one thread"))]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Found, Failure> {
        let fail = |trouble: Trouble| failure(&self.common.dir, &trouble);
        if !SEGMENTS.contains(&self.segment_size) {
            let size = bytes(self.segment_size);
            let says = format!("segments of {size} are not between 1 and 64 MiB");
            return Err(Failure::usage(says, "--segment-size", "give a size in between, as 4MiB"));
        }
        let size = self.common.size(Self::NAME);
        let plain = Plain::new(stage.folder(), LARGE, size);
        let plain = RefCell::new(plain.map_err(|error| fail(Trouble::Plain(error)))?);
        let folder = stage.folder().join("beside");
        let beside = PosixStorage::create(&folder).and_then(|_| Plain::new(&folder, LARGE, size));
        let mut beside = beside.map_err(|error| fail(Trouble::Plain(error)))?;
        let make = |name, segment| Rolling::new(&stage.folder().join(name), segment, size);
        let seldom = make("seldom", LARGE).map_err(|error| fail(Trouble::Ours(error)))?;
        let often = make("often", self.segment_size).map_err(|error| fail(Trouble::Ours(error)))?;
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
            Entry::new(named(self.segment_size), |time| often.slice(time).map_err(Trouble::Ours)),
            Entry::new("plain writes and syncs", by_plain),
            Entry::new("two of them at once", |time| {
                plain.borrow_mut().slice_beside(&mut beside, time).map_err(Trouble::Plain)
            }),
        ];
        let standings = hold_in_slices(&mut entries, stage.time(), SLICE).map_err(fail)?;
        drop(entries);
        let longest = [seldom.longest(), often.longest(), longest.into_inner()];
        let crossings = often.close().map_err(|error| fail(Trouble::Ours(error)))?;
        seldom.close().map_err(|error| fail(Trouble::Ours(error)))?;
        stage.keep_one(self.contests(), standings)?;
        Ok(Found { crossings, longest })
    }

    fn remarks(&self, found: &Found, _: &[Compared]) -> Vec<String> {
        [String::new()].into_iter().chain(found.lines()).collect()
    }

    fn results(&self, found: &Found, held: &[Compared]) -> Fields {
        let [crossing, others] = found.medians();
        let [seldom, often, plain] = found.longest_us();
        vec![
            ("crossings", json!(found.crossings.crossing.len())),
            ("crossing_p50_us", json!(crossing)),
            ("other_p50_us", json!(others)),
            ("longest_us", json!({ "large": seldom, "small": often, "plain": plain })),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, found: &Found, held: &[Compared]) -> String {
        let contests: String = held.iter().map(page::contest).collect();
        let [crossing, longest] = found.lines();
        format!("{contests}<p>{crossing}</p>\n<p>{longest}</p>\n")
    }
}

/// A log, and the times of its writes, separately for those that continued in a new segment.
struct Rolling {
    log: Log<[u8], Raw>,
    record: Vec<u8>,
    times: RefCell<Crossings>,
}

/// Durations of writes, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// Writes that continued in a new segment.
    crossing: Vec<u32>,
    others: Vec<u32>,
}

impl Rolling {
    fn new(path: &Path, segment: u64, size: usize) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT * segment).without_checkpoints();
        let options = Options::new().idle_mark(None).retention(kept).segment_size(segment);
        let log: Log<[u8], Raw> = options.open(path)?;
        let record = vec![0x5a; size];
        // The first segments are small, so fill the log until segments have full size. Fill it
        // slowly, so that the next file is always preallocated and its blocks count as written.
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

/// The results that a table of rates does not show.
#[derive(Debug)]
pub(crate) struct Found {
    crossings: Crossings,
    /// The longest writes with large segments, with small ones, and plain, in nanoseconds.
    longest: [u32; 3],
}

impl Found {
    /// The median of the writes that crossed into a new segment, and of the others, in
    /// microseconds; `None` if there were none.
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
}
