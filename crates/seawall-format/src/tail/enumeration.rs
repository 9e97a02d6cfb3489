//! Tests of the classifier over every state that the end of a segment can be in.

use super::tests::{AT, LIFE, written};
use super::*;
use crate::binary::batch::{Spec, finish};
use crate::binary::chunk::{self, Fields, Form, encrypted, encrypted_prefix, prefix};
use crate::binary::encoded::decode;
use crate::fields::put;
use crate::files::before::SectorSums;
use crate::types::Compression;
use std::sync::Arc;

/// What is on the device of one sector of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sector {
    Written,
    /// As it was before: zero, or what an earlier segment left.
    Untouched,
    /// One byte of it is another.
    Changed,
}

const SECTORS: [Sector; 3] = [Sector::Written, Sector::Untouched, Sector::Changed];

/// Where each frame of the batch of [`written`] begins, with a head of 8 bytes and 300 of payload,
/// padded; and where the last one ends.
const FRAMES: [usize; 5] = [48, 360, 672, 984, 1296];
/// The same of the prefix and the chunks of a compressed batch; the last chunk alone is smaller
/// than its frames.
const CHUNKS: [usize; 6] = [48, 56, 400, 744, 1088, 1160];
/// The sectors under the batch, from the one with its first byte on.
const SECTOR_ENDS: [usize; 3] = [312, 824, 1336];

/// The end of a segment.
#[derive(Clone, Copy, Debug)]
struct State {
    sectors: [Sector; 3],
    /// Which byte of a changed sector differs, counted from its first.
    changed_at: usize,
    /// A byte after the batch that differs from before.
    other: Option<usize>,
    /// Number of bytes shown.
    length: usize,
    goes_on: bool,
    continues: bool,
    /// Whether the file held an earlier segment.
    is_reused: bool,
    kind: BodyKind,
}

/// Number of bytes shown, and whether the file is reused. The file ends with a sector, unless it is
/// short, as in the second one: within the batch.
const LENGTHS: [(usize, bool); 5] =
    [(40, false), (1144, false), (4408, false), (40, true), (4408, true)];

/// A batch of five records in four chunks at `AT`, then zeros.
fn compressed() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE];
    chunk::push_prefix(&mut bytes, 3 * 312 + 2 * 312);
    let mut block = crate::binary::lz4::Compressor::new();
    for (first, records) in [(1, 1..2), (2, 2..3), (3, 3..4), (4, 4..6_u8)] {
        let (mut frames, count) = (vec![], u32::try_from(records.len()).expect("one or two"));
        records.for_each(|number| frame::push_unbound(&mut frames, &[number; 300], false));
        let payload = if count > 1 { block.compress(&frames) } else { &frames };
        let method = if count > 1 { Compression::Lz4 } else { Compression::None };
        let first = Lsn::new(first).expect("not 0");
        let (stored, plain) = (payload.len(), frames.len());
        let form = Form::Compressed;
        let fields = Fields { stored, plain, count, first, method, form };
        let at = AT.plus(to_u64(bytes.len()));
        chunk::push(&mut bytes, &fields, payload, (at, &LIFE.salt));
    }
    let (first, kind, confirmed) = (Lsn::FIRST, BodyKind::Encoded, None);
    let spec = Spec { first, count: 5, kind, confirmed, chain: 7, time_us: 0 };
    finish(&mut bytes, spec, AT, &COMPRESSED);
    bytes.resize(8192, 0);
    bytes
}

const COMPRESSED: Life = Life { compression_max: Compression::Lz4, ..LIFE };

#[test]
fn compressed_batch_has_its_chunks_at_the_expected_places() {
    let bytes = compressed();
    let header = BatchHeader::decode(&bytes, AT, &COMPRESSED).expect("it was just finished");
    let end = usize::try_from(header.size()).expect("small");
    let body = &bytes[HEADER_SIZE..end];
    assert!(
        header.matches(body, AT, &COMPRESSED) && decode(&header, body, &COMPRESSED, &mut vec![])
    );
    let mut starts = vec![HEADER_SIZE, HEADER_SIZE + prefix::SIZE];
    while let Some((_, end)) =
        chunk::read(Form::Compressed, body, starts[starts.len() - 1] - HEADER_SIZE)
    {
        starts.push(HEADER_SIZE + end);
    }
    assert_eq!(starts, CHUNKS);
}

/// The same of an encrypted batch: three records, each in its chunk. Nobody here has its key, so
/// its payloads are any bytes.
const ENCRYPTED_CHUNKS: [usize; 5] = [48, 72, 456, 840, 1224];

