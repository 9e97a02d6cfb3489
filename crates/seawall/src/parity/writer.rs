//! Writes parity for new records, stripe by stripe.
//!
//! Acknowledging a record never waits for parity. A commit only copies the bytes in memory and,
//! when a stripe is full, writes its slot without a sync. A [`ParityFlush`] makes slots durable
//! later, when the device is less busy. After a crash, the next open rebuilds the parity of the
//! last stripes from the records.
//!
//! An error ends the parity of the current segment and has no other effect.

use crate::base::num::to_u64;
use crate::files::parity_file::{heads, read_slot};
use crate::parity::code::{Coder, has_sound_parity, lost_blocks};
use seawall_format::parity::{Head, Known, Places, Scheme};
use seawall_format::{Refused, SegmentHeader, SegmentRef};
use seawall_io::{Access, File, Storage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flush slots after this many bytes of records.
const FLUSH_EVERY: u64 = 4 << 20;

/// The parity of a log that is open for append.
#[derive(Debug)]
pub(crate) struct ParityWriter {
    scheme: Scheme,
    current: Option<ParityFile>,
    /// The segment whose parity failed; no further parity is written for it.
    given_up: Option<SegmentRef>,
    /// Number of slots written.
    pub(crate) stripes: u64,
    /// Number of segments whose parity could not be completed.
    pub(crate) failures: u64,
}

/// The segment that the parity covers.
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

    /// Adds durable record bytes, which begin at offset `at` of `tail`, to the parity. Returns the
    /// flushes that are due.
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

    /// Writes the slots for everything up to the end of `tail`. Returns the flushes that make them
    /// durable.
    pub(crate) fn complete(&mut self, tail: &Covered<'_>) -> Vec<ParityFlush> {
        let mut due = vec![];
        if self.current.as_ref().is_none_or(|current| current.head.header.id != tail.header.id) {
            due.extend(self.leave());
            self.enter(tail, tail.end);
        }
        due.extend(self.pad_stripe());
        due
    }

    /// Ends the parity of a segment after a rotation.
    fn leave(&mut self) -> Option<ParityFlush> {
        let due = self.pad_stripe();
        self.current = None;
        due
    }

    /// Writes the slot of an incomplete stripe.
    fn pad_stripe(&mut self) -> Option<ParityFlush> {
        let current = self.current.as_mut()?;
        if current.pad_stripe().is_ok() {
            return current.flush();
        }
        self.give_up();
        None
    }

    /// Opens the parity of `tail`, whose records reach to `at`.
    fn enter(&mut self, tail: &Covered<'_>, at: u64) {
        if self.given_up == Some(tail.header.reference()) {
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
            self.given_up = Some(tail.header.reference());
            self.failures += 1;
        }
    }

    fn give_up(&mut self) {
        self.given_up = self.current.take().map(|current| current.head.header.reference());
        self.failures += 1;
    }
}

/// The parity file of one segment, open for writing.
#[derive(Debug)]
pub(crate) struct ParityFile {
    file: Arc<dyn File>,
    places: Places,
    coder: Coder,
    /// The head as last written.
    head: Head,
    /// Set when a sync failed: no further slot counts as durable.
    failed: Arc<AtomicBool>,
    /// The current stripe, and how much of it is filled.
    number: u64,
    stripe: Vec<u8>,
    filled: usize,
    /// Record bytes before this offset have a slot.
    written: u64,
    /// The value of `written` at the last flush.
    flushed: u64,
}

