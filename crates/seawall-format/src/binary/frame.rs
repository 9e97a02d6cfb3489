//! Record frames: a payload on disk, its length, and a checksum that can be verified by itself.
//! format.md section 3.3.
//!
//! A frame is built before its segment is known, so its checksum starts out as the plain CRC of the
//! payload; [`bind`] ties it to its place when the batch is written.

use crate::checksum::{RangeCrcs, Salt, crc32c};
use crate::fields::sizes::FRAME_HEADER;
use crate::fields::table;
use crate::ids::Lsn;
use std::cell::OnceCell;

/// Bytes of a frame before its payload.
pub const HEADER_SIZE: usize = FRAME_HEADER;

pub(crate) const GOES_ON: u32 = 1 << 31;

/// The checksum of a payload up to this length takes less time over its bytes than from those of
/// the whole body.
const SHORT_MAX: usize = 4096;

/// Zeros to pad a frame with: more than any frame needs.
const PADDING: [u8; 8] = [0; 8];

table! {
    LENGTH = 0, 4, "length";
    CRC = 4, 4, "crc";
    PAYLOAD = 8, 0, "payload";
}

/// One record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The record's number.
    pub lsn: Lsn,
    /// The record's bytes.
    pub payload: &'a [u8],
    /// Whether the atomic set continues with the next record.
    pub goes_on: bool,
}

/// Bytes that a frame with `payload` bytes of payload takes on disk, padding included.
///
/// # Examples
///
/// ```
/// use seawall_format::frame::size_on_disk;
///
/// assert_eq!(size_on_disk(0), 8);
/// assert_eq!(size_on_disk(8), 16);
/// assert_eq!(size_on_disk(9), 24);
/// ```
#[must_use]
pub const fn size_on_disk(payload: usize) -> usize {
    (HEADER_SIZE + payload).next_multiple_of(8)
}

/// Adds a frame that is not yet bound to a place.
///
/// # Panics
///
/// If the payload is 2 GiB or more: callers check sizes where records enter the log.
#[inline]
pub fn push_unbound(body: &mut Vec<u8>, payload: &[u8], goes_on: bool) {
    // From the source, before the copy: reading back what was just stored is slower.
    push(body, payload, (goes_on, crc32c(payload)));
}

/// Adds an unbound frame without a checksum, for a record that becomes a line of a text.
///
/// # Panics
///
/// As [`push_unbound`].
pub fn push_without_crc(body: &mut Vec<u8>, payload: &[u8], goes_on: bool) {
    push(body, payload, (goes_on, 0));
}

#[inline]
fn push(body: &mut Vec<u8>, payload: &[u8], (goes_on, crc): (bool, u32)) {
    let length = u32::try_from(payload.len()).ok().filter(|length| *length < GOES_ON);
    let word = length.expect("checked at admission") | if goes_on { GOES_ON } else { 0 };
    let head = head_of(word, crc);
    let size = size_on_disk(payload.len());
    let end = body.len() + size;
    body.reserve(size + PADDING.len());
    body.extend_from_slice(&head);
    body.extend_from_slice(payload);
    // Adds all of it and truncates: a copy of constant length needs no function call.
    body.extend_from_slice(&PADDING);
    body.truncate(end);
}

/// Marks in an unbound frame that its atomic set continues with the next one.
///
/// # Panics
///
/// If `frame` is not what [`push_unbound`] made.
pub fn let_set_go_on(frame: &mut [u8]) {
    let head = frame.first_chunk_mut::<HEADER_SIZE>().expect("a frame has a header");
    *head = (u64::from_le_bytes(*head) | u64::from(GOES_ON)).to_le_bytes();
}

/// Binds the checksums of `count` unbound frames to their LSNs, from `first` on. Returns the size
/// of these frames in bytes; zeros may follow them in `body`.
///
/// # Panics
///
/// If `body` is not what [`push_unbound`] made.
pub fn bind(body: &mut [u8], salt: &Salt, first: Lsn, count: u32) -> usize {
    let mut binding = Binding::new(first, count);
    binding.go_on(body, usize::MAX, salt);
    binding.position
}

