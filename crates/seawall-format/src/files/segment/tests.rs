//! Fields of header, mark and seal, each changed by itself under a valid checksum.

use super::*;
use crate::fields::Field;
use crate::fields::behind;
use crate::types::CodecId;

/// A header in which each field has a different number.
fn sample() -> SegmentHeader {
    let geometry = Geometry { block: 1024, reach: 2048, batch_max: 4096 };
    SegmentHeader {
        geometry,
        log: LogId(0x0102_0304_0506_0708),
        authenticator: None,
        id: SegmentId::new(9).unwrap(),
        epoch: Epoch(0x1112_1314_1516_1718),
        base: lsn(40),
        carried: Some(lsn(44)),
        size: 1 << 20,
        pred: SegmentRef::from_numbers(8, 77),
        pred_chain: 78,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        record_type: RecordType { codec: CodecId::Json, name: "Event".to_owned(), schema: 3 },
        time_us: 79,
    }
}

fn text() -> SegmentHeader {
    let sample = sample();
    SegmentHeader { layout: Layout::Text, size: sample.geometry.head_size(), ..sample }
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// Decodes the header after setting these fields and recomputing its checksum.
fn forged(header: &SegmentHeader, fields: &[(Field, u64)]) -> Result<SegmentHeader, Refused> {
    let mut bytes = header.encode();
    for (field, number) in fields {
        put(&mut bytes, *field, *number);
    }
    let log = LogId(get(&bytes, header::LOG_ID));
    let salt = Salt::new(log, Epoch(get(&bytes, header::EPOCH)));
    let crc = salt.checksum(Offset(0), behind(&bytes, header::CRC));
    put(&mut bytes, header::CRC, u64::from(crc));
    SegmentHeader::decode(&bytes)
}

#[test]
fn header_is_read_back_unchanged() {
    let first = SegmentHeader { pred: None, pred_chain: 0, carried: Some(lsn(39)), ..sample() };
    let nameless = RecordType::of(CodecId::Positional);
    let long = RecordType { name: "x".repeat(64), ..nameless.clone() };
    let of_type = |record_type| SegmentHeader { record_type, ..sample() };
    let new = SegmentHeader { base: Lsn::FIRST, carried: None, ..sample() };
    let all = [sample(), text(), first, new, of_type(nameless), of_type(long)];
    for header in all.into_iter().filter(|header| header.layout.is_built_in()) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
}

#[test]
fn every_flipped_bit_of_a_header_is_detected() {
    let good = sample().encode();
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(SegmentHeader::decode(&bytes), Err(Refused::Invalid), "bit {bit}");
    }
}

#[test]
fn only_a_binary_segment_can_be_reused() {
    let reused = SegmentHeader { is_reused: true, ..sample() };
    assert_eq!(SegmentHeader::decode(&reused.encode()), Ok(reused));
    let reused = SegmentHeader { is_reused: true, ..text() };
    assert_eq!(SegmentHeader::decode(&reused.encode()), Err(Refused::binary_only()));
}

