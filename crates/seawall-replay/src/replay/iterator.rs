//! An iterator over the committed transactions of a log.

use crate::error::Result;
use crate::source::Operations;
use crate::store::watermark::Watermark;
use crate::transactions::plan::Plan;
use crate::transactions::transaction_assembler::{Transaction, TransactionAssembler};
use seawall::Lsn;
use seawall::format::LogId;
use std::sync::Arc;

/// An iterator over the committed transactions of a log, in commit order. See
/// [`Replay::transactions`](crate::Replay::transactions).
pub struct Transactions<'a> {
    plan: Arc<Plan>,
    gather: TransactionAssembler,
    operations: Operations<'a>,
    log: LogId,
    began: Option<Watermark>,
    /// The last record that was read.
    read: Option<Lsn>,
    has_ended: bool,
}

impl<'a> Transactions<'a> {
    /// Creates an iterator over the transactions in `operations` that committed after `began`.
    pub(crate) fn new(
        (plan, gather): (Arc<Plan>, TransactionAssembler),
        operations: Operations<'a>,
        (log, began): (LogId, Option<Watermark>),
    ) -> Self {
        Self { plan, gather, operations, log, began, read: None, has_ended: false }
    }

    /// Returns the result of the first pass.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the watermark from which the iterator started. After
    /// [`Replay::adopt`](crate::Replay::adopt) it contains the proof that it lacked before, and
    /// should be stored in place of the old one. After [`Replay::from`](crate::Replay::from) it is
    /// the first one to store.
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
