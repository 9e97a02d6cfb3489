//! Golden files made by the writer: intact logs, one for each way in which writing can end.

use super::Case;
use super::event::Event;
use super::image::Files;
use crate::sample::{Bytes, files};
use seawall::format::{CodecId, Geometry};
use seawall::{Codec, Json, Layout, Level, Log, Lsn, MessagePack, Options, Positional, Raw};
use seawall_io::{ManualClock, SeededEntropy};
use seawall_testkit::MemStorage;
use std::sync::Arc;

/// The smallest geometry, so that a log fits on one page.
pub(super) const SIZES: Geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };

/// 2026-01-01, in microseconds since 1970.
pub(super) const TIME: u64 = 1_767_225_600_000_000;

/// Thirteen records in nine sets: three segments.
pub(super) const SETS: [&[usize]; 9] =
    [&[150], &[80, 0, 100], &[300], &[600], &[700], &[200, 200, 200], &[500], &[250], &[20]];

/// A log that is being written.
pub(super) struct Life {
    device: MemStorage,
    clock: Arc<ManualClock>,
    layout: Layout,
    log: Option<Bytes>,
    next: u64,
}

fn clock() -> Arc<ManualClock> {
    let clock = ManualClock::new();
    clock.set_wall_us(TIME);
    Arc::new(clock)
}

fn options(seed: u64, clock: &Arc<ManualClock>, layout: Layout) -> Options {
    let options = Options::new()
        .idle_mark(None)
        .preallocate(false)
        .name_ahead(false)
        .env(clock.clone(), Arc::new(SeededEntropy::new(seed)));
    match layout {
        Layout::Text => {
            options.geometry(SIZES, 2048).segment_size(4096).codec(CodecId::Json).layout(layout)
        }
        _ => options.geometry(SIZES, 7 * 512).segment_size(10 * 512),
    }
}

fn as_is(options: Options) -> Options {
    options
}

impl Life {
    pub(super) fn begin(layout: Layout, change: impl FnOnce(Options) -> Options) -> Self {
        let (device, clock) = (MemStorage::new(), clock());
        let mut life = Self { device, clock, layout, log: None, next: 1 };
        life.open(1, change);
        life
    }

    pub(super) fn open(&mut self, seed: u64, change: impl FnOnce(Options) -> Options) {
        let options = change(options(seed, &self.clock, self.layout));
        self.log = Some(options.open_in(Arc::new(self.device.clone())).unwrap());
    }

    pub(super) fn log(&self) -> &Bytes {
        self.log.as_ref().unwrap()
    }

    pub(super) fn append(&mut self, sets: &[&[usize]]) {
        for sizes in sets {
            self.tick();
            let set: Vec<_> =
                (self.next..).zip(*sizes).map(|(lsn, size)| self.record(lsn, *size)).collect();
            let lsns = self.log().append_batch(set.iter().map(Vec::as_slice)).unwrap();
            self.next = lsns.end().get() + 1;
        }
    }

    /// Advances the clock, so that each set has its own time.
    fn tick(&self) {
        self.clock.set_wall_us(TIME + 1_000_003 * self.next);
    }

    fn record(&self, lsn: u64, size: usize) -> Vec<u8> {
        let text = format!("record {lsn}, ").repeat(size / 8 + 1);
        match (self.layout, size) {
            (Layout::Text, 0) => b"null".to_vec(),
            (Layout::Text, _) => {
                format!("{{\"n\":{lsn}.50,\"t\":\"{}\"}}", &text[..size]).into_bytes()
            }
            _ => text.as_bytes()[..size].to_vec(),
        }
    }

    pub(super) fn close(&mut self) {
        self.tick();
        self.log.take().unwrap().close().unwrap();
    }

    /// Cuts the power: only synced data survives.
    pub(super) fn power_cut(self) -> Files {
        files(&self.device.power_cut(|_| false))
    }

    pub(super) fn closed(mut self) -> Files {
        self.close();
        files(&self.device.power_cut(|_| true))
    }
}

fn plain(layout: Layout) -> Life {
    let mut life = Life::begin(layout, as_is);
    life.append(&SETS);
    life
}

/// A log of one segment.
fn short(layout: Layout) -> Life {
    let mut life = Life::begin(layout, as_is);
    life.append(&SETS[..2]);
    life
}

/// A log whose last batch is the only one of its segment.
fn wide() -> Files {
    let mut life = Life::begin(Layout::Binary, as_is);
    life.append(&[&[150], &[300, 300, 200]]);
    life.power_cut()
}

fn with_parity(layout: Layout) -> Files {
    let scheme = "4+2".parse().ok();
    let mut life = Life::begin(layout, |options| options.parity(scheme));
    life.append(&SETS);
    life.closed()
}

/// A log of events.
fn typed<C: Codec<Event>>() -> Files {
    let (device, clock) = (MemStorage::new(), clock());
    let options = options(3, &clock, Layout::Binary).segment_size(16 << 10);
    let options = options.type_name("Event").schema(4);
    let log: Log<Event, C> = options.open_in(Arc::new(device.clone())).unwrap();
    for lsn in 1..=Event::COUNT {
        clock.set_wall_us(TIME + lsn);
        log.append(&Event::of(lsn)).unwrap();
    }
    log.close().unwrap();
    files(&device.power_cut(|_| true))
}

/// A log with the default sizes.
fn usual() -> Files {
    let device = MemStorage::new();
    let options = Options::new()
        .idle_mark(None)
        .preallocate(false)
        .name_ahead(false)
        .env(clock(), Arc::new(SeededEntropy::new(5)));
    let log: Log<[u8], Raw> = options.open_in(Arc::new(device.clone())).unwrap();
    for text in ["one", "", "three records and their numbers"] {
        log.append(text.as_bytes()).unwrap();
    }
    log.close().unwrap();
    files(&device.power_cut(|_| true))
}

