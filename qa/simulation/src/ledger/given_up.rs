//! Records that an open did not find, and that a device which lies can bring back.
//!
//! Only the manifest says where a log begins. If its writes and the removals of the files are lost,
//! the disk looks as it did before the prune, or after a crash in the middle of the prune. Records
//! at the end that wrong reads hid are superseded by the segment that the open created. If no trace
//! of that segment is left, the disk looks as it did before that open.

use std::ops::RangeInclusive;

use seawall_format::SegmentId;

use crate::ledger::Payload;

/// The records given up by the opens of all lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenUp {
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    /// `None` if its LSN was neither returned nor shown.
    lsn: Option<u64>,
    payload: Payload,
    open: Open,
}

/// An open that gave up records.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// The LSNs that the log has after the open.
    pub(crate) left: RangeInclusive<u64>,
    /// The highest segment id on the disk before the open.
    pub(crate) highest: Option<SegmentId>,
}

/// What a disk shows before an open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk {
    /// Where the log begins according to the manifest.
    pub(crate) begins: u64,
    /// The highest segment id that exists or is named.
    pub(crate) highest: Option<SegmentId>,
}

impl Disk {
    /// Returns the lower value of each field.
    pub(crate) fn at_most(self, other: Self) -> Self {
        let (begins, highest) = (self.begins.min(other.begins), self.highest.min(other.highest));
        Self { begins, highest }
    }
}

impl GivenUp {
    /// Adds a record if the log no longer has it after this open.
    pub(crate) fn add(&mut self, (lsn, payload): (Option<u64>, &Payload), open: &Open) {
        if lsn.is_none_or(|lsn| !open.left.contains(&lsn)) {
            self.records.push(Record { lsn, payload: payload.clone(), open: open.clone() });
        }
    }

    /// Whether this record was given up, and nothing on the disk shows that.
    pub(crate) fn may_return(&self, (lsn, payload): (u64, &Payload), disk: Disk) -> bool {
        self.records.iter().any(|record| {
            let Open { left, highest } = &record.open;
            let is_untold = if lsn < *left.start() {
                disk.begins <= lsn
            } else {
                lsn > *left.end() && disk.highest <= *highest
            };
            is_untold && record.lsn.is_none_or(|own| own == lsn) && record.payload == *payload
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENTS: [Option<SegmentId>; 3] =
        [SegmentId::new(1), SegmentId::new(2), SegmentId::new(3)];

    /// Records 1 to 7, after an open that kept records 4 and 5.
    fn given_up() -> GivenUp {
        let [_, highest, _] = SEGMENTS;
        let mut given_up = GivenUp::default();
        for lsn in 1..=7 {
            let payload = vec![u8::try_from(lsn).expect("a small number"); 20];
            given_up.add((Some(lsn), &payload), &Open { left: 4..=5, highest });
        }
        given_up
    }

    #[test]
    fn pruned_record_returns_unless_the_manifest_says_that_the_log_begins_later() {
        let given_up = given_up();
        let returns = |begins, lsn, byte| {
            let disk = Disk { begins, highest: SEGMENTS[2] };
            given_up.may_return((lsn, &vec![byte; 20]), disk)
        };
        assert!(returns(1, 3, 3) && returns(3, 3, 3));
        assert_eq!([returns(4, 3, 3), returns(1, 3, 2), returns(1, 5, 5)], [false; 3]);
    }

    #[test]
    fn lost_end_returns_unless_the_disk_speaks_of_a_later_segment() {
        let given_up = given_up();
        let returns = |highest, lsn, byte| {
            given_up.may_return((lsn, &vec![byte; 20]), Disk { begins: 1, highest })
        };
        assert!(returns(SEGMENTS[0], 6, 6) && returns(SEGMENTS[1], 6, 6));
        assert_eq!([returns(SEGMENTS[2], 6, 6), returns(SEGMENTS[1], 6, 7)], [false; 2]);
    }
}
