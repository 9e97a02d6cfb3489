//! Creates the files to read: logs of the paper's records, and the paper's file of the same ones.

use super::alone;
use crate::verbs::paper::Format;
use crate::verbs::paper::ours::{self, Wait};
use crate::verbs::paper::records::records;
use crate::verbs::paper::theirs::{self, Sync};
use seawall::{LogReader, Lsn};
use seawall_io::{PosixStorage, Storage};
use seawall_measure::machine::Stopwatch;
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::median;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How often a log is opened to time this.
const OPENED: usize = 21;

/// A log, and its properties that are measured in advance.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) records: u64,
    pub(super) path: PathBuf,
    /// Bytes of its batches.
    pub(super) bytes: u64,
    /// The median time from opening the log to its first record, in microseconds.
    pub(super) open_us: f64,
    /// The peak memory of a process that scans and decodes the log.
    pub(super) peak_memory: Option<u64>,
}

impl Sample {
    /// Creates the log in a folder of its own.
    pub(super) fn new(folder: &Path, count: u64) -> Result<Self, Trouble> {
        let name = count.to_string();
        let made = PosixStorage::open(folder).and_then(|storage| storage.folder(&name));
        made.map_err(Trouble::Plain)?;
        let folder = folder.join(name);
        let what = (Format::MessagePack, Wait::AtTheEnd);
        let written = ours::write(&folder, what, (&records(1), 1, count))?;
        let path = folder.join("log");
        let (records, bytes, open_us) = (count, written.bytes, 0.0);
        let mut sample = Self { records, path, bytes, open_us, peak_memory: None };
        sample.peak_memory = alone::peak(&sample)?;
        sample.open_us = sample.time_to_open().map_err(Trouble::Ours)?;
        Ok(sample)
    }

    pub(super) fn all(&self) -> Range<Lsn> {
        Lsn::FIRST..self.end()
    }

    fn end(&self) -> Lsn {
        Lsn::new(self.records + 1).expect("they are numbered from 1")
    }

    /// Splits the records for up to `count` threads. Each part has whole segments.
    pub(super) fn parts(&self, count: usize) -> Result<Vec<Range<Lsn>>, Trouble> {
        let starts = || -> seawall::Result<Vec<Lsn>> {
            let mut starts = vec![];
            for mut cursor in LogReader::open_any(&self.path)?.cursors(Lsn::FIRST, count)? {
                starts.extend(cursor.next_record()?.map(|record| record.lsn));
            }
            Ok(starts)
        };
        let starts = starts().map_err(Trouble::Ours)?;
        let ends = starts.iter().copied().skip(1).chain([self.end()]);
        Ok(starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect())
    }

    fn time_to_open(&self) -> seawall::Result<f64> {
        let mut times = vec![];
        for _ in 0..OPENED {
            let watch = Stopwatch::start();
            let mut cursor = LogReader::open_any(&self.path)?.cursor(Lsn::FIRST)?;
            cursor.next_record()?;
            times.push(watch.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(&mut times))
    }

    /// The names of the segments, in order.
    pub(super) fn segments(&self) -> std::io::Result<Vec<String>> {
        let mut names = PosixStorage::open(&self.path)?.list()?;
        names.retain(|name| name.strip_suffix(".seg").is_some());
        Ok(names)
    }

    /// Writes the paper's file of the same records into the folder of the log.
    pub(super) fn write_theirs(&self) -> Result<&Path, Trouble> {
        let folder = self.path.parent().expect("it is in a folder of its own");
        let what = (Format::MessagePack, Sync::Never);
        let written = theirs::write(folder, what, (&records(1), 1, self.records))?;
        assert_eq!(written.records, self.records, "sets of one record come out even");
        Ok(folder)
    }
}