fn encrypted_batch() -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE + encrypted_prefix::SIZE];
    put(&mut bytes[HEADER_SIZE..], encrypted_prefix::LENGTH, to_u64(encrypted_prefix::SIZE));
    for first in 1..=3 {
        let start = bytes.len();
        bytes.resize(start + encrypted::HEADER_SIZE, 0);
        bytes.resize(start + 384, 0xC1);
        let chunk = &mut bytes[start..];
        put(chunk, encrypted::STORED, 344);
        put(chunk, encrypted::COUNT, 1);
        put(chunk, encrypted::FIRST, first);
        LIFE.salt.put_checksum(AT.plus(to_u64(start)), chunk, encrypted::CRC);
    }
    let (first, kind, confirmed) = (Lsn::FIRST, BodyKind::Encrypted, None);
    let spec = Spec { first, count: 3, kind, confirmed, chain: 7, time_us: 0 };
    finish(&mut bytes, spec, AT, &ENCRYPTED);
    bytes.resize(8192, 0);
    bytes
}

const ENCRYPTED: Life = Life { is_encrypted: true, ..LIFE };

/// What an earlier segment left in the file, from the sector with the first byte of the batch on.
fn left_before() -> Vec<u8> {
    (0..200 + 4408).map(|at| u8::try_from(at % 251).expect("less than 251")).collect()
}

/// The byte of each sector that differs if it is changed.
fn changed_byte(sector: usize, at: usize) -> usize {
    let start = if sector == 0 { 0 } else { SECTOR_ENDS[sector - 1] };
    start + at
}

const CHANGES: [(usize, BodyKind); 13] = [
    (20, BodyKind::Frames),
    (51, BodyKind::Frames),
    (300, BodyKind::Frames),
    (20, BodyKind::Encoded),
    (51, BodyKind::Encoded),
    (60, BodyKind::Encoded),
    (100, BodyKind::Encoded),
    (300, BodyKind::Encoded),
    (20, BodyKind::Encrypted),
    (51, BodyKind::Encrypted),
    (60, BodyKind::Encrypted),
    (100, BodyKind::Encrypted),
    (300, BodyKind::Encrypted),
];

impl State {
    fn all() -> Vec<Self> {
        let mut all = vec![];
        for number in 0..27 {
            let sectors = [number % 3, number / 3 % 3, number / 9].map(|index| SECTORS[index]);
            // In the header or a payload; in a head of a frame, or the prefix; in the head of a
            // chunk, two of them, or the code and a nonce; in a payload of the next.
            for (changed_at, kind) in CHANGES {
                for other in [None, Some(1500), Some(window(&LIFE) - 1), Some(window(&LIFE))] {
                    for (length, is_reused) in LENGTHS {
                        all.extend([(false, false), (false, true), (true, true)].map(
                            |(goes_on, continues)| {
                                let other = other.filter(|at| *at < length);
                                Self {
                                    sectors,
                                    changed_at,
                                    other,
                                    length,
                                    goes_on,
                                    continues,
                                    is_reused,
                                    kind,
                                }
                            },
                        ));
                    }
                }
            }
        }
        all
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self.kind {
            BodyKind::Encoded => compressed(),
            BodyKind::Encrypted => encrypted_batch(),
            _ => written(),
        };
        let mut before = vec![0; bytes.len()];
        if self.is_reused {
            // The write before filled the first sector, a block, with zeros.
            before[SECTOR_ENDS[0]..4408].copy_from_slice(&left_before()[200 + SECTOR_ENDS[0]..]);
        }
        let end = SECTOR_ENDS[2];
        bytes[end..].copy_from_slice(&before[end..]);
        for (number, sector) in self.sectors.into_iter().enumerate() {
            let all = changed_byte(number, 0)..SECTOR_ENDS[number];
            match sector {
                Sector::Written => {}
                Sector::Untouched => bytes[all.clone()].copy_from_slice(&before[all]),
                Sector::Changed => bytes[changed_byte(number, self.changed_at)] ^= 0x80,
            }
        }
        if let Some(at) = self.other {
            bytes[at] ^= 1;
        }
        bytes.truncate(self.length);
        bytes
    }

    fn row(&self) -> Row {
        let chain = if self.continues { 7 } else { 8 };
        let (bytes, goes_on) = (self.bytes(), self.goes_on);
        let mut sums = SectorSums::from_offset(AT.0 - 200);
        sums.extend(&left_before());
        let before = if self.is_reused { Before::Reused(Arc::new(sums)) } else { Before::Zeros };
        let (lead, bytes, before, next) = (&[9; 200], &*bytes, &before, Lsn::FIRST);
        classify(&Tail { lead, bytes, goes_on, before, offset: AT, next, chain }, self.life())
    }

