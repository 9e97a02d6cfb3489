//! Judges the contents of a damaged range: which records are lost, which are intact, and whether
//! the bytes belong to another place.

use crate::base::error::{Corruption, Damage, Lost, Origin};
use crate::files::segment::Segment;
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life};
use seawall_format::encryption::KeyError;
use seawall_format::{Compression, Lsn, Offset, encoded, frame};
use std::ops::Range;

/// An intact record inside a damaged range.
#[derive(Clone, Debug)]
pub(crate) struct Salvaged {
    pub(crate) lsn: Lsn,
    pub(crate) payload: Range<usize>,
    pub(crate) goes_on: bool,
    pub(crate) set: AtomicSet,
    /// Microseconds since 1970 when its batch was written; 0 if unknown.
    pub(crate) time_us: u64,
}

/// Whether all records of an atomic set could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtomicSet {
    /// All of them, as always outside a damaged batch. A record appended alone is a set of one.
    Whole,
    /// Some are lost: the set is no longer atomic.
    Broken,
    /// The preceding record is lost, so it is unknown whether this one belonged to the same set.
    Unknown,
}

impl AtomicSet {
    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
        }
    }
}

/// The records that a damaged range should contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedFrames {
    pub(crate) first: Lsn,
    /// The last record of the range, if known.
    pub(crate) last: Option<Lsn>,
    /// The last of them within the scan limit.
    pub(crate) counts_to: Option<Lsn>,
    /// Whether `counts_to` is the scan limit, so that a set may end there.
    pub(crate) is_limit: bool,
    pub(crate) end: RangeEnd,
    /// The time of the batch, if the range is one batch whose header is intact; otherwise 0.
    pub(crate) time_us: u64,
}

/// What is known about the end of a damaged range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeEnd {
    /// The last record.
    Known,
    /// Nothing: records may follow the last one that anything confirms.
    Open,
    /// More bytes follow that cannot be read, or that are gone.
    Hidden,
}

/// What a damaged range can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Frames,
    Chunks,
    /// Unknown: the header that would tell is not readable.
    Either,
}

impl Contents {
    /// The contents of the damaged range `bytes` at offset `at`, where a scanner stopped at
    /// `header`.
    pub(crate) fn of(
        header: Option<BatchHeader>,
        (bytes, at): (&[u8], Offset),
        life: &Life,
    ) -> Self {
        // The header belongs to the range only if it is still there.
        let header = header.filter(|header| BatchHeader::decode(bytes, at, life) == Some(*header));
        match header.map(|header| header.kind) {
            _ if life.is_encrypted => Self::Chunks,
            _ if life.compression_max == Compression::None => Self::Frames,
            Some(BodyKind::Encoded) => Self::Chunks,
            Some(_) => Self::Frames,
            None => Self::Either,
        }
    }
}

impl ExpectedFrames {
    /// The intact records of a range at offset `at` of `segment` whose first bytes are a batch
    /// header. The second value is the memory that holds the records, if `bytes` does not. Records
    /// of an encrypted segment whose keys are not known have no payload.
    ///
    /// # Errors
    ///
    /// [`KeyError::Forged`] if the checksum of a chunk is right, and no holder of the key wrote it.
    pub(crate) fn salvage(
        &self,
        bytes: &[u8],
        (at, life): (Offset, &Life),
        (contents, segment): (Contents, &Segment),
    ) -> Result<(Vec<Salvaged>, Option<Vec<u8>>), KeyError> {
        let Some(last) = self.last.filter(|last| *last >= self.first) else {
            return Ok((vec![], None));
        };
        let (mut found, mut memory) = (vec![], None);
        if contents != Contents::Chunks {
            let body = bytes.get(HEADER_SIZE..).unwrap_or_default();
            let intact = frame::salvage(body, self.first, last, &life.salt);
            found.extend(intact.iter().map(|(at, frame)| Salvaged::new(HEADER_SIZE + at, frame)));
        }
        if contents != Contents::Frames {
            let mut all = bytes.to_vec();
            let records = (self.first, last);
            match &segment.keys {
                _ if !life.is_encrypted => {
                    for chunk in &encoded::salvage(bytes, (at, life), records, &mut all) {
                        found.extend(Self::frames_of(chunk, &all));
                    }
                }
                Some(keys) => {
                    for chunk in &keys.salvage(bytes, (at, life), (records, &mut all))? {
                        found.extend(Self::frames_of(chunk, &all));
                    }
                }
                None => {
                    for chunk in encoded::salvage_locked(bytes, (at, life), records) {
                        found.extend((0..chunk.count).map(|number| Salvaged {
                            lsn: chunk.first.plus(number.into()),
                            payload: 0..0,
                            goes_on: false,
                            set: AtomicSet::Unknown,
                            time_us: 0,
                        }));
                    }
                }
            }
            // Of two records with the same LSN, the one from a chunk comes first: its position is
            // higher.
            found.sort_by_key(|record| (record.lsn, std::cmp::Reverse(record.payload.start)));
            found.dedup_by_key(|record| record.lsn);
            memory = Some(all);
        }
        found.retain(|record| Some(record.lsn) <= self.counts_to);
        for record in &mut found {
            record.time_us = self.time_us;
        }
        if !life.is_encrypted || segment.keys.is_some() {
            self.mark_sets(&mut found);
        }
        Ok((found, memory))
    }

