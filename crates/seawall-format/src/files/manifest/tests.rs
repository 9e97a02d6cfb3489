//! Manifest fields, each changed by itself under a valid checksum.

use super::*;
use crate::fields::Field;
use crate::fields::behind;
#[cfg(feature = "lz4")]
use crate::files::segment::COMPRESSED;
use crate::types::CodecId;

/// A manifest for slot A in which each field has a different number.
fn sample() -> Manifest {
    let lsn = |number| Lsn::new(number).unwrap();
    Manifest {
        geometry: Geometry { block: 1024, reach: 2048, batch_max: 4096 },
        log: LogId(0x0102_0304_0506_0708),
        authenticator: None,
        sequence: 42,
        oldest: SegmentRef::from_numbers(5, 55).unwrap(),
        oldest_base: lsn(500),
        checkpoints: [Some(lsn(700)), Some(lsn(600))],
        closed: Some(Closed {
            last: Some(lsn(900)),
            segment: SegmentRef::from_numbers(9, 99).unwrap(),
        }),
        is_closed: false,
        segment_max: 1 << 26,
        level: Level::Confirmed,
        layout: Layout::Binary,
        record_type: RecordType { codec: CodecId::Json, name: "Event".to_owned(), schema: 3 },
        parity: Scheme::new(8, 3),
        reuses: false,
        names_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::None,
        compression: Compression::None,
        time_us: 79,
    }
}

/// Decodes a file that contains only this manifest, in its slot.
fn in_file(manifest: &Manifest) -> [Result<Manifest, Refused>; 2] {
    let at = usize::try_from(manifest.offset().0).unwrap();
    let mut file = vec![0; at];
    file.extend(manifest.encode());
    Manifest::decode_file(&file)
}

/// Decodes slot A after setting these fields and recomputing its checksum.
fn forged(fields: &[(Field, u64)]) -> Result<Manifest, Refused> {
    let mut bytes = sample().encode();
    for (field, number) in fields {
        put(&mut bytes, *field, *number);
    }
    let salt = Salt::of_log(LogId(get(&bytes, LOG_ID)));
    let crc = salt.checksum(Offset(0), behind(&bytes, CRC));
    put(&mut bytes, CRC, u64::from(crc));
    Manifest::decode(&bytes, Offset(0))
}

#[test]
fn manifest_is_read_back_from_either_slot() {
    let invalid = || Err(Refused::Invalid);
    let even = sample();
    assert_eq!(in_file(&even), [Ok(even.clone()), invalid()]);
    let odd = Manifest { sequence: 43, ..sample() };
    assert_eq!(in_file(&odd), [invalid(), Ok(odd.clone())]);
    let new = Manifest { checkpoints: [None; 2], closed: None, parity: None, ..sample() };
    assert_eq!(in_file(&new), [Ok(new.clone()), invalid()]);
    for parity in [None, sample().parity] {
        let reusing =
            Manifest { reuses: true, names_ahead: true, in_flight_max: 4, parity, ..sample() };
        assert_eq!(in_file(&reusing), [Ok(reusing.clone()), invalid()]);
    }
    let never_written = Closed { last: None, ..sample().closed.unwrap() };
    let closed = Manifest { closed: Some(never_written), ..sample() };
    assert_eq!(in_file(&closed), [Ok(closed.clone()), invalid()]);
}

#[cfg(feature = "lz4")]
const NOT_BUILT_IN: Result<Manifest, Refused> = Err(Refused::NotBuiltIn { compression: "zstd" });

#[cfg(feature = "lz4")]
#[test]
fn manifest_says_how_batches_are_compressed() {
    for compression in [Compression::None, Compression::Lz4] {
        let manifest = Manifest { compression_max: Compression::Lz4, compression, ..sample() };
        assert_eq!(in_file(&manifest)[0], Ok(manifest.clone()));
    }
    let other = forged(&[(FEATURES, 1 | COMPRESSED), (COMPRESSION, 3)]);
    assert_eq!(other, Err(Refused::Unknown { what: "compression 3".to_owned() }));
    let zstd = Manifest { compression_max: Compression::Zstd, ..sample() };
    let zstd = Manifest { compression: Compression::Zstd, ..zstd };
    let expected = if cfg!(feature = "zstd") { Ok(zstd.clone()) } else { NOT_BUILT_IN };
    assert_eq!(in_file(&zstd)[0], expected);
    let unannounced = forged(&[(FEATURES, 1 | COMPRESSED), (COMPRESSION, 2)]);
    assert!(matches!(unannounced, Err(Refused::Unknown { .. })), "{unannounced:?}");
    let text = forged(&[(FEATURES, 1 | COMPRESSED), (LAYOUT, 1)]);
    assert_eq!(text, Err(Refused::binary_only()));
}

