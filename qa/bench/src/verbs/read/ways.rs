//! The ways to read records in sequence. Each starts again at the end of the log.

use super::memory::Memory;
use crate::verbs::paper::records::Record;
use crate::verbs::paper::theirs::{Appended, PackedSets};
use seawall::{Cursor, LogReader, Lsn, Positional, Raw, Records};
use seawall_io::File;
use seawall_measure::contest::Entry;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, by_threads};
use std::borrow::Cow;
use std::hint::black_box;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Records read between two checks of the clock. The microseconds for a step are the nanoseconds
/// for a record.
pub(super) const STEP: u64 = 1_000;

/// A way to read.
pub(super) trait Reader: Send {
    /// Reads this many records, continuing at the current position.
    fn advance(&mut self, records: u64) -> Result<(), Trouble>;
}

/// Creates a way of a contest in which all readers run at the same time, each in its own thread.
pub(super) fn entry(
    name: impl Into<Cow<'static, str>>,
    readers: Vec<Box<dyn Reader>>,
) -> Entry<'static, Trouble> {
    let readers: Vec<_> = readers.into_iter().map(Mutex::new).collect();
    Entry::new(name, move |time| {
        let step = |number: usize| {
            let reader = readers.get(number).expect("a thread for each");
            reader.lock().unwrap_or_else(PoisonError::into_inner).advance(STEP)
        };
        let Slice { per_second, times } = by_threads((readers.len(), time), &step)?;
        Ok(Slice { per_second: per_second * seawall_measure::human::to_f64(STEP), times })
    })
}

/// Seawall's reader, which lends the bytes of verified records.
pub(super) struct Scan {
    reader: LogReader<[u8], Raw>,
    range: Range<Lsn>,
    cursor: Cursor,
}

impl Scan {
    /// Reads the records in `range` of a log.
    pub(super) fn of(log: &Path, range: Range<Lsn>) -> Result<Box<dyn Reader>, Trouble> {
        let open = || {
            let reader = LogReader::open_any(log)?;
            let cursor = reader.cursor(range.start)?;
            Ok(Self { reader, range: range.clone(), cursor })
        };
        Ok(Box::new(open().map_err(Trouble::Ours)?))
    }
}

impl Reader for Scan {
    fn advance(&mut self, records: u64) -> Result<(), Trouble> {
        let mut left = records;
        while left > 0 {
            let found = self.cursor.next_record().map_err(Trouble::Ours)?;
            if let Some(record) = found.filter(|record| record.lsn < self.range.end) {
                black_box(record.payload);
                left -= 1;
            } else {
                self.cursor = self.reader.cursor(self.range.start).map_err(Trouble::Ours)?;
            }
        }
        Ok(())
    }
}

/// Seawall's reader, which decodes each record into an owned value.
pub(super) struct Replay {
    reader: LogReader<Record, Positional>,
    range: Range<Lsn>,
    entries: Records<Record, Positional>,
}

impl Replay {
    /// Reads the records in `range` of a log.
    pub(super) fn of(log: &Path, range: Range<Lsn>) -> Result<Box<dyn Reader>, Trouble> {
        let open = || {
            let reader = LogReader::open(log)?;
            let entries = reader.read_from(range.start)?;
            Ok(Self { reader, range: range.clone(), entries })
        };
        Ok(Box::new(open().map_err(Trouble::Ours)?))
    }
}

impl Reader for Replay {
    fn advance(&mut self, records: u64) -> Result<(), Trouble> {
        let mut left = records;
        while left > 0 {
            let found = self.entries.next().transpose().map_err(Trouble::Ours)?;
            if let Some((_, record)) = found.filter(|(lsn, _)| *lsn < self.range.end) {
                black_box(record);
                left -= 1;
            } else {
                self.entries = self.reader.read_from(self.range.start).map_err(Trouble::Ours)?;
            }
        }
        Ok(())
    }
}

/// The paper's reader.
pub(super) struct Theirs {
    folder: PathBuf,
    sets: PackedSets<BufReader<Appended>>,
}

impl Theirs {
    /// Reads the file that the paper's writer left in `folder`.
    pub(super) fn of(folder: &Path) -> Result<Box<dyn Reader>, Trouble> {
        let sets = PackedSets::open(folder).map_err(Trouble::Plain)?;
        Ok(Box::new(Self { folder: folder.to_owned(), sets }))
    }
}

impl Reader for Theirs {
    fn advance(&mut self, records: u64) -> Result<(), Trouble> {
        let mut left = records;
        while left > 0 {
            match self.sets.next_set().map_err(Trouble::Plain)? {
                Some(set) => {
                    left -= 1;
                    black_box(set);
                }
                None => self.sets = PackedSets::open(&self.folder).map_err(Trouble::Plain)?,
            }
        }
        Ok(())
    }
}

/// What checksums in memory are computed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    Batches,
    Records,
}

/// Reads records in memory.
pub(super) struct InMemory {
    memory: Arc<Memory>,
    checked: Checked,
    /// If the records come from a file: the file, and the current batch.
    file: Option<(Arc<dyn File>, Vec<u8>)>,
    /// The current batch, and the place in it.
    at: (usize, usize),
}

impl InMemory {
    pub(super) fn of(memory: &Arc<Memory>, checked: Checked) -> Box<dyn Reader> {
        Box::new(Self { memory: memory.clone(), checked, file: None, at: (0, 0) })
    }

    /// Reads the same records from a new file, batch by batch, and checks each record.
    pub(super) fn out_of(memory: &Arc<Memory>, folder: &Path) -> io::Result<Box<dyn Reader>> {
        let file = Some((memory.write(folder)?, vec![]));
        let memory = memory.clone();
        Ok(Box::new(Self { memory, checked: Checked::Records, file, at: (0, 0) }))
    }

    fn step(&mut self) -> io::Result<()> {
        let (number, place) = self.at;
        let batch = match &mut self.file {
            None => self.memory.batch(number),
            Some((file, bytes)) => {
                if place == 0 {
                    self.memory.read(&**file, number, bytes)?;
                }
                self.memory.batch_in(number, bytes)
            }
        };
        let batch = batch.ok_or_else(|| io::Error::other("no records in memory"))?;
        if self.checked == Checked::Batches && place == 0 {
            batch.check()?;
        }
        let (frame, behind) = batch.frame(place)?;
        if self.checked == Checked::Records {
            frame.check()?;
        }
        black_box(frame.payload);
        self.at = if behind < batch.length() {
            (number, behind)
        } else {
            let next = self.memory.batch(number + 1).map_or(0, |_| number + 1);
            (next, 0)
        };
        Ok(())
    }
}

impl Reader for InMemory {
    fn advance(&mut self, records: u64) -> Result<(), Trouble> {
        (0..records).try_for_each(|_| self.step()).map_err(Trouble::Plain)
    }
}
