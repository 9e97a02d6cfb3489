//! The paper's method, rebuilt as its section IV describes it. A set and its checksum are
//! serialized, and each is written to the file by its own call. Reading is buffered, and a record
//! is serialized again to compare its checksum. The JSON log has no checksum.
//!
//! The writes end in the page cache, because `File::flush` does not sync. `Sync::EachSet` does what
//! the paper says of its writes.

use super::records::Record;
use super::{Format, Measured, sets};
use rmp_serde::decode::{Error, ReadReader};
use seawall_io::{Access, File, PosixStorage, Storage};
use seawall_measure::machine::Stopwatch;
use seawall_measure::pairs::Trouble;
use serde::Deserialize;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// When the writer syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Never,
    /// After each set. Stops after this time, with as many sets as were written.
    EachSet(Duration),
}

const NAME: &str = "records.wal";

/// Writes `total` records in sets of `size`, or as many as the time allows.
pub(crate) fn write(
    folder: &Path,
    (format, sync): (Format, Sync),
    (records, size, total): (&[Record], usize, u64),
) -> Result<Measured, Trouble> {
    let storage = PosixStorage::open(folder).map_err(Trouble::Plain)?;
    let mut file = Appended { file: storage.create(NAME).map_err(Trouble::Plain)?, at: 0 };
    let watch = Stopwatch::start();
    let mut written = 0;
    for set in sets(records, size, total) {
        file.write_set(format, set).map_err(Trouble::Plain)?;
        written += 1;
        if let Sync::EachSet(time) = sync {
            file.file.sync().map_err(Trouble::Plain)?;
            if watch.elapsed() >= time {
                break;
            }
        }
    }
    let time = watch.elapsed();
    Ok(Measured { time, records: written * super::to_u64(size), bytes: file.at })
}

/// Reads the records back.
pub(super) fn read(folder: &Path, format: Format, size: usize) -> Result<Measured, Trouble> {
    let storage = PosixStorage::open(folder).map_err(Trouble::Plain)?;
    let file = storage.open(NAME, Access::Read).map_err(Trouble::Plain)?;
    let bytes = file.len().map_err(Trouble::Plain)?;
    let watch = Stopwatch::start();
    let reader = BufReader::new(Appended { file, at: 0 });
    let sets = match format {
        Format::MessagePack => read_packed(reader),
        Format::Json => read_json(reader),
    };
    let (sets, time) = (sets.map_err(Trouble::Plain)?, watch.elapsed());
    Ok(Measured { time, records: sets * super::to_u64(size), bytes })
}

fn read_packed(reader: impl Read) -> io::Result<u64> {
    let mut sets = PackedSets::new(reader);
    let mut count = 0;
    while sets.next_set()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The paper's reader: decodes one set after the other and compares its checksum.
pub(crate) struct PackedSets<R: Read> {
    values: rmp_serde::Deserializer<ReadReader<R>>,
}

impl PackedSets<BufReader<Appended>> {
    /// Opens the file that `write` created in this folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let file = PosixStorage::open(folder)?.open(NAME, Access::Read)?;
        Ok(Self::new(BufReader::new(Appended { file, at: 0 })))
    }
}

impl<R: Read> PackedSets<R> {
    fn new(reader: R) -> Self {
        Self { values: rmp_serde::Deserializer::new(reader) }
    }

    /// Reads the next set; `None` at the end.
    pub(crate) fn next_set(&mut self) -> io::Result<Option<Record>> {
        let set = match Record::deserialize(&mut self.values) {
            Ok(set) => set,
            Err(Error::InvalidMarkerRead(error))
                if error.kind() == io::ErrorKind::UnexpectedEof =>
            {
                return Ok(None);
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let checksum = u32::deserialize(&mut self.values).map_err(io::Error::other)?;
        let again = rmp_serde::to_vec(&set).map_err(io::Error::other)?;
        if crc32fast::hash(&again) != checksum {
            return Err(io::Error::other("a checksum does not match"));
        }
        Ok(Some(set))
    }
}

fn read_json(reader: impl Read) -> io::Result<u64> {
    let sets = serde_json::Deserializer::from_reader(reader).into_iter::<Record>();
    let mut count = 0;
    for set in sets {
        set?;
        count += 1;
    }
    Ok(count)
}

/// A file that is written sequentially, or read sequentially from its start.
pub(crate) struct Appended {
    file: Arc<dyn File>,
    at: u64,
}

impl Appended {
    fn write_set(&mut self, format: Format, set: &Record) -> io::Result<()> {
        match format {
            Format::MessagePack => {
                let bytes = rmp_serde::to_vec(set).map_err(io::Error::other)?;
                let checksum = crc32fast::hash(&bytes);
                let behind = rmp_serde::to_vec(&checksum).map_err(io::Error::other)?;
                self.write(&bytes)?;
                self.write(&behind)
            }
            Format::Json => {
                let bytes = serde_json::to_vec(set)?;
                self.write(&bytes)?;
                self.write(b"\n")
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(bytes, self.at)?;
        self.at += super::to_u64(bytes.len());
        Ok(())
    }
}

impl Read for Appended {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += super::to_u64(read);
        Ok(read)
    }
}