/// How far the frames of a body are bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    position: usize,
    next: Lsn,
    left: u32,
}

impl Binding {
    pub(crate) fn new(first: Lsn, count: u32) -> Self {
        Self { position: 0, next: first, left: count }
    }

    /// Binds the frames that begin before `end`.
    pub(crate) fn go_on(&mut self, body: &mut [u8], end: usize, salt: &Salt) {
        while self.left > 0 && self.position < end {
            let head = body.get_mut(self.position..).and_then(<[u8]>::first_chunk_mut);
            let Some(head): Option<&mut [u8; HEADER_SIZE]> = head else { break };
            let (word, crc) = split(*head);
            let bound = crc ^ salt.frame(self.next, word);
            let (_, crc_bytes) = head.split_at_mut(CRC.at);
            crc_bytes.copy_from_slice(&bound.to_le_bytes());
            self.position += HEADER_SIZE + padded_payload(word);
            self.next = self.next.next();
            self.left -= 1;
        }
    }
}

/// The frame at `position` of a batch's body and the position after it, if its length fits. Its
/// checksum is not verified.
#[must_use]
#[inline]
pub fn read(body: &[u8], position: usize, lsn: Lsn) -> Option<(Frame<'_>, usize)> {
    let (head, behind) = body.get(position..)?.split_first_chunk::<HEADER_SIZE>()?;
    let (word, _) = split(*head);
    let end = position + HEADER_SIZE + padded_payload(word);
    let payload = behind.get(..payload_length(word))?;
    (end <= body.len()).then_some((Frame { lsn, payload, goes_on: word & GOES_ON != 0 }, end))
}

/// Whether the frame at `position` is by itself a valid frame of record `lsn`.
#[must_use]
pub fn is_valid(body: &[u8], position: usize, lsn: Lsn, salt: &Salt) -> bool {
    is_valid_by(body, (position, lsn), salt, crc32c)
}

#[inline]
fn is_valid_by(
    body: &[u8],
    (position, lsn): (usize, Lsn),
    salt: &Salt,
    crc_of: impl FnOnce(&[u8]) -> u32,
) -> bool {
    let Some((frame, _)) = read(body, position, lsn) else {
        return false;
    };
    let head = body.get(position..).and_then(<[u8]>::first_chunk::<HEADER_SIZE>);
    let (word, crc) = split(*head.expect("read above"));
    crc_of(frame.payload) ^ salt.frame(lsn, word) == crc
}

/// Checks that `count` valid frames, not bound to a place, fill `bytes`. Returns whether the last
/// one ends its atomic set; `None` if the check fails.
pub(crate) fn fill_unbound(bytes: &[u8], count: u32) -> Option<bool> {
    let (mut position, mut ends_set) = (0, false);
    for _ in 0..count {
        let (frame, end) = read(bytes, position, Lsn::FIRST)?;
        let head = bytes.get(position..).and_then(<[u8]>::first_chunk::<HEADER_SIZE>);
        if crc32c(frame.payload) != split(*head?).1 {
            return None;
        }
        (position, ends_set) = (end, !frame.goes_on);
    }
    (position == bytes.len()).then_some(ends_set)
}

/// The frames of a body with a valid checksum.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    body: &'a [u8],
    position: usize,
    next: Lsn,
    left: u32,
}

impl<'a> Frames<'a> {
    /// The `count` frames of `body`, the first with LSN `first`.
    #[must_use]
    pub fn new(body: &'a [u8], first: Lsn, count: u32) -> Self {
        Self { body, position: 0, next: first, left: count }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (frame, behind) = read(self.body, self.position, self.next)?;
        self.position = behind;
        self.next = self.next.next();
        Some(frame)
    }
}

/// How far the frames of a body have been followed, while more and more of it becomes available.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    /// Position after the last frame found.
    position: usize,
    found: u32,
    set_is_open: bool,
}

impl Filled {
    /// Follows frames, up to `count`, in `body`, the available beginning of `length` bytes.
    pub(crate) fn go_on(&mut self, body: &[u8], length: usize, count: u32) {
        while self.found < count {
            let head = body.get(self.position..).and_then(<[u8]>::first_chunk::<HEADER_SIZE>);
            let Some(head) = head else { break };
            let (word, _) = split(*head);
            let end = self.position + HEADER_SIZE + padded_payload(word);
            if end > length {
                break;
            }
            self.found += 1;
            (self.position, self.set_is_open) = (end, word & GOES_ON != 0);
        }
    }

