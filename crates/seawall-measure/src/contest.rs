//! Ways to do the same thing, measured in short slices by turns, and what may be said of them.
//!
//! A disk drifts by half within a second, so each way is compared with the first one of the same
//! round only. The first one runs twice in each round: how far it differs from itself is the noise,
//! and a difference within the noise is none.

use crate::human::rounded;
use crate::load::{Others, Watch};
use crate::slice::{Slice, median, per_mille};
use serde_json::{Value, json};
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
    pub name: &'static str,
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
    pub fn new(name: &'static str, act: impl FnMut(Duration) -> Result<Slice, E> + 'a) -> Self {
        Self { name, act: Box::new(act) }
    }
}

/// What came of one way.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
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
    fn rank_nothing(&mut self) {
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

impl Contest {
    /// A table for people; its first line is empty.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Standings { rows, noise, rounds, others } = &self.standings;
        let head = format!(
            "{:<24}{:>9}{:>9}{:>9}{:>9}  beside the first",
            "", "a second", "p50 us", "p99 us", "p99.9"
        );
        let mut lines = vec![String::new(), self.asks.clone(), head];
        lines.extend(rows.iter().map(Row::line));
        let (low, high) = (noise.lowest, noise.highest);
        lines.push(format!(
            "  the first one beside itself: {low:.2}x to {high:.2}x, in {rounds} rounds"
        ));
        lines.extend(others.says().map(|says| format!("  {says}")));
        lines
    }

    /// The same for programs.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let Standings { rows, noise, rounds, others } = &self.standings;
        json!({
            "name": self.name,
            "asks": self.asks,
            "rounds": rounds,
            "noise": [noise.lowest, noise.median, noise.highest],
            "others_share": others.share(),
            "rows": rows.iter().map(Row::as_json).collect::<Vec<_>>(),
        })
    }
}

impl Row {
    fn line(&self) -> String {
        let rate = rounded(self.per_second.median);
        let p999 = self.p999_us.map_or("-".to_owned(), rounded);
        let times = format!("{:>9}{:>9}{:>9}", rounded(self.p50_us), rounded(self.p99_us), p999);
        let line = format!("  {:<22}{rate:>9}{times}  {}", self.name, self.beside());
        line.trim_end().to_owned()
    }

    fn beside(&self) -> String {
        match self.verdict {
            Verdict::First => String::new(),
            verdict if self.ratio.median >= 100.0 => {
                format!("{}x  {}", rounded(self.ratio.median), verdict.name())
            }
            verdict => format!("{:.2}x  {}", self.ratio.median, verdict.name()),
        }
    }

    fn as_json(&self) -> Value {
        let Self { name, per_second, ratio, .. } = self;
        json!({
            "name": name,
            "per_s": per_second.median,
            "per_s_lowest": per_second.lowest,
            "per_s_highest": per_second.highest,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "p999_us": self.p999_us,
            "ratio": ratio.median,
            "ratio_lowest": ratio.lowest,
            "ratio_highest": ratio.highest,
            "verdict": self.verdict.name(),
        })
    }
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
    // The first one once more.
    let turns = entries.len() + 1;
    let count = u32::try_from(turns).expect("a few ways");
    let slice = (time / (ROUNDS_MIN * count)).clamp(SLICE_MIN, SLICE_MAX);
    let mut rounds = ROUNDS_MIN;
    while slice * count * (rounds + 1) <= time {
        rounds += 1;
    }
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
    let done = entries.iter().map(|entry| entry.name).zip(done).collect();
    Ok(judge(done, &again.rates, (rounds, others)))
}

