//! State shared by all tasks of a simulation: the device of the current life, the ledger, and the
//! first finding.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scheduler::time;
use seawall::damage::Corruption;
use seawall::{Error, Layout, Log, Raw};
use seawall_format::{Live, SegmentId};
use seawall_io::Storage as _;
use seawall_testkit::{FaultDisk, Injected, Kind, MemStorage};

use crate::ledger::Ledger;
use crate::payload::Stuff;

/// A log of plain bytes.
pub(crate) type Bytes = Log<[u8], Raw>;

/// Block size of a simulated log: so small that every case occurs within a few kilobytes.
pub(crate) const BLOCK: u32 = 512;

/// The state of one life.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) layout: Layout,
    pub(crate) stuff: Stuff,
    pub(crate) disk: FaultDisk,
    pub(crate) ledger: Arc<Mutex<Ledger>>,
    pub(crate) finding: Arc<Mutex<Option<String>>>,
    /// Number of the last payload.
    pub(crate) serial: Arc<Mutex<u64>>,
    /// The trace for printing; `None` if it is not needed.
    pub(crate) story: Option<Arc<Mutex<Vec<String>>>>,
    /// The step at which the latest append began whose record became durable.
    pub(crate) went_on_at: Arc<Mutex<u64>>,
}

/// What a task does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Stop,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Ends the simulation with this finding, unless there is one already.
    pub(crate) fn find(&self, what: String) {
        lock(&self.finding).get_or_insert(what);
        self.disk.stop_after(0);
    }

    /// Adds a line to the trace.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if let Some(story) = &self.story {
            let line = format!("{:>6} {}", self.disk.steps(), what());
            lock(story).push(line);
        }
    }

    pub(crate) fn has_found(&self) -> bool {
        lock(&self.finding).is_some()
    }

    /// Turns a failed check of the ledger into a finding.
    pub(crate) fn judge(&self, judged: Result<(), String>, what: &str) {
        if let Err(why) = judged {
            self.find(format!("{what}: {why}"));
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        let mut serial = lock(&self.serial);
        *serial += 1;
        *serial
    }

    /// Notes the sizes of the segments, if retention may remove some.
    pub(crate) fn saw(&self) {
        let mut ledger = self.ledger();
        if ledger.keeps_less() {
            ledger.removals.saw(self.disk.device());
        }
    }

    /// Returns the faults so far, except those of parity files, which must go unnoticed.
    pub(crate) fn injected(&self) -> Vec<Injected> {
        let mut injected = self.disk.injected();
        injected.retain(|one| !is_beside(one));
        injected
    }

    /// Decides what to do after this error. An error that no fault explains is a finding.
    pub(crate) fn bear(&self, error: &Error, what: &str) -> Next {
        if self.disk.is_stopped() || self.has_found() {
            return Next::Stop;
        }
        let injected = self.injected();
        let any = |kinds: &[Kind]| injected.iter().any(|one| kinds.contains(&one.fault.kind));
        let damaged = self.ledger().damaged
            || any(&WRONG_READS)
            || any(&[Kind::LostWrite, Kind::MisdirectedWrite, Kind::SpoiledSync]);
        let (explained, next) = match error {
            Error::Io { .. } => {
                let failing = injected.iter().any(|one| one.fault.kind != Kind::Stall);
                (failing || damaged, Next::GoOn)
            }
            Error::NotALog { .. } | Error::Unsupported { .. } => {
                let is_unborn = !self.ledger().is_born && !injected.is_empty();
                (damaged || is_unborn, Next::GoOn)
            }
            Error::Unconfirmed { .. } => (damaged || self.has_failed_sync(), Next::GoOn),
            Error::DiskFull { .. } => {
                (any(&[Kind::Full, Kind::FullCopying, Kind::WriteError]), Next::GoOn)
            }
            Error::Poisoned { .. } => (damaged || !self.should_go_on(), Next::Stop),
            // Parity may restore some of the blocks that the device refuses.
            Error::Damaged { damage, .. } if damage.cause == Corruption::Unreadable => {
                (damaged || any(&[Kind::ReadError, Kind::LastingError]), Next::GoOn)
            }
            Error::Damaged { .. } => (damaged, Next::GoOn),
            // A prune or truncation may have removed the reader's position.
            Error::Pruned { .. } => (self.ledger().may_begin_later(), Next::GoOn),
            Error::Rewound { .. } => (self.ledger().cuts() > 0, Next::GoOn),
            _ => (false, Next::Stop),
        };
        if !explained {
            self.find(format!("{what}: {error:#}, with nothing wrong but {injected:?}"));
        }
        next
    }

    /// Whether a reader in another process finds a valid `live`.
    pub(crate) fn has_word(&self) -> bool {
        word(self.disk.device()).is_some()
    }

    /// Returns the number of failed writes of `live`. Each may have left no valid `live` for a
    /// while.
    pub(crate) fn lost_words(&self) -> usize {
        let injected = self.injected();
        let of_word = injected.iter().filter(|one| one.file == "live");
        let failing = [Kind::WriteError, Kind::LastingError];
        of_word.filter(|one| failing.contains(&one.fault.kind)).count()
    }

    /// Whether a sync of this life failed.
    pub(crate) fn has_failed_sync(&self) -> bool {
        let failed = [Kind::FailedSync, Kind::SpoiledSync];
        self.injected().iter().any(|one| failed.contains(&one.fault.kind))
    }

    /// Whether a fault in this life damaged stored bytes or what a read returned.
    pub(crate) fn is_lied_to(&self) -> bool {
        self.injected().iter().any(|one| one.fault.kind.is_damage())
    }

    /// Returns the file and kind of each read in this life that returned other bytes than the
    /// stored ones.
    pub(crate) fn misread(&self) -> Vec<(String, Kind)> {
        let wrong = self.injected().into_iter().filter(|one| WRONG_READS.contains(&one.fault.kind));
        wrong.map(|one| (one.file, one.fault.kind)).collect()
    }

    /// Returns the number of wrong reads in this life.
    pub(crate) fn wrong_reads(&self) -> usize {
        self.misread().len()
    }

    /// Whether a read in this life returned the bytes of another place.
    pub(crate) fn reads_astray(&self) -> bool {
        self.injected().iter().any(|one| one.fault.kind == Kind::MisdirectedRead)
    }

    /// Whether the only fault is a failed sync or write of a file with records, or a full disk
    /// without a truncation: the log survives that.
    fn should_go_on(&self) -> bool {
        let injected = self.injected();
        let [one] = injected.as_slice() else {
            return injected.iter().all(|one| one.fault.kind == Kind::Stall);
        };
        if one.fault.kind == Kind::Full {
            return !self.ledger().is_cutting();
        }
        let of_records = [".seg", ".head", ".jsonl", ".tmp"].iter().any(|e| one.file.ends_with(e));
        of_records && matches!(one.fault.kind, Kind::FailedSync | Kind::WriteError)
    }
}

