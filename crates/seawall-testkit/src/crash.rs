//! Exhaustive crash testing: crashes a workload at each step, chooses which unsynced writes reach
//! the disk, and crashes the recovery too.

use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use crate::mem_storage::MemStorage;
use seawall_io::Storage;

use crate::dice::Dice;

/// Tries every crash of a workload, with the limits of [`CrashTest::new`].
///
/// `workload` runs on a storage that may crash at any call. It records in its witness which states
/// are allowed: *after* a call returns, what must be stored from then on; before a call, what may
/// be stored. `recover` opens the storage after a crash and returns the restored state. `check`
/// compares the two. Errors of a crashed workload are expected; a panic counts as a failure.
///
/// At each step of the workload, two kinds of crash are tried: the process is killed (its writes
/// stay in the page cache), or the power is cut (any subset of the unsynced writes may be lost).
/// Each resulting state is recovered and checked. For some of the states the recovery itself is
/// crashed at each of its steps, and a second recovery is checked against the same witness.
///
/// # Errors
///
/// [`Failure`]: the first crash that was not survived. Its text can be parsed and replayed.
///
/// # Examples
///
/// A counter in a log, with every crash tried:
///
/// ```
/// use seawall::{Log, Lsn, Options, Result};
/// use seawall_io::Storage;
/// use seawall_testkit::crash_test;
/// use std::sync::Arc;
///
/// fn open(disk: Arc<dyn Storage>) -> Result<Log<u32>> {
///     // Without background threads, so that all runs take the same steps.
///     Options::new().preallocate(false).idle_mark(None).open_in(disk)
/// }
///
/// let tried = crash_test(
///     |disk, promised: &mut u32| {
///         let log = open(disk)?;
///         for number in 1..=3 {
///             log.append(&number)?;
///             *promised = number;
///         }
///         log.close()
///     },
///     |disk| open(disk)?.read_from(Lsn::FIRST)?.map(|entry| Ok(entry?.1)).collect(),
///     |promised, found: &Vec<u32>| match found.iter().copied().eq(1..=found.len() as u32) {
///         true if found.len() as u32 >= *promised => Ok(()),
///         _ => Err(format!("{promised} was acknowledged, but found {found:?}")),
///     },
/// )
/// .unwrap();
/// assert!(tried.states > 50);
/// ```
pub fn crash_test<W, S, E>(
    workload: impl Fn(Arc<dyn Storage>, &mut W) -> Result<(), E>,
    recover: impl Fn(Arc<dyn Storage>) -> Result<S, E>,
    check: impl Fn(&W, &S) -> Result<(), String>,
) -> Result<Tried, Failure>
where
    W: Default,
    E: Debug,
{
    CrashTest::new().run(workload, recover, check)
}

/// The limits of a [`crash_test`].
#[derive(Clone, Copy, Debug)]
pub struct CrashTest {
    cuts_max: u64,
    second_one_in: u64,
    second_cuts_max: u64,
    seed: u64,
}

/// The number of crashes tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Steps of the workload.
    pub steps: u64,
    /// States after one crash that were recovered and checked.
    pub states: u64,
    /// States after a second crash, during the recovery, that were recovered and checked.
    pub second: u64,
}

/// A crash that was not survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The crash; `None` if the workload or its check failed without one.
    pub case: Option<Case>,
    /// The reason.
    pub why: String,
}

/// One crash or two. The text form, such as `17 cut 2b` or `17 cut 2b, 4 killed`, can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The crash of the workload.
    pub first: Crash,
    /// The crash of the recovery.
    pub second: Option<Crash>,
}

/// A crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The crash occurs after this number of changing calls to the device.
    pub step: u64,
    /// The unsynced changes that survive.
    pub left: Left,
}

/// The unsynced changes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All of them: the process was killed and the machine kept running.
    Killed,
    /// The power was cut, and the pending items whose bits are set reached the disk. Beyond 64
    /// items, the bits repeat.
    Cut(u64),
}

impl Default for CrashTest {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashTest {
    /// Tries all choices at each step if there are fewer than 32, otherwise 32 of them. One state
    /// in 32 gets a second crash, with 2 choices at each step of the recovery.
    #[must_use]
    pub fn new() -> Self {
        Self { cuts_max: 32, second_one_in: 32, second_cuts_max: 2, seed: 1 }
    }

    /// Sets the maximum number of choices tried for a power cut at each step.
    #[must_use]
    pub fn cuts_max(mut self, count: u64) -> Self {
        self.cuts_max = count;
        self
    }

