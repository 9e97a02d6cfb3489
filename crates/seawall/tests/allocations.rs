//! Once its buffers have grown, an append allocates nothing, with every codec and at every level.
//!
//! Only allocations of the appending thread are counted. The log's background thread is idle here,
//! but std allocates when it starts, which may happen during the count.

#![cfg(feature = "json")]
#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

mod common;

use common::ram::Ram;
use seawall::format::Geometry;
use seawall::{Codec, Json, Level, Log, MessagePack, Options, Positional, Raw};
use serde::{Deserialize, Serialize};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The system allocator, with a count of allocations.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if IS_COUNTED.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A record with a field of each kind of value that a codec encodes.
#[derive(Serialize, Deserialize)]
struct Record {
    id: u32,
    comment: String,
    objects: Vec<Part>,
    ratio: f64,
    named: BTreeMap<String, f32>,
    kind: Kind,
    wide: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    a: u32,
    b: u32,
}

#[derive(Serialize, Deserialize)]
enum Kind {
    Plain,
    Tuple(i64, char),
    Struct { x: f32 },
}

fn record(id: u32) -> Record {
    let kind = match id % 3 {
        0 => Kind::Plain,
        1 => Kind::Tuple(-7, '\u{1f30a}'),
        _ => Kind::Struct { x: 0.5 },
    };
    Record {
        id,
        comment: "a comment of some length, with \"quotes\"".to_owned(),
        objects: (0..id % 5).map(|a| Part { a, b: a * 1_000_003 }).collect(),
        ratio: f64::from(id) / 7.0,
        named: [("name".to_owned(), 1.5)].into(),
        kind,
        wide: id.is_multiple_of(2).then_some(u64::MAX),
    }
}

/// How records reach the device.
#[derive(Clone, Copy, Debug)]
enum Way {
    Append(Level),
    /// Submits a record and waits for its ticket.
    Submit,
    /// Appends records and flushes after every hundred.
    Batches,
}

const WAYS: [Way; 5] = [
    Way::Append(Level::Buffered),
    Way::Append(Level::Synced),
    Way::Append(Level::Confirmed),
    Way::Submit,
    Way::Batches,
];
const WARM_UP: usize = 3_000;
const COUNTED: usize = 10_000;

/// Returns the number of allocations in `COUNTED` appends, after enough appends to warm up.
fn allocations<T: ?Sized, C: Codec<T>>(way: Way, records: &[&T]) -> u64 {
    let level = match way {
        Way::Append(level) => level,
        Way::Submit => Level::Synced,
        Way::Batches => Level::Buffered,
    };
    // One segment holds everything and the background thread is idle, so every run allocates the
    // same.
    let options = Options::new()
        .level(level)
        .geometry(Geometry::DEFAULT, 48 << 20)
        .buffered(Duration::from_secs(3600), usize::MAX)
        .idle_mark(None)
        .preallocate(false);
    let log: Log<T, C> = options.open_in(Arc::new(Ram::default())).unwrap();
    let append = |count: usize| {
        for (turn, record) in records.iter().cycle().take(count).enumerate() {
            match way {
                Way::Append(_) | Way::Batches => drop(log.append(record).map(|_| ())),
                Way::Submit => drop(log.submit(record).unwrap().wait().map(|_| ())),
            }
            if matches!(way, Way::Batches) && turn % 100 == 99 {
                log.flush().unwrap();
            }
        }
        log.flush().unwrap();
    };
    if matches!(way, Way::Append(Level::Buffered)) {
        // Each pass is a single batch. Two buffers alternate, and a third holds the last block.
        (0..4).for_each(|_| append(COUNTED));
    } else {
        append(WARM_UP);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    append(COUNTED);
    let counted = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let stats = log.stats();
    assert_eq!((stats.rolls, stats.failovers), (0, 0));
    assert!(stats.records >= 13_000, "{stats:?}");
    counted
}

#[test]
fn append_does_not_allocate_once_buffers_have_grown() {
    IS_COUNTED.set(true);
    let typed: Vec<Record> = (0..100).map(record).collect();
    let typed: Vec<&Record> = typed.iter().collect();
    let bytes: Vec<Vec<u8>> = (0..100).map(|size| vec![7; 3 * size]).collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    for way in WAYS {
        let found = [
            allocations::<_, MessagePack>(way, &typed),
            allocations::<_, Positional>(way, &typed),
            allocations::<_, Json>(way, &typed),
            allocations::<_, Raw>(way, &bytes),
        ];
        assert_eq!(found, [0; 4], "{way:?}: by field names, by position, JSON, bytes");
    }
}
