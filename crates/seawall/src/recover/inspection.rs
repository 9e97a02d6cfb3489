//! Inspection: finds the state of a log, without writing. The facts do not change afterwards.

use crate::base::error::{Corruption, Damage, Error, Lost, Result, is_read_error};
use crate::base::keys::LogKeys;
use crate::base::num::to_u64;
use crate::base::options::OpenMode;
use crate::files::overlay::Patch;
use crate::files::unlock::{LogFiles, lost_keys, require_key};
use crate::read::read_repair::{ReadRepair, hides_end};
use crate::recover::decision::continuation::FoundBatch;
use crate::recover::decision::{
    Action, ChainState, Decision, Evidence, ManifestState, RecoveryCase, Refusal,
};
use crate::scan::catalog::{Catalog, ChainTop, FoundManifest, KeysLost};
use crate::scan::intact::{AtomicSet, Salvaged};
use crate::scan::load::load_unlocked;
use crate::scan::scanner::{LogScanner, ScanEnd, ScanItem};
use crate::write::pending::RewriteBatch;
use seawall_format::batch::{BodyKind, HEADER_SIZE};
use seawall_format::{Lsn, Manifest, SegmentId, frame, next_lsn, tail};

/// State of a log, found without writing.
#[derive(Debug)]
pub(crate) struct Inspection {
    pub(crate) catalog: Catalog,
    /// The first damage, or all of it after [`Until::End`].
    pub(crate) damage: Vec<Damage>,
    /// Damage that parity repaired in the view that was inspected.
    pub(crate) mended: Vec<Patch>,
    /// Records that a repair gave up.
    pub(crate) given_up: Vec<Lost>,
    /// The last record before the first damage.
    pub(crate) sound_to: Option<Lsn>,
    /// Intact records between `sound_to` and the first lost one.
    pub(crate) before_lost: Vec<RewriteBatch>,
    /// Schema number of those records.
    pub(crate) schema_before_lost: u32,
    /// Number of intact records after the first damage.
    pub(crate) intact_behind: u64,
    /// The end of the last damaged place of the newest segment.
    pub(crate) damaged_to: Option<Lsn>,
    pub(crate) end: Option<ScanEnd>,
    /// The first record.
    pub(crate) first: Option<Lsn>,
    /// The batches of the newest segment.
    pub(crate) batches: Vec<FoundBatch>,
    /// The chain value of the batch before them, or 0.
    pub(crate) chain_before: u64,
}

/// How far an inspection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To the first damage.
    Damage,
    /// To the end, past all damage.
    End,
}

/// Inspects the log. If damage or an ambiguous end is in the way, repairs what parity can and
/// inspects the repaired view.
pub(crate) fn inspect_repaired(log: &LogFiles, until: Until) -> Result<Inspection> {
    let (mut read_repair, mut view, mut first) = (ReadRepair::default(), log.storage.clone(), None);
    let found = loop {
        let looked = inspect(&log.with_storage(view.clone()), until);
        let next = match &looked {
            Err(error) if is_read_error(error) => read_repair.view(&view, [None])?,
            Ok(found) if matches!(found.row().action(), Action::Damage | Action::Ambiguous) => {
                read_repair.view(&view, found.doubtful())?
            }
            _ => None,
        };
        match next {
            Some(next) => {
                view = next;
                first.get_or_insert(looked);
            }
            None => break looked?,
        }
    };
    // Repairs that change nothing in the result are not reported: no record was damaged.
    match first {
        Some(Ok(first)) if found.matches(&first) => Ok(first),
        _ => Ok(Inspection { mended: read_repair.patches, ..found }),
    }
}

