//! Cuts and checkpoints: what is given up at either end, durable before it is said to be (R10,
//! R11).

use crate::base::error::{Error, Result};
use crate::base::retention::LiveSegment;
use crate::files::directory::list;
use crate::files::segment::Segment;
use crate::scan::catalog::ChainedSegment;
use crate::scan::scanner::{LogScanner, ScanItem};
use crate::write::rotation::{Predecessor, RotationPlan, rotate};
use crate::write::writer::Writer;
use seawall_format::scan::Limit;
use seawall_format::{Layout, Lsn, SegmentHeader, SegmentId, next_lsn};
use seawall_io::Access;
use std::collections::{BTreeSet, VecDeque};

impl Writer {
    /// Notes that nothing before `lsn` is needed; the checkpoint before is kept too.
    pub(crate) fn checkpoint(&mut self, lsn: Lsn) -> Result<()> {
        let end = next_lsn(self.last);
        if lsn > end {
            let why = format!("a checkpoint at {lsn}, and the log ends before {end}");
            return Err(Error::InvalidOption { why });
        }
        let [newest, _] = self.manifest.content.checkpoints;
        let before = newest.map(|newest| newest.min(lsn));
        self.manifest.content.checkpoints = [Some(lsn), before];
        self.write_manifest()?;
        self.retain()
    }

    /// Gives up what the log's rule says. Readers have been told of the tail before.
    pub(crate) fn retain(&mut self) -> Result<()> {
        self.retained.is_due = false;
        let Some(rule) = self.retained.rule else { return Ok(()) };
        // If a file cannot be looked at, all stay for now: nothing is lost by that.
        let Ok(live) = self.live_segments() else { return Ok(()) };
        let checkpoints = self.manifest.content.checkpoints;
        let gone = rule.excess(&live, checkpoints, self.env.clock.wall_us());
        if gone == 0 {
            return Ok(());
        }
        let oldest = live.get(gone).expect("the tail stays").base;
        self.truncate_before(oldest).map(drop)
    }

    fn live_segments(&mut self) -> Result<Vec<LiveSegment>> {
        let needs_lengths = self.retained.rule.is_some_and(|rule| rule.asks_for_lengths());
        let mut live = vec![];
        for header in &self.chain {
            let length = match self.retained.lengths.get(&header.id) {
                Some(length) => *length,
                None if needs_lengths => {
                    let segment = Segment::open_known(&self.env.storage, header)?;
                    self.retained.lengths.insert(header.id, segment.size());
                    segment.size()
                }
                None => 0,
            };
            live.push(LiveSegment { length, base: header.base, time_us: header.time_us });
        }
        let SegmentHeader { base, time_us, .. } = self.tail.header;
        let length = self.tail.size();
        live.push(LiveSegment { length, base, time_us });
        Ok(live)
    }

    /// Removes segments whose records all stand before `lsn`, and says what is the first now.
    pub(crate) fn truncate_before(&mut self, lsn: Lsn) -> Result<Lsn> {
        let live: Vec<_> = self.chain.iter().chain([&self.tail.header]).cloned().collect();
        let keep = live.iter().rposition(|header| header.base <= lsn).unwrap_or(0);
        let oldest = live.get(keep).expect("a log has a segment");
        if keep == 0 {
            return Ok(oldest.base);
        }
        let content = &mut self.manifest.content;
        content.oldest = oldest.reference();
        content.oldest_base = oldest.base;
        for checkpoint in &mut content.checkpoints {
            // What it would replay from is going away.
            *checkpoint = checkpoint.filter(|checkpoint| *checkpoint >= oldest.base);
        }
        self.write_manifest()?;
        self.chain.drain(..keep);
        self.counts.pruned += u64::try_from(keep).expect("fits in 64 bits");
        self.retained.lengths.retain(|id, _| *id >= oldest.id);
        self.remove_segments(|id| id < oldest.id)?;
        Ok(oldest.base)
    }

