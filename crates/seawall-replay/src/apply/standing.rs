//! The watermarks of a store, and whether the store belongs to the log.

use crate::error::{Error, Result};
use crate::source::Source;
use crate::store::Store;
use crate::store::watermark::Watermark;
use seawall::Lsn;
use seawall::damage::Corruption;
use seawall::format::LogId;

/// More partitions than this are a mistake or damage.
pub(crate) const LANES_MAX: u32 = 1024;

/// The watermarks of all partitions of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) lanes: Vec<Watermark>,
}

impl Standing {
    /// Reads the watermarks and checks that they are consistent.
    pub(crate) fn of(store: &dyn Store) -> Result<Self> {
        let mut lanes = store.watermarks().map_err(Error::store("read its watermarks"))?;
        // If the number of partitions was reduced, the store still has watermarks of the others.
        let count = lanes.first().map_or(0, |mark| mark.lanes);
        lanes.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        let is_whole = lanes.iter().all(|mark| mark.lanes == count);
        if !is_whole || number(&lanes) != count || count > LANES_MAX {
            let why = format!(
                "the store declares {count} partitions, but has {} watermarks",
                lanes.len()
            );
            return Err(Error::Watermarks { why });
        }
        if lanes.windows(2).any(|pair| matches!(pair, [one, next] if one.log != next.log)) {
            let why = "the store's partitions belong to different logs".to_owned();
            return Err(Error::Watermarks { why });
        }
        Ok(Self { lanes })
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
        let Some(first) = self.lanes.first() else { return Ok(self) };
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
        for mark in &mut self.lanes {
            // A proof for the most advanced partition covers all others.
            let is_needed = mark.applied_lsn() == highest && !adopted;
            belongs(mark, source, is_needed)?;
            mark.log = Some(log);
        }
        Ok(self)
    }

    /// Returns the last commit that every partition has applied.
    pub(crate) fn lowest(&self) -> Option<Lsn> {
        self.lanes.iter().map(Watermark::applied_lsn).min().flatten()
    }

    /// Returns the last commit that any partition has applied.
    pub(crate) fn highest(&self) -> Option<Lsn> {
        self.lanes.iter().filter_map(Watermark::applied_lsn).max()
    }

    pub(crate) fn restart(&self) -> Lsn {
        self.lanes.iter().map(|mark| mark.restart).min().unwrap_or(Lsn::FIRST)
    }

    /// Returns the first record that the log must keep.
    pub(crate) fn needed_from(&self) -> Lsn {
        let records = self.highest().into_iter().chain([self.restart()]);
        records.min().unwrap_or(Lsn::FIRST)
    }
}

/// Compares the last applied commit of a partition with the log's record of that LSN.
fn belongs(mark: &mut Watermark, source: &dyn Source, is_needed: bool) -> Result<()> {
    let Some(applied) = mark.applied else { return Ok(()) };
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

/// Returns the last record readable from `from` on.
fn last_from(source: &dyn Source, from: Lsn) -> Result<Option<Lsn>> {
    Ok(source.summaries(from)?.map_while(seawall::Result::ok).map(|(lsn, _)| lsn).last())
}

pub(crate) fn number(lanes: &[Watermark]) -> u32 {
    u32::try_from(lanes.len()).unwrap_or(u32::MAX)
}