/// Reads the log.
pub(crate) fn inspect(log: &LogFiles, until: Until) -> Result<Inspection> {
    let catalog = load_unlocked(&log.storage, None, &log.unlocker)?;
    require_key(&log.unlocker, catalog.is_encrypted())?;
    if let Some(KeysLost::From(first)) = catalog.keys_lost {
        return Err(Error::damaged(lost_keys(first)));
    }
    let newest = catalog.chain.last().map(|link| link.segment.clone());
    let newest_base = newest.as_ref().map(|newest| newest.header.base);
    let mut found = Inspection {
        damage: vec![],
        mended: vec![],
        given_up: vec![],
        sound_to: None,
        before_lost: vec![],
        schema_before_lost: 0,
        intact_behind: 0,
        damaged_to: None,
        end: None,
        first: catalog.chain.first().map(|link| link.segment.header.base),
        batches: vec![],
        chain_before: newest.as_ref().map_or(0, |newest| newest.header.pred_chain),
        catalog,
    };
    let needed = found.catalog.manifest().and_then(Manifest::newest_checkpoint);
    // Segments before the one with the checkpoint are judged by their headers and links alone. If
    // those show a fault, earlier records must be read as well.
    let needed = needed.filter(|_| found.catalog.first_fault().is_none());
    let mut scan = LogScanner::new(&found.catalog, needed);
    found.sound_to = scan.last();
    while found.end.is_none() && (until == Until::End || found.damage.is_empty()) {
        match scan.step()? {
            ScanItem::Batch(batch) => {
                let (first, last) = (batch.header.first, batch.last);
                if found.damage.is_empty() {
                    found.sound_to = Some(last);
                } else if !batch.header.is_void() {
                    found.intact_behind += last.get() - first.get() + 1;
                }
                if batch.header.is_void() {
                    Lost { from: first, to: Some(last) }.join(&mut found.given_up);
                }
                if Some(first) >= newest_base {
                    let (chain, end) = (batch.header.chain_value(), batch.end);
                    found.batches.push(FoundBatch { first, last, chain, end });
                }
            }
            ScanItem::Damage(damages, salvaged) => {
                let mut kept = 0;
                if found.damage.is_empty() {
                    found.before_lost = found.intact_prefix(&salvaged, scan.bytes());
                    found.schema_before_lost = scan.schema();
                    kept = found.count_before_lost();
                }
                found.damaged_to = scan.last().filter(|last| Some(*last) >= newest_base);
                found.damage.extend(damages);
                found.intact_behind += to_u64(salvaged.len()) - kept;
            }
            ScanItem::End(end) => {
                if end.damage.iter().any(|damage| damage.lost.is_some()) {
                    found.damaged_to = end.last;
                }
                found.end = Some(end);
            }
        }
    }
    if found.catalog.keys_lost.is_some() {
        return Err(Error::damaged(lost_keys(next_lsn(scan.last()))));
    }
    found.damage.extend(found.end.iter().flat_map(|end| end.damage.clone()));
    Ok(found)
}

impl Inspection {
    /// The keys for the records to come; `None` if these are not encrypted.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] if the keys are lost.
    pub(crate) fn unlock(&self, log: &LogFiles) -> Result<Option<LogKeys>> {
        let manifest = self.catalog.manifest();
        let keys = log.unlocker.unlock(&**log, manifest)?;
        let encrypts = manifest.is_some_and(|manifest| manifest.authenticator.is_some());
        if encrypts && keys.is_none() {
            return Err(Error::damaged(lost_keys(next_lsn(self.sound_to))));
        }
        Ok(keys)
    }

    /// The row of the recovery table.
    pub(crate) fn row(&self) -> RecoveryCase {
        self.evidence().row()
    }

    /// What an open in this mode does.
    pub(crate) fn decide(&self, mode: OpenMode) -> Decision {
        self.evidence().decide(mode)
    }

    fn evidence(&self) -> Evidence {
        let (catalog, end) = (&self.catalog, self.end.as_ref());
        let newest = catalog.chain.last().map(|link| &link.segment);
        Evidence {
            manifest: match catalog.found_manifest {
                FoundManifest::Readable { .. } => ManifestState::Readable,
                FoundManifest::Lost => ManifestState::Lost,
                FoundManifest::Never => ManifestState::Never,
            },
            chain: match (catalog.first_fault(), &catalog.top) {
                (Some(fault), ChainTop::Missing(_)) => ChainState::NewestMissing(fault),
                (Some(fault), _) => ChainState::Gap(fault),
                (None, _) => ChainState::Whole,
            },
            valid: end.and_then(|end| end.last),
            confirmed: end.and_then(|end| end.confirmed),
            is_whole: newest.is_none_or(|newest| newest.bytes_missing() == 0),
            has_damage: !self.damage.is_empty(),
            tail: self.tail_row(),
        }
    }

    /// Form of the bytes after the valid prefix; `None` if the scan did not reach its end. If
    /// parity restored the block in which the log ends, that block may have held more records.
    pub(crate) fn tail_row(&self) -> Option<tail::Row> {
        let tail = self.end.as_ref()?.tail.as_ref()?;
        let newest = self.catalog.chain.last().map(|link| &link.segment.header);
        let is_hidden = newest.is_some_and(|newest| hides_end(&self.mended, newest, tail.offset));
        let is_clean = tail.row == tail::Row::Clean;
        Some(if is_clean && is_hidden { tail::Row::Otherwise } else { tail.row })
    }