    /// The records of a chunk whose frames are in `memory`.
    fn frames_of(chunk: &encoded::IntactChunk, memory: &[u8]) -> Vec<Salvaged> {
        let frames = memory.get(chunk.frames.clone()).unwrap_or_default();
        let mut at = chunk.frames.start;
        let record = |frame: frame::Frame<'_>| {
            let found = Salvaged::new(at, &frame);
            at += frame::size_on_disk(frame.payload.len());
            found
        };
        frame::Frames::new(frames, chunk.first, chunk.count).map(record).collect()
    }

    /// A copy of `damage` for each range of records that were not salvaged; if all were, `damage`.
    pub(crate) fn each_lost(&self, damage: &Damage, salvaged: &[Salvaged]) -> Vec<Damage> {
        let lost = self.lost(salvaged).into_iter();
        let mut all: Vec<_> =
            lost.map(|lost| Damage { lost: Some(lost), ..damage.clone() }).collect();
        if all.is_empty() {
            all.push(damage.clone());
        }
        all
    }

    /// Marks the records of each set as whole, broken or unknown.
    fn mark_sets(&self, found: &mut [Salvaged]) {
        let first = self.first;
        let mut begins = Some(first);
        let sets = found.chunk_by_mut(|one, next| one.goes_on && next.lsn == one.lsn.next());
        for set in sets {
            let (Some(head), Some(tail)) = (set.first(), set.last()) else { continue };
            let is_known = begins == Some(head.lsn);
            let ends = !tail.goes_on || (self.is_limit && Some(tail.lsn) == self.counts_to);
            // A record after the end of a set begins a new set. After a lost record this is
            // unknown.
            begins = ends.then(|| tail.lsn.next());
            let mark = match (ends, is_known) {
                (false, _) => AtomicSet::Broken,
                (true, false) => AtomicSet::Unknown,
                (true, true) => AtomicSet::Whole,
            };
            for record in set {
                record.set = mark;
            }
        }
    }

    /// The ranges of LSNs that were not salvaged.
    pub(crate) fn lost(&self, salvaged: &[Salvaged]) -> Vec<Lost> {
        let (mut runs, mut from) = (vec![], self.first);
        for found in salvaged {
            if let Some(to) = found.lsn.previous().filter(|to| *to >= from) {
                runs.push(Lost { from, to: Some(to) });
            }
            from = found.lsn.next();
        }
        if Some(from) <= self.counts_to || self.end == RangeEnd::Hidden {
            runs.push(Lost { from, to: self.counts_to.filter(|_| self.end == RangeEnd::Known) });
        }
        runs
    }
}

impl Salvaged {
    /// The record whose frame begins at `position`.
    fn new(position: usize, frame: &frame::Frame<'_>) -> Self {
        let start = position + frame::HEADER_SIZE;
        let payload = start..start + frame.payload.len();
        let (lsn, goes_on) = (frame.lsn, frame.goes_on);
        Self { lsn, payload, goes_on, set: AtomicSet::Whole, time_us: 0 }
    }
}

/// How many batch headers in a damaged range may be compared with all offsets of a segment.
const TRACES_MAX: usize = 16;

