//! The methods for making one write durable, on files of the probe.

use seawall_host::RawFile;
use seawall_io::{AlignedMemory, Clock, SystemClock};
use seawall_measure::slice::{Slice, by_one, by_threads, nanoseconds};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Larger than the data of one slice, so that each method sees the whole file.
const FILE_SIZE: u64 = 16 << 20;

/// How one write becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Fdatasync,
    Fsync,
    /// One call that writes and syncs.
    Dsync,
    DirectDsync,
    DirectFdatasync,
    /// Not durable; for comparison only.
    Never,
    /// A sync without data: the latency of the device.
    OnlySync,
}

/// The state of the file before the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepared {
    /// Written once, like a log's segments.
    Written,
    /// Empty: each write extends it.
    Growing,
    /// Allocated but never written.
    Allocated,
}

/// Writes of one size to one file.
#[derive(Debug)]
pub(super) struct Writer {
    file: RawFile,
    way: Way,
    prepared: Prepared,
    bytes: AlignedMemory,
    size: usize,
    at: u64,
}

impl Writer {
    /// Creates a file in `folder`. Returns `None` if the file system does not support the method.
    pub(super) fn new(
        folder: &Path,
        (way, prepared): (Way, Prepared),
        size: usize,
    ) -> io::Result<Option<Self>> {
        let is_direct = matches!(way, Way::DirectDsync | Way::DirectFdatasync);
        let made = RawFile::create(folder, is_direct).and_then(|file| {
            if prepared == Prepared::Written {
                file.fill(FILE_SIZE)?;
            }
            let mut bytes = AlignedMemory::default();
            bytes.first(size).fill(0x5a);
            let mut writer = Self { file, way, prepared, bytes, size, at: 0 };
            writer.start_over()?;
            writer.step()?;
            Ok(writer)
        });
        match made {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(None),
            made => made.map(Some),
        }
    }

    /// Writes for the given time.
    pub(super) fn slice(&mut self, time: Duration) -> io::Result<Slice> {
        self.make_ready()?;
        by_one(time, || self.step())
    }

    /// Starts over before an allocated file is full, because its writes must go to unwritten space.
    fn make_ready(&mut self) -> io::Result<()> {
        if self.at > FILE_SIZE / 2 { self.start_over() } else { Ok(()) }
    }

    /// Writes once; durable on return, unless the method is `Never`.
    pub(super) fn step(&mut self) -> io::Result<()> {
        if self.way != Way::OnlySync {
            self.write()?;
        }
        match self.way {
            Way::Fdatasync | Way::DirectFdatasync | Way::OnlySync => self.file.sync_data(),
            Way::Fsync => self.file.sync_all(),
            Way::Dsync | Way::DirectDsync | Way::Never => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let size = u64::try_from(self.size).expect("a small write");
        if self.at + size > FILE_SIZE {
            self.at = 0;
        }
        let bytes = self.bytes.first(self.size);
        if matches!(self.way, Way::Dsync | Way::DirectDsync) {
            self.file.write_synced(bytes, self.at)?;
        } else {
            self.file.write(bytes, self.at)?;
        }
        self.at += size;
        Ok(())
    }

    fn start_over(&mut self) -> io::Result<()> {
        self.at = 0;
        match self.prepared {
            Prepared::Written => Ok(()),
            Prepared::Growing => self.file.allocate(0),
            Prepared::Allocated => self.file.allocate(FILE_SIZE),
        }
    }
}

/// Runs all writers concurrently, each in its own thread and file.
pub(super) fn together(writers: &mut [Writer], time: Duration) -> io::Result<Slice> {
    writers.iter_mut().try_for_each(Writer::make_ready)?;
    let writers: Vec<_> = writers.iter_mut().map(Mutex::new).collect();
    by_threads((writers.len(), time), &|number| {
        let writer = writers.get(number).expect("a thread for each");
        writer.lock().expect("one thread holds it").step()
    })
}

/// Returns the median duration of a few syncs, each after this many unsynced bytes, in
/// microseconds; `None` if direct I/O is not supported.
pub(super) fn flush_after(folder: &Path, bytes: u64) -> io::Result<Option<f64>> {
    const STEP: usize = 1 << 20;
    let way = (Way::DirectFdatasync, Prepared::Written);
    let Some(mut writer) = Writer::new(folder, way, STEP)? else { return Ok(None) };
    let (mut times, clock) = (vec![], SystemClock::new());
    for _ in 0..5 {
        let mut given = 0;
        while given < bytes {
            writer.write()?;
            given += 1 << 20;
        }
        let begin = clock.now();
        writer.file.sync_data()?;
        times.push(nanoseconds(clock.now() - begin));
    }
    times.sort_unstable();
    Ok(times.get(2).map(|time| f64::from(*time) / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::scratch::Scratch;

    #[test]
    fn every_method_writes_its_bytes() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-ways").unwrap();
        let folder = scratch.path();
        let ways = [Way::Fdatasync, Way::Fsync, Way::Dsync, Way::DirectDsync, Way::DirectFdatasync];
        for way in ways.into_iter().chain([Way::Never, Way::OnlySync]) {
            for prepared in [Prepared::Written, Prepared::Growing, Prepared::Allocated] {
                let made = Writer::new(folder, (way, prepared), 4096).unwrap();
                let Some(mut writer) = made else { continue };
                let slice = writer.slice(Duration::from_millis(2)).unwrap();
                assert!(!slice.times.is_empty() && slice.per_second > 0.0);
                let mut bytes = vec![0; 16 << 20];
                let length = writer.file.read(&mut bytes, 0).unwrap();
                let is_written = |page: &&[u8]| page.iter().all(|byte| *byte == 0x5a);
                let written = bytes[..length].chunks(4096).filter(is_written).count();
                // One untimed write came first: it tested whether the method is supported.
                let expected = if way == Way::OnlySync { 0 } else { slice.times.len() + 1 };
                assert_eq!(written, expected, "{way:?} {prepared:?}");
            }
        }
    }
}