    /// Gives up every record behind `last`, or all that are left; they never come back. Where a
    /// step fails behind the last one that counts, they are given up all the same. The inner error
    /// says that readers could not be told, and that nothing was changed.
    pub(crate) fn truncate_after(&mut self, last: Option<Lsn>) -> Result<Result<()>> {
        let first = self.chain.first().unwrap_or(&self.tail.header).base;
        // Of a log that was opened although its beginning is lost, what is there counts.
        let oldest = self.manifest.content.oldest_base.max(first);
        // No number is given again that stood before the first record.
        let last = last.or(oldest.previous());
        if last >= self.last {
            return Ok(Ok(()));
        }
        let next = next_lsn(last);
        if next < oldest {
            return Err(Error::Pruned { oldest });
        }
        self.check_names()?;
        let mut live: Vec<_> = self.chain.iter().chain([&self.tail.header]).cloned().collect();
        let keep = live.iter().rposition(|header| header.base <= next).expect("checked above");
        let holder = live.get(keep).expect("just found").clone();
        let dead: Vec<SegmentId> = live.drain(keep + 1..).map(|header| header.id).collect();
        let (name, chain_before) = (holder.head_name(), self.chain_of(&holder, last)?);
        let file = self.env.storage.open(&name, Access::ReadWrite);
        let head = file.map_err(Error::io(format!("open {name} for writing")))?;
        let named = holder.reference();
        let plan = RotationPlan {
            base: next,
            carry: vec![],
            chain_before,
            pred: Some(Predecessor { header: holder, head }),
            size_min: self.segment_min,
            reserve: 0,
            spare: None,
        };
        // Readers first: what is about to go must not be shown any more.
        if let Err(error) = self.stop_readers(named, last) {
            return Ok(Err(error));
        }
        let checkpoints = &mut self.manifest.content.checkpoints;
        if checkpoints.iter().any(|checkpoint| *checkpoint > Some(next)) {
            *checkpoints = checkpoints.map(|checkpoint| checkpoint.map(|lsn| lsn.min(next)));
            self.write_manifest()?;
        }
        let rotated = rotate(&self.env, &self.manifest.content, plan, &mut self.max_id)?;
        (self.last, self.last_chain) = (last, chain_before);
        std::mem::replace(&mut self.tail, rotated.tail).release_reserved();
        self.recent = VecDeque::new();
        self.chain = live;
        self.chain.extend(rotated.skipped_segments);
        self.tell_readers();
        self.remove_segments(|id| dead.contains(&id)).map(Ok)
    }

    /// The chain value of the batch in this segment that holds `last`.
    fn chain_of(&self, holder: &SegmentHeader, last: Option<Lsn>) -> Result<u64> {
        if last < Some(holder.base) {
            return Ok(holder.pred_chain);
        }
        let segment = Segment::open_known(&self.env.storage, holder)?;
        let mut scan =
            LogScanner::of_segment(&ChainedSegment { segment, limit: Limit::At(last), gap: None });
        let mut chain = 0;
        loop {
            match scan.step()? {
                ScanItem::Batch(batch) => chain = batch.header.chain_value(),
                ScanItem::ScanEnd(_) => return Ok(chain),
                ScanItem::Damage(damages, _) => {
                    let damage = damages.into_iter().next().expect("damage is named");
                    return Err(Error::Damaged(Box::new(damage)));
                }
            }
        }
    }

    /// Unlinks segments that are not in the chain: what a cut or a prune could not remove, or what
    /// came back as its removal was not durable, and texts without a head, of a roll that did not
    /// come to its end. Nothing is promised of them. What is in `kept` stays.
    pub(crate) fn remove_orphan_segments(&self, kept: &[SegmentId]) -> Result<()> {
        let live = self.chain.iter().chain([&self.tail.header]);
        let live: BTreeSet<SegmentId> = live.map(|header| header.id).collect();
        let removed = self.remove_segments(|id| !live.contains(&id) && !kept.contains(&id));
        self.env.deferred_delete.drain();
        removed
    }

    /// Unlinks segments that the log has given up already.
    pub(crate) fn remove_segments(&self, is_removed: impl Fn(SegmentId) -> bool) -> Result<()> {
        let storage = &*self.env.storage;
        let names = list(storage)?;
        // In the order of the names a head goes before its text.
        let gone = |name: &&String| SegmentId::from_any_name(name).is_some_and(&is_removed);
        let (mut removed, mut deferred) = (false, vec![]);
        for name in names.iter().filter(gone) {
            // One that stays takes room and is tried again at the next cut.
            let Ok(file) = storage.retire(name) else { continue };
            removed = true;
            // Where nothing is reserved a text grows by its writes, and nobody would free what they
            // need.
            deferred.extend(file.filter(|_| self.tail.header.layout == Layout::Binary));
        }
        if removed {
            storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
        }
        // Not before: what comes back after a crash is as it was.
        for file in deferred {
            self.env.deferred_delete.add(file);
        }
        Ok(())
    }
}
