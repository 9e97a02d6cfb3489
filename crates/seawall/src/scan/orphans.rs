//! Finds orphan files: files numbered above the newest segment that never contained data of this
//! log. format.md section 6.3.

use crate::base::error::{Corruption, Error, Result};
use crate::base::num::READ_SIZE;
use crate::files::directory::is_not_found;
use crate::files::live::read_watermark;
use crate::files::segment::{OpenOutcome, Segment, open_checked};
use crate::scan::catalog::{ChainedSegment, Orphan, OrphanKind};
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::scan::Limit;
use seawall_format::{Closed, Geometry, Lsn, Manifest, SegmentId, SegmentRef, tail};
use seawall_io::{Access, Storage};
use std::sync::Arc;

/// Facts about the newest segment that decide whether the log ends there.
#[derive(Clone, Debug)]
struct Newest {
    segment: SegmentRef,
    /// The last clean close in the manifest, or a later open that continued in place.
    closed: Option<Closed>,
    /// Whether its seal block is all zeros.
    seal_is_blank: bool,
    is_whole: bool,
    /// Its last record and the state of the tail; `None` if the segment is damaged.
    end: Option<(Option<Lsn>, tail::Row)>,
}

impl Newest {
    /// Whether the segment ends where the manifest says, and no rotation sealed it. Only the mark
    /// of a clean close proves that no segment followed, see
    /// [`end_row`](crate::scan::catalog::Catalog::end_row).
    fn is_end_of_log(&self) -> bool {
        let Some(closed) = self.closed else { return false };
        let at_close = Some((closed.last, tail::Row::Clean));
        closed.segment == self.segment
            && self.seal_is_blank
            && self.is_whole
            && self.end == at_close
    }
}

/// Returns the files of the ids `above` the newest segment as orphans. Returns none if any of them
/// may have been a segment, or if a segment may be missing.
///
/// `is_elsewhere` tells whether the log has, or had, that segment under its own name.
pub(crate) fn find(
    (newest, manifest): (&Segment, &Manifest),
    names: &[String],
    above: &[SegmentId],
    is_elsewhere: impl Fn(SegmentRef) -> bool,
) -> Result<Vec<Orphan>> {
    let segment = newest.header.reference();
    let closes_it = manifest.closed.is_some_and(|closed| closed.segment == segment);
    if above.is_empty() || !closes_it || !newest.seal_is_blank()? {
        return Ok(vec![]);
    }
    let watermark =
        read_watermark(&**newest.storage())?.filter(|watermark| watermark.live.log == manifest.log);
    if watermark.is_some_and(|watermark| watermark.live.segment.id > segment.id) {
        return Ok(vec![]);
    }
    let mut orphans = vec![];
    for id in above {
        let Some(orphan) = judge(newest.storage(), (*id, names), manifest, &is_elsewhere)? else {
            return Ok(vec![]);
        };
        orphans.push(orphan);
    }
    let facts = Newest {
        segment,
        closed: manifest.closed,
        seal_is_blank: true,
        is_whole: newest.bytes_missing() == 0,
        end: end_of(newest)?,
    };
    Ok(if facts.is_end_of_log() { orphans } else { vec![] })
}

/// The last record of a segment and the state of its tail, if no part of it is damaged.
fn end_of(segment: &Segment) -> Result<Option<(Option<Lsn>, tail::Row)>> {
    let link = ChainedSegment { segment: segment.clone(), limit: Limit::Open, gap: None };
    let mut scan = LogScanner::of_segment(&link).without_decoding();
    loop {
        match scan.step() {
            Ok(ScanItem::Batch(_)) => {}
            Ok(ScanItem::End(end)) => {
                let tail = end.tail.filter(|_| end.damage.is_empty());
                return Ok(tail.map(|tail| (end.last, tail.row)));
            }
            Err(error) if is_not_found(&error) => return Err(error),
            // An unreadable segment proves nothing; the scan of the whole log reports the error.
            Ok(ScanItem::Damage(..)) | Err(_) => return Ok(None),
        }
    }
}

