//! A replay, from what it is told to what it did.

use crate::apply::batch_size::{BatchSize, Bounds};
use crate::apply::fold::Tools;
use crate::apply::partitions::{Ran, Run};
use crate::apply::standing::{LANES_MAX, Standing};
use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::progress::{Phase, Progress};
use crate::source::{Decoded, Source};
use crate::store::watermark::Watermark;
use crate::store::{Batch, Store};
use crate::transactions::plan::{Floor, Plan, Planner, Unfinished};
use crate::transactions::spill::Folder;
use crate::transactions::transaction_assembler::{Transaction, TransactionAssembler};
use seawall::Lsn;
use seawall::format::LogId;
use seawall_io::{Clock, SystemClock};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Memory for transactions that are open, unless told otherwise.
const MEMORY: usize = 256 << 20;
/// What an open transaction takes in the table of the first pass, about.
const OPEN_SIZE: usize = 64;
/// How often progress is told of while planning, in records.
const TELL: u64 = 4096;

/// Replays a log into a store; see the [crate](crate)'s example.
///
/// Memory: what [`memory`](Replay::memory) says for changes of transactions that are under way,
/// beyond which they are put away in a scratch file; batches of [`Bounds::bytes_max`], three for
/// each lane and two that are given up; one bit for each record of the range; about 100 bytes for
/// each transaction that is open at the same time; and never less than the largest transaction.
#[derive(Clone, Debug)]
pub struct Replay {
    from: Option<Lsn>,
    until: Option<Lsn>,
    adopts: bool,
    lanes: u32,
    bounds: Bounds,
    memory: usize,
    folder: Folder,
    operators: Operators,
    clock: Arc<dyn Clock>,
}

/// What a replay did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The first record that was read.
    pub from: Lsn,
    /// The last record that was read.
    pub last: Option<Lsn>,
    /// Records that were read, in the first pass.
    pub records: u64,
    /// Transactions that were committed there.
    pub committed: u64,
    /// Of those, how many this replay applied; the store had the others.
    pub applied: u64,
    /// Transactions that were aborted.
    pub aborted: u64,
    /// Transactions that began and have not ended.
    pub unfinished: u64,
    /// The oldest of them.
    pub oldest_unfinished: Option<Unfinished>,
    /// Changes that were applied.
    pub changes: u64,
    /// What became of them: writes to the store, one for each key of a batch.
    pub writes: u64,
    /// Batches they came in.
    pub batches: u64,
    /// The size of the last batches, in changes.
    pub batch_changes: usize,
    /// The last commit that the store has now, durably.
    pub applied_lsn: Option<Lsn>,
    /// The first record that the log must keep for the store: those before may be given up. The
    /// last commit is one of those that must stay, as it shows that the store belongs to the log.
    pub needed_from: Lsn,
    /// Lanes that keys were dealt out to.
    pub lanes: u32,
    /// How long the first pass took.
    pub planning: Duration,
    /// How long the second pass took, the flush included.
    pub applying: Duration,
}

