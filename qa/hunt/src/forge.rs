//! Recomputes tags and codes after a change, as a holder of the key can, so that authentic but
//! nonsensical content is tested, too. Written from format.md, section 3.7, without the library.
//!
//! An *opened* file holds its encrypted parts in plaintext, at the same offsets, without tags.

use crate::fixup::{
    self, CHUNK, KEY, KEYS_B, KEYS_HEAD, PREFIX, manifest_slots, number, offset, put_crc,
};
use crate::sample::KEY as USER_KEY;
use aes_gcm_siv::aead::inout::InOutBuf;
use aes_gcm_siv::{AeadInOut, Aes256GcmSiv, KeyInit, Tag};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use seawall_format::{AUTHENTICATOR_AT, AUTHENTICATOR_SIZE, MANIFEST_SLOT_SIZE, Salt};
use sha2::Sha256;
use std::collections::BTreeMap;

type Secret = [u8; 32];

/// Size of a tag and of a code, in bytes.
const TAG: usize = 16;

/// The keys of a log, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct LogKeys(pub BTreeMap<u64, Secret>);

/// The keys of one segment.
#[derive(Debug)]
pub struct SegmentKeys {
    chunk: Secret,
    batch: Secret,
    head: Secret,
    place: [u64; 3],
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn derived(key: &Secret, place: [u64; 3], info: &str) -> Secret {
    let mut derived = [0; 32];
    let info = format!("seawall 1 {info}");
    let from = Hkdf::<Sha256>::new(Some(&numbers(&place)), key);
    from.expand(info.as_bytes(), &mut derived).expect("32 bytes are not too many");
    derived
}

fn mac(key: &Secret, bytes: &[u8]) -> [u8; TAG] {
    let mut code = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("of any length");
    code.update(bytes);
    let whole: [u8; 32] = code.finalize().into_bytes().into();
    *whole.first_chunk().expect("a code is a part of it")
}

fn encrypt(key: &Secret, nonce: &[u8], bound: &[u8], bytes: &mut [u8]) -> [u8; TAG] {
    let nonce: [u8; 12] = nonce.try_into().expect("of twelve bytes");
    let cipher = Aes256GcmSiv::new(key.into());
    let tag = cipher.encrypt_inout_detached(&nonce.into(), bound, InOutBuf::from(bytes));
    tag.expect("a short text").into()
}

fn decrypt(key: &Secret, nonce: &[u8], bound: &[u8], (bytes, tag): (&mut [u8], &[u8])) {
    let nonce: [u8; 12] = nonce.try_into().expect("of twelve bytes");
    let tag = Tag::try_from(tag).expect("of 16 bytes");
    let cipher = Aes256GcmSiv::new(key.into());
    let opened = cipher.decrypt_inout_detached(&nonce.into(), bound, InOutBuf::from(bytes), &tag);
    opened.expect("it is authentic");
}

impl SegmentKeys {
    /// Derives the keys of a segment; `place` is its log id, segment id and epoch.
    #[must_use]
    pub fn of(key: &Secret, place: [u64; 3]) -> Self {
        let [chunk, batch, head] = ["chunk", "batch", "head"].map(|info| derived(key, place, info));
        Self { chunk, batch, head, place }
    }

    /// Returns what the tag of the chunk at `at` covers in addition to its content.
    fn bound(&self, at: usize, chunk: &[u8]) -> Vec<u8> {
        let place = [&self.place[..], &[offset(at).0]].concat();
        [&numbers(&place), &chunk[4..24]].concat()
    }

