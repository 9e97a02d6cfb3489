//! Plans a truncation without opening the log for writing.

use crate::args::Last;
use seawall::damage::Lost;
use seawall::verify::Verification;
use seawall::{Error, Lsn};
use seawall_format::batch::{self, BatchHeader};
use seawall_format::{Manifest, STORED_MAX, SegmentHeader, SegmentId, next_lsn};
use seawall_host::read_start;
use seawall_io::{Access, PosixStorage, Storage};
use seawall_output::text::to_u64;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The size of both manifest slots with the largest block size.
const MANIFEST_SIZE: usize = 2 << 16;

/// The records and files to remove, and the state of the log afterwards.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The first and last removed record.
    pub(super) goes: Option<(Lsn, Lsn)>,
    /// The number of removed segments and their bytes; `None` if the plan is by record.
    pub(super) files: Option<(u64, u64)>,
    /// The last kept record, for a truncation at the end.
    pub(super) new_end: Option<Last>,
    /// The oldest kept record, or the next one if none is kept.
    pub(super) oldest: Lsn,
    /// The LSN of the next record.
    pub(super) next: Lsn,
}

/// A live segment: its first record and its file size.
type Segment = (Lsn, u64);

impl Plan {
    /// Plans removing whole segments before record `before` of the log in which `found` was found.
    /// Record `next` is appended next.
    pub(super) fn before(
        log: &Path,
        before: Lsn,
        (found, next): (&Verification, Lsn),
    ) -> io::Result<Self> {
        let orphans: Vec<_> = found.orphans.iter().map(|orphan| orphan.segment).collect();
        let live = live_segments(&PosixStorage::open(log)?, &orphans)?;
        Ok(Self::of_segments(&live, before, next))
    }

    fn of_segments(live: &[Segment], before: Lsn, next: Lsn) -> Self {
        let keep = live.iter().rposition(|(base, _)| *base <= before).unwrap_or(0);
        let first = live.first().map_or(Lsn::FIRST, |(base, _)| *base);
        let oldest = live.get(keep).map_or(first, |(base, _)| *base);
        let gone = live.get(..keep).unwrap_or_default();
        let (segments, bytes) = (to_u64(gone.len()), gone.iter().map(|(_, bytes)| bytes).sum());
        let goes = oldest.previous().filter(|end| *end >= first).map(|end| (first, end));
        let next = next.max(oldest);
        Self { goes, files: Some((segments, bytes)), new_end: None, oldest, next }
    }

    /// Plans removing the records after `after`, or all records if it is `None`. The log has the
    /// records `oldest` to `last`, and record `end` is appended next.
    pub(super) fn after(
        after: Option<Lsn>,
        (oldest, last, end): (Lsn, Option<Lsn>, Lsn),
    ) -> Result<Self, Error> {
        let after = after.or(oldest.previous());
        let next = next_lsn(after);
        if next < oldest {
            return Err(Error::pruned(oldest));
        }
        let goes = last.filter(|last| *last >= next).map(|last| (next, last));
        let next = if goes.is_some() { next } else { end };
        Ok(Self { goes, files: None, new_end: Some(Last(after)), oldest, next })
    }

    /// The number of removed records, without those that a repair gave up.
    pub(super) fn records(&self, given_up: &[Lost]) -> u64 {
        let Some((first, last)) = self.goes else { return 0 };
        let within = |lost: &Lost| {
            let (from, to) = (lost.from.max(first), lost.to.map_or(last, |to| to.min(last)));
            (to.get() + 1).saturating_sub(from.get())
        };
        let numbers = last.get() - first.get() + 1;
        numbers.saturating_sub(given_up.iter().map(within).sum())
    }

    /// Whether nothing would be removed.
    pub(super) fn is_empty(&self) -> bool {
        self.goes.is_none() && self.files.is_none_or(|(segments, _)| segments == 0)
    }
}