#[cfg(feature = "encryption")]
#[test]
fn slot_of_an_encrypted_log_is_valid_only_with_an_authenticator() {
    use crate::encryption::Padding;
    use crate::ids::{KeyNumber, SegmentId};

    let (key, other) = (LogKey::new(&[1; 32]), LogKey::new(&[2; 32]));
    let (padding, from) = (Padding::Padme, SegmentId::new(5));
    let claims = Claims { padding, from, keys: 6, ..Claims::of(KeyNumber::FIRST) };
    let encrypted = sample().signed(claims, &key);
    let stored = encrypted.stored();
    assert_eq!(Manifest::decode(&stored, Offset(0)), Ok(encrypted.clone()));
    assert_eq!(encrypted.authenticator.map(|proof| proof.claims), Some(claims));
    assert_eq!((encrypted.check(&key), encrypted.check(&other)), (Ok(()), Err(KeyError::Forged)));
    assert_eq!(Manifest::decode(&encrypted.encode(), Offset(0)), Err(Refused::Invalid));
    assert_eq!(sample().stored()[..MANIFEST_SLOT_SIZE], sample().encode());
    let later = Manifest { time_us: 1, ..encrypted.clone() };
    assert_eq!(later.check(&key), Err(KeyError::Forged));
    let text = Manifest { layout: Layout::Text, ..encrypted };
    assert_eq!(Manifest::decode(&text.stored(), Offset(0)), Err(Refused::binary_only()));
}

#[test]
fn mark_of_a_clean_close_counts_for_its_slot_only() {
    let closed = Manifest { is_closed: true, ..sample() };
    let stored = closed.stored();
    assert_eq!(sample().stored()[closing::CLOSING_AT..], [0; 8]);
    assert_eq!(Manifest::decode(&stored, Offset(0)), Ok(closed.clone()));
    assert_eq!((closed.end(), sample().end()), (closed.closed, None));
    // An older program writes the slot and leaves what follows it. If the slot was damaged before,
    // it may use the same sequence number again.
    for later in [Manifest { sequence: 44, ..sample() }, Manifest { time_us: 78, ..sample() }] {
        let mut bytes = stored.to_vec();
        bytes[..MANIFEST_SLOT_SIZE].copy_from_slice(&later.encode());
        assert_eq!(Manifest::decode(&bytes, Offset(0)), Ok(later));
    }
    for at in closing::CLOSING_AT..stored.len() {
        let mut bytes = stored.to_vec();
        bytes[at] ^= 1;
        assert_eq!(Manifest::decode(&bytes, Offset(0)), Ok(sample()), "byte {at}");
    }
    // That of slot A does not count in slot B.
    let odd = Manifest { sequence: 43, ..sample() };
    let mut bytes = odd.encode().to_vec();
    bytes.resize(closing::CLOSING_AT, 0);
    bytes.extend(closing::encode(&odd.encode(), (odd.log, Offset(0))));
    assert_eq!(Manifest::decode(&bytes, odd.offset()), Ok(odd));
}

#[test]
fn slot_b_is_found_for_any_block_size_without_slot_a() {
    for shift in 9..=16 {
        let (block, reach) = (1 << shift, 1 << 16);
        let geometry = Geometry { block, reach, ..sample().geometry };
        let manifest = Manifest { sequence: 43, geometry, ..sample() };
        assert_eq!(in_file(&manifest)[1], Ok(manifest.clone()), "blocks of {block}");
    }
}

#[test]
fn slot_at_the_offset_of_the_other_is_invalid() {
    let even = sample().encode();
    assert_eq!(Manifest::decode(&even, Offset(1024)), Err(Refused::Invalid));
    assert_eq!(forged(&[(SEQUENCE, 43)]), Err(Refused::Invalid), "an odd number in slot A");
    assert_eq!(forged(&[(SEQUENCE, 44)]).map(|found| found.sequence), Ok(44));
}

