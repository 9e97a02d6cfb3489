//! Repairs a log in place by truncating it at the first damage. Removed files are kept in
//! quarantine.

use crate::base::env::Env;
use crate::base::error::{Damage, Error, Result};
use crate::base::num::to_u64;
use crate::base::options::{Options, SEGMENT_MIN};
use crate::files::directory::QUARANTINE;
use crate::files::unlock::LogFiles;
use crate::maintenance::exclusive::{AtRest, take};
use crate::maintenance::unreported::{self, By, Losses, Note, notes};
use crate::maintenance::verify::{Verification, look_around_repaired};
use crate::recover::decision::{Action, Refusal};
use crate::recover::inspection::{Inspection, Until, inspect_repaired};
use crate::recover::open::resume;
use crate::recover::remaining::RemainingLog;
use crate::scan::catalog::log_id;
use crate::scan::quarantine;
use crate::write::preallocation::file::length_for;
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
    /// Bytes that the copies in quarantine and the new segment need while the old files still
    /// exist.
    pub room: u64,
    /// The copies of the removed files, as paths in the log's directory.
    pub quarantine: Vec<String>,
    /// The note of an interrupted truncation that removed records and could not report them: the
    /// next truncation reports them, too.
    pub unfinished: Option<String>,
}

impl TailTruncation {
    /// Adds what an interrupted truncation removed: the log does not show it.
    fn add(&mut self, losses: Losses) {
        let added = losses.damage.into_iter().filter(|damage| !self.damage.contains(damage));
        let added: Vec<_> = added.collect();
        // None is added if the interrupted truncation had yet to repair the log.
        self.intact_behind += if added.is_empty() { 0 } else { losses.intact_behind };
        self.damage.extend(added);
        let kept = losses.kept.into_iter().filter(|place| !self.quarantine.contains(place));
        self.quarantine.extend(kept.collect::<Vec<_>>());
    }
}

/// Verifies a log without a writer, skipping blocks that the device cannot read.
pub(crate) fn diagnose(storage: &Arc<dyn Storage>) -> Result<Verification> {
    let at_rest = AtRest::of(storage)?;
    at_rest.check(look_around_repaired(storage))
}

/// Plans what [`truncate_damaged_tail`] would do.
pub(crate) fn plan_truncation(log: &LogFiles) -> Result<TailTruncation> {
    let at_rest = AtRest::of(&log.storage)?;
    at_rest.check(plan(log))
}

fn plan(log: &LogFiles) -> Result<TailTruncation> {
    let found = inspect_repaired(log, Until::End)?;
    let mut cut = describe(&log.storage, &found, remaining(&found)?.as_ref())?;
    cut.unfinished = Earlier::of(&log.storage, &found)?.done.pop().map(|note| note.place);
    Ok(cut)
}

/// Truncates the log at the first damage that prevents opening it, and reports what interrupted
/// truncations removed. Also returns the notes to remove after the report.
pub(crate) fn truncate_damaged_tail(log: &LogFiles) -> Result<(TailTruncation, Vec<String>)> {
    let (storage, unlocker) = (&log.storage, &*log.unlocker);
    let lock = take(storage)?;
    let found = inspect_repaired(log, Until::End)?;
    let remaining = remaining(&found)?;
    let mut cut = describe(storage, &found, remaining.as_ref())?;
    let earlier = Earlier::of(storage, &found)?;
    let mut notes = earlier.done.iter().map(|note| note.place.clone()).collect::<Vec<_>>();
    // If nothing remains, creation was interrupted; the next open completes it.
    let Some(remaining) = remaining else { return Ok((cut, notes)) };
    let options = Options { segment_min: segment_min(&remaining), ..Options::new() };
    let env = Env::new(&options, storage.clone());
    env.set_keys(found.unlock(log)?);
    let mut gone = vec![];
    if !cut.damage.is_empty() {
        gone = segments_behind_end(&remaining);
        set_aside(&env, &files_leaving(&remaining), &mut cut)?;
        notes.push(earlier.note(&env, &found, &cut)?);
    }
    let (mut writer, recovery, _) = resume::resume(&options, env, (lock, unlocker), &remaining)?;
    cut.quarantine.extend(recovery.quarantine);
    // The new segment may have the name of a removed one, whose file it replaced.
    let newest = writer.tail.header.id;
    writer.remove_segments(|id| id != newest && gone.contains(&id))?;
    writer.close()?;
    cut.last = writer.last;
    for note in earlier.done {
        cut.add(note.losses);
    }
    Ok((cut, notes))
}

/// The notes of interrupted truncations.
struct Earlier {
    /// Of those that removed records.
    done: Vec<Note>,
    /// Of those that changed nothing.
    void: Vec<Note>,
}

impl Earlier {
    fn of(storage: &Arc<dyn Storage>, found: &Inspection) -> Result<Self> {
        let notes = notes(storage, log_id(&found.catalog), By::Truncation)?;
        let (done, void) = notes.into_iter().partition(|note| is_done(&note.losses, found));
        Ok(Self { done, void })
    }

