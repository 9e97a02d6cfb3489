//! A machine with a disk, its keeper and its server, and the promises made to the server's client.

use super::device::{show, value, Device, DumpRun, Sector, SECTORS};
use super::memory::{Memory, Store};
use super::ring::Ring;
use super::rules::Rules;

/// The number of sectors that an emergency can dump in time.
pub const BUDGET: u8 = 3;

/// The limits of a search.
#[derive(Clone, Copy)]
pub struct Extent {
    pub writes: u8,
    /// Kills, power failures, failed syncs, and starts that do not reach the keeper.
    pub events: u8,
    pub slots: usize,
    pub kinds: Kinds,
}

/// The kinds of events that can happen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kinds {
    All,
    /// Kills of the server only.
    Kills,
    /// Kills of the server, and announced power failures.
    Announced,
}

#[derive(Clone, Copy)]
pub struct Config {
    pub rules: Rules,
    pub extent: Extent,
}

/// A step of a start, or of a thread that holds the lock of the ring.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Step {
    Store(Store),
    Acknowledge {
        offset: u8,
        size: u8,
        value: u8,
    },
    /// Writes a place of the area: `None` while the write tears it, then its run.
    Place {
        at: u8,
        run: Option<DumpRun>,
    },
    SyncArea,
    Drop,
    Note,
    SyncNote,
    Home {
        at: u8,
        sector: Sector,
    },
    SyncHome,
    Use {
        generation: u8,
    },
    SyncUsed,
    Put,
    LayOut,
    Open,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Keeper {
    Gone,
    Empty,
    Holds(Box<Memory>),
    /// The memory of the running server.
    Shared,
}

/// A server before it accepts clients.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Starting {
    /// The remaining steps, the next one last; `None` before the start has inspected the machine.
    pub steps: Option<Vec<Step>>,
    pub has_keeper: bool,
    /// Whether the keeper was killed since then.
    pub is_alone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Serving {
    pub memory: Memory,
    pub ring: Ring,
    /// The remaining steps of the thread that holds the lock, the next one last.
    pub steps: Vec<Step>,
    /// The remaining steps of the dump, the next one last.
    pub dump: Vec<Step>,
    /// The slots that are being written home; `written` counts their sectors already written.
    pub flights: Vec<u8>,
    pub written: u8,
    pub has_keeper: bool,
    /// The size of the dump, once a power failure was announced.
    pub emergency: Option<u8>,
    pub has_dumped: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Server {
    Down,
    Starting(Starting),
    Serving(Box<Serving>),
}

/// For each sector: the values that may be found, and the oldest one allowed in each situation.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Truth {
    /// A bit for each value that may be found.
    pub written: [u8; SECTORS],
    pub acknowledged: [u8; SECTORS],
    pub flushed: [u8; SECTORS],
    /// The oldest values allowed after any power failure.
    pub durable: [u8; SECTORS],
    /// The oldest values that the next start may find.
    pub needed: [u8; SECTORS],
    /// Whether a server without a keeper has started since the memory was created.
    pub may_refuse: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub device: Device,
    pub keeper: Keeper,
    pub server: Server,
    pub truth: Truth,
    /// A write of a killed server that has not reached the home yet.
    pub late: Option<(u8, Sector)>,
    pub writes: u8,
    pub events: u8,
    /// Whether a power failure was announced.
    pub is_failing: bool,
}

impl Serving {
    pub fn new(memory: Memory, has_keeper: bool) -> Self {
        Self {
            memory,
            ring: Ring::default(),
            steps: vec![],
            dump: vec![],
            flights: vec![],
            written: 0,
            has_keeper,
            emergency: None,
            has_dumped: false,
        }
    }

    /// Returns the sectors of the runs that are being written home, in order.
    pub fn flying(&self) -> Vec<(u8, Sector)> {
        let mut out = vec![];
        for slot in &self.flights {
            let run = self.ring.slots[usize::from(*slot)].expect("it is in flight").run;
            let bytes = self.memory.buffers[usize::from(*slot)];
            out.extend((run.offset..run.end()).zip(bytes));
        }
        out
    }

    /// Returns the content of the whole disk as clients read it.
    fn view(&self, device: &Device) -> [Sector; SECTORS] {
        let mut view = device.home.map(|sector| sector.visible);
        for (slot, run) in self.ring.by_age() {
            for (n, sector) in (run.offset..run.end()).zip(self.memory.buffers[slot]) {
                view[usize::from(n)] = sector;
            }
        }
        view
    }
}

