//! Restores damaged bytes from parity or a replica. A plan is verified in a view of the repaired
//! log first; only bytes proven by checksums and the hash chain are accepted.

pub(crate) mod apply;
pub(crate) mod diff;
pub(crate) mod extent;
pub(crate) mod journal;
pub(crate) mod parity_source;
pub(crate) mod planner;
pub(crate) mod replica;
pub(crate) mod source;

use crate::base::env::Env;
use crate::base::error::{Error, Lost, Result};
use crate::base::options::Options;
use crate::files::directory::not_a_log;
use crate::files::overlay::{Overlay, Patch, RepairSource};
use crate::maintenance::exclusive::{AtRest, take};
use crate::maintenance::restore::journal::Journal;
use crate::maintenance::restore::parity_source::ParitySource;
use crate::maintenance::restore::planner::Planner;
use crate::maintenance::restore::replica::{Replica, unproven};
use crate::maintenance::unreported::{self, By, Losses, Note, notes};
use crate::maintenance::verify::{Verification, look_around};
use crate::scan::catalog::Catalog;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::{LogId, Lsn};
use seawall_io::Storage;
use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use crate::files::overlay::part;
pub use crate::maintenance::restore::diff::{Change, DamageKind};
pub(crate) use crate::maintenance::restore::extent::{is_whole, place_of};
use crate::maintenance::restore::source::PatchSource;
use crate::scan::catalog::log_id;

/// The plan or the result of a repair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairPlan {
    /// Verification of the log before the repair.
    pub before: Verification,
    /// Verification after the repair; its damage cannot be restored.
    pub after: Verification,
    /// The changes, file by file.
    pub patches: Vec<Patch>,
    /// The kind of damage to these bytes, and the field and record they belong to.
    pub changes: Vec<Change>,
    /// Files that do not belong to the log, which are moved to quarantine.
    pub orphan_files: Vec<String>,
    /// The last record, if the log lost its end and only the replica tells where that is.
    pub end_by_replica: Option<Lsn>,
    /// Records of completely lost files that nothing in the log proves: they rest on the replica
    /// alone.
    pub unproven: Vec<Lost>,
    /// Lost records that a replica has but nothing in the log proves: they are not restored.
    pub refused: Vec<Lost>,
    /// The last record of a replica past the end of this log: such records are not restored.
    pub beyond: Option<Lsn>,
    /// The journal of an interrupted repair, which is completed first, or its note of what it could
    /// not report.
    pub unfinished: Option<String>,
    /// Copies of the original bytes, as paths in the log's directory; empty in a plan.
    pub quarantine: Vec<String>,
}

impl RepairPlan {
    /// Whether there is nothing to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patches.is_empty() && self.orphan_files.is_empty()
    }

    /// Bytes that the quarantine needs.
    #[must_use]
    pub fn quarantine_bytes(&self) -> u64 {
        journal::size(&self.patches)
    }

    /// Adds what an interrupted repair took from the replicas alone: the log does not show it.
    fn add(&mut self, trust: Trust) {
        self.end_by_replica = self.end_by_replica.or(trust.end_by_replica);
        for lost in trust.unproven {
            if !self.unproven.contains(&lost) {
                self.unproven.push(lost);
            }
        }
    }

    /// A view of the log with this plan applied.
    #[must_use]
    pub fn view(&self, log: &Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(Overlay::new(log.clone(), &self.patches).without(&self.orphan_files))
    }
}

/// Plans what [`repair`] would do.
pub(crate) fn plan_repair(
    log: &Arc<dyn Storage>,
    replicas: &[Arc<dyn Storage>],
) -> Result<RepairPlan> {
    let at_rest = AtRest::of(log)?;
    at_rest.check(plan_with_interrupted(log, replicas))
}

/// A plan that also says what interrupted repairs have to report.
fn plan_with_interrupted(
    log: &Arc<dyn Storage>,
    replicas: &[Arc<dyn Storage>],
) -> Result<RepairPlan> {
    let mut plan = plan(log, replicas)?;
    let id = log_id(&load_catalog(log, None)?);
    if let Some(pending) = journal::pending(log, id)? {
        plan.add(trust_of_interrupted(log, &pending.patches, replicas)?);
    }
    for Note { place, losses } in notes(log, id, By::Repair)? {
        plan.add(Trust::of(losses));
        plan.unfinished.get_or_insert(place);
    }
    Ok(plan)
}

