//! The logs to damage: 2,000 records each, with known bytes.

use super::image::Image;
use super::scratch::Scratch;
use seawall::format::Geometry;
use seawall::parity::Parity;
use seawall::{Log, Lsn, Options, Raw};
use seawall_format::{HEADER_SIZE as SEGMENT_HEADER_SIZE, batch, frame};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Number of records in a log.
pub(super) const RECORDS: u64 = 2000;
const RECORD_SIZE: usize = 256;
/// The record that contains only zeros.
pub(super) const ZEROS: u64 = 700;
const ZEROS_SIZE: usize = 4096;
/// The record that changes in the middle of the log hit.
pub(super) const MIDDLE: u64 = 900;
/// The older copy is taken after this many records. The records after it exceed the window of
/// `Synced`.
const EARLIER: u64 = 1750;
/// Small enough that a log has four segments. The rest of the geometry is the default.
const SEGMENT_SIZE: u64 = 256 << 10;

/// How the writing of a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The log was closed.
    Closed,
    /// The power was cut after the last acknowledgement, so nothing confirms the last record.
    Crashed,
    /// As `Crashed`; then the log was opened and closed again.
    Again,
}

impl End {
    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Crashed => "crashed",
            Self::Again => "again",
        }
    }
}

/// A log, and the location of each record.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) end: End,
    pub(super) image: Image,
    /// The same log some records earlier.
    pub(super) earlier: Image,
    places: Vec<Place>,
}

/// The location of a record; each record has a batch of its own.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) lsn: Lsn,
    pub(super) file: String,
    /// The range of its batch: batch header, frame header, payload.
    pub(super) batch: Range<usize>,
}

impl Place {
    /// The offset of the record's payload.
    pub(super) fn payload(&self) -> usize {
        self.batch.start + batch::HEADER_SIZE + frame::HEADER_SIZE
    }
}

/// The options of every log to damage.
pub(super) fn options() -> Options {
    // No idle marks and no preallocated files: the results must not depend on the machine's speed.
    Options::new()
        .geometry(Geometry::DEFAULT, SEGMENT_SIZE)
        .segment_size(SEGMENT_SIZE)
        .idle_mark(None)
        .preallocate(false)
        // The table in docs/damage.md is about segments whose headers contain their base LSN.
        .name_ahead(false)
}

/// The payload of record `lsn`. All payloads differ.
pub(super) fn payload(lsn: Lsn) -> Vec<u8> {
    if lsn.get() == ZEROS {
        return vec![0; ZEROS_SIZE];
    }
    noise(lsn.get()).take(RECORD_SIZE).collect()
}

/// Pseudo-random bytes from a seed.
pub(super) fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    })
    .flatten()
}

/// The LSNs of all records.
pub(super) fn numbers() -> impl DoubleEndedIterator<Item = Lsn> {
    (1..=RECORDS).filter_map(Lsn::new)
}

impl Sample {
    /// Writes the log, syncing each record.
    pub(super) fn make(end: End, parity: Option<Parity>) -> io::Result<Self> {
        let scratch = Scratch::new()?;
        let folder = scratch.path();
        let log: Log<[u8], Raw> =
            options().parity(parity).open(folder).map_err(io::Error::other)?;
        let mut earlier = Image::default();
        for lsn in numbers() {
            log.append(&payload(lsn)).map_err(io::Error::other)?;
            if lsn.get() == EARLIER {
                earlier = Image::read(folder)?;
            }
        }
        let image = match end {
            End::Closed => {
                log.close().map_err(io::Error::other)?;
                Image::read(folder)?
            }
            End::Crashed => crashed(folder)?,
            End::Again => again(&crashed(folder)?)?,
        };
        let places = places(&image).ok_or_else(|| io::Error::other("a record is nowhere"))?;
        Ok(Self { end, image, earlier, places })
    }

    /// The location of record `lsn`.
    pub(super) fn place(&self, lsn: u64) -> Option<&Place> {
        self.places.iter().find(|place| place.lsn.get() == lsn)
    }