impl World {
    pub fn new() -> Self {
        let truth = Truth { written: [1; SECTORS], ..Truth::default() };
        let memory = Memory::new(0);
        Self {
            device: Device::default(),
            keeper: Keeper::Shared,
            server: Server::Serving(Box::new(Serving::new(memory, true))),
            truth,
            late: None,
            writes: 0,
            events: 0,
            is_failing: false,
        }
    }

    /// Accepts clients. The content that they see must be right, and is durable from now on.
    pub fn open(&mut self) -> Result<(), String> {
        for n in 0..SECTORS {
            let sector = self.device.home[n].visible;
            let is_written = |v: u8| self.truth.written[n] >> v & 1 == 1;
            let needed = self.truth.needed[n];
            let found = match value(sector) {
                None => return Err(format!("sector {n} is torn: it holds {}", show(sector))),
                Some(v) if v < needed => {
                    return Err(format!(
                        "sector {n} holds {v}, older than {needed}, which must be there"
                    ));
                }
                Some(v) if !is_written(v) => {
                    return Err(format!("sector {n} holds {v}, which must not be there any more"));
                }
                Some(v) => v,
            };
            self.truth.written[n] = 1 << found;
            self.truth.acknowledged[n] = found;
        }
        self.truth.flushed = self.truth.acknowledged;
        self.truth.durable = self.truth.acknowledged;
        Ok(())
    }

    /// Reads the whole disk and checks it, if a server runs and changes nothing at the moment.
    pub fn read(&self) -> Result<(), String> {
        let Server::Serving(serving) = &self.server else { return Ok(()) };
        if !serving.steps.is_empty() {
            return Ok(());
        }
        for (n, sector) in serving.view(&self.device).into_iter().enumerate() {
            let expected = self.truth.acknowledged[n];
            if value(sector) != Some(expected) {
                let found = show(sector);
                return Err(format!("a read of sector {n} finds {found} instead of {expected}"));
            }
        }
        Ok(())
    }

    /// Kills the server, or ends it after an error.
    pub fn server_dies(&mut self, rules: &Rules) {
        let late = self.next_home_write().filter(|_| !rules.late_writes_end);
        self.late = self.late.or(late);
        match std::mem::replace(&mut self.server, Server::Down) {
            Server::Down => {}
            Server::Starting(starting) => {
                if starting.is_alone {
                    self.truth.needed = self.truth.durable;
                }
            }
            Server::Serving(serving) => {
                let is_kept = serving.has_keeper && self.keeper != Keeper::Gone;
                let Truth { acknowledged, durable, .. } = self.truth;
                self.truth.needed = if is_kept { acknowledged } else { durable };
                if self.keeper == Keeper::Shared {
                    self.keeper = Keeper::Holds(Box::new(serving.memory));
                }
            }
        }
    }

    pub fn keeper_dies(&mut self) {
        self.keeper = Keeper::Gone;
        match &mut self.server {
            Server::Starting(starting) if starting.steps.is_some() => starting.is_alone = true,
            Server::Down | Server::Starting(_) => self.truth.needed = self.truth.durable,
            Server::Serving(_) => {}
        }
    }

    fn next_home_write(&self) -> Option<(u8, Sector)> {
        match &self.server {
            Server::Starting(Starting { steps: Some(steps), .. }) => match steps.last() {
                Some(Step::Home { at, sector }) => Some((*at, *sector)),
                _ => None,
            },
            Server::Serving(serving) => serving.flying().get(usize::from(serving.written)).copied(),
            _ => None,
        }
    }

    /// Returns whether the power can fail now: because that was announced, or as one more event.
    pub fn may_lose_power(&self, extent: &Extent) -> bool {
        match &self.server {
            // Until the lock is released, only state that it protects changes.
            Server::Serving(s) if !s.steps.is_empty() => false,
            // The power failure was announced, and the dump ends in time.
            Server::Serving(s)
                if s.emergency.is_some_and(|size| size <= BUDGET) && !s.has_dumped =>
            {
                false
            }
            _ => self.is_failing || self.events < extent.events && extent.kinds == Kinds::All,
        }
    }

    pub fn power_fails(&mut self, device: Device) {
        let is_late = match &self.server {
            Server::Serving(serving) => serving.emergency.is_some() && !serving.has_dumped,
            _ => false,
        };
        self.truth.needed = if is_late { self.truth.flushed } else { self.truth.durable };
        self.events += u8::from(!self.is_failing);
        self.is_failing = false;
        self.device = device;
        self.keeper = Keeper::Gone;
        self.server = Server::Down;
        self.late = None;
    }
}
