//! Compares random programs with a minimal model of a log: a list of records and three numbers. The
//! same program runs on both layouts and must give the same result at each step.
//!
//! The simulator tests the promises on failing devices. This test is about the meaning of the
//! calls, and a failing program shrinks to the few calls that matter.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use proptest::prelude::*;
use seawall::recovery::TailState;
use seawall::verify::Verdict;
use seawall::{Error, Follower, Layout, Level, LogReader, Lsn, Maintenance, Raw};
use seawall_hunt::sample::{Bytes, Encoding, End, Kind, Past, Scale, open};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::sync::Arc;

/// A call. Positions are relative: 0 is before the first record, 255 is the last record.
#[derive(Clone, Copy, Debug)]
enum Call {
    Append(u16),
    Set(u8, u16),
    Submit(u8),
    Flush,
    Confirm,
    Checkpoint(u8),
    TruncateBefore(u8),
    TruncateAfter(u8),
    Get(u8),
    ReadFrom(u8),
    /// The maximum number of records that the follower reads.
    Follow(u8),
    Close,
    Drop,
    /// Kills the process; the machine keeps running.
    Kill,
    /// Cuts the power; the bits select which unsynced writes survive.
    PowerCut(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        8 => (0..700_u16).prop_map(Call::Append),
        3 => (1..5_u8, 0..200_u16).prop_map(|(count, size)| Call::Set(count, size)),
        2 => (1..6_u8).prop_map(Call::Submit),
        1 => Just(Call::Flush),
        1 => Just(Call::Confirm),
        1 => any::<u8>().prop_map(Call::Checkpoint),
        1 => any::<u8>().prop_map(Call::TruncateBefore),
        1 => any::<u8>().prop_map(Call::TruncateAfter),
        3 => any::<u8>().prop_map(Call::Get),
        1 => any::<u8>().prop_map(Call::ReadFrom),
        2 => any::<u8>().prop_map(Call::Follow),
        1 => Just(Call::Close),
        1 => Just(Call::Drop),
        1 => Just(Call::Kill),
        2 => any::<u64>().prop_map(Call::PowerCut),
    ];
    prop::collection::vec(call, 1..40)
}

/// The expected state of a log.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    /// All records from LSN 1 on, including those truncated at the front.
    records: Vec<Vec<u8>>,
    /// Number of records removed at the front.
    gone: u64,
    /// Number of records to remove at the front, as requested. Only whole segments are removed, and
    /// those differ between the layouts.
    asked: u64,
    checkpoint: Option<u64>,
    written: u64,
}

impl Model {
    fn last(&self) -> u64 {
        u64::try_from(self.records.len()).unwrap()
    }

    /// The record at a relative position among those that are certainly there.
    fn at(&self, share: u8) -> u64 {
        self.asked + (self.last() - self.asked) * u64::from(share) / 255
    }

    /// Makes a record that differs from all others and is valid in both layouts.
    fn draw(&mut self, size: u16) -> Vec<u8> {
        self.written += 1;
        format!("\"{}.{}\"", self.written, "x".repeat(usize::from(size))).into_bytes()
    }
}

/// A log, its model, and a follower if one was started.
struct World {
    kind: Kind,
    level: Level,
    device: MemStorage,
    log: Option<Bytes>,
    model: Model,
    follower: Option<(Follower<[u8], Raw>, u64)>,
    lives: u64,
}

impl World {
    fn new(layout: Layout, level: Level) -> Self {
        let (end, scale, past) = (End::Closed, Scale::Tiny, Past::Plain);
        let mut world = Self {
            kind: Kind { layout, end, scale, past, encoding: Encoding::Plain, seed: 1 },
            level,
            device: MemStorage::new(),
            log: None,
            model: Model::default(),
            follower: None,
            lives: 0,
        };
        world.open();
        world
    }

    fn log(&self) -> &Bytes {
        self.log.as_ref().unwrap()
    }