    /// The location of the last record.
    pub(super) fn last(&self) -> Option<&Place> {
        self.places.last()
    }

    /// The records whose batch or segment header differs in `now`: these may be lost.
    pub(super) fn touched(&self, now: &Image) -> BTreeSet<Lsn> {
        let is_same = |place: &Place, range: &Range<usize>| {
            let before = self.image.part(&place.file, range.clone());
            before == now.part(&place.file, range.clone())
        };
        let header = 0..SEGMENT_HEADER_SIZE;
        let touched = |place: &&Place| !is_same(place, &header) || !is_same(place, &place.batch);
        self.places.iter().filter(touched).map(|place| place.lsn).collect()
    }

    /// The records that only nearby bytes confirm: the window of `Synced`, guarantees.md section 2.
    /// A closed log has no such records.
    pub(super) fn window(&self) -> BTreeSet<Lsn> {
        let reach = usize::try_from(Geometry::DEFAULT.reach).unwrap_or_default();
        let last = self.last().filter(|_| self.end == End::Crashed);
        let is_near = |place: &&Place| {
            last.is_some_and(|last| {
                place.file == last.file && place.batch.end + reach > last.batch.end
            })
        };
        self.places.iter().filter(is_near).map(|place| place.lsn).collect()
    }
}

/// Returns what a power cut is certain to leave while the log is open. Parity of the newest segment
/// need not be durable, not even the name of its file.
fn crashed(folder: &Path) -> io::Result<Image> {
    let mut image = Image::read(folder)?;
    let newest = image.segments().last().map(|name| name.replace(".seg", ".parity"));
    newest.and_then(|name| image.remove(&name));
    Ok(image)
}

/// Returns the log after another open and close.
fn again(image: &Image) -> io::Result<Image> {
    let scratch = Scratch::new()?;
    image.write(scratch.path())?;
    let log: Log<[u8], Raw> = options().open(scratch.path()).map_err(io::Error::other)?;
    log.close().map_err(io::Error::other)?;
    Image::read(scratch.path())
}

/// Finds each record by its payload, without using the library's readers.
fn places(image: &Image) -> Option<Vec<Place>> {
    let start = usize::try_from(Geometry::DEFAULT.data_start()).ok()?;
    let mut files = image.segments();
    let (mut file, mut at) = (files.next()?, start);
    let mut places = vec![];
    for lsn in numbers() {
        let wanted = payload(lsn);
        let mut place = place_at(lsn, file, at, wanted.len());
        if !holds(image, &place, &wanted) {
            file = files.next()?;
            place = place_at(lsn, file, start, wanted.len());
            if !holds(image, &place, &wanted) {
                return None;
            }
        }
        at = place.batch.end;
        places.push(place);
    }
    files.try_for_each(|file| carried(image, file, &mut places))?;
    Some(places)
}

/// Updates the locations of records that an open rewrote to a further segment.
fn carried(image: &Image, file: &str, places: &mut [Place]) -> Option<()> {
    let mut at = usize::try_from(Geometry::DEFAULT.data_start()).ok()?;
    let now = |lsn: Lsn, at| {
        let wanted = payload(lsn);
        Some(place_at(lsn, file, at, wanted.len())).filter(|place| holds(image, place, &wanted))
    };
    let first = places.iter().position(|place| now(place.lsn, at).is_some())?;
    for place in places.get_mut(first..)? {
        *place = now(place.lsn, at)?;
        at = place.batch.end;
    }
    Some(())
}

fn place_at(lsn: Lsn, file: &str, at: usize, size: usize) -> Place {
    let end = at + batch::HEADER_SIZE + frame::size_on_disk(size);
    Place { lsn, file: file.to_owned(), batch: at..end }
}

fn holds(image: &Image, place: &Place, wanted: &[u8]) -> bool {
    let at = place.payload();
    image.part(&place.file, at..at + wanted.len()) == Some(wanted)
}