/// Repairs a log in place from its parity and from `replicas`. Also returns the notes to remove
/// after the report.
pub(crate) fn repair(
    log: &Arc<dyn Storage>,
    replicas: &[Arc<dyn Storage>],
) -> Result<(RepairPlan, Vec<String>)> {
    // Held until the end, to keep out writers and other repairs.
    let _lock = take(log)?;
    let env = Env::new(&Options::new(), log.clone());
    // An interrupted repair may have removed or renamed files without syncing the directory.
    log.sync_dir().map_err(Error::io(format!("sync {}", log.place())))?;
    let (mut resumed, mut trust) = (None, Trust::default());
    let id = log_id(&load_catalog(log, None)?);
    let mut earlier = notes(log, id, By::Repair)?;
    if let Some(pending) = journal::pending(log, id)? {
        trust = trust_of_interrupted(log, &pending.patches, replicas)?;
        earlier.extend(note(&env, id, &trust)?);
        resumed = pending.complete(&env)?;
    }
    let mut plan = plan(log, replicas)?;
    let own = Trust { end_by_replica: plan.end_by_replica, unproven: plan.unproven.clone() };
    plan.add(trust);
    plan.quarantine.extend(resumed);
    let mut places = vec![];
    for Note { place, losses } in earlier {
        plan.add(Trust::of(losses));
        places.push(place);
    }
    if plan.is_empty() {
        return Ok((plan, places));
    }
    let mut journal = None;
    if !plan.patches.is_empty() {
        let id = log_id(&load_catalog(log, None)?).ok_or_else(|| unknown(&**log))?;
        let written = Journal::write(&env, id, &plan.patches)?;
        plan.quarantine.push(written.place());
        journal = Some(written);
        apply::patches(&env, &plan.patches)?;
    }
    plan.quarantine.extend(apply::orphan_files(&env, &plan.orphan_files)?);
    apply::manifest(&env, &plan.patches)?;
    is_as_planned(log, &plan)?;
    places.extend(note(&env, log_id(&load_catalog(log, None)?), &own)?.map(|note| note.place));
    journal.map_or(Ok(()), Journal::done)?;
    Ok((plan, places))
}

/// Notes what the log will not show once the journal of its repair is done.
fn note(env: &Env, id: Option<LogId>, trust: &Trust) -> Result<Option<Note>> {
    let (end_by_replica, unproven) = (trust.end_by_replica, trust.unproven.clone());
    let losses = Losses { end_by_replica, unproven, ..Losses::default() };
    let Some(id) = id.filter(|_| losses != Losses::default()) else { return Ok(None) };
    let place = unreported::write(env, (id, By::Repair), &losses)?;
    Ok(Some(Note { place, losses }))
}

/// Checks that the device returns the planned contents.
fn is_as_planned(log: &Arc<dyn Storage>, plan: &RepairPlan) -> Result<()> {
    let found = look_around(log)?;
    if (found.records, &found.damage) == (plan.after.records, &plan.after.damage) {
        return Ok(());
    }
    let other = std::io::Error::other(
        "read back different bytes than were written; the device is unreliable",
    );
    Err(Error::io(format!("verify {} after the repair", log.place()))(other))
}

fn plan(log: &Arc<dyn Storage>, replicas: &[Arc<dyn Storage>]) -> Result<RepairPlan> {
    let looked = load_catalog(log, None)?;
    let id = log_id(&looked);
    // Parity first: it works without a replica.
    let mut sources: Vec<Box<dyn PatchSource>> = vec![Box::new(ParitySource)];
    for replica in replicas {
        let id = id.ok_or_else(|| unknown(&**log))?;
        sources.push(Box::new(Replica::open(log, replica.clone(), id)?));
    }
    let end = known_end(&looked)?;
    let planned = Planner::new(log, &sources, end)?.plan()?;
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(log.clone(), &planned.patches));
    let repaired = Repaired {
        storages: (log, &view),
        found: (&planned.before, &planned.after),
        patches: &planned.patches,
        end,
    };
    let trust = repaired.trust(replicas)?;
    let last = planned.after.last_lsn;
    let beyond = sources.iter().filter_map(|source| source.last()).max();
    Ok(RepairPlan {
        unproven: trust.unproven,
        refused: refused(&planned.after, &sources),
        end_by_replica: trust.end_by_replica,
        beyond: beyond.filter(|beyond| Some(*beyond) > last),
        unfinished: journal::unfinished(log, id)?,
        changes: diff::describe(log, &planned.patches)?,
        before: planned.before,
        after: planned.after,
        patches: planned.patches,
        orphan_files: planned.orphan_files,
        quarantine: vec![],
    })
}

