//! Every crash of a workload: at each step, with choices of what had reached the disk, and a second
//! crash inside the recovery.

use std::fmt::{self, Debug};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use crate::mem_storage::MemStorage;
use seawall_io::Storage;

use crate::dice::Dice;

/// Tries every crash of a workload, with the bounds of [`CrashTest::new`].
///
/// `workload` works on a storage that may die at any call, and notes in its witness what it was
/// promised: *after* a call returned, what must be there from now on; before a call, what may be.
/// `recover` opens what a crash left, and returns the state that it brings back. `check` compares
/// the two. Errors of a workload that dies are expected; a panic is a failure like any other.
///
/// For every step of the workload the process is killed there (what it wrote stays in the cache),
/// and the power is cut there (of what was not synced any choice may be there); each state that
/// is left is recovered and checked. For a share of them the recovery dies, too, at every step of
/// its own, and a second one follows, which is checked against the same witness.
///
/// # Errors
///
/// [`Failure`]: the first crash that is not survived. Its text can be replayed.
///
/// # Examples
///
/// A counter that is kept in a log, with every crash tried:
///
/// ```
/// use seawall::{Log, Lsn, Options, Result};
/// use seawall_io::Storage;
/// use seawall_testkit::crash_test;
/// use std::sync::Arc;
///
/// fn open(disk: Arc<dyn Storage>) -> Result<Log<u32>> {
///     // No threads of its own, so that each run takes the same steps.
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
///         _ => Err(format!("{promised} was promised, and there are {found:?}")),
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

/// The bounds of a [`crash_test`].
#[derive(Clone, Copy, Debug)]
pub struct CrashTest {
    cuts_max: u64,
    second_one_in: u64,
    second_cuts_max: u64,
    seed: u64,
}

/// How much was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Steps of the workload.
    pub steps: u64,
    /// States after one crash, recovered and checked.
    pub states: u64,
    /// States after a second crash, inside a recovery.
    pub second: u64,
}

/// A crash that was not survived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which one; `None` if the workload or its check fails without any.
    pub case: Option<Case>,
    /// What is wrong.
    pub why: String,
}

/// One crash, or two; written as `17 cut 2b` or `17 cut 2b, 4 killed`, and read back from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// In the workload.
    pub first: Crash,
    /// In the recovery from it.
    pub second: Option<Crash>,
}

/// A crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// After so many changing calls of the device.
    pub step: u64,
    /// What it leaves.
    pub left: Left,
}

/// What a crash leaves of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// All of it: the process was killed, and the machine went on.
    Killed,
    /// The power was cut, and those pending items landed whose bit is set; where there are more
    /// than 64, the bits are used again from the first.
    Cut(u64),
}

impl Default for CrashTest {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashTest {
    /// All choices at each step if they are fewer than 32, else 32 of them; for one state in 32 a
    /// second crash, with 2 choices at each step of the recovery.
    #[must_use]
    pub fn new() -> Self {
        Self { cuts_max: 32, second_one_in: 32, second_cuts_max: 2, seed: 1 }
    }

    /// How many choices of what a power cut leaves are tried at each step.
    #[must_use]
    pub fn cuts_max(mut self, count: u64) -> Self {
        self.cuts_max = count;
        self
    }

    /// One in how many states is recovered with a second crash, and how many choices of what that
    /// leaves are tried at each of its steps; 0 for none.
    #[must_use]
    pub fn second(mut self, one_in: u64, cuts_max: u64) -> Self {
        (self.second_one_in, self.second_cuts_max) = (one_in, cuts_max);
        self
    }

    /// Which choices are tried where there are too many follows from this.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// As [`crash_test`], within these bounds.
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
        outcome.map_err(|why| Failure { case: None, why: format!("without a crash: {why}") })?;
        let look = |device: &MemStorage, witness: &W| judge(device, witness, (&recover, &check));
        look(&device.kill(), &witness).map_err(|why| Failure { case: None, why })?;
        tried.steps = device.steps();
        let mut dice = Dice::new(self.seed);
        for step in 0..=tried.steps {
            let (device, witness, _) = work(&workload, step);
            for (left, state) in lefts(&device, self.cuts_max, dice.any()) {
                let first = Crash { step, left };
                let fail = |why| Failure { case: Some(Case { first, second: None }), why };
                look(&state.kill(), &witness).map_err(fail)?;
                tried.states += 1;
                if self.second_one_in > 0 && dice.one_in(self.second_one_in) {
                    let max = (self.second_cuts_max, dice.any());
                    tried.second += second((&state, first), max, &recover, &|s| look(s, &witness))?;
                }
            }
        }
        Ok(tried)
    }

    /// Tries this one case again, as [`crash_test`] did: for a debugger, or a test of its own.
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
        let (device, witness, _) = work(&workload, case.first.step);
        let mut state = case.first.left.of(&device);
        if let Some(second) = case.second {
            state.stop_after(second.step);
            let _ = attempt(|| recover(Arc::new(state.clone())));
            state = second.left.of(&state);
        }
        let judged = judge(&state, &witness, (&recover, &check));
        judged.map_err(|why| Failure { case: Some(case), why })
    }
}

/// A workload that dies after step `stop`: the device, what it noted, and how it ended.
fn work<W: Default, E: Debug>(
    workload: &impl Fn(Arc<dyn Storage>, &mut W) -> Result<(), E>,
    stop: u64,
) -> (MemStorage, W, Result<(), String>) {
    let device = MemStorage::new();
    device.stop_after(stop);
    let mut witness = W::default();
    let outcome = attempt(|| workload(Arc::new(device.clone()), &mut witness));
    (device, witness, outcome)
}

/// A panic is an error like any other.
fn attempt<T, E: Debug>(act: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(done) => done.map_err(|error| format!("{error:?}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
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
    let found = attempt(|| recover(Arc::new(device.clone())));
    let found = found.map_err(|why| format!("the recovery fails: {why}"))?;
    match attempt(|| Ok::<_, String>(check(witness, &found))) {
        Ok(judged) => judged,
        Err(why) => Err(why),
    }
}

/// Recovers `state`, dies at every step of that, and recovers again.
fn second<S, E: Debug>(
    (state, first): (&MemStorage, Crash),
    (cuts_max, seed): (u64, u64),
    recover: &impl Fn(Arc<dyn Storage>) -> Result<S, E>,
    look: &dyn Fn(&MemStorage) -> Result<(), String>,
) -> Result<u64, Failure> {
    let whole = state.kill();
    let _ = attempt(|| recover(Arc::new(whole.clone())));
    let mut states = 0;
    for step in 0..whole.steps() {
        let again = state.kill();
        again.stop_after(step);
        let _ = attempt(|| recover(Arc::new(again.clone())));
        for (left, after) in lefts(&again, cuts_max, seed ^ step) {
            let second = Some(Crash { step, left });
            look(&after).map_err(|why| Failure { case: Some(Case { first, second }), why })?;
            states += 1;
        }
    }
    Ok(states)
}

/// What a crash now may leave: killed, and `max` choices of what was pending, or all of them.
fn lefts(device: &MemStorage, max: u64, seed: u64) -> Vec<(Left, MemStorage)> {
    let cuts = cuts(device.pending().len(), max, seed).into_iter().map(Left::Cut);
    [Left::Killed].into_iter().chain(cuts).map(|left| (left, left.of(device))).collect()
}

/// All choices of `count` items as bits, or `max` of them: none, all, and others by lot.
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
    /// The device after such a crash.
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
            _ => Err(format!("{text} is no crash")),
        }
    }
}
