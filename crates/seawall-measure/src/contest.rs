//! Compares several ways to do the same thing, in short alternating slices.
//!
//! The speed of a disk drifts by half within a second, so each way is only compared with the first
//! way of the same round. The first way runs twice per round: its difference from itself is the
//! noise, and a smaller difference between ways means nothing.

mod shown;

use crate::load::{Others, Watch};
use crate::slice::{Slice, mean_us, median, per_mille};
use seawall_io::{Entropy, SystemEntropy};
use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

/// The minimum number of rounds for a useful result.
const ROUNDS_MIN: u32 = 12;
/// Slices are long enough for several syncs and short enough to limit drift between neighbours.
const SLICE_MIN: Duration = Duration::from_millis(5);
const SLICE_MAX: Duration = Duration::from_millis(50);
/// If the middle half of the noise ratios spans more than this factor, nothing is ranked.
const NOISE_MAX: f64 = 1.5;
/// The minimum number of samples for the 99.9th percentile.
const TIMES_FOR_THOUSANDTHS: usize = 10_000;

/// One way of doing the work, with a function that does it for a given time.
pub struct Entry<'a, E> {
    /// The name in tables.
    pub name: Cow<'static, str>,
    /// Does the work for this long.
    pub act: Box<dyn FnMut(Duration) -> Result<Slice, E> + 'a>,
}

impl<E> Debug for Entry<'_, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, E> Entry<'a, E> {
    /// Creates an entry with this name.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        act: impl FnMut(Duration) -> Result<Slice, E> + 'a,
    ) -> Self {
        Self { name: name.into(), act: Box::new(act) }
    }
}

/// The result of one way.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name of the way.
    pub name: Cow<'static, str>,
    /// Operations per second, over all slices.
    pub per_second: Spread,
    /// The mean latency over all slices, in microseconds.
    pub mean_us: f64,
    /// The median latency.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile; `None` with too few samples.
    pub p999_us: Option<f64>,
    /// The speed relative to the first way of the same rounds.
    pub ratio: Spread,
    /// The conclusion.
    pub verdict: Verdict,
}

/// The distribution of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub lowest: f64,
    /// The maximum.
    pub highest: f64,
    /// The lower and upper quartile.
    pub quartiles: [f64; 2],
}

/// The comparison of a way with the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This is the first way.
    First,
    /// The difference is within the noise.
    Same,
    /// Faster in most rounds, by more than the noise.
    Faster,
    /// Slower in most rounds, by more than the noise.
    Slower,
    /// The noise is too large to compare.
    TooNoisy,
    /// Other programs used the processors during the measurement.
    NotRanked,
}

impl Verdict {
    /// The name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::TooNoisy => "too noisy",
            Self::NotRanked => "not ranked",
        }
    }

    /// Returns the verdict with this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::First, Self::Same, Self::Faster, Self::Slower];
        let unsure = [Self::TooNoisy, Self::NotRanked];
        all.into_iter().chain(unsure).find(|verdict| verdict.name() == name)
    }

    /// Returns whether the measurement allows no conclusion.
    #[must_use]
    pub fn is_unsure(self) -> bool {
        matches!(self, Self::TooNoisy | Self::NotRanked)
    }
}

/// The results of a contest.
#[derive(Clone, Debug)]
pub struct Standings {
    /// One row per way.
    pub rows: Vec<Row>,
    /// The second run of the first way in each round, relative to its first run.
    pub noise: Spread,
    /// The number of rounds.
    pub rounds: u32,
    /// The processor use of other programs.
    pub others: Others,
}

impl Standings {
    /// Marks every verdict as not ranked.
    pub fn rank_nothing(&mut self) {
        let others = self.rows.iter_mut().filter(|row| row.verdict != Verdict::First);
        others.for_each(|row| row.verdict = Verdict::NotRanked);
    }
}

/// A question and its result.
#[derive(Debug)]
pub struct Contest {
    /// The name in JSON.
    pub name: &'static str,
    /// The question, for people.
    pub asks: String,
    /// The result.
    pub standings: Standings,
}

/// The slices of one way.
#[derive(Default)]
struct Done {
    rates: Vec<f64>,
    times: Vec<u32>,
}