    /// Opens the log and compares all of it with the model.
    fn open(&mut self) {
        self.lives += 1;
        let options = self.kind.options(self.lives << 16).level(self.level);
        let log = open(&options, &self.device).unwrap();
        assert_ne!(log.recovery().tail, TailState::Ambiguous, "crashes alone are torn at most");
        assert_eq!(log.recovery().last.map_or(0, Lsn::get), self.model.last());
        self.log = Some(log);
        self.model.gone = self.log().oldest().get() - 1;
        assert!(self.model.gone <= self.model.asked);
        if let Some(checkpoint) = self.model.checkpoint {
            assert_eq!(self.log().replay_start().get(), checkpoint);
        }
        assert_eq!(self.read(1), self.model.last());
        let found =
            Maintenance::on(&(Arc::new(self.device.clone()) as Arc<dyn Storage>)).verify().unwrap();
        assert_eq!(found.verdict, Verdict::Clean, "{found:?}");
    }

    /// Reads from a record on, with the log and with a separate reader; returns the last LSN.
    fn read(&self, from: u64) -> u64 {
        let from = from.max(self.model.gone + 1);
        let lsn = Lsn::new(from).unwrap();
        let here = self.log().read_from(lsn).unwrap();
        let reader = LogReader::<[u8], Raw>::open_any_in(Arc::new(self.device.clone())).unwrap();
        let mut beside = reader.read_from(lsn).unwrap();
        let mut next = from;
        for one in here {
            let two = beside.next().expect("a separate reader has every record");
            let ((lsn, payload), other) = (one.unwrap(), two.unwrap());
            assert_eq!(lsn.get(), next, "in order, without a hole");
            assert_eq!(Some(&payload), self.record(next));
            assert_eq!(other, (lsn, payload));
            next += 1;
        }
        assert!(beside.next().is_none(), "a separate reader has more than {next} records");
        next - 1
    }

    fn record(&self, lsn: u64) -> Option<&Vec<u8>> {
        self.model.records.get(usize::try_from(lsn.checked_sub(1)?).unwrap())
    }

    fn call(&mut self, call: Call) {
        match call {
            Call::Append(size) => {
                let record = self.model.draw(size);
                let lsn = self.log().append(&record).unwrap();
                self.model.records.push(record);
                assert_eq!(lsn.get(), self.model.last());
            }
            Call::Set(count, size) => {
                let set: Vec<_> = (0..count).map(|_| self.model.draw(size)).collect();
                let lsns = self.log().append_batch(set.iter().map(Vec::as_slice)).unwrap();
                assert_eq!(lsns.start().get(), self.model.last() + 1);
                self.model.records.extend(set);
                assert_eq!(lsns.end().get(), self.model.last());
            }
            Call::Submit(count) => {
                let records: Vec<_> = (0..count).map(|_| self.model.draw(9)).collect();
                let tickets: Vec<_> =
                    records.iter().map(|record| self.log().submit(record).unwrap()).collect();
                self.model.records.extend(records);
                let last = tickets.into_iter().map(|ticket| ticket.wait().unwrap().get()).last();
                assert_eq!(last, Some(self.model.last()));
            }
            Call::Flush => self.is_up_to(self.log().flush().unwrap()),
            Call::Confirm => self.is_up_to(self.log().confirm().unwrap()),
            Call::Checkpoint(share) => self.checkpoint(self.model.at(share) + 1),
            Call::TruncateBefore(share) => self.truncate_before(self.model.at(share) + 1),
            Call::TruncateAfter(share) => self.truncate_after(self.model.at(share)),
            Call::Get(share) => self.get(self.model.at(share)),
            Call::ReadFrom(share) => {
                let from = self.model.at(share) + 1;
                let last = self.read(from);
                assert_eq!(last, self.model.last());
            }
            Call::Follow(most) => self.follow(most),
            Call::Close => {
                self.follower = None;
                self.log.take().unwrap().close().unwrap();
                self.open();
            }
            Call::Drop => {
                self.follower = None;
                self.log = None;
                self.open();
            }
            Call::Kill => self.crash(self.device.kill()),
            Call::PowerCut(lands) => {
                let mut lands = lands;
                let cut = self.device.power_cut(|_| {
                    lands = lands.rotate_left(1);
                    lands & 1 == 1
                });
                self.crash(cut);
            }
        }
    }

