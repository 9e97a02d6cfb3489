//! A replay: its options and its run.

pub(crate) mod iterator;
pub(crate) mod report;

use crate::apply::batch_size::{BatchSize, Bounds};
use crate::apply::fold::Tools;
use crate::apply::partition::number;
use crate::apply::partitions::{Ran, Run};
use crate::apply::standing::{PARTITIONS_MAX, Standing};
use crate::bulk::collect::Collected;
use crate::bulk::drive::Bulk;
use crate::bulk::gathered::{Gathered, Reading};
use crate::bulk::sorter::Room;
use crate::bulk::way::{Facts, Way, choose};
use crate::error::{Error, Result};
use crate::merge::Operators;
use crate::progress::{Phase, Progress};
use crate::replay::iterator::Transactions;
use crate::replay::report::Report;
use crate::small::held::{Held, Records};
use crate::source::{Decoded, Source};
use crate::store::error::StoreError;
use crate::store::watermark::Watermark;
use crate::store::{Batch, Store};
use crate::transactions::missing_begin::explained;
use crate::transactions::plan::{Floor, Plan, Planner};
use crate::transactions::spill::Folder;
use crate::transactions::transaction_assembler::TransactionAssembler;
use seawall::Lsn;
use seawall::format::LogId;
use seawall_io::{Clock, SystemClock};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, Scope};

/// The default memory for open transactions.
const MEMORY: usize = 256 << 20;
/// The approximate size of an open transaction in the first pass.
const OPEN_SIZE: usize = 64;
/// The default minimum number of missing changes to ingest. Fewer take only a moment in batches,
/// too.
const BULK_FROM: u64 = 100_000;
/// The number of records between two progress reports while planning.
const TELL: u64 = 4096;

/// Replays a log into a store. See the [crate](crate)'s example.
///
/// Memory use is the sum of: [`memory`](Replay::memory) for the changes of open transactions (the
/// excess goes to a scratch file); batches of [`Bounds::bytes_max`], three per partition and two
/// that are being freed; one bit per record read; and about 100 bytes per transaction open at the
/// same time. The largest transaction must fit in memory.
#[derive(Clone, Debug)]
pub struct Replay {
    from: Option<Lsn>,
    until: Option<Lsn>,
    adopts: bool,
    skips_incomplete: bool,
    partitions: u32,
    bounds: Bounds,
    memory: usize,
    bulk_from: u64,
    folder: Folder,
    operators: Operators,
    clock: Arc<dyn Clock>,
}

