//! Tracks which tables exist, for targets that do not: json and programs. Like a store, this
//! refuses a row of a table that was never created.

use super::job::Job;
use seawall::Lsn;
use seawall_output::report::Failure;
use seawall_replay::{Change, Error, Replay, Source, Transaction};
use std::collections::HashMap;

/// The tables that transactions created and dropped.
#[derive(Debug, Default)]
pub(super) struct Tables {
    exists: HashMap<String, bool>,
    /// How to find the tables that the target had before.
    before: Before,
}

/// The state of the target before the first transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    /// Nothing.
    #[default]
    Nothing,
    /// The transactions up to this one, which are not read yet.
    Unread(Lsn),
    /// Records that the log no longer has may have created any table.
    Unknown,
}

impl Tables {
    /// Tracks the tables of a target that has the transactions up to `applied`.
    pub(super) fn new(job: &Job<'_>, applied: Option<Lsn>) -> Result<Self, Failure> {
        let oldest = job.source.oldest().map_err(|error| job.failure(&error.into()))?;
        // With `--from`, the target was loaded with the state before that record.
        let loaded = || job.args.from.and_then(Lsn::new).and_then(Lsn::previous);
        let before = match applied.or_else(loaded) {
            _ if oldest > Lsn::FIRST => Before::Unknown,
            Some(applied) => Before::Unread(applied),
            None => Before::Nothing,
        };
        Ok(Self { before, exists: HashMap::new() })
    }

    /// Refuses a transaction that changes a missing table or creates an existing one.
    pub(super) fn check(
        &mut self,
        job: &Job<'_>,
        transaction: &Transaction,
    ) -> Result<(), Failure> {
        let unknown = |(_, change): &(Lsn, Change)| !self.exists.contains_key(change.table());
        if let Before::Unread(applied) = self.before
            && transaction.changes.iter().any(unknown)
        {
            self.read(job, applied)?;
        }
        for (lsn, change) in &transaction.changes {
            self.see(change).map_err(|why| {
                let (lsn, change, why) = (*lsn, change.to_string(), why.to_owned());
                job.failure(&Error::Apply { lsn, change, why })
            })?;
        }
        Ok(())
    }

    /// Reads the transactions up to `applied`, to find the tables that they left.
    fn read(&mut self, job: &Job<'_>, applied: Lsn) -> Result<(), Failure> {
        // The target has these transactions, even if the log has lost some of their records since.
        let replay = Replay::new().until(applied).skip_incomplete();
        let later = std::mem::take(&mut self.exists);
        let fail = |error: Error| job.failure(&error);
        let transactions = replay.transactions(&job.source, None).map_err(fail)?;
        let has_all = transactions.plan().given_up == 0;
        for transaction in transactions {
            for (_, change) in &transaction.map_err(fail)?.changes {
                // The target already has this change, so it cannot be refused.
                let _ = self.see(change);
            }
        }
        self.exists.extend(later);
        self.before = if has_all { Before::Nothing } else { Before::Unknown };
        Ok(())
    }

    fn see(&mut self, change: &Change) -> Result<(), &'static str> {
        let (name, before) = (change.table(), self.before);
        let found = self.exists.get(name).copied();
        let is_there = if name.is_empty() { Some(true) } else { found };
        let exists = match (change, is_there) {
            (Change::CreateTable { .. }, Some(true)) => return Err("the table already exists"),
            (Change::CreateTable { .. }, _) => true,
            (Change::DropTable { .. }, _) if name.is_empty() => {
                return Err("the table with the empty name always exists");
            }
            (_, Some(false)) => return Err("no such table"),
            (_, None) if before == Before::Nothing => return Err("no such table"),
            (Change::DropTable { .. }, _) => false,
            _ => true,
        };
        if found != Some(exists) && !name.is_empty() {
            self.exists.insert(name.to_owned(), exists);
        }
        Ok(())
    }
}
