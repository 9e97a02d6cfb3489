//! A crash at every step of small workloads, with every choice of what had reached the disk, then a
//! second crash during recovery; and a failure of every sync.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::lives::{Act, Faults, Life, Tally, check, cuts, each_run, live};
use common::sample::Sample;
use common::{KINDS, Kind, LAYOUTS, Random};
use seawall::{Error, Layout, Level};
use seawall_testkit::MemStorage;

use Act::{Append, Confirm, Reopen, Set};

const WORKLOADS: [&[Act]; 9] = [
    &[Append(100), Append(200), Confirm, Append(50)],
    &[Set(&[60, 70, 80]), Append(500), Append(600), Append(30)],
    &[Append(100), Reopen, Append(120), Append(40)],
    &[Append(900), Set(&[300, 300]), Confirm, Reopen, Append(10)],
    &[Reopen, Confirm, Set(&[0, 1, 400]), Reopen, Reopen, Append(880)],
    &[Append(960), Append(960), Append(960), Append(960)],
    &[Append(30), Set(&[300, 300, 300]), Append(700), Confirm, Set(&[1, 900])],
    &[Set(&[200, 200]), Confirm, Set(&[200, 200]), Confirm, Set(&[200, 200]), Confirm, Reopen],
    &[Append(500), Append(480), Reopen, Append(20), Append(900), Reopen, Confirm],
];

/// Workloads after a recovery, in which the second crash happens.
const AFTERWARDS: [&[Act]; 3] =
    [&[Append(90), Confirm], &[Set(&[100, 700]), Append(300), Append(300)], &[Reopen, Append(9)]];

/// Runs a workload that is stopped at step `stop`.
fn run(acts: &[Act], (level, layout): Kind, stop: u64) -> Life {
    let device = MemStorage::new();
    device.stop_after(stop);
    live(&device, acts, level, &Life::unborn(layout))
}

fn steps(acts: &[Act], kind: Kind) -> u64 {
    let whole = run(acts, kind, u64::MAX);
    assert!(whole.error.is_none(), "{:?}", whole.error);
    whole.device.steps()
}

/// The number of syncs in a workload.
fn syncs(acts: &[Act], kind: Kind) -> u64 {
    let whole = run(acts, kind, u64::MAX);
    assert!(whole.error.is_none(), "{:?}", whole.error);
    u64::try_from(whole.device.syncs().len()).unwrap()
}

/// Calls `visit` with every state after a crash at any step, and the life that led there.
fn each_crash(acts: &[Act], kind: Kind, mut visit: impl FnMut(&Life, &MemStorage, &str)) {
    for stop in 0..=steps(acts, kind) {
        let life = run(acts, kind, stop);
        visit(&life, &life.device.kill(), &format!("{acts:?} {kind:?}, step {stop}, killed"));
        for (mask, device) in cuts(&life.device, stop, 1024) {
            let what = format!("{acts:?} {kind:?}, step {stop}, power cut, kept {mask:b}");
            visit(&life, &device, &what);
        }
    }
}

#[test]
fn acknowledged_records_survive_a_crash_at_every_step() {
    let mut tally = Tally::default();
    for kind in KINDS {
        for acts in WORKLOADS {
            each_crash(acts, kind, |life, device, what| {
                tally.add(check(life, device, Faults::None, what));
            });
        }
    }
    println!("one crash: {tally:?}");
    assert!(tally.states > 3_500, "{tally:?}");
    assert!(tally.clean > 0 && tally.torn > 80, "{tally:?}");
}

const SEED: u64 = 20_261_121;

/// Crashes one state in `usual` a second time.
fn second_crashes(kind: Kind, usual: u64) {
    let mut tally = Tally::default();
    let (mut sample, mut random) = (Sample::one_in(usual), Random::new(SEED));
    for acts in WORKLOADS {
        each_crash(acts, kind, |life, device, what| {
            if sample.takes_next() {
                let next = AFTERWARDS[usize::try_from(random.below(3)).unwrap()];
                tally += crash_again((life, device), (next, kind.0), what);
            }
        });
    }
    println!("second crash, {kind:?}: {tally:?}");
    let (states, torn) = (sample.least(30_000), sample.least(1500));
    assert!(tally.states > states && tally.torn > torn, "{tally:?}");
}

