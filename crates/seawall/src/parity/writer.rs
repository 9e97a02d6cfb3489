//! Follows the writer: what it wrote becomes parity, stripe by stripe.
//!
//! Nothing of this is needed to acknowledge a record, so nothing of it stands in a commit's way but
//! a copy in memory and, once a stripe is full, the write of its slot, which is not synced. What
//! makes slots durable is a [`ParityFlush`], run where the device has nothing better to do. Of the
//! last stripes before a crash, the next open makes what is missing from the records themselves.
//!
//! Whatever fails here ends the parity of that segment and nothing else.

use crate::base::num::to_u64;
use crate::files::parity_file::{heads, read_slot};
use crate::parity::code::{Coder, has_sound_parity, lost_blocks};
use seawall_format::parity::{Head, Known, Places, Scheme};
use seawall_format::{Refused, SegmentHeader};
use seawall_io::{Access, File, Storage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// After so many bytes of records the slots behind are made durable.
const FLUSH_EVERY: u64 = 4 << 20;

/// The parity of the log that is open for append.
#[derive(Debug)]
pub(crate) struct ParityWriter {
    scheme: Scheme,
    current: Option<ParityFile>,
    /// The segment whose parity failed: nothing more is tried beside it.
    given_up: Option<SegmentHeader>,
    /// Slots written.
    pub(crate) stripes: u64,
    /// Segments whose parity could not be written to its end.
    pub(crate) failures: u64,
}

/// The segment that parity is written beside.
pub(crate) struct Covered<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) header: &'a SegmentHeader,
    pub(crate) file: &'a dyn File,
    /// Where its records end.
    pub(crate) end: u64,
}

impl ParityWriter {
    pub(crate) fn new(scheme: Scheme) -> Self {
        Self { scheme, current: None, given_up: None, stripes: 0, failures: 0 }
    }

    /// These bytes were written where the records of `tail` ended before, and are durable.
    /// Gives back what is to be made durable at leisure.
    pub(crate) fn follow(
        &mut self,
        tail: &Covered<'_>,
        (at, bytes): (u64, &[u8]),
    ) -> Vec<ParityFlush> {
        let mut due = vec![];
        if self.current.as_ref().is_none_or(|current| current.head.header.id != tail.header.id) {
            due.extend(self.leave());
            self.enter(tail, at);
        }
        let before = self.current.as_ref().map_or(0, |current| current.number);
        let followed = self.current.as_mut().map(|current| current.follow(at, bytes));
        self.stripes += self.current.as_ref().map_or(0, |current| current.number) - before;
        match followed {
            Some(Ok(())) => {
                let current = self.current.as_mut().expect("just followed");
                if current.written.saturating_sub(current.flushed) >= FLUSH_EVERY {
                    due.extend(current.flush());
                }
            }
            Some(Err(_)) => self.give_up(),
            None => {}
        }
        due
    }

    /// Everything up to the end of `tail` gets its slot; gives back what makes that durable.
    pub(crate) fn complete(&mut self, tail: &Covered<'_>) -> Vec<ParityFlush> {
        let mut due = vec![];
        if self.current.as_ref().is_none_or(|current| current.head.header.id != tail.header.id) {
            due.extend(self.leave());
            self.enter(tail, tail.end);
        }
        due.extend(self.pad_stripe());
        due
    }

    /// Ends the parity of the segment that the writer left.
    fn leave(&mut self) -> Option<ParityFlush> {
        let due = self.pad_stripe();
        self.current = None;
        due
    }

    /// Writes the slot of a stripe that is not full.
    fn pad_stripe(&mut self) -> Option<ParityFlush> {
        let current = self.current.as_mut()?;
        if current.pad_stripe().is_ok() {
            return current.flush();
        }
        self.give_up();
        None
    }

    /// Begins beside a segment that has records up to `at`.
    fn enter(&mut self, tail: &Covered<'_>, at: u64) {
        if self.given_up.as_ref() == Some(tail.header) {
            return;
        }
        let current = ParityFile::open(tail.storage, (tail.header, self.scheme));
        let caught_up = current.and_then(|mut current| {
            current.catch_up(tail.file, at)?;
            Ok(current)
        });
        if let Ok(current) = caught_up {
            self.current = Some(current);
        } else {
            self.given_up = Some(tail.header.clone());
            self.failures += 1;
        }
    }

    fn give_up(&mut self) {
        self.given_up = self.current.take().map(|current| current.head.header);
        self.failures += 1;
    }
}

/// The parity of one segment, open for writing.
#[derive(Debug)]
pub(crate) struct ParityFile {
    file: Arc<dyn File>,
    places: Places,
    coder: Coder,
    /// As it was written last.
    head: Head,
    /// A barrier failed: nothing is promised any more.
    failed: Arc<AtomicBool>,
    /// The stripe that is being filled, and how much of it is.
    number: u64,
    stripe: Vec<u8>,
    filled: usize,
    /// Up to here in the file with the records everything has a slot.
    written: u64,
    /// The same when slots were made durable last.
    flushed: u64,
}