/// The records that stay lost although they are intact in a source.
fn refused(after: &Verification, sources: &[Box<dyn PatchSource>]) -> Vec<Lost> {
    let intact = || sources.iter().flat_map(|source| source.intact());
    let lost = after.damage.iter().filter_map(|damage| damage.lost);
    let mut found: Vec<_> =
        lost.flat_map(|lost| intact().filter_map(move |there| lost.common(*there))).collect();
    found.sort_by_key(|lost| (lost.from, lost.to));
    let mut refused: Vec<Lost> = vec![];
    for lost in found {
        // Several sources may have the same records.
        match refused.last_mut().filter(|run| run.names(lost.from)) {
            Some(run) => run.to = run.to.max(lost.to),
            None => lost.join(&mut refused),
        }
    }
    refused
}

/// What a repair takes from the replicas alone.
#[derive(Default)]
struct Trust {
    end_by_replica: Option<Lsn>,
    unproven: Vec<Lost>,
}

impl Trust {
    /// The trust that a note says.
    fn of(losses: Losses) -> Self {
        Self { end_by_replica: losses.end_by_replica, unproven: losses.unproven }
    }
}

/// A log before and after a repair.
struct Repaired<'a> {
    storages: (&'a Arc<dyn Storage>, &'a Arc<dyn Storage>),
    found: (&'a Verification, &'a Verification),
    patches: &'a [Patch],
    /// The last record that the log knew of before.
    end: Option<Lsn>,
}

impl Repaired<'_> {
    fn trust(&self, replicas: &[Arc<dyn Storage>]) -> Result<Trust> {
        let (before, after) = self.found;
        // Parity comes from the log itself, so an end that it restores does not rest on a replica.
        let of_replica = self.patches.iter().any(|patch| patch.by == RepairSource::Replica);
        let was_lost = before.is_open() && !after.is_open();
        // An unreadable place where the log ends may have held more records.
        let is_hidden = before.hides_end() && !after.ends_as_closed(before);
        let is_by_replica = (self.end.is_none() || is_hidden) && was_lost && of_replica;
        Ok(Trust {
            end_by_replica: after.last_lsn.filter(|_| is_by_replica),
            unproven: unproven(self.storages, replicas, self.patches)?,
        })
    }
}

/// What an interrupted repair with these patches takes from the replicas alone.
fn trust_of_interrupted(
    log: &Arc<dyn Storage>,
    patches: &[Patch],
    replicas: &[Arc<dyn Storage>],
) -> Result<Trust> {
    if patches.is_empty() {
        return Ok(Trust::default());
    }
    let before: Arc<dyn Storage> = Arc::new(Overlay::before(log.clone(), patches));
    let after: Arc<dyn Storage> = Arc::new(Overlay::new(log.clone(), patches));
    let found = (look_around(&before)?, look_around(&after)?);
    let repaired = Repaired {
        storages: (&before, &after),
        found: (&found.0, &found.1),
        patches,
        end: known_end(&load_catalog(&before, None)?)?,
    };
    repaired.trust(replicas)
}

fn unknown(log: &dyn Storage) -> Error {
    not_a_log(log, "neither a manifest nor the header of a segment can be read")
}

/// The last record that the log itself knows of; `None` if the newest file is incomplete.
fn known_end(catalog: &Catalog) -> Result<Option<Lsn>> {
    let is_there = catalog.chain.last().is_some_and(|link| link.segment.bytes_missing() == 0);
    if catalog.missing_tail().is_some() || !is_there {
        return Ok(None);
    }
    let mut scan = LogScanner::new(catalog, None).skip_io_errors(true).without_decoding();
    let mut last = None;
    loop {
        match scan.step()? {
            ScanItem::Batch(batch) => last = last.max(Some(batch.last)),
            ScanItem::Damage(damages, _) => {
                let ends = damages.iter().filter_map(|damage| damage.lost?.to);
                last = last.max(ends.max());
            }
            ScanItem::End(end) => return Ok(last.max(end.last).max(end.confirmed)),
        }
    }
}