/// Recovers `device` and runs `acts`, crashes at every step of that, and recovers again.
fn crash_again(from: (&Life, &MemStorage), acts: (&[Act], Level), what: &str) -> Tally {
    let ((life, device), (acts, level), mut tally) = (from, acts, Tally::default());
    let whole = live(&device.kill(), acts, level, life);
    assert!(whole.error.is_none(), "{what}: {:?}", whole.error);
    for stop in 0..=whole.device.steps() {
        let again = device.kill();
        again.stop_after(stop);
        let second = live(&again, acts, level, life);
        let what = format!("{what}; then {acts:?} to step {stop}");
        tally.add(check(&second, &again.kill(), Faults::None, &format!("{what}, killed")));
        for (mask, cut) in cuts(&again, stop, 24) {
            let what = format!("{what}, power cut, kept {mask:b}");
            tally.add(check(&second, &cut, Faults::None, &what));
        }
    }
    tally
}

#[test]
fn recovered_records_survive_a_second_crash_at_level_synced() {
    second_crashes((Level::Synced, Layout::Binary), 48);
}

#[test]
fn recovered_records_survive_a_second_crash_at_level_confirmed() {
    second_crashes((Level::Confirmed, Layout::Binary), 48);
}

#[test]
fn recovered_records_of_a_readable_log_survive_a_second_crash() {
    second_crashes((Level::Synced, Layout::Text), 300);
    second_crashes((Level::Confirmed, Layout::Text), 300);
}

#[test]
fn failed_sync_loses_no_acknowledged_record() {
    failed_syncs(Level::Synced);
}

#[test]
fn failed_sync_loses_no_confirmed_record() {
    failed_syncs(Level::Confirmed);
}

fn failed_syncs(level: Level) {
    let mut tally = Tally::default();
    let mut once = Sample::one_in(8);
    // Samples of second crashes. Text logs take longer.
    let (mut binary, mut text) = (Sample::one_in(80), Sample::one_in(480));
    for (layout, acts) in LAYOUTS.into_iter().flat_map(|l| WORKLOADS.map(|acts| (l, acts))) {
        let kind = (level, layout);
        let syncs = 0..syncs(acts, kind);
        for (nth, keep) in syncs.flat_map(|nth| (0..3).map(move |keep| (nth, keep))) {
            let what = format!("{acts:?} {kind:?}, sync {nth} fails and keeps {keep}");
            let device = MemStorage::new();
            fail_sync(&device, nth, keep);
            let life = live(&device, acts, level, &Life::unborn(layout));
            match &life.error {
                // The failed sync may not have mattered.
                None | Some(Error::Poisoned { .. }) => {}
                Some(Error::Io { .. }) => assert!(!life.appending, "{what}"),
                Some(other) => panic!("{what}: {other}"),
            }
            tally.add(check(&life, &device.kill(), Faults::FailedSync, &what));
            for (mask, cut) in cuts(&device, nth, 64).into_iter().filter(|_| once.takes_next()) {
                let what = format!("{what}, power cut, kept {mask:b}");
                tally.add(check(&life, &cut, Faults::FailedSync, &what));
            }
            let sample = if layout == Layout::Binary { &mut binary } else { &mut text };
            if sample.takes_next() && (nth, keep == 2) != (creation(layout), false) {
                tally += crash_again((&life, &device), (AFTERWARDS[0], level), &what);
            }
        }
    }
    println!("failed syncs, {level:?}: {tally:?}");
    assert!(tally.states > once.least(5_000), "{tally:?}");
}