    /// Crashes the recovery of one state in `one_in`, with at most `cuts_max` choices at each of
    /// its steps; 0 for never.
    #[must_use]
    pub fn second(mut self, one_in: u64, cuts_max: u64) -> Self {
        (self.second_one_in, self.second_cuts_max) = (one_in, cuts_max);
        self
    }

    /// Sets the seed that selects the choices if there are too many.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs [`crash_test`] with these limits.
    ///
    /// # Errors
    ///
    /// As [`crash_test`].
    pub fn run<W, S, E>(
        self,
        workload: impl Fn(Arc<dyn Storage>, &mut W) -> Result<(), E>,
        recover: impl Fn(Arc<dyn Storage>) -> Result<S, E>,
        check: impl Fn(&W, &S) -> Result<(), String>,
    ) -> Result<Tried, Failure>
    where
        W: Default,
        E: Debug,
    {
        let mut tried = Tried::default();
        let (device, witness, outcome) = work(&workload, u64::MAX);
        let outcome = outcome.into_result();
        outcome.map_err(|why| Failure { case: None, why: format!("without a crash: {why}") })?;
        let look = |device: &MemStorage, witness: &W| judge(device, witness, (&recover, &check));
        look(&device.kill(), &witness).map_err(|why| Failure { case: None, why })?;
        tried.steps = device.steps();
        let mut dice = Dice::new(self.seed);
        for step in 0..=tried.steps {
            let (device, witness, outcome) = work(&workload, step);
            let crashed = outcome.expect_no_panic(WORKLOAD);
            for (left, state) in lefts(&device, self.cuts_max, dice.any()) {
                let first = Crash { step, left };
                let fail = |why| Failure { case: Some(Case { first, second: None }), why };
                crashed.clone().and_then(|()| look(&state.kill(), &witness)).map_err(fail)?;
                tried.states += 1;
                if self.second_one_in > 0 && dice.one_in(self.second_one_in) {
                    let max = (self.second_cuts_max, dice.any());
                    tried.second += second((&state, first), max, &recover, &|s| look(s, &witness))?;
                }
            }
        }
        Ok(tried)
    }

    /// Tries one crash again, for a debugger or a regression test.
    ///
    /// # Errors
    ///
    /// As [`crash_test`].
    pub fn replay<W, S, E>(
        case: Case,
        workload: impl Fn(Arc<dyn Storage>, &mut W) -> Result<(), E>,
        recover: impl Fn(Arc<dyn Storage>) -> Result<S, E>,
        check: impl Fn(&W, &S) -> Result<(), String>,
    ) -> Result<(), Failure>
    where
        W: Default,
        E: Debug,
    {
        let fail = |why| Failure { case: Some(case), why };
        let (device, witness, outcome) = work(&workload, case.first.step);
        outcome.expect_no_panic(WORKLOAD).map_err(fail)?;
        let mut state = case.first.left.of(&device);
        if let Some(second) = case.second {
            state.stop_after(second.step);
            let outcome = attempt(|| recover(Arc::new(state.clone())));
            outcome.expect_no_panic(RECOVERY).map_err(fail)?;
            state = second.left.of(&state);
        }
        judge(&state, &witness, (&recover, &check)).map_err(fail)
    }
}

/// Runs a workload that crashes after step `stop`. Returns the device, the witness and the result.
fn work<W: Default, E: Debug>(
    workload: &impl Fn(Arc<dyn Storage>, &mut W) -> Result<(), E>,
    stop: u64,
) -> (MemStorage, W, Outcome<()>) {
    let device = MemStorage::new();
    device.stop_after(stop);
    let mut witness = W::default();
    let outcome = attempt(|| workload(Arc::new(device.clone()), &mut witness));
    (device, witness, outcome)
}

/// The names of the two parts, for the text of a failure.
const WORKLOAD: &str = "workload";
const RECOVERY: &str = "recovery";

/// The end of a workload or a recovery.
enum Outcome<T> {
    Done(T),
    Error(String),
    Panic(String),
}

impl<T> Outcome<T> {
    /// Converts an error or a panic to its text.
    fn into_result(self) -> Result<T, String> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Error(why) => Err(why),
            Self::Panic(text) => Err(format!("a panic: {text}")),
        }
    }

    /// Accepts an error, which a crash may cause, but no panic.
    fn expect_no_panic(self, part: &str) -> Result<(), String> {
        match self {
            Self::Done(_) | Self::Error(_) => Ok(()),
            Self::Panic(text) => Err(format!("the crashed {part} failed: a panic: {text}")),
        }
    }
}

