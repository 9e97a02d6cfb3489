//! Repair in place: a damaged log gives up its end, from the first damage on. What leaves the log is
//! kept in quarantine.

use crate::directory::{self, LOCK};
use crate::inspect::{Inspection, Until, inspect};
use crate::open::{live_file, recover};
use crate::recovery::Verdict;
use crate::roll::Machine;
use crate::verify::look_around;
use crate::walk::End;
use crate::{
    Damage, Error, Lsn, Options, Result, SEGMENT_MIN, SegmentId, Verification, quarantine,
};
use seawall_format::next_lsn;
use seawall_io::{Lock, Storage};
use std::path::Path;
use std::sync::Arc;

/// What a repair in place did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The last record now; everything up to here is durable.
    pub last: Option<Lsn>,
    /// What was damaged.
    pub damage: Vec<Damage>,
    /// Where the files that left the log are kept, in its directory.
    pub quarantine: Vec<String>,
}

/// Judges a log for a repair: as [`verify`](crate::verify), but around what the device cannot read.
///
/// # Errors
///
/// [`Error::Busy`] if a writer has it open; [`Error::Io`], [`Error::NotALog`],
/// [`Error::Unsupported`].
pub fn diagnose(path: impl AsRef<Path>) -> Result<Verification> {
    diagnose_in(&directory::open_existing(path.as_ref())?)
}

/// Judges a log that another kind of storage holds.
///
/// # Errors
///
/// As [`diagnose`].
pub fn diagnose_in(storage: &Arc<dyn Storage>) -> Result<Verification> {
    refuse_in_use(&**storage)?;
    look_around(storage)
}

/// Ends the log in the directory `path` before its first damage, durably: what stands behind, intact
/// or not, is given up, and its segments go to quarantine. On a log without damage this does what
/// an open and a clean close do.
///
/// To keep the intact records behind the damage, use [`salvage`](crate::salvage).
///
/// # Errors
///
/// [`Error::Busy`] if another handle writes this log. [`Error::Damaged`] if there is nothing to
/// cut: the manifest or the first segment is lost, or the damage is before the oldest record.
/// [`Error::Io`]: a second try is safe.
///
/// # Examples
///
/// ```
/// use seawall::{Log, cut_tail};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-cut-tail-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// let lsn = log.append(&7)?;
/// log.close()?;
/// let done = cut_tail(&folder)?; // nothing is damaged: nothing goes
/// assert_eq!((done.last, done.damage.len()), (Some(lsn), 0));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cut_tail(path: impl AsRef<Path>) -> Result<Repaired> {
    cut_tail_in(&directory::open_existing(path.as_ref())?)
}

/// Repairs a log that another kind of storage holds.
///
/// # Errors
///
/// As [`cut_tail`].
pub fn cut_tail_in(storage: &Arc<dyn Storage>) -> Result<Repaired> {
    let lock = take(storage)?;
    let mut found = inspect(storage, Until::End)?;
    let damage = found.damage.clone();
    if found.row.verdict() == Verdict::Damage && !found.end_before_damage() {
        return Err(Error::Damaged(Box::new(found.damage_or_cut())));
    }
    let Some(manifest) = &found.survey.manifest else {
        // A creation that did not get far; the next open makes it whole.
        return Ok(Repaired { last: None, damage, quarantine: vec![] });
    };
    let segment_min = SEGMENT_MIN.min(manifest.segment_max);
    let options = Options { segment_min, ..Options::new() };
    let machine = Machine::new(&options, storage.clone());
    let gone = if damage.is_empty() { vec![] } else { found.segments_behind_end() };
    let mut kept = vec![];
    for segment in &gone {
        let name = quarantine::keep_segment(&machine, *segment);
        kept.push(name.map_err(Error::io(format!("keep {segment} in quarantine")))?);
    }
    if let (Some(live), Some(end)) = (live_file(&machine), found.survey.chain.last())
        && !damage.is_empty()
    {
        // Readers first: what is about to go must not be shown any more (R10).
        let header = &end.segment.header;
        live.tell(header.log, header.reference(), (found.sound_to, machine.clock.wall_us()));
    }
    let (mut writer, recovery, _) = recover(&options, machine, lock, &found)?;
    kept.extend(recovery.quarantine);
    writer.remove_segments(|id| gone.contains(&id))?;
    writer.close()?;
    Ok(Repaired { last: writer.last, damage, quarantine: kept })
}

fn take(storage: &Arc<dyn Storage>) -> Result<Box<dyn Lock>> {
    directory::survey(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    locked.ok_or_else(|| Error::Busy { place: storage.place() })
}

/// Refuses a log that a writer has open: it is not at rest, and looks damaged where it is not.
pub(crate) fn refuse_in_use(storage: &dyn Storage) -> Result<()> {
    let in_use = storage.is_locked(LOCK).map_err(Error::io(format!("look at {LOCK}")))?;
    if in_use { Err(Error::Busy { place: storage.place() }) } else { Ok(()) }
}

impl Inspection {
    /// Takes the last record before the first damage for the end of the log; false where there is no
    /// such place.
    fn end_before_damage(&mut self) -> bool {
        let Some(manifest) = &mut self.survey.manifest else { return false };
        let last = self.sound_to;
        let next = next_lsn(last);
        let links = &self.survey.chain;
        let whole = links.iter().take_while(|link| link.gap.is_none());
        let first = links.first().map(|link| link.segment.header.base);
        let reaches = |base: Lsn| base < next || (Some(base) == first && base == next);
        let reaches = whole.filter(|link| reaches(link.segment.header.base)).count();
        if reaches == 0 || next < manifest.oldest_base {
            return false;
        }
        self.survey.chain.truncate(reaches);
        self.survey.beyond = None;
        // What was to be kept for a replay ends with the log.
        manifest.checkpoints = manifest.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(next)));
        self.end = Some(End { last, confirmed: last, tail: None, damage: vec![] });
        true
    }

    /// The segments that do not count once the log ends with its chain.
    fn segments_behind_end(&self) -> Vec<SegmentId> {
        let newest = self.survey.chain.last().map(|link| link.segment.header.id);
        let ids = self.survey.names.iter().filter_map(|name| SegmentId::from_file_name(name));
        ids.filter(|id| Some(*id) > newest).collect()
    }
}