impl Replay {
    /// Creates a replay of the whole log in one partition, with adaptive batches.
    #[must_use]
    pub fn new() -> Self {
        Self {
            from: None,
            until: None,
            adopts: false,
            skips_incomplete: false,
            partitions: 1,
            bounds: Bounds::default(),
            memory: MEMORY,
            bulk_from: BULK_FROM,
            folder: Folder(std::env::temp_dir()),
            operators: Operators::new(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Starts a new store at `lsn` instead of the beginning of the log, because the store was
    /// loaded with the state before `lsn`. A store with watermarks continues from those.
    ///
    /// The record before `lsn` counts as applied, so that another history of the log is noticed
    /// later. If the log ends before it, the replay gives [`Error::Ahead`].
    #[must_use]
    pub fn from(mut self, lsn: Lsn) -> Self {
        self.from = Some(lsn);
        self
    }

    /// Applies only transactions committed up to `lsn`. Never undoes what the store has already
    /// applied. If [`Plan::last`] or [`Report::last`] is lower, the log ends before `lsn`, and only
    /// verification tells whether that record was lost.
    #[must_use]
    pub fn until(mut self, lsn: Lsn) -> Self {
        self.until = Some(lsn);
        self
    }

    /// Accepts a store if the log can neither prove nor disprove that it belongs to the log. This
    /// happens if an earlier version wrote the watermarks, or if the last applied commit was
    /// pruned from the log. Without this option, such a store gives [`Error::Unproven`]. A store
    /// of another log or another history is always refused.
    ///
    /// The caller guarantees that the store was built from this log, and that no record it has
    /// applied was removed by [truncating](seawall::Log::truncate_after) the log's end. New
    /// watermarks contain the proof.
    #[must_use]
    pub fn adopt(mut self) -> Self {
        self.adopts = true;
        self
    }

    /// Skips committed transactions that lack records, and counts them in [`Report::incomplete`]: a
    /// repair gave up records that may belong to them, or they have no begin. Without this option,
    /// they give [`Error::Incomplete`] or [`Error::NeverBegan`], and nothing is applied.
    #[must_use]
    pub fn skip_incomplete(mut self) -> Self {
        self.skips_incomplete = true;
        self
    }

    /// Distributes the keys over this number of partitions, one thread each, limited by
    /// [`Store::partitions_max`]. While the replay runs, the store may contain part of a
    /// transaction: do not read the store until the replay has succeeded.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets the bounds of batches. Equal bounds fix the size.
    #[must_use]
    pub fn batches(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets the minimum number of missing changes that are sorted and written at once instead of in
    /// batches, if the store has an [ingestion](Store::ingestion). The default is 100,000.
    /// [`u64::MAX`] disables ingestion, and so do equal bounds of batches.
    ///
    /// After a kill, such a replay starts again where the last ingestion ended: at the creation or
    /// drop of a table, or after changes of 64 times [`memory`](Replay::memory).
    #[must_use]
    pub fn bulk_from(mut self, changes: u64) -> Self {
        self.bulk_from = changes;
        self
    }

    /// Sets the memory for changes of open transactions, in bytes. Changes to ingest get the same
    /// amount in addition. The default is 256 MiB.
    #[must_use]
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the directory of the scratch file. The default is the system's directory for temporary
    /// files.
    #[must_use]
    pub fn scratch(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Folder(folder.into());
        self
    }

    /// Sets the merge operators. The default is [`Operators::new`].
    #[must_use]
    pub fn operators(mut self, operators: Operators) -> Self {
        self.operators = operators;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns what a replay into `store` would do, without changing the store. Decodes every
    /// record.
    ///
    /// # Errors
    ///
    /// As [`run`](Replay::run), except for errors of writing to the store.
    pub fn plan(&self, source: &dyn Source, store: &dyn Store) -> Result<Plan> {
        let (_, standing) = self.standing(source, Standing::of(store)?)?;
        self.planned(&Decoded(source), &standing, &mut |_| ())
    }

    /// Applies the committed transactions that the store lacks. Returns when they are durable in
    /// the store.
    ///
    /// # Errors
    ///
    /// Stops at the first error; see [`Error`]. Changes applied until then stay applied, and
    /// another run continues after them.
    pub fn run(&self, source: &dyn Source, store: &dyn Store) -> Result<Report> {
        self.run_with(source, store, |_| ())
    }

    /// Runs as [`run`](Replay::run) does, and calls `hear` with the progress from time to time.
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
        thread::scope(|scope| self.run_in(scope, (source, store), &mut hear))
    }

    fn run_in<'env, 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        (source, store): (&'env dyn Source, &'env dyn Store),
        hear: &mut dyn FnMut(Progress),
    ) -> Result<Report> {
        let wanted = self.partitions_for(store)?;
        let _running = store.replay_lock().map(only_replay).transpose()?;
        let found = Standing::of(store)?;
        let (log, standing) = self.standing(source, found.clone())?;
        if standing != found {
            keep(store, &standing.partitions)?;
        }
        let began = self.clock.now();
        let (floor, until) = self.floor(source, &standing)?;
        let held = match wanted {
            1 => Held::read(source, (floor.from, until))?,
            // Each partition has a thread, which may wait for the store while others write.
            _ => Held::none(floor.from),
        };
        let mut gathered = self.gather(scope, (store, &standing), &held);
        let first = (floor, until, &standing);
        let plan = self.planned_after(first, (source, &held, &mut gathered), hear)?;
        let plan = Arc::new(plan);
        let planned = self.clock.now();

        let mut told = |at, records| {
            hear(Progress { phase: Phase::Apply, at, last: plan.last, records });
        };
        let mut runs = Vec::new();
        let mut partitions = standing.partitions.clone();
        if partitions.len() != wanted {
            // The number of partitions can change only when all have applied the same commit.
            let level = if standing.lowest() < standing.highest() {
                let until = standing.highest();
                let run = self.one((source, log), store, (partitions, until));
                runs.push(self.apply(&run, &plan, &mut told)?);
                Standing::of(store)?
            } else {
                standing
            };
            partitions = redealt((store, log), &level, (wanted, plan.from))?;
        }
        // Transactions outside the plan may have been logged since, and are not applied.
        if plan.last.is_some() {
            let mut run = self.one((source, log), store, (partitions, plan.last));
            let bulk = self.apply_in_bulk(scope, (&run, gathered, &plan), &mut told)?;
            let is_done = matches!(bulk, Some((_, true)));
            if let Some((ran, _)) = bulk {
                runs.push(ran);
                run = self.one((source, log), store, (Standing::of(store)?.partitions, plan.last));
            }
            if !is_done {
                runs.push(match held.all() {
                    Some(records) => self.apply_here(run, &plan, (records, &mut told))?,
                    None => self.apply(&run, &plan, &mut told)?,
                });
            }
        }
        store.flush().map_err(Error::flush)?;
        // Read the watermarks from the store: the caller prunes the log up to them.
        let now = Standing::of(store)?;
        let times = (planned.saturating_sub(began), self.clock.now().saturating_sub(planned));
        Ok(Report::of(&plan, &runs, (&now, times)))
    }

    /// Returns the committed transactions after `applied`, for a program that applies them itself.
    ///
    /// # Errors
    ///
    /// As [`plan`](Replay::plan). Each step of the iterator can return the same errors.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::LogReader;
    /// use seawall_replay::{Operation, Replay, Watermark};
    /// use std::error::Error;
    ///
    /// fn catch_up(
    ///     reader: &LogReader<Operation>,
    ///     stored: Option<&[u8]>,
    /// ) -> Result<(), Box<dyn Error>> {
    ///     let watermark = stored.map(Watermark::from_bytes).transpose()?;
    ///     for transaction in Replay::new().transactions(reader, watermark)? {
    ///         let transaction = transaction?;
    ///         println!("apply {:?}", transaction.changes);
    ///         println!("and store {:?}: both, or neither", transaction.watermark.to_bytes());
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn transactions<'a>(
        &self,
        source: &'a dyn Source,
        applied: Option<Watermark>,
    ) -> Result<Transactions<'a>> {
        let standing = Standing { partitions: applied.into_iter().collect() };
        let (log, standing) = self.standing(source, standing)?;
        let plan = Arc::new(self.planned(source, &standing, &mut |_| ())?);
        let gather = self.assembler(&plan);
        let operations = source.operations(plan.from)?;
        let began = standing.partitions.first().copied();
        Ok(Transactions::new((plan, gather), operations, (log, began)))
    }

    /// Returns the log's id, and the store's watermarks if the store belongs to the log.
    fn standing(&self, source: &dyn Source, mut standing: Standing) -> Result<(LogId, Standing)> {
        let log = source.log_id()?;
        let from = self.from.filter(|from| *from > Lsn::FIRST);
        if let Some(from) = from.filter(|_| standing.partitions.is_empty()) {
            standing.partitions.push(Watermark::new(log, None, from));
        }
        Ok((log, standing.belonging_to(source, (log, self.adopts))?))
    }

    fn partitions_for(&self, store: &dyn Store) -> Result<usize> {
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            let why = format!("{} partitions: must be 1 to {PARTITIONS_MAX}", self.partitions);
            return Err(Error::InvalidOption { why });
        }
        let wanted = usize::try_from(self.partitions).unwrap_or(usize::MAX);
        Ok(wanted.min(store.partitions_max().max(1)))
    }

