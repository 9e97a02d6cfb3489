//! Counts the calls of a fault disk and decides which of them fail, and how.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dice::Dice;
use crate::fault::{Act, Fault, Injected, Kind};
use crate::mem_storage::MemStorage;
use crate::mem_storage::pending::{CrashOutcome, Pending, What};

/// The state shared by all handles and files of a disk.
pub(crate) struct Injector {
    device: MemStorage,
    /// The size of the blocks that a spoiled sync corrupts, in bytes.
    block: usize,
    pace: Option<Pace>,
    state: Mutex<State>,
    /// Held while a failing sync is prepared and performed.
    syncing: Mutex<()>,
}

/// A function that runs before each call of the device and receives the time that the call takes.
pub(crate) type Pace = Box<dyn Fn(Duration) + Send + Sync>;

#[derive(Default)]
struct State {
    steps: u64,
    trace: u64,
    stop: Option<u64>,
    planned: BTreeMap<u64, Vec<Planned>>,
    chance: Option<Chance>,
    injected: Vec<Injected>,
    /// Files that fail permanently.
    broken: BTreeSet<String>,
    full_until: u64,
    /// The step until which overwrites need space too.
    copies_until: u64,
}

/// A fault, and the files that it is limited to; `None` for all.
struct Planned {
    fault: Fault,
    files: Option<fn(&str) -> bool>,
}

struct Chance {
    dice: Dice,
    one_in: u64,
    kinds: Vec<Kind>,
}

/// A call to the device.
pub(crate) struct Call<'a> {
    pub(crate) act: Act,
    pub(crate) file: &'a str,
    /// Distinguishes calls of the same kind: an offset, a length, a sum of bytes.
    pub(crate) numbers: [u64; 2],
}

/// The longest time that a call stalls, in microseconds.
const STALL_US_MAX: u64 = 10_000_000;

impl Injector {
    /// Injects faults into calls of `device`, which writes `block` bytes as a unit.
    pub(crate) fn new(device: MemStorage, block: usize, pace: Option<Pace>) -> Self {
        Self { device, block, pace, state: Mutex::default(), syncing: Mutex::default() }
    }

    /// Plans `fault` for the first suitable call, at or after `step`, of a file that `files`
    /// accepts.
    pub(crate) fn plan(&self, step: u64, fault: Fault, files: Option<fn(&str) -> bool>) {
        self.state().planned.entry(step).or_default().push(Planned { fault, files });
    }

    /// Makes one call in `one_in` fail in one of the ways `kinds`, drawn by `dice`.
    pub(crate) fn draw(&self, dice: Dice, one_in: u64, kinds: &[Kind]) {
        self.state().chance = Some(Chance { dice, one_in, kinds: kinds.to_vec() });
    }

    /// Makes every call after step `steps` fail.
    pub(crate) fn stop_after(&self, steps: u64) {
        self.state().stop = Some(steps);
    }

    pub(crate) fn steps(&self) -> u64 {
        self.state().steps
    }

    pub(crate) fn trace(&self) -> u64 {
        self.state().trace
    }

    pub(crate) fn injected(&self) -> Vec<Injected> {
        self.state().injected.clone()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().is_stopped()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and returns its fault.
    pub(crate) fn begin(&self, call: &Call<'_>) -> io::Result<Option<Fault>> {
        let mut state = self.state();
        if state.is_stopped() {
            return Err(io::Error::other("the power is off"));
        }
        state.steps += 1;
        state.note(call);
        let fault = state.due(call);
        if let Some(fault) = fault {
            state.inject(fault, call.file);
        }
        let broken = matches!(call.act, Act::Read | Act::Write) && state.broken.contains(call.file);
        drop(state);
        if let Some(pace) = &self.pace {
            pace(match fault {
                Some(Fault { kind: Kind::Stall, seed }) => {
                    Duration::from_micros(Dice::new(seed).below(STALL_US_MAX))
                }
                _ => Duration::ZERO,
            });
        }
        if broken { Err(refused()) } else { Ok(fault) }
    }

    /// Records the result of a call.
    pub(crate) fn end(&self, succeeded: bool) {
        self.state().add(u64::from(succeeded) + 1);
    }

    /// Returns whether files cannot grow now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.steps < state.full_until.max(state.copies_until)
    }

    /// Returns whether overwrites fail now because they need space too.
    pub(crate) fn is_full_for_overwrites(&self) -> bool {
        let state = self.state();
        state.steps < state.copies_until
    }

