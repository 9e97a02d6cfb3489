//! Several cursors that share one log; each starts at a segment.

use crate::base::error::Result;
use crate::files::unlock::LogFiles;
use crate::read::cursor::Cursor;
use crate::read::read_repair::ReadRepair;
use crate::read::snapshot::Snapshot;
use seawall_format::Lsn;

impl Cursor {
    /// Up to `count` cursors that share the records from `from` on. Each starts where a segment
    /// begins, so that the bytes are distributed evenly.
    pub(crate) fn partition(
        log: &LogFiles,
        from: Lsn,
        (count, skip_damaged): (usize, bool),
    ) -> Result<Vec<Self>> {
        let found = Snapshot::of_files(log, &mut ReadRepair::default())?.catalog;
        let bases = found.chain.iter().map(|link| {
            let header = &link.segment.header;
            (header.base, link.segment.length.saturating_sub(header.data_start()))
        });
        let starts = partition_starts(from, count, &bases.collect::<Vec<_>>());
        let ends = starts.iter().skip(1).copied().map(Some).chain([None]);
        let cursor = |(start, until): (&Lsn, Option<Lsn>)| {
            let cursor = Self::new(log, *start, skip_damaged)?;
            Ok(Self { until, ..cursor })
        };
        starts.iter().zip(ends).map(cursor).collect()
    }
}

/// Where each of up to `count` cursors starts. A segment is given by its first LSN and its size in
/// bytes.
fn partition_starts(from: Lsn, count: usize, segments: &[(Lsn, u64)]) -> Vec<Lsn> {
    let first = segments.iter().rposition(|(base, _)| *base <= from).unwrap_or(0);
    let segments = segments.get(first..).unwrap_or_default();
    let total: u64 = segments.iter().map(|(_, size)| size).sum();
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    let share = total.div_ceil(count).max(1);
    let (mut starts, mut last, mut passed) = (vec![from], from, 0);
    for (base, size) in segments {
        let due = share.saturating_mul(u64::try_from(starts.len()).expect("fits in 64 bits"));
        // A segment across the boundary goes to the side that holds most of it.
        if passed + size / 2 >= due && *base > last {
            starts.push(*base);
            last = *base;
        }
        passed += size;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(from: u64, count: usize, segments: &[(u64, u64)]) -> Vec<u64> {
        let lsn = |number| Lsn::new(number).expect("not 0");
        let segments: Vec<_> = segments.iter().map(|(base, size)| (lsn(*base), *size)).collect();
        partition_starts(lsn(from), count, &segments).into_iter().map(Lsn::get).collect()
    }

    #[test]
    fn cursors_start_at_segments_and_share_the_bytes_evenly() {
        let same = [(1, 64), (11, 64), (21, 64), (31, 64)];
        assert_eq!(starts(1, 2, &same), [1, 21]);
        assert_eq!(starts(1, 4, &same), [1, 11, 21, 31]);
        assert_eq!(starts(1, 9, &same), [1, 11, 21, 31], "no more than segments");
        assert_eq!(starts(1, 0, &same), [1], "one at least");
        assert_eq!(starts(15, 2, &same), [15, 21], "from within one");
        assert_eq!(starts(40, 2, &same), [40], "from the last");
        assert_eq!(starts(1, 2, &[(1, 1), (2, 2), (4, 4), (8, 8)]), [1, 8]);
        assert_eq!(starts(1, 2, &[(1, 8), (8, 0), (8, 8)]), [1, 8], "one of them is empty");
        assert_eq!(starts(1, 2, &[]), [1], "nothing is there");
    }
}