#[test]
fn only_a_binary_segment_has_several_writes_in_flight() {
    for in_flight_max in 1..=IN_FLIGHT_MAX {
        let header = SegmentHeader { in_flight_max, is_reused: true, ..sample() };
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
    let text = SegmentHeader { in_flight_max: 2, ..text() };
    assert_eq!(SegmentHeader::decode(&text.encode()), Err(Refused::binary_only()));
}

#[test]
fn only_a_binary_segment_has_compressed_batches() {
    let header = SegmentHeader { compression_max: Compression::Lz4, is_reused: true, ..sample() };
    let expected = if cfg!(feature = "lz4") {
        Ok(header.clone())
    } else {
        Err(Refused::NotBuiltIn { compression: "lz4" })
    };
    assert_eq!(SegmentHeader::decode(&header.encode()), expected);
    let header = SegmentHeader { compression_max: Compression::Zstd, ..header };
    let expected = if cfg!(feature = "zstd") {
        Ok(header.clone())
    } else {
        Err(Refused::NotBuiltIn { compression: "zstd" })
    };
    assert_eq!(SegmentHeader::decode(&header.encode()), expected);
    let text = SegmentHeader { compression_max: Compression::Lz4, ..text() };
    assert_ne!(SegmentHeader::decode(&text.encode()), Ok(text));
}

/// The keys of the segment of [`sample`].
#[cfg(feature = "encryption")]
fn keys() -> SegmentKeys {
    let key = crate::encryption::LogKey::new(&[1; 32]);
    SegmentKeys::derive(&key, sample().log, sample().reference())
}

#[cfg(feature = "encryption")]
#[test]
fn structures_of_an_encrypted_segment_are_valid_only_with_an_authenticator() {
    let (keys, key) = (keys(), KeyNumber::new(0x0102_0304).unwrap());
    let header = sample().signed(key, &keys);
    let stored = header.stored();
    assert_eq!((stored.len(), header.log_key()), (crate::STORED_MAX, Some(key)));
    assert_eq!(SegmentHeader::decode(&stored), Ok(header.clone()));
    assert_eq!(header.check(&keys), Ok(()));
    assert_eq!(SegmentHeader::decode(&header.encode()), Err(Refused::Invalid), "without it");
    assert_eq!(&*sample().stored(), sample().encode());
    // An authenticator for other content, and one with another claim.
    let other = SegmentHeader { time_us: 1, ..header.clone() };
    assert_eq!(SegmentHeader::decode(&other.stored()), Ok(other.clone()));
    assert_eq!(other.check(&keys), Err(KeyError::Forged));
    let claims = Claims { keys: 1, ..Claims::of(key) };
    let claims = Authenticator::unsigned(claims);
    let other = SegmentHeader { authenticator: Some(claims), ..header.clone() };
    assert_eq!(SegmentHeader::decode(&other.stored()), Err(Refused::Invalid));
    let mark = Mark { confirmed: None, sequence: 2, time_us: 3 };
    let seal = Seal { last: None, next: header.reference(), time_us: 3 };
    let (marked, sealed) = (mark.stored(&header, Some(&keys)), seal.stored(&header, Some(&keys)));
    assert_eq!(Mark::decode(&marked, mark.slot(), &header), Some(mark));
    assert_eq!(Seal::decode(&sealed, &header), Some(seal));
    assert_eq!(mark.check(&marked, &header, &keys), Ok(()));
    assert_eq!(seal.check(&sealed, &header, &keys), Ok(()));
    assert_eq!(Mark::decode(&mark.encode(&header), mark.slot(), &header), None);
    assert_eq!(Seal::decode(&seal.encode(&header), &header), None);
    let later = Mark { confirmed: Lsn::new(9), ..mark };
    assert_eq!(later.check(&marked, &header, &keys), Err(KeyError::Forged));
    let later = Seal { last: Lsn::new(9), ..seal };
    assert_eq!(later.check(&sealed, &header, &keys), Err(KeyError::Forged));
    assert_eq!(&*mark.stored(&sample(), None), mark.encode(&sample()));
}

#[cfg(feature = "encryption")]
#[test]
fn key_number_and_feature_bit_belong_together() {
    let header = sample().signed(KeyNumber::FIRST, &keys());
    let text = SegmentHeader { authenticator: header.authenticator, ..text() };
    assert_eq!(SegmentHeader::decode(&text.stored()), Err(Refused::binary_only()));
    let kept = "something in bytes 116 to 120, kept for later".to_owned();
    assert_eq!(forged(&sample(), &[(header::KEY, 1)]), Err(Refused::Unknown { what: kept }));
    let mut bytes = header.stored().to_vec();
    put(&mut bytes, header::KEY, 0);
    sample().salt().put_checksum(Offset(0), &mut bytes[..HEADER_SIZE], header::CRC);
    assert_eq!(SegmentHeader::decode(&bytes), Err(Refused::Invalid));
}

#[test]
fn header_of_a_segment_named_ahead_does_not_say_where_it_begins() {
    let header = SegmentHeader { named_ahead: true, ..sample() }.begin(lsn(40), 0x7F_0000_0078);
    assert_eq!(header.chain(), 0x7F_0000_0078);
    assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header.as_written()));
    assert_eq!(header.as_written().begin(lsn(40), 0x7F_0000_0078), header);
    for field in [header::BASE, header::CARRIED, header::PRED_CHAIN] {
        assert_eq!(forged(&header, &[(field, 40)]), Err(Refused::Invalid));
    }
    let first = SegmentHeader { pred: None, ..header };
    assert_eq!(SegmentHeader::decode(&first.encode()), Err(Refused::Invalid), "it follows none");
    let text = SegmentHeader { named_ahead: true, ..text() };
    assert_eq!(SegmentHeader::decode(&text.encode()), Err(Refused::binary_only()));
}

