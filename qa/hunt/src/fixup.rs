//! Recomputes checksums after a change, so that the change also reaches the code after their check.
//!
//! A failing disk does not do this, but a forger does. A fuzzer needs it to get beyond the first
//! check.

use crate::forge::SegmentKeys;
pub(crate) use seawall_format::batch::HEADER_SIZE as BATCH;
use seawall_format::parity::{HEAD_SIZE, Places};
use seawall_format::text::{Content, Line};
use seawall_format::{AUTHENTICATOR_AT, AUTHENTICATOR_SIZE, MANIFEST_SLOT_SIZE};
use seawall_format::{Epoch, LogId, Lsn, Offset, Salt, SegmentHeader};
use seawall_format::{frame, time};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The flag of a void batch, in the batch's length field.
const VOID: u64 = 1 << 27;
/// The flags of a compressed batch.
const COMPRESSED: u64 = 1 << 28 | 1 << 31;
/// The flags of an encrypted batch.
const ENCRYPTED: u64 = 1 << 28 | 1 << 30;
const FLAGS: u64 = 0x1F << 27;

/// Bytes before the chunks of a body, and before the payload of a chunk: compressed, encrypted.
pub(crate) const PREFIX: [usize; 2] = [8, 24];
pub(crate) const CHUNK: [usize; 2] = [32, 40];

/// Whether a batch with this length field is encrypted, even if its records were given up (void).
pub(crate) fn is_encrypted(length: u64) -> bool {
    length & FLAGS & !VOID == ENCRYPTED
}

/// Reads a number of up to eight bytes; returns 0 if `bytes` is too short.
#[must_use]
pub fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let field = bytes.get(at..at + size).unwrap_or_default();
    field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes the low `size` bytes of a number at `at`, if there is room.
pub fn put(bytes: &mut [u8], at: usize, size: usize, number: u64) {
    if let Some(field) = bytes.get_mut(at..at + size) {
        field.copy_from_slice(&number.to_le_bytes()[..size]);
    }
}

pub(crate) fn put_crc(bytes: &mut [u8], at: usize, crc: u32) {
    put(bytes, at, 4, u64::from(crc));
}

/// The plain CRC-32C, which is not bound to a log, an epoch or an offset.
fn crc(bytes: &[u8]) -> u32 {
    let salt = Salt::new(LogId(1), Epoch(1));
    salt.checksum(Offset(0), bytes) ^ salt.checksum(Offset(0), b"")
}

fn preamble(bytes: &mut [u8]) {
    if let Some(covered) = bytes.get(..12) {
        let crc = crc(covered);
        put_crc(bytes, 12, crc);
    }
}

/// Corrects the checksums of a segment header (192 bytes), whatever its fields hold.
pub fn header(bytes: &mut [u8]) {
    preamble(bytes);
    let salt = salt_of(bytes);
    if let Some(covered) = bytes.get(20..192) {
        let crc = salt.checksum(Offset(0), covered);
        put_crc(bytes, 16, crc);
    }
    authenticator(bytes, (0, 192), &salt);
}

/// Corrects the checksum of the authenticator, if any, of the structure of `size` bytes at the
/// start of `bytes` and at `at` of its file.
fn authenticator(bytes: &mut [u8], (at, size): (usize, usize), salt: &Salt) {
    let Some(proof) = bytes.get(AUTHENTICATOR_AT..AUTHENTICATOR_AT + AUTHENTICATOR_SIZE) else {
        return;
    };
    if proof.get(4..8) == Some(b"AUTH") {
        let covered = [&bytes[..size], &proof[4..]].concat();
        let crc = salt.checksum(offset(at + AUTHENTICATOR_AT), &covered);
        put_crc(bytes, AUTHENTICATOR_AT, crc);
    }
}

/// Returns the salt that binds the checksums of the file with this header.
#[must_use]
pub fn salt_of(header: &[u8]) -> Salt {
    Salt::new(LogId(number(header, 32, 8)), Epoch(number(header, 48, 8)))
}

/// Corrects the checksums of every manifest slot that begins with the manifest's magic bytes.
pub fn manifest(bytes: &mut [u8]) {
    for at in manifest_slots() {
        let Some(slot) = bytes.get_mut(at..).filter(|slot| slot.len() >= MANIFEST_SLOT_SIZE) else {
            continue;
        };
        if slot.starts_with(b"SEAWALLM") {
            preamble(slot);
            let salt = Salt::of_log(LogId(number(slot, 32, 8)));
            let crc = salt.checksum(offset(at), &slot[20..MANIFEST_SLOT_SIZE]);
            put_crc(slot, 16, crc);
            authenticator(slot, (at, MANIFEST_SLOT_SIZE), &salt);
        }
    }
}

