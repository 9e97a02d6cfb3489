//! Counts of tested states and broken promises.

use std::collections::{BTreeMap, HashSet};

#[derive(Default, Clone)]
pub struct Stats {
    pub runs: u64,
    pub states: u64,
    pub recoveries: u64,
    pub looks: u64,
    pub faults: u64,
    pub counts: BTreeMap<String, Count>,
    pub seen: HashSet<u64>,
}

/// How often something was seen, the first example, and whether it breaks a promise.
#[derive(Default, Clone)]
pub struct Count {
    pub times: u64,
    pub example: String,
    pub broken: bool,
}

impl Stats {
    /// Counts what no promise excludes.
    pub fn note(&mut self, what: &str, example: impl FnOnce() -> String) {
        self.count(what, example, false);
    }
    /// Counts a broken promise.
    pub fn broken(&mut self, what: &str, example: impl FnOnce() -> String) {
        self.count(what, example, true);
    }
    fn count(&mut self, what: &str, example: impl FnOnce() -> String, broken: bool) {
        let count = self
            .counts
            .entry(what.to_string())
            .or_insert_with(|| Count { example: example(), ..Count::default() });
        count.times += 1;
        count.broken |= broken;
    }
    pub fn bad(&self) -> u64 {
        self.counts.values().filter(|count| count.broken).map(|count| count.times).sum()
    }
    pub fn add(&mut self, other: Stats) {
        self.runs += other.runs;
        self.states += other.states;
        self.recoveries += other.recoveries;
        self.looks += other.looks;
        self.faults += other.faults;
        for (k, v) in other.counts {
            let count = self.counts.entry(k).or_insert(Count { times: 0, ..v.clone() });
            count.times += v.times;
            count.broken |= v.broken;
        }
    }
    pub fn print(&self, title: &str) {
        println!(
            "== {title}: runs {} states {} recoveries {} readers {} faults {}",
            self.runs, self.states, self.recoveries, self.looks, self.faults
        );
        for (k, Count { times, example, broken }) in &self.counts {
            let sign = if *broken { '!' } else { ' ' };
            println!("   {times:>10} {sign} {k}   e.g. {example}");
        }
    }
}