/// Finds where the bytes in a damaged range of `here` belong, if they are a batch of this log from
/// another place.
///
/// `at` is the offset of `bytes` in the segment.
pub(crate) fn trace_misplaced_bytes(
    here: &Segment,
    others: &[Segment],
    at: Offset,
    bytes: &[u8],
) -> Option<(Corruption, Origin)> {
    let lives: Vec<_> = others.iter().map(|other| (other, Life::of(&other.header))).collect();
    let places = (0..bytes.len()).step_by(8).filter_map(|position| bytes.get(position..));
    let headers = places.zip((at.0..).step_by(8)).flat_map(|(header, place)| {
        lives.iter().filter_map(move |(other, life)| {
            let is_at_home = other.header.id == here.header.id
                && BatchHeader::decode(header, Offset(place), life).is_some();
            let is_misplaced = BatchHeader::is_of(header, life) && !is_at_home;
            is_misplaced.then_some((header, *other, life))
        })
    });
    let mut traced = headers.take(TRACES_MAX).filter_map(|(header, other, life)| {
        Some((other, BatchHeader::trace(header, life, other.header.size)?))
    });
    let (other, offset) = traced.next()?;
    let origin = Origin { segment: other.header.id, offset };
    if other.header.id != here.header.id {
        return Some((Corruption::ForeignEpoch, origin));
    }
    let head = other.read(offset, 48).unwrap_or_default();
    let is_copy = BatchHeader::decode(&head, offset, &Life::of(&other.header)).is_some();
    Some((if is_copy { Corruption::Duplicated } else { Corruption::Misplaced }, origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AtomicSet::{Broken, Unknown, Whole};

    fn record(lsn: u64, goes_on: bool) -> Salvaged {
        let lsn = Lsn::new(lsn).unwrap();
        Salvaged { lsn, payload: 0..0, goes_on, set: Whole, time_us: 0 }
    }

    fn marks(found: &[(u64, bool)]) -> Vec<AtomicSet> {
        let mut found: Vec<_> = found.iter().map(|(lsn, on)| record(*lsn, *on)).collect();
        let last = Lsn::new(9);
        let first = Lsn::FIRST;
        let (counts_to, time_us) = (last, 0);
        ExpectedFrames { first, last, counts_to, is_limit: false, end: RangeEnd::Known, time_us }
            .mark_sets(&mut found);
        found.into_iter().map(|record| record.set).collect()
    }

    #[test]
    fn complete_sets_are_intact() {
        assert_eq!(marks(&[(1, true), (2, false), (3, false)]), [Whole; 3]);
    }

    #[test]
    fn set_without_its_end_is_broken() {
        assert_eq!(marks(&[(1, false), (2, true), (3, true)]), [Whole, Broken, Broken]);
        assert_eq!(marks(&[(2, true), (4, false)]), [Broken, Unknown]);
    }

    #[test]
    fn set_interrupted_by_damage_is_broken() {
        let all: Vec<_> = (1..=9).map(|lsn| (lsn, lsn == 9)).collect();
        assert_eq!(marks(&all)[7..], [Whole, Broken]);
    }

    #[test]
    fn set_after_a_lost_record_may_have_begun_earlier() {
        assert_eq!(marks(&[(2, true), (3, false), (4, false)]), [Unknown, Unknown, Whole]);
    }

    #[test]
    fn lost_ranges_lie_between_intact_ones() {
        let expected = |end| ExpectedFrames {
            first: Lsn::FIRST,
            last: Lsn::new(9),
            counts_to: Lsn::new(9),
            is_limit: false,
            end,
            time_us: 0,
        };
        let runs =
            expected(RangeEnd::Known).lost(&[record(3, false), record(4, false), record(6, false)]);
        let runs: Vec<_> = runs.iter().map(ToString::to_string).collect();
        assert_eq!(runs, ["records 1 to 2", "record 5", "records 7 to 9"]);
        let open = expected(RangeEnd::Open).lost(&[record(1, false)]);
        assert_eq!(open[0].to_string(), "records from 2 on");
        let all: Vec<_> = (1..=9).map(|lsn| record(lsn, false)).collect();
        assert_eq!(expected(RangeEnd::Open).lost(&all), []);
        let hidden = expected(RangeEnd::Hidden).lost(&all);
        assert_eq!(hidden[0].to_string(), "records from 10 on");
    }
}
