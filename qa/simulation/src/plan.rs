//! The plan of one simulation: the lives of a log, their operations, failures and ends.

pub(crate) mod draw;
pub(crate) mod notation;
pub(crate) mod reach;
pub(crate) mod shrink;

use seawall::parity::Parity;
use seawall::{Layout, Level};
use seawall_testkit::{Fault, Harm};

/// Everything that happens to one log. Runs of the same plan are equal, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of schedules and random bits.
    pub seed: u64,
    /// The layout of its records.
    pub layout: Layout,
    /// The largest segment, in bytes.
    pub segment_max: u64,
    /// How far one fault is assumed to spoil neighbouring bytes.
    pub reach: u32,
    /// The lives, in order.
    pub lives: Vec<Life>,
}

/// How the next segment is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Whether a thread creates it in advance.
    pub ahead: bool,
    /// Whether files of removed segments are reused.
    pub reuse: bool,
    /// Whether it gets its name before it is needed.
    pub name_ahead: bool,
}

/// The time from one open to a close or a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The durability level of appends.
    pub level: Level,
    /// How the next segment is created.
    pub next: Next,
    /// How many writes of batches, large or small, may be in flight.
    pub in_flight: u8,
    /// Whether each write of records fills its last block.
    pub fills_blocks: bool,
    /// Whether the log is compressed from now on; `None` keeps its setting.
    pub compress: Option<bool>,
    /// Whether the log is encrypted, in all lives.
    pub encrypt: bool,
    /// Whether marks are written when the log idles.
    pub idle: bool,
    /// The retention.
    pub keep: Keep,
    /// The parity option of the log.
    pub beside: Beside,
    /// The operations of each task; the tasks run at the same time.
    pub tasks: Vec<Vec<Act>>,
    /// The faults, and the steps of this life at which they happen.
    pub faults: Vec<(u64, Fault)>,
    /// Faults of parity files only, and their steps.
    pub faults_beside: Vec<(u64, Fault)>,
    /// The end of this life.
    pub end: End,
    /// The parity that is built after the end of the life, and how that ends.
    pub protect: Option<(Parity, End)>,
    /// Damage to the disk before the next life.
    pub harm: Option<Harm>,
    /// Damage to parity files only.
    pub harm_beside: Option<Harm>,
    /// Number of single faults to try on copies of the log afterwards, and their seed.
    pub probes: (u64, u64),
    /// Number of damages that parity must restore, tried on copies of the log, and their seed.
    pub mends: (u64, u64),
}

/// A retention of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Keeps everything.
    #[default]
    All,
    /// Keeps this many bytes, and everything that a checkpoint needs.
    Bytes(u64),
    /// Keeps the newest bytes, regardless of checkpoints.
    Ring(u64),
}

/// The parity option of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Keeps the log's setting.
    AsItIs,
    /// Turns parity off.
    Off,
    /// Turns parity on, with this ratio.
    On(Parity),
}

/// One call of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Appends a record of this many bytes.
    Append(usize),
    /// Appends an atomic set.
    Set(Vec<usize>),
    /// Appends a record and keeps its ticket.
    Submit(usize),
    /// Appends a record and keeps its ticket, unless that would block.
    TrySubmit(usize),
    /// Waits for the oldest ticket.
    Wait,
    /// Waits until everything is durable.
    Flush,
    /// Waits until everything is confirmed.
    Confirm,
    /// Sets a checkpoint this many records before the end.
    Checkpoint(u64),
    /// Truncates everything but this many records at the end.
    Prune(u64),
    /// Truncates this many records at the end.
    Cut(u64),
    /// Reads everything through the log's handle.
    Read,
    /// Reads everything as a reader in another process would.
    Look,
    /// Gets the record this many before the end.
    Get(u64),
    /// Gets that record as a reader in another process would.
    GetElsewhere(u64),
    /// Reads to the end with a follower of this handle.
    Follow,
    /// Reads to the end with a follower as in another process.
    FollowElsewhere,
    /// Verifies the log while its writer runs.
    Verify,
    /// Copies the log while its writer runs.
    Copy,
    /// Sleeps this many milliseconds.
    Rest(u64),
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The log is closed.
    Close,
    /// The handle is dropped.
    Drop,
    /// The process is killed after this many steps; its writes stay in the cache.
    Kill(u64),
    /// The power is cut after this many steps.
    Power(u64, Cut),
    /// The device goes away after this many steps, and comes back while the machine runs: what was
    /// not synced may be lost, and the boot is the same.
    Detach(u64, Cut),
}

/// Which unsynced writes survive a power cut or the loss of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The unit that is kept or lost.
    pub unit: Unit,
    /// Which units are kept.
    pub seed: u64,
}

/// The unit that a power cut keeps or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Eight sectors: a page.
    Page,
    /// A sector of 512 bytes.
    Sector,
    /// A sector, which may also be torn at any byte.
    Byte,
    /// A sector whose write may garble its block, including what was there before. Only for lives
    /// that fill blocks.
    Block,
    /// Each item by itself; the bits of the seed decide.
    Chosen,
}

impl Keep {
    /// The limit in bytes.
    pub(crate) fn limit(self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::Bytes(limit) | Self::Ring(limit) => Some(limit),
        }
    }
}

impl Plan {
    /// Whether the log is compressed in any life.
    #[must_use]
    pub fn compresses(&self) -> bool {
        self.lives.iter().any(|life| life.compress == Some(true))
    }

    /// Whether the log is encrypted, from its creation on.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        self.lives.iter().any(|life| life.encrypt)
    }

    /// Whether crashes are the only faults of this plan.
    #[must_use]
    pub fn has_crashes_only(&self) -> bool {
        self.lives.iter().all(|life| life.faults.is_empty() && life.harm.is_none())
    }

    /// Number of acts, faults and lives, which shrinking reduces.
    #[must_use]
    pub fn size(&self) -> usize {
        let life = |life: &Life| {
            let acts: usize = life.tasks.iter().map(|acts| acts.len() + 1).sum();
            let probes = usize::from(life.probes.0 > 0) + usize::from(life.mends.0 > 0);
            let probes = probes + usize::from(life.protect.is_some());
            let harms = usize::from(life.harm.is_some()) + usize::from(life.harm_beside.is_some());
            acts + life.faults.len() + life.faults_beside.len() + harms + probes + 1
        };
        self.lives.iter().map(life).sum()
    }
}