/// Classifies the files of `segment`; `None` if they may once have been that segment.
fn judge(
    storage: &Arc<dyn Storage>,
    (segment, names): (SegmentId, &[String]),
    manifest: &Manifest,
    is_elsewhere: impl Fn(SegmentRef) -> bool,
) -> Result<Option<Orphan>> {
    let is_its = |name: &&String| SegmentId::from_any_name(name) == Some(segment);
    let files: Vec<String> = names.iter().filter(is_its).cloned().collect();
    let mut found = None;
    for name in &files {
        let kind = if SegmentId::from_file_name(name).is_some() {
            match open_checked(storage, name, (Some(manifest), None))? {
                OpenOutcome::Misplaced(Corruption::ForeignEpoch, _) => OrphanKind::Foreign,
                OpenOutcome::Misplaced(_, other) if is_elsewhere(other) => {
                    OrphanKind::Copy(other.id)
                }
                OpenOutcome::Bad(Corruption::SegmentHeader) if is_blank(&**storage, name)? => {
                    OrphanKind::Empty
                }
                _ => return Ok(None),
            }
        } else {
            // The head file decides what a text file is, and the segment what its table is. Parity
            // exists only for a real segment.
            let is_of_head = *name == segment.before_name()
                || (*name == segment.text_name() && found != Some(OrphanKind::Empty));
            if is_of_head || is_blank(&**storage, name)? {
                continue;
            }
            return Ok(None);
        };
        // An empty file next to another does not change the kind of the other.
        found = found.filter(|found| *found != OrphanKind::Empty).or(Some(kind));
    }
    Ok(found.map(|kind| Orphan { segment, files, kind }))
}

/// Whether a file contains only zeros, and no more of them than a segment can have. A hole is not
/// read: it can have gigabytes.
fn is_blank(storage: &dyn Storage, name: &str) -> Result<bool> {
    let failed = || Error::io(format!("read {name}"));
    let file = storage.open(name, Access::Read).map_err(failed())?;
    if file.len().map_err(failed())? > Geometry::SEGMENT_MAX {
        return Ok(false);
    }
    let window = usize::try_from(READ_SIZE).expect("a window fits in memory");
    let (mut bytes, mut at) = (vec![0; window], 0);
    while at < Geometry::SEGMENT_MAX {
        let read = match file.read_at(&mut bytes, at) {
            Ok(0) => break,
            Ok(read) => read,
            // Unreadable bytes may be anything.
            Err(_) => return Ok(false),
        };
        if !tail::is_zero(bytes.get(..read).unwrap_or_default()) {
            return Ok(false);
        }
        // The rest of a file that cannot tell its holes is read.
        match file.next_written(at + READ_SIZE) {
            Ok(Some(next)) => at = next.max(at + READ_SIZE),
            Ok(None) => break,
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::Epoch;

    fn reference(id: u64) -> SegmentRef {
        SegmentRef { id: SegmentId::new(id).expect("not 0"), epoch: Epoch(7) }
    }

    /// A segment that was closed cleanly after its ninth record and is unchanged since.
    fn closed() -> Newest {
        let segment = reference(3);
        let end = Some((Lsn::new(9), tail::Row::Clean));
        let closed = Some(Closed { last: Lsn::new(9), segment });
        Newest { segment, closed, seal_is_blank: true, is_whole: true, end }
    }

    #[test]
    fn log_ends_after_a_clean_close() {
        assert!(closed().is_end_of_log());
    }

    #[test]
    fn log_may_continue_unless_it_was_closed_cleanly() {
        let last = Lsn::new(9);
        let others = [
            Newest { closed: None, ..closed() },
            Newest { closed: Some(Closed { last, segment: reference(2) }), ..closed() },
            Newest {
                closed: Some(Closed { last: Lsn::new(8), ..closed().closed.expect("it is") }),
                ..closed()
            },
            Newest { seal_is_blank: false, ..closed() },
            Newest { is_whole: false, ..closed() },
            Newest { end: None, ..closed() },
            Newest { end: Some((Lsn::new(8), tail::Row::Clean)), ..closed() },
            Newest { end: Some((last, tail::Row::HeaderTorn)), ..closed() },
            Newest { end: Some((last, tail::Row::Otherwise)), ..closed() },
        ];
        for other in others {
            assert!(!other.is_end_of_log(), "{other:?}");
        }
    }
}
