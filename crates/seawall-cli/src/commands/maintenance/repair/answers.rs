//! `seawall repair --json`: one schema, with a shape for each value of `done`.

use crate::args::Repair;
use crate::commands::answers::{CopiedTail, Damage, Lost, Orphan};
use seawall::repair::{self, DamageKind, Patch, RepairPlan, SalvageReport, TailTruncation};
use seawall::verify::Verification;
use seawall::{Lsn, damage};
use seawall_output::answer;
use serde::Serialize;
use std::path::Path;

answer! {
    /// A plan: what can be done. Nothing was changed.
    #[serde(tag = "schema", rename = "seawall.repair/1")]
    pub(super) struct Plan(
        args: &Repair,
        found: &Verification,
        cut: Option<&TailTruncation>,
        mend: Option<&RepairPlan>
    ) {
        log: String = args.log.display().to_string(),
        done: Option<&'static str> = None,
        verdict: &'static str = found.verdict.name(),
        records: u64 = found.records,
        first_lsn: Option<u64> = found.first_lsn.map(Lsn::get),
        last_lsn: Option<u64> = found.last_lsn.map(Lsn::get),
        damage: Vec<Damage> = found.damage.iter().map(Damage::of).collect(),
        given_up: Vec<Lost> = found.given_up.iter().map(Lost::of).collect(),
        orphans: Vec<Orphan> = found.orphans.iter().map(Orphan::of).collect(),
        broken_sets: u64 = found.broken_sets,
        cut_tail: Option<CutTail> = cut.map(|cut| CutTail::of(cut, found)),
        /// Missing if the id of the log is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        mend: Option<Mend> = mend.map(Mend::of),
    }
}

answer! {
    /// What `--cut-tail` would do.
    struct CutTail(cut: &TailTruncation, found: &Verification) {
        last_lsn: Option<u64> = cut.last.map(Lsn::get),
        intact_given_up: u64 = cut.intact_behind,
        room_bytes: u64 = cut.room,
        /// The LSNs from the first intact record that would be removed to the last one.
        given_up: Vec<Lost> = cut_off(cut, found).iter().map(Lost::of).collect(),
        /// Missing unless a removal of records has yet to be reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        unfinished: Option<String> = cut.unfinished.clone(),
    }
}

answer! {
    /// A repair in place, planned or done.
    struct Mend(mend: &RepairPlan) {
        verdict: &'static str = mend.after.verdict.name(),
        records: u64 = mend.after.records,
        damage: Vec<Damage> = mend.after.damage.iter().map(Damage::of).collect(),
        changes: Vec<Change> = changes(mend),
        strays: Vec<String> = mend.orphan_files.clone(),
        quarantine_bytes: u64 = mend.quarantine_bytes(),
        end_by_replica: Option<u64> = mend.end_by_replica.map(Lsn::get),
        unproven: Vec<Lost> = mend.unproven.iter().map(Lost::of).collect(),
        refused: Vec<Lost> = mend.refused.iter().map(Lost::of).collect(),
        not_taken_to: Option<u64> = mend.beyond.map(Lsn::get),
        unfinished: Option<String> = mend.unfinished.clone(),
    }
}

fn changes(mend: &RepairPlan) -> Vec<Change> {
    let pairs = mend.patches.iter().zip(&mend.changes);
    pairs.map(|(patch, change)| Change::of(patch, change)).collect()
}

answer! {
    /// Bytes that a repair replaces.
    struct Change(patch: &Patch, change: &repair::Change) {
        file: String = change.file.clone(),
        offset: u64 = change.offset,
        bytes: u64 = change.bytes,
        was: &'static str = change.was.name(),
        bit: Option<u8> = match change.was {
            DamageKind::Bit(bit) => Some(bit),
            _ => None,
        },
        place: String = change.place.clone(),
        first_lsn: Option<u64> = change.records.map(|(first, _)| first.get()),
        last_lsn: Option<u64> = change.records.map(|(_, last)| last.get()),
        by: &'static str = patch.by.name(),
    }
}

answer! {
    /// A repair in place.
    #[serde(tag = "schema", rename = "seawall.repair/1")]
    pub(super) struct Mended(args: &Repair, mended: &RepairPlan) {
        log: String = args.log.display().to_string(),
        done: &'static str = "mend",
        mend: Mend = Mend::of(mended),
        damage: Vec<Damage> = mended.after.damage.iter().map(Damage::of).collect(),
        quarantine: Vec<String> = mended.quarantine.clone(),
    }
}

answer! {
    /// `--salvage-to`
    #[serde(tag = "schema", rename = "seawall.repair/1")]
    pub(super) struct Salvaged(args: &Repair, target: &Path, salvaged: &SalvageReport) {
        log: String = args.log.display().to_string(),
        done: &'static str = "salvage",
        target: String = target.display().to_string(),
        records: u64 = salvaged.records,
        first_lsn: Option<u64> = salvaged.first.map(Lsn::get),
        last_lsn: Option<u64> = salvaged.last.map(Lsn::get),
        damage: Vec<Damage> = salvaged.damage.iter().map(Damage::of).collect(),
        given_up: Vec<Lost> = salvaged.given_up.iter().map(Lost::of).collect(),
        broken_sets: u64 = salvaged.broken_sets,
        tail: CopiedTail = CopiedTail::of(salvaged.tail),
        end_by_replica: Option<u64> = salvaged.end_by_replica.map(Lsn::get),
        unproven: Vec<Lost> = salvaged.unproven.iter().map(Lost::of).collect(),
        refused: Vec<Lost> = salvaged.refused.iter().map(Lost::of).collect(),
        not_taken_to: Option<u64> = salvaged.beyond.map(Lsn::get),
    }
}

answer! {
    /// `--cut-tail`, with the preceding repair in place.
    #[serde(tag = "schema", rename = "seawall.repair/1")]
    pub(super) struct Cut(
        args: &Repair,
        cut: &TailTruncation,
        found: &Verification,
        mend: Option<&RepairPlan>
    ) {
        log: String = args.log.display().to_string(),
        done: &'static str = "cut-tail",
        last_lsn: Option<u64> = cut.last.map(Lsn::get),
        damage: Vec<Damage> = cut.damage.iter().map(Damage::of).collect(),
        intact_given_up: u64 = given_up(cut),
        mend: Option<Mend> = mend.map(Mend::of),
        quarantine: Vec<String> = quarantine(cut, mend),
        given_up: Vec<Lost> = cut_off(cut, found).iter().map(Lost::of).collect(),
    }
}

/// Intact records that were given up with the damage.
pub(super) fn given_up(cut: &TailTruncation) -> u64 {
    if cut.damage.is_empty() { 0 } else { cut.intact_behind }
}

/// The LSNs between which the truncation of the log, in which `found` was found, gives up intact
/// records. The end is unknown if an interrupted truncation removed them.
pub(super) fn cut_off(cut: &TailTruncation, found: &Verification) -> Option<damage::Lost> {
    let from = cut.last.map(Lsn::next).or(found.first_lsn).unwrap_or(Lsn::FIRST);
    let to = found.last_lsn.filter(|last| *last >= from);
    (given_up(cut) > 0).then(|| damage::Lost::new(from, to))
}

fn quarantine(cut: &TailTruncation, mend: Option<&RepairPlan>) -> Vec<String> {
    let before = mend.iter().flat_map(|mend| &mend.quarantine);
    before.chain(&cut.quarantine).cloned().collect()
}
