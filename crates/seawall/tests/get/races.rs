//! Lookups of one record while the writer acts: each result is that before or after the action.

use super::{Reader, append, appended, reader};
use crate::common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use common::gate::Gated;
use common::hooked::Hooked;
use common::sample::Sample;
use common::watched::Call;
use common::{Bytes, GEOMETRY, Random, SEGMENT_MIN, Scratch, lsn, tiny, within};
use seawall::{Error, LogReader, Lsn, Options, Retention};
use seawall_testkit::MemStorage;

type Act = fn(&Bytes);

/// Actions of a writer on a log of 40 records.
const ACTS: [(&str, Act); 4] = [
    ("cut", |log| {
        log.truncate_after(Some(lsn(15))).unwrap();
        append(log, 2, 16..=45);
    }),
    ("empty", |log| log.truncate_after(None).unwrap()),
    ("prune", |log| assert!(log.truncate_before(lsn(38)).unwrap() > lsn(17))),
    ("roll", |log| append(log, 2, 41..=80)),
];

/// Whether a lookup of record `number` returned the state before or after the action `name`.
fn is_before_or_after(name: &str, number: u64, got: &seawall::Result<Option<Vec<u8>>>) -> bool {
    let is = |life| matches!(got, Ok(got) if *got == appended(number, life));
    let is_old = if number > 40 { matches!(got, Ok(None)) } else { is(1) };
    is_old
        || match name {
            "cut" => number > 15 && (is(2) || matches!(got, Ok(None))),
            "empty" => matches!(got, Ok(None)),
            "prune" => matches!(got, Err(Error::Pruned { oldest, .. }) if lsn(number) < *oldest),
            _ => number > 40 && is(2),
        }
}

/// A lookup, and the action of the writer meanwhile.
#[derive(Debug, Clone, Copy)]
struct Race {
    name: &'static str,
    act: Act,
    /// Whether the lookup uses the writer's own handle.
    here: bool,
    /// Whether all records were looked up before.
    warm: bool,
    number: u64,
}

impl Race {
    fn all() -> impl Iterator<Item = Self> {
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let races = ACTS.into_iter().flat_map(move |act| ways.map(|way| (act, way)));
        races.flat_map(|((name, act), (here, warm))| {
            [3, 14, 17, 38, 40, 41].map(|number| Self { name, act, here, warm, number })
        })
    }

    /// Returns the result of a lookup if the writer acts before read `look`, and once more after as
    /// many further reads as `again` says, and the number of actions that took place.
    fn run(self, look: u64, again: (u64, Act)) -> (seawall::Result<Option<Vec<u8>>>, u64) {
        let (hooked, hook) = Hooked::new(MemStorage::new(), u64::MAX, || {});
        let log: Arc<OnceLock<Bytes>> = Arc::default();
        log.set(tiny(1).open_in(Arc::new(hooked.clone())).unwrap()).unwrap();
        let (actor, reader) = (Arc::clone(&log), reader(hooked));
        let log = log.get().unwrap();
        append(log, 1, 1..=40);
        let find = |number| if self.here { log.get(lsn(number)) } else { reader.get(lsn(number)) };
        for number in (1..=40).filter(|_| self.warm) {
            find(number).unwrap();
        }
        let acted = Arc::new(AtomicU64::new(0));
        let (count, replan) = (acted.clone(), hook.clone());
        hook.plan(look, move || {
            (self.act)(actor.get().unwrap());
            count.fetch_add(1, Ordering::SeqCst);
            let (more, act) = again;
            replan.plan(more, move || {
                act(actor.get().unwrap());
                count.fetch_add(1, Ordering::SeqCst);
            });
        });
        (find(self.number), acted.load(Ordering::SeqCst))
    }
}

/// The writer acts just before each single read of `get`.
#[test]
fn concurrent_writes_are_not_mistaken_for_damage() {
    let mut races = 0;
    for race in Race::all() {
        for look in 0.. {
            let (found, acted) = race.run(look, (u64::MAX / 2, |_| {}));
            let fits = is_before_or_after(race.name, race.number, &found);
            assert!(fits, "{race:?} before look {look}: {found:?}");
            if acted == 0 {
                break;
            }
            races += 1;
        }
    }
    println!("{races} races");
    assert!(races > 500, "{races}");
}

/// The writer truncates before one read, and prunes what it then wrote before another one.
#[test]
fn concurrent_truncation_and_pruning_are_not_mistaken_for_damage() {
    let (mut races, mut sample) = (0, Sample::one_in(4));
    for race in Race::all().filter(|race| (race.name, race.number) == ("cut", 17)) {
        let looks = (0..40).flat_map(|look| (0..40).map(move |more| (look, more)));
        for (look, more) in looks.filter(|_| sample.takes_next()) {
            let prune: Act = |log| assert!(log.truncate_before(lsn(38)).unwrap() > lsn(17));
            let (found, acted) = race.run(look, (more, prune));
            let is_pruned = acted == 2 && matches!(found, Err(Error::Pruned { .. }));
            let fits = is_pruned || is_before_or_after("cut", 17, &found);
            assert!(fits, "{race:?} before look {look} and {more} later: {found:?}");
            races += u64::from(acted == 2);
        }
    }
    println!("{races} races");
    assert!(races > sample.least(500), "{races}");
}