    /// Performs `sync` with this fault.
    pub(crate) fn sync_with<T>(
        &self,
        fault: Fault,
        prefix: &str,
        sync: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let _guard = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let dice = Dice::new(fault.seed);
        match fault.kind {
            Kind::FailedSync => self.device.fail_sync(0, by_lot(dice)),
            Kind::SpoiledSync => self.device.spoil_sync(0, self.block),
            Kind::LostWrite => self.device.lie_at_sync(0, by_lot(dice)),
            Kind::MisdirectedWrite => self.device.lie_at_sync(0, self.one_astray(dice, prefix)),
            _ => {}
        }
        sync()
    }

    /// Returns a function that writes one sector to the position of another, and all others
    /// correctly.
    fn one_astray(
        &self,
        mut dice: Dice,
        file: &str,
    ) -> impl FnMut(&Pending) -> CrashOutcome + Send + use<> {
        let names = self.device.names();
        let mut left = Some(dice.below(4));
        let target = if dice.one_in(3) { dice.pick(&names).cloned() } else { None };
        let file = target.unwrap_or_else(|| file.to_owned());
        let sector = dice.below(24);
        move |item| {
            let is_sector = matches!(item.what, What::Sector(_));
            match left {
                Some(0) if is_sector => {
                    left = None;
                    CrashOutcome::Astray { file: file.clone(), sector }
                }
                Some(count) if is_sector => {
                    left = Some(count - 1);
                    CrashOutcome::Whole
                }
                _ => CrashOutcome::Whole,
            }
        }
    }
}

/// Returns a function that loses items at random, sometimes all of them.
fn by_lot(mut dice: Dice) -> impl FnMut(&Pending) -> bool + Send {
    let all_lost = dice.one_in(3);
    move |_| !all_lost && dice.one_in(2)
}

impl State {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| self.steps >= stop)
    }

    fn due(&mut self, call: &Call<'_>) -> Option<Fault> {
        let (steps, act) = (self.steps, call.act);
        let mut planned = self.planned.range_mut(..=steps).filter_map(|(step, faults)| {
            let suits = |planned: &Planned| {
                planned.fault.kind.applies_to(act)
                    && planned.files.is_none_or(|files| files(call.file))
            };
            let place = faults.iter().position(suits)?;
            Some((*step, faults.remove(place).fault))
        });
        if let Some((step, fault)) = planned.next() {
            if self.planned.get(&step).is_some_and(Vec::is_empty) {
                self.planned.remove(&step);
            }
            return Some(fault);
        }
        let chance = self.chance.as_mut()?;
        if !chance.dice.one_in(chance.one_in) {
            return None;
        }
        let suits = |kind: &&Kind| kind.applies_to(act);
        let kinds: Vec<Kind> = chance.kinds.iter().filter(suits).copied().collect();
        let kind = *chance.dice.pick(&kinds)?;
        Some(Fault { kind, seed: chance.dice.any() & 0xFFFF })
    }

    fn inject(&mut self, fault: Fault, file: &str) {
        match fault.kind {
            Kind::LastingError => drop(self.broken.insert(file.to_owned())),
            Kind::Full => self.full_until = self.steps + 1 + Dice::new(fault.seed).below(40),
            Kind::FullCopying => {
                self.copies_until = self.steps + 1 + Dice::new(fault.seed).below(40);
            }
            _ => {}
        }
        self.injected.push(Injected { step: self.steps, fault, file: file.to_owned() });
    }

    fn note(&mut self, call: &Call<'_>) {
        self.add(call.act.number());
        call.numbers.into_iter().for_each(|number| self.add(number));
        self.add(sum(call.file.as_bytes()));
    }

    fn add(&mut self, number: u64) {
        self.trace = step_of_sum(self.trace, number);
    }
}

/// A checksum of bytes, for traces.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(target, byte)| *target = *byte);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).fold(0, step_of_sum)
}

fn step_of_sum(sum: u64, number: u64) -> u64 {
    (sum.rotate_left(5) ^ number).wrapping_mul(0x517C_C1B7_2722_0A95)
}

/// The error of a failing device.
pub(crate) fn refused() -> io::Error {
    io::Error::other("injected device failure")
}

/// The error of a full device.
pub(crate) fn no_room() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl Debug for Injector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injector").finish_non_exhaustive()
    }
}
