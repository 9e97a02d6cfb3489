//! Evidence of durability advances in every configuration. If it stopped in one, damage there would
//! pass for the end of the log.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::{Bytes, LAYOUTS, LEVELS, again, laid_out, open, payload_in, tiny};
use seawall::parity::Parity;
use seawall::{Layout, Level, Lsn, Options, Retention, Stats};
use seawall_testkit::MemStorage;

/// Appends per life. A segment holds only a few of them.
const APPENDS: u64 = 30;
/// Appends between two checks of the files.
const TURN: u64 = 3;

/// One configuration of a log.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of a log")]
#[derive(Clone, Copy, Debug)]
struct Configuration {
    level: Level,
    layout: Layout,
    in_flight_max: u8,
    reuse: bool,
    name_ahead: bool,
    preallocate: bool,
    has_parity: bool,
    has_retention: bool,
}

impl Configuration {
    fn all() -> Vec<Self> {
        let kinds = LEVELS.into_iter().flat_map(|level| LAYOUTS.map(|layout| (level, layout)));
        let each = |(level, layout)| {
            (0..64).map(move |bits: u8| {
                let is_set = |bit: u8| bits >> bit & 1 == 1;
                Self {
                    level,
                    layout,
                    in_flight_max: if is_set(0) { 3 } else { 1 },
                    reuse: is_set(1),
                    name_ahead: is_set(2),
                    preallocate: is_set(3),
                    has_parity: is_set(4),
                    has_retention: is_set(5),
                }
            })
        };
        let has_effect =
            |of: &Self| of.layout == Layout::Binary || (of.in_flight_max == 1 && !of.name_ahead);
        kinds.flat_map(each).filter(has_effect).collect()
    }

    fn options(self, seed: u64) -> Options {
        let options = laid_out(tiny(seed), self.layout)
            .level(self.level)
            .reuse(self.reuse)
            .name_ahead(self.name_ahead)
            .preallocate(self.preallocate)
            .writes_in_flight(self.in_flight_max)
            .stream_batch(1, 1)
            .parity(self.has_parity.then_some(Parity::DEFAULT));
        let kept = Retention::new().max_bytes(12 << 10).without_checkpoints();
        if self.has_retention { options.retention(kept) } else { options }
    }

    /// The number of newest records that may be without evidence.
    fn window(self) -> u64 {
        match self.level {
            Level::Confirmed => 0,
            _ if self.in_flight_max > 1 => TURN,
            _ => 1,
        }
    }

    /// Appends records, and checks the files as a killed process leaves them. Returns the log's
    /// counters.
    fn live(self, device: &MemStorage, options: &Options) -> Stats {
        let log: Bytes = open(options, device).unwrap();
        let first = log.durable().map_or(0, Lsn::get);
        assert_eq!(self.confirmed(device), first, "{self:?}: open leaves evidence");
        for turn in 1..=APPENDS / TURN {
            let last = first + turn * TURN;
            let records = last - TURN + 1..=last;
            let records = records.map(|lsn| payload_in(self.layout, (lsn, 1), 450));
            if self.in_flight_max > 1 {
                let tickets: Vec<_> = records.map(|record| log.submit(&record).unwrap()).collect();
                for ticket in tickets {
                    ticket.wait().unwrap();
                }
            } else {
                for record in records {
                    log.append(&record).unwrap();
                }
            }
            let confirmed = self.confirmed(device);
            assert!(confirmed + self.window() >= last, "{self:?}: {confirmed} of {last}");
        }
        log.confirm().unwrap();
        assert_eq!(self.confirmed(device), first + APPENDS, "{self:?}: a mark is evidence");
        log.stats()
    }

    /// The last record for which the files hold evidence.
    fn confirmed(self, device: &MemStorage) -> u64 {
        let log = open(&laid_out(again(3), self.layout), &device.kill()).unwrap();
        log.recovery().confirmed.map_or(0, Lsn::get)
    }
}

#[test]
fn evidence_advances_in_every_configuration() {
    let mut counts = [0; 5];
    for configuration in Configuration::all() {
        let device = MemStorage::new();
        for life in 1..=2 {
            let stats = configuration.live(&device, &configuration.options(life));
            let Stats { rolls, named_ahead, reused, pruned, overlapped, .. } = stats;
            let done = [rolls, named_ahead, reused, pruned, overlapped];
            counts.iter_mut().zip(done).for_each(|(count, done)| *count += done);
        }
    }
    println!("rotations, named ahead, reused, removed, overlapped: {counts:?}");
    let [rolls, _, reused, pruned, _] = counts;
    assert!(rolls > 1000 && reused > 30 && pruned > 300);
}