    /// Encrypts each chunk of the opened body at `place`, up to the first chunk that does not fit,
    /// and computes the batch's code.
    pub(crate) fn seal(&self, header: &[u8], body: &mut [u8], (place, salt): (usize, &Salt)) {
        let (mut at, mut tags, mut left) = (PREFIX[1], vec![], number(header, 16, 4));
        while let Some((chunk, size)) = chunk_at(body, at) {
            let bound = self.bound(place + at, chunk);
            let (head, payload) = chunk.split_at_mut(CHUNK[1]);
            let (content, tag) = payload.split_at_mut(size - TAG);
            tag.copy_from_slice(&encrypt(&self.chunk, &head[24..36], &bound, content));
            // The code does not cover the tags of chunks after the last record.
            if left > 0 {
                tags.extend_from_slice(tag);
                left = left.saturating_sub(number(head, 12, 4));
            }
            let crc = salt.checksum(offset(place + at), &chunk[4..]);
            put_crc(chunk, 0, crc);
            at += CHUNK[1] + size.next_multiple_of(8);
        }
        let start = place - header.len();
        let covered = [&numbers(&[offset(start).0]), &header[8..24], &header[32..48], &tags];
        if let Some(code) = body.get_mut(8..8 + TAG) {
            code.copy_from_slice(&mac(&self.batch, &covered.concat()));
        }
    }

    /// Decrypts each chunk of a valid body in place.
    fn open(&self, body: &mut [u8], place: usize) {
        let mut at = PREFIX[1];
        while let Some((chunk, size)) = chunk_at(body, at) {
            let bound = self.bound(place + at, chunk);
            let (head, payload) = chunk.split_at_mut(CHUNK[1]);
            let (content, tag) = payload.split_at_mut(size - TAG);
            decrypt(&self.chunk, &head[24..36], &bound, (content, tag));
            tag.fill(0);
            at += CHUNK[1] + size.next_multiple_of(8);
        }
    }
}

/// Returns the chunk at `at` with its payload, and the payload's size, if a chunk fits there.
fn chunk_at(body: &mut [u8], at: usize) -> Option<(&mut [u8], usize)> {
    let here = body.get_mut(at..)?;
    let size = usize::try_from(number(here, 4, 4)).expect("of four bytes");
    let chunk = here.get_mut(..CHUNK[1] + size).filter(|_| size >= TAG)?;
    Some((chunk, size))
}

/// Computes the code of the structure of `size` bytes at `at`, if it has an authenticator.
fn authenticate(bytes: &mut [u8], (at, size): (usize, usize), key: &Secret) {
    let Some(here) = bytes.get_mut(at..at + AUTHENTICATOR_AT + AUTHENTICATOR_SIZE) else { return };
    let (structure, proof) = here.split_at_mut(AUTHENTICATOR_AT);
    if &proof[4..8] == b"AUTH" {
        let covered = [&structure[..size], &numbers(&[offset(at).0]), &proof[8..32]].concat();
        proof[32..].copy_from_slice(&mac(key, &covered));
    }
}

impl LogKeys {
    /// Reads the keys in the newer slot of a valid file `keys`.
    #[must_use]
    pub fn of(file: &[u8]) -> Self {
        let mut opened = file.to_vec();
        open_keys(&mut opened);
        let newer = number(file, 32, 8) > number(file, KEYS_B + 32, 8);
        let slot = &opened[if newer { 0 } else { KEYS_B }..];
        let entries = slot[KEYS_HEAD..].chunks_exact(KEY);
        let entries = entries.take(usize::try_from(number(slot, 20, 4)).expect("four bytes"));
        Self(entries.map(|entry| (number(entry, 0, 4), secret(&entry[8..]))).collect())
    }

    fn get(&self, number: u64) -> Secret {
        self.0.get(&number).copied().unwrap_or([1; 32])
    }

    /// Derives the keys of the segment that begins with this header, if it is encrypted.
    fn of_segment(&self, file: &[u8]) -> Option<SegmentKeys> {
        let is_encrypted = file.get(..192)? != [0; 192] && number(file, 104, 4) & 1 << 4 != 0;
        let place = [32, 40, 48].map(|at| number(file, at, 8));
        is_encrypted.then(|| SegmentKeys::of(&self.get(number(file, 116, 4)), place))
    }