fn not_created() -> Files {
    let mut files = Life::begin(Layout::Binary, as_is).power_cut();
    files.remove("manifest");
    files
}

fn confirmed() -> Files {
    let mut life = Life::begin(Layout::Binary, |options| options.level(Level::Confirmed));
    life.append(&SETS[..6]);
    life.log().confirm().unwrap();
    life.append(&SETS[6..8]);
    life.log().confirm().unwrap();
    life.power_cut()
}

fn checkpointed() -> Files {
    let lsn = |number| Lsn::new(number).unwrap();
    let mut life = plain(Layout::Binary);
    life.log().checkpoint(lsn(8)).unwrap();
    life.log().checkpoint(lsn(12)).unwrap();
    life.log().truncate_before(lsn(8)).unwrap();
    life.append(&[&[40], &[50, 60]]);
    life.closed()
}

/// The fourth segment reuses the file of the second.
fn reused() -> Files {
    let mut life = Life::begin(Layout::Binary, as_is);
    life.append(&[&[900], &[960], &[960], &[960], &[900]]);
    life.log().truncate_before(Lsn::new(5).unwrap()).unwrap();
    life.append(&[&[960], &[300], &[40]]);
    life.power_cut()
}

/// The second segment has at most three writes in flight, so each write fills its last block.
fn in_flight() -> Files {
    let change =
        |options: Options| options.writes_in_flight(3).stream_batch(1, 1).segment_size(16 * 512);
    let mut life = Life::begin(Layout::Binary, change);
    life.append(&[&[900], &[900], &[300], &[200, 200], &[700]]);
    life.power_cut()
}

/// All segments but the first were named ahead.
fn named_ahead() -> Files {
    let mut life = Life::begin(Layout::Binary, |options| options.name_ahead(true));
    life.append(&[&[900], &[900], &[300], &[200, 200], &[700], &[40]]);
    life.power_cut()
}

fn cut() -> Files {
    let mut life = plain(Layout::Binary);
    life.log().truncate_after(Lsn::new(9)).unwrap();
    life.next = 10;
    life.append(&[&[33], &[44]]);
    life.closed()
}

fn reopened() -> Files {
    let mut life = Life::begin(Layout::Binary, as_is);
    life.append(&SETS[..2]);
    life.close();
    life.open(2, as_is);
    life.append(&SETS[2..3]);
    // The next open rewrites unconfirmed records to a segment of their own.
    life.device = life.device.power_cut(|_| false);
    life.open(3, as_is);
    life.append(&SETS[6..]);
    life.closed()
}

fn schemas(layout: Layout) -> Files {
    let named = |number| {
        move |options: Options| options.codec(CodecId::Json).type_name("Event").schema(number)
    };
    let mut life = Life::begin(layout, named(1));
    for (seed, number) in [(2, 2), (3, 7), (0, 0)] {
        for _ in 0..3 {
            life.tick();
            let record = format!("{{\"id\": {}, \"ratio\": 1.50}}", life.next);
            life.log().append(record.as_bytes()).unwrap();
            life.next += 1;
        }
        if seed > 0 {
            life.close();
            life.open(seed, named(number));
        }
    }
    life.closed()
}

/// Returns each case with its files.
pub(super) fn all() -> Vec<(Case, Files)> {
    use Layout::{Binary, Text};
    let empty = Life::begin(Binary, |options| options.level(Level::Buffered)).closed();
    let killed = files(&plain(Binary).device.kill());
    let all: [(&str, &str, Files); 26] = [
        ("closed", "three segments, closed", plain(Binary).closed()),
        ("not-closed", "the same, left by a power cut", plain(Binary).power_cut()),
        ("killed", "the same, left by a killed process: live is there", killed),
        ("confirmed", "marks in both slots, then a power cut", confirmed()),
        ("short", "one segment, closed", short(Binary).closed()),
        ("short-not-closed", "one segment, left by a power cut", short(Binary).power_cut()),
        ("empty", "closed without a record", empty),
        ("not-created", "a creation that a crash cut short: no manifest", not_created()),
        ("checkpointed", "two checkpoints, and the oldest segments pruned", checkpointed()),
        ("cut", "cut behind record 9, and appended to", cut()),
        ("reused", "a segment in a file of a removed one, left by a power cut", reused()),
        ("in-flight", "a segment with several writes in flight", in_flight()),
        ("named-ahead", "segments named ahead, left by a power cut", named_ahead()),
        ("reopened-shared", "closed, opened, left by a power cut, opened, closed", reopened()),
        ("wide", "a batch of two sectors, left by a power cut", wide()),
        ("usual-sizes", "blocks of 4 KiB, reach of 64 KiB, a segment of 1 MiB", usual()),
        ("schemas", "JSON of three schema numbers, a segment each", schemas(Binary)),
        ("json", "typed records as JSON", typed::<Json>()),
        ("msgpack", "typed records as MessagePack by names", typed::<MessagePack>()),
        ("positional", "typed records as MessagePack by position", typed::<Positional>()),
        ("parity", "parity of four blocks and two, closed", with_parity(Binary)),
        ("reserved", "lines of JSON, closed", plain(Text).closed()),
        ("reserved-not-closed", "lines of JSON, left by a power cut", plain(Text).power_cut()),
        ("reserved-short", "one text, left by a power cut", short(Text).power_cut()),
        ("reserved-schemas", "lines of JSON of three schema numbers", schemas(Text)),
        ("reserved-parity", "lines of JSON with parity, closed", with_parity(Text)),
    ];
    all.into_iter().map(|(name, what, files)| (Case::of(name, what, &files), files)).collect()
}
