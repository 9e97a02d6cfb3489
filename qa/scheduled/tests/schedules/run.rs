//! Runs a scenario under many schedules: half of them random, half by PCT, which runs one task as
//! long as possible and changes priorities only a few times.

use std::env;
use std::io::{self, Write};
use std::time::Duration;

use scheduler::shuttle::Runner;
use scheduler::shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use seawall_io::{Clock, SystemClock};

/// The total number of schedules for all scenarios, unless `SEAWALL_SCHEDULES` is set.
const SCHEDULES: usize = 10_000;
/// The seed of the schedules, unless `SEAWALL_SEED` is set.
const SEED: u64 = 1;
/// The bug depth of PCT, which limits how often a schedule changes priorities.
const DEPTH: usize = 3;

/// Runs `scenario`, one of `of`, under its share of the schedules. A failing schedule is printed;
/// `SEAWALL_REPLAY` runs it again.
pub(crate) fn run(name: &str, of: usize, scenario: fn()) {
    if let Ok(schedule) = env::var("SEAWALL_REPLAY") {
        runner(ReplayScheduler::new_from_encoded(&schedule)).run(scenario);
        return;
    }
    let seed = number("SEAWALL_SEED").unwrap_or(SEED);
    let schedules = number("SEAWALL_SCHEDULES").map(|n| usize::try_from(n).expect("fits"));
    let half = schedules.unwrap_or(SCHEDULES).div_ceil(2 * of);
    let clock = SystemClock::new();
    tell(&format!("{name}: seed {seed}, {half} random schedules and as many by PCT"));
    runner(RandomScheduler::new_from_seed(seed, half)).run(scenario);
    runner(PctScheduler::new_from_seed(seed, DEPTH, half)).run(scenario);
    tell(&format!("{name}: {} schedules, {}", half * 2, seconds(clock.now())));
}

/// Creates a runner that fails after very many steps, because then a task spins.
pub(crate) fn runner<S: Scheduler + 'static>(scheduler: S) -> Runner<S> {
    let mut config = scheduler::config();
    config.max_steps = scheduler::shuttle::MaxSteps::FailAfter(STEPS_MAX);
    Runner::new(scheduler, config)
}

/// The maximum number of steps. The longest schedule has a few thousand.
const STEPS_MAX: usize = 100_000;

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Prints a line that the test harness does not capture, to show progress in a long run.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
