//! The report on a replay.

use crate::apply::partitions::Ran;
use crate::apply::standing::{PARTITIONS_MAX, Standing};
use crate::transactions::plan::{Plan, Unfinished};
use seawall::Lsn;
use seawall::damage::Damage;
use std::time::Duration;

/// The result of a replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The first record that was read.
    pub from: Lsn,
    /// The last record that was read.
    pub last: Option<Lsn>,
    /// The number of records read in the first pass.
    pub records: u64,
    /// The number of records that a repair of the log gave up, among those read. Records given up
    /// after the last one read are not counted.
    pub given_up: u64,
    /// The number of committed transactions in those records.
    pub committed: u64,
    /// The committed transactions applied by this replay. The store already had the others.
    pub applied: u64,
    /// The number of aborted transactions.
    pub aborted: u64,
    /// The number of transactions without an end.
    pub unfinished: u64,
    /// The oldest transaction without an end.
    pub oldest_unfinished: Option<Unfinished>,
    /// The number of committed transactions that lack records, and were
    /// [skipped](crate::Replay::skip_incomplete).
    pub incomplete: u64,
    /// Damage of the log after its last record that loses none. Repair the log.
    pub damage: Option<Damage>,
    /// The number of changes applied.
    pub changes: u64,
    /// The number of writes to the store: one for each key of a batch.
    pub writes: u64,
    /// The number of writes that the store [ingested](crate::Store::ingestion).
    pub ingested: u64,
    /// The number of batches written, including ingestions.
    pub batches: u64,
    /// The last batch size, in changes.
    pub batch_changes: usize,
    /// The last commit that is durable in the store.
    pub applied_lsn: Option<Lsn>,
    /// The first record that the log must keep for this store. The last applied commit must stay
    /// because it proves that the store belongs to the log.
    pub needed_from: Lsn,
    /// The number of partitions.
    pub partitions: u32,
    /// The duration of the first pass.
    pub planning: Duration,
    /// The duration of the second pass, including the flush.
    pub applying: Duration,
}

impl Report {
    /// Creates the report on a plan and the runs that applied it. `now` holds the store's current
    /// watermarks, `times` the durations of both passes.
    pub(crate) fn of(
        plan: &Plan,
        runs: &[Ran],
        (now, times): (&Standing, (Duration, Duration)),
    ) -> Self {
        let sum = |count: fn(&Ran) -> u64| runs.iter().map(count).sum();
        Self {
            from: plan.from,
            last: plan.last,
            records: plan.records,
            given_up: plan.given_up,
            committed: plan.committed,
            applied: sum(|ran| ran.transactions),
            aborted: plan.aborted,
            unfinished: plan.unfinished,
            oldest_unfinished: plan.oldest_unfinished,
            incomplete: plan.incomplete,
            damage: plan.damage.clone(),
            changes: sum(|ran| ran.done.changes),
            writes: sum(|ran| ran.done.writes),
            ingested: sum(|ran| ran.ingested),
            batches: sum(|ran| ran.done.batches),
            batch_changes: runs.last().map_or(0, |ran| ran.batch_changes),
            applied_lsn: now.lowest(),
            needed_from: now.needed_from(),
            partitions: u32::try_from(now.partitions.len()).unwrap_or(PARTITIONS_MAX),
            planning: times.0,
            applying: times.1,
        }
    }
}
