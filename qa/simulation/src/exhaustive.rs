//! Tries every crash of small workloads, with every choice of the pending writes that reach the
//! disk.

use seawall::{Layout, Level};
use seawall_testkit::cuts;

use crate::plan::{Act, Cut, End, Life, Plan, Unit};
use crate::run::run;
use crate::world::BLOCK;

/// Totals of all runs, and the first finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exhausted {
    /// Number of crashes, each recovered from and compared with the promises.
    pub states: u64,
    /// Number of calls of the device.
    pub steps: u64,
    /// The plan that fails, and what is wrong.
    pub finding: Option<(Plan, String)>,
}

/// The acts that workloads consist of.
fn groups() -> [Act; 5] {
    [Act::Append(100), Act::Set(vec![60, 70, 80]), Act::Append(700), Act::Confirm, Act::Cut(1)]
}

/// Tries every crash of all workloads of `count` groups, in both layouts and at both levels that
/// promise something immediately. At each step the process is killed, the power is cut, or the
/// device goes away and comes back. All choices of the pending items are tried if there are few,
/// otherwise a sample. `tell` receives the number of crashes so far.
#[must_use]
pub fn exhaustive(count: u32, mut tell: impl FnMut(u64)) -> Exhausted {
    let mut done = Exhausted::default();
    for number in 0..5_u64.saturating_pow(count) {
        let acts = workload(number, count);
        for layout in [Layout::Binary, Layout::Text] {
            for level in [Level::Synced, Level::Confirmed] {
                every_crash(&mut done, (layout, level), &acts);
                if done.finding.is_some() {
                    return done;
                }
            }
        }
        tell(done.states);
    }
    done
}

/// Returns the `number`th workload of `count` groups.
fn workload(mut number: u64, count: u32) -> Vec<Act> {
    let groups = groups();
    let mut acts = vec![];
    for _ in 0..count {
        let which = usize::try_from(number % 5).expect("a small number");
        acts.extend(groups.get(which).cloned());
        number /= 5;
    }
    acts
}

/// Maximum number of choices of the pending items; if there are more, these are drawn at random.
const CHOICES_MAX: u64 = 64;

fn every_crash(done: &mut Exhausted, (layout, level): (Layout, Level), acts: &[Act]) {
    let life = Life { tasks: vec![acts.to_vec()], ..Life::quiet(level) };
    let plan = |end: End| {
        let lives = vec![Life { end, ..life.clone() }];
        Plan { seed: 1, layout, segment_max: 5120, reach: BLOCK, lives }
    };
    // The steps of the last look are included, although no crash happens in it.
    let whole = run(&plan(End::Kill(u64::MAX)));
    for step in 0..=whole.steps {
        let pending = run(&plan(End::Kill(step))).pending_at_end;
        let kept = cuts(pending, CHOICES_MAX, step).into_iter();
        let lost = kept.flat_map(|kept| {
            let cut = Cut { unit: Unit::Chosen, seed: kept };
            [End::Power(step, cut), End::Detach(step, cut)]
        });
        for end in [End::Kill(step)].into_iter().chain(lost) {
            let plan = plan(end);
            let outcome = run(&plan);
            done.states += 1;
            done.steps += outcome.steps;
            if let Some(what) = outcome.finding {
                done.finding = Some((plan, what));
                return;
            }
        }
    }
}