    fn planned(
        &self,
        source: &dyn Source,
        standing: &Standing,
        hear: &mut dyn FnMut(Progress),
    ) -> Result<Plan> {
        let (floor, until) = self.floor(source, standing)?;
        let records = (source, &Held::none(floor.from), &mut None);
        self.planned_after((floor, until, standing), records, hear)
    }

    /// Plans from the records in `held` and those after them. Gathers the latter.
    fn planned_after(
        &self,
        (floor, until, standing): (Floor, Option<Lsn>, &Standing),
        (source, held, gathered): (&dyn Source, &Held, &mut Option<Gathered<'_, '_>>),
        hear: &mut dyn FnMut(Progress),
    ) -> Result<Plan> {
        let read = self.planned_from((floor, until), (source, held, gathered), hear);
        let plan = read.map_err(|error| explained(source, error))?;
        let unread = |applied: &Lsn| plan.last < Some(*applied) && plan.from <= *applied;
        if let Some(applied) = standing.highest().filter(unread) {
            match source.record_id(applied) {
                // The log was truncated since it was compared with the store.
                Ok(_) => return Err(Error::Ahead { applied, last: plan.last }),
                // An adopted store may have applied records that were pruned or given up.
                Err(seawall::Error::Pruned { .. } | seawall::Error::Damaged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(plan)
    }

    fn planned_from(
        &self,
        (floor, until): (Floor, Option<Lsn>),
        (source, held, gathered): (&dyn Source, &Held, &mut Option<Gathered<'_, '_>>),
        hear: &mut dyn FnMut(Progress),
    ) -> Result<Plan> {
        let open_max = self.memory / OPEN_SIZE;
        let planner = Planner::new(floor, open_max, self.folder.clone());
        let mut planner = planner.skip_incomplete(self.skips_incomplete);
        for (lsn, summary) in held.records.summaries() {
            planner.see(lsn, summary)?;
        }
        let before = number(held.records.count());
        let rest = match held.next {
            Some(next) => Some(Reading::new(source, (next, until), gathered)?),
            None => None,
        };
        let mut damage = None;
        for (records, entry) in (before + 1..).zip(rest.into_iter().flatten()) {
            let (lsn, outline) = match entry {
                // Follows the last record. Lost records would be named after it.
                Err(seawall::Error::Damaged { damage: found, .. }) if found.lost.is_none() => {
                    damage = Some(*found);
                    continue;
                }
                entry => entry?,
            };
            if until.is_some_and(|until| lsn > until) {
                break;
            }
            planner.see(lsn, outline)?;
            if records % TELL == 0 {
                hear(Progress { phase: Phase::Plan, at: lsn, last: until, records });
            }
            if until == Some(lsn) {
                // Records after the last one needed are not read: they may be damaged.
                break;
            }
        }
        Ok(Plan { damage, ..planner.finish()? })
    }

    /// Returns the first record to read, and the last.
    fn floor(&self, source: &dyn Source, standing: &Standing) -> Result<(Floor, Option<Lsn>)> {
        let oldest = source.oldest()?;
        let needs = standing.restart();
        if needs < oldest {
            return Err(Error::Pruned { needs, oldest });
        }
        let highest = standing.highest();
        // Read the last applied record again, to make sure that it still exists.
        let from = highest.map_or(needs, |highest| needs.min(highest).max(oldest));
        let until = self.until.map(|until| highest.map_or(until, |highest| until.max(highest)));
        Ok((Floor { from, applied: standing.lowest(), applied_by_any: highest }, until))
    }

    fn one<'a>(
        &'a self,
        (source, log): (&'a dyn Source, LogId),
        store: &'a dyn Store,
        (partitions, until): (Vec<Watermark>, Option<Lsn>),
    ) -> Run<'a> {
        let from = partitions.iter().map(|mark| mark.restart).min().unwrap_or(Lsn::FIRST);
        Run {
            source,
            log,
            tools: Tools { store, operators: &self.operators },
            clock: &*self.clock,
            size: BatchSize::new(self.bounds),
            partitions,
            from,
            until,
        }
    }

    /// Starts to gather transactions for an ingestion, beginning with the held ones, if a store
    /// that lacks many changes would ingest them. Returns `None` if all records are held, or if
    /// gathering fails, for example for lack of memory or of a thread.
    fn gather<'env, 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        (store, standing): (&'env dyn Store, &Standing),
        held: &Held,
    ) -> Option<Gathered<'env, 'scope>> {
        let facts = self.facts(store, &standing.partitions, BULK_FROM);
        let (next, Records::Packed(log), Way::Bulk) = (held.next?, &held.records, choose(facts))
        else {
            return None;
        };
        let collected = self.collected(scope, store);
        let mut gathered = Gathered::new(collected, (standing.lowest(), next));

        gathered.add_records(&log.unpack().ok()?).ok()?;
        Some(gathered)
    }

