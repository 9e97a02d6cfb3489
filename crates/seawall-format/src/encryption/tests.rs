//! Test vectors: published ones of the primitives, and keys that a second program derived.

use crate::encryption::{Cipher, KeyEncryptionKey, LogKey, Nonce, SegmentKeys};
use crate::ids::{Epoch, LogId, SegmentId, SegmentRef};
use hkdf::Hkdf;
use sha2::Sha256;

/// A structure that another program encoded from the text of format.md.
pub(crate) fn encoded_from_text(structure: &str) -> Vec<u8> {
    let mut lines = include_str!("vectors/format.txt").lines();
    let digits = lines.find_map(|line| line.strip_prefix(structure)?.strip_prefix(' '));
    bytes(digits.unwrap_or_else(|| panic!("format.txt has no {structure}")))
}

fn bytes(digits: &str) -> Vec<u8> {
    let digits = digits.trim_start_matches('-').as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// The fields of each line but the first.
fn rows(file: &str) -> impl Iterator<Item = Vec<Vec<u8>>> {
    file.lines().skip(1).map(|line| line.split(' ').map(bytes).collect())
}

#[test]
fn cipher_encrypts_as_rfc_8452_says() {
    let mut count = 0;
    for row in rows(include_str!("vectors/rfc8452.txt")) {
        let [key, nonce, bound, plain, stored] = row.try_into().unwrap();
        let cipher = Cipher::new(key.as_slice().try_into().unwrap());
        let nonce: Nonce = nonce.try_into().unwrap();
        let mut memory = plain.clone();
        let tag = cipher.seal(&nonce, &bound, &mut memory);
        assert_eq!([memory.as_slice(), &tag].concat(), stored);
        assert!(cipher.open(&nonce, &bound, (&mut memory, &tag)));
        assert_eq!(memory, plain);
        for bit in 0..128 {
            let (mut memory, mut tag) = (stored[..plain.len()].to_vec(), tag);
            tag[bit / 8] ^= 1 << (bit % 8);
            assert!(!cipher.open(&nonce, &bound, (&mut memory, &tag)), "bit {bit}");
            assert!(plain.is_empty() || memory != plain, "what is forged stays hidden");
        }
        count += 1;
    }
    assert_eq!(count, 26);
}

/// Random bytes determined by a seed.
#[cfg(feature = "aws-lc-rs")]
fn random(seed: u64) -> impl Iterator<Item = u8> {
    let next = |x: &u64| Some(x ^ (x << 13)).map(|x| x ^ (x >> 7)).map(|x| x ^ (x << 17));
    std::iter::successors(Some(seed * 2 + 1), next).map(|x| u8::try_from(x >> 56).unwrap())
}

#[cfg(feature = "aws-lc-rs")]
#[test]
fn both_libraries_make_the_same_bytes() {
    use crate::encryption::cipher::Cipher as Other;

    for seed in 0..500_u64 {
        let mut some = random(seed);
        let mut some = |size: usize| some.by_ref().take(size).collect::<Vec<u8>>();
        let (key, nonce): ([u8; 32], Nonce) =
            (some(32).try_into().unwrap(), some(12).try_into().unwrap());
        let size = usize::try_from(seed * seed % 5003).unwrap();
        let (bound, plain) = (some(size % 97), some(size));
        let (ours, theirs) = (Other::new(&key), Cipher::new(&key));
        let (mut sealed, mut other) = (plain.clone(), plain.clone());
        let tag = ours.seal(&nonce, &bound, &mut sealed);
        assert_eq!(theirs.seal(&nonce, &bound, &mut other), tag, "seed {seed}");
        assert_eq!(sealed, other, "seed {seed}");
        assert!(theirs.open(&nonce, &bound, (&mut sealed, &tag)));
        assert!(ours.open(&nonce, &bound, (&mut other, &tag)));
        assert_eq!([&sealed, &other], [&plain, &plain], "seed {seed}");
        let mut forged = tag;
        forged[size % 16] ^= 1;
        assert!(!theirs.open(&nonce, &bound, (&mut sealed, &forged)), "seed {seed}");
    }
}

#[test]
fn keys_are_derived_as_rfc_5869_says() {
    let mut count = 0;
    for row in rows(include_str!("vectors/rfc5869.txt")) {
        let [salt, key, info, output] = row.try_into().unwrap();
        let mut found = vec![0; output.len()];
        Hkdf::<Sha256>::new(Some(&salt), &key).expand(&info, &mut found).unwrap();
        assert_eq!(found, output);
        count += 1;
    }
    assert_eq!(count, 3);
}

const LOG: LogId = LogId(3);
const SEGMENT: SegmentRef = SegmentRef { id: SegmentId::new(7).unwrap(), epoch: Epoch(9) };

fn key() -> [u8; 32] {
    std::array::from_fn(|byte| u8::try_from(byte).unwrap())
}

fn sealed(cipher: &Cipher) -> Vec<u8> {
    let mut memory = *b"plain";
    let tag = cipher.seal(b"nonce of 12.", b"bound", &mut memory);
    [memory.as_slice(), &tag].concat()
}

#[test]
fn keys_are_those_that_another_program_derives_from_format_md() {
    let keys = SegmentKeys::derive(&LogKey::new(&key()), LOG, SEGMENT);
    let code = |digits: &str| <[u8; 16]>::try_from(bytes(digits)).unwrap();
    assert_eq!(sealed(&keys.chunk), bytes(CHUNK));
    assert_eq!(keys.batch.code([b"a".as_slice(), b"bc"]), code(BATCH));
    assert_eq!(keys.head().code([b"abc".as_slice()]), code(HEAD));
    assert_eq!(LogKey::new(&key()).manifest(LOG).code([b"abc".as_slice()]), code(MANIFEST));
    let wrapping = KeyEncryptionKey::new(&key()).for_log(LOG);
    assert_eq!(wrapping.id, code(KEY_ID));
    assert_eq!(sealed(&wrapping.cipher), bytes(WRAP));
}

#[test]
fn every_segment_and_every_life_of_its_file_has_keys_of_its_own() {
    let derived = |key: u8, log: u64, id: u64, epoch: u64| {
        let segment = SegmentRef { id: SegmentId::new(id).unwrap(), epoch: Epoch(epoch) };
        let keys = SegmentKeys::derive(&LogKey::new(&[key; 32]), LogId(log), segment);
        [sealed(&keys.chunk), keys.batch.code([]).to_vec(), keys.head().code([]).to_vec()]
    };
    let all = [derived(1, 3, 7, 9), derived(2, 3, 7, 9), derived(1, 4, 7, 9), derived(1, 3, 8, 9)];
    let all = [all.as_slice(), &[derived(1, 3, 7, 10)]].concat();
    let different: std::collections::BTreeSet<_> = all.iter().flatten().collect();
    assert_eq!(different.len(), 3 * all.len());
}

#[test]
fn no_key_is_shown() {
    let (log, user) = (LogKey::new(&[0xAB; 32]), KeyEncryptionKey::new(&[0xAB; 32]));
    let keys = SegmentKeys::derive(&log, LOG, SEGMENT);
    let shown = format!("{log:?} {user:?} {keys:?} {:?} {:?}", keys.head(), log.manifest(LOG));
    assert_eq!(shown, "LogKey(..) KeyEncryptionKey(..) SegmentKeys(..) MacKey(..) MacKey(..)");
}

// Computed from the text of format.md section 3.7 by another program.
const CHUNK: &str = "9ec84bdb9a3d59a2b2c595a2021c1e905f38cc586a";
const BATCH: &str = "2f5bf220e96bed8efd9569bc490b9d9b";
const HEAD: &str = "3245583296ea8f9f9d3da45bf9767e43";
const MANIFEST: &str = "9631f3d8ed9652fd23ab2a9308ebb1e2";
const KEY_ID: &str = "5e43f27dfbfb7257e68058321cf2702d";
const WRAP: &str = "f7d5392bd24b8843641bb9846e4e6e7ee9590576e1";