#[test]
fn truncated_header_is_invalid() {
    assert_eq!(SegmentHeader::decode(&sample().encode()[..191]), Err(Refused::Invalid));
    assert_eq!(SegmentHeader::decode(&[]), Err(Refused::Invalid));
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    for bit in 0..32 {
        let unknown = |what| Err(Refused::Unknown { what });
        let feature = forged(&sample(), &[(header::FEATURES, 1 << bit)]);
        match bit {
            1 => assert!(feature.is_ok_and(|header| header.is_reused)),
            2 => assert_eq!(feature, Err(Refused::Invalid), "it says where it begins"),
            3 if cfg!(feature = "lz4") => {
                assert!(feature.is_ok_and(|header| header.compression_max == Compression::Lz4));
            }
            3 => assert_eq!(feature, Err(Refused::NotBuiltIn { compression: "lz4" })),
            4 => assert_eq!(feature, Err(Refused::Invalid), "it has no key"),
            8 => assert!(feature.is_ok_and(|header| header.in_flight_max == 2)),
            9 => assert!(feature.is_ok_and(|header| header.in_flight_max == 3)),
            _ => assert_eq!(feature, unknown(format!("feature bits {:#x}", 1_u64 << bit))),
        }
        let kept = forged(&sample(), &[(header::KEY, 1 << bit)]);
        assert_eq!(kept, unknown("something in bytes 116 to 120, kept for later".to_owned()));
    }
    for (field, number, name) in [(header::CODEC, 4, "codec 4"), (header::LAYOUT, 2, "layout 2")] {
        let what = name.to_owned();
        assert_eq!(forged(&sample(), &[(field, number)]), Err(Refused::Unknown { what }));
    }
}

#[test]
fn header_of_another_version_is_refused_by_name() {
    let mut bytes = sample().encode();
    put(&mut bytes, header::VERSION, 7);
    let crc = crate::checksum::crc32c(&bytes[..12]);
    put(&mut bytes, header::PREAMBLE_CRC, u64::from(crc));
    // Nothing after the preamble is read: its layout is unknown.
    bytes[100] ^= 1;
    let found = Refused::OtherVersion { version: 7, draft: crate::refused::DRAFT };
    assert_eq!(SegmentHeader::decode(&bytes), Err(found));
}