    fn crash(&mut self, left: MemStorage) {
        // Writes of the dying process to its own device do not matter: the log uses a copy.
        self.follower = None;
        self.log = None;
        self.device = left;
        self.open();
    }

    fn is_up_to(&self, lsn: Option<Lsn>) {
        assert_eq!(lsn.map_or(0, Lsn::get), self.model.last());
        assert_eq!(self.log().durable(), lsn);
    }

    fn checkpoint(&mut self, lsn: u64) {
        self.log().checkpoint(Lsn::new(lsn).unwrap()).unwrap();
        self.model.checkpoint = Some(lsn);
        assert_eq!(self.log().replay_start().get(), lsn);
    }

    fn truncate_before(&mut self, lsn: u64) {
        let first = self.log().truncate_before(Lsn::new(lsn).unwrap()).unwrap().get();
        assert!(first > self.model.gone && first <= lsn, "{first} for {lsn}");
        (self.model.gone, self.model.asked) = (first - 1, lsn - 1);
        assert_eq!(self.log().oldest().get(), first);
        self.model.checkpoint = self.model.checkpoint.filter(|at| *at >= first);
    }

    fn truncate_after(&mut self, last: u64) {
        self.log().truncate_after(Lsn::new(last)).unwrap();
        self.model.records.truncate(usize::try_from(last).unwrap());
        self.model.checkpoint = self.model.checkpoint.map(|at| at.min(last + 1));
    }

    fn get(&self, lsn: u64) {
        let Some(number) = Lsn::new(lsn) else { return };
        match self.log().get(number) {
            Ok(found) if lsn > self.model.gone => assert_eq!(found.as_ref(), self.record(lsn)),
            Err(Error::Pruned { oldest, .. }) => assert_eq!(oldest.get(), self.model.gone + 1),
            other => assert!(lsn <= self.model.gone, "{lsn}: {other:?}"),
        }
        assert_eq!(self.log().get(Lsn::new(self.model.last() + 1).unwrap()).unwrap(), None);
    }

    /// Reads the available records with the follower, at most `most` of them.
    fn follow(&mut self, most: u8) {
        let (mut follower, mut next) = self.follower.take().unwrap_or_else(|| {
            let from = self.model.gone + 1;
            (self.log().follow(Lsn::new(from).unwrap()).unwrap(), from)
        });
        for _ in 0..most {
            if next > self.model.last() {
                break;
            }
            match follower.next_within(std::time::Duration::ZERO) {
                Ok(Some((lsn, payload))) => {
                    assert_eq!((lsn.get(), Some(&payload)), (next, self.record(next)));
                    next += 1;
                }
                Ok(None) => panic!("record {next} of {} is there", self.model.last()),
                Err(Error::Rewound { .. } | Error::Pruned { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
        self.follower = Some((follower, next));
    }
}

fn run(calls: &[Call], layout: Layout, level: Level) -> Model {
    let mut world = World::new(layout, level);
    for call in calls {
        world.call(*call);
    }
    world.call(Call::Close);
    world.model
}

/// Sets the number of programs; the environment variable `SEAWALL_CASES` overrides it.
fn config() -> ProptestConfig {
    let asked = std::env::var("SEAWALL_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = asked.unwrap_or(300);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_program_means_the_same_in_both_layouts_and_in_the_model(
        calls in calls(),
        level in prop_oneof![Just(Level::Synced), Just(Level::Confirmed)],
    ) {
        let binary = run(&calls, Layout::Binary, level);
        let text = run(&calls, Layout::Text, level);
        prop_assert_eq!(binary.records, text.records);
    }
}
