//! The watermarks of a store, and whether the store belongs to the log.

use crate::error::{Error, Result};
use crate::source::Source;
use crate::store::Store;
use crate::store::watermark::Watermark;
use seawall::Lsn;
use seawall::damage::Corruption;
use seawall::format::LogId;

/// More partitions than this are a mistake or damage.
pub(crate) const PARTITIONS_MAX: u32 = 1024;

/// The watermarks of all partitions of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) partitions: Vec<Watermark>,
}

impl Standing {
    /// Reads the watermarks and checks that they are consistent.
    pub(crate) fn of(store: &dyn Store) -> Result<Self> {
        let mut partitions = store.watermarks().map_err(Error::store("read its watermarks"))?;
        // If the number of partitions was reduced, the store still has watermarks of the others.
        let count = partitions.first().map_or(0, |mark| mark.partitions);
        partitions.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let is_whole = partitions.iter().all(|mark| mark.partitions == count);
        if !is_whole || number(&partitions) != count || count > PARTITIONS_MAX {
            let why = format!(
                "the store declares {count} partitions, but has {} watermarks",
                partitions.len()
            );
            return Err(Error::Watermarks { why });
        }
        if partitions.windows(2).any(|pair| matches!(pair, [one, next] if one.log != next.log)) {
            let why = "the store's partitions belong to different logs".to_owned();
            return Err(Error::Watermarks { why });
        }
        Ok(Self { partitions })
    }

    /// Checks that the store belongs to this log: the log id must match, and the record of the last
    /// applied commit must be the log's. All records before it are then the same too, because a
    /// truncation removes all records after some LSN.
    ///
    /// If the log can neither prove nor disprove that, the store is accepted only if `adopted` is
    /// set.
    pub(crate) fn belonging_to(
        mut self,
        source: &dyn Source,
        (log, adopted): (LogId, bool),
    ) -> Result<Self> {
        let Some(first) = self.partitions.first() else { return Ok(self) };
        if let Some(store) = first.log.filter(|store| *store != log) {
            return Err(Error::OtherLog { store, log });
        }
        let (needs, oldest) = (self.restart(), source.oldest()?);
        if needs < oldest {
            return Err(Error::Pruned { needs, oldest });
        }
        let highest = self.highest();
        if first.log.is_none() && !adopted {
            let why = "its watermarks were written by an earlier version, which stored no log id"
                .to_owned();
            return Err(Error::Unproven { applied: highest, why });
        }
        for mark in &mut self.partitions {
            // A proof for the most advanced partition covers all others.
            let is_needed = mark.applied_lsn() == highest && !adopted;
            belongs(mark, source, is_needed)?;
            mark.log = Some(log);
        }
        Ok(self)
    }

    /// Returns the last commit that every partition has applied.
    pub(crate) fn lowest(&self) -> Option<Lsn> {
        self.partitions.iter().map(Watermark::applied_lsn).min().flatten()
    }

    /// Returns the last commit that any partition has applied.
    pub(crate) fn highest(&self) -> Option<Lsn> {
        self.partitions.iter().filter_map(Watermark::applied_lsn).max()
    }

    pub(crate) fn restart(&self) -> Lsn {
        self.partitions.iter().map(|mark| mark.restart).min().unwrap_or(Lsn::FIRST)
    }

    /// Returns the first record that the log must keep.
    pub(crate) fn needed_from(&self) -> Lsn {
        let records = self.highest().into_iter().chain([self.restart()]);
        records.min().unwrap_or(Lsn::FIRST)
    }
}

/// Compares the last applied commit of a partition with the log's record of that LSN.
fn belongs(mark: &mut Watermark, source: &dyn Source, is_needed: bool) -> Result<()> {
    let Some(applied) = mark.applied else { return starts_in(mark, source) };
    let lsn = applied.lsn;
    let unproven = |why: &str| {
        let why = format!("LSN {lsn}, the last commit it has applied, {why}");
        Error::Unproven { applied: Some(lsn), why }
    };
    match source.record_id(lsn) {
        Ok(Some(record)) if mark.log.is_none() => mark.applied = Some(record),
        Ok(Some(record)) if record == applied => {}
        Ok(Some(_)) => return Err(Error::OtherHistory { applied: lsn }),
        Ok(None) => {
            let last = last_from(source, mark.restart)?;
            return Err(Error::Ahead { applied: lsn, last });
        }
        Err(seawall::Error::Pruned { .. }) if is_needed => {
            return Err(unproven("was pruned from the log"));
        }
        Err(seawall::Error::Pruned { .. }) => {}
        Err(seawall::Error::Damaged { damage, .. }) if damage.cause == Corruption::GivenUp => {
            if is_needed {
                return Err(unproven("was discarded from the log by a repair"));
            }
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Checks that a store which has applied nothing starts within the log. The record before its start
/// counts as applied from now on, so that another history is noticed later.
fn starts_in(mark: &mut Watermark, source: &dyn Source) -> Result<()> {
    let Some(before) = mark.restart.previous() else { return Ok(()) };
    match source.record_id(before) {
        // A transaction that begins with this record is not in the store.
        Ok(Some(record)) => (mark.applied, mark.restart) = (Some(record), before),
        Ok(None) => {
            let last = last_from(source, source.oldest()?)?;
            return Err(Error::Ahead { applied: before, last });
        }
        // Proves nothing, and the store does not need it.
        Err(seawall::Error::Pruned { .. } | seawall::Error::Damaged { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Returns the last record readable from `from` on.
fn last_from(source: &dyn Source, from: Lsn) -> Result<Option<Lsn>> {
    Ok(source.summaries(from)?.map_while(seawall::Result::ok).map(|(lsn, _)| lsn).last())
}

pub(crate) fn number(partitions: &[Watermark]) -> u32 {
    u32::try_from(partitions.len()).unwrap_or(u32::MAX)
}