/// The image: the writer is waiting for one of the syncs of its action.
#[test]
fn get_during_any_step_of_the_writer_sees_the_state_before_or_after_it() {
    within(60, || {
        for (name, act) in ACTS {
            let device = MemStorage::new();
            let (gated, gate) = Gated::new(device.clone());
            let log: Bytes = tiny(1).open_in(Arc::new(gated)).unwrap();
            append(&log, 1, 1..=40);
            let reader = reader(device);
            (1..=40).for_each(|number| drop(reader.get(lsn(number)).unwrap()));
            gate.shut();
            let (mut barriers, mut wrong) = (0, vec![]);
            std::thread::scope(|scope| {
                let acting = scope.spawn(|| act(&log));
                while !acting.is_finished() {
                    if gate.is_waited_at() {
                        for number in 1..=45 {
                            let got = reader.get(lsn(number));
                            if !is_before_or_after(name, number, &got) {
                                wrong.push((barriers, number, got));
                            }
                        }
                        barriers += 1;
                        gate.pass_one();
                    }
                    std::thread::yield_now();
                }
            });
            gate.open();
            assert!(barriers > 1 && wrong.is_empty(), "{name}, {barriers} barriers: {wrong:?}");
        }
    });
}

#[test]
fn many_threads_can_get_while_a_fast_writer_prunes() {
    const RECORDS: u64 = 1_500;
    within(60, || {
        let scratch = Scratch::new("get");
        let options = Options::new().geometry(GEOMETRY, SEGMENT_MIN).segment_size(10 * 512);
        let log: Bytes = options.open_in(scratch.storage()).unwrap();
        let reader: Reader = LogReader::open_in(scratch.storage()).unwrap();
        let (acknowledged, pruned) = (AtomicU64::new(0), AtomicU64::new(0));
        let outcomes: BTreeMap<&str, u64> = std::thread::scope(|scope| {
            let seekers: Vec<_> = (0..4)
                .map(|seed| {
                    let (log, reader, acknowledged, pruned) =
                        (&log, &reader, &acknowledged, &pruned);
                    scope.spawn(move || {
                        let (mut random, mut counts) =
                            (Random::new(seed), BTreeMap::<_, u64>::new());
                        while acknowledged.load(Ordering::SeqCst) < RECORDS {
                            let number = random.below(RECORDS) + 1;
                            let least = acknowledged.load(Ordering::SeqCst);
                            let gone = pruned.load(Ordering::SeqCst);
                            let got = match seed % 2 {
                                0 => log.get(lsn(number)),
                                _ => reader.get(lsn(number)),
                            };
                            let kind = match got {
                                Ok(None) if number > least => "not yet",
                                Ok(Some(got)) if number >= gone => {
                                    assert_eq!(Some(got), appended(number, 1));
                                    "got"
                                }
                                Err(Error::Pruned { oldest, .. }) if oldest > lsn(number) => {
                                    "pruned"
                                }
                                got => panic!("{number} of {least}, {gone} pruned: {got:?}"),
                            };
                            *counts.entry(kind).or_default() += 1;
                        }
                        counts
                    })
                })
                .collect();
            for number in 1..=RECORDS {
                append(&log, 1, [number]);
                acknowledged.store(number, Ordering::SeqCst);
                if number % 250 == 0 {
                    let oldest = log.truncate_before(lsn(number - 100)).unwrap();
                    pruned.store(oldest.get(), Ordering::SeqCst);
                }
            }
            let counts = seekers.into_iter().flat_map(|seeker| seeker.join().unwrap());
            counts.fold(BTreeMap::new(), |mut all, (kind, count)| {
                *all.entry(kind).or_default() += count;
                all
            })
        });
        println!("{outcomes:?}");
        assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    });
}

/// The image: the manifest begins after the segment that the writer named last. In an unfinished
/// step, the writer has created another segment and pruned that one.
#[test]
fn get_during_pruning_waits_for_the_end_of_the_step() {
    within(60, || {
        let (gated, gate) = Gated::before(Call::SyncDir, MemStorage::new());
        let ring = Retention::new().max_bytes(1).without_checkpoints();
        let log: Bytes = tiny(1).retention(ring).open_in(Arc::new(gated)).unwrap();
        log.append(&[1; 900]).unwrap();
        let rolls = log.stats().rolls;
        gate.shut();
        let (log, gate) = (&log, &gate);
        std::thread::scope(|scope| {
            let appended = scope.spawn(move || {
                while log.stats().rolls == rolls {
                    log.append(&[1; 900]).unwrap();
                }
            });
            // The directory syncs for the name of the new segment, then for the removal of the old
            // one.
            gate.wait_for_somebody();
            gate.pass_one();
            while !gate.is_waited_at() {
                std::thread::yield_now();
            }
            let got = scope.spawn(move || log.get(Lsn::FIRST));
            std::thread::park_timeout(std::time::Duration::from_millis(50));
            gate.open();
            let got = got.join().unwrap();
            assert!(matches!(got, Err(Error::Pruned { .. })), "{got:?}");
            appended.join().unwrap();
        });
    });
}