impl ParityFile {
    /// Opens the parity file of a segment, or creates it.
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
            Ok(head) => Some(head).filter(|head| head.header == header.as_written()),
            Err(Refused::Invalid) => None,
            // A newer version wrote it: leave it unchanged.
            Err(refused) => return Err(io::Error::other(refused)),
        };
        let is_new = found.is_none();
        let file = if is_new && file.len()? > 0 {
            // Without a head the slots are meaningless.
            storage.remove(&name)?;
            storage.create(&name)?
        } else {
            file
        };
        let covered = header.data_start();
        let head = found.unwrap_or(Head { header: header.clone(), scheme, sequence: 0, covered });
        // An existing file keeps its scheme.
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
            // Both copies, so that the head survives the loss of one block.
            opened.write_head()?;
            opened.write_head()?;
        }
        Ok(opened)
    }

    /// Restarts at the stripe that contains offset `sound`, because the slots after it are damaged.
    pub(crate) fn go_back(&mut self, sound: u64) {
        self.number = self.places.stripe_of(sound);
        (self.written, self.flushed) = (self.places.stripe_at(self.number), sound);
        self.stripe.fill(0);
        self.filled = 0;
    }

    /// Writes the missing slots for the records in `data` before `end`, which the caller has
    /// verified.
    ///
    /// A valid slot that contradicts the records is never overwritten: it may be the only evidence
    /// of what was written.
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
            let end = from + to_u64(size);
            // Keep a durable slot: rewriting it could tear it. Another may be in the page cache
            // only, where a failed sync has left it: the next sync would not write it again.
            if self.is_known(size)? && end <= self.head.covered {
                (self.written, self.flushed) = (end, end);
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

    /// Whether the slot on disk is valid and covers exactly the first `size` bytes of the current
    /// stripe.
    ///
    /// # Errors
    ///
    /// The slot contradicts these bytes.
    fn is_known(&self, size: usize) -> io::Result<bool> {
        let slot = read_slot(&*self.file, &self.places, self.number)?;
        let Some(known) = Known::decode(&slot, self.number, &self.places) else { return Ok(false) };
        let mut stripe = self.stripe.clone();
        stripe.iter_mut().skip(known.covered).for_each(|byte| *byte = 0);
        if lost_blocks(&self.places, &known, &stripe).is_empty() {
            return Ok(known.covered == size && has_sound_parity(&self.places, &known, &slot));
        }
        let what = "the records contradict their parity";
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }

    fn follow(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at != self.places.stripe_at(self.number) + to_u64(self.filled) {
            return Err(io::Error::other("parity input has a gap"));
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

    /// Writes the slot of the current stripe unless it is up to date.
    pub(crate) fn pad_stripe(&mut self) -> io::Result<()> {
        let end = self.places.stripe_at(self.number) + to_u64(self.filled);
        if self.failed.load(Ordering::Relaxed) {
            return Err(sync_failed_before());
        }
        if end > self.written {
            let slot = self.coder.slot(self.number, &self.stripe, self.filled);
            self.file.write_at(&slot, self.places.slot_at(self.number).0)?;
            self.written = end;
        }
        Ok(())
    }

    /// Takes the flush that makes the written slots durable; `None` if there is nothing new.
    pub(crate) fn flush(&mut self) -> Option<ParityFlush> {
        if self.written <= self.flushed {
            return None;
        }
        let covered_before = self.head.covered;
        self.flushed = self.written;
        self.head.covered = self.written;
        self.head.sequence += 1;
        let (file, head, failed) = (self.file.clone(), self.head.clone(), self.failed.clone());
        Some(ParityFlush { file, head, covered_before, failed })
    }

    fn write_head(&mut self) -> io::Result<()> {
        self.head.sequence += 1;
        self.file.write_at(&self.head.stored(), self.head.offset().0)
    }
}

fn sync_failed_before() -> io::Error {
    io::Error::other("an earlier sync of the parity file failed")
}

/// A pending flush: syncs the slots, then writes and syncs a head that covers them.
///
/// The directory entry of the file is synced with the next segment or at close. A flush must not
/// sync the directory: the kernel reports a failed directory sync only once, and the thread that
/// creates a segment must see it.
#[derive(Debug)]
#[must_use = "slots are not durable before this is run"]
pub(crate) struct ParityFlush {
    file: Arc<dyn File>,
    head: Head,
    /// What an earlier head covers durably.
    covered_before: u64,
    failed: Arc<AtomicBool>,
}

impl ParityFlush {
    /// Whether running this flush makes `other` redundant.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.head.covered >= other.head.covered
    }

    /// Syncs slots and head. A failed sync is never retried: the parity of this segment ends there
    /// until it is built again.
    ///
    /// # Errors
    ///
    /// The device's error, or that an earlier flush of this file failed.
    pub(crate) fn run(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(sync_failed_before());
        }
        let settled = self.file.sync().and_then(|()| self.settle_head());
        self.failed.store(settled.is_err(), Ordering::Relaxed);
        settled
    }

    fn settle_head(&self) -> io::Result<()> {
        let write = |head: &Head| self.file.write_at(&head.stored(), head.offset().0);
        let settled = write(&self.head).and_then(|()| self.file.sync());
        if settled.is_err() {
            // Readers of the page cache must not take the new head for durable.
            let _ = write(&Head { covered: self.covered_before, ..self.head.clone() });
        }
        settled
    }

    /// Like [`run`](Self::run), for parity that the next open completes if this fails.
    pub(crate) fn run_in_background(&self) {
        let _ = self.run();
    }
}