/// The chain of live segments, oldest first. Each segment names its predecessor. `orphans` are not
/// part of the log.
fn live_segments(storage: &PosixStorage, orphans: &[SegmentId]) -> io::Result<Vec<Segment>> {
    let manifest = read(storage, "manifest", MANIFEST_SIZE)?;
    let slots = Manifest::decode_file(&manifest).into_iter().flatten();
    let oldest = slots.max_by_key(|slot| slot.sequence).map(|slot| slot.oldest);
    let names = storage.list()?;
    let heads = names.iter().filter_map(|name| Some((SegmentId::from_file_name(name)?, name)));
    let heads: BTreeMap<_, _> = heads.filter(|(id, _)| !orphans.contains(id)).collect();
    let (mut live, mut id) = (vec![], heads.keys().max().copied());
    // If the chain ends early, the log is damaged, and opening it reports that.
    while let Some((here, name)) = id.and_then(|id| heads.get_key_value(&id)) {
        let header = match read(storage, name, STORED_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            other => SegmentHeader::decode(&other?),
        };
        let Ok(header) = header else { break };
        let Some(header) = begun(storage, name, header)? else {
            // The segment has no record yet.
            id = heads.range(..here).next_back().map(|(id, _)| *id);
            continue;
        };
        let mut files = vec![header.head_name(), header.data_name()];
        files.dedup();
        let lengths = files.iter().map(|name| storage.open(name, Access::Read)?.len());
        live.insert(0, (header.base, lengths.sum::<io::Result<u64>>()?));
        let is_oldest = Some(header.reference()) == oldest;
        id = header.pred.filter(|_| !is_oldest).map(|pred| pred.id).filter(|pred| pred < here);
    }
    Ok(live)
}

/// Returns the header. If the segment was named ahead, its first batch completes the header; `None`
/// if it has no batch yet.
fn begun(
    storage: &PosixStorage,
    name: &str,
    header: SegmentHeader,
) -> io::Result<Option<SegmentHeader>> {
    if !header.named_ahead {
        return Ok(Some(header));
    }
    let mut bytes = [0; batch::HEADER_SIZE];
    let file = storage.open(name, Access::Read)?;
    let read = file.read_at(&mut bytes, header.data_start())?;
    Ok(BatchHeader::begins(&header, bytes.get(..read).unwrap_or_default()))
}

fn read(storage: &PosixStorage, name: &str, max: usize) -> io::Result<Vec<u8>> {
    read_start(&*storage.open(name, Access::Read)?, to_u64(max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    #[test]
    fn only_segments_entirely_before_the_lsn_are_removed() {
        let live = [(lsn(1), 100), (lsn(50), 200), (lsn(80), 400)];
        let plan = |before| {
            let plan = Plan::of_segments(&live, lsn(before), lsn(100));
            (plan.records(&[]), plan.files.unwrap(), plan.oldest.get())
        };
        assert_eq!(plan(1), (0, (0, 0), 1));
        assert_eq!(plan(49), (0, (0, 0), 1));
        assert_eq!(plan(50), (49, (1, 100), 50));
        assert_eq!(plan(79), (49, (1, 100), 50));
        assert_eq!(plan(1000), (79, (2, 300), 80), "the newest segment stays");
        let plan = Plan::of_segments(&live, lsn(50), lsn(100));
        let lost = |(from, to)| Lost::new(lsn(from), Some(lsn(to)));
        let given_up = [(3, 7), (45, 60), (70, 75)].map(lost);
        assert_eq!(plan.records(&given_up), 49 - 5 - 5, "of 1 to 49");
    }

    #[test]
    fn segment_without_records_is_removed_with_the_others() {
        let live = [(lsn(1), 100), (lsn(50), 200), (lsn(50), 400)];
        let plan = Plan::of_segments(&live, lsn(50), lsn(61));
        assert_eq!((plan.goes, plan.files), (Some((lsn(1), lsn(49))), Some((2, 300))));
    }

    #[test]
    fn truncation_at_the_end_names_the_removed_records() {
        let goes =
            |after| Plan::after(after, (lsn(5), Some(lsn(9)), lsn(10))).map(|plan| plan.goes);
        assert_eq!(goes(Some(lsn(7))).unwrap(), Some((lsn(8), lsn(9))));
        assert_eq!(goes(Some(lsn(4))).unwrap(), Some((lsn(5), lsn(9))));
        assert_eq!(goes(Some(lsn(9))).unwrap(), None);
        assert_eq!(goes(Some(lsn(100))).unwrap(), None);
        assert!(
            matches!(goes(Some(lsn(3))), Err(Error::Pruned { oldest, .. }) if oldest == lsn(5))
        );
        assert_eq!(goes(None).unwrap(), Some((lsn(5), lsn(9))));
    }
}
