//! What happens in one simulation: the lives of a log, what each does, what fails, how it ends.

use seawall::parity::Parity;
use seawall::{Layout, Level};
use seawall_testkit::{Fault, Harm};

/// All that happens to one log. The same plan gives the same run, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Schedules and random bits follow from this.
    pub seed: u64,
    /// The layout of its records.
    pub layout: Layout,
    /// The largest segment, in bytes.
    pub segment_max: u64,
    /// One after the other.
    pub lives: Vec<Life>,
}

/// From one open to a close or a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// What an append waits for.
    pub level: Level,
    /// Whether a thread makes the next segment ahead.
    pub ahead: bool,
    /// Whether marks are written when the log idles.
    pub idle: bool,
    /// What is given up by itself.
    pub keep: Keep,
    /// What the log is told of parity.
    pub beside: Beside,
    /// Tasks side by side, and what each does.
    pub tasks: Vec<Vec<Act>>,
    /// What goes wrong, and at which step of this life.
    pub faults: Vec<(u64, Fault)>,
    /// What goes wrong with the parity alone, and at which step.
    pub faults_beside: Vec<(u64, Fault)>,
    /// How it ends.
    pub end: End,
    /// The parity that is made then, and how that ends.
    pub protect: Option<(Parity, End)>,
    /// What becomes of the disk before the next life.
    pub harm: Option<Harm>,
    /// What becomes of the parity alone.
    pub harm_beside: Option<Harm>,
    /// How many single faults are tried on copies of what it leaves, and their seed.
    pub probes: (u64, u64),
    /// How often damage that parity is to mend is tried on copies of what it leaves, and its seed.
    pub mends: (u64, u64),
}

/// A retention of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    All,
    /// So many bytes, but what a checkpoint may need.
    Bytes(u64),
    /// The newest bytes, whatever checkpoints say.
    Ring(u64),
}

/// What a life tells the log of parity beside its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing: the log stays as it was.
    AsItIs,
    /// From now on there is none.
    Off,
    /// From now on there is this.
    On(Parity),
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Appends a record of this many bytes.
    Append(usize),
    /// Appends an atomic set.
    Set(Vec<usize>),
    /// Appends a record and keeps its ticket.
    Submit(usize),
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
    /// Reads everything by the log's handle.
    Read,
    /// Reads everything as another process does.
    Look,
    /// Gets the record this many before the end.
    Get(u64),
    /// The same as another process does.
    GetElsewhere(u64),
    /// Moves a follower of this handle on to the end.
    Follow,
    /// Moves a follower as in another process on to the end.
    FollowElsewhere,
    /// Judges the log beside its writer.
    Verify,
    /// Copies the log beside its writer.
    Copy,
    /// Rests this many milliseconds.
    Rest(u64),
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Closed.
    Close,
    /// Dropped without a word.
    Drop,
    /// The process is killed after this many steps; its writes stay in the cache.
    Kill(u64),
    /// The power is cut after this many steps.
    Power(u64, Cut),
    /// The device goes away after this many steps, and comes back while the machine runs: what was
    /// not synced may be lost, and the boot is the same.
    Detach(u64, Cut),
}

/// What a power cut, or a device that went away, leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The smallest piece that is kept or lost.
    pub unit: Unit,
    /// Which of them are.
    pub seed: u64,
}

/// The piece that a power cut keeps or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Eight sectors: a page.
    Page,
    /// A sector of 512 bytes.
    Sector,
    /// A sector may be torn at any byte, too.
    Byte,
    /// Each item by itself, and the bits of the seed say which.
    Chosen,
}

impl Plan {
    /// Whether nothing can go wrong in this plan but crashes.
    #[must_use]
    pub fn has_crashes_only(&self) -> bool {
        self.lives.iter().all(|life| life.faults.is_empty() && life.harm.is_none())
    }

    /// How many acts, faults and lives there are: what shrinking makes smaller.
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
