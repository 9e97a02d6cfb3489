//! Selects which of the offered patches to apply. A patch is accepted if the log, verified as a
//! whole in a view with the patch, has less damage than before, no new damage, and none inside the
//! patch.

use crate::base::error::{Corruption, Damage, Result};
use crate::base::num::to_u64;
use crate::files::directory::KEYS;
use crate::files::overlay::{Overlay, Patch, RepairSource, Unknown, part};
use crate::files::segment_reader::read_around;
use crate::maintenance::restore::extent::{is_whole, place_of};
use crate::maintenance::restore::source::PatchSource;
use crate::maintenance::verify::{Verification, look_around};
use crate::parity::reconstruct::FoundPatches;
use crate::read::read_repair::keeps_intact_records;
use crate::scan::catalog::FoundManifest;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::{Lsn, SegmentId};
use seawall_io::{Access, Storage};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How many rounds of asking all sources.
const ROUNDS: u32 = 8;
/// How many verifications of the log per plan.
const TRIES: u32 = 256;
/// How often a set of patches is reduced by the parts that remain damaged.
const SHRINKS: u32 = 8;

/// The result of planning.
pub(super) struct Planned {
    pub(super) before: Verification,
    pub(super) after: Verification,
    pub(super) patches: Vec<Patch>,
    pub(super) orphan_files: Vec<String>,
}

/// A plan under construction.
pub(super) struct Planner<'a> {
    log: &'a Arc<dyn Storage>,
    sources: &'a [Box<dyn PatchSource>],
    /// The last record that the log itself knows of.
    end: Option<Lsn>,
    patches: Vec<Patch>,
    /// Zeros in the offered patches for bytes that parity does not cover.
    unknown: Vec<Unknown>,
    orphan_files: Vec<String>,
    before: Verification,
    now: Assessment,
    tries: u32,
}

/// The verification of a view.
#[derive(Clone, Debug)]
struct Assessment {
    found: Verification,
    /// The byte range of each damage.
    places: Vec<Range<u64>>,
    /// Number of readable manifest slots.
    slots: usize,
}

impl Assessment {
    fn of(view: &Arc<dyn Storage>) -> Result<Self> {
        let slots = match load_catalog(view, None)?.found_manifest {
            FoundManifest::Readable { both_slots, .. } => 1 + usize::from(both_slots),
            FoundManifest::Lost | FoundManifest::Never => 0,
        };
        let found = look_around(view)?;
        let places = found.damage.iter().map(|damage| place_of(&**view, damage));
        let places = places.collect::<Result<_>>()?;
        Ok(Self { found, places, slots })
    }

    /// All damage with its byte ranges.
    fn damaged(&self) -> impl Iterator<Item = Damaged> {
        let pairs = self.found.damage.iter().zip(&self.places);
        pairs.map(|(damage, place)| Damaged { damage: damage.clone(), place: place.clone() })
    }

    /// The current damage that contains `inner`.
    fn around(&self, inner: &Damaged) -> Option<Damaged> {
        self.damaged().find(|outer| outer.contains(inner))
    }

    /// Whether `self` adds no damage and loses no record. A `source` of this very log may show
    /// where the log ends, which lowers the number of records.
    fn is_no_worse_than(&self, before: &Self, source: &dyn PatchSource) -> bool {
        let is_there = self.found.records >= before.found.records
            || (source.is_of_this_log() && self.finds_end_of(before));
        let is_sound = is_there && self.slots >= before.slots && !self.hides_loss_of(before);
        // Valid batches that are not consecutive are worse than a damaged one: the bytes between
        // them come from another history.
        let is_known = |damage: Damaged| {
            let mut known = before.damaged().filter(|known| known.contains(&damage));
            known.any(|known| known.is_order() || !damage.is_order())
        };
        is_sound && self.damaged().all(is_known)
    }

    fn is_better_than(&self, before: &Self, source: &dyn PatchSource) -> bool {
        let holes = |found: &Verification| found.damage.iter().filter(|one| is_whole(one)).count();
        let rank = |assessment: &Self| {
            let found = &assessment.found;
            let less = |count| usize::MAX - count;
            (found.records, less(holes(found)), less(found.damage.len()), assessment.slots)
        };
        (source.is_of_this_log() && self.finds_end_of(before)) || rank(self) > rank(before)
    }

