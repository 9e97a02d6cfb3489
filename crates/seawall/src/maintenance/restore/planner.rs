//! Which of the bytes that were offered are believed: those with which the log, judged whole in a
//! view, has less damage than before, none that is new, and none left in what was taken.

use crate::base::error::{Corruption, Damage, Result};
use crate::base::num::to_u64;
use crate::files::overlay::{Overlay, Patch, part};
use crate::files::segment_reader::read_around;
use crate::maintenance::restore::extent::{is_whole, place_of};
use crate::maintenance::restore::source::PatchSource;
use crate::maintenance::verify::{Verification, look_around};
use crate::read::read_repair::keeps_intact_records;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::{Lsn, SegmentId};
use seawall_io::{Access, Storage};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How often all sources are asked in turn.
const ROUNDS: u32 = 8;
/// How often a log is judged for one plan.
const TRIES: u32 = 256;
/// How often what was offered gives up the parts that are damaged there, too.
const SHRINKS: u32 = 8;

/// What was found out.
pub(super) struct Planned {
    pub(super) before: Verification,
    pub(super) after: Verification,
    pub(super) patches: Vec<Patch>,
    pub(super) orphan_files: Vec<String>,
}

/// A plan in the making.
pub(super) struct Planner<'a> {
    log: &'a Arc<dyn Storage>,
    sources: &'a [Box<dyn PatchSource>],
    /// The last record that the log knows of, if it knows.
    end: Option<Lsn>,
    patches: Vec<Patch>,
    orphan_files: Vec<String>,
    before: Verification,
    now: Assessment,
    tries: u32,
}

/// A verdict on a view.
#[derive(Clone, Debug)]
struct Assessment {
    found: Verification,
    /// The bytes that each damage is about.
    places: Vec<Range<u64>>,
    /// How many slots of the manifest can be read.
    slots: usize,
}

impl Assessment {
    fn of(view: &Arc<dyn Storage>) -> Result<Self> {
        let slots = load_catalog(view, None)?.readable.into_iter().filter(|is| *is).count();
        let found = look_around(view)?;
        let places = found.damage.iter().map(|damage| place_of(&**view, damage));
        let places = places.collect::<Result<_>>()?;
        Ok(Self { found, places, slots })
    }

    /// The damaged places.
    fn damaged(&self) -> impl Iterator<Item = Damaged> {
        let pairs = self.found.damage.iter().zip(&self.places);
        pairs.map(|(damage, place)| Damaged { damage: damage.clone(), place: place.clone() })
    }

    /// The place that this one is a part of.
    fn around(&self, inner: &Damaged) -> Option<Damaged> {
        self.damaged().find(|outer| outer.contains(inner))
    }

    /// Whether nothing is damaged that was not so before, and nothing is lost that was not. A
    /// `source` that was made of this very log may show where it was cut: what was there is less.
    fn is_no_worse_than(&self, before: &Self, source: &dyn PatchSource) -> bool {
        let is_there = self.found.records >= before.found.records
            || (source.is_of_this_log() && self.finds_end_of(before));
        let is_sound = is_there && self.slots >= before.slots;
        // Sound batches that do not continue each other are worse than one that is damaged: what
        // stands between them is of another history.
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

    /// Whether it is known here how much is lost at the end, and was not before.
    fn finds_end_of(&self, before: &Self) -> bool {
        before.found.is_open() && !self.found.is_open()
    }
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        log: &'a Arc<dyn Storage>,
        sources: &'a [Box<dyn PatchSource>],
        end: Option<Lsn>,
    ) -> Result<Self> {
        let now = Assessment::of(log)?;
        let (before, patches, orphan_files) = (now.found.clone(), vec![], vec![]);
        Ok(Self { log, sources, end, patches, orphan_files, before, now, tries: 0 })
    }