    /// Whether `count` frames fill `body`, except for less than `block` bytes of zeros at its end,
    /// and the last frame ends its atomic set.
    pub(crate) fn is_all(self, body: &[u8], count: u32, block: u32) -> bool {
        let rest = body.get(self.position..).unwrap_or_default();
        (self.found, self.set_is_open) == (count, false)
            && rest.len() < usize::try_from(block).unwrap_or(0)
            && rest.iter().all(|byte| *byte == 0)
    }
}

/// The intact frames of a damaged body that should hold records `first` to `last`, and where in
/// the body each begins.
///
/// Damage to a payload loses only its own frame. After a damaged length, the scan resynchronizes
/// where the lengths lead exactly to the end of the body, which determines the LSN, and the
/// checksum agrees.
#[must_use]
pub fn salvage<'a>(body: &'a [u8], first: Lsn, last: Lsn, salt: &Salt) -> Vec<(usize, Frame<'a>)> {
    let damaged = Damaged { body, last, salt, crcs: OnceCell::new() };
    let mut intact = vec![];
    let mut to_the_end: Option<Vec<u64>> = None;
    let (mut position, mut lsn) = (0, first);
    while lsn <= last {
        if let Some((frame, behind)) = read(body, position, lsn) {
            if is_valid(body, position, lsn, salt) {
                intact.push((position, frame));
            }
            // The length was right if a frame follows where it says.
            if lsn == last || is_valid(body, behind, lsn.next(), salt) {
                (position, lsn) = (behind, lsn.next());
                continue;
            }
        }
        let to_the_end = to_the_end.get_or_insert_with(|| damaged.frames_to_the_end());
        match damaged.next_feet(to_the_end, position, lsn) {
            Some(found) => (position, lsn) = found,
            None => break,
        }
    }
    intact
}

/// A damaged body that should end with record `last`.
struct Damaged<'a> {
    body: &'a [u8],
    last: Lsn,
    salt: &'a Salt,
    /// Of `body`, for long payloads: a forged body, and a random one, has many overlapping frames.
    crcs: OnceCell<RangeCrcs<'a>>,
}

impl Damaged<'_> {
    /// For each multiple of 8, how many frames lead from there to the very end; 0 for none.
    fn frames_to_the_end(&self) -> Vec<u64> {
        let mut counts = vec![0_u64; self.body.len() / 8 + 1];
        for index in (0..self.body.len() / 8).rev() {
            let Some((_, behind)) = read(self.body, index * 8, Lsn::FIRST) else { continue };
            let count = match counts.get(behind / 8).copied() {
                _ if behind == self.body.len() => 1,
                Some(count) if count > 0 => count + 1,
                _ => 0,
            };
            if let Some(slot) = counts.get_mut(index) {
                *slot = count;
            }
        }
        counts
    }

    /// The next position after `from` with a valid frame of a record after `lsn`.
    fn next_feet(&self, to_the_end: &[u64], from: usize, lsn: Lsn) -> Option<(usize, Lsn)> {
        let candidates = to_the_end.iter().enumerate().skip(from / 8 + 1);
        let mut numbered = candidates.filter_map(|(index, count)| {
            let found = Lsn::new(self.last.get().checked_sub(count.checked_sub(1)?)?)?;
            (found > lsn).then_some((index * 8, found))
        });
        numbered.find(|(position, found)| self.has_frame(*position, *found))
    }

    /// As [`is_valid`], in a time that hardly depends on the frame's length.
    fn has_frame(&self, position: usize, lsn: Lsn) -> bool {
        is_valid_by(self.body, (position, lsn), self.salt, |payload| match payload.len() {
            ..=SHORT_MAX => crc32c(payload),
            length => {
                let start = position + HEADER_SIZE;
                self.crcs.get_or_init(|| RangeCrcs::new(self.body)).of(start..start + length)
            }
        })
    }
}

