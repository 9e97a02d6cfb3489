//! What follows the last valid batch of the newest segment, none of it acknowledged: the last rows
//! of the recovery table, format.md section 7.

use crate::binary::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life};
use crate::binary::frame;
pub use crate::fields::is_zero;
use crate::fields::sizes::SECTOR;
use crate::files::before::Before;
use crate::ids::{Lsn, Offset, to_u64};

mod chunks;
#[cfg(feature = "lz4")]
#[cfg(test)]
mod enumeration;

/// A row of the recovery table that speaks of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// No write reached anything there.
    Clean,
    /// Something is stored further away than the writes in flight reach.
    BeyondWindow,
    /// The header of a batch did not reach the device whole.
    HeaderTorn,
    /// The header did, the frames did not.
    BodyTorn,
    /// A line of a text did not reach the device whole, or its set did not.
    LineTorn,
    /// Anything else.
    Otherwise,
}

/// What a row means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The log ends there.
    Clean,
    /// An unacknowledged write was in progress.
    Torn,
    /// A write under way and damage would look the same.
    Ambiguous,
}

impl Row {
    /// The verdict of this row.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Clean => Verdict::Clean,
            Self::HeaderTorn | Self::BodyTorn | Self::LineTorn => Verdict::Torn,
            Self::BeyondWindow | Self::Otherwise => Verdict::Ambiguous,
        }
    }
}

/// The end of the newest segment: the bytes after the valid prefix, and what would come next.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// The bytes before P in the sector that holds P.
    pub lead: &'a [u8],
    /// The bytes from P on, as many as [`window`] says at least and then to the end of a sector, or
    /// to the end of the file.
    pub bytes: &'a [u8],
    /// Whether a write reached something after those.
    pub goes_on: bool,
    /// What the file held before.
    pub before: &'a Before,
    /// P, where they begin.
    pub offset: Offset,
    /// The record that would come next.
    pub next: Lsn,
    /// The chain value that its batch would name.
    pub chain: u64,
}

/// The row for what follows the valid prefix.
///
/// # Examples
///
/// ```
/// use seawall_format::batch::Life;
/// use seawall_format::before::Before;
/// use seawall_format::tail::{Row, Tail, classify};
/// use seawall_format::{Compression, Epoch, LogId, Lsn, Offset, Salt};
///
/// let salt = Salt::new(LogId(1), Epoch(2));
/// let life = Life {
///     salt,
///     epoch: Epoch(2),
///     batch_max: 4096,
///     block: 512,
///     in_flight_max: 1,
///     compression_max: Compression::None,
///     is_encrypted: false,
/// };
/// let tail = Tail {
///     lead: &[],
///     bytes: &[0; 4096],
///     goes_on: false,
///     before: &Before::Zeros,
///     offset: Offset(8192),
///     next: Lsn::FIRST,
///     chain: 0,
/// };
/// assert_eq!(classify(&tail, &life), Row::Clean);
/// ```
#[must_use]
pub fn classify(tail: &Tail<'_>, life: &Life) -> Row {
    let tail = Judged { tail, block: u64::from(life.block) };
    if tail.tail.goes_on || tail.is_touched_from(window(life)) {
        return Row::BeyondWindow;
    }
    if !tail.is_touched_from(0) {
        return Row::Clean;
    }
    let Judged { tail: Tail { bytes, offset, .. }, .. } = tail;
    if bytes.len() < HEADER_SIZE {
        // No writer begins a batch that does not fit.
        return Row::Otherwise;
    }
    match BatchHeader::decode(bytes, *offset, life) {
        None if tail.has_untouched_sector(0, HEADER_SIZE) => Row::HeaderTorn,
        Some(header) if is_torn(&tail, &header, life) => Row::BodyTorn,
        _ => Row::Otherwise,
    }
}

/// The row for what follows the valid lines of a text: `bytes` from P on, at least one largest
/// write or up to the end of the file. format.md section 9.4.
///
/// `goes_on`: more follows that is neither white space nor zero; `set_is_open`: the set of the last
/// line is incomplete.
#[must_use]
pub fn classify_text(bytes: &[u8], goes_on: bool, set_is_open: bool) -> Row {
    let mut tail = TextTail::default();
    tail.look(bytes);
    tail.row(goes_on, set_is_open)
}

/// The same, of bytes that are shown piece by piece: there may be more than belong in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextTail {
    /// Whether it is not all zero.
    is_used: bool,
    /// The first line has a line break.
    has_break: bool,
    /// The first line has a zero.
    has_zero: bool,
}

impl TextTail {
    /// Examines the bytes after those examined before.
    pub fn look(&mut self, bytes: &[u8]) {
        self.is_used |= !bytes.iter().all(|byte| is_blank(*byte));
        if !self.has_break {
            let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
            self.has_zero |= line.contains(&0);
            self.has_break = line.len() < bytes.len();
        }
    }