fn judge(
    done: Vec<(&'static str, Done)>,
    again: &[f64],
    (rounds, others): (u32, Others),
) -> Standings {
    let first = done.first().map(|(_, first)| first.rates.clone()).unwrap_or_default();
    let beside = |rates: &[f64]| -> Vec<f64> {
        rates.iter().zip(&first).map(|(rate, first)| rate / first.max(1e-9)).collect()
    };
    let noise = beside(again);
    let row = |(place, (name, mut done)): (usize, (&'static str, Done))| {
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
    let (low, high) = middle_half(noise);
    if high > low * NOISE_MAX {
        return Verdict::TooNoisy;
    }
    // Most rounds must say so, and say more than what a way makes of itself.
    let (most_low, most_high) = middle_half(ratios);
    if most_low > high.max(1.0) {
        Verdict::Faster
    } else if most_high < low.min(1.0) {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

/// Where the second and the third quarter of some values begin and end.
fn middle_half(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    (at(values.len() / 4), at((values.len() * 3 / 4).min(values.len().saturating_sub(1))))
}

fn spread(values: &[f64]) -> Spread {
    let mut values = values.to_vec();
    let median = median(&mut values);
    let end = |value: Option<&f64>| value.copied().unwrap_or_default();
    Spread { median, lowest: end(values.first()), highest: end(values.last()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: [f64; 12] = [1.0, 0.98, 1.02, 1.01, 0.99, 1.0, 1.03, 0.97, 1.0, 1.01, 0.99, 1.0];

    #[test]
    fn what_differs_by_less_than_the_first_from_itself_is_the_same() {
        assert_eq!(verdict(&QUIET, &QUIET), Verdict::Same);
        assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.01), &QUIET), Verdict::Same);
        assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &QUIET), Verdict::Faster);
        assert_eq!(verdict(&QUIET.map(|ratio| ratio * 0.7), &QUIET), Verdict::Slower);
    }

    #[test]
    fn where_the_first_is_no_like_of_itself_nothing_is_ranked() {
        let wild: Vec<f64> = (0..12).map(|n| if n % 2 == 0 { 0.5 } else { 1.5 }).collect();
        assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &wild), Verdict::TooNoisy);
        // One round in which somebody else used the disk is not many.
        let mut once = QUIET;
        once[3] = 0.1;
        assert_eq!(verdict(&QUIET.map(|ratio| ratio * 1.3), &once), Verdict::Faster);
    }

    #[test]
    fn each_way_has_as_many_turns_and_the_first_one_twice() {
        use std::cell::Cell;
        use std::rc::Rc;
        let turns = Rc::new([const { Cell::new(0_u32) }; 3]);
        let entry = |place: usize| {
            let turns = turns.clone();
            let act = move |_| {
                turns[place].set(turns[place].get() + 1);
                Ok::<_, ()>(Slice {
                    per_second: [100.0, 200.0, 50.0][place],
                    times: vec![1_000; 900],
                })
            };
            Entry::new(["one", "two", "half"][place], act)
        };
        let mut entries = [entry(0), entry(1), entry(2)];
        let standings = hold(&mut entries, Duration::from_millis(100)).unwrap();
        let rounds = standings.rounds;
        assert_eq!(turns.iter().map(Cell::get).collect::<Vec<_>>(), [2 * rounds, rounds, rounds]);
        let ratios: Vec<_> = standings.rows.iter().map(|row| row.ratio.median).collect();
        assert_eq!(ratios, [1.0, 2.0, 0.5]);
        let row = &standings.rows[1];
        assert_eq!((row.p50_us, row.p99_us, row.p999_us), (1.0, 1.0, Some(1.0)));
    }

    /// Three ways in twelve quiet rounds, beside others.
    fn judged(share: Option<f64>) -> Contest {
        let done = |rate: f64| Done { rates: QUIET.map(|one| one * rate).into(), times: vec![1] };
        let ways = vec![("one", done(100.0)), ("two", done(200.0)), ("half", done(50.0))];
        let standings = judge(ways, &QUIET.map(|one| one * 100.0), (12, Others::of(share)));
        Contest { name: "test", asks: "what".to_owned(), standings }
    }

    #[test]
    fn beside_others_nothing_is_ranked_and_it_is_said_why() {
        let verdicts = |contest: &Contest| -> Vec<_> {
            contest.standings.rows.iter().map(|row| row.verdict).collect()
        };
        let quiet = judged(Some(0.01));
        assert_eq!(verdicts(&quiet), [Verdict::First, Verdict::Faster, Verdict::Slower]);
        assert_eq!(quiet.lines().len(), 7);
        for share in [Some(0.3), None] {
            let busy = judged(share);
            assert_eq!(verdicts(&busy), [Verdict::First, Verdict::NotRanked, Verdict::NotRanked]);
            assert_eq!(busy.as_json()["rows"][1]["verdict"], "not ranked");
            assert_eq!(busy.as_json()["others_share"], json!(share));
            let why = busy.lines().pop().unwrap();
            assert!(why.contains(if share.is_some() { "used 30 %" } else { "not known" }), "{why}");
        }
    }
}