    fn facts(&self, store: &dyn Store, partitions: &[Watermark], missing: u64) -> Facts {
        let mut marks = partitions.iter().map(Watermark::applied_lsn);
        let first = marks.next();
        Facts {
            can_ingest: store.ingestion().is_some(),
            is_size_fixed: self.bounds.changes_min >= self.bounds.changes_max,
            is_level: marks.all(|mark| Some(mark) == first),
            missing,
            bulk_from: self.bulk_from,
        }
    }

    fn collected<'env, 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        store: &'env dyn Store,
    ) -> Collected<'env, 'scope> {
        let room = Room { memory: self.memory, folder: self.folder.clone() };
        Collected::new(scope, Tools { store, operators: &self.operators }, room)
    }

    /// Applies transactions by ingestion, if [`choose`] prefers it, and returns whether all were
    /// applied. Some may already be gathered.
    fn apply_in_bulk<'env, 'scope>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        (run, gathered, plan): (&Run<'env>, Option<Gathered<'env, 'scope>>, &Arc<Plan>),
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Option<(Ran, bool)>> {
        let store = run.tools.store;
        let way = choose(self.facts(store, &run.partitions, plan.changes));
        let Some(ingestion) = store.ingestion().filter(|_| way == Way::Bulk) else {
            return Ok(None);
        };
        let gathered = gathered.unwrap_or_else(|| {
            let applied = run.partitions.iter().map(Watermark::applied_lsn).min().flatten();
            Gathered::new(self.collected(scope, store), (applied, run.from))
        });
        let bulk = Bulk::new(run, (ingestion, self.bulk_from), gathered);
        match bulk.run(self.assembler(plan), hear) {
            (ran, Ok(())) => Ok(Some((ran, true))),
            // Continue in batches: they apply everything before a refused change and name that
            // change, and they need less space.
            (ran, Err(Error::Apply { .. } | Error::Spill(_))) => Ok(Some((ran, false))),
            (_, Err(error)) => Err(error),
        }
    }

    fn assembler(&self, plan: &Arc<Plan>) -> TransactionAssembler {
        TransactionAssembler::new(plan.clone(), self.memory, self.folder.clone())
    }

    fn apply(
        &self,
        run: &Run<'_>,
        plan: &Arc<Plan>,
        hear: &mut dyn FnMut(Lsn, u64),
    ) -> Result<Ran> {
        run.run(self.assembler(plan), hear)
    }

    /// Applies records that were already read, to the only partition.
    fn apply_here(
        &self,
        mut run: Run<'_>,
        plan: &Arc<Plan>,
        (records, hear): (Records, &mut dyn FnMut(Lsn, u64)),
    ) -> Result<Ran> {
        run.size = run.size.of_all(plan.changes);
        let mut records = match records {
            Records::Packed(log) => return log.apply(&run, hear),
            Records::Decoded(records) => records,
        };
        records.retain(|(record, _)| record.lsn >= run.from);
        run.run_here(self.assembler(plan), records, hear)
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::new()
    }
}