/// The image: no new segment could be created, and the process died. The next process finds data in
/// the page cache that never reached the disk, and must not append after it.
#[test]
fn page_cache_of_a_device_that_fails_for_good_is_not_trusted() {
    let (mut tally, mut sample) = (Tally::default(), Sample::one_in(30));
    for (kind, acts) in KINDS.into_iter().flat_map(|kind| WORKLOADS.map(|acts| (kind, acts))) {
        let (level, layout) = kind;
        for nth in creation(layout) + 1..syncs(acts, kind) {
            let device = MemStorage::new();
            (nth..nth + 8).for_each(|later| fail_sync(&device, later, 0));
            let life = live(&device, acts, level, &Life::unborn(layout));
            if life.error.is_none() || !sample.takes_next() {
                continue;
            }
            let what = format!("{acts:?} {kind:?}, syncs from {nth} on fail");
            tally += crash_again((&life, &device), (AFTERWARDS[0], level), &what);
        }
    }
    println!("failures for good: {tally:?}");
    assert!(tally.states > sample.least(10_000), "{tally:?}");
}

/// The number of the directory sync that ends a creation. If that sync fails and loses the
/// manifest's name, no later sync restores the name: the manifest exists only in the page cache. A
/// power cut is then reported as a lost manifest.
fn creation(layout: Layout) -> u64 {
    // A readable log has two files for its first segment, and syncs their names one by one.
    if layout == Layout::Text { 6 } else { 4 }
}

/// Fails sync `nth`, which keeps nothing (0), every other item (1) or all (2).
fn fail_sync(device: &MemStorage, nth: u64, keep: u8) {
    let mut turn = 0;
    device.fail_sync(nth, move |_| {
        turn += 1;
        match keep {
            0 => false,
            1 => turn % 2 == 0,
            _ => true,
        }
    });
}

/// The image (hole 23 of the model): a write of one manifest slot failed and garbled the slot on
/// disk, while the page cache shows it intact. The next process fails in its first write of the
/// manifest, and garbles that, too.
#[test]
fn two_garbled_manifest_writes_leave_one_valid_slot() {
    let acts: &[Act] = &[Append(100), Reopen, Append(120)];
    let of_manifest = |life: &Life| {
        life.error.as_ref().is_some_and(|error| error.to_string().contains("manifest"))
    };
    let mut states = 0;
    let layout = Layout::Binary;
    for (first, second) in (creation(layout) + 1..40).flat_map(|n| (0..8).map(move |m| (n, m))) {
        let device = MemStorage::new();
        device.spoil_sync(first, 512);
        let life = live(&device, acts, Level::Synced, &Life::unborn(layout));
        let again = device.kill();
        again.spoil_sync(second, 512);
        let next = live(&again, &[Append(90)], Level::Synced, &life);
        if of_manifest(&life) && of_manifest(&next) {
            let what = format!("sync {first} spoils the manifest, then sync {second}");
            check(&next, &again.power_cut(|_| false), Faults::FailedSync, &what);
            states += 1;
        }
    }
    println!("two garbled writes of the manifest: {states} states");
    assert!(states > 3, "{states}");
}

#[test]
fn one_damaged_run_or_lost_file_never_hides_a_confirmed_record() {
    let (mut faults, mut sample) = (0, Sample::one_in(10));
    for (layout, acts) in LAYOUTS.into_iter().flat_map(|l| WORKLOADS.map(|acts| (l, acts))) {
        let kind = (Level::Confirmed, layout);
        for stop in 0..=steps(acts, kind) {
            let life = run(acts, kind, stop);
            for device in [life.device.kill(), life.device.power_cut(|_| false)] {
                let what = format!("{acts:?} {layout:?}, step {stop}");
                faults += each_run(&device, &life, &mut sample, &what);
            }
        }
    }
    println!("one fault after each step: {faults} faults");
    assert!(faults > sample.least(40_000), "{faults}");
}

#[test]
fn one_fault_after_a_failed_sync_never_hides_a_confirmed_record() {
    let (mut faults, mut sample) = (0, Sample::one_in(10));
    for (layout, acts) in LAYOUTS.into_iter().flat_map(|l| WORKLOADS.map(|acts| (l, acts))) {
        for nth in 0..syncs(acts, (Level::Confirmed, layout)) {
            let device = MemStorage::new();
            fail_sync(&device, nth, 0);
            let life = live(&device, acts, Level::Confirmed, &Life::unborn(layout));
            let what = format!("{acts:?} {layout:?}, sync {nth} failed, power cut");
            let cut = device.power_cut(|_| false);
            faults += each_run(&cut, &life, &mut sample, &what);
        }
    }
    println!("one fault after a failed sync: {faults} faults");
    assert!(faults > sample.least(10_000), "{faults}");
}