    pub(super) fn plan(mut self) -> Result<Planned> {
        for _ in 0..ROUNDS {
            let mut goes_on = false;
            for source in self.sources {
                let view = self.view(&[], &[]);
                let offered = source.patches(&view, &self.now.found)?;
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

    /// Takes from the first source that has one what only that source knows of.
    fn take_lost_file(&mut self) -> Result<bool> {
        for source in self.sources {
            let offered = source.lost_files(&self.view(&[], &[]), &self.now.found)?;
            if self.take(&**source, &offered)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The log with what was taken, and more.
    fn view(&self, patches: &[Patch], orphan_files: &[String]) -> Arc<dyn Storage> {
        let all = [&self.patches, patches].concat();
        let orphan_files = [&self.orphan_files, orphan_files].concat();
        Arc::new(Overlay::new(self.log.clone(), &all).without(&orphan_files))
    }

    /// Takes what proves right: all of it, or else what does so place by place.
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

    /// What of `set` proves right, and the verdict with it.
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
                // A part of a place whose end is not proved could be of another history.
                let shares_history =
                    !damaged.is_order() && source.shares_history(&view, &known.damage)?;
                set = cut_out(set, if shares_history { &damaged } else { &known });
            }
        }
        Ok(None)
    }

    /// The verdict with `set`; none where it cannot be judged at all.
    fn assess(&mut self, set: &[Patch]) -> Option<Assessment> {
        if set.is_empty() || self.tries >= TRIES {
            return None;
        }
        self.tries += 1;
        // What makes the log unreadable mends nothing.
        Assessment::of(&self.view(set, &[])).ok()
    }

    /// Whether there are records behind the end of this log.
    fn is_beyond(&self, assessment: &Assessment) -> bool {
        self.end.is_some() && assessment.found.last_lsn > self.end.max(self.now.found.last_lsn)
    }

    /// Leaves out what lies behind the last record that this log knows of.
    fn without_what_is_beyond(&self, set: Vec<Patch>) -> Result<Vec<Patch>> {
        let view = self.view(&set, &[]);
        let catalog = load_catalog(&view, None)?;
        let mut scan = LogScanner::new(&catalog, None).skip_io_errors(true);
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

    /// Takes away what the log itself proves to be none of it.
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

/// A damage, and the bytes that it is about.
struct Damaged {
    damage: Damage,
    place: Range<u64>,
}

impl Damaged {
    /// Whether all of `inner` is a part of this.
    fn contains(&self, inner: &Self) -> bool {
        if self.damage.segment == inner.damage.segment {
            return self.place.start <= inner.place.start && inner.place.end <= self.place.end;
        }
        // What a whole file that is not there said is lost turns out to be lost at some place.
        let lost = self.damage.lost.filter(|_| is_whole(&self.damage)).zip(inner.damage.lost);
        lost.is_some_and(|(outer, inner)| {
            let ends = outer.to.is_none_or(|end| inner.to.is_some_and(|to| to <= end));
            outer.from <= inner.from && ends
        })
    }

    /// Whether what stands here is sound, and of another history.
    fn is_order(&self) -> bool {
        self.damage.cause == Corruption::Order
    }

    /// The place without the line break at its end: the line behind begins with that.
    fn inner(&self) -> Range<u64> {
        let is_line = self.damage.cause == Corruption::Line && self.place.end < u64::MAX;
        self.place.start..self.place.end.saturating_sub(u64::from(is_line))
    }

    /// Whether a patch is for this.
    fn has(&self, patch: &Patch) -> bool {
        let Range { start, end } = self.inner();
        let is_over = start < patch.end() && patch.offset < end;
        // Sound bytes that do not continue each other: at the end or the beginning of the patch.
        let is_beside = self.is_order() && patch.offset <= start && start <= patch.end();
        SegmentId::from_any_name(&patch.file) == self.damage.segment && (is_over || is_beside)
    }
}

/// The patches but for what lies in that place.
fn cut_out(set: Vec<Patch>, damaged: &Damaged) -> Vec<Patch> {
    let (here, elsewhere): (Vec<_>, Vec<_>) = set.into_iter().partition(|patch| damaged.has(patch));
    let left = here
        .iter()
        .flat_map(|patch| without(std::slice::from_ref(patch), &patch.file, damaged.inner()));
    elsewhere.into_iter().chain(left).collect()
}

/// The patches but for some bytes of a file.
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

/// The patches with nothing new behind `from` in that file: what is there stays, and where nothing
/// is, zeros.
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

/// The bytes where a patch goes, as they are in the log.
fn old_bytes(log: &dyn Storage, patch: &Patch) -> Result<Vec<u8>> {
    match log.open(&patch.file, Access::Read) {
        Ok(file) => Ok(read_around(&*file, patch.offset, to_u64(patch.new.len()))?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        Err(error) => Err(crate::base::error::Error::io(format!("open {}", patch.file))(error)),
    }
}