/// Whether the fault concerns a parity file only.
pub(crate) fn is_beside(one: &Injected) -> bool {
    is_parity(&one.file) && !reaches_others(one.fault.kind)
}

/// Whether the fault can concern several files: a full disk does, and a misdirected write may have
/// gone anywhere.
pub(crate) fn reaches_others(kind: Kind) -> bool {
    matches!(kind, Kind::Full | Kind::FullCopying | Kind::MisdirectedWrite)
}

/// Whether a file of this name holds parity.
pub(crate) fn is_parity(name: &str) -> bool {
    SegmentId::from_parity_name(name).is_some()
}

/// Faults in which a read returns the bytes of another place, or bytes that are stored nowhere.
pub(crate) const WRONG_READS: [Kind; 2] = [Kind::MisdirectedRead, Kind::FlippedRead];

/// Returns a device for one life. With each call, time passes and other tasks run.
pub(crate) fn disk(device: MemStorage) -> FaultDisk {
    let block = usize::try_from(BLOCK).expect("a small number");
    FaultDisk::paced(device, block, |stall| {
        time::advance(CALL + stall);
        scheduler::switch();
    })
}

/// Duration of a call of the device.
const CALL: Duration = Duration::from_micros(10);

/// Returns the content of `live`, if a writer of this boot wrote it.
pub(crate) fn word(device: &MemStorage) -> Option<Live> {
    let found = device.bytes("live").and_then(|bytes| Live::decode(&bytes));
    found.filter(|live| Some(live.boot_id) == device.boot_id())
}

pub(crate) fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("it fits in memory")
}

pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}