/// The image: a batch is on disk, but the mark that confirms it is only in the page cache, because
/// its sync failed. The next process sees the mark, and must not rely on it.
#[test]
fn evidence_from_the_page_cache_is_rewritten_before_it_confirms() {
    let (mut faults, mut sample) = (0, Sample::one_in(10));
    for (layout, acts) in LAYOUTS.into_iter().flat_map(|l| WORKLOADS.map(|acts| (l, acts))) {
        for nth in 0..syncs(acts, (Level::Synced, layout)) {
            let device = MemStorage::new();
            fail_sync(&device, nth, 0);
            let life = live(&device, acts, Level::Synced, &Life::unborn(layout));
            let second = live(&device.kill(), &[Confirm], Level::Synced, &life);
            assert!(second.error.is_none(), "{acts:?}, sync {nth}: {:?}", second.error);
            let cut = second.device.power_cut(|_| false);
            let what =
                format!("{acts:?} {layout:?}, sync {nth} failed, killed, confirmed, power cut");
            faults += each_run(&cut, &second, &mut sample, &what);
        }
    }
    println!("one fault after a failed sync and a confirmation: {faults} faults");
    assert!(faults > sample.least(30_000), "{faults}");
}

/// The image: a recovery died between naming its segment and sealing the previous one. If the log
/// continued in that segment, nothing would reveal its loss.
#[test]
fn one_fault_never_hides_records_confirmed_after_an_interrupted_recovery() {
    let (mut faults, mut sample) = (0, Sample::one_in(10));
    let acts: &[Act] = &[Append(300), Append(300), Append(20)];
    for (layout, stop) in LAYOUTS.into_iter().flat_map(|layout| (0..99).map(move |n| (layout, n))) {
        let kind = (Level::Synced, layout);
        if stop > steps(acts, kind) {
            continue;
        }
        let life = run(acts, kind, stop);
        for second_stop in 0.. {
            let device = life.device.kill();
            device.stop_after(second_stop);
            let second = live(&device, &[Append(100)], Level::Synced, &life);
            let third = live(&device.kill(), &[Append(60), Confirm], Level::Synced, &second);
            assert!(third.error.is_none(), "{stop}, {second_stop}: {:?}", third.error);
            let cut = third.device.power_cut(|_| false);
            let what =
                format!("{layout:?}, step {stop}, killed, step {second_stop}, killed, confirmed");
            faults += each_run(&cut, &third, &mut sample, &what);
            if second.error.is_none() {
                break;
            }
        }
    }
    println!("one fault after two crashes: {faults} faults");
    assert!(faults > sample.least(25_000), "{faults}");
}

/// The image: a recovery died between naming its segment and syncing the directory. The next open
/// failed at that sync, so the disk lost the name. The page cache still shows the name, and no
/// later sync restores it.
#[test]
fn name_that_exists_only_in_the_page_cache_is_not_relied_on() {
    let mut tally = Tally::default();
    for (kind, acts) in
        KINDS.into_iter().flat_map(|kind| [(kind, WORKLOADS[0]), (kind, WORKLOADS[3])])
    {
        let life = run(acts, kind, steps(acts, kind) - 1);
        for stop in 0.. {
            let device = life.device.kill();
            device.stop_after(stop);
            let second = live(&device, &[Append(90)], kind.0, &life);
            let failing = device.kill();
            fail_sync(&failing, 0, 0);
            let third = live(&failing, &[], kind.0, &second);
            let fourth = live(&failing.kill(), &[Append(60), Append(700)], kind.0, &third);
            let what = format!("{kind:?}, step {stop}, killed, failed sync, killed, power cut");
            assert!(fourth.error.is_none(), "{what}: {:?}", fourth.error);
            for (_, cut) in cuts(&fourth.device, stop, 64) {
                tally.add(check(&fourth, &cut, Faults::FailedSync, &what));
            }
            if second.error.is_none() {
                break;
            }
        }
    }
    println!("names in the page cache: {tally:?}");
    assert!(tally.states > 200, "{tally:?}");
}