    fn life(&self) -> &'static Life {
        match self.kind {
            BodyKind::Encoded => &COMPRESSED,
            BodyKind::Encrypted => &ENCRYPTED,
            _ => &LIFE,
        }
    }

    /// Where the parts of the batch begin that are judged by themselves, and where the last ends.
    fn parts(&self) -> &'static [usize] {
        match self.kind {
            BodyKind::Encoded => &CHUNKS,
            BodyKind::Encrypted => &ENCRYPTED_CHUNKS,
            _ => &FRAMES,
        }
    }

    /// The first bytes of the part that begins there, without which it is not judged.
    fn head_size(&self, start: usize) -> usize {
        match (self.kind.form(), start) {
            (Some(form), HEADER_SIZE) => form.prefix_size(),
            (Some(form), _) => form.header_size(),
            (None, _) => frame::HEADER_SIZE,
        }
    }

    /// Whether the head of the part that begins there says by itself that it was changed.
    fn is_head_wrong(&self, start: usize) -> bool {
        match (self.kind, start) {
            (BodyKind::Encoded, _) => self.is_changed(start, start + self.head_size(start)),
            (BodyKind::Encrypted, HEADER_SIZE) => self.is_changed(start, start + 8),
            (BodyKind::Encrypted, _) => {
                self.is_changed(start + 4, start + 24) || self.is_changed(start + 36, start + 40)
            }
            _ => false,
        }
    }

    /// Whether the part `start..end` is changed so that its checksum shows it, if it has one.
    fn is_part_wrong(&self, start: usize, end: usize) -> bool {
        // The code of a prefix is that of a key.
        let is_code = self.kind == BodyKind::Encrypted && start == HEADER_SIZE;
        !is_code && self.is_changed(start, end)
    }

    /// The sectors under bytes `from..to` of the batch.
    fn under(&self, from: usize, to: usize) -> impl Iterator<Item = Sector> {
        let is_under =
            move |number: &usize| changed_byte(*number, 0) < to && from < SECTOR_ENDS[*number];
        let sectors = self.sectors;
        (0..3).filter(is_under).map(move |number| sectors[number])
    }

    /// Whether a changed byte is in bytes `from..to` of the batch.
    fn is_changed(&self, from: usize, to: usize) -> bool {
        let changed = |number: &usize| self.sectors[*number] == Sector::Changed;
        let at = |number: usize| changed_byte(number, self.changed_at);
        (0..3).filter(changed).any(|number| (from..to).contains(&at(number)))
    }

    /// Where what is judged together with the byte at `at` ends: in a reused file a sector.
    fn judged_to(&self, at: usize) -> usize {
        if self.is_reused { (200 + at) / SECTOR * SECTOR + SECTOR - 200 } else { at + 1 }
    }

    /// The row according to format.md section 7, from the sectors alone.
    fn expected(&self) -> Row {
        let has_untouched =
            |from, to| self.under(from, to).any(|sector| sector == Sector::Untouched);
        let is_far = self.other.is_some_and(|at| self.judged_to(at) > window(&LIFE));
        let shown = self.sectors.len().min(if self.length < SECTOR_ENDS[0] { 1 } else { 3 });
        let is_blank = self.sectors[..shown].iter().all(|sector| *sector == Sector::Untouched);
        if self.goes_on || is_far {
            return Row::BeyondWindow;
        }
        if is_blank && self.other.is_none() {
            return Row::Clean;
        }
        if self.length < HEADER_SIZE {
            return Row::Otherwise;
        }
        if has_untouched(0, HEADER_SIZE) {
            return Row::HeaderTorn;
        }
        let end = self.parts()[self.parts().len() - 1];
        let is_whole = self.continues && self.length >= end && !self.is_changed(0, HEADER_SIZE);
        if !is_whole || !has_untouched(HEADER_SIZE, end) {
            return Row::Otherwise;
        }
        for part in self.parts().windows(2) {
            let (start, end) = (part[0], part[1]);
            let head = start + self.head_size(start);
            if has_untouched(start, head) {
                break;
            }
            // The changed bytes of a chunk's head say that it is none, wherever it may end.
            let is_wrong = self.is_part_wrong(start, end) && !has_untouched(start, end);
            if self.is_head_wrong(start) || is_wrong {
                return Row::Otherwise;
            }
        }
        Row::BodyTorn
    }
}

#[test]
fn every_state_of_the_end_has_the_row_of_its_sectors() {
    for state in State::all() {
        assert_eq!(state.row(), state.expected(), "{state:?}");
    }
}

