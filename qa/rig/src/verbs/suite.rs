//! Runs a database's own test suite with its log on an armed disk, whose power is cut meanwhile.

mod cut;
mod mariadb;
mod mtr;
mod postgres;
mod regress;

use crate::args::{Suite, SuiteOf};
use crate::database::about;
use crate::need::Ground;
use crate::process::Failure;
use crate::rig::say;
use cut::Cut;
pub(crate) use mtr::look_for_mtr;
pub(crate) use regress::look_for_regress;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// Results of tests, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Results {
    passed: BTreeSet<String>,
    /// Failed tests, each with the reason.
    failed: BTreeMap<String, String>,
    /// Tests that the suite refused to run here.
    refused: BTreeSet<String>,
}

impl Results {
    fn finished(&self) -> usize {
        self.passed.union(&self.failed.keys().cloned().collect()).count()
    }

    fn extend(&mut self, other: Self) {
        self.passed.extend(other.passed);
        self.failed.extend(other.failed);
        self.refused.extend(other.refused);
    }

    fn count(&self) -> Value {
        let [passed, failed] = [self.passed.len(), self.failed.len()];
        json!({ "passed": passed, "failed": failed, "refused": self.refused.len() })
    }
}

/// The results of the run without the disk and of the run on it.
#[derive(Debug, Default)]
struct Ran {
    native: Results,
    disk: Results,
    cuts: Vec<Cut>,
    /// Flushes of the disk: those that returned immediately, and those that waited for its device.
    flushes: [u64; 2],
}

impl Ran {
    /// Tests that fail on the disk, but not without it.
    fn broken(&self) -> BTreeMap<&String, &String> {
        let is_new = |name: &String| !self.native.failed.contains_key(name);
        self.disk.failed.iter().filter(|(name, _)| is_new(name)).collect()
    }

    /// Tests that pass without the disk, and have no result on it.
    fn missing(&self) -> Vec<&String> {
        let has_result =
            |name: &String| self.disk.passed.contains(name) || self.disk.failed.contains_key(name);
        self.native.passed.iter().filter(|name| !has_result(name)).collect()
    }

    fn is_fine(&self, cuts: u32) -> bool {
        let are_cuts_fine = self.cuts.iter().all(Cut::is_fine);
        let are_all = u32::try_from(self.cuts.len()) == Ok(cuts);
        let are_passed = self.broken().is_empty() && self.missing().is_empty();
        are_cuts_fine && are_all && are_passed && !self.disk.passed.is_empty()
    }
}

/// Runs the suite without and with the disk. Returns a summary, and whether the promise holds.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the disk.
pub(crate) fn run(args: &Suite, ground: &Ground) -> Result<(Value, bool), Failure> {
    let ran = match args.database {
        SuiteOf::Postgres => postgres::run(args, ground)?,
        SuiteOf::Mariadb => mariadb::run(args, ground)?,
    };
    let is_fine = ran.is_fine(args.cuts);
    for (name, why) in ran.broken() {
        say(&format!("FAILED on the disk, not without it: {name}\n{why}"));
    }
    let missing = ran.missing();
    if !missing.is_empty() {
        say(&format!("{} tests have no result on the disk", missing.len()));
    }
    let [version, _] = about(args.database.engine(), ground);
    let summary = json!({
        "schema": "seawall.rig.suite/1",
        "database": version,
        "tests": if args.tests.is_empty() { json!("default") } else { json!(args.tests) },
        "seed": args.seed,
        "delay_ms": args.delay,
        "hold_up_ms": args.hold_up,
        "announced": !args.unannounced,
        "native": ran.native.count(),
        "disk": ran.disk.count(),
        "skipped": ran.native.failed,
        "broken": ran.broken(),
        "missing": missing,
        "flushes_at_once": ran.flushes[0],
        "flushes_waited": ran.flushes[1],
        "cuts": ran.cuts.iter().map(Cut::as_json).collect::<Vec<_>>(),
        "as_it_should_be": is_fine,
    });
    Ok((summary, is_fine))
}

/// Reports the tests that fail without the disk, since they say nothing about it.
fn say_skipped(native: &Results) {
    say(&format!("native: {} passed, {} failed", native.passed.len(), native.failed.len()));
    for name in native.failed.keys() {
        say(&format!("skipped, fails natively: {name}"));
    }
}

/// Creates a file, replacing the contents of one of the same name.
fn create(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(passed: &[&str], failed: &[&str]) -> Results {
        let passed = passed.iter().map(|name| (*name).to_owned()).collect();
        let failed = failed.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        Results { passed, failed, refused: BTreeSet::new() }
    }

    fn ran(native: Results, disk: Results) -> Ran {
        Ran { native, disk, ..Ran::default() }
    }

    #[test]
    fn failure_that_the_native_run_has_too_is_not_the_disks() {
        assert!(ran(results(&["a"], &["b"]), results(&["a"], &["b"])).is_fine(0));
        assert!(!ran(results(&["a", "b"], &[]), results(&["a"], &["b"])).is_fine(0));
    }

    #[test]
    fn test_without_a_result_on_the_disk_breaks_the_run() {
        assert!(!ran(results(&["a", "b"], &[]), results(&["a"], &[])).is_fine(0));
        assert!(!ran(Results::default(), Results::default()).is_fine(0));
    }

    #[test]
    fn every_cut_must_have_come_and_kept_all() {
        let mut ran = ran(results(&["a"], &[]), results(&["a"], &[]));
        assert!(!ran.is_fine(1));
        ran.cuts.push(Cut { acknowledged: 3, found: Some(3), ..Cut::default() });
        assert!(ran.is_fine(1));
        ran.cuts.push(Cut { acknowledged: 3, found: Some(2), ..Cut::default() });
        assert!(!ran.is_fine(2));
    }
}
