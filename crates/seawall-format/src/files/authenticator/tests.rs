//! Authenticators: valid ones are accepted; changed, moved, foreign and missing ones are refused.

use super::*;
use crate::encryption::tests::encoded_from_text;
use crate::encryption::{LogKey, SegmentKeys};
use crate::ids::{Epoch, LogId, SegmentRef};

const LOG: LogId = LogId(3);
const SEGMENT: SegmentRef = SegmentRef { id: SegmentId::new(7).unwrap(), epoch: Epoch(9) };
const STRUCTURE: &[u8] = b"what a header, a mark, a seal or a manifest slot may say";

fn keys() -> SegmentKeys {
    SegmentKeys::derive(&LogKey::new(&[1; 32]), LOG, SEGMENT)
}

fn salt() -> Salt {
    Salt::new(LOG, SEGMENT.epoch)
}

fn claims() -> Claims {
    Claims { padding: Padding::Padme, from: SegmentId::new(5), keys: 6, ..Claims::of(key()) }
}

fn key() -> KeyNumber {
    KeyNumber::new(2).unwrap()
}

/// A sector with the structure and its authenticator.
fn sector(offset: Offset) -> Vec<u8> {
    let proof = Authenticator::new(STRUCTURE, offset, (claims(), keys().head()));
    let mut sector = vec![0; crate::fields::sizes::SECTOR];
    sector[..STRUCTURE.len()].copy_from_slice(STRUCTURE);
    sector[AUTHENTICATOR_AT..][..AUTHENTICATOR_SIZE].copy_from_slice(&proof.encode(
        STRUCTURE,
        offset,
        &salt(),
    ));
    sector
}

/// Whether a holder of the key wrote the sector like this; `None` if its authenticator is damaged.
fn judged(sector: &[u8], offset: Offset, key: &MacKey) -> Option<bool> {
    let found = Authenticator::decode(sector, STRUCTURE.len(), offset, &salt()).ok()?;
    Some(found.check(&sector[..STRUCTURE.len()], offset, key).is_ok())
}

#[test]
fn authenticator_is_read_back_and_right() {
    let sector = sector(Offset(4096));
    let found = Authenticator::decode(&sector, STRUCTURE.len(), Offset(4096), &salt()).unwrap();
    assert_eq!(found.claims, claims());
    assert_eq!(judged(&sector, Offset(4096), keys().head()), Some(true));
    let bytes = &sector[AUTHENTICATOR_AT..][..AUTHENTICATOR_SIZE];
    assert_eq!(bytes, encoded_from_text("authenticator"), "by another program");
}

#[test]
fn every_flipped_bit_is_noticed_with_and_without_checksums() {
    let (good, keys) = (sector(Offset(0)), keys());
    let structure = 0..STRUCTURE.len() * 8;
    let proof = AUTHENTICATOR_AT * 8..(AUTHENTICATOR_AT + AUTHENTICATOR_SIZE) * 8;
    for bit in structure.clone().chain(proof).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(judged(&bytes, Offset(0), keys.head()), None, "bit {bit}");
        let (whole, proof) = bytes.split_at_mut(AUTHENTICATOR_AT);
        let proof = &mut proof[..AUTHENTICATOR_SIZE];
        let crc = checksum(&whole[..STRUCTURE.len()], proof, (Offset(0), &salt()));
        put(proof, CRC, crc.into());
        let in_crc = (AUTHENTICATOR_AT * 8..AUTHENTICATOR_AT * 8 + 32).contains(&bit);
        assert_eq!(judged(&bytes, Offset(0), keys.head()) == Some(true), in_crc, "bit {bit}");
    }
}

#[test]
fn structure_of_another_place_segment_or_key_is_forged() {
    let good = sector(Offset(4096));
    let other = |key: u8, segment: SegmentRef| {
        SegmentKeys::derive(&LogKey::new(&[key; 32]), LOG, segment).head().clone()
    };
    let next = SegmentRef { id: SEGMENT.id.next().unwrap(), ..SEGMENT };
    let life = SegmentRef { epoch: Epoch(8), ..SEGMENT };
    for key in [other(2, SEGMENT), other(1, next), other(1, life)] {
        assert_eq!(judged(&good, Offset(4096), &key), Some(false));
    }
    assert_eq!(judged(&good, Offset(4096), &LogKey::new(&[1; 32]).manifest(LOG)), Some(false));
    // Moved: a checksum recomputed for the new offset would not help.
    let found = Authenticator::decode(&good, STRUCTURE.len(), Offset(4096), &salt()).unwrap();
    assert!(found.check(STRUCTURE, Offset(8192), keys().head()).is_err());
    assert_eq!(judged(&good, Offset(8192), keys().head()), None, "with the checksum of the old");
}

#[test]
fn without_an_authenticator_a_structure_is_not_valid() {
    for sector in [vec![0; 512], vec![], vec![0xFF; 512], sector(Offset(0))[..300].to_vec()] {
        assert_eq!(
            Authenticator::decode(&sector, STRUCTURE.len(), Offset(0), &salt()),
            Err(Refused::Invalid)
        );
    }
}
