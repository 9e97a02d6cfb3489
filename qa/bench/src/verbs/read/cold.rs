//! Measures reading of files that are not in the page cache, beside plain reads of the same files.

use super::logs::Sample;
use super::ways::{Reader, STEP, Scan};
use seawall_host::RawFile;
use seawall_io::{Access, File, PosixStorage, Storage};
use seawall_measure::contest::{Entry, Standings};
use seawall_measure::human::{to_f64, to_u64};
use seawall_measure::machine::{Stopwatch, bytes_from_below};
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, nanoseconds};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one call of the plain read.
const READ_SIZE: usize = 256 << 10;
/// Minimum share of the bytes that must come from storage for a run to count as cold.
const COLD_MIN: f64 = 0.9;

/// Bytes that were read in all slices, and how many of them came from storage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetched {
    read: u64,
    from_below: Option<u64>,
}

impl Fetched {
    /// The bytes from storage divided by the bytes read. Read-ahead can make it more than 1.
    fn share(self) -> Option<f64> {
        Some(to_f64(self.from_below?) / to_f64(self.read.max(1)))
    }

    /// Whether the files were known to be dropped from the page cache.
    fn is_cold(self) -> bool {
        self.share().is_some_and(|share| share >= COLD_MIN)
    }

    /// Removes the ranking if the files were not cold.
    pub(super) fn judge(self, standings: &mut Standings) {
        if !self.is_cold() {
            standings.rank_nothing();
        }
    }

    /// The method and its limits, as text.
    pub(super) fn says(self) -> String {
        let percent = |share: f64| (share * 100.0).min(100.0);
        match self.share() {
            Some(share) if self.is_cold() => format!(
                "cold: the system was told to forget the files before each slice, and {:.0} % of \
                 what was read came from below its cache. What a device, or the host of a virtual \
                 machine, keeps in its own memory can be neither seen nor dropped from here",
                percent(share)
            ),
            Some(share) => format!(
                "NOT cold: the system was told to forget the files before each slice, but only \
                 {:.0} % of what was read came from below its cache; not ranked",
                percent(share)
            ),
            None => "the system was told to forget the files before each slice, and does not tell \
                     whether it did; not ranked"
                .to_owned(),
        }
    }

    /// The result as JSON.
    pub(super) fn as_json(self) -> Value {
        json!({ "from_below_share": self.share(), "is_cold": self.is_cold(), "says": self.says() })
    }
}

/// The ways to read, and the bytes that they fetched.
pub(super) struct Cold {
    pub(super) entries: Vec<Entry<'static, Trouble>>,
    fetched: Rc<RefCell<Fetched>>,
}

impl Cold {
    /// Creates the ways for one log.
    pub(super) fn new(sample: &Sample) -> Result<Self, Trouble> {
        let names = sample.segments().map_err(Trouble::Plain)?;
        let files: Vec<_> = names.iter().map(|name| sample.path.join(name)).collect();
        let files = Rc::new(files);
        let step = usize::try_from(sample.bytes * STEP / sample.records).expect("a few records");
        let plain = |look| Plain::of(sample, (step, look)).map_err(Trouble::Plain);
        let readers: [(&'static str, Box<dyn Reader>); 3] = [
            ("plain read", plain(|_| ())?),
            ("plain read, with CRC32C", plain(checksum)?),
            ("seawall", Scan::of(&sample.path, sample.all())?),
        ];
        let fetched = Rc::new(RefCell::new(Fetched::default()));
        let entry = |(name, mut reader): (&'static str, Box<dyn Reader>)| {
            let (files, fetched) = (files.clone(), fetched.clone());
            Entry::new(name, move |time| {
                forget(&files).map_err(Trouble::Plain)?;
                let before = bytes_from_below();
                let slice = slice(&mut *reader, step, time)?;
                let now = bytes_from_below();
                let mut fetched = fetched.borrow_mut();
                fetched.read += to_u64(slice.times.len() * step);
                let more = now.zip(before).map(|(now, before)| now.saturating_sub(before));
                fetched.from_below = more.map(|more| fetched.from_below.unwrap_or(0) + more);
                Ok(slice)
            })
        };
        let entries = readers.into_iter().map(entry).collect();
        Ok(Self { entries, fetched })
    }

    pub(super) fn fetched(&self) -> Fetched {
        *self.fetched.borrow()
    }
}

/// Measures one slice; its rate is in megabytes per second.
fn slice(reader: &mut dyn Reader, step: usize, time: Duration) -> Result<Slice, Trouble> {
    let watch = Stopwatch::start();
    let (mut times, mut now) = (vec![], Duration::ZERO);
    while now < time {
        reader.advance(STEP)?;
        let then = std::mem::replace(&mut now, watch.elapsed());
        times.push(nanoseconds(now - then));
    }
    let bytes = to_f64(to_u64(times.len() * step));
    Ok(Slice { per_second: bytes / 1e6 / now.as_secs_f64().max(1e-9), times })
}

fn forget(files: &[PathBuf]) -> io::Result<()> {
    files.iter().try_for_each(|file| RawFile::open(file)?.forget_cached())
}

/// The minimum verification: one checksum over all bytes of a read call.
fn checksum(bytes: &[u8]) {
    black_box(crc_fast::crc32_iscsi(bytes));
}

/// Reads files one after the other, in calls of one size.
struct Plain {
    files: Vec<Arc<dyn File>>,
    /// Bytes that count as [`STEP`] records.
    step: usize,
    /// Called with the bytes of each read.
    look: fn(&[u8]),
    buffer: Vec<u8>,
    /// The file, the offset in it, and the bytes of the buffer that were not consumed yet.
    at: (usize, u64, usize),
}

impl Plain {
    fn of(sample: &Sample, (step, look): (usize, fn(&[u8]))) -> io::Result<Box<dyn Reader>> {
        let storage = PosixStorage::open(&sample.path)?;
        let open = |name: &String| storage.open(name, Access::Read);
        let files = sample.segments()?.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Box::new(Self { files, step, look, buffer: vec![0; READ_SIZE], at: (0, 0, 0) }))
    }

    fn read(&mut self) -> io::Result<()> {
        let (number, place, _) = self.at;
        let file = self.files.get(number).ok_or(io::ErrorKind::NotFound)?;
        let read = file.read_at(&mut self.buffer, place)?;
        (self.look)(black_box(self.buffer.get(..read).unwrap_or_default()));
        self.at = match read {
            0 if number + 1 < self.files.len() => (number + 1, 0, 0),
            0 => (0, 0, 0),
            read => (number, place + to_u64(read), read),
        };
        Ok(())
    }
}

impl Reader for Plain {
    fn advance(&mut self, _: u64) -> Result<(), Trouble> {
        let mut left = self.step;
        while left > 0 {
            let taken = left.min(self.at.2);
            self.at.2 -= taken;
            left -= taken;
            if left > 0 {
                self.read().map_err(Trouble::Plain)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_from_the_cache_is_not_cold() {
        let of = |from_below| Fetched { read: 1000, from_below };
        assert!(of(Some(1100)).is_cold() && of(Some(1100)).says().contains("100 % of"));
        assert!(of(Some(950)).is_cold() && !of(Some(50)).is_cold() && !of(None).is_cold());
        assert!(of(Some(50)).says().starts_with("NOT cold") && of(Some(50)).says().contains("5 %"));
        assert!(of(None).says().contains("does not tell"));
        assert_eq!(of(Some(50)).as_json()["from_below_share"], 0.05);
    }
}
