//! Wrapped keys unwrap unchanged; changed keys, a wrong key and another slot are refused.

use super::wrapped::{COUNT, CRC, SEQUENCE, WRAP};
use super::*;
use crate::checksum::Salt;
use crate::encryption::tests::encoded_from_text;
use crate::encryption::{KeyEncryptionKey, KeyError, LogKey, Nonce};
use crate::fields::{Field, behind, put};
use crate::ids::{KeyNumber, LogId, Offset};
use crate::refused::Refused;

const LOG: LogId = LogId(3);
const NONCE_BYTES: Nonce = *b"nonce of 12.";

fn user() -> KeyEncryptionKey {
    KeyEncryptionKey::new(&[0xA5; 32])
}

/// A ring with the log keys 2 and 3; key 1 was removed.
fn ring() -> KeyRing {
    let one = KeyRing::new(LOG, LogKey::new(&[1; 32]));
    let two = one.with_key(LogKey::new(&[2; 32])).unwrap();
    two.with_key(LogKey::new(&[3; 32])).unwrap().without_keys_before(number(2))
}

fn number(number: u32) -> KeyNumber {
    KeyNumber::new(number).unwrap()
}

fn slot() -> (Offset, Vec<u8>) {
    ring().wrap(&user(), &NONCE_BYTES, 77).encode()
}

fn unwrapped(slot: &[u8], offset: Offset) -> Option<Result<Vec<(u32, u8)>, KeyError>> {
    let found = WrappedKeys::decode(slot, offset).ok()?;
    let numbers: Vec<_> = found.numbers().collect();
    let ring = found.unwrap(&user());
    let first_byte = |ring: &KeyRing, number| ring.get(number).unwrap().bytes()[0];
    let all = |ring: KeyRing| {
        numbers.iter().map(|number| (number.get(), first_byte(&ring, *number))).collect()
    };
    Some(ring.map(all))
}

#[test]
fn keys_are_read_back_unchanged() {
    let (offset, slot) = slot();
    assert_eq!((offset, slot.len()), (Offset(0), 96 + 2 * 40), "the fourth write");
    assert_eq!(unwrapped(&slot, offset), Some(Ok(vec![(2, 2), (3, 3)])));
    let found = WrappedKeys::decode(&slot, offset).unwrap();
    assert_eq!((found.log, found.sequence, found.time_us), (LOG, 4, 77));
    let ring = found.unwrap(&user()).unwrap();
    assert_eq!((ring.sequence(), ring.newest().0.get()), (4, 3));
    assert_eq!(ring.get(number(1)).unwrap_err(), KeyError::NoSuchKey(number(1)));
}

#[test]
fn slot_is_the_one_that_another_program_encodes_from_format_md() {
    assert_eq!(slot().1, encoded_from_text("keys"));
}

#[test]
fn writes_go_to_both_slots_by_turns() {
    let one = KeyRing::new(LOG, LogKey::new(&[1; 32]));
    let mut file = vec![0; 2 * 65_536];
    for ring in [one.clone(), one.again(), one.again().again()] {
        let (offset, slot) = ring.wrap(&user(), &NONCE_BYTES, 1).encode();
        let at = usize::try_from(offset.0).unwrap();
        file[at..at + slot.len()].copy_from_slice(&slot);
    }
    let found = WrappedKeys::decode_file(&file).map(|slot| slot.unwrap().sequence);
    assert_eq!(found, [2, 3]);
    assert_eq!(WrappedKeys::decode_file(&file[..65_536])[1], Err(Refused::Invalid));
    assert_eq!(WrappedKeys::decode_file(&[])[0], Err(Refused::Invalid));
}

#[test]
fn every_flipped_bit_of_keys_is_damage_and_forged_if_the_checksum_agrees() {
    let (offset, good) = slot();
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(unwrapped(&bytes, offset), None, "bit {bit}");
        let crc = Salt::of_log(LOG).checksum(offset, behind(&bytes, CRC));
        put(&mut bytes, CRC, crc.into());
        match unwrapped(&bytes, offset) {
            None => {}
            Some(Ok(_)) => assert_eq!(bytes, good, "bit {bit}"),
            Some(Err(KeyError::WrongKey)) => assert!((40 * 8..56 * 8).contains(&bit), "bit {bit}"),
            Some(found) => assert_eq!(found, Err(KeyError::Forged), "bit {bit}"),
        }
        // The tag detects every change that no other check detects.
        if bit >= 56 * 8 && !(64 * 8..68 * 8).contains(&bit) {
            let in_number = |at: usize| (bit / 8).checked_sub(at).is_some_and(|byte| byte < 8);
            let by_tag = unwrapped(&bytes, offset) == Some(Err(KeyError::Forged));
            assert!(by_tag || in_number(96) || in_number(136), "bit {bit}");
        }
    }
}