    /// Whether the end of the log is known now and was not before.
    fn finds_end_of(&self, before: &Self) -> bool {
        before.found.is_open() && !self.found.is_open()
    }

    /// Whether the patches only turn an unreadable place after the last record into zeros: then the
    /// log would end there, although nothing proves that no record was lost.
    fn hides_loss_of(&self, before: &Self) -> bool {
        let is_same = self.found.last_lsn == before.found.last_lsn;
        before.found.hides_end()
            && is_same
            && !self.found.is_open()
            && !self.found.ends_as_closed(&before.found)
    }
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        log: &'a Arc<dyn Storage>,
        sources: &'a [Box<dyn PatchSource>],
        end: Option<Lsn>,
    ) -> Result<Self> {
        let now = Assessment::of(log)?;
        let before = now.found.clone();
        Ok(Self {
            log,
            sources,
            end,
            patches: vec![],
            unknown: vec![],
            orphan_files: vec![],
            before,
            now,
            tries: 0,
        })
    }

    pub(super) fn plan(mut self) -> Result<Planned> {
        for _ in 0..ROUNDS {
            let mut goes_on = false;
            for source in self.sources {
                let view = self.view(&[], &[]);
                let offered = source.patches(&view, &self.now.found)?;
                let FoundPatches { patches: offered, unknown } = offered;
                self.unknown.extend(unknown);
                goes_on |= self.take(&**source, &offered)?;
            }
            if !goes_on && !self.take_lost_file()? {
                break;
            }
        }
        for source in self.sources {
            let orphan_files = source.orphan_files(&self.view(&[], &[]), &self.now.found)?;
            self.quarantine_files(&**source, orphan_files)?;
        }
        self.take_orphans()?;
        self.patches.sort_by(|one, next| (&one.file, one.offset).cmp(&(&next.file, next.offset)));
        for patch in &mut self.patches {
            patch.old = old_bytes(&**self.log, patch)?;
        }
        let Self { before, now, patches, orphan_files, .. } = self;
        Ok(Planned { before, after: now.found, patches, orphan_files })
    }

    /// Accepts a lost file from the first source that has one.
    fn take_lost_file(&mut self) -> Result<bool> {
        for source in self.sources {
            let offered = source.lost_files(&self.view(&[], &[]), &self.now.found)?;
            if self.take(&**source, &offered)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A view with the accepted patches and further ones.
    fn view(&self, patches: &[Patch], orphan_files: &[String]) -> Arc<dyn Storage> {
        let all = [&self.patches, patches].concat();
        let orphan_files = [&self.orphan_files, orphan_files].concat();
        let unknown = without_known(&self.unknown, &all);
        let view = Overlay::new(self.log.clone(), &all).with_unknown(unknown);
        Arc::new(view.without(&orphan_files))
    }

    /// Accepts the offered patches that verify: all of them, or else per damaged place.
    fn take(&mut self, source: &dyn PatchSource, offered: &[Patch]) -> Result<bool> {
        if offered.is_empty() {
            return Ok(false);
        }
        if let Some((patches, assessment)) = self.settle(source, offered.to_vec())? {
            self.keep(patches, assessment);
            return Ok(true);
        }
        let mut is_better = false;
        for damaged in self.now.damaged().collect::<Vec<_>>() {
            let here = offered.iter().filter(|patch| damaged.has(patch)).cloned().collect();
            if let Some((patches, assessment)) = self.settle(source, here)? {
                self.keep(patches, assessment);
                is_better = true;
            }
        }
        Ok(is_better)
    }

    fn keep(&mut self, patches: Vec<Patch>, assessment: Assessment) {
        for patch in &patches {
            self.patches = without(&self.patches, &patch.file, patch.offset..patch.end());
        }
        self.patches.extend(patches);
        self.now = assessment;
    }

    /// Reduces `set` to the patches that verify, and returns them with the verification.
    fn settle(
        &mut self,
        source: &dyn PatchSource,
        mut set: Vec<Patch>,
    ) -> Result<Option<(Vec<Patch>, Assessment)>> {
        for _ in 0..SHRINKS {
            let Some(assessment) = self.assess(&set) else { return Ok(None) };
            if !assessment.is_no_worse_than(&self.now, source) {
                return Ok(None);
            }
            let is_hit = |damaged: &Damaged| set.iter().any(|patch| damaged.has(patch));
            let left: Vec<_> = assessment.damaged().filter(is_hit).collect();
            if left.is_empty() {
                if !keeps_intact_records(&self.view(&[], &[]), &set)? {
                    return Ok(None);
                }
                if self.is_beyond(&assessment) {
                    set = self.without_what_is_beyond(set)?;
                    continue;
                }
                return Ok(assessment
                    .is_better_than(&self.now, source)
                    .then_some((set, assessment)));
            }
            let view = self.view(&[], &[]);
            for damaged in left {
                let Some(known) = self.now.around(&damaged) else { return Ok(None) };
                // Without proof of a shared history up to the end of the damage, its parts may come
                // from another history: leave out all of it.
                let shares_history =
                    !damaged.is_order() && source.shares_history(&view, &known.damage)?;
                set = cut_out(set, if shares_history { &damaged } else { &known });
            }
        }
        Ok(None)
    }

    /// Verifies the log with `set`; `None` if that fails.
    fn assess(&mut self, set: &[Patch]) -> Option<Assessment> {
        if set.is_empty() || self.tries >= TRIES {
            return None;
        }
        self.tries += 1;
        // A patch that makes the log unreadable repairs nothing.
        Assessment::of(&self.view(set, &[])).ok()
    }

    /// Whether the view has records past the end of this log.
    fn is_beyond(&self, assessment: &Assessment) -> bool {
        self.end.is_some() && assessment.found.last_lsn > self.end.max(self.now.found.last_lsn)
    }

    /// Removes everything past the last record that the log knows of.
    fn without_what_is_beyond(&self, set: Vec<Patch>) -> Result<Vec<Patch>> {
        let view = self.view(&set, &[]);
        let catalog = load_catalog(&view, None)?;
        let mut scan = LogScanner::new(&catalog, None).skip_io_errors(true).without_decoding();
        let end = self.end.max(self.now.found.last_lsn);
        loop {
            match scan.step()? {
                ScanItem::Batch(batch) if Some(batch.last) == end => {
                    let here = scan.segment();
                    let mut links = catalog.chain.iter();
                    let link = links.find(|link| Some(link.segment.header.id) == here);
                    let file = link.map(|link| link.segment.name()).unwrap_or_default();
                    return Ok(blank(set, &file, batch.end.0));
                }
                ScanItem::End(_) => return Ok(vec![]),
                _ => {}
            }
        }
    }

    /// Moves the files that the log itself proves to be orphans to quarantine.
    fn take_orphans(&mut self) -> Result<()> {
        let orphans = self.now.found.orphans.iter();
        let files: Vec<String> = orphans.flat_map(|orphan| orphan.files.clone()).collect();
        if !files.is_empty() {
            self.orphan_files.extend(files);
            self.now = Assessment::of(&self.view(&[], &[]))?;
        }
        Ok(())
    }

    fn quarantine_files(
        &mut self,
        source: &dyn PatchSource,
        orphan_files: Vec<String>,
    ) -> Result<()> {
        if orphan_files.is_empty() {
            return Ok(());
        }
        let assessment = Assessment::of(&self.view(&[], &orphan_files))?;
        if assessment.is_no_worse_than(&self.now, source)
            && assessment.is_better_than(&self.now, source)
        {
            self.orphan_files.extend(orphan_files);
            self.now = assessment;
        }
        Ok(())
    }
}

/// A damage and its byte range.
struct Damaged {
    damage: Damage,
    place: Range<u64>,
}

impl Damaged {
    /// Whether `inner` is part of this damage.
    fn contains(&self, inner: &Self) -> bool {
        if self.damage.segment == inner.damage.segment {
            return self.place.start <= inner.place.start && inner.place.end <= self.place.end;
        }
        // The records lost with a missing file are part of it, even if they are reported at another
        // place now.
        let lost = self.damage.lost.filter(|_| is_whole(&self.damage)).zip(inner.damage.lost);
        lost.is_some_and(|(outer, inner)| {
            let ends = outer.to.is_none_or(|end| inner.to.is_some_and(|to| to <= end));
            outer.from <= inner.from && ends
        })
    }

    /// Whether valid bytes from another history are the damage.
    fn is_order(&self) -> bool {
        self.damage.cause == Corruption::Order
    }

    /// The range without the line break at its end, which belongs to the next line.
    fn inner(&self) -> Range<u64> {
        let is_line = self.damage.cause == Corruption::Line && self.place.end < u64::MAX;
        self.place.start..self.place.end.saturating_sub(u64::from(is_line))
    }

    /// Whether a patch touches this damage.
    fn has(&self, patch: &Patch) -> bool {
        let Range { start, end } = self.inner();
        let is_over = start < patch.end() && patch.offset < end;
        // Batches that are not consecutive may meet at either end of the patch.
        let is_beside = self.is_order() && patch.offset <= start && start <= patch.end();
        let is_file = SegmentId::from_any_name(&patch.file) == self.damage.segment
            && (patch.file == KEYS) == (self.damage.cause == Corruption::Keys);
        is_file && (is_over || is_beside)
    }
}

/// Removes the range of `damaged` from the patches.
fn cut_out(set: Vec<Patch>, damaged: &Damaged) -> Vec<Patch> {
    let (here, elsewhere): (Vec<_>, Vec<_>) = set.into_iter().partition(|patch| damaged.has(patch));
    let left = here
        .iter()
        .flat_map(|patch| without(std::slice::from_ref(patch), &patch.file, damaged.inner()));
    elsewhere.into_iter().chain(left).collect()
}

/// Removes a range of a file from the patches.
fn without(patches: &[Patch], file: &str, bytes: Range<u64>) -> Vec<Patch> {
    let mut left = vec![];
    for patch in patches {
        if patch.file != file || patch.end() <= bytes.start || bytes.end <= patch.offset {
            left.push(patch.clone());
            continue;
        }
        let before = part(patch, patch.offset..bytes.start);
        let behind = part(patch, bytes.end..patch.end());
        left.extend([before, behind].into_iter().flatten());
    }
    left
}

/// Removes the ranges for which a replica has the bytes.
fn without_known(unknown: &[Unknown], patches: &[Patch]) -> Vec<Unknown> {
    let mut left = unknown.to_vec();
    for patch in patches.iter().filter(|patch| patch.by == RepairSource::Replica) {
        let known = patch.offset..patch.end();
        let parts = |(file, range): Unknown| {
            if file != patch.file || known.end <= range.start || range.end <= known.start {
                return vec![(file, range)];
            }
            let parts = [range.start..known.start, known.end..range.end].into_iter();
            parts.filter(|part| !part.is_empty()).map(|part| (file.clone(), part)).collect()
        };
        left = left.into_iter().flat_map(parts).collect();
    }
    left
}

/// Limits the patches to bytes before `from`: later bytes keep their value, or become zero where
/// the file has none.
fn blank(patches: Vec<Patch>, file: &str, from: u64) -> Vec<Patch> {
    let mut left = vec![];
    for mut patch in patches {
        if patch.file == file {
            let kept = usize::try_from(from.saturating_sub(patch.offset)).unwrap_or(usize::MAX);
            let old = patch.old.iter().copied().chain(std::iter::repeat(0));
            let pairs = patch.new.iter_mut().zip(old).skip(kept);
            pairs.for_each(|(new, old)| *new = old);
        }
        if patch.old != patch.new {
            left.push(patch);
        }
    }
    left
}

/// The current bytes in the range of a patch.
fn old_bytes(log: &dyn Storage, patch: &Patch) -> Result<Vec<u8>> {
    match log.open(&patch.file, Access::Read) {
        Ok(file) => Ok(read_around(&*file, patch.offset, to_u64(patch.new.len()))?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(crate::base::error::Error::io(format!("open {}", patch.file))(error)),
    }
}
