//! The earthquake example ends with the same state wherever it crashes.

#[allow(dead_code, unreachable_pub, missing_docs, reason = "the example is included unchanged")]
#[path = "../examples/quakes.rs"]
mod example;

use example::{DUMP_EVERY, Event, Run, Week, events, run};
use seawall::{Log, Options};
use seawall_io::Storage;
use seawall_replay::Snapshots;
use seawall_testkit::{Dice, MemStorage};

/// Runs the example on a device that may crash.
fn run_on(device: &MemStorage, stop: impl FnMut(&Run) -> bool) -> Result<Run, String> {
    let options = Options::new().preallocate(false).idle_mark(None);
    let folder = |name| device.folder(name).map_err(|error| error.to_string());
    let log: Log<Event> = options.open_in(folder("log")?).map_err(|error| error.to_string())?;
    let dumps = Snapshots::<Week>::open_in(folder("dumps")?, "week", 1);
    run(&log, dumps.map_err(|error| error.to_string())?, stop).map_err(|error| error.to_string())
}

#[test]
fn stream_has_a_report_and_a_revision_of_each_event_in_order() {
    let events = events().unwrap();
    assert_eq!(events.len(), 2 * 1_707);
    let mut week = Week::default();
    for event in events {
        week.apply(event).unwrap();
    }
}

#[test]
fn interrupted_run_ends_with_the_same_state_as_an_uninterrupted_one() {
    let whole = MemStorage::new();
    let undisturbed = run_on(&whole, |_| false).unwrap();
    assert_eq!((undisturbed.tail, undisturbed.appended), (0, 3_414));
    let mut dice = Dice::new(7);
    let mut device = MemStorage::new();
    let mut deaths = 0;
    let survivor = loop {
        device.stop_after(500 + dice.any() % 3_000);
        match run_on(&device, |_| false) {
            Ok(run) => break run,
            Err(_) => deaths += 1,
        }
        device = device.power_cut(|_| dice.one_in(2));
    };
    assert!(deaths >= 2, "{deaths}");
    assert_eq!(survivor.week, undisturbed.week);
    assert_eq!(survivor.week.digest().unwrap(), undisturbed.week.digest().unwrap());

    let again = run_on(&device, |_| false).unwrap();
    assert_eq!((again.appended, again.tail), (0, 3_414 % DUMP_EVERY));
    assert_eq!(again.week, undisturbed.week);
}

#[test]
fn stopped_run_is_continued_by_the_next() {
    let device = MemStorage::new();
    let first = run_on(&device, |run| run.appended == DUMP_EVERY + 20).unwrap();
    assert_eq!(first.appended, DUMP_EVERY + 20);
    let second = run_on(&device, |_| false).unwrap();
    assert_eq!((second.tail, second.appended), (20, 3_414 - DUMP_EVERY - 20));
}
