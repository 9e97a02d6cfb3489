//! The memory that the keeper preserves: entries that name the runs in its buffers, and the staging
//! buffer.

use super::device::{with_half, Sector, SECTORS, SLOTS};

/// The number of sectors of a buffer.
pub const BUFFER: usize = SECTORS;
/// The index of the entry for an unfinished overwrite; the other entries belong to the slots.
pub const PENDING: usize = SLOTS;

pub type Buffer = [Sector; BUFFER];

/// Consecutive sectors of the home. Of two runs with the same sector, the higher number is current.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    pub number: u8,
    pub offset: u8,
    pub size: u8,
}

impl Run {
    pub fn end(&self) -> u8 {
        self.offset + self.size
    }

    pub fn holds(&self, sector: u8) -> bool {
        self.offset <= sector && sector < self.end()
    }

    pub fn meets(&self, other: &Run) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// A copy of an entry: `None` while torn, `Some(None)` without a run, or its run.
type Copy = Option<Option<Run>>;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Entry {
    copies: [Copy; 2],
    /// The index of the copy that was written last.
    newest: u8,
}

impl Entry {
    const EMPTY: Entry = Entry { copies: [Some(None), None], newest: 0 };

    fn target(&self, two_copies: bool) -> usize {
        usize::from(if two_copies { 1 - self.newest } else { self.newest })
    }

    fn tear(&mut self, two_copies: bool) {
        self.copies[self.target(two_copies)] = None;
    }

    /// Writes a copy of the entry. The other copy is never read again; dropping it saves states.
    fn publish(&mut self, run: Option<Run>, two_copies: bool) {
        let target = self.target(two_copies);
        self.copies = [None; 2];
        self.copies[target] = Some(run);
        self.newest = target as u8;
    }

    fn read(&self) -> Option<Run> {
        let newest = usize::from(self.newest);
        self.copies[newest].or(self.copies[1 - newest]).flatten()
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The number of the server start that created this memory.
    pub serve: u8,
    pub is_laid_out: bool,
    entries: [Entry; SLOTS + 1],
    pub buffers: [Buffer; SLOTS],
    pub staging: Buffer,
}

impl Memory {
    pub fn new(serve: u8) -> Self {
        Self {
            serve,
            is_laid_out: true,
            entries: [Entry::EMPTY; SLOTS + 1],
            buffers: [[0; BUFFER]; SLOTS],
            staging: [0; BUFFER],
        }
    }

    /// Returns the runs with their bytes, by slot.
    pub fn runs(&self) -> Vec<(Run, Buffer)> {
        let named = self.entries[..SLOTS].iter().zip(self.buffers);
        named.filter_map(|(entry, bytes)| Some((entry.read()?, bytes))).collect()
    }

    /// Repeats an unfinished overwrite, if its run still exists.
    pub fn redo(&mut self) {
        let Some(pending) = self.entries[PENDING].read() else { return };
        let slots = self.entries[..SLOTS].iter();
        let slot =
            slots.map(Entry::read).position(|r| r.is_some_and(|r| r.number == pending.number));
        let Some(slot) = slot else { return };
        let run = self.entries[slot].read().unwrap();
        for n in 0..pending.size {
            let at = usize::from(pending.offset - run.offset + n);
            self.buffers[slot][at] = self.staging[usize::from(n)];
        }
    }

    /// Performs one store of the server to the memory.
    pub fn store(&mut self, store: Store, two_copies: bool) {
        match store {
            Store::Copy { slot, at, half, sector } => {
                let old = &mut self.buffers[usize::from(slot)][usize::from(at)];
                *old = with_half(*old, sector, half);
            }
            Store::Stage { at, half, sector } => {
                let old = &mut self.staging[usize::from(at)];
                *old = with_half(*old, sector, half);
            }
            Store::Unstage { slot, at, from, half } => {
                let sector = self.staging[usize::from(from)];
                let old = &mut self.buffers[usize::from(slot)][usize::from(at)];
                *old = with_half(*old, sector, half);
            }
            Store::Tear { entry } => self.entries[usize::from(entry)].tear(two_copies),
            Store::Publish { entry, run } => {
                self.entries[usize::from(entry)].publish(run, two_copies);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// Writes half of a sector to a buffer.
    Copy { slot: u8, at: u8, half: u8, sector: Sector },
    /// Writes half of a sector to the staging buffer.
    Stage { at: u8, half: u8, sector: Sector },
    /// Copies half of a sector from the staging buffer to a buffer.
    Unstage { slot: u8, at: u8, from: u8, half: u8 },
    /// Begins to write an entry, which is torn until it is published.
    Tear { entry: u8 },
    /// Finishes writing the entry.
    Publish { entry: u8, run: Option<Run> },
}