    /// Decrypts a valid segment in place.
    pub fn open_segment(&self, file: &mut [u8]) {
        let Some(keys) = self.of_segment(file) else { return };
        let [block, reach] = [20, 24].map(|at| usize::try_from(number(file, at, 4)).unwrap());
        let mut at = 4 * block + reach;
        while number(file, at + 16, 4) > 0 {
            let size = usize::try_from(number(file, at + 4, 4) & 0x07FF_FFFF).unwrap();
            let body = at + fixup::BATCH;
            keys.open(&mut file[body..body + size], body);
            at = body + size;
        }
    }

    /// Encrypts an opened segment and makes it authentic, whatever it contains.
    pub fn seal_segment(&self, file: &mut [u8]) {
        // The code of a structure covers its checksum, so the checksums come first.
        fixup::segment(file);
        let keys = self.of_segment(file);
        if let Some(keys) = &keys {
            let block = usize::try_from(number(file, 20, 4)).unwrap();
            for (at, size) in [(0, 192), (block, 40), (2 * block, 40), (3 * block, 48)] {
                authenticate(file, (at, size), &keys.head);
            }
        }
        fixup::segment_with(file, keys.as_ref());
    }

    /// Makes a manifest authentic, whatever it contains.
    pub fn seal_manifest(&self, file: &mut [u8]) {
        fixup::manifest(file);
        for at in manifest_slots() {
            if file.get(at..).is_some_and(|slot| slot.starts_with(b"SEAWALLM")) {
                let key = self.get(number(file, at + AUTHENTICATOR_AT + 8, 4));
                let key = derived(&key, [number(file, at + 32, 8), 0, 0], "manifest");
                authenticate(file, (at, MANIFEST_SLOT_SIZE), &key);
            }
        }
        fixup::manifest(file);
    }
}

fn secret(bytes: &[u8]) -> Secret {
    *bytes.first_chunk().expect("there are as many")
}

/// Decrypts both slots of a valid file `keys` in place.
pub fn open_keys(file: &mut [u8]) {
    each_slot(file, |key, head, bound, keys| {
        decrypt(key, &head[68..80], bound, (keys, &head[80..96]));
    });
}

/// Encrypts both slots of an opened file `keys` and makes them authentic, whatever they contain.
pub fn seal_keys(file: &mut [u8]) {
    fixup::keys(file);
    each_slot(file, |key, head, bound, keys| {
        let tag = encrypt(key, &head[68..80], bound, keys);
        head[80..96].copy_from_slice(&tag);
    });
    fixup::keys(file);
}

/// Calls `with` for each slot of `keys`: the wrapping key, the slot's head, what the tag covers in
/// addition to the keys, and the keys.
fn each_slot(file: &mut [u8], with: impl Fn(&Secret, &mut [u8], &[u8], &mut [u8])) {
    for at in [0, KEYS_B] {
        let Some(slot) = file.get_mut(at..).filter(|slot| slot.starts_with(b"SEAWALLK")) else {
            continue;
        };
        let size = KEY * usize::try_from(number(slot, 20, 4)).unwrap();
        let Some(slot) = slot.get_mut(..KEYS_HEAD + size) else { continue };
        let (head, entries) = slot.split_at_mut(KEYS_HEAD);
        let place = [number(head, 24, 8), 0, 0];
        head[40..56].copy_from_slice(&derived(&USER_KEY, place, "key id")[..16]);
        let named = entries.chunks_exact(KEY).flat_map(|entry| &entry[..4]);
        let bound: Vec<u8> = head[..16].iter().chain(&head[20..68]).chain(named).copied().collect();
        let mut keys: Vec<u8> =
            entries.chunks_exact(KEY).flat_map(|entry| &entry[8..]).copied().collect();
        with(&derived(&USER_KEY, place, "wrap"), head, &bound, &mut keys);
        for (entry, key) in entries.chunks_exact_mut(KEY).zip(keys.chunks_exact(32)) {
            entry[8..].copy_from_slice(key);
        }
    }
}