/// Runs all ways in turns for about `time`. The order rotates from round to round, so that drift
/// favours no way. If other programs use the processors, nothing is ranked.
///
/// # Errors
///
/// The first error of a way. Earlier measurements are dropped.
pub fn hold<E>(entries: &mut [Entry<'_, E>], time: Duration) -> Result<Standings, E> {
    hold_in_slices(entries, time, SLICE_MAX)
}

/// As [`hold`], with slices of up to `slice_max` if there is time for enough rounds: for ways that
/// do work in the background, which should happen within their own slices.
///
/// # Errors
///
/// As [`hold`].
pub fn hold_in_slices<E>(
    entries: &mut [Entry<'_, E>],
    time: Duration,
    slice_max: Duration,
) -> Result<Standings, E> {
    let plan = slices_and_rounds(entries.len(), (time, slice_max));
    take_turns(entries, plan, &mut rotated)
}

/// As [`hold_in_slices`], with a random order in each round: for ways that leave work to the file
/// system or the device, so that this work burdens no particular way. Calls `tell` before each
/// round with the number of finished rounds and of all rounds.
///
/// # Errors
///
/// As [`hold`].
pub fn hold_shuffled<E>(
    entries: &mut [Entry<'_, E>],
    time: Duration,
    slice_max: Duration,
    tell: &mut dyn FnMut(u32, u32),
) -> Result<Standings, E> {
    let (slice, rounds) = slices_and_rounds(entries.len(), (time, slice_max));
    take_turns(entries, (slice, rounds), &mut |round, turns| {
        tell(round, rounds);
        shuffled(turns)
    })
}

/// As [`hold`], for `rounds` rounds of ways that do a complete piece of work in each turn, however
/// long it takes.
///
/// # Errors
///
/// As [`hold`].
pub fn hold_whole<E>(entries: &mut [Entry<'_, E>], rounds: u32) -> Result<Standings, E> {
    take_turns(entries, (Duration::ZERO, rounds), &mut rotated)
}

/// Divides the time into slices for `ways` ways, the first of which runs twice in a round.
fn slices_and_rounds(ways: usize, (time, slice_max): (Duration, Duration)) -> (Duration, u32) {
    let count = u32::try_from(ways + 1).expect("the number of ways is small");
    let slice = (time / (ROUNDS_MIN * count)).min(slice_max).max(SLICE_MIN);
    let mut rounds = ROUNDS_MIN;
    while slice * count * (rounds + 1) <= time {
        rounds += 1;
    }
    (slice, rounds)
}

/// Returns every turn; each round begins one turn later.
fn rotated(round: u32, turns: usize) -> Vec<usize> {
    let round = usize::try_from(round).expect("the number of rounds is small");
    (0..turns).map(|turn| (turn + round) % turns).collect()
}

/// Returns every turn in random order, or in order if the system has no random numbers.
fn shuffled(turns: usize) -> Vec<usize> {
    let draw = |turn| (SystemEntropy.random().unwrap_or_default(), turn);
    let mut drawn: Vec<_> = (0..turns).map(draw).collect();
    drawn.sort_unstable();
    drawn.into_iter().map(|(_, turn)| turn).collect()
}

fn take_turns<E>(
    entries: &mut [Entry<'_, E>],
    (slice, rounds): (Duration, u32),
    order: &mut dyn FnMut(u32, usize) -> Vec<usize>,
) -> Result<Standings, E> {
    // The first way runs twice.
    let turns = entries.len() + 1;
    let mut done: Vec<Done> = (0..turns).map(|_| Done::default()).collect();
    let watch = Watch::start();
    for round in 0..rounds {
        for place in order(round, turns) {
            let entry = entries
                .get_mut(place % (turns - 1))
                .expect("a remainder is below the number of entries");
            let Slice { per_second, times } = (entry.act)(slice)?;
            let done = done.get_mut(place).expect("one result for each turn");
            done.rates.push(per_second);
            done.times.extend(times);
        }
    }
    let others = watch.others();
    let again = done.pop().expect("the first entry runs twice");
    let done = entries.iter().map(|entry| entry.name.clone()).zip(done).collect();
    Ok(judge(done, &again.rates, (rounds, others)))
}

fn judge(
    done: Vec<(Cow<'static, str>, Done)>,
    again: &[f64],
    (rounds, others): (u32, Others),
) -> Standings {
    let first = done.first().map(|(_, first)| first.rates.clone()).unwrap_or_default();
    let beside = |rates: &[f64]| -> Vec<f64> {
        rates.iter().zip(&first).map(|(rate, first)| rate / first.max(1e-9)).collect()
    };
    let noise = beside(again);
    let row = |(place, (name, mut done)): (usize, (Cow<'static, str>, Done))| {
        let ratios = beside(&done.rates);
        let verdict = if place == 0 { Verdict::First } else { verdict(&ratios, &noise) };
        let is_enough = done.times.len() >= TIMES_FOR_THOUSANDTHS;
        Row {
            name,
            per_second: spread(&done.rates),
            mean_us: mean_us(&done.times),
            p50_us: per_mille(&mut done.times, 500),
            p99_us: per_mille(&mut done.times, 990),
            p999_us: is_enough.then(|| per_mille(&mut done.times, 999)),
            ratio: spread(&ratios),
            verdict,
        }
    };
    let rows = done.into_iter().enumerate().map(row).collect();
    let mut standings = Standings { rows, noise: spread(&noise), rounds, others };
    if !others.is_quiet() {
        standings.rank_nothing();
    }
    standings
}

/// Compares the ratios of a way with the noise.
fn verdict(ratios: &[f64], noise: &[f64]) -> Verdict {
    let [low, high] = middle_half(noise);
    if high > low * NOISE_MAX {
        return Verdict::TooNoisy;
    }
    // Most rounds must agree, and differ by more than the noise.
    let [most_low, most_high] = middle_half(ratios);
    if most_low > high.max(1.0) {
        Verdict::Faster
    } else if most_high < low.min(1.0) {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

/// The lower and upper quartile of some values.
fn middle_half(values: &[f64]) -> [f64; 2] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    [at(values.len() / 4), at((values.len() * 3 / 4).min(values.len().saturating_sub(1)))]
}

/// The distribution of some values.
#[must_use]
pub fn spread(values: &[f64]) -> Spread {
    let quartiles = middle_half(values);
    let mut values = values.to_vec();
    let median = median(&mut values);
    let end = |value: Option<&f64>| value.copied().unwrap_or_default();
    Spread { median, lowest: end(values.first()), highest: end(values.last()), quartiles }
}

#[cfg(test)]
mod tests;