    /// Notes what this truncation will remove, before it hides that. Returns the path of the note.
    fn note(&self, env: &Env, found: &Inspection, cut: &TailTruncation) -> Result<String> {
        let losses = losses(found, cut);
        let same = self.void.iter().find(|note| note.losses == losses);
        let useless = self.void.iter().map(|note| &note.place);
        let useless = useless.filter(|place| same.is_none_or(|same| same.place != **place));
        unreported::remove(&env.storage, &useless.cloned().collect::<Vec<_>>());
        if let Some(same) = same {
            return Ok(same.place.clone());
        }
        let id = log_id(&found.catalog).expect("the remaining log has a manifest");
        let written = unreported::write(env, (id, By::Truncation), &losses);
        written.inspect_err(|_| quarantine::discard(env, &cut.quarantine))
    }
}

/// Whether the truncation took effect: then the log continues before its lost records, in a segment
/// that is newer than all before, or that one was pruned, too.
fn is_done(losses: &Losses, found: &Inspection) -> bool {
    let next = next_lsn(losses.last);
    let chain = || found.catalog.chain.iter().map(|link| &link.segment.header);
    let continues = chain().any(|header| Some(header.id) > losses.max_id && header.base <= next);
    continues || chain().next().is_some_and(|first| first.base > next)
}

fn losses(found: &Inspection, cut: &TailTruncation) -> Losses {
    Losses {
        last: cut.last,
        max_id: found.catalog.max_id,
        intact_behind: cut.intact_behind,
        damage: cut.damage.clone(),
        kept: cut.quarantine.clone(),
        ..Losses::default()
    }
}

fn segment_min(remaining: &RemainingLog<'_>) -> u64 {
    SEGMENT_MIN.min(remaining.manifest.segment_max)
}

/// The log after the truncation; `None` if nothing was written to it yet.
fn remaining(found: &Inspection) -> Result<Option<RemainingLog<'_>>> {
    match found.row().action() {
        Action::Create => Ok(None),
        Action::Damage => match RemainingLog::before_damage(found) {
            Some(remaining) => Ok(Some(remaining)),
            None => Err(found.error(Refusal::Damaged)),
        },
        Action::Clean | Action::Torn | Action::Ambiguous => {
            let manifest = found.catalog.manifest().cloned().expect("the row has read it");
            let end = found.end.as_ref().expect("the row has seen the end");
            Ok(Some(RemainingLog::whole(found, end, manifest)))
        }
    }
}

/// What the truncation removes.
fn describe(
    storage: &Arc<dyn Storage>,
    found: &Inspection,
    remaining: Option<&RemainingLog<'_>>,
) -> Result<TailTruncation> {
    let mut cut = TailTruncation {
        last: remaining.and_then(|remaining| remaining.last),
        intact_behind: found.intact_behind,
        damage: found.damage.clone(),
        room: 0,
        quarantine: vec![],
        unfinished: None,
    };
    let leaving = remaining.map(files_leaving).unwrap_or_default();
    for name in &leaving {
        let length = storage.open(name, Access::Read).and_then(|file| file.len());
        cut.room += length.map_err(Error::io(format!("get the length of {name}")))?;
    }
    if let Some(remaining) = remaining.filter(|_| !cut.damage.is_empty()) {
        let carried: usize = remaining.salvaged.iter().map(|batch| batch.bytes.len()).sum();
        cut.room += length_for(&remaining.manifest, to_u64(carried), segment_min(remaining));
        let kept = leaving.iter().map(|name| format!("{QUARANTINE}/{:020}-{name}", 0)).collect();
        cut.room += to_u64(Losses { kept, ..losses(found, &cut) }.size());
    }
    Ok(cut)
}

/// Copies segment files to quarantine, all or none: the disk may be full, and nothing else was
/// changed yet.
fn set_aside(env: &Env, names: &[String], cut: &mut TailTruncation) -> Result<()> {
    let mut made = vec![];
    for name in names {
        match quarantine::keep_file(env, name) {
            Ok(copy) => made.push(copy),
            Err(error) => {
                quarantine::discard(env, &made);
                return Err(Error::io(format!("keep {name} in quarantine"))(error));
            }
        }
    }
    cut.quarantine.append(&mut made);
    Ok(())
}

/// The files of the segments that lose records, for both layouts. The last remaining segment is
/// among them if it is damaged: it stays in the log for the records before the damage, until these
/// are pruned.
fn files_leaving(remaining: &RemainingLog<'_>) -> Vec<String> {
    let found = remaining.found;
    if found.damage.is_empty() {
        return vec![];
    }
    let newest = remaining.newest().segment.header.id;
    let mut leaving = segments_behind_end(remaining);
    leaving.extend(Some(newest).filter(|newest| found.is_damaged(*newest)));
    let goes = |id: SegmentId| leaving.contains(&id);
    let names = found.catalog.names.iter();
    names.filter(|name| SegmentId::from_any_name(name).is_some_and(goes)).cloned().collect()
}

/// The segments past the end of the remaining chain.
fn segments_behind_end(remaining: &RemainingLog<'_>) -> Vec<SegmentId> {
    let newest = remaining.newest().segment.header.id;
    let names = remaining.found.catalog.names.iter();
    let ids = names.filter_map(|name| SegmentId::from_any_name(name));
    let mut ids: Vec<_> = ids.filter(|id| *id > newest).collect();
    ids.dedup();
    ids
}
