//! Makes and judges millions of corruptions. Each depends only on the seed and its number, so that
//! one can be repeated alone.

use crate::change::{Act, Change};
use crate::judge::{Outcome, judge};
use crate::random::Random;
use crate::sample::{Kind, Sample, Scale};
use seawall::verify::Verdict;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One in this many corruptions hits a log of several hundred kilobytes, or one of several
/// mebibytes.
const SMALL_ONCE_IN: u64 = 40;
const LARGE_ONCE_IN: u64 = 1000;

/// The logs to corrupt. Each is paired with another log of the same kind, which supplies foreign
/// bytes.
#[derive(Debug)]
pub struct Bench {
    seed: u64,
    scales: Vec<(u64, Vec<[Sample; 2]>)>,
}

/// Total results of the corruptions of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of corruptions.
    pub cases: u64,
    /// Number of each verdict: clean, torn, unsure, correctable, lost.
    pub verdicts: [u64; 5],
    /// Number of records that were not delivered.
    pub missing: u64,
    /// Number of missing records that no remaining evidence confirms: the window of crashed logs.
    pub in_window: u64,
    /// Number of opens for append that succeeded, and of those that were refused.
    pub opens: [u64; 2],
    /// Number of broken promises.
    pub undetected: u64,
}

/// Total results of all corruptions.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The results by kind of corruption.
    pub tallies: BTreeMap<Act, Tally>,
    /// The broken promises, each with the number of its corruption.
    pub broken: Vec<(u64, String)>,
    /// Length of the longest corrupted range, in bytes. Scattered bits and changes that reach the
    /// end of the file do not count.
    pub longest: usize,
}

impl Bench {
    /// Writes the logs. `with_large` adds logs of several mebibytes, so that the longest
    /// corruptions fit.
    #[must_use]
    pub fn new(seed: u64, with_large: bool) -> Self {
        let pairs = |scale: Scale| -> Vec<[Sample; 2]> {
            let pair = |kind: Kind| [Sample::make(kind), Sample::make(Kind { seed: 77, ..kind })];
            Kind::all(scale).into_iter().map(pair).collect()
        };
        let mut scales = vec![(SMALL_ONCE_IN, pairs(Scale::Small)), (1, pairs(Scale::Tiny))];
        if with_large {
            scales.insert(0, (LARGE_ONCE_IN, pairs(Scale::Large)));
        }
        Self { seed, scales }
    }

    /// Number of pairs of logs.
    #[must_use]
    pub fn logs(&self) -> usize {
        self.scales.iter().map(|(_, pairs)| pairs.len()).sum()
    }

    /// Makes corruption `number` and checks what the library reports for it.
    ///
    /// # Panics
    ///
    /// If a promise is broken.
    #[must_use]
    pub fn one(&self, number: u64) -> (Change, Outcome) {
        let (sample, change) = self.draw(number);
        let outcome = judge(sample, &change, &mut self.random(!number));
        (change, outcome)
    }

    fn random(&self, number: u64) -> Random {
        Random::new(self.seed.rotate_left(32) ^ number)
    }

    /// Describes corruption `number` for a report.
    #[must_use]
    pub fn describe(&self, number: u64) -> String {
        let (sample, change) = self.draw(number);
        let Change { act, file, range, .. } = change;
        format!("{:?}: {}, {file}, bytes {range:?}", sample.kind, act.name())
    }

    /// Returns the log that corruption `number` changes, and the change.
    #[must_use]
    pub fn draw(&self, number: u64) -> (&Sample, Change) {
        let mut random = self.random(number);
        let drawn = self.scales.iter().find(|(times, _)| random.once_in(*times));
        let [sample, other] = random.pick(&drawn.expect("the last is always drawn").1);
        (sample, Change::draw(&mut random, sample, other))
    }

    /// Makes the corruptions `numbers` and adds their results to `report`.
    pub fn run(&self, numbers: std::ops::Range<u64>, report: &mut Report) {
        for number in numbers {
            match catch_unwind(AssertUnwindSafe(|| self.one(number))) {
                Ok((change, outcome)) => report.add(&change, outcome),
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
                    let act = self.draw(number).1.act;
                    let tally = report.tallies.entry(act).or_default();
                    (tally.cases, tally.undetected) = (tally.cases + 1, tally.undetected + 1);
                    report.broken.push((number, format!("{}: {text}", self.describe(number))));
                }
            }
        }
    }
}

impl Report {
    fn add(&mut self, change: &Change, outcome: Outcome) {
        let verdicts =
            [Verdict::Clean, Verdict::Torn, Verdict::Unsure, Verdict::Correctable, Verdict::Lost];
        let index = verdicts.iter().position(|verdict| *verdict == outcome.verdict);
        let tally = self.tallies.entry(change.act).or_default();
        tally.cases += 1;
        tally.verdicts[index.expect("all are listed")] += 1;
        tally.missing += outcome.missing;
        tally.in_window += outcome.in_window;
        if let Some(opened) = outcome.opened {
            tally.opens[usize::from(!opened)] += 1;
        }
        if !matches!(change.act, Act::Bits | Act::Cut | Act::Blank) {
            self.longest = self.longest.max(change.range.len());
        }
    }

    /// Sums the results of all kinds of corruption.
    #[must_use]
    pub fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in self.tallies.values() {
            sum.cases += tally.cases;
            sum.missing += tally.missing;
            sum.in_window += tally.in_window;
            sum.undetected += tally.undetected;
            for (sum, one) in sum.verdicts.iter_mut().zip(tally.verdicts) {
                *sum += one;
            }
            for (sum, one) in sum.opens.iter_mut().zip(tally.opens) {
                *sum += one;
            }
        }
        sum
    }

    /// Formats the results as a table.
    #[must_use]
    pub fn table(&self) -> String {
        let head = ["what is done", "cases", "clean", "torn", "unsure", "correctable", "lost"];
        let head = head.into_iter().chain(["opened", "refused", "undetected"]);
        let row = |cells: &mut dyn Iterator<Item = String>| {
            let cells = cells.map(|cell| " ".repeat(17_usize.saturating_sub(cell.len())) + &cell);
            cells.collect::<String>() + "\n"
        };
        let mut text = row(&mut head.map(str::to_owned));
        let rows = self.tallies.iter().map(|(act, tally)| (act.name(), *tally));
        for (name, tally) in rows.chain([("all", self.sum())]) {
            let numbers = [tally.cases].into_iter().chain(tally.verdicts).chain(tally.opens);
            let numbers = numbers.chain([tally.undetected]);
            let cells = numbers.map(|number| number.to_string());
            text += &row(&mut [name.to_owned()].into_iter().chain(cells));
        }
        text
    }
}