#[test]
fn impossible_numbers_are_refused_despite_a_valid_checksum() {
    const GIB: u64 = 1 << 30;
    let [block, reach, batch_max] = [header::BLOCK, header::REACH, header::BATCH_MAX];
    for fields in [
        &[(block, 0)][..],
        &[(block, 256)],
        &[(block, 1536), (reach, 3072)],
        &[(block, 1 << 17), (reach, 1 << 17)],
        &[(reach, 0)],
        &[(reach, 512)],
        &[(reach, 1536)],
        &[(reach, 2 << 20), (header::SIZE, 4 << 20)],
        &[(batch_max, 0)],
        &[(batch_max, 248)],
        &[(batch_max, 4100)],
        &[(batch_max, (64 << 20) + 8)],
        &[(header::LOG_ID, 0)],
        &[(header::ID, 0)],
        &[(header::EPOCH, 0)],
        &[(header::BASE, 0)],
        &[(header::CARRIED, 38)],
        &[(header::CARRIED, 0)],
        &[(header::SIZE, 5 << 10)],
        &[(header::SIZE, (1 << 20) + 512)],
        &[(header::SIZE, 4 * GIB + 1024)],
        &[(header::PRED_ID, 0)],
        &[(header::PRED_ID, 9)],
        &[(header::PRED_ID, 10)],
        &[(header::NAME_LENGTH, 4)],
        &[(header::NAME_LENGTH, 65)],
    ] {
        assert_eq!(forged(&sample(), fields), Err(Refused::Invalid), "{fields:?}");
    }
}

#[cfg(feature = "json")]
#[test]
fn text_segment_has_a_head_of_four_blocks_and_json_records() {
    let as_text = |fields: &[(Field, u64)]| {
        let fields = [&[(header::LAYOUT, 1), (header::SIZE, 4 << 10)], fields].concat();
        forged(&sample(), &fields)
    };
    assert_eq!(as_text(&[]), Ok(text()));
    for field in [(header::SIZE, 5 << 10), (header::SIZE, 6 << 10), (header::CODEC, 1)] {
        assert_eq!(as_text(&[field]), Err(Refused::Invalid), "{field:?}");
    }
}

#[test]
fn smallest_and_largest_numbers_are_valid() {
    const GIB: u64 = 1 << 30;
    let [block, reach, batch_max] = [header::BLOCK, header::REACH, header::BATCH_MAX];
    for fields in [
        &[(block, 512), (reach, 512)][..],
        &[(block, 1 << 16), (reach, 1 << 20), (header::SIZE, 2 << 20)],
        &[(batch_max, 256)],
        &[(batch_max, 64 << 20)],
        &[(header::SIZE, 6 << 10)],
        &[(header::SIZE, 4 * GIB)],
        &[(header::CARRIED, 39)],
        &[(header::PRED_ID, 0), (header::PRED_EPOCH, 0)],
        &[(header::CODEC, 0)],
    ] {
        assert!(forged(&sample(), fields).is_ok(), "{fields:?}");
    }
}

#[test]
fn type_name_is_utf_8() {
    let mut header = sample();
    header.record_type.name = "\u{e4}".to_owned();
    assert_eq!(forged(&header, &[]).as_ref(), Ok(&header));
    assert_eq!(forged(&header, &[(header::NAME_LENGTH, 1)]), Err(Refused::Invalid));
}

#[test]
fn first_chain_value_is_the_checksum_and_half_of_the_epoch() {
    let bytes = sample().encode();
    let crc = u32::from_le_bytes(*bytes[16..].first_chunk().unwrap());
    assert_eq!(sample().chain(), u64::from(crc) | 0x1516_1718 << 32);
}

#[test]
fn layout_determines_the_file_names_of_a_segment() {
    let names = |header: &SegmentHeader| (header.head_name(), header.data_name());
    let both = ("000000000009.seg".to_owned(), "000000000009.seg".to_owned());
    assert_eq!((names(&sample()), sample().data_start()), (both, 6144));
    let two = ("000000000009.head".to_owned(), "000000000009.jsonl".to_owned());
    assert_eq!((names(&text()), text().data_start()), (two, 0));
}

fn mark(sequence: u64) -> Mark {
    Mark { confirmed: Some(lsn(43)), sequence, time_us: 5 }
}