impl Replay {
    /// All of the log, in one lane, in batches of a size that follows what they cost.
    #[must_use]
    pub fn new() -> Self {
        Self {
            from: None,
            until: None,
            adopts: false,
            lanes: 1,
            bounds: Bounds::default(),
            memory: MEMORY,
            folder: Folder(std::env::temp_dir()),
            operators: Operators::new(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Reads a new store's log from `lsn` on, and not from its beginning: the store was loaded
    /// with what came before. A store that knows how far it is goes on from there.
    #[must_use]
    pub fn from(mut self, lsn: Lsn) -> Self {
        self.from = Some(lsn);
        self
    }

    /// Applies what was committed up to `lsn`, and nothing behind it; but no less than the store
    /// has already.
    #[must_use]
    pub fn until(mut self, lsn: Lsn) -> Self {
        self.until = Some(lsn);
        self
    }

    /// Takes a store for one of this log where nothing proves it and nothing disproves it: an
    /// earlier version kept its watermarks, or the last commit that it has applied is not in the
    /// log any more. Without this that is [`Error::Unproven`]. A store of another log or of another
    /// history stays refused.
    ///
    /// The caller vouches that the store was brought back from this log, and that the log was not
    /// truncated before what the store has applied. Watermarks written from then on prove it.
    #[must_use]
    pub fn adopt(mut self) -> Self {
        self.adopts = true;
        self
    }

    /// Deals keys out to so many lanes, a thread each; no more than the
    /// [store gains by](Store::lanes_max). Between their batches one transaction may be there in
    /// part: nothing may read the store until the replay has ended well.
    #[must_use]
    pub fn lanes(mut self, lanes: u32) -> Self {
        self.lanes = lanes;
        self
    }

    /// The bounds of batches. With one size for both, that one.
    #[must_use]
    pub fn batches(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// So many bytes for the changes of transactions that are under way. [256 MiB]
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Where a file is made for what does not fit in memory. [the system's folder for such]
    #[must_use]
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Folder(folder.into());
        self
    }

    /// The merge operators of the log. [those of [`Operators::new`]]
    #[must_use]
    pub fn operators(mut self, operators: Operators) -> Self {
        self.operators = operators;
        self
    }

    /// Takes the time from this clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What a replay into `store` would do; changes nothing, and decodes every record.
    ///
    /// # Errors
    ///
    /// As [`run`](Replay::run), but for what the store says of what it is given.
    pub fn plan(&self, source: &dyn Source, store: &dyn Store) -> Result<Plan> {
        let (_, standing) = self.standing(source, Standing::of(store)?)?;
        self.planned(&Decoded(source), &standing, &mut |_| ())
    }

    /// Applies what was committed and is not in the store, and returns when that is durable there.
    ///
    /// # Errors
    ///
    /// The first one ends the replay, and names its record: see [`Error`]. What was applied until
    /// then stays applied; another run goes on behind it.
    pub fn run(&self, source: &dyn Source, store: &dyn Store) -> Result<Report> {
        self.run_with(source, store, |_| ())
    }

    /// The same, and `hear` is told now and then how far it has come.
    ///
    /// # Errors
    ///
    /// As [`run`](Replay::run).
    pub fn run_with(
        &self,
        source: &dyn Source,
        store: &dyn Store,
        mut hear: impl FnMut(Progress),
    ) -> Result<Report> {
        let wanted = self.lanes_for(store)?;
        let found = Standing::of(store)?;
        let (log, standing) = self.standing(source, found.clone())?;
        if standing != found {
            keep(store, &standing.lanes)?;
        }
        let began = self.clock.now();
        let plan = Arc::new(self.planned(source, &standing, &mut hear)?);
        let planned = self.clock.now();

        let mut told = |at, records| {
            hear(Progress { phase: Phase::Apply, at, last: plan.last, records });
        };
        let mut runs = Vec::new();
        let mut lanes = standing.lanes.clone();
        if lanes.len() != wanted {
            // Keys change their lane only where all lanes stand at the same commit.
            if standing.lowest() < standing.highest() {
                let until = standing.highest();
                let run = self.one((source, log), store, (lanes, until));
                runs.push(self.apply(&run, &plan, &mut told)?);
            }
            lanes = redealt((store, log), &Standing::of(store)?, (wanted, plan.from))?;
        }
        // What was not planned is not applied: it may have been logged since.
        if plan.last.is_some() {
            let run = self.one((source, log), store, (lanes, plan.last));
            runs.push(self.apply(&run, &plan, &mut told)?);
        }
        store.flush().map_err(Error::store("flush"))?;
        let now = Standing::of(store)?;
        let times = (planned.saturating_sub(began), self.clock.now().saturating_sub(planned));
        Ok(report(&plan, &runs, (&now, times)))
    }

    /// The committed transactions behind `applied`, for a program that applies them by itself.
    ///
    /// # Errors
    ///
    /// As [`plan`](Replay::plan), and so is each step of the iterator.
    pub fn transactions<'a>(
        &self,
        source: &'a dyn Source,
        applied: Option<Watermark>,
    ) -> Result<Transactions<'a>> {
        let standing = Standing { lanes: applied.into_iter().collect() };
        let (log, standing) = self.standing(source, standing)?;
        let plan = Arc::new(self.planned(source, &standing, &mut |_| ())?);
        let gather = TransactionAssembler::new(plan.clone(), self.memory, self.folder.clone());
        let operations = source.operations(plan.from)?;
        let began = standing.lanes.first().copied();
        Ok(Transactions { plan, gather, operations, log, began, read: None, has_ended: false })
    }

    /// Which log it is, and where the store is if that is one of this log.
    fn standing(&self, source: &dyn Source, standing: Standing) -> Result<(LogId, Standing)> {
        let log = source.log_id()?;
        Ok((log, standing.belonging_to(source, (log, self.adopts))?))
    }

    fn lanes_for(&self, store: &dyn Store) -> Result<usize> {
        if self.lanes == 0 || self.lanes > LANES_MAX {
            let why = format!("{} lanes: 1 to {LANES_MAX} can be", self.lanes);
            return Err(Error::InvalidOption { why });
        }
        let wanted = usize::try_from(self.lanes).unwrap_or(usize::MAX);
        Ok(wanted.min(store.lanes_max().max(1)))
    }

    fn planned(
        &self,
        source: &dyn Source,
        standing: &Standing,
        hear: &mut dyn FnMut(Progress),
    ) -> Result<Plan> {
        let (floor, until) = self.floor(source, standing)?;
        let open_max = self.memory / OPEN_SIZE;
        let mut planner = Planner::new(floor, open_max, self.folder.clone());
        for (records, entry) in (1..).zip(source.summaries(floor.from)?) {
            let (lsn, outline) = entry?;
            if until.is_some_and(|until| lsn > until) {
                break;
            }
            planner.see(lsn, outline)?;
            if records % TELL == 0 {
                hear(Progress { phase: Phase::Plan, at: lsn, last: until, records });
            }
            if until == Some(lsn) {
                // What lies behind is not looked at: it may be damaged.
                break;
            }
        }
        let plan = planner.finish()?;
        match standing.highest() {
            // The log may have been truncated since it was compared with the store.
            Some(applied) if plan.last < Some(applied) && plan.from <= applied => {
                Err(Error::Ahead { applied, last: plan.last })
            }
            _ => Ok(plan),
        }
    }

    /// Where to begin reading, and where to end.
    fn floor(&self, source: &dyn Source, standing: &Standing) -> Result<(Floor, Option<Lsn>)> {
        let oldest = source.oldest()?;
        let is_new = standing.lanes.is_empty();
        let needs = match self.from {
            Some(from) if is_new => from,
            _ => standing.restart(),
        };
        if needs < oldest {
            return Err(Error::Pruned { needs, oldest });
        }
        let highest = standing.highest();
        // The last one that is applied is read again, to see that it is there.
        let from = highest.map_or(needs, |highest| needs.min(highest).max(oldest));
        let until = self.until.map(|until| highest.map_or(until, |highest| until.max(highest)));
        Ok((Floor { from, applied: standing.lowest() }, until))
    }

    fn one<'a>(
        &'a self,
        (source, log): (&'a dyn Source, LogId),
        store: &'a dyn Store,
        (lanes, until): (Vec<Watermark>, Option<Lsn>),
    ) -> Run<'a> {
        let from = lanes.iter().map(|mark| mark.restart).min().unwrap_or(Lsn::FIRST);
        Run {
            source,
            log,
            tools: Tools { store, operators: &self.operators },
            clock: &*self.clock,
            size: BatchSize::new(self.bounds),
            lanes,
            from,
            until,
        }
    }

    fn apply(
        &self,
        run: &Run<'_>,
        plan: &Arc<Plan>,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Ran> {
        run.run(TransactionAssembler::new(plan.clone(), self.memory, self.folder.clone()), hear)
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes that keys are dealt out to as many lanes as `wanted` from here on; a new store begins at
/// `from`.
fn redealt(
    (store, log): (&dyn Store, LogId),
    standing: &Standing,
    (wanted, from): (usize, Lsn),
) -> Result<Vec<Watermark>> {
    let lanes = u32::try_from(wanted).unwrap_or(LANES_MAX);
    let mark = match standing.lanes.first() {
        Some(mark) => Watermark { lanes, ..*mark },
        None => Watermark { lanes, ..Watermark::new(log, None, from) },
    };
    let marks = vec![mark; wanted];
    keep(store, &marks)?;
    Ok(marks)
}

/// Writes the watermarks of all lanes, and nothing else.
fn keep(store: &dyn Store, lanes: &[Watermark]) -> Result<()> {
    let batch = Batch { writes: vec![], watermarks: (0..).zip(lanes.iter().copied()).collect() };
    store.write(&batch).map_err(Error::store("write its watermarks"))
}

fn report(plan: &Plan, runs: &[Ran], (now, times): (&Standing, (Duration, Duration))) -> Report {
    let sum = |count: fn(&Ran) -> u64| runs.iter().map(count).sum();
    Report {
        from: plan.from,
        last: plan.last,
        records: plan.records,
        committed: plan.committed,
        applied: sum(|ran| ran.transactions),
        aborted: plan.aborted,
        unfinished: plan.unfinished,
        oldest_unfinished: plan.oldest_unfinished,
        changes: sum(|ran| ran.done.changes),
        writes: sum(|ran| ran.done.writes),
        batches: sum(|ran| ran.done.batches),
        batch_changes: runs.last().map_or(0, |ran| ran.batch_changes),
        applied_lsn: now.lowest(),
        needed_from: now.needed_from(),
        lanes: u32::try_from(now.lanes.len()).unwrap_or(LANES_MAX),
        planning: times.0,
        applying: times.1,
    }
}

/// The committed transactions of a log, in the order of their commits: see
/// [`Replay::transactions`].
pub struct Transactions<'a> {
    plan: Arc<Plan>,
    gather: TransactionAssembler,
    operations: crate::source::Operations<'a>,
    log: LogId,
    began: Option<Watermark>,
    /// The last record that was read.
    read: Option<Lsn>,
    has_ended: bool,
}

impl Transactions<'_> {
    /// What the first pass found.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where it goes on: the watermark that it was given, and with [`Replay::adopt`] what proves
    /// it from now on, which is to be kept in its place.
    #[must_use]
    pub fn began(&self) -> Option<Watermark> {
        self.began
    }

    fn step(&mut self) -> Result<Option<Transaction>> {
        let applied = self.began.and_then(|mark| mark.applied_lsn());
        while self.read < self.plan.last {
            let Some(entry) = self.operations.next() else { break };
            let (record, operation) = entry?;
            if self.plan.last.is_none_or(|last| record.lsn > last) {
                break;
            }
            self.read = Some(record.lsn);
            let Some(operation) = operation else { continue };
            let whole = self.gather.take(record, operation)?;
            if let Some(whole) = whole.filter(|whole| Some(whole.commit.lsn) > applied) {
                return Ok(Some(whole.into_transaction(self.log)));
            }
        }
        Ok(None)
    }
}

impl Iterator for Transactions<'_> {
    type Item = Result<Transaction>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let step = self.step().transpose();
        self.has_ended = !matches!(step, Some(Ok(_)));
        step
    }
}

impl std::fmt::Debug for Transactions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transactions").field("plan", &self.plan).finish_non_exhaustive()
    }
}
