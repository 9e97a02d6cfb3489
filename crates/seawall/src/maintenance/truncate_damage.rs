//! Repair in place: a damaged log gives up its end, from the first damage on. What leaves the log
//! is kept in quarantine.

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

/// What a repair in place gives up, or gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailTruncation {
    /// The last record that stays.
    pub last: Option<Lsn>,
    /// How many intact records stand behind it, and go.
    pub intact_behind: u64,
    /// What was damaged.
    pub damage: Vec<Damage>,
    /// How many bytes the copies in quarantine take while the old files are still there.
    pub room: u64,
    /// Where the files that left the log are kept, in its directory.
    pub quarantine: Vec<String>,
}

/// Verifies a log at rest, reading around what the device refuses.
pub(crate) fn diagnose(storage: &Arc<dyn Storage>) -> Result<Verification> {
    refuse_in_use(&**storage)?;
    look_around(storage)
}

/// What [`truncate_damaged_tail`] would do.
pub(crate) fn plan_truncation(storage: &Arc<dyn Storage>) -> Result<TailTruncation> {
    refuse_in_use(&**storage)?;
    Ok(plan(storage)?.1)
}

/// Ends the log before the first damage that keeps it from being opened.
pub(crate) fn truncate_damaged_tail(storage: &Arc<dyn Storage>) -> Result<TailTruncation> {
    let lock = take(storage)?;
    let (found, mut cut) = plan(storage)?;
    let Some(manifest) = &found.catalog.manifest else {
        // A creation that did not get far; the next open makes it whole.
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

/// The log as it is to be, and what that costs.
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
        cut.room += length.map_err(Error::io(format!("look at {name}")))?;
    }
    Ok((found, cut))
}

/// Copies files of segments to quarantine.
fn set_aside(env: &Env, names: &[String], cut: &mut TailTruncation) -> Result<()> {
    for name in names {
        let kept = quarantine::keep_file(env, name);
        let name = kept.map_err(Error::io(format!("keep {name} in quarantine")))?;
        cut.quarantine.push(name);
    }
    Ok(())
}

impl Inspection {
    /// Takes the last record before the first damage for the end of the log; false where there is
    /// no such place.
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
        // What was to be kept for a replay ends with the log.
        manifest.checkpoints = manifest.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(next)));
        let end = Lsn::new(next.get() - 1 + self.count_before_lost());
        self.end = Some(ScanEnd { last: end, confirmed: last, tail: None, damage: vec![] });
        self.carry = std::mem::take(&mut self.before_lost);
        true
    }

    /// The segments of which a cut takes something out of the log. The one that it ends in stays
    /// for the records before its damage, and only until those are pruned.
    fn leaving(&self) -> Vec<SegmentId> {
        if self.damage.is_empty() {
            return vec![];
        }
        let newest = self.catalog.chain.last().map(|link| link.segment.header.id);
        let newest = newest.filter(|newest| self.is_damaged(*newest));
        newest.into_iter().chain(self.segments_behind_end()).collect()
    }

    /// Their files, whatever layout.
    fn files_leaving(&self) -> Vec<String> {
        let leaving = self.leaving();
        let goes = |id: SegmentId| leaving.contains(&id);
        let names = self.catalog.names.iter();
        names.filter(|name| SegmentId::from_any_name(name).is_some_and(goes)).cloned().collect()
    }

    /// The segments that do not count once the log ends with its chain.
    fn segments_behind_end(&self) -> Vec<SegmentId> {
        let newest = self.catalog.chain.last().map(|link| link.segment.header.id);
        let names = self.catalog.names.iter();
        let ids = names.filter_map(|name| SegmentId::from_any_name(name));
        let mut ids: Vec<_> = ids.filter(|id| Some(*id) > newest).collect();
        ids.dedup();
        ids
    }
}