/// The offsets at which a manifest slot may begin.
pub(crate) fn manifest_slots() -> impl Iterator<Item = usize> {
    std::iter::once(0).chain((0..8).map(|shift| 512 << shift))
}

/// Corrects the checksums of both slots of the file `keys`.
pub fn keys(bytes: &mut [u8]) {
    for at in [0, KEYS_B] {
        let Some(slot) = bytes.get_mut(at..).filter(|slot| slot.starts_with(b"SEAWALLK")) else {
            continue;
        };
        preamble(slot);
        let end = KEYS_HEAD + KEY * usize::try_from(number(slot, 20, 4)).unwrap();
        let Some(covered) = slot.get(20..end) else { continue };
        let crc = Salt::of_log(LogId(number(slot, 24, 8))).checksum(offset(at), covered);
        put_crc(slot, 16, crc);
    }
}

/// Offset of slot B of `keys`, size of a slot before its keys, and size of a key.
pub(crate) const KEYS_B: usize = 65_536;
pub(crate) const KEYS_HEAD: usize = 96;
pub(crate) const KEY: usize = 40;

/// Corrects the checksum of the file `live`.
pub fn live(bytes: &mut [u8]) {
    if let Some(covered) = bytes.get(4..64) {
        let crc = Salt::of_log(LogId(number(bytes, 8, 8))).checksum(Offset(0), covered);
        put_crc(bytes, 0, crc);
    }
}

/// Corrects the epoch and the checksum of the mark or seal of `size` bytes at `at`, if one begins
/// there.
pub fn small(bytes: &mut [u8], (at, size): (usize, usize), salt: &Salt, epoch: u64) {
    let Some(here) = bytes.get_mut(at..).filter(|here| here.len() >= size) else { return };
    if [&b"MARK"[..], b"SEAL"].contains(&&here[4..8]) {
        put(here, 8, 8, epoch);
        let crc = salt.checksum(offset(at), &here[4..size]);
        put_crc(here, 0, crc);
        authenticator(here, (at, size), salt);
    }
}

/// Corrects the checksums of a whole binary segment, or of the head of a readable one.
pub fn segment(bytes: &mut [u8]) {
    segment_with(bytes, None);
}

/// As [`segment`]; with `keys`, also computes the tags and codes of the segment's encrypted
/// batches.
pub(crate) fn segment_with(bytes: &mut [u8], keys: Option<&SegmentKeys>) {
    header(bytes);
    let (salt, epoch) = (salt_of(bytes), number(bytes, 48, 8));
    let [block, reach] = [20, 24].map(|at| usize::try_from(number(bytes, at, 4)).unwrap());
    for (slot, size) in [(1, 40), (2, 40), (3, 48)] {
        small(bytes, (slot * block, size), &salt, epoch);
    }
    let at = 4 * block + reach;
    // In a segment named ahead, the first batch itself holds the chain value that it follows.
    let chain = if number(bytes, 104, 4) & 1 << 2 == 0 {
        number(bytes, 16, 4) | (epoch & 0xFFFF_FFFF) << 32
    } else {
        number(bytes, at + 32, 8)
    };
    if let Some(batches) = bytes.get_mut(at..) {
        batches_with(batches, at, (&salt, epoch, keys), chain);
    }
}

/// Corrects the checksums of consecutive batches that start at `origin` of their file. Each batch
/// is bound to its offset and chained to the one before.
pub fn batches(bytes: &mut [u8], origin: usize, (salt, epoch): (&Salt, u64), chain: u64) {
    batches_with(bytes, origin, (salt, epoch, None), chain);
}

