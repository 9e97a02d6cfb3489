//! The transactions of the next ingestion. At the beginning of a log, transactions that are one
//! record each are gathered while the replay is planned, so that their records are read once.

use crate::apply::partitions::Chunk;
use crate::bulk::collect::Collected;
use crate::error::Result;
use crate::operation::{Change, Operation};
use crate::record_summary::RecordSummary;
use crate::source::{Operations, RecordSummaries, Source};
use crate::transactions::transaction_assembler::Whole;
use seawall::Lsn;
use seawall::format::RecordId;

/// Transactions that were collected and not yet written.
pub(crate) struct Gathered<'a, 'scope> {
    collected: Collected<'a, 'scope>,
    /// The last commit that every partition of the store has applied.
    applied: Option<Lsn>,
    /// The number of transactions, and the commit of the last one.
    transactions: u64,
    last: Option<Commit>,
    /// The first record that was not read.
    next: Lsn,
    /// The number of records that were read.
    records: u64,
}

/// The commit of a transaction, and the first record to read when continuing after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) record: RecordId,
    pub(crate) restart: Lsn,
}

impl<'a, 'scope> Gathered<'a, 'scope> {
    /// Creates an empty collection. `next` is the first record to read.
    pub(crate) fn new(
        collected: Collected<'a, 'scope>,
        (applied, next): (Option<Lsn>, Lsn),
    ) -> Self {
        Self { collected, applied, transactions: 0, last: None, next, records: 0 }
    }

    /// The collected changes.
    pub(crate) fn collected(&mut self) -> &mut Collected<'a, 'scope> {
        &mut self.collected
    }

    /// The first record that was not read.
    pub(crate) fn next(&self) -> Lsn {
        self.next
    }

    /// The number of records that were read.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns whether the store lacks the transaction with this commit.
    pub(crate) fn is_missing(&self, commit: Lsn) -> bool {
        Some(commit) > self.applied
    }

    /// Adds a transaction that the store lacks.
    pub(crate) fn add(&mut self, transaction: &Whole) -> Result<()> {
        let (record, restart) = (transaction.commit, transaction.restart);
        self.add_changes(Commit { record, restart }, transaction.changes())
    }

    fn add_changes<'c>(
        &mut self,
        commit: Commit,
        changes: impl Iterator<Item = (Lsn, &'c Change)>,
    ) -> Result<()> {
        self.collected.add(changes)?;
        self.transactions += 1;
        self.last = Some(commit);
        Ok(())
    }

    /// Adds the next record if it is a whole transaction that changes only rows, or changes
    /// nothing. Returns false for any other record.
    fn add_record(&mut self, record: RecordId, operation: Option<&Operation>) -> Result<bool> {
        let changes = match operation {
            None => None,
            Some(Operation::Atomic(changes)) => Some(changes),
            Some(_) => return Ok(false),
        };
        if changes.into_iter().flatten().any(|change| change.key().is_none()) {
            return Ok(false);
        }
        if let Some(changes) = changes.filter(|_| self.is_missing(record.lsn)) {
            // No other transaction is open at any record.
            let commit = Commit { record, restart: record.lsn.next() };
            self.add_changes(commit, changes.iter().map(|change| (record.lsn, change)))?;
        }
        self.next = record.lsn.next();
        self.records += 1;
        Ok(true)
    }

    /// Adds the next records. [`add_record`](Self::add_record) must accept all of them.
    pub(crate) fn add_records(&mut self, records: &Chunk) -> Result<()> {
        let mut records = records.iter();
        records.try_for_each(|(record, operation)| {
            self.add_record(*record, operation.as_ref()).map(drop)
        })
    }

    /// Takes the number of transactions and the commit of the last one.
    pub(crate) fn take_last(&mut self) -> Option<(u64, Commit)> {
        Some((std::mem::take(&mut self.transactions), self.last.take()?))
    }
}

/// Reads records for a plan. Meanwhile gathers whole transactions, up to the first record that
/// cannot be gathered or is after `until`.
pub(crate) struct Reading<'s, 'a, 'scope> {
    source: &'s dyn Source,
    /// The next record.
    next: Lsn,
    until: Option<Lsn>,
    /// `None` after gathering failed: the replay will meet the same error and report it.
    gathered: &'s mut Option<Gathered<'a, 'scope>>,
    records: Records<'s>,
}

enum Records<'s> {
    /// Whole records, which are gathered.
    Whole(Operations<'s>),
    /// Summaries of records that are not gathered.
    Summaries(RecordSummaries<'s>),
}

impl<'s, 'a, 'scope> Reading<'s, 'a, 'scope> {
    /// Starts reading at the record `next`.
    ///
    /// # Errors
    ///
    /// As [`Source::operations`].
    pub(crate) fn new(
        source: &'s dyn Source,
        (next, until): (Lsn, Option<Lsn>),
        gathered: &'s mut Option<Gathered<'a, 'scope>>,
    ) -> seawall::Result<Self> {
        let records = match gathered {
            Some(_) => Records::Whole(source.operations(next)?),
            None => Records::Summaries(source.summaries(next)?),
        };
        Ok(Self { source, next, until, gathered, records })
    }

    /// Returns the summary of the next record.
    fn step(&mut self) -> seawall::Result<Option<(Lsn, Option<RecordSummary>)>> {
        if let Records::Whole(operations) = &mut self.records {
            match operations.next().transpose() {
                Ok(None) => return Ok(None),
                Ok(Some((record, operation))) => {
                    let operation = operation.as_ref();
                    self.next = record.lsn.next();
                    if !self.gather(record, operation) {
                        self.records = Records::Summaries(self.source.summaries(self.next)?);
                    }
                    return Ok(Some((record.lsn, operation.map(RecordSummary::from))));
                }
                // A summary decodes less of the record. If that fails too, it reports the error.
                Err(_) => self.records = Records::Summaries(self.source.summaries(self.next)?),
            }
        }
        match &mut self.records {
            Records::Whole(_) => Ok(None),
            Records::Summaries(summaries) => summaries.next().transpose(),
        }
    }

    /// Gathers a record, and returns whether the next one can be, too.
    fn gather(&mut self, record: RecordId, operation: Option<&Operation>) -> bool {
        let Some(gathered) = self.gathered.as_mut() else { return false };
        if self.until.is_some_and(|until| record.lsn > until) {
            return false;
        }
        let Ok(is_whole) = gathered.add_record(record, operation) else {
            *self.gathered = None;
            return false;
        };
        is_whole && !gathered.collected.is_full()
    }
}

impl Iterator for Reading<'_, '_, '_> {
    type Item = seawall::Result<(Lsn, Option<RecordSummary>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
