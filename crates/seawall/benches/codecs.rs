//! What a codec adds to an append: typed records beside bytes of the same size that are ready, in
//! alternating slices, on a device of memory. `cargo bench -p seawall --bench codecs`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "it reports failure by panicking")]

#[path = "../tests/common/ram.rs"]
#[expect(unreachable_pub, reason = "the tests include this module, too")]
mod ram;

use ram::Ram;
use seawall::format::Geometry;
use seawall::{Codec, Json, Level, Log, MessagePack, Options, Positional, Raw};
use seawall_io::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The record of the paper.
#[derive(Serialize, Deserialize)]
struct Record {
    id: u32,
    comment: String,
    objects: Vec<Object>,
}

#[derive(Serialize, Deserialize)]
struct Object {
    a: u32,
    b: u32,
}

fn record(id: u32) -> Record {
    let objects = (0..4).map(|a| Object { a: id + a, b: id * 31 + a }).collect();
    Record { id, comment: format!("this is record number {id:06}"), objects }
}

const RECORDS: u32 = 100;
const SLICES: usize = 400;
/// Appends in a slice.
const SLICE: usize = 500;
/// A batch has as many when nobody waits for each.
const BATCH: usize = 50;

fn open<T: ?Sized, C: Codec<T>>(level: Level) -> Log<T, C> {
    // One segment: a roll is not part of what is measured.
    let options = Options::new().geometry(Geometry::DEFAULT, 128 << 20).segment_size(256 << 20);
    let options = options.buffered(Duration::from_secs(3600), usize::MAX).level(level);
    options.idle_mark(None).preallocate(false).open_in(Arc::new(Ram::default())).unwrap()
}

/// Nanoseconds for each append of a slice.
fn slice<T: ?Sized, C: Codec<T>>(clock: &SystemClock, log: &Log<T, C>, records: &[&T]) -> f64 {
    let before = clock.now();
    for (turn, record) in records.iter().cycle().take(SLICE).enumerate() {
        log.append(record).unwrap();
        if turn % BATCH == BATCH - 1 {
            log.flush().unwrap();
        }
    }
    let took = clock.now() - before;
    took.as_secs_f64() * 1e9 / f64::from(u32::try_from(SLICE).unwrap())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap()
}

fn compare<C: Codec<Record, Item = Record>>(level: Level, records: &[Record]) {
    let encode = |record: &Record| {
        let mut payload = vec![];
        C::encode(record, &mut payload).unwrap();
        payload
    };
    let ready: Vec<Vec<u8>> = records.iter().map(encode).collect();
    let bytes: Vec<&[u8]> = ready.iter().map(Vec::as_slice).collect();
    let typed: Vec<&Record> = records.iter().collect();
    let (clock, typed_log, raw_log) = (SystemClock::new(), open::<_, C>(level), open(level));
    let raw_log: Log<[u8], Raw> = raw_log;
    let slices: Vec<(f64, f64)> = (0..SLICES)
        .map(|_| (slice(&clock, &typed_log, &typed), slice(&clock, &raw_log, &bytes)))
        .skip(SLICES / 10)
        .collect();
    let (with, without): (Vec<f64>, Vec<f64>) = slices.iter().copied().unzip();
    let ratio = median(slices.iter().map(|(with, without)| with / without).collect());
    println!(
        "{:<11} {:<9} {:>4} B {:>8.0} ns {:>8.0} ns {ratio:>6.2}",
        C::ID.name(),
        level.name(),
        ready.iter().map(Vec::len).sum::<usize>() / ready.len(),
        median(with),
        median(without),
    );
}

fn main() {
    let records: Vec<Record> = (0..RECORDS).map(|id| record(1_000_000 + id)).collect();
    println!("codec       level       size       typed   raw bytes  ratio");
    for level in [Level::Buffered, Level::Synced] {
        compare::<MessagePack>(level, &records);
        compare::<Positional>(level, &records);
        compare::<Json>(level, &records);
    }
}