/// Runs `act` and catches a panic.
fn attempt<T, E: Debug>(act: impl FnOnce() -> Result<T, E>) -> Outcome<T> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(done)) => Outcome::Done(done),
        Ok(Err(error)) => Outcome::Error(format!("{error:?}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Outcome::Panic(text.unwrap_or_default())
        }
    }
}

fn judge<W, S, E: Debug>(
    device: &MemStorage,
    witness: &W,
    (recover, check): (
        &impl Fn(Arc<dyn Storage>) -> Result<S, E>,
        &impl Fn(&W, &S) -> Result<(), String>,
    ),
) -> Result<(), String> {
    let found = attempt(|| recover(Arc::new(device.clone()))).into_result();
    let found = found.map_err(|why| format!("the recovery failed: {why}"))?;
    attempt(|| Ok::<_, String>(check(witness, &found))).into_result()?
}

/// Recovers `state`, crashes that recovery at every step, and recovers again.
fn second<S, E: Debug>(
    (state, first): (&MemStorage, Crash),
    (cuts_max, seed): (u64, u64),
    recover: &impl Fn(Arc<dyn Storage>) -> Result<S, E>,
    look: &dyn Fn(&MemStorage) -> Result<(), String>,
) -> Result<u64, Failure> {
    // A recovery of this state has just succeeded.
    let whole = state.kill();
    let _ = attempt(|| recover(Arc::new(whole.clone())));
    let mut states = 0;
    for step in 0..whole.steps() {
        let again = state.kill();
        again.stop_after(step);
        let crashed = attempt(|| recover(Arc::new(again.clone()))).expect_no_panic(RECOVERY);
        for (left, after) in lefts(&again, cuts_max, seed ^ step) {
            let second = Some(Crash { step, left });
            let fail = |why| Failure { case: Some(Case { first, second }), why };
            crashed.clone().and_then(|()| look(&after)).map_err(fail)?;
            states += 1;
        }
    }
    Ok(states)
}

/// Returns the states that a crash now may leave: the state after a kill, and the states after a
/// power cut for up to `max` choices of the pending items.
fn lefts(device: &MemStorage, max: u64, seed: u64) -> Vec<(Left, MemStorage)> {
    let cuts = cuts(device.pending().len(), max, seed).into_iter().map(Left::Cut);
    [Left::Killed].into_iter().chain(cuts).map(|left| (left, left.of(device))).collect()
}

/// Returns all choices of `count` items as bits, or `max` of them: none, all, and random ones.
#[must_use]
pub fn cuts(count: usize, max: u64, seed: u64) -> Vec<u64> {
    let all = if count < 64 { (1_u64 << count) - 1 } else { u64::MAX };
    if all < max {
        return (0..=all).collect();
    }
    let mut dice = Dice::new(seed);
    let lot = std::iter::repeat_with(|| dice.any() & all);
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    [0, all].into_iter().chain(lot).take(max).collect()
}

impl Left {
    /// Returns the device after this crash.
    #[must_use]
    pub fn of(self, device: &MemStorage) -> MemStorage {
        match self {
            Self::Killed => device.kill(),
            Self::Cut(kept) => {
                let mut turn = 0;
                device.power_cut(|_| {
                    turn += 1;
                    kept >> ((turn - 1) % 64) & 1 == 1
                })
            }
        }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left {
            Left::Killed => write!(f, "{} killed", self.step),
            Left::Cut(kept) => write!(f, "{} cut {kept:x}", self.step),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        self.second.map_or(Ok(()), |second| write!(f, ", {second}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.case {
            Some(case) => write!(f, "after the crash `{case}`: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for Failure {}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut crashes = text.split(',').map(str::parse);
        let first = crashes.next().ok_or("no crash")??;
        Ok(Self { first, second: crashes.next().transpose()? })
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |text: &str| text.parse().map_err(|why| format!("{text}: {why}"));
        match words.as_slice() {
            [step, "killed"] => Ok(Self { step: number(step)?, left: Left::Killed }),
            [step, "cut", kept] => {
                let kept = u64::from_str_radix(kept, 16).map_err(|why| format!("{kept}: {why}"))?;
                Ok(Self { step: number(step)?, left: Left::Cut(kept) })
            }
            _ => Err(format!("not a crash: {text}")),
        }
    }
}