    /// Whether another inspection found the same records, damage and end.
    fn matches(&self, other: &Self) -> bool {
        let says = |found: &Self| {
            let links = found.catalog.chain.len();
            (found.row(), links, found.sound_to, found.intact_behind)
        };
        says(self) == says(other)
            && (&self.end, &self.damage) == (&other.end, &other.damage)
            && (&self.batches, &self.given_up) == (&other.batches, &other.given_up)
    }

    /// The error of an open that is refused.
    pub(crate) fn error(&self, refusal: Refusal) -> Error {
        match refusal {
            Refusal::Damaged => Error::damaged(self.first_damage()),
            Refusal::Ambiguous => self.ambiguous_error(),
        }
    }

    /// The damage to report for the row.
    fn first_damage(&self) -> Damage {
        let valid = self.end.as_ref().and_then(|end| end.last);
        let lost = Some(Lost { from: next_lsn(valid), to: None });
        let gap = self.catalog.chain.iter().find_map(|link| link.gap.as_ref()).map(|gap| &gap.1);
        match (self.row(), gap.or(self.damage.first())) {
            (RecoveryCase::ManifestUnreadable, _) | (_, None) => {
                Damage { lost, ..Damage::new(Corruption::Manifest) }
            }
            (_, Some(damage)) => self.joined_at_offset(damage),
        }
    }

    /// The intact records of a damaged place before the first lost one, whole sets only. The place
    /// may have held several batches, so sets are packed into batches that are not too large.
    fn intact_prefix(&self, salvaged: &[Salvaged], bytes: &[u8]) -> Vec<RewriteBatch> {
        let geometry = self.catalog.chain.last().map(|link| link.segment.header.geometry);
        let room = geometry.map_or(0, |geometry| u64::from(geometry.batch_max));
        let time_us = salvaged.first().map_or(0, |record| record.time_us);
        let batch = |first| {
            let bytes = vec![0; HEADER_SIZE];
            RewriteBatch { bytes, first, count: 0, kind: BodyKind::Frames, time_us }
        };
        let first = next_lsn(self.sound_to);
        let (mut kept, mut open) = (vec![], batch(first));
        let sets = salvaged.chunk_by(|one, next| one.goes_on && next.lsn == one.lsn.next());
        let mut next = first;
        for set in sets {
            let follows = set.first().is_some_and(|record| record.lsn == next);
            if !follows || set.iter().any(|record| record.set != AtomicSet::Whole) {
                break;
            }
            let sizes = set.iter().map(|record| frame::size_on_disk(record.payload.len()));
            let size: usize = sizes.sum();
            if open.count > 0 && to_u64(open.bytes.len() + size) > room {
                kept.push(std::mem::replace(&mut open, batch(next)));
            }
            if to_u64(open.bytes.len() + size) > room {
                break;
            }
            let end = set.last().map(|record| record.lsn);
            for record in set {
                let payload = bytes.get(record.payload.clone()).expect("the scan has read it");
                // A set that a truncation shortened ends where the log was truncated.
                let goes_on = record.goes_on && Some(record.lsn) < end;
                frame::push_unbound(&mut open.bytes, payload, goes_on);
                (open.count, next) = (open.count + 1, record.lsn.next());
            }
        }
        kept.extend(Some(open).filter(|open| open.count > 0));
        kept
    }

    pub(crate) fn count_before_lost(&self) -> u64 {
        self.before_lost.iter().map(|kept| u64::from(kept.count)).sum()
    }

    /// Joins everything that was lost at the place of `damage` into one range.
    fn joined_at_offset(&self, damage: &Damage) -> Damage {
        let place = |one: &&Damage| (one.segment, one.offset) == (damage.segment, damage.offset);
        let end = self.damage.iter().filter(place).filter_map(|one| one.lost).next_back();
        let lost = damage.lost.map(|lost| Lost { to: end.map_or(lost.to, |end| end.to), ..lost });
        Damage { lost, ..damage.clone() }
    }

    /// Whether this segment has damage.
    pub(crate) fn is_damaged(&self, segment: SegmentId) -> bool {
        self.damage.iter().any(|damage| damage.segment == Some(segment))
    }

    /// Segments with damage or doubtful content.
    fn doubtful(&self) -> Vec<Option<SegmentId>> {
        let end = self.end.as_ref().map(ScanEnd::doubtful).unwrap_or_default();
        self.damage.iter().map(|damage| damage.segment).chain(end).collect()
    }

    /// The error of a strict open with an ambiguous end.
    fn ambiguous_error(&self) -> Error {
        let tail = self.end.as_ref().and_then(|end| end.tail.as_ref());
        let tail = tail.expect("the action is about the tail");
        Error::Ambiguous { log: None, segment: tail.segment, offset: tail.offset }
    }
}
