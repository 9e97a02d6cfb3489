//! Ways to do the same thing, measured in short slices by turns, and what may be said of them.
//!
//! A disk drifts by half within a second, so each way is compared with the first one of the same
//! round only. The first one runs twice in each round: how far it differs from itself is the noise,
//! and a difference within the noise is none.

mod shown;

use crate::load::{Others, Watch};
use crate::slice::{Slice, median, per_mille};
use std::borrow::Cow;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

/// Fewer rounds say nothing.
const ROUNDS_MIN: u32 = 12;
/// A slice holds some syncs at least, and drift between neighbours is small.
const SLICE_MIN: Duration = Duration::from_millis(5);
const SLICE_MAX: Duration = Duration::from_millis(50);
/// If the middle half of what a way makes of itself spans more than this, nothing is ranked.
const NOISE_MAX: f64 = 1.5;
/// So many times are needed before one in a thousand is more than a single hiccup.
const TIMES_FOR_THOUSANDTHS: usize = 10_000;

/// One way, and how it is done for a while.
pub struct Entry<'a, E> {
    /// As the tables call it.
    pub name: Cow<'static, str>,
    /// Does it for that long.
    pub act: Box<dyn FnMut(Duration) -> Result<Slice, E> + 'a>,
}

impl<E> Debug for Entry<'_, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, E> Entry<'a, E> {
    /// A way by its name.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        act: impl FnMut(Duration) -> Result<Slice, E> + 'a,
    ) -> Self {
        Self { name: name.into(), act: Box::new(act) }
    }
}

/// What came of one way.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Median, lowest and highest of the slices.
    pub per_second: Spread,
    /// Half of all its times of all slices were below, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 were.
    pub p99_us: f64,
    /// 999 of 1,000 were; `None` if there were too few to tell.
    pub p999_us: Option<f64>,
    /// Beside the first way of the same rounds.
    pub ratio: Spread,
    /// What may be said of that.
    pub verdict: Verdict,
}

/// The middle of some values, and their ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
    /// Where the middle half of them begins, and where it ends.
    pub quartiles: [f64; 2],
}

/// What may be said of a way beside the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the first one.
    First,
    /// It differs by less than the first one does from itself.
    Same,
    /// It is faster in most rounds, by more than that.
    Faster,
    /// It is slower in most rounds, by more than that.
    Slower,
    /// The first one differs too much from itself.
    TooNoisy,
    /// Others used the processors meanwhile.
    NotRanked,
}

impl Verdict {
    /// A word for it.
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

    /// The verdict that has this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::First, Self::Same, Self::Faster, Self::Slower];
        let unsure = [Self::TooNoisy, Self::NotRanked];
        all.into_iter().chain(unsure).find(|verdict| verdict.name() == name)
    }

    /// Whether nothing may be said.
    #[must_use]
    pub fn is_unsure(self) -> bool {
        matches!(self, Self::TooNoisy | Self::NotRanked)
    }
}

/// What came of all of them.
#[derive(Clone, Debug)]
pub struct Standings {
    /// One for each way.
    pub rows: Vec<Row>,
    /// The first way beside itself.
    pub noise: Spread,
    /// How many rounds there were.
    pub rounds: u32,
    /// Who else was at work.
    pub others: Others,
}

impl Standings {
    /// Takes back every verdict.
    pub fn rank_nothing(&mut self) {
        let others = self.rows.iter_mut().filter(|row| row.verdict != Verdict::First);
        others.for_each(|row| row.verdict = Verdict::NotRanked);
    }
}

/// One question, and its answer.
#[derive(Debug)]
pub struct Contest {
    /// As programs know it.
    pub name: &'static str,
    /// The question, as people read it.
    pub asks: String,
    /// The answer.
    pub standings: Standings,
}

/// Everybody's slices of one way.
#[derive(Default)]
struct Done {
    rates: Vec<f64>,
    times: Vec<u32>,
}

/// Lets all ways run by turns for about that long. Who begins changes from round to round, so that
/// drift favours nobody. Beside others nothing is ranked.
///
/// # Errors
///
/// The first of those of a way; what was measured before it is gone.
pub fn hold<E>(entries: &mut [Entry<'_, E>], time: Duration) -> Result<Standings, E> {
    hold_in_slices(entries, time, SLICE_MAX)
}

/// As [`hold`], in slices of up to `slice_max` where the time is enough for as many rounds: for
/// ways that go on working behind the back of their callers, so that they pay for it themselves.
///
/// # Errors
///
/// As [`hold`].
pub fn hold_in_slices<E>(
    entries: &mut [Entry<'_, E>],
    time: Duration,
    slice_max: Duration,
) -> Result<Standings, E> {
    // The first one once more.
    let turns = entries.len() + 1;
    let count = u32::try_from(turns).expect("a few ways");
    let slice = (time / (ROUNDS_MIN * count)).min(slice_max).max(SLICE_MIN);
    let mut rounds = ROUNDS_MIN;
    while slice * count * (rounds + 1) <= time {
        rounds += 1;
    }
    take_turns(entries, (slice, rounds))
}

/// As [`hold`], for ways that do a whole piece of work in each turn, however long that takes: so
/// many rounds of it.
///
/// # Errors
///
/// As [`hold`].
pub fn hold_whole<E>(entries: &mut [Entry<'_, E>], rounds: u32) -> Result<Standings, E> {
    take_turns(entries, (Duration::ZERO, rounds))
}

fn take_turns<E>(
    entries: &mut [Entry<'_, E>],
    (slice, rounds): (Duration, u32),
) -> Result<Standings, E> {
    let turns = entries.len() + 1;
    let mut done: Vec<Done> = (0..turns).map(|_| Done::default()).collect();
    let watch = Watch::start();
    for round in 0..usize::try_from(rounds).expect("not that many") {
        for turn in 0..turns {
            let place = (turn + round) % turns;
            let entry = entries.get_mut(place % (turns - 1)).expect("the last is the first again");
            let Slice { per_second, times } = (entry.act)(slice)?;
            let done = done.get_mut(place).expect("as many as turns");
            done.rates.push(per_second);
            done.times.extend(times);
        }
    }
    let others = watch.others();
    let again = done.pop().expect("the first one once more");
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

/// Whether these differ by more than `noise`.
fn verdict(ratios: &[f64], noise: &[f64]) -> Verdict {
    let [low, high] = middle_half(noise);
    if high > low * NOISE_MAX {
        return Verdict::TooNoisy;
    }
    // Most rounds must say so, and say more than what a way makes of itself.
    let [most_low, most_high] = middle_half(ratios);
    if most_low > high.max(1.0) {
        Verdict::Faster
    } else if most_high < low.min(1.0) {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

/// Where the second and the third quarter of some values begin and end.
fn middle_half(values: &[f64]) -> [f64; 2] {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    [at(values.len() / 4), at((values.len() * 3 / 4).min(values.len().saturating_sub(1)))]
}

/// The middle of these, and their ends.
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