    /// The row that fits what was shown: see [`classify_text`].
    #[must_use]
    pub fn row(self, goes_on: bool, set_is_open: bool) -> Row {
        match self {
            _ if goes_on => Row::BeyondWindow,
            Self { is_used: false, .. } if set_is_open => Row::LineTorn,
            Self { is_used: false, .. } => Row::Clean,
            Self { has_break: false, .. } | Self { has_zero: true, .. } => Row::LineTorn,
            _ => Row::Otherwise,
        }
    }
}

/// Whether a byte says nothing in a text: white space, or zero.
#[must_use]
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t' | b'\n' | b'\r')
}

/// How far after P the writes in flight can reach, in bytes.
///
/// # Panics
///
/// If that many bytes do not fit in memory.
#[must_use]
pub fn window(life: &Life) -> usize {
    let window = u64::from(life.batch_max) * u64::from(life.in_flight_max) + u64::from(life.block);
    usize::try_from(window).expect("a batch fits in memory")
}

fn is_torn(tail: &Judged<'_>, header: &BatchHeader, life: &Life) -> bool {
    let Tail { bytes, next, chain, .. } = tail.tail;
    let Ok(size) = usize::try_from(header.size()) else { return false };
    let Some(body) = bytes.get(HEADER_SIZE..size) else { return false };
    (header.first, header.chain) == (*next, *chain)
        && tail.has_untouched_sector(HEADER_SIZE, size)
        && match header.kind {
            BodyKind::Frames | BodyKind::Void => written_frames_are_valid(tail, header, body, life),
            BodyKind::Encoded | BodyKind::Encrypted | BodyKind::EncryptedVoid => {
                let place = (tail.tail.offset, life);
                chunks::written_chunks_are_valid(header, body, place, |from, to| {
                    tail.has_untouched_sector(from, to)
                })
            }
        }
}

/// Whether every frame that lies wholly in sectors which were written is valid.
fn written_frames_are_valid(
    tail: &Judged<'_>,
    header: &BatchHeader,
    body: &[u8],
    life: &Life,
) -> bool {
    let (mut position, mut lsn) = (0, header.first);
    for _ in 0..header.count {
        let head_end = position + frame::HEADER_SIZE;
        if tail.has_untouched_sector(HEADER_SIZE + position, HEADER_SIZE + head_end) {
            return true;
        }
        let Some((_, behind)) = frame::read(body, position, lsn) else { return false };
        let written = !tail.has_untouched_sector(HEADER_SIZE + position, HEADER_SIZE + behind);
        if written && !frame::is_valid(body, position, lsn, &life.salt) {
            return false;
        }
        (position, lsn) = (behind, lsn.next());
    }
    true
}

/// A tail, and the size of a block in its file.
struct Judged<'a> {
    tail: &'a Tail<'a>,
    block: u64,
}

impl Judged<'_> {
    /// Whether one of the sectors under bytes `from..to` of the tail is untouched. A sector that
    /// was not shown counts as one.
    fn has_untouched_sector(&self, from: usize, to: usize) -> bool {
        let lead = self.lead();
        let (first, last) = ((lead + from) / SECTOR, (lead + to).div_ceil(SECTOR));
        (first..last).any(|index| self.is_untouched(index).unwrap_or(true))
    }

    /// Whether something from byte `from` of the tail on was touched.
    fn is_touched_from(&self, from: usize) -> bool {
        let Tail { bytes, before, .. } = self.tail;
        if let Before::Zeros = before {
            return bytes.get(from..).is_some_and(|far| !is_zero(far));
        }
        let lead = self.lead();
        let (first, last) = ((lead + from) / SECTOR, (lead + bytes.len()).div_ceil(SECTOR));
        (first..last).any(|index| self.is_untouched(index) == Some(false))
    }

    /// Whether a sector is untouched, counted from the one with P; `None` if it was not shown.
    fn is_untouched(&self, index: usize) -> Option<bool> {
        let Tail { lead, bytes, before, offset, .. } = self.tail;
        let start = offset.0 - to_u64(self.lead());
        let at = start + to_u64(index * SECTOR);
        let places = (offset.0, offset.0.next_multiple_of(self.block));
        let end = ((index + 1) * SECTOR - self.lead()).min(bytes.len());
        if index > 0 {
            let sector =
                bytes.get(index * SECTOR - self.lead()..end).filter(|held| !held.is_empty());
            return Some(before.is_untouched((at, sector?), places));
        }
        // The sector with P, of which only the part after P is the tail.
        let mut sector = [0; SECTOR];
        let (own, after) = sector.split_at_mut(self.lead());
        let held = bytes.get(..end).filter(|held| !held.is_empty())?;
        after.get_mut(..end)?.copy_from_slice(held);
        // Without the bytes before P, only zeros after it can tell.
        if own.len() == lead.len() {
            own.copy_from_slice(lead);
        }
        Some(before.is_untouched((at, sector.get(..self.lead() + end)?), places))
    }

    /// Bytes from the start of the sector with P to P.
    fn lead(&self) -> usize {
        usize::try_from(self.tail.offset.0 % to_u64(SECTOR)).expect("less than a sector")
    }
}

