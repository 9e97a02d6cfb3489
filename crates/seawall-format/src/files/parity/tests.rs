//! Parity schemes, offsets, heads and stripe checksums: encoded, decoded, and refused if invalid.

use super::*;
use crate::fields::behind;
use crate::ids::{Lsn, SegmentId};
use crate::types::{CodecId, Compression, Geometry, Layout, RecordType};

fn header(block: u32) -> SegmentHeader {
    SegmentHeader {
        geometry: Geometry { block, ..Geometry::DEFAULT },
        log: LogId(7),
        authenticator: None,
        id: SegmentId::FIRST,
        epoch: Epoch(77),
        base: Lsn::FIRST,
        carried: None,
        size: 1 << 20,
        pred: None,
        pred_chain: 0,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType { codec: CodecId::Raw, name: String::new(), schema: 0 },
        time_us: 3,
    }
}

fn head(sequence: u64) -> Head {
    let header = header(4096);
    let covered = header.data_start() + 100;
    Head { header, scheme: Scheme::DEFAULT, sequence, covered }
}

fn known(places: &Places) -> Known {
    let blocks = places.scheme().data() + places.scheme().parity();
    let checksums = (0..blocks).map(|block| u32::try_from(block).unwrap() * 77).collect();
    Known { number: 3, covered: 5000, checksums }
}

#[cfg(feature = "encryption")]
#[test]
fn head_keeps_the_authenticator_of_an_encrypted_header() {
    use crate::encryption::{LogKey, SegmentKeys};
    use crate::ids::KeyNumber;

    let key = LogKey::new(&[1; 32]);
    let keys = SegmentKeys::derive(&key, header(4096).log, header(4096).reference());
    let head = Head { header: header(4096).signed(KeyNumber::FIRST, &keys), ..head(2) };
    let stored = head.stored();
    assert_eq!((stored.len(), Head::decode(&stored)), (368, Ok(head.clone())));
    assert_eq!(Head::decode(&head.encode()), Err(Refused::Invalid), "without it");
    assert_eq!(self::head(2).stored(), self::head(2).encode());
}

#[test]
fn parts_of_a_parity_file_are_adjacent() {
    let places = Places::of(&header(4096), Scheme::DEFAULT);
    assert_eq!(places.start(), 81_920);
    assert_eq!((places.stripe_size(), places.known_size()), (65_536, 104));
    assert_eq!(places.slot_at(0), Offset(8192));
    assert_eq!(places.slot_at(2), Offset(8192 + 2 * (104 + 8192)));
    assert_eq!((places.stripe_of(81_920), places.stripe_of(147_455)), (0, 0));
    assert_eq!((places.stripe_of(147_456), places.stripe_at(1)), (1, 147_456));
}

#[test]
fn parity_is_read_back_and_flipped_bits_are_detected() {
    let places = Places::of(&header(4096), Scheme::DEFAULT);
    let said = known(&places);
    let good = said.encode(&places);
    assert_eq!(Known::decode(&good, 3, &places), Some(said));
    assert_eq!(Known::decode(&good, 2, &places), None, "the slot of another stripe");
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Known::decode(&bytes, 3, &places), None, "bit {bit}");
    }
    let good = head(2).encode();
    assert_eq!(Head::decode(&good), Ok(head(2)));
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Head::decode(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_sound_checksum_is_no_excuse() {
    let places = Places::of(&header(4096), Scheme::DEFAULT);
    for (field, number) in
        [(stripe::COVERED, 0), (stripe::COVERED, 65_537), (stripe::NUMBER, 4), (stripe::ZERO, 1)]
    {
        let mut bytes = known(&places).encode(&places);
        put(&mut bytes, field, number);
        let crc = places.salt.checksum(places.slot_at(3), behind(&bytes, stripe::CRC));
        put(&mut bytes, stripe::CRC, u64::from(crc));
        assert_eq!(Known::decode(&bytes, 3, &places), None, "{field:?}");
    }
    for (field, number) in [
        (head::DATA, 65),
        (head::DATA, 1),
        (head::PARITY, 0),
        (head::PARITY, 17),
        (head::SEQUENCE, 0),
        (head::COVERED, 0),
        (head::COVERED, 1 << 48),
        (head::BLOCK, 512),
        (head::LOG_ID, 8),
    ] {
        assert_eq!(forged(field, number), Err(Refused::Invalid), "{field:?}");
    }
}

/// Decodes a head after setting this field and recomputing its checksum.
fn forged(field: crate::fields::Field, number: u64) -> Result<Head, Refused> {
    let mut bytes = head(2).encode();
    put(&mut bytes, field, number);
    let crc = head(2).header.salt().checksum(Offset(0), behind(&bytes, head::CRC));
    put(&mut bytes, head::CRC, u64::from(crc));
    Head::decode(&bytes)
}

#[test]
fn reserved_bytes_are_refused_by_name() {
    let unknown = |what: &str| Err(Refused::Unknown { what: what.to_owned() });
    for bit in 0..32 {
        let name = format!("feature bits {:#x} of parity", 1_u64 << bit);
        assert_eq!(forged(head::FEATURES, 1 << bit), unknown(&name));
    }
    for bit in 0..64 {
        let name = "something in bytes 80 to 88, kept for later";
        assert_eq!(forged(head::ZERO_BEHIND, 1 << bit), unknown(name), "bit {bit}");
    }
}

#[test]
fn newer_head_counts_in_either_block() {
    for block in [512, 4096, 65_536_u32] {
        let at = usize::try_from(block).unwrap();
        let covered = header(block).data_start();
        let head = |sequence| Head { header: header(block), covered, ..head(sequence) };
        let mut file = vec![0; HEADS_MAX];
        let put = |file: &mut Vec<u8>, head: &Head| {
            let at = usize::try_from(head.offset().0).unwrap();
            file[at..at + HEAD_SIZE].copy_from_slice(&head.encode());
        };
        assert_eq!(Head::decode_file(&file), Err(Refused::Invalid));
        for sequence in [1, 2, 3] {
            put(&mut file, &head(sequence));
            assert_eq!(Head::decode_file(&file).unwrap().sequence, sequence);
        }
        file[at] ^= 1;
        assert_eq!(Head::decode_file(&file).unwrap().sequence, 2, "what is left");
        file[0] ^= 1;
        assert_eq!(Head::decode_file(&file), Err(Refused::Invalid));
        assert_eq!(Head::decode_file(&file[..100]), Err(Refused::Invalid));
    }
}

#[test]
fn invalid_parity_scheme_is_refused() {
    for said in ["", "16", "16+", "+2", "1+1", "65+2", "16+17", "2+3", "16+0", "-1+2", "a+b"] {
        let refused = said.parse::<Scheme>().unwrap_err().to_string();
        assert!(refused.contains("invalid parity"), "{refused}");
    }
    for said in ["2+1", "64+16", "4+1"] {
        assert_eq!(said.parse::<Scheme>().unwrap().to_string(), said);
    }
}