#[test]
fn another_key_is_told_from_damage() {
    let (offset, slot) = slot();
    let found = WrappedKeys::decode(&slot, offset).unwrap();
    let other = KeyEncryptionKey::new(&[0xA4; 32]);
    assert_eq!(found.unwrap(&other).unwrap_err(), KeyError::WrongKey);
    let rewrapped = ring().again().wrap(&other, &NONCE_BYTES, 1);
    assert_eq!(rewrapped.unwrap(&user()).unwrap_err(), KeyError::WrongKey);
    let again = rewrapped.unwrap(&other).unwrap();
    assert_eq!(again.get(number(3)).unwrap().bytes(), &[3; 32]);
}

#[test]
fn keys_of_another_log_or_slot_are_not_accepted() {
    let (offset, slot) = slot();
    assert_eq!(WrappedKeys::decode(&slot, SLOT_B), Err(Refused::Invalid));
    let mut other = WrappedKeys::decode(&slot, offset).unwrap();
    other.log = LogId(4);
    assert_eq!(other.unwrap(&user()).unwrap_err(), KeyError::WrongKey, "its id is another");
    let mut mixed = WrappedKeys::decode(&slot, offset).unwrap();
    mixed.entries.truncate(1);
    assert_eq!(mixed.unwrap(&user()).unwrap_err(), KeyError::Forged, "a key is missing");
}

#[test]
fn what_keys_cannot_be_is_refused_despite_its_checksum() {
    let forged = |fields: &[(Field, u64)]| {
        let (offset, mut bytes) = slot();
        for (field, number) in fields {
            put(&mut bytes, *field, *number);
        }
        let crc = Salt::of_log(LOG).checksum(offset, behind(&bytes, CRC));
        put(&mut bytes, CRC, crc.into());
        WrappedKeys::decode(&bytes, offset)
    };
    let at = |field: Field, entry: usize| Field { at: field.at + 96 + 40 * entry, ..field };
    for fields in [
        &[(COUNT, 0)][..],
        &[(COUNT, 3)],
        &[(COUNT, 257)],
        &[(COUNT, u64::from(u32::MAX))],
        &[(SEQUENCE, 0)],
        &[(SEQUENCE, 5)],
        &[(SEQUENCE, 1 << 63)],
        &[(at(entry::NUMBER, 0), 0)],
        &[(at(entry::NUMBER, 0), 3)],
        &[(at(entry::NUMBER, 0), 4)],
    ] {
        assert_eq!(forged(fields), Err(Refused::Invalid), "{fields:?}");
    }
    let unknown = |what: &str| Err(Refused::Unknown { what: what.to_owned() });
    assert_eq!(forged(&[(WRAP, 2)]), unknown("wrapping of keys 2"));
    let later = unknown("something in bytes 4 to 8, kept for later");
    assert_eq!(forged(&[(at(entry::ZERO, 1), 1)]), later);
}

#[test]
fn ring_keeps_the_newest_key_and_grows_to_its_limit() {
    let mut ring = KeyRing::new(LOG, LogKey::new(&[1; 32]));
    assert_eq!(ring.without_keys_before(number(9)).newest().0.get(), 1);
    while let Some(next) = ring.with_key(LogKey::new(&[7; 32])) {
        ring = next;
    }
    assert_eq!(usize::try_from(ring.newest().0.get()), Ok(LOG_KEYS_MAX));
    let (offset, slot) = ring.wrap(&user(), &NONCE_BYTES, 1).encode();
    assert!(slot.len() <= 65_536);
    assert_eq!(WrappedKeys::decode(&slot, offset).unwrap().numbers().count(), LOG_KEYS_MAX);
}
