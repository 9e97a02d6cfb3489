//! Counts of tested states and broken promises.

use std::collections::{BTreeMap, HashSet};

#[derive(Default, Clone)]
pub struct Stats {
    pub runs: u64,
    pub states: u64,
    pub recoveries: u64,
    pub looks: u64,
    pub faults: u64,
    pub counts: BTreeMap<String, (u64, String)>,
    pub seen: HashSet<u64>,
}

impl Stats {
    pub fn note(&mut self, what: &str, example: impl FnOnce() -> String) {
        let entry = self.counts.entry(what.to_string()).or_insert_with(|| (0, example()));
        entry.0 += 1;
    }
    pub fn bad(&self) -> u64 {
        self.counts.iter().filter(|(k, _)| k.starts_with('P')).map(|(_, c)| c.0).sum()
    }
    pub fn add(&mut self, other: Stats) {
        self.runs += other.runs;
        self.states += other.states;
        self.recoveries += other.recoveries;
        self.looks += other.looks;
        self.faults += other.faults;
        for (k, v) in other.counts {
            let e = self.counts.entry(k).or_insert((0, v.1));
            e.0 += v.0;
        }
    }
    pub fn print(&self, title: &str) {
        println!(
            "== {title}: runs {} states {} recoveries {} readers {} faults {}",
            self.runs, self.states, self.recoveries, self.looks, self.faults
        );
        for (k, (n, example)) in &self.counts {
            println!("   {n:>10}  {k}   e.g. {example}");
        }
    }
}
