//! Checks the rules of the virtual disk, without its code. Tries every small workload, with a kill
//! of the server or of the keeper, a power failure or a failed sync at any step, also in a start.
//!
//! The server copies each write to its memory, which the keeper process also holds. A drainer
//! writes it to its home on the device. A start restores the memory of a killed server through the
//! dump area. Promises: an acknowledged write survives a kill of the server or of the keeper; a
//! flushed write survives an announced power failure; everything that a start shows survives any
//! power failure; no sector is torn, and no older value returns.
//!
//! Early acknowledged writes may be lost if server and keeper are both killed, if the power fails
//! before the next start has dumped the memory, or if a server starts that does not use the keeper.

mod actions;
mod device;
mod memory;
mod ring;
mod rules;
mod search;
mod start;
mod words;
mod world;

use rules::Rules;
use search::{search, Broken};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use world::{Config, Extent, Kinds};

const fn extent(writes: u8, events: u8, slots: usize, kinds: Kinds) -> Extent {
    Extent { writes, events, slots, kinds }
}

/// The extents searched with all rules.
const WHOLE: &[Extent] =
    &[extent(3, 2, 2, Kinds::All), extent(2, 3, 2, Kinds::All), extent(2, 3, 3, Kinds::Announced)];

/// Extents whose search takes minutes.
const LONG: &[Extent] = &[
    extent(3, 3, 3, Kinds::Announced),
    extent(5, 1, 3, Kinds::Kills),
    extent(4, 2, 2, Kinds::All),
    extent(3, 3, 2, Kinds::All),
];

/// Returns an extent in which a promise breaks without this rule.
fn planted(name: &str) -> Extent {
    match name {
        "pending_cleared" | "restored_in_order" => extent(3, 1, 2, Kinds::Kills),
        "own_serve" | "home_synced" | "mark_synced" | "mark_rewritten" => {
            extent(2, 3, 2, Kinds::All)
        }
        "fresh_generation" => extent(3, 3, 3, Kinds::Announced),
        _ => extent(2, 2, 2, Kinds::All),
    }
}

/// A search with all rules, or without one of them.
enum Job {
    Whole(Extent),
    Planted(&'static str, &'static str),
}

/// Checks all rules together, then drops each. With `only`, drops just that rule, or searches
/// larger extents with all rules if `only` is `long`. Returns the number of wrong outcomes, or
/// `None` if there is no such rule.
pub fn check(only: Option<&String>) -> Option<usize> {
    let whole = |extents: &[Extent]| extents.iter().map(|extent| Job::Whole(*extent)).collect();
    let planted = Rules::NAMES.iter().map(|(name, about)| Job::Planted(name, about));
    let mut jobs: Vec<Job> = match only.map(String::as_str) {
        None => whole(WHOLE),
        Some("long") => whole(LONG),
        Some(_) => vec![],
    };
    match only {
        None => jobs.extend(planted),
        Some(only) => {
            jobs.extend(planted.filter(|job| matches!(job, Job::Planted(n, _) if n == only)))
        }
    }
    let outcomes = in_parallel(&jobs, only.is_some());
    (!jobs.is_empty()).then(|| outcomes.into_iter().filter(|is_right| !is_right).count())
}

pub fn usage() {
    eprintln!("\nRules of the virtual disk:");
    for (name, about) in Rules::NAMES {
        eprintln!("  {name}: {about}");
    }
}

/// Runs all jobs, two at a time, prints each outcome, and returns whether it is right.
fn in_parallel(jobs: &[Job], is_long: bool) -> Vec<bool> {
    let next = AtomicUsize::new(0);
    let out = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (text, is_right) = run(job, is_long);
                    let mut out = out.lock().unwrap();
                    print!("{text}");
                    out.push(is_right);
                }
            });
        }
    });
    out.into_inner().unwrap()
}

fn run(job: &Job, is_long: bool) -> (String, bool) {
    match job {
        Job::Whole(extent) => {
            let outcome = search(&Config { rules: Rules::all(), extent: *extent });
            let Extent { writes, events, slots, kinds } = extent;
            let broken = u64::from(outcome.broken.is_some());
            let text = format!(
                "disk with {slots} buffers, {writes} writes, {events} events ({kinds:?}): {} \
                 states, promises broken: {broken}\n",
                outcome.states
            );
            (text + &show(outcome.broken.as_ref(), true), broken == 0)
        }
        Job::Planted(name, about) => {
            let config = Config { rules: Rules::without(name), extent: planted(name) };
            let outcome = search(&config);
            let is_found = outcome.broken.is_some();
            let verdict = if is_found { "FOUND " } else { "MISSED" };
            let text = format!("{verdict} {name}: {about}; {} states\n", outcome.states);
            (text + &show(outcome.broken.as_ref(), is_long), is_found)
        }
    }
}

/// Describes the broken promise, and if `is_long` all steps of the shortest path to it.
fn show(broken: Option<&Broken>, is_long: bool) -> String {
    let mut out = String::new();
    let Some(broken) = broken else { return out };
    let _ = writeln!(out, "       after {} steps, {}", broken.trace.len(), broken.promise);
    for (n, step) in broken.trace.iter().enumerate().filter(|_| is_long) {
        let _ = writeln!(out, "       {:>3} {step}", n + 1);
    }
    out
}
