//! Tampering: someone without the key changes an encrypted log and makes the checksums valid. The
//! log is never read as if it were intact, and no call changes it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "a test reports failure by panicking, and the log made the file names"
)]

use crate::common;

use common::{KEY, encrypted, lsn, open, payload, read, tiny};
use seawall::encryption::{Key, KeyError};
use seawall::verify::Verdict;
use seawall::{Error, Maintenance, Options};
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE as BATCH, Life, Spec, finish};
use seawall_format::{
    AUTHENTICATOR_AT, Authenticator, Claims, KeyNumber, Manifest, Mark, MarkSlot, Offset, Seal,
    SegmentHeader,
};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::sync::Arc;

const FIRST: &str = "000000000001.seg";

/// A log of two segments and 30 records, confirmed, with parity.
fn written(life: u64) -> MemStorage {
    let device = MemStorage::new();
    let options = tiny(life).parity(Some(seawall::parity::Parity::DEFAULT));
    let log = open(&options, &device).unwrap();
    for number in 1..=30 {
        log.append(&payload(number, life, 100)).unwrap();
    }
    log.confirm().unwrap();
    log.close().unwrap();
    device
}

fn header(device: &MemStorage, name: &str) -> SegmentHeader {
    SegmentHeader::decode(&device.bytes(name).unwrap()).unwrap()
}

fn contents(device: &MemStorage) -> BTreeMap<String, Vec<u8>> {
    device.names().into_iter().map(|name| (name.clone(), device.bytes(&name).unwrap())).collect()
}

fn key_error<T>(what: &str, outcome: seawall::Result<T>) -> KeyError {
    match outcome {
        Err(Error::Key { source, .. }) => source,
        Err(other) => panic!("{what}: {other:#}"),
        Ok(_) => panic!("{what}: it worked"),
    }
}

/// Checks that every call with the key refuses this log, and leaves it unchanged.
#[track_caller]
fn is_refused(what: &str, device: &MemStorage) {
    let before = contents(device);
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let mut forged = vec![
        key_error(what, open(&tiny(9), device)),
        key_error(what, read(device, false).map(|_| ())),
        key_error(what, common::maintenance(&storage).verify()),
        key_error(what, common::maintenance(&storage).salvage_to(Arc::new(MemStorage::new()))),
        key_error(what, common::maintenance(&storage).truncate_damaged_tail()),
    ];
    forged.dedup();
    assert_eq!(forged, [KeyError::Forged], "{what}");
    let mut after = contents(device);
    after.retain(|name, _| name != "lock");
    let mut before = before;
    before.retain(|name, _| name != "lock");
    assert!(before == after, "{what}: something was changed");
}

