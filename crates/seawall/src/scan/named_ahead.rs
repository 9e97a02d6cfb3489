//! Decides for segments that were named ahead, and whose first batch does not say where they begin,
//! whether they have begun, and where. format.md section 3.5.

use crate::base::error::{Corruption, Result};
use crate::files::live::Watermark;
use crate::files::segment::Segment;
use crate::scan::catalog::ChainedSegment;
use crate::scan::chain::Headers;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, Manifest, SegmentId, SegmentRef, next_lsn, tail};

/// The base of a segment that has begun.
enum Beginning {
    At(Lsn),
    /// Unclear, because the end of the segment before it is ambiguous.
    Doubtful,
    /// No remaining evidence tells where.
    Unknown,
}

impl Headers {
    /// Adds the segments that have begun to the sound ones. If the highest segment has not begun,
    /// it is set aside and does not count.
    pub(crate) fn place_named_ahead(
        &mut self,
        manifest: Option<&Manifest>,
        watermark: Option<&Watermark>,
    ) -> Result<()> {
        let running = watermark.filter(|watermark| watermark.is_running());
        // Readers do not use segments that a running writer has only named ahead.
        self.named_ahead.retain(|id, _| running.is_none_or(|by| *id <= by.live.segment.id));
        let named = [
            manifest.map(|manifest| manifest.oldest),
            manifest.and_then(|manifest| manifest.closed).map(|closed| closed.segment),
            watermark.map(|watermark| watermark.live.segment),
        ];
        while let Some((id, segment)) = self.named_ahead.pop_first() {
            let reference = segment.header.reference();
            let is_highest = self.named_ahead.is_empty() && self.is_above_all(id);
            let is_named = named.contains(&Some(reference)) || self.is_followed(reference);
            let content = if is_named || !is_highest {
                None
            } else {
                Some(Content::of(&segment)?).filter(|content| *content != Content::None)
            };
            if !is_named && content.is_none() {
                self.unbegun = Some(segment).filter(|_| is_highest);
                continue;
            }
            let confirms_nothing = content == Some(Content::Bytes);
            match self.beginning_of(&segment, (manifest, watermark), confirms_nothing)? {
                Beginning::At(base) => {
                    let header = segment.header.begin(base, 0);
                    self.sound.insert(id, segment.with_header(header));
                }
                Beginning::Doubtful => {
                    (self.end_is_doubtful, self.unbegun) = (true, Some(segment));
                }
                Beginning::Unknown => drop(self.bad.insert(id, Corruption::SegmentHeader)),
            }
        }
        Ok(())
    }

    /// Whether the end of the log is ambiguous: it is not clean, although the next segment has
    /// begun.
    pub(crate) fn end_is_doubtful(&self) -> bool {
        self.end_is_doubtful
    }

    fn is_above_all(&self, id: SegmentId) -> bool {
        self.sound.keys().next_back().is_none_or(|newest| *newest < id)
    }

    /// Whether another segment names this one as the one before it.
    pub(super) fn is_followed(&self, segment: SegmentRef) -> bool {
        let others = self.sound.values().chain(self.named_ahead.values());
        others.into_iter().any(|other| other.header.pred == Some(segment))
    }

    /// Where a segment begins, according to the manifest, the seal of the segment before it, or the
    /// last record of the segment before it, which must end cleanly if this segment confirms
    /// nothing.
    fn beginning_of(
        &self,
        segment: &Segment,
        (manifest, watermark): (Option<&Manifest>, Option<&Watermark>),
        confirms_nothing: bool,
    ) -> Result<Beginning> {
        let reference = segment.header.reference();
        let pred = segment.header.pred.and_then(|pred| {
            self.sound.get(&pred.id).filter(|found| found.header.epoch == pred.epoch)
        });
        if let Some(manifest) = manifest.filter(|manifest| manifest.oldest == reference) {
            return Ok(Beginning::At(manifest.oldest_base));
        }
        let Some(pred) = pred else { return Ok(Beginning::Unknown) };
        // If this segment confirms nothing, the segment before it must be the newest sound one.
        if confirms_nothing && self.sound.keys().next_back() != Some(&pred.header.id) {
            return Ok(Beginning::Unknown);
        }
        if let Some(seal) = pred.seal()?.filter(|seal| seal.next == reference) {
            return Ok(Beginning::At(next_lsn(seal.last)));
        }
        // A predecessor that ends before this record has lost records.
        let known = known_last(pred, manifest, watermark);
        let mut scan = scan(pred).with_min_end(known);
        loop {
            match scan.step()? {
                ScanItem::Batch(_) => {}
                ScanItem::End(end) => {
                    let is_clean = end.tail.is_some_and(|tail| tail.row == tail::Row::Clean);
                    let is_told = (is_clean && end.damage.is_empty()) || !confirms_nothing;
                    let base = Beginning::At(next_lsn(end.last.max(known)));
                    return Ok(if is_told { base } else { Beginning::Doubtful });
                }
                // The damage is reported with the segment before.
                ScanItem::Damage(..) if confirms_nothing => return Ok(Beginning::Doubtful),
                ScanItem::Damage(..) => return Ok(Beginning::Unknown),
            }
        }
    }
}

/// The last record of a segment according to the clean close or `live`.
fn known_last(
    segment: &Segment,
    manifest: Option<&Manifest>,
    watermark: Option<&Watermark>,
) -> Option<Lsn> {
    let reference = segment.header.reference();
    let closed = manifest.and_then(|manifest| manifest.closed);
    let closed = closed.filter(|closed| closed.segment == reference);
    let live = watermark.map(|watermark| &watermark.live);
    let live = live.filter(|live| {
        live.segment == reference && manifest.is_none_or(|manifest| manifest.log == live.log)
    });
    closed.and_then(|closed| closed.last).max(live.and_then(|live| live.durable))
}

/// What was written to a segment without a valid first batch after it was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    None,
    /// Bytes that a crash can leave of its first batch.
    Bytes,
    /// Something that was written after that batch, or damage.
    Evidence,
}

impl Content {
    fn of(segment: &Segment) -> Result<Self> {
        if segment.bytes_missing() > 0 || segment.seal()?.is_some() || !segment.marks()?.is_empty()
        {
            return Ok(Self::Evidence);
        }
        Ok(match scan(segment).step()? {
            ScanItem::Batch(_) | ScanItem::Damage(..) => Self::Evidence,
            ScanItem::End(end) if end.confirmed.is_some() => Self::Evidence,
            ScanItem::End(end) => {
                let is_clean = end.tail.is_some_and(|tail| tail.row == tail::Row::Clean);
                if is_clean { Self::None } else { Self::Bytes }
            }
        })
    }
}

/// A scan of one segment. It does not stop at blocks that the device cannot read.
fn scan(segment: &Segment) -> LogScanner {
    let link = ChainedSegment { segment: segment.clone(), limit: Limit::Open, gap: None };
    LogScanner::of_segment(&link).skip_io_errors(true).without_decoding()
}
