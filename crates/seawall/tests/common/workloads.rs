//! Workloads on a tiny binary log, run with a crash at every step, with two crashes, with failed
//! syncs and with damage.

use super::lives::{Act, Faults, Life, Tally, check, cuts, each_run, live};
use super::sample::Sample;
use seawall::{Layout, Level};
use seawall_testkit::MemStorage;

/// The calls of a workload, in order.
pub type Acts = &'static [Act];

const LEVELS: [Level; 2] = [Level::Synced, Level::Confirmed];

/// Runs `acts` on a new device that stops after `stop` steps.
pub fn run(acts: Acts, level: Level, stop: u64) -> Life {
    let device = MemStorage::new();
    device.stop_after(stop);
    live(&device, acts, level, &Life::unborn(Layout::Binary))
}

/// The number of device steps in `acts`.
pub fn steps(acts: Acts, level: Level) -> u64 {
    let whole = run(acts, level, u64::MAX);
    assert!(whole.error.is_none(), "{:?}", whole.error);
    whole.device.steps()
}

/// The syncs in `acts`, from number `first` on, each with its device step.
pub fn syncs(acts: Acts, level: Level, first: usize) -> impl Iterator<Item = (u64, u64)> {
    let whole = run(acts, level, u64::MAX);
    assert!(whole.error.is_none(), "{:?}", whole.error);
    (0..).zip(whole.device.syncs()).skip(first)
}

/// Kills the process, or cuts power, at every step.
pub fn one_crash(workloads: &[Acts]) -> Tally {
    let mut tally = Tally::default();
    for (level, acts) in with_levels(workloads) {
        for stop in 0..=steps(acts, level) {
            let life = run(acts, level, stop);
            let what = format!("{acts:?} {level:?}, step {stop}, killed");
            tally.add(check(&life, &life.device.kill(), Faults::None, &what));
            for (mask, device) in cuts(&life.device, stop, 1024) {
                let what = format!("{acts:?} {level:?}, step {stop}, power cut, kept {mask:b}");
                tally.add(check(&life, &device, Faults::None, &what));
            }
        }
    }
    tally
}

/// After each power cut, runs each of `afterwards` and cuts power again at every step.
pub fn two_crashes(workloads: &[Acts], afterwards: &[Acts], sample: &mut Sample) -> Tally {
    let mut tally = Tally::default();
    each_power_cut(workloads, 64, |life, left, first| {
        if !sample.takes_next() {
            return;
        }
        for acts in afterwards {
            let whole = live(&left.kill(), acts, Level::Synced, life);
            assert!(whole.error.is_none(), "{first}: {:?}", whole.error);
            for stop in 0..=whole.device.steps() {
                let device = left.kill();
                device.stop_after(stop);
                let second = live(&device, acts, Level::Synced, life);
                for (mask, cut) in cuts(&device, stop, 8) {
                    let what = format!("{first}; {acts:?}, step {stop}, kept {mask:b}");
                    tally.add(check(&second, &cut, Faults::None, &what));
                }
            }
        }
    });
    tally
}

/// Fails each sync once, which keeps nothing, every other item, or all. Then kills the process, or
/// cuts power.
pub fn failed_syncs(workloads: &[Acts], sample: &mut Sample) -> Tally {
    let mut tally = Tally::default();
    for (level, acts) in with_levels(workloads) {
        // The first syncs create the log.
        let syncs = syncs(acts, level, 5).map(|(nth, _)| nth);
        for (nth, keep) in syncs.flat_map(|nth| (0..3).map(move |k| (nth, k))) {
            let what = format!("{acts:?} {level:?}, sync {nth} fails and keeps {keep}");
            let device = MemStorage::new();
            fail_sync(&device, nth, keep);
            let life = live(&device, acts, level, &Life::unborn(Layout::Binary));
            tally.add(check(&life, &device.kill(), Faults::FailedSync, &what));
            for (mask, cut) in cuts(&device, nth, 64).into_iter().filter(|_| sample.takes_next()) {
                let what = format!("{what}, power cut, kept {mask:b}");
                tally.add(check(&life, &cut, Faults::FailedSync, &what));
            }
        }
    }
    tally
}

/// Fails sync `nth`, which keeps nothing (0), every other item (1) or all (2).
pub fn fail_sync(device: &MemStorage, nth: u64, keep: u64) {
    let mut turn = 0;
    device.fail_sync(nth, move |_| {
        turn += 1;
        keep == 2 || (keep == 1 && turn % 2 == 0)
    });
}

/// Adds one run of damage, or loses one file, after each step. Returns the number of faults.
pub fn one_fault(workloads: &[Acts], sample: &mut Sample) -> u64 {
    let mut faults = 0;
    for acts in workloads {
        for stop in 0..=steps(acts, Level::Confirmed) {
            let life = run(acts, Level::Confirmed, stop);
            for device in [life.device.kill(), life.device.power_cut(|_| false)] {
                faults += each_run(&device, &life, sample, &format!("{acts:?}, step {stop}"));
            }
        }
    }
    faults
}

/// Calls `look` with the states after each power cut, at most `max` of them per step, and their
/// description.
pub fn each_power_cut(
    workloads: &[Acts],
    max: u64,
    mut look: impl FnMut(&Life, &MemStorage, &str),
) {
    for acts in workloads {
        for stop in 0..=steps(acts, Level::Synced) {
            let life = run(acts, Level::Synced, stop);
            for (mask, left) in cuts(&life.device, stop, max) {
                look(&life, &left, &format!("{acts:?}, step {stop}, kept {mask:b}"));
            }
        }
    }
}

fn with_levels(workloads: &[Acts]) -> impl Iterator<Item = (Level, Acts)> + '_ {
    LEVELS.into_iter().flat_map(|level| workloads.iter().map(move |acts| (level, *acts)))
}