/// The head of a frame with these first four bytes and this checksum.
#[inline]
pub(crate) fn head_of(word: u32, crc: u32) -> [u8; HEADER_SIZE] {
    (u64::from(word) | u64::from(crc) << 32).to_le_bytes()
}

/// The first four bytes of a frame, and its checksum.
#[inline]
pub(crate) fn split(head: [u8; HEADER_SIZE]) -> (u32, u32) {
    let both = u64::from_le_bytes(head);
    let half = |bits: u64| u32::try_from(bits & 0xFFFF_FFFF).expect("32 bits are left");
    (half(both), half(both >> 32))
}

#[inline]
fn payload_length(word: u32) -> usize {
    usize::try_from(word & !GOES_ON).expect("a usize holds 31 bits")
}

#[inline]
fn padded_payload(word: u32) -> usize {
    payload_length(word).next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, LogId};

    const SALT: Salt = Salt::new(LogId(1), Epoch(2));

    /// Whether `count` frames fill `body`: the same whether it is seen at once or byte by byte.
    fn fill(body: &[u8], count: u32, block: u32) -> bool {
        let is_filled = |step: usize| {
            let mut filled = Filled::default();
            for seen in (0..body.len()).step_by(step).chain([body.len()]) {
                filled.go_on(&body[..seen], body.len(), count);
            }
            filled.is_all(body, count, block)
        };
        assert_eq!(is_filled(1), is_filled(body.len() + 1));
        is_filled(1)
    }

    fn body(payloads: &[&[u8]]) -> Vec<u8> {
        let mut body = vec![];
        for payload in payloads {
            push_unbound(&mut body, payload, false);
        }
        let count = u32::try_from(payloads.len()).unwrap();
        assert_eq!(bind(&mut body, &SALT, Lsn::FIRST, count), body.len());
        body
    }

    fn lsns(frames: &[(usize, Frame<'_>)]) -> Vec<u64> {
        frames.iter().map(|(_, frame)| frame.lsn.get()).collect()
    }

    fn last(number: u64) -> Lsn {
        Lsn::new(number).unwrap()
    }

    #[test]
    fn frames_are_read_back_unchanged() {
        let bytes = body(&[b"one", b"", b"three and more"]);
        let found: Vec<_> =
            Frames::new(&bytes, Lsn::FIRST, 3).map(|f| f.payload.to_vec()).collect();
        assert_eq!(found, [b"one".to_vec(), b"".to_vec(), b"three and more".to_vec()]);
        assert!(fill(&bytes, 3, 512));
    }

    #[test]
    fn frame_is_valid_only_for_its_own_lsn() {
        let bytes = body(&[b"one"]);
        assert!(is_valid(&bytes, 0, Lsn::FIRST, &SALT));
        assert!(!is_valid(&bytes, 0, last(2), &SALT));
    }

    #[test]
    fn zeros_are_not_a_frame() {
        assert!(!is_valid(&[0; 64], 0, Lsn::FIRST, &SALT));
    }

    #[test]
    fn every_flipped_bit_costs_one_frame_at_most() {
        let good = body(&[b"first record", b"second", b"third one", b"4", b"fifth record here"]);
        for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let intact = salvage(&bytes, Lsn::FIRST, last(5), &SALT);
            assert!(intact.len() >= 4, "bit {bit}: {:?}", lsns(&intact));
            for (_, frame) in intact {
                let written = Frames::new(&good, Lsn::FIRST, 5).find(|f| f.lsn == frame.lsn);
                assert_eq!(Some(frame.payload), written.map(|f| f.payload), "bit {bit}");
            }
        }
    }

    #[test]
    fn body_has_less_than_a_block_of_padding() {
        let full = body(&[b"one", b"two and more"]);
        let padded = |zeros: usize| [&full[..], &vec![0; zeros]].concat();
        for (zeros, is_filled) in [(0, true), (8, true), (511, true), (512, false)] {
            assert_eq!(fill(&padded(zeros), 2, 512), is_filled, "{zeros} zeros behind");
        }
        let mut other = padded(16);
        other[full.len() + 15] = 1;
        assert!(!fill(&other, 2, 512), "a byte that belongs to nothing");
        assert!(!fill(&full, 3, 512), "a frame too few");
        assert!(!fill(&full, 1, 512), "a frame too many");
        assert!(!fill(&full[..full.len() - 8], 2, 512), "half a frame");
    }

    #[test]
    fn set_ends_in_the_batch_where_it_began() {
        let mut bytes = vec![];
        push_unbound(&mut bytes, b"one", true);
        let open = bytes.clone();
        push_unbound(&mut bytes, b"two", false);
        assert!(fill(&bytes, 2, 512));
        assert!(!fill(&open, 1, 512));
        let found: Vec<_> = Frames::new(&bytes, Lsn::FIRST, 2).map(|f| f.goes_on).collect();
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn frame_with_an_oversized_length_is_invalid() {
        let good = body(&[b"one", b"and another"]);
        assert!(read(&good, 16, last(2)).is_some());
        assert_eq!(read(&good[..39], 16, last(2)), None, "its padding is not there");
        assert_eq!(read(&good, good.len() - 4, last(2)), None, "its length is not there");
        assert_eq!(read(&good, good.len() + 8, last(2)), None);
        let mut bytes = good;
        bytes[16..20].copy_from_slice(&0x7FFF_FFFF_u32.to_le_bytes());
        assert_eq!(read(&bytes, 16, last(2)), None);
        assert!(!is_valid(&bytes, 16, last(2), &SALT));
    }

    #[test]
    fn salvaged_frame_has_its_offset() {
        let good = body(&[b"first record", b"second", b"third one", b"4"]);
        let starts = [0, 24, 40, 64];
        let places = |bytes: &[u8]| -> Vec<_> {
            let intact = salvage(bytes, Lsn::FIRST, last(4), &SALT);
            intact.iter().map(|(at, frame)| (*at, frame.lsn.get())).collect()
        };
        assert_eq!(places(&good), [(0, 1), (24, 2), (40, 3), (64, 4)]);
        // Two lengths in a row are damaged: the frames after them are found from the end.
        let mut bytes = good.clone();
        bytes[0] ^= 0x40;
        bytes[24] ^= 0x40;
        assert_eq!(places(&bytes), [(40, 3), (64, 4)]);
        // The last length is damaged: the frames before it are found without it.
        let mut bytes = good.clone();
        bytes[starts[3]] ^= 0x40;
        assert_eq!(places(&bytes), [(0, 1), (24, 2), (40, 3)]);
        // A wrong length leads into the last frame: the frames that it skips are found again.
        let mut bytes = good;
        bytes[24..28].copy_from_slice(&40_u32.to_le_bytes());
        assert_eq!(places(&bytes), [(0, 1), (40, 3), (64, 4)]);
    }

    #[test]
    fn long_frames_are_found_behind_damage() {
        let long = vec![b'l'; SHORT_MAX + 13];
        let good = body(&[b"first record", &long, b"third one", &long, b"5"]);
        let mut bytes = good.clone();
        bytes[0] ^= 0x40;
        assert_eq!(lsns(&salvage(&bytes, Lsn::FIRST, last(5), &SALT)), [2, 3, 4, 5]);
        bytes[24 + 4000] ^= 0x40;
        assert_eq!(lsns(&salvage(&bytes, Lsn::FIRST, last(5), &SALT)), [3, 4, 5]);
    }

    /// Each word says that its frame leads to the end. Reading the bytes of each takes minutes.
    #[test]
    fn overlapping_frames_are_abandoned_quickly() {
        let size = (1_u32 << 22) / u32::try_from(crate::fields::sizes::EVERY).unwrap();
        let body: Vec<_> =
            (0..size).step_by(8).rev().flat_map(|behind| head_of(behind, 7)).collect();
        assert!(salvage(&body, Lsn::FIRST, last(9), &SALT).is_empty());
    }

    #[test]
    fn hostile_body_of_zeros_is_abandoned_quickly() {
        assert!(
            salvage(
                &vec![0; (1 << 20) / crate::fields::sizes::EVERY],
                Lsn::FIRST,
                last(1 << 17),
                &SALT
            )
            .is_empty()
        );
    }
}
