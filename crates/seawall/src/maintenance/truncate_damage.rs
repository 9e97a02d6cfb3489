//! Repairs a log in place by truncating it at the first damage. Removed files are kept in
//! quarantine.

use crate::base::env::Env;
use crate::base::error::{Damage, Error, Result};
use crate::base::options::{Options, SEGMENT_MIN};
use crate::maintenance::exclusive::{refuse_in_use, take};
use crate::maintenance::verify::{Verification, look_around};
use crate::recover::decision::Action;
use crate::recover::inspection::{Inspection, Until, inspect_repaired};
use crate::recover::open::resume;
use crate::scan::quarantine;
use crate::scan::scanner::ScanEnd;
use seawall_format::{Lsn, SegmentId, next_lsn};
use seawall_io::{Access, Storage};
use std::sync::Arc;

/// The plan or the result of a truncation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailTruncation {
    /// The last remaining record.
    pub last: Option<Lsn>,
    /// Number of intact records after it, which are removed.
    pub intact_behind: u64,
    /// The damage.
    pub damage: Vec<Damage>,
    /// Bytes that the copies in quarantine need while the old files still exist.
    pub room: u64,
    /// The copies of the removed files, as paths in the log's directory.
    pub quarantine: Vec<String>,
}

/// Verifies a log without a writer, skipping blocks that the device cannot read.
pub(crate) fn diagnose(storage: &Arc<dyn Storage>) -> Result<Verification> {
    refuse_in_use(&**storage)?;
    look_around(storage)
}

/// Plans what [`truncate_damaged_tail`] would do.
pub(crate) fn plan_truncation(storage: &Arc<dyn Storage>) -> Result<TailTruncation> {
    refuse_in_use(&**storage)?;
    Ok(plan(storage)?.1)
}

/// Truncates the log at the first damage that prevents opening it.
pub(crate) fn truncate_damaged_tail(storage: &Arc<dyn Storage>) -> Result<TailTruncation> {
    let lock = take(storage)?;
    let (found, mut cut) = plan(storage)?;
    let Some(manifest) = &found.catalog.manifest else {
        // Creation was interrupted; the next open completes it.
        return Ok(cut);
    };
    let segment_min = SEGMENT_MIN.min(manifest.segment_max);
    let options = Options { segment_min, ..Options::new() };
    let env = Env::new(&options, storage.clone());
    let mut gone = vec![];
    if !cut.damage.is_empty() {
        gone = found.segments_behind_end();
        set_aside(&env, &found.files_leaving(), &mut cut)?;
    }
    let (mut writer, recovery, _) = resume::recover(&options, env, lock, &found)?;
    cut.quarantine.extend(recovery.quarantine);
    writer.remove_segments(|id| gone.contains(&id))?;
    writer.close()?;
    cut.last = writer.last;
    Ok(cut)
}

/// The log after the truncation, and what is removed.
fn plan(storage: &Arc<dyn Storage>) -> Result<(Inspection, TailTruncation)> {
    let mut found = inspect_repaired(storage, Until::End)?;
    let is_damaged = found.row.action() == Action::Damage;
    if is_damaged && !found.end_before_damage() {
        return Err(Error::Damaged(Box::new(found.first_damage())));
    }
    let last = found.end.as_ref().and_then(|end| end.last);
    let (intact_behind, damage) = (found.intact_behind, found.damage.clone());
    let mut cut = TailTruncation { last, intact_behind, damage, room: 0, quarantine: vec![] };
    for name in found.files_leaving() {
        let length = storage.open(&name, Access::Read).and_then(|file| file.len());
        cut.room += length.map_err(Error::io(format!("get the length of {name}")))?;
    }
    Ok((found, cut))
}

/// Copies segment files to quarantine.
fn set_aside(env: &Env, names: &[String], cut: &mut TailTruncation) -> Result<()> {
    for name in names {
        let kept = quarantine::keep_file(env, name);
        let name = kept.map_err(Error::io(format!("keep {name} in quarantine")))?;
        cut.quarantine.push(name);
    }
    Ok(())
}

impl Inspection {
    /// Ends the log after the last record before the first damage. Returns `false` if there is no
    /// such record or start of the log.
    fn end_before_damage(&mut self) -> bool {
        let Some(manifest) = &mut self.catalog.manifest else { return false };
        let last = self.sound_to;
        let next = next_lsn(last);
        let links = &self.catalog.chain;
        let whole = links.iter().take_while(|link| link.gap.is_none());
        let first = links.first().map(|link| link.segment.header.base);
        let reaches = |base: Lsn| base < next || (Some(base) == first && base == next);
        let reaches = whole.filter(|link| reaches(link.segment.header.base)).count();
        if reaches == 0 || next < manifest.oldest_base {
            return false;
        }
        self.catalog.chain.truncate(reaches);
        self.catalog.missing_tail = None;
        // A checkpoint cannot be past the end of the log.
        manifest.checkpoints = manifest.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(next)));
        let end = Lsn::new(next.get() - 1 + self.count_before_lost());
        self.end = Some(ScanEnd { last: end, confirmed: last, tail: None, damage: vec![] });
        self.carry = std::mem::take(&mut self.before_lost);
        true
    }

    /// The segments that lose records. The last remaining segment is among them if it is damaged:
    /// it stays in the log for the records before the damage, until these are pruned.
    fn leaving(&self) -> Vec<SegmentId> {
        if self.damage.is_empty() {
            return vec![];
        }
        let newest = self.catalog.chain.last().map(|link| link.segment.header.id);
        let newest = newest.filter(|newest| self.is_damaged(*newest));
        newest.into_iter().chain(self.segments_behind_end()).collect()
    }

    /// The files of these segments, for both layouts.
    fn files_leaving(&self) -> Vec<String> {
        let leaving = self.leaving();
        let goes = |id: SegmentId| leaving.contains(&id);
        let names = self.catalog.names.iter();
        names.filter(|name| SegmentId::from_any_name(name).is_some_and(goes)).cloned().collect()
    }

    /// The segments past the end of the remaining chain.
    fn segments_behind_end(&self) -> Vec<SegmentId> {
        let newest = self.catalog.chain.last().map(|link| link.segment.header.id);
        let names = self.catalog.names.iter();
        let ids = names.filter_map(|name| SegmentId::from_any_name(name));
        let mut ids: Vec<_> = ids.filter(|id| Some(*id) > newest).collect();
        ids.dedup();
        ids
    }
}
