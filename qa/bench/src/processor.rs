//! The processor time per record of two logs that are measured in turns.

use seawall_measure::human::{times, to_f64};
use seawall_measure::machine::processor_time;
use std::cell::Cell;
use std::time::Duration;

/// The processor time that one log used, with all its threads.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    records: Cell<u64>,
    time: Cell<Duration>,
}

impl Usage {
    /// Adds the processor time of `act`, which returns the number of its records and its result.
    pub(crate) fn add<T, E>(&self, act: impl FnOnce() -> Result<(u64, T), E>) -> Result<T, E> {
        let before = processor_time();
        let (records, result) = act()?;
        if let (Some(before), Some(after)) = (before, processor_time()) {
            self.time.set(self.time.get() + after.saturating_sub(before));
            self.records.set(self.records.get() + records);
        }
        Ok(result)
    }

    /// Returns the processor time per record in microseconds, and resets both counters.
    pub(crate) fn take_us(&self) -> Option<f64> {
        let (records, time) = (self.records.take(), self.time.take());
        (records > 0).then(|| time.as_secs_f64() * 1e6 / to_f64(records))
    }
}

/// The processor time per record in two logs, in microseconds; `None` if the system reports none.
#[derive(Debug)]
pub(crate) struct Costs(pub(crate) [Option<f64>; 2]);

impl Costs {
    /// Formats the cost of one operation, named `one`, in both logs.
    pub(crate) fn says(&self, one: &str, [in_first, in_second]: [&str; 2]) -> String {
        let [Some(first), Some(second)] = self.0 else {
            return "The system does not tell what a record costs the processor.".to_owned();
        };
        // Work that is shorter than a tick of the system's clock may seem to take no time.
        let ratio = Some(second / first).filter(|ratio| ratio.is_finite());
        let ratio = ratio.map_or(String::new(), |ratio| format!(" ({})", times(ratio)));
        format!(
            "{one} took {first:.2} us of processor time {in_first}, {second:.2} {in_second}{ratio}."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_by_the_records_and_begins_again() {
        let usage = Usage { records: Cell::new(4), time: Cell::new(Duration::from_micros(10)) };
        assert_eq!(usage.take_us(), Some(2.5));
        assert_eq!(usage.take_us(), None, "nothing was done since");
        let says = Costs([Some(2.0), Some(3.0)]).says("A record", ["plain", "encrypted"]);
        assert_eq!(says, "A record took 2.00 us of processor time plain, 3.00 encrypted (1.50x).");
        let says = Costs([Some(0.0), Some(1.0)]).says("A record", ["plain", "encrypted"]);
        assert!(says.ends_with("0.00 us of processor time plain, 1.00 encrypted."), "{says}");
    }

    #[test]
    fn records_of_a_failure_do_not_count() {
        let usage = Usage::default();
        assert_eq!(usage.add(|| Err::<(u64, ()), _>("full")), Err("full"));
        assert_eq!(usage.records.get(), 0);
        assert_eq!(usage.add(|| Ok::<_, ()>((3, "done"))), Ok("done"));
        let expected = if processor_time().is_some() { 3 } else { 0 };
        assert_eq!(usage.records.get(), expected);
    }
}