/// Locks a store for one replay.
fn only_replay(lock: &Mutex<()>) -> Result<MutexGuard<'_, ()>> {
    match lock.try_lock() {
        Ok(held) => Ok(held),
        Err(TryLockError::Poisoned(held)) => Ok(held.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::store("start a replay")(StoreError::failed("another replay into it runs")))
        }
    }
}

/// Distributes the keys over `wanted` partitions from here on: writes and returns the watermark of
/// each. A new store starts at `from`.
fn redealt(
    (store, log): (&dyn Store, LogId),
    standing: &Standing,
    (wanted, from): (usize, Lsn),
) -> Result<Vec<Watermark>> {
    let partitions = u32::try_from(wanted).unwrap_or(PARTITIONS_MAX);
    let mark = match standing.partitions.first() {
        Some(mark) => Watermark { partitions, ..*mark },
        None => Watermark { partitions, ..Watermark::new(log, None, from) },
    };
    let marks = vec![mark; wanted];
    keep(store, &marks)?;
    Ok(marks)
}

/// Writes the watermarks of all partitions.
fn keep(store: &dyn Store, partitions: &[Watermark]) -> Result<()> {
    let batch =
        Batch { writes: vec![], watermarks: (0..).zip(partitions.iter().copied()).collect() };
    store.write(&batch).map_err(Error::store("write its watermarks"))
}
