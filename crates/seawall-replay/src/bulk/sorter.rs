//! Sorts collected changes on a thread while the next changes are read.

use crate::bulk::part::{Part, Rows};
use crate::bulk::run::{Run, spill};
use crate::bulk::tables::Tables;
use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::transactions::spill::{Folder, Spill};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// The number of parts in the queue of the sorter's thread.
const PARTS_AHEAD: usize = 1;

/// A part, and the tables that had rows when it was full.
type Full = (Part, Arc<Tables>);

/// The next part, in the order of the log.
#[derive(Debug)]
enum Next {
    Unsorted(Full),
    Sorted(Rows, Arc<Tables>),
}

/// A thread that sorts parts.
#[derive(Debug)]
pub(crate) struct Sorter<'scope> {
    operators: &'scope Operators,
    parts: SyncSender<Next>,
    /// Emptied parts, whose memory is reused.
    empty: Receiver<Part>,
    thread: ScopedJoinHandle<'scope, Result<Sorted>>,
}

/// The space for sorted changes.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The maximum size of the runs in memory, in bytes.
    pub(crate) memory: usize,
    /// The directory of the scratch file.
    pub(crate) folder: Folder,
}

/// Sorted runs.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    /// The runs in the scratch file. All are older than those in memory.
    pub(crate) spilled: Vec<Run>,
    pub(crate) scratch: Option<Spill>,
    pub(crate) in_memory: Vec<Run>,
    /// The size of the runs in memory, in bytes.
    size: usize,
}

impl<'scope> Sorter<'scope> {
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        (room, operators): (Room, &'env Operators),
    ) -> Result<Self> {
        let (parts, queue) = sync_channel(PARTS_AHEAD);
        let (give_back, empty) = sync_channel(PARTS_AHEAD + 1);
        let sort = move || Sorted::of((&queue, &give_back), (&room, operators));
        let thread = Builder::new().spawn_scoped(scope, sort).map_err(Error::Thread)?;
        Ok(Self { operators, parts, empty, thread })
    }

    /// Sorts another part, on the calling thread if the sorter's thread is busy. Returns an empty
    /// part; `None` if the thread has failed: [`finish`](Self::finish) returns its error.
    pub(crate) fn add(&self, full: Full) -> Result<Option<Part>> {
        match self.parts.try_send(Next::Unsorted(full)) {
            Ok(()) => Ok(Some(self.empty.try_recv().unwrap_or_default())),
            Err(TrySendError::Full(Next::Unsorted((mut part, tables)))) => {
                let rows = part.take_sorted((&tables, self.operators))?;
                let sent = self.parts.send(Next::Sorted(rows, tables));
                Ok(sent.ok().map(|()| part))
            }
            Err(_) => Ok(None),
        }
    }

    /// Waits until all parts are sorted.
    pub(crate) fn finish(self) -> Result<Sorted> {
        drop(self.parts);
        self.thread.join().expect("the sorter returns errors")
    }
}

impl Sorted {
    fn of(
        (queue, give_back): (&Receiver<Next>, &SyncSender<Part>),
        (room, operators): (&Room, &Operators),
    ) -> Result<Self> {
        let mut sorted = Self::default();
        for next in queue {
            let (rows, tables) = match next {
                Next::Unsorted((mut part, tables)) => {
                    let rows = part.take_sorted((&tables, operators))?;
                    let _ = give_back.try_send(part);
                    (rows, tables)
                }
                Next::Sorted(rows, tables) => (rows, tables),
            };
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
