//! The upper bound of a stream: records are copied and checksummed, and two threads write them in
//! large pieces, without a log.

use super::{PLAIN_FILE, TIMED, megabytes};
use seawall_host::RawFile;
use seawall_io::AlignedMemory;
use seawall_measure::human::to_u64;
use seawall_measure::machine::Stopwatch;
use seawall_measure::slice::{Slice, nanoseconds};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of batches that a log has in flight by default.
const WRITERS: usize = 2;
/// A window has this many pieces: one is filled while the others are written.
const PIECES: u64 = 3;
/// Direct writes must be multiples of this many bytes.
const BLOCK: u64 = 4096;

/// A stream without a log: its file, and the state of the filling thread.
pub(super) struct Pipeline {
    file: RawFile,
    filler: Filler,
}

/// Fills pieces with records.
struct Filler {
    record: Vec<u8>,
    window: u64,
    /// Bytes of a piece.
    size: usize,
    free: Vec<AlignedMemory>,
    at: u64,
}

/// Records to write to the file.
struct Piece {
    memory: AlignedMemory,
    at: u64,
    /// When the timed records were appended.
    since: Vec<Duration>,
}

/// A piece, and the result of writing it.
type Written = (Piece, io::Result<()>);

impl Pipeline {
    /// Creates a file filled in advance. Fails with `Unsupported` where there are no direct writes.
    pub(super) fn new(folder: &Path, record: &[u8], window: u64) -> io::Result<Self> {
        let file = RawFile::create(folder, true)?;
        file.fill(PLAIN_FILE)?;
        let size = (window / PIECES).clamp(16 * BLOCK, 256 * BLOCK) / BLOCK * BLOCK;
        let size = usize::try_from(size).expect("at most 1 MiB");
        let record = if record.is_empty() { vec![0] } else { record.to_vec() };
        let filler = Filler { record, window, size, free: vec![], at: 0 };
        Ok(Self { file, filler })
    }

    pub(super) fn slice(&mut self, time: Duration) -> io::Result<Slice> {
        let (full, to_write) = channel::<Piece>();
        let (written, done) = channel::<Written>();
        let (to_write, Self { file, filler }) = (Mutex::new(to_write), self);
        let (to_write, file, size) = (&to_write, &*file, filler.size);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                let written = written.clone();
                scope.spawn(move || write(file, size, to_write, &written));
            }
            drop(written);
            filler.fill(time, full, &done)
        })
    }
}

impl Filler {
    /// Fills pieces for `time`, with at most a window in flight, then waits until all are written.
    fn fill(
        &mut self,
        time: Duration,
        full: Sender<Piece>,
        done: &Receiver<Written>,
    ) -> io::Result<Slice> {
        let watch = Stopwatch::start();
        let (mut now, mut bytes, mut times) = (Duration::ZERO, 0, vec![]);
        let (size, mut on_their_way) = (to_u64(self.size), 0);
        while now < time {
            // The window includes the piece that is being filled.
            while on_their_way > 0 && on_their_way + size > self.window {
                self.take(done, &watch, &mut times)?;
                on_their_way -= size;
            }
            let mut piece = self.piece();
            self.copy(&mut piece, &watch);
            now = watch.elapsed();
            bytes += size;
            on_their_way += size;
            full.send(piece).map_err(|_| io::Error::other("both writers have ended"))?;
        }
        drop(full);
        for _ in 0..on_their_way / size {
            self.take(done, &watch, &mut times)?;
        }
        Ok(Slice { per_second: megabytes(bytes, watch.elapsed()), times })
    }

    fn piece(&mut self) -> Piece {
        let (memory, at) = (self.free.pop().unwrap_or_default(), self.at);
        self.at += to_u64(self.size);
        if self.at + to_u64(self.size) > PLAIN_FILE {
            self.at = 0;
        }
        Piece { memory, at, since: vec![] }
    }

    /// Fills a piece with copies of the record and computes a checksum of each.
    fn copy(&self, piece: &mut Piece, watch: &Stopwatch) {
        let Piece { memory, since, .. } = piece;
        let record = self.record.get(..self.size).unwrap_or(&self.record);
        for (chunk, number) in memory.first(self.size).chunks_exact_mut(record.len()).zip(0_u64..) {
            chunk.copy_from_slice(black_box(record));
            black_box(crc_fast::crc32_iscsi(chunk));
            if number.is_multiple_of(TIMED) {
                since.push(watch.elapsed());
            }
        }
    }

    /// Waits until a piece is written, and keeps its memory for reuse.
    fn take(
        &mut self,
        done: &Receiver<Written>,
        watch: &Stopwatch,
        times: &mut Vec<u32>,
    ) -> io::Result<()> {
        let taken = done.recv().map_err(|_| io::Error::other("both writers have ended"))?;
        let (Piece { memory, since, .. }, outcome) = taken;
        outcome?;
        let now = watch.elapsed();
        times.extend(since.into_iter().map(|since| nanoseconds(now - since)));
        self.free.push(memory);
        Ok(())
    }
}

/// Writes pieces until the channel is closed.
fn write(
    file: &RawFile,
    size: usize,
    to_write: &Mutex<Receiver<Piece>>,
    written: &Sender<Written>,
) {
    loop {
        let next = to_write.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut piece) = next else { return };
        let outcome = file.write_synced(piece.memory.first(size), piece.at);
        if written.send((piece, outcome)).is_err() {
            return;
        }
    }
}