impl ParityFile {
    /// Opens the parity of a segment, or makes it.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        (header, scheme): (&SegmentHeader, Scheme),
    ) -> io::Result<Self> {
        let name = header.id.parity_name();
        let file = match storage.open(&name, Access::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(&name)?,
            other => other?,
        };
        let found = match heads(&*file)? {
            Ok(head) => Some(head).filter(|head| head.header == *header),
            Err(Refused::Invalid) => None,
            // A newer program made it, and keeps it.
            Err(refused) => return Err(io::Error::other(refused)),
        };
        let is_new = found.is_none();
        let file = if is_new && file.len()? > 0 {
            // Without a head nobody knows what its slots are about.
            storage.remove(&name)?;
            storage.create(&name)?
        } else {
            file
        };
        let covered = header.data_start();
        let head = found.unwrap_or(Head { header: header.clone(), scheme, sequence: 0, covered });
        // What was begun with one scheme goes on with it.
        let places = Places::of(header, head.scheme);
        let number = places.stripe_of(head.covered);
        let size = usize::try_from(places.stripe_size()).expect("64 blocks of 64 KiB at most");
        let mut opened = Self {
            file,
            places,
            coder: Coder::new(places),
            failed: Arc::default(),
            number,
            stripe: vec![0; size],
            filled: 0,
            written: places.stripe_at(number),
            flushed: head.covered.min(places.stripe_at(number)),
            head,
        };
        if is_new {
            // Both copies, so that one lost block does not cost the scheme.
            opened.write_head()?;
            opened.write_head()?;
        }
        Ok(opened)
    }

    /// Begins anew with the stripe that holds `sound`: from there on slots are damaged.
    pub(crate) fn go_back(&mut self, sound: u64) {
        self.number = self.places.stripe_of(sound);
        (self.written, self.flushed) = (self.places.stripe_at(self.number), sound);
        self.stripe.fill(0);
        self.filled = 0;
    }

    /// Makes what is missing before `end` of the records that `data` holds, which were judged.
    ///
    /// A slot that says something else of records which it covers is kept: it is what knows them
    /// as they were.
    pub(crate) fn catch_up(&mut self, data: &dyn File, end: u64) -> io::Result<()> {
        while self.written + to_u64(self.filled) < end {
            let from = self.places.stripe_at(self.number);
            let size = usize::try_from((end - from).min(self.places.stripe_size()));
            let size = size.expect("a stripe is no longer");
            self.stripe.fill(0);
            let read = data.read_at(self.stripe.get_mut(..size).unwrap_or_default(), from)?;
            if read < size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if self.is_known(size)? {
                // As it stands: writing it anew is one more chance to tear it.
                self.written = from + to_u64(size);
                if self.written <= self.head.covered {
                    self.flushed = self.written;
                }
            }
            self.filled = size;
            if size == self.stripe.len() {
                self.end_stripe()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Whether the slot that stands there is sound and about the first `size` bytes of the stripe
    /// in memory.
    ///
    /// # Errors
    ///
    /// It says something else of them, as far as it goes.
    fn is_known(&self, size: usize) -> io::Result<bool> {
        let slot = read_slot(&*self.file, &self.places, self.number)?;
        let Some(known) = Known::decode(&slot, self.number, &self.places) else { return Ok(false) };
        let mut stripe = self.stripe.clone();
        stripe.iter_mut().skip(known.covered).for_each(|byte| *byte = 0);
        if lost_blocks(&self.places, &known, &stripe).is_empty() {
            return Ok(known.covered == size && has_sound_parity(&self.places, &known, &slot));
        }
        let what = "the records are not what the parity knows of them";
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }

    fn follow(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at != self.places.stripe_at(self.number) + to_u64(self.filled) {
            return Err(io::Error::other("bytes that do not follow the others"));
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let free = self.stripe.get_mut(self.filled..).unwrap_or_default();
            let (here, behind) = rest.split_at(free.len().min(rest.len()));
            let (free, _) = free.split_at_mut(here.len());
            free.copy_from_slice(here);
            self.filled += here.len();
            rest = behind;
            if self.filled == self.stripe.len() {
                self.end_stripe()?;
            }
        }
        Ok(())
    }

    fn end_stripe(&mut self) -> io::Result<()> {
        self.pad_stripe()?;
        self.number += 1;
        self.filled = 0;
        self.stripe.fill(0);
        Ok(())
    }

    /// Writes the slot of the stripe as far as it is filled, unless that was done.
    pub(crate) fn pad_stripe(&mut self) -> io::Result<()> {
        let end = self.places.stripe_at(self.number) + to_u64(self.filled);
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("a barrier of the parity failed"));
        }
        if end > self.written {
            let slot = self.coder.slot(self.number, &self.stripe, self.filled);
            self.file.write_at(&slot, self.places.slot_at(self.number).0)?;
            self.written = end;
        }
        Ok(())
    }

    /// What makes everything that has a slot durable; `None` if nothing is new.
    pub(crate) fn flush(&mut self) -> Option<ParityFlush> {
        if self.written <= self.flushed {
            return None;
        }
        self.flushed = self.written;
        self.head.covered = self.written;
        self.head.sequence += 1;
        let (file, head, failed) = (self.file.clone(), self.head.clone(), self.failed.clone());
        Some(ParityFlush { file, head, failed })
    }

    fn write_head(&mut self) -> io::Result<()> {
        self.head.sequence += 1;
        self.file.write_at(&self.head.encode(), self.head.offset().0)
    }
}

/// Slots to be made durable, and then a head to say so: a matter of two barriers, and of nobody's
/// hurry.
///
/// The name of the file becomes durable with the next segment's, or at the close. Not here: an
/// error of the directory is told once, and whoever makes a segment has to hear it.
#[derive(Debug)]
#[must_use = "slots are not durable before this is run"]
pub(crate) struct ParityFlush {
    file: Arc<dyn File>,
    head: Head,
    failed: Arc<AtomicBool>,
}

impl ParityFlush {
    /// Whether all that `other` makes durable is, too, once this was run.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.head.covered >= other.head.covered
    }

    /// A barrier that failed is not tried again: that segment's parity promises nothing more.
    pub(crate) fn run(&self) {
        let settle = || -> io::Result<()> {
            self.file.sync()?;
            self.file.write_at(&self.head.encode(), self.head.offset().0)?;
            self.file.sync()
        };
        if !self.failed.load(Ordering::Relaxed) && settle().is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}