#[test]
fn mark_is_valid_only_in_its_own_slot() {
    let header = sample();
    let highest = (1 << 63) - 1;
    for (sequence, slot, other) in [
        (1, MarkSlot::B, MarkSlot::A),
        (2, MarkSlot::A, MarkSlot::B),
        (highest, MarkSlot::B, MarkSlot::A),
    ] {
        let bytes = mark(sequence).encode(&header);
        assert_eq!(mark(sequence).slot(), slot);
        assert_eq!(Mark::decode(&bytes, slot, &header), Some(mark(sequence)));
        assert_eq!(Mark::decode(&bytes, other, &header), None);
    }
    let places = [MarkSlot::A, MarkSlot::B].map(|slot| slot.offset(header.geometry).0);
    assert_eq!((places, Seal::offset(header.geometry).0), ([1024, 2048], 3072));
}

/// Decodes a mark after setting these fields and recomputing its checksum for that slot.
fn forged_mark(fields: &[(Field, u64)], slot: MarkSlot) -> Option<Mark> {
    let header = sample();
    let mut bytes = mark(2).encode(&header);
    for (field, number) in fields {
        put(&mut bytes, *field, *number);
    }
    let at = slot.offset(header.geometry);
    let crc = header.salt().checksum(at, behind(&bytes, mark::CRC));
    put(&mut bytes, mark::CRC, u64::from(crc));
    Mark::decode(&bytes, slot, &header)
}

#[test]
fn mark_with_impossible_numbers_is_invalid() {
    assert_eq!(forged_mark(&[], MarkSlot::A), Some(mark(2)));
    for (field, number) in
        [(mark::MAGIC, 0), (mark::EPOCH, 1), (mark::SEQUENCE, 0), (mark::SEQUENCE, 1 << 63)]
    {
        assert_eq!(forged_mark(&[(field, number)], MarkSlot::A), None, "{field:?}");
    }
    assert_eq!(forged_mark(&[], MarkSlot::B), None, "an even number in the slot of odd ones");
}

#[test]
fn every_flipped_bit_of_a_mark_is_detected() {
    let header = sample();
    let good = mark(3).encode(&header);
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Mark::decode(&bytes, MarkSlot::B, &header), None, "bit {bit}");
    }
    assert_eq!(Mark::decode(&[0; 40], MarkSlot::A, &header), None);
    assert_eq!(Mark::decode(&good[..39], MarkSlot::B, &header), None);
}

#[test]
fn evidence_of_another_epoch_is_ignored() {
    let header = sample();
    let other = SegmentHeader { epoch: Epoch(2), ..sample() };
    assert_eq!(Mark::decode(&mark(3).encode(&header), MarkSlot::B, &other), None);
    let next = SegmentRef::from_numbers(10, 11).unwrap();
    let seal = Seal { last: Some(lsn(50)), next, time_us: 6 };
    assert_eq!(Seal::decode(&seal.encode(&header), &other), None);
}

#[test]
fn seal_is_read_back_and_flipped_bits_are_detected() {
    let header = sample();
    let next = SegmentRef::from_numbers(10, 11).unwrap();
    for last in [Some(lsn(50)), None] {
        let seal = Seal { last, next, time_us: 6 };
        assert_eq!(Seal::decode(&seal.encode(&header), &header), Some(seal));
    }
    let good = Seal { last: Some(lsn(50)), next, time_us: 6 }.encode(&header);
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Seal::decode(&bytes, &header), None, "bit {bit}");
    }
    assert_eq!(Seal::decode(&[0; 48], &header), None);
    assert_eq!(Seal::decode(&good[..47], &header), None);
}

#[test]
fn seal_with_impossible_numbers_is_invalid() {
    let header = sample();
    let next = SegmentRef::from_numbers(10, 11).unwrap();
    let good = Seal { last: None, next, time_us: 6 }.encode(&header);
    for (field, number) in [(seal::MAGIC, 0), (seal::EPOCH, 1), (seal::NEXT_ID, 0)] {
        let mut bytes = good;
        put(&mut bytes, field, number);
        let at = Seal::offset(header.geometry);
        let crc = header.salt().checksum(at, behind(&bytes, seal::CRC));
        put(&mut bytes, seal::CRC, u64::from(crc));
        assert_eq!(Seal::decode(&bytes, &header), None, "{field:?}");
    }
}
