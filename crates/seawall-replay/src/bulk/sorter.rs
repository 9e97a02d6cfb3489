//! The sorted part of the collected changes: a thread sorts them while the next ones are read.

use crate::bulk::part::Part;
use crate::bulk::run::{Run, spill};
use crate::bulk::tables::Tables;
use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::transactions::spill::{Folder, Spill};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Parts that wait to be sorted.
const PARTS_AHEAD: usize = 1;

/// A part, and the tables that had rows when it was full.
type Full = (Part, Arc<Tables>);

/// A thread that sorts parts.
#[derive(Debug)]
pub(crate) struct Sorter<'scope> {
    parts: SyncSender<Full>,
    /// Parts that were sorted. Their memory is used again.
    empty: Receiver<Part>,
    thread: ScopedJoinHandle<'scope, Result<Sorted>>,
}

/// Where sorted changes are kept.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The size of the runs in memory, in bytes.
    pub(crate) memory: usize,
    /// The directory of the scratch file.
    pub(crate) folder: Folder,
}

/// Sorted runs.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// In the scratch file. All are older than those in memory.
    pub(crate) spilled: Vec<Run>,
    pub(crate) scratch: Option<Spill>,
    pub(crate) in_memory: Vec<Run>,
    /// The size of the runs in memory, in bytes.
    size: usize,
}

/// The thread has failed: [`Sorter::finish`] returns its error.
pub(crate) struct Failed;

impl<'scope> Sorter<'scope> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        (room, operators): (Room, &'env Operators),
    ) -> Result<Self> {
        let (parts, queue) = sync_channel(PARTS_AHEAD);
        let (give_back, empty) = sync_channel(PARTS_AHEAD + 1);
        let sort = move || Sorted::of((&queue, &give_back), (&room, operators));
        let thread = Builder::new().spawn_scoped(scope, sort).map_err(Error::Thread)?;
        Ok(Self { parts, empty, thread })
    }

    /// Sorts another part, and returns an empty one.
    pub(crate) fn add(&self, full: Full) -> Result<Part, Failed> {
        self.parts.send(full).map_err(|_| Failed)?;
        Ok(self.empty.try_recv().unwrap_or_default())
    }

    /// Waits until all parts are sorted.
    pub(crate) fn finish(self) -> Result<Sorted> {
        drop(self.parts);
        self.thread.join().expect("the sorter returns errors")
    }
}

impl Sorted {
    fn of(
        (queue, give_back): (&Receiver<Full>, &SyncSender<Part>),
        (room, operators): (&Room, &Operators),
    ) -> Result<Self> {
        let mut sorted = Self::default();
        for (mut part, tables) in queue {
            let rows = part.take_sorted((&tables, operators))?;
            let _ = give_back.try_send(part);
            sorted.size += rows.bytes.len();
            sorted.in_memory.push(Run::in_memory(rows));
            if sorted.size >= room.memory {
                sorted.spill(&tables, &room.folder)?;
            }
        }
        Ok(sorted)
    }

    /// Moves the runs in memory to the scratch file.
    fn spill(&mut self, tables: &Tables, folder: &Folder) -> Result<()> {
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(folder.make()?),
        };
        self.size = 0;
        let runs = std::mem::take(&mut self.in_memory);
        self.spilled.push(spill(runs, tables, scratch)?);
        Ok(())
    }
}