/// Where the sector with this byte begins.
pub(crate) fn sector_start(at: Offset) -> Offset {
    Offset(at.0 - at.0 % to_u64(SECTOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::batch::{Spec, finish};
    use crate::checksum::Salt;
    use crate::ids::{Epoch, LogId};
    use crate::types::Compression;

    pub(super) const LIFE: Life = Life {
        salt: Salt::new(LogId(3), Epoch(9)),
        epoch: Epoch(9),
        batch_max: 2048,
        block: 512,
        in_flight_max: 1,
        compression_max: Compression::None,
        is_encrypted: false,
    };
    /// In the middle of a sector, where a tail usually begins.
    pub(super) const AT: Offset = Offset(6144 + 200);

    /// A batch of four records of 300 bytes at `AT`, then zeros.
    pub(super) fn written() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE];
        for number in 1..=4 {
            frame::push_unbound(&mut bytes, &[number; 300], false);
        }
        let (first, confirmed) = (Lsn::FIRST, None);
        let spec =
            Spec { first, count: 4, kind: BodyKind::Frames, confirmed, chain: 7, time_us: 0 };
        finish(&mut bytes, spec, AT, &LIFE);
        bytes.resize(8192, 0);
        bytes
    }

    fn row(bytes: &[u8]) -> Row {
        row_in(bytes, &LIFE)
    }

    fn row_in(bytes: &[u8], life: &Life) -> Row {
        let tail = Tail {
            lead: &[],
            bytes,
            goes_on: false,
            before: &Before::Zeros,
            offset: AT,
            next: Lsn::FIRST,
            chain: 7,
        };
        classify(&tail, life)
    }

    /// The range of the tail that lies in sector `index` of the file; sector 0 contains `AT`.
    fn sector(index: usize) -> std::ops::Range<usize> {
        (index * SECTOR).saturating_sub(200)..(index + 1) * SECTOR - 200
    }

    #[test]
    fn zeros_end_the_log() {
        assert_eq!(row(&[0; 4096]), Row::Clean);
    }

    #[test]
    fn header_in_a_sector_that_was_not_written_is_torn() {
        let mut bytes = written();
        bytes[sector(0)].fill(0);
        assert_eq!(row(&bytes), Row::HeaderTorn);
    }

    #[test]
    fn body_with_a_sector_that_was_not_written_is_torn() {
        for lost in 1..3 {
            let mut bytes = written();
            bytes[sector(lost)].fill(0);
            assert_eq!(row(&bytes), Row::BodyTorn, "sector {lost}");
        }
    }

    #[test]
    fn bytes_beyond_one_write_are_not_torn() {
        let mut bytes = written();
        bytes[sector(0)].fill(0);
        bytes[7000] = 1;
        assert_eq!(row(&bytes), Row::BeyondWindow);
        let zeros = &[0; 4096];
        let tail = Tail {
            lead: &[],
            bytes: zeros,
            goes_on: true,
            before: &Before::Zeros,
            offset: AT,
            next: Lsn::FIRST,
            chain: 7,
        };
        assert_eq!(classify(&tail, &LIFE), Row::BeyondWindow);
    }

    #[test]
    fn one_write_reaches_at_most_a_largest_batch_and_a_block() {
        let reach = 2048 + 512;
        assert_eq!(window(&LIFE), reach);
        for (at, expected) in [(reach - 1, Row::HeaderTorn), (reach, Row::BeyondWindow)] {
            let mut bytes = vec![0; 4096];
            bytes[at] = 1;
            assert_eq!(row(&bytes), expected, "a byte at {at}");
        }
    }

    #[test]
    fn writes_in_flight_reach_as_many_batches_further() {
        let life = Life { in_flight_max: 3, ..LIFE };
        let reach = 3 * 2048 + 512;
        assert_eq!(window(&life), reach);
        for (at, expected) in [(reach - 1, Row::HeaderTorn), (reach, Row::BeyondWindow)] {
            let mut bytes = vec![0; 8192];
            bytes[at] = 1;
            assert_eq!(row_in(&bytes, &life), expected, "a byte at {at}");
        }
    }

    #[test]
    fn nothing_is_torn_where_no_batch_fits() {
        for (room, expected) in [(47, Row::Otherwise), (48, Row::HeaderTorn)] {
            let mut bytes = vec![0; room];
            bytes[room - 1] = 1;
            // Near the end of a sector, so that the header would reach into the next one.
            let offset = Offset(6144 + 512 - 8);
            let tail = Tail {
                lead: &[],
                bytes: &bytes,
                goes_on: false,
                before: &Before::Zeros,
                offset,
                next: Lsn::FIRST,
                chain: 7,
            };
            assert_eq!(classify(&tail, &LIFE), expected, "{room} bytes");
        }
    }

    #[test]
    fn header_across_two_sectors_is_torn_if_one_is_zero() {
        let offset = Offset(6144 + 512 - 16);
        let mut whole = vec![0; HEADER_SIZE];
        frame::push_unbound(&mut whole, &[7; 40], false);
        let spec = Spec {
            first: Lsn::FIRST,
            count: 1,
            kind: BodyKind::Frames,
            confirmed: None,
            chain: 7,
            time_us: u64::MAX,
        };
        finish(&mut whole, spec, offset, &LIFE);
        whole.resize(4096, 0);
        let row = |bytes: &[u8]| {
            classify(
                &Tail {
                    lead: &[],
                    bytes,
                    goes_on: false,
                    before: &Before::Zeros,
                    offset,
                    next: Lsn::FIRST,
                    chain: 7,
                },
                &LIFE,
            )
        };
        let mut first_lost = whole.clone();
        first_lost[..16].fill(0);
        assert_eq!(row(&first_lost), Row::HeaderTorn);
        let mut second_lost = whole.clone();
        second_lost[16..528].fill(0);
        assert_eq!(row(&second_lost), Row::HeaderTorn);
        let mut changed = whole;
        changed[3] ^= 1;
        assert_eq!(row(&changed), Row::Otherwise);
    }

    #[test]
    fn frames_with_unwritten_heads_are_not_judged() {
        // Sector 2 is lost: records 2 and 3 are partly in it, record 4 after it is whole.
        let mut bytes = written();
        bytes[sector(2)].fill(0);
        assert_eq!(row(&bytes), Row::BodyTorn);
        // Record 3 begins in the lost sector, so it is unknown where record 4 begins.
        let mut bytes = written();
        bytes[sector(1)].fill(0);
        let in_record_4 = HEADER_SIZE + 3 * 312 + 20;
        bytes[in_record_4] ^= 1;
        assert_eq!(row(&bytes), Row::BodyTorn);
    }

    #[test]
    fn batch_is_torn_only_with_a_zero_sector() {
        let end = HEADER_SIZE + 4 * 312;
        let mut bytes = written();
        bytes[end - 4] ^= 1;
        assert_eq!(row(&bytes), Row::Otherwise);
        // No writer writes a batch that extends past the bytes shown, such as past the file's end.
        let bytes = &written()[..end - 8];
        assert_eq!(row(bytes), Row::Otherwise);
    }

    #[test]
    fn changed_bytes_without_a_zero_sector_are_not_called_torn() {
        let mut bytes = written();
        bytes[0] ^= 1;
        assert_eq!(row(&bytes), Row::Otherwise);
        let mut bytes = written();
        bytes[100] ^= 1;
        assert_eq!(row(&bytes), Row::Otherwise);
    }

    #[test]
    fn changed_frame_beside_a_zero_sector_is_not_called_torn() {
        let mut bytes = written();
        bytes[sector(2)].fill(0);
        bytes[100] ^= 1;
        assert_eq!(row(&bytes), Row::Otherwise);
    }

    #[test]
    fn batch_that_does_not_continue_the_log_is_not_called_torn() {
        let mut bytes = written();
        bytes[sector(2)].fill(0);
        let tail = Tail {
            lead: &[],
            bytes: &bytes,
            goes_on: false,
            before: &Before::Zeros,
            offset: AT,
            next: Lsn::FIRST,
            chain: 8,
        };
        assert_eq!(classify(&tail, &LIFE), Row::Otherwise);
    }

    #[test]
    fn partial_line_and_partial_set_are_torn() {
        let torn = |bytes: &[u8]| classify_text(bytes, false, false);
        assert_eq!(torn(b"{\"lsn\":7,\"conf"), Row::LineTorn);
        assert_eq!(torn(b"{\"lsn\":7,\0\0\0\0\n{}\n"), Row::LineTorn);
        assert_eq!(torn(b"\0\0\"data\":1}\n"), Row::LineTorn);
        assert_eq!(classify_text(b"", false, true), Row::LineTorn);
        assert_eq!(torn(b" \t\r\n\0"), Row::Clean);
        assert_eq!(torn(b"{\"lsn\":7}\n"), Row::Otherwise);
        assert_eq!(classify_text(b"", true, false), Row::BeyondWindow);
    }
}