/// Recomputes the checksums of the batch at `at` and of its first chunk.
fn with_checksums(file: &mut [u8], header: &SegmentHeader, at: usize) {
    let number = |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (body, chunk) = (at + BATCH, at + BATCH + 24);
    let body_end = body + usize::try_from(number(file, at + 4) & 0x7FF_FFFF).unwrap();
    let chunk_end = chunk + 40 + usize::try_from(number(file, chunk + 4)).unwrap();
    let parts =
        [(chunk, chunk + 4..chunk_end), (at + 24, body..body_end), (at, at + 4..at + BATCH)];
    for (place, covered) in parts {
        // The checksum of a body is bound to the offset of the body.
        let bound_to = if place == at + 24 { body } else { place };
        let bound_to = Offset(u64::try_from(bound_to).unwrap());
        let crc = header.salt().checksum(bound_to, &file[covered]);
        file[place..place + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The offsets of the batches of a file.
fn batches(device: &MemStorage, name: &str) -> Vec<usize> {
    let (file, header) = (device.bytes(name).unwrap(), header(device, name));
    let (life, mut at) = (Life::of(&header), usize::try_from(header.data_start()).unwrap());
    let mut found = vec![];
    loop {
        let place = Offset(u64::try_from(at).unwrap());
        let Some(batch) = file.get(at..).and_then(|file| BatchHeader::decode(file, place, &life))
        else {
            return found;
        };
        found.push(at);
        at += usize::try_from(batch.size()).unwrap();
    }
}

#[test]
fn log_that_nobody_changed_is_read() {
    encrypted(|| {
        let device = written(1);
        assert_eq!(read(&device, false).unwrap().count(), 30);
        assert!(batches(&device, FIRST).len() >= 3, "{:?}", batches(&device, FIRST));
    });
}

#[test]
fn changed_ciphertext_code_or_numbers_are_refused() {
    encrypted(|| {
        let device = written(1);
        let (header, batches) = (header(&device, FIRST), batches(&device, FIRST));
        for at in batches {
            // Ciphertext, tag, nonce, code, and the time.
            for place in [BATCH + 24 + 40, BATCH + 24 + 170, BATCH + 24 + 24, BATCH + 8, 40] {
                let changed = device.kill();
                changed.edit(FIRST, |file| {
                    file[at + place] ^= 1;
                    with_checksums(file, &header, at);
                });
                // Each batch stores the checksums of the one before, which reveals a change without
                // the key. Only the key reveals a change of the last batch.
                let storage: Arc<dyn Storage> = Arc::new(changed.clone());
                let without = Maintenance::on(&storage).verify().unwrap();
                if without.verdict == Verdict::Clean {
                    is_refused(&format!("batch at {at}, byte {place}"), &changed);
                } else {
                    assert!(read(&changed, false).is_err(), "batch at {at}, byte {place}");
                }
            }
        }
    });
}

/// Writes a structure with valid checksums and an authenticator of another key to a file.
fn put(device: &MemStorage, name: &str, (at, structure): (Offset, &[u8])) {
    let header = header(device, FIRST);
    let salt =
        if name == "manifest" { seawall_format::Salt::of_log(header.log) } else { header.salt() };
    device.edit(name, |file| {
        let start = usize::try_from(at.0).unwrap();
        let old = Authenticator::decode(&file[start..], structure.len(), at, &salt);
        let claims = old.map_or(Claims::of(KeyNumber::FIRST), |old| old.claims);
        let proof = Authenticator::unsigned(claims).encode(structure, at, &salt);
        file[start..start + structure.len()].copy_from_slice(structure);
        file[start + AUTHENTICATOR_AT..][..proof.len()].copy_from_slice(&proof);
    });
}

/// The file and offset of the batch that begins with this record, in the newest segment that has
/// one.
fn place_of(device: &MemStorage, number: u64) -> (String, usize) {
    let files = device.names().into_iter().rev().filter(|name| name.ends_with(".seg"));
    let mut places = files.flat_map(|name| {
        let all = batches(device, &name).into_iter();
        all.map(|at| (name.clone(), at)).collect::<Vec<_>>()
    });
    let first = |(name, at): &(String, usize)| field(&device.bytes(name).unwrap(), at + 8);
    places.find(|place| first(place) == number).expect("a batch begins with it")
}

fn field(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
}

/// The body of the batch that begins with this record.
fn body_of(device: &MemStorage, number: u64) -> Vec<u8> {
    let ((name, at), length) = (place_of(device, number), BATCH + 24 + 40);
    let file = device.bytes(&name).unwrap();
    let stored = usize::try_from(field(&file, at + BATCH + 24 + 4) & 0xFFFF_FFFF).unwrap();
    file[at + BATCH..at + length + stored].to_vec()
}

/// Replaces the body of the batch that begins with this record, but not its header. Recomputes its
/// checksums and those of the batches after it.
fn put_body(device: &MemStorage, number: u64, body: &[u8]) {
    let (name, at) = place_of(device, number);
    assert_eq!(body_of(device, number).len(), body.len(), "all records have one length");
    let (header, places) = (header(device, &name), batches(device, &name));
    device.edit(&name, |file| {
        file[at + BATCH..][..body.len()].copy_from_slice(body);
        // The chunk says which record is its first.
        file.copy_within(at + 8..at + 16, at + BATCH + 24 + 16);
        let mut chain = None;
        for at in places.into_iter().filter(|place| *place >= at) {
            if let Some(chain) = chain {
                file[at + 32..at + 40].copy_from_slice(&u64::to_le_bytes(chain));
            }
            with_checksums(file, &header, at);
            let number = |at: usize| field(file, at) & 0xFFFF_FFFF;
            chain = Some(number(at) | number(at + 24) << 32);
        }
    });
}

/// The records of the newest segment.
fn in_newest(device: &MemStorage) -> Vec<u64> {
    let (newest, _) = place_of(device, 30);
    (1..=30).filter(|number| place_of(device, *number).0 == newest).collect()
}

#[test]
fn batches_moved_within_a_log_are_refused() {
    encrypted(|| {
        let device = written(1);
        let newest = in_newest(&device);
        assert!(newest.len() > 1 && newest.len() < 20, "{newest:?}");
        for target in newest {
            // Some sources are in the same segment.
            for source in (1..=30).filter(|source| *source != target) {
                let changed = device.kill();
                put_body(&changed, target, &body_of(&device, source));
                is_refused(&format!("batch {source} in the place of {target}"), &changed);
            }
        }
    });
}

#[test]
fn batches_of_an_older_copy_or_another_log_are_refused() {
    encrypted(|| {
        let older = written(1);
        let device = older.kill();
        let log = open(&tiny(2), &device).unwrap();
        log.truncate_after(Some(lsn(10))).unwrap();
        for number in 11..=30 {
            log.append(&payload(number, 2, 100)).unwrap();
        }
        log.confirm().unwrap();
        log.close().unwrap();
        // The key and the record numbers are the same.
        let other = written(77);
        for number in in_newest(&device) {
            for (what, source) in [("an older copy", &older), ("another log", &other)] {
                let changed = device.kill();
                put_body(&changed, number, &body_of(source, number));
                is_refused(&format!("batch {number} of {what}"), &changed);
            }
        }
    });
}

/// A batch copied with its header is out of sequence: that is damage, and no reader takes it for
/// another record.
#[test]
fn batches_copied_with_their_headers_hide_no_record() {
    encrypted(|| {
        let device = written(1);
        for name in device.names().iter().filter(|name| name.ends_with(".parity")) {
            // Parity would restore the original bytes.
            device.remove_raw(name);
        }
        for (source, target) in [(28, 30), (30, 28), (1, 30), (2, 29), (29, 3), (1, 2)] {
            let changed = device.kill();
            let ((from, start), (to, at)) = (place_of(&device, source), place_of(&device, target));
            let whole = device.bytes(&from).unwrap()[start..].to_vec();
            let header = header(&device, &to);
            changed.edit(&to, |file| {
                let length = BATCH + body_of(&device, source).len();
                file[at..at + length].copy_from_slice(&whole[..length]);
                file[at + 28..at + 32].copy_from_slice(&header.epoch.0.to_le_bytes()[..4]);
                with_checksums(file, &header, at);
            });
            let what = format!("batch {source} in the place of {target}");
            let before = contents(&changed);
            let is_named = |error| matches!(error, Error::Key { .. } | Error::Damaged { .. });
            assert!(open(&tiny(9), &changed).is_err_and(is_named), "{what}");
            match read(&changed, false) {
                Ok(found) => {
                    assert_eq!(found.errors, 1, "{what}");
                    let is_right =
                        |(number, bytes): (&u64, &Vec<u8>)| *bytes == payload(*number, 1, 100);
                    assert!(found.records.iter().all(is_right), "{what}");
                }
                Err(error) => assert!(is_named(error), "{what}"),
            }
            let storage: Arc<dyn Storage> = Arc::new(changed.clone());
            match common::maintenance(&storage).verify() {
                Ok(found) => assert_eq!(found.verdict, Verdict::Lost, "{what}"),
                Err(error) => assert!(is_named(error), "{what}"),
            }
            let is_kept =
                |name: &String| name == "lock" || before.get(name) == changed.bytes(name).as_ref();
            assert!(changed.names().iter().all(is_kept), "{what}: something was changed");
        }
    });
}

#[test]
fn headers_marks_seals_and_manifests_of_others_are_refused() {
    encrypted(|| {
        let device = written(1);
        let first = header(&device, FIRST);
        let changed = device.kill();
        put(&changed, FIRST, (Offset(0), &SegmentHeader { time_us: 7, ..first.clone() }.encode()));
        is_refused("header", &changed);

        let changed = device.kill();
        let seal = Seal::decode(&device.bytes(FIRST).unwrap()[3 * 512..], &first).unwrap();
        let seal = Seal { last: seal.last.and_then(seawall::Lsn::previous), ..seal };
        put(&changed, FIRST, (Seal::offset(first.geometry), &seal.encode(&first)));
        let outcome = open(&tiny(9), &changed).map(|_| ());
        assert!(outcome.is_err() || read(&changed, false).unwrap().count() == 30, "seal");

        let newest = device.names().into_iter().rfind(|name| name.ends_with(".seg")).unwrap();
        let last = header(&device, &newest);
        let changed = device.kill();
        let mark = Mark { confirmed: Some(lsn(1)), sequence: 2, time_us: 7 };
        let at = MarkSlot::of(2).offset(last.geometry);
        let structure = mark.encode(&last);
        changed.edit(&newest, |file| {
            let start = usize::try_from(at.0).unwrap();
            let proof = Authenticator::unsigned(Claims::of(KeyNumber::FIRST));
            let proof = proof.encode(&structure, at, &last.salt());
            file[start..start + structure.len()].copy_from_slice(&structure);
            file[start + AUTHENTICATOR_AT..][..proof.len()].copy_from_slice(&proof);
        });
        assert_eq!(key_error("mark", open(&tiny(9), &changed)), KeyError::Forged);

        let changed = device.kill();
        for slot in Manifest::decode_file(&device.bytes("manifest").unwrap()).into_iter().flatten()
        {
            let slot = Manifest { checkpoints: [Some(lsn(30)), None], ..slot };
            put(&changed, "manifest", (slot.offset(), &slot.encode()));
        }
        is_refused("manifest", &changed);
    });
}

#[test]
fn encryption_cannot_be_stripped() {
    encrypted(|| {
        let device = written(1);
        // An unencrypted segment of this log.
        let changed = device.kill();
        let plain = SegmentHeader { authenticator: None, ..header(&device, FIRST) };
        changed.edit(FIRST, |file| file[..192].copy_from_slice(&plain.encode()));
        is_refused("a plain segment", &changed);
        let storage: Arc<dyn Storage> = Arc::new(changed);
        let without = Maintenance::on(&storage).verify();
        assert_eq!(key_error("a plain segment", without), KeyError::Forged, "without the key, too");
        // A manifest that says that nothing is encrypted.
        let changed = device.kill();
        for slot in Manifest::decode_file(&device.bytes("manifest").unwrap()).into_iter().flatten()
        {
            let slot = Manifest { authenticator: None, ..slot };
            changed.edit("manifest", |file| {
                let start = usize::try_from(slot.offset().0).unwrap();
                file[start..start + 208].copy_from_slice(&slot.encode());
            });
        }
        let opened = open(&tiny(9), &changed);
        assert_eq!(key_error("a plain manifest", opened), KeyError::NotEncrypted);
        assert_eq!(key_error("a plain manifest", read(&changed, false)), KeyError::NotEncrypted);
    });
}

#[test]
fn older_keys_and_those_of_others_are_refused() {
    encrypted(|| {
        let device = written(1);
        let older = device.bytes("keys").unwrap();
        let log = open(&tiny(2), &device).unwrap();
        log.change_key(&Key::new(&[9; 32])).unwrap();
        log.close().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        let with_new = || Options::new().key(Key::new(&[9; 32]));
        with_new().open_any_reader_in(storage.clone()).unwrap();
        // Someone who knows the old key puts back the old file.
        device.edit("keys", |file| *file = older);
        assert_eq!(key_error("older keys", read(&device, false)), KeyError::Forged);
        assert_eq!(key_error("older keys", open(&tiny(3), &device)), KeyError::Forged);
        let opened = with_new().open_any_reader_in(storage);
        assert!(matches!(key_error("older keys", opened), KeyError::Forged | KeyError::WrongKey));
        // Keys of another log, wrapped with the same key.
        let (device, other) = (written(1), written(77));
        device.edit("keys", |file| *file = other.bytes("keys").unwrap());
        let refused = open(&tiny(3), &device).map(|_| ());
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
    });
}

#[test]
fn nothing_plain_is_in_any_file() {
    encrypted(|| {
        let device = written(1);
        // A torn tail goes to the quarantine, and a repair keeps a journal.
        let newest = device.names().into_iter().rfind(|name| name.ends_with(".seg")).unwrap();
        let at = *batches(&device, &newest).last().unwrap();
        device.edit(&newest, |file| file[at + 100] ^= 1);
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        common::maintenance(&storage).repair().unwrap();
        common::maintenance(&storage).truncate_damaged_tail().unwrap();
        let log = open(&tiny(4), &device).unwrap();
        log.append(&payload(31, 1, 100)).unwrap();
        log.renew_log_key().unwrap();
        log.append(&payload(32, 1, 100)).unwrap();
        log.close().unwrap();
        let all = contents(&device);
        for part in [".parity", "-mend.done"] {
            assert!(all.keys().any(|name| name.ends_with(part)), "{part}: {:?}", all.keys());
        }
        for (name, bytes) in all {
            for pattern in [&b"of life 1"[..], &KEY] {
                let has = bytes.windows(pattern.len()).any(|window| window == pattern);
                assert!(!has, "{name} has {pattern:?}");
            }
        }
    });
}

/// Adds a batch to the end of a file that counts as many records as a number can, with matching
/// checksums.
fn add_a_batch_of_very_many(device: &MemStorage, name: &str, is_void: bool) {
    let (header, places) = (header(device, name), batches(device, name));
    let (file, life) = (device.bytes(name).unwrap(), Life::of(&header));
    let last_at = *places.last().unwrap();
    let place = Offset(u64::try_from(last_at).unwrap());
    let last = BatchHeader::decode(&file[last_at..], place, &life).unwrap();
    let at = place.plus(last.size());
    let (first, count) = (last.last().next(), u32::MAX);
    let mut batch = vec![0; BATCH];
    // The prefix, then a chunk of 32 bytes.
    batch.extend([24].into_iter().chain([0; 23]));
    if !is_void {
        let mut chunk = vec![0; 40 + 32];
        chunk[4] = 32;
        chunk[12..16].copy_from_slice(&count.to_le_bytes());
        chunk[16..24].copy_from_slice(&first.get().to_le_bytes());
        let crc = header.salt().checksum(at.plus(72), &chunk[4..]);
        chunk[..4].copy_from_slice(&crc.to_le_bytes());
        batch.extend(chunk);
    }
    let kind = if is_void { BodyKind::EncryptedVoid } else { BodyKind::Encrypted };
    let (confirmed, chain) = (Some(last.last()), last.chain_value());
    finish(&mut batch, Spec { first, count, kind, confirmed, chain, time_us: 1 }, at, &life);
    let at = usize::try_from(at.0).unwrap();
    device.edit(name, |file| file[at..at + batch.len()].copy_from_slice(&batch));
}

#[test]
fn count_of_a_forged_batch_takes_neither_memory_nor_time() {
    encrypted(|| {
        for is_void in [false, true] {
            let device = MemStorage::new();
            let parity = Some("4+2".parse().unwrap());
            let options = tiny(1).segment_size(20 * 512).parity(parity);
            let log = open(&options, &device).unwrap();
            for number in 1..=2 {
                log.append(&payload(number, 1, 50)).unwrap();
            }
            log.close().unwrap();
            add_a_batch_of_very_many(&device, FIRST, is_void);
            // Damage that parity repairs. Both versions of the log are compared record by record.
            let record = batches(&device, FIRST)[0] + BATCH + 24 + 40;
            device.edit(FIRST, |file| file[record] ^= 1);
            let storage: Arc<dyn Storage> = Arc::new(device.clone());
            let verified = Maintenance::on(&storage).verify().unwrap();
            let counted = if is_void { 2 } else { 2 + u64::from(u32::MAX) };
            assert_eq!((verified.records, verified.mended.len()), (counted, 1), "void: {is_void}");
        }
    });
}