/// As [`batches`]; with `keys`, also computes the tags and codes of encrypted batches.
pub(crate) fn batches_with(
    bytes: &mut [u8],
    origin: usize,
    (salt, epoch, keys): (&Salt, u64, Option<&SegmentKeys>),
    mut chain: u64,
) {
    let mut at = 0;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| rest.len() >= BATCH) {
        let length = number(rest, 4, 4);
        let size = usize::try_from(length & (VOID - 1)).unwrap();
        if number(rest, 16, 4) == 0 || rest.len() < BATCH + size {
            return;
        }
        let place = origin + at;
        let (header, body) = rest[..BATCH + size].split_at_mut(BATCH);
        put(header, 28, 4, epoch & 0xFFFF_FFFF);
        put(header, 32, 8, chain);
        match length & FLAGS {
            COMPRESSED => chunks(body, place + BATCH, (salt, 0)),
            _ if is_encrypted(length) => match keys {
                Some(keys) => keys.seal(header, body, (place + BATCH, salt)),
                None => chunks(body, place + BATCH, (salt, 1)),
            },
            flags if flags & VOID == 0 => frames(body, number(header, 8, 8), salt),
            _ => {}
        }
        let body_crc = salt.checksum(offset(place + BATCH), body);
        put_crc(header, 24, body_crc);
        let header_crc = salt.checksum(offset(place), &header[4..]);
        put_crc(header, 0, header_crc);
        chain = u64::from(header_crc) | u64::from(body_crc) << 32;
        at += BATCH + size;
    }
}

/// Corrects the checksums of a parity head and of the segment header in it.
pub fn parity_head(bytes: &mut [u8], at: usize) {
    let Some(here) = bytes.get_mut(at..at + HEAD_SIZE) else { return };
    preamble(here);
    header(&mut here[88..]);
    let crc = salt_of(here).checksum(offset(at), &here[20..]);
    put_crc(here, 16, crc);
}

/// Corrects the checksum of the slot header of stripe `number`.
pub fn parity_slot(
    bytes: &mut [u8],
    (at, number): (usize, u64),
    places: &Places,
    header: &SegmentHeader,
) {
    if let Some(here) = bytes.get_mut(at..at + places.known_size()) {
        let crc = header.salt().checksum(places.slot_at(number), &here[4..]);
        put_crc(here, 0, crc);
    }
}

pub(crate) fn offset(at: usize) -> Offset {
    Offset(u64::try_from(at).unwrap())
}

/// Corrects the checksum of each chunk of the compressed (form 0) or encrypted (form 1) body at
/// `place`, up to the first chunk that does not fit.
fn chunks(body: &mut [u8], place: usize, (salt, form): (&Salt, usize)) {
    let (mut at, head) = (PREFIX[form], CHUNK[form]);
    while let Some(here) = body.get_mut(at..).filter(|here| here.len() >= head) {
        let stored = usize::try_from(number(here, 4, 4)).unwrap();
        // Zeros may follow the last chunk.
        let Some(covered) = here.get(4..head + stored).filter(|_| stored > 0) else { return };
        let crc = salt.checksum(offset(place + at), covered);
        put_crc(here, 0, crc);
        at += head + stored.next_multiple_of(8);
    }
}

/// Corrects the checksum of each frame of a body, up to the first frame that cannot be read.
fn frames(body: &mut [u8], first: u64, salt: &Salt) {
    let (mut at, mut lsn) = (0, first);
    while let Some(number) = Lsn::new(lsn)
        && let Some((found, behind)) = frame::read(body, at, number)
    {
        let word = u32::try_from(self::number(body, at, 4)).unwrap();
        let crc = crc(found.payload) ^ salt.frame(number, word);
        put_crc(body, at + 4, crc);
        (at, lsn) = (behind, lsn.wrapping_add(1));
    }
}

/// Rewrites a text: each line that is a JSON object with a record number becomes the line that a
/// writer writes for it.
#[must_use]
pub fn text(bytes: &[u8], salt: &Salt) -> Vec<u8> {
    let mut fixed = vec![];
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if push_line(line, salt, &mut fixed).is_none() {
            fixed.extend_from_slice(line);
        }
    }
    fixed
}

fn push_line(bytes: &[u8], salt: &Salt, out: &mut Vec<u8>) -> Option<()> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).ok()?;
    let number = |name: &str| serde_json::from_str::<u64>(members.get(name)?.get()).ok();
    let said = |name: &str| serde_json::from_str::<String>(members.get(name)?.get()).ok();
    let content = match (members.get("data"), number("void")) {
        (Some(data), _) if seawall_format::text::is_valid_data(data.get()) => {
            Content::Data(data.get())
        }
        (_, Some(count)) => Content::Void(u32::try_from(count).ok().filter(|count| *count > 0)?),
        _ => return None,
    };
    let line = Line {
        lsn: Lsn::new(number("lsn")?)?,
        confirmed: Lsn::new(number("confirmed").unwrap_or(0)),
        time_us: said("time").and_then(|time| time::from_text(&time)).unwrap_or(0),
        goes_on: members.get("goes_on").is_some_and(|mark| mark.get() == "true"),
        content,
    };
    line.push(out, salt);
    Some(())
}
