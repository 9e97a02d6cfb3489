//! How long two processors take to hand a cache line to each other and back.
//!
//! A stream does this all the time: one processor fills batches, the other writes them. The host of
//! a virtual machine may move its processors apart for seconds, and a stream is slower meanwhile.

use seawall_measure::machine::Stopwatch;
use seawall_measure::slice::{median, nanoseconds};
use serde_json::{Value, json};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{available_parallelism, scope, yield_now};
use std::time::Duration;

/// A measurement ends after this many timed groups of handovers.
const GROUPS: usize = 20;
/// Handovers that are timed together.
const GROUP: u32 = 100;
/// A measurement ends after this time, even if both threads ran on one processor.
const TIME_MAX: Duration = Duration::from_millis(20);
/// A thread that waits longer, in turns of a loop, lets others run: perhaps the other thread waits
/// for this processor.
const SPINS: u32 = 10_000;

/// The times of handovers there and back, in nanoseconds: the median of each measurement.
#[derive(Debug, Default)]
pub(crate) struct Handovers(Vec<f64>);

/// A value alone in its cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

impl Handovers {
    /// Measures once, if this process may use two processors and its threads ran on two.
    pub(crate) fn measure(&mut self) {
        if available_parallelism().is_ok_and(|count| count.get() > 1) {
            self.0.extend(one());
        }
    }

    /// The median over all measurements, the lowest and the highest; `None` without any.
    fn summary(&self) -> Option<[f64; 3]> {
        let mut times = self.0.clone();
        let median = median(&mut times);
        Some([median, *times.first()?, *times.last()?])
    }

    pub(crate) fn says(&self) -> Option<String> {
        let [median, lowest, highest] = self.summary()?;
        Some(format!(
            "A cache line between processors, there and back: {median:.0} ns ({lowest:.0} to \
             {highest:.0})."
        ))
    }

    pub(crate) fn as_json(&self) -> Value {
        let names = ["median", "lowest", "highest"];
        self.summary()
            .map_or(Value::Null, |found| names.into_iter().zip(found.map(|ns| json!(ns))).collect())
    }
}

/// Returns the median of the handovers there and back, in nanoseconds; `None` if both threads ran
/// on the same processor.
fn one() -> Option<f64> {
    let (turn, has_ended) = (Alone(AtomicU32::new(0)), Alone(AtomicBool::new(false)));
    // Returns whether the value came before this thread let others run.
    let wait_for = |wanted: u32| {
        let (mut spins, mut is_soon) = (0, true);
        while turn.0.load(Ordering::Acquire) != wanted && !has_ended.0.load(Ordering::Relaxed) {
            spins += 1;
            if spins == SPINS {
                (spins, is_soon) = (0, false);
                yield_now();
            }
            spin_loop();
        }
        is_soon
    };
    let mut times = vec![];
    scope(|scope| {
        scope.spawn(|| {
            while !has_ended.0.load(Ordering::Relaxed) {
                wait_for(1);
                turn.0.store(0, Ordering::Release);
            }
        });
        let watch = Stopwatch::start();
        let mut now = Duration::ZERO;
        while now < TIME_MAX && times.len() < GROUPS {
            let mut is_valid = true;
            for _ in 0..GROUP {
                turn.0.store(1, Ordering::Release);
                is_valid &= wait_for(0);
            }
            let before = std::mem::replace(&mut now, watch.elapsed());
            if is_valid {
                times.push(f64::from(nanoseconds(now - before)) / f64::from(GROUP));
            }
        }
        has_ended.0.store(true, Ordering::Relaxed);
    });
    (!times.is_empty()).then(|| median(&mut times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_the_middle_and_both_ends() {
        let mut handovers = Handovers::default();
        assert_eq!((handovers.says(), handovers.as_json()), (None, Value::Null));
        handovers.0 = vec![430.0, 80.0, 85.0];
        let says = handovers.says().unwrap();
        assert!(says.ends_with("there and back: 85 ns (80 to 430)."), "{says}");
        let expected = json!({"median": 85.0, "lowest": 80.0, "highest": 430.0});
        assert_eq!(handovers.as_json(), expected);
    }

    #[test]
    fn processors_are_measured_where_there_are_two() {
        let mut handovers = Handovers::default();
        handovers.measure();
        assert!(handovers.0.iter().all(|time| time.is_finite() && *time > 0.0), "{handovers:?}");
    }
}