#[test]
fn every_row_of_a_binary_tail_is_reached_with_frames_and_with_chunks() {
    let rows = [Row::Clean, Row::BeyondWindow, Row::HeaderTorn, Row::BodyTorn, Row::Otherwise];
    for kind in [BodyKind::Frames, BodyKind::Encoded, BodyKind::Encrypted] {
        let states = State::all().into_iter().filter(|state| state.kind == kind);
        let reached: Vec<_> = states.map(|state| state.row()).collect();
        assert!(rows.iter().all(|row| reached.contains(row)));
        assert!(reached.iter().all(|row| rows.contains(row)));
    }
}

#[test]
fn only_what_was_there_before_is_a_clean_end() {
    for state in State::all() {
        let as_before = State { sectors: [Sector::Untouched; 3], other: None, ..state };
        let is_clean = state.bytes() == as_before.bytes() && !state.goes_on;
        assert_eq!(state.row() == Row::Clean, is_clean, "{state:?}");
    }
}

/// The same end with one more sign that this is not one write under way.
fn with_more_damage(state: &State) -> Vec<State> {
    let mut more = vec![
        State { goes_on: true, ..*state },
        State { continues: false, ..*state },
        State { other: Some(state.length - 1), ..*state },
    ];
    for number in 0..3 {
        let mut sectors = state.sectors;
        if sectors[number] == Sector::Written {
            sectors[number] = Sector::Changed;
            more.push(State { sectors, ..*state });
        }
    }
    more
}

#[test]
fn more_signs_of_damage_never_make_a_tail_clean_or_an_ambiguous_one_torn() {
    for state in State::all() {
        let verdict = state.row().verdict();
        for more in with_more_damage(&state) {
            let other = more.row().verdict();
            let was_clean = verdict == Verdict::Clean;
            assert!(was_clean || other != Verdict::Clean, "{state:?}, then {more:?}");
            if verdict == Verdict::Ambiguous && more.other == state.other {
                assert_eq!(other, Verdict::Ambiguous, "{state:?}, then {more:?}");
            }
        }
    }
}

/// All texts of up to five pieces: of a line, a line break, a zero, a blank.
fn all_texts() -> Vec<Vec<u8>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..5 {
        let longer = |text: &Vec<u8>| {
            b"x\n\0 ".map(|byte| {
                let mut text = text.clone();
                text.push(byte);
                text
            })
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.clone());
    }
    all
}

const FLAGS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn every_text_has_the_row_of_its_first_line() {
    let mut reached = vec![];
    for text in all_texts() {
        for (goes_on, set_is_open) in FLAGS {
            let is_blank = !text.contains(&b'x');
            let first = text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
            let is_torn = !first.ends_with(b"\n") || first.contains(&0);
            let expected = match (goes_on, is_blank, set_is_open, is_torn) {
                (true, ..) => Row::BeyondWindow,
                (_, true, true, _) | (_, false, _, true) => Row::LineTorn,
                (_, true, false, _) => Row::Clean,
                (_, false, _, false) => Row::Otherwise,
            };
            let row = classify_text(&text, goes_on, set_is_open);
            assert_eq!(row, expected, "{text:?}, {goes_on}, {set_is_open}");
            reached.push(row);
        }
    }
    let rows = [Row::Clean, Row::BeyondWindow, Row::LineTorn, Row::Otherwise];
    assert!(rows.iter().all(|row| reached.contains(row)));
}

#[test]
fn text_in_pieces_has_the_same_row() {
    for text in all_texts() {
        for split in 0..=text.len() {
            let (mut tail, (one, other)) = (TextTail::default(), text.split_at(split));
            tail.look(one);
            tail.look(other);
            for (goes_on, set_is_open) in FLAGS {
                let whole = classify_text(&text, goes_on, set_is_open);
                assert_eq!(tail.row(goes_on, set_is_open), whole, "{text:?} at {split}");
            }
        }
    }
}

#[test]
fn more_bytes_never_make_a_text_clean_or_an_ambiguous_one_torn() {
    for text in all_texts() {
        for (goes_on, set_is_open) in FLAGS {
            let verdict = classify_text(&text, goes_on, set_is_open).verdict();
            let longer = b"x\n\0 ".map(|byte| [&text[..], &[byte]].concat());
            let mut more: Vec<_> =
                longer.iter().map(|text| classify_text(text, goes_on, set_is_open)).collect();
            more.push(classify_text(&text, true, set_is_open));
            more.push(classify_text(&text, goes_on, true));
            for row in more {
                let other = row.verdict();
                let was_clean = verdict == Verdict::Clean;
                assert!(was_clean || other != Verdict::Clean, "{text:?}: {row:?}");
                let was_ambiguous = verdict == Verdict::Ambiguous;
                assert!(!was_ambiguous || other == Verdict::Ambiguous, "{text:?}: {row:?}");
            }
        }
    }
}
