//! Random samples of the states of an exhaustive test, a new one each day.
//!
//! The tests that visit every bit of a file or every crash of a workload take minutes. A usual run
//! checks one state in a few. The seed of the sample changes daily and is printed. `SEAWALL_SEED=N`
//! repeats a sample, `SEAWALL_LONG=1` checks every state.

use super::Random;
use seawall_io::{Clock, SystemClock};

/// A sample of states.
#[derive(Debug)]
pub struct Sample {
    random: Random,
    one_in: u64,
}

impl Sample {
    /// One state in `usual`, or all of them with `SEAWALL_LONG` in the environment. A test that is
    /// repeated with compression or encryption checks fewer.
    pub fn one_in(usual: u64) -> Self {
        let usual = usual * super::sample_divisor();
        let (seed, one_in) = (seed(), if is_long() { 1 } else { usual });
        println!(
            "one state in {one_in}: SEAWALL_SEED={seed} looks at the same, SEAWALL_LONG=1 at all"
        );
        Self { random: Random::new(seed), one_in }
    }

    /// Whether to check the next state.
    pub fn takes_next(&mut self) -> bool {
        self.random.below(self.one_in) == 0
    }

    /// A lower bound for the number of sampled states, out of `all`.
    pub fn least(&self, all: u64) -> u64 {
        if self.one_in == 1 { all } else { all / self.one_in / 2 }
    }
}

/// Whether to check every state.
pub fn is_long() -> bool {
    std::env::var_os("SEAWALL_LONG").is_some()
}

/// The seed of the samples.
pub fn seed() -> u64 {
    number("SEAWALL_SEED").unwrap_or_else(today)
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is not a number")))
}

/// Days since 1970.
fn today() -> u64 {
    SystemClock::new().wall_us() / 86_400_000_000
}