#[test]
fn every_flipped_bit_of_a_slot_is_detected() {
    let good = sample().encode();
    for bit in (0..good.len() * 8).step_by(crate::fields::sizes::EVERY) {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Manifest::decode(&bytes, Offset(0)), Err(Refused::Invalid), "bit {bit}");
    }
    assert_eq!(Manifest::decode(&good[..207], Offset(0)), Err(Refused::Invalid));
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    for bit in (5..8).chain(10..32) {
        let what = format!("feature bits {:#x}", 1_u64 << bit);
        assert_eq!(forged(&[(FEATURES, 1 | 1 << bit)]), Err(Refused::Unknown { what }));
    }
    for bit in 0..8 {
        let what = "something in bytes 135 to 136, kept for later".to_owned();
        assert_eq!(forged(&[(COMPRESSION, 1 << bit)]), Err(Refused::Unknown { what }));
    }
    for (field, number, name) in
        [(CODEC, 4, "codec 4"), (LAYOUT, 2, "layout 2"), (LEVEL, 3, "level 3")]
    {
        let what = name.to_owned();
        assert_eq!(forged(&[(field, number)]), Err(Refused::Unknown { what }));
    }
}

#[test]
fn slot_of_another_version_is_refused_by_name_at_either_offset() {
    let of_next_draft = |manifest: &Manifest| {
        let mut bytes = manifest.encode();
        put(&mut bytes, DRAFT, u64::from(crate::refused::DRAFT) + 1);
        let crc = crate::checksum::crc32c(&bytes[..12]);
        put(&mut bytes, PREAMBLE_CRC, u64::from(crc));
        bytes
    };
    let refused = Err(Refused::OtherVersion {
        version: crate::refused::VERSION,
        draft: crate::refused::DRAFT + 1,
    });
    let even = of_next_draft(&sample());
    assert_eq!(Manifest::decode_file(&even)[0], refused);
    let odd = of_next_draft(&Manifest { sequence: 43, ..sample() });
    let file = [vec![0; 1024], odd.to_vec()].concat();
    assert_eq!(Manifest::decode_file(&file)[1], refused);
}

#[test]
fn impossible_numbers_are_refused_despite_a_valid_checksum() {
    for fields in [
        &[(BLOCK, 1000)][..],
        &[(REACH, 0)],
        &[(BATCH_MAX, 0)],
        &[(LOG_ID, 0)],
        &[(SEQUENCE, 1 << 63)],
        &[(OLDEST_ID, 0)],
        &[(FEATURES, 0)],
        &[(FEATURES, 1), (DATA_BLOCKS, 1)],
        &[(PARITY_BLOCKS, 9)],
        &[(OLDEST_BASE, 0)],
        &[(SEGMENT_MAX, (4 << 30) + 1)],
        &[(NAME_LENGTH, 65)],
        &[(NAME_LENGTH, 4)],
    ] {
        assert_eq!(forged(fields), Err(Refused::Invalid), "{fields:?}");
    }
    for fields in [&[(SEQUENCE, (1 << 63) - 2)][..], &[(SEGMENT_MAX, 4 << 30)], &[(CODEC, 1)]] {
        assert!(forged(fields).is_ok(), "{fields:?}");
    }
}

#[cfg(feature = "json")]
#[test]
fn readable_log_requires_the_json_codec() {
    let text = Manifest { layout: Layout::Text, ..sample() };
    assert_eq!(in_file(&text)[0], Ok(text));
    assert_eq!(forged(&[(LAYOUT, 1), (CODEC, 1)]), Err(Refused::Invalid));
    assert_eq!(forged(&[(LAYOUT, 1), (FEATURES, 3)]), Err(Refused::Invalid), "files grow there");
}

#[test]
fn newest_checkpoint_comes_first() {
    assert_eq!(sample().newest_checkpoint(), Lsn::new(700));
    assert_eq!(Manifest { checkpoints: [None; 2], ..sample() }.newest_checkpoint(), None);
}

#[test]
fn changing_the_schema_changes_nothing_else() {
    let mut manifest = sample();
    let other = manifest.with_schema(4);
    manifest.record_type.schema = 4;
    assert_eq!(other, manifest);
}
