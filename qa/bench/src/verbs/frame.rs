//! `seawall-bench frame`: the cost of a record in memory, before it is written.

use crate::args::{self, Common};
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use seawall::{Level, Log, Options, Raw, Retention};
use seawall_format::batch::{BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::{Compression, Epoch, Geometry, LogId, Lsn, Offset, Salt, frame};
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::human::to_f64;
use seawall_measure::machine::Stopwatch;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, nanoseconds};
use serde_json::json;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of records in a timed turn, which form one batch.
const TURN: u32 = 1000;
/// Maximum bytes of a turn. The open batch has room for more, so no submit waits for the device.
const TURN_BYTES: usize = 1 << 20;
/// Retention of the log of submitted records, in bytes.
const KEPT: u64 = 64 << 20;

impl Bench for args::Frame {
    const NAME: &'static str = "frame";
    const TITLE: &'static str = "What a record costs in memory";
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "What a record costs before it is on its way to the device, beside the least that is done \
         to it: a copy, and its CRC32C."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![("sizes", json!(self.sizes))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let asks = |size: &usize| {
            format!("records of {size} bytes, one thread; times are of {}", turn_of(*size))
        };
        self.sizes.iter().map(|size| (Self::NAME, asks(size))).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        for ((name, asks), size) in self.contests().into_iter().zip(&self.sizes) {
            let path = stage.folder().join(format!("log-{size}"));
            let held = ways(*size, &path).and_then(|mut ways| hold(&mut ways, stage.time()));
            let standings = held.map_err(|trouble| stage.failure(&trouble))?;
            stage.keep(Contest { name, asks, standings })?;
        }
        Ok(())
    }
}

fn ways(size: usize, path: &Path) -> Result<Vec<Entry<'static, Trouble>>, Trouble> {
    let (record, turn) = (vec![0x5a; size], turn_of(size));
    let copied = {
        let (record, mut copies) = (record.clone(), vec![]);
        move || {
            copies.clear();
            for _ in 0..turn {
                copies.extend_from_slice(black_box(&record));
                black_box(crc_fast::crc32_iscsi(&record));
            }
            black_box(&copies);
        }
    };
    let framed = {
        let (record, mut frames) = (record.clone(), vec![]);
        move || {
            frame_turn(black_box(&record), &mut frames);
            black_box(&frames);
        }
    };
    // Many threads can share the batch only if each record takes a lock.
    let locked = {
        let (record, shared) = (record.clone(), Mutex::new(vec![]));
        move || {
            lock(&shared).clear();
            for _ in 0..turn {
                frame::push_unbound(&mut lock(&shared), black_box(&record), false);
            }
            black_box(&shared);
        }
    };
    let batched = {
        let (record, mut batch, life) = (record.clone(), vec![], life());
        move || {
            frame_turn(black_box(&record), &mut batch);
            let (confirmed, kind, chain, time_us) = (None, BodyKind::Frames, 1, 1);
            let spec = Spec { first: Lsn::FIRST, count: turn, kind, confirmed, chain, time_us };
            black_box(finish(&mut batch, spec, Offset(Geometry::DEFAULT.data_start()), &life));
        }
    };
    let submitted = Submitted::new(path, record).map_err(Trouble::Ours)?;
    Ok(vec![
        Entry::new("copied, with a CRC32C", in_turns(turn, copied)),
        Entry::new("framed", in_turns(turn, framed)),
        Entry::new("framed under a lock", in_turns(turn, locked)),
        Entry::new("framed, and a batch", in_turns(turn, batched)),
        Entry::new("submitted", move |time| submitted.slice(time).map_err(Trouble::Ours)),
    ])
}

/// Number of records of this size in a turn.
fn turn_of(size: usize) -> u32 {
    u32::try_from(TURN_BYTES / size.max(1)).unwrap_or(u32::MAX).clamp(1, TURN)
}

fn frame_turn(record: &[u8], frames: &mut Vec<u8>) {
    frames.clear();
    frames.resize(HEADER_SIZE, 0);
    for _ in 0..turn_of(record.len()) {
        frame::push_unbound(frames, record, false);
    }
}

fn lock(shared: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn life() -> Life {
    let Geometry { batch_max, block, .. } = Geometry::DEFAULT;
    let epoch = Epoch(7);
    Life {
        salt: Salt::new(LogId(7), epoch),
        epoch,
        is_encrypted: false,
        batch_max,
        block,
        in_flight_max: 1,
        compression_max: Compression::None,
    }
}

pub(crate) fn in_turns(
    size: u32,
    mut turn: impl FnMut(),
) -> impl FnMut(Duration) -> Result<Slice, Trouble> {
    move |time| {
        let watch = Stopwatch::start();
        let (mut times, mut now) = (vec![], Duration::ZERO);
        while now < time {
            turn();
            let then = std::mem::replace(&mut now, watch.elapsed());
            times.push(nanoseconds(now - then));
        }
        Ok(Slice { per_second: a_second((times.len(), size), now), times })
    }
}

fn a_second((turns, size): (usize, u32), time: Duration) -> f64 {
    let count = u64::try_from(turns).unwrap_or(u64::MAX).saturating_mul(u64::from(size));
    to_f64(count) / time.as_secs_f64().max(1e-9)
}

/// Appends without waiting. The time of the device is not included.
struct Submitted {
    log: Log<[u8], Raw>,
    record: Vec<u8>,
}

impl Submitted {
    fn new(path: &Path, record: Vec<u8>) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        // With these options, the background thread works only on request.
        let options = Options::new().level(Level::Buffered).idle_mark(None).retention(kept);
        let log = options.buffered(Duration::from_secs(3600), usize::MAX).open(path)?;
        Ok(Self { log, record })
    }

    fn slice(&self, time: Duration) -> seawall::Result<Slice> {
        let (mut times, mut sum) = (vec![], Duration::ZERO);
        let (all, turn) = (Stopwatch::start(), turn_of(self.record.len()));
        // Bounds the total time: the device may need long to write what is submitted in an instant.
        while sum < time && all.elapsed() < 4 * time {
            let watch = Stopwatch::start();
            for _ in 0..turn {
                drop(self.log.submit(&self.record)?);
            }
            let took = watch.elapsed();
            self.log.flush()?;
            sum += took;
            times.push(nanoseconds(took));
        }
        Ok(Slice { per_second: a_second((times.len(), turn), sum), times })
    }
}
