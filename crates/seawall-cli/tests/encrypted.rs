//! Encrypted logs: the second reader reads them only with their key, and `seawall` shows no record
//! without it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::second_reader::{READER, folder, python};
use crate::tool::{Folder, Ran};
use seawall_format::batch::{BodyKind, HEADER_SIZE as BATCH, Life, Spec, finish};
use seawall_format::encrypted::Encryptor;
use seawall_format::encryption::{KeyEncryptionKey, LogKey, MacKey, Padding, SegmentKeys};
use seawall_format::keys::KeyRing;
use seawall_format::{
    AUTHENTICATOR_AT, Authenticator, Claims, Closed, CodecId, Compression, EncryptedSizes, Epoch,
    Geometry, KeyNumber, Layout, Level, LogId, Lsn, Manifest, Mark, Offset, RecordType, Salt,
    SegmentHeader, SegmentId, frame,
};
use std::io::{self, Write};

const GEOMETRY: Geometry = Geometry { block: 512, reach: 512, batch_max: 4096 };
const LOG: LogId = LogId(0x5EA_3A11);
const SEGMENT: &str = "log/000000000001.seg";
const USER: [u8; 32] = [0xA5; 32];
/// Where batches begin.
const START: usize = 5 * 512;

fn header() -> SegmentHeader {
    SegmentHeader {
        geometry: GEOMETRY,
        log: LOG,
        authenticator: Some(Authenticator::unsigned(Claims::of(KeyNumber::FIRST))),
        id: SegmentId::FIRST,
        epoch: Epoch(0x0123_4567_89AB_CDEF),
        base: Lsn::FIRST,
        carried: None,
        size: 8192,
        pred: None,
        pred_chain: 0,
        layout: Layout::Binary,
        is_reused: false,
        named_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::Lz4,
        record_type: RecordType::of(CodecId::Raw),
        time_us: 1,
    }
}

fn manifest(sequence: u64, last: Lsn) -> Manifest {
    let (header, last) = (header(), Some(last));
    Manifest {
        geometry: GEOMETRY,
        log: LOG,
        authenticator: Some(Authenticator::unsigned(Claims {
            from: Some(SegmentId::FIRST),
            keys: 2,
            ..Claims::of(KeyNumber::FIRST)
        })),
        sequence,
        oldest: header.reference(),
        oldest_base: Lsn::FIRST,
        checkpoints: [None; 2],
        closed: Some(Closed { last, segment: header.reference() }),
        is_closed: false,
        segment_max: 1 << 20,
        level: Level::Synced,
        layout: Layout::Binary,
        record_type: header.record_type,
        parity: None,
        reuses: false,
        names_ahead: false,
        in_flight_max: 1,
        compression_max: Compression::Lz4,
        compression: Compression::Lz4,
        time_us: 1,
    }
}

fn log_key() -> LogKey {
    LogKey::new(&[1; 32])
}

fn segment_keys() -> SegmentKeys {
    SegmentKeys::derive(&log_key(), LOG, header().reference())
}

fn put(file: &mut [u8], at: Offset, bytes: &[u8]) {
    let at = usize::try_from(at.0).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a structure and its authenticator into a file.
fn put_proved(
    file: &mut [u8],
    (at, bytes): (Offset, &[u8]),
    (claims, salt, key): (Claims, Salt, &MacKey),
) {
    put(file, at, bytes);
    let proof = Authenticator::new(bytes, at, (claims, key)).encode(bytes, at, &salt);
    put(file, at.plus(u64::try_from(AUTHENTICATOR_AT).unwrap()), &proof);
}

/// Writes another header into a file, with an authenticator of another key.
fn put_forged_header(file: &mut [u8]) {
    let other = SegmentHeader { time_us: 2, ..header() };
    let keys = SegmentKeys::derive(&LogKey::new(&[2; 32]), LOG, other.reference());
    let proved = (Claims::of(KeyNumber::FIRST), other.salt(), keys.head());
    put_proved(file, (Offset(0), &other.encode()), proved);
}

/// Returns a segment with these batches, and its last LSN.
fn segment(batches: &[&[&str]]) -> (Vec<u8>, Lsn) {
    let (header, keys) = (header(), segment_keys());
    let mut file = vec![0; usize::try_from(header.size).unwrap()];
    let proved = || (Claims::of(KeyNumber::FIRST), header.salt(), keys.head());
    put_proved(&mut file, (Offset(0), &header.encode()), proved());
    let mark = Mark { confirmed: Some(Lsn::FIRST), sequence: 1, time_us: 1 };
    let at = mark.slot().offset(GEOMETRY);
    put_proved(&mut file, (at, &mark.encode(&header)), proved());
    let (life, mut nonce) = (Life::of(&header), 0);
    let draw = move || {
        nonce += 1;
        Ok([nonce; 12])
    };
    let sizes = EncryptedSizes { chunk_max: 300, padding: Padding::Padme };
    let encryptor = Encryptor::new(segment_keys(), sizes, draw).with_compression(Compression::Lz4);
    let (mut at, mut chain, mut first) = (Offset(header.data_start()), header.chain(), Lsn::FIRST);
    for records in batches {
        let (mut plain, mut stored) = (vec![0; BATCH], vec![]);
        records.iter().for_each(|one| frame::push_unbound(&mut plain, one.as_bytes(), false));
        // An empty batch gives up two records.
        let kind = if records.is_empty() { BodyKind::Void } else { BodyKind::Frames };
        let count = if records.is_empty() { 2 } else { u32::try_from(records.len()).unwrap() };
        let spec = Spec { first, count, kind, confirmed: first.previous(), chain, time_us: 7 };
        let spec = encryptor.encode((&plain, spec), (at, &life), &mut stored).unwrap();
        chain = finish(&mut stored, spec, at, &life);
        put(&mut file, at, &stored);
        at = at.plus(u64::try_from(stored.len()).unwrap());
        first = first.plus(count.into());
    }
    (file, first.previous().unwrap())
}

/// Writes a closed log of six records, two of which were given up.
fn write(folder: &Folder) {
    let long = "a record that is long and long and long and long and long".repeat(9);
    let (file, last) = segment(&[&["one", "two", &long], &[], &["six"]]);
    folder.make_folder("log");
    folder.write(SEGMENT, &file);
    let mut slots = vec![0; 1024];
    let claims = Claims { from: Some(SegmentId::FIRST), keys: 2, ..Claims::of(KeyNumber::FIRST) };
    for sequence in [1, 2] {
        let slot = manifest(sequence, last);
        let proved = (claims, Salt::of_log(LOG), &log_key().manifest(LOG));
        put_proved(&mut slots, (slot.offset(), &slot.encode()), proved);
    }
    folder.write("log/manifest", &slots);
    let ring = KeyRing::new(LOG, log_key());
    write_keys(folder, &[ring.clone(), ring.again()]);
    folder.write("user.key", &USER);
    folder.write("other.key", &[0xA4; 32]);
}

fn write_keys(folder: &Folder, rings: &[KeyRing]) {
    let mut file = vec![0; 2 * 65_536];
    for ring in rings {
        let (at, slot) = ring.wrap(&KeyEncryptionKey::new(&USER), &[9; 12], 1).encode();
        put(&mut file, at, &slot);
    }
    folder.write("log/keys", &file);
}

fn read(folder: &Folder, key: &str) -> Ran {
    let python = python(folder).unwrap();
    folder.shell(&format!("'{python}' '{READER}' log {key}"), b"")
}

/// A folder with the log, if Python has the cipher that the second reader needs.
fn log(name: &str) -> Option<Folder> {
    let folder = folder(name)?;
    write(&folder);
    let python = python(&folder)?;
    let module = "cryptography.hazmat.primitives.ciphers.aead";
    let has_cipher = format!("'{python}' -c 'from {module} import AESGCMSIV'");
    if folder.shell(&has_cipher, b"").code == 0 {
        return Some(folder);
    }
    let refused = read(&folder, "user.key");
    assert_eq!(refused.code, 7);
    assert!(refused.err.contains("install the package cryptography"), "{}", refused.err);
    let skipped = "SKIPPED: python3 has no package cryptography with AES-GCM-SIV";
    let _ = writeln!(io::stderr(), "{name}: {skipped}; encrypted logs were NOT read");
    None
}

#[test]
fn encrypted_log_is_verified_without_its_key_and_read_only_with_it() {
    let folder = Folder::new("encrypted-refused");
    write(&folder);
    for verb in ["verify log", "stat log"] {
        let done = folder.run(verb, b"");
        assert_eq!(done.code, 0, "{verb}: {}", done.err);
        let said = "1 of 1 segment   checked, but not decrypted";
        assert!(done.text().contains(said), "{verb}: {}", done.text());
    }
    for verb in ["cat log", "append log"] {
        let refused = folder.run(verb, b"");
        assert!(refused.refused(7).contains("no key was given"), "{verb}: {}", refused.err);
    }
}

#[test]
fn second_reader_decrypts_a_log_with_its_key() {
    let Some(folder) = log("encrypted-read") else { return };
    let found = read(&folder, "user.key");
    let digits = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
    let long = "a record that is long and long and long and long and long".repeat(9);
    let lines = [(1, "one"), (2, "two"), (3, &*long), (6, "six")];
    let line = |(lsn, text): (u64, &str)| format!("{lsn}\t{}\n", digits(text).concat());
    let expected = lines.map(line).concat();
    assert_eq!((found.code, found.text()), (0, &*expected), "{}", found.err);
    assert!(found.err.contains("LSN 4 to 5 were given up"), "{}", found.err);
}

#[track_caller]
fn refuses(folder: &Folder, key: &str, reason: &str) {
    let refused = read(folder, key);
    assert_eq!(refused.code, 7, "{}", refused.err);
    assert!(refused.err.contains(reason), "{}", refused.err);
}

const FORGED: &str = "not written with the key of this log";

#[test]
fn second_reader_refuses_other_keys_and_what_was_written_without_one() {
    let Some(folder) = log("encrypted-forged") else { return };
    refuses(&folder, "", "give the file with its key");
    refuses(&folder, "other.key", "with another key");
    refuses(&folder, "none.key", "no key");
    // Flip a bit in the first batch's ciphertext, authentication code and time, with valid
    // checksums.
    let good = folder.read(SEGMENT);
    for at in [BATCH + 24 + 60, BATCH + 8, 40] {
        let mut file = good.clone();
        file[START + at] ^= 1;
        with_checksums(&mut file);
        folder.write(SEGMENT, &file);
        refuses(&folder, "user.key", FORGED);
    }
    // Replace the header by one with another time and key.
    let mut file = good.clone();
    put_forged_header(&mut file);
    folder.write(SEGMENT, &file);
    refuses(&folder, "user.key", FORGED);
    // Replace the encrypted segment by a plain one.
    put(&mut file, Offset(0), &SegmentHeader { authenticator: None, ..header() }.encode());
    folder.write(SEGMENT, &file);
    refuses(&folder, "user.key", "segment 1 is not encrypted");
    folder.write(SEGMENT, &good);
    // A manifest that says that nothing is encrypted, and an older copy of the keys.
    let slots = folder.read("log/manifest");
    let mut plain = vec![0; 1024];
    for sequence in [1, 2] {
        let slot = Manifest { authenticator: None, ..manifest(sequence, Lsn::FIRST) };
        put(&mut plain, slot.offset(), &slot.encode());
    }
    folder.write("log/manifest", &plain);
    refuses(&folder, "user.key", "nothing is encrypted");
    folder.write("log/manifest", &slots);
    write_keys(&folder, &[KeyRing::new(LOG, log_key())]);
    refuses(&folder, "user.key", "keys is an older copy");
}

/// Recomputes the checksums of the first batch and its first chunk.
fn with_checksums(file: &mut [u8]) {
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (body, chunk) = (START + BATCH, START + BATCH + 24);
    let body_end = body + usize::try_from(number(START + 4) & 0x7FF_FFFF).unwrap();
    let chunk_end = chunk + 40 + usize::try_from(number(chunk + 4)).unwrap();
    for (at, covered) in [
        (chunk, chunk + 4..chunk_end),
        (START + 24, body..body_end),
        (START, START + 4..START + BATCH),
    ] {
        // The checksum of a body is bound to the body's offset.
        let place = if at == START + 24 { body } else { at };
        let place = Offset(u64::try_from(place).unwrap());
        let crc = header().salt().checksum(place, &file[covered]);
        file[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn what_no_holder_of_the_key_wrote_exits_7_and_changes_nothing() {
    let folder = Folder::new("encrypted-tampered");
    write(&folder);
    folder.write("log/lock", b"");
    assert_eq!(
        folder.run("cat log -n 2 -o raw --key-file user.key", b"").fine().text(),
        "one\ntwo\n"
    );
    let good = folder.read(SEGMENT);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        file
    };
    // A flipped bit in the first batch's ciphertext, authentication code or time; another header; a
    // plain header.
    let flipped = |at: usize| {
        with(&|file| {
            file[START + at] ^= 1;
            with_checksums(file);
        })
    };
    let plain = SegmentHeader { authenticator: None, ..header() };
    let forged = [
        ("ciphertext", flipped(BATCH + 24 + 60)),
        ("code", flipped(BATCH + 8)),
        ("time", flipped(40)),
        ("header", with(&|file| put_forged_header(file))),
        ("stripped", with(&|file| put(file, Offset(0), &plain.encode()))),
    ];
    for (what, file) in forged {
        folder.write(SEGMENT, &file);
        let before = folder.contents("log");
        for verb in ["cat log", "append log", "verify log", "repair log --cut-tail --yes"] {
            let refused = folder.run(&format!("{verb} --key-file user.key"), b"x\n");
            refused.refused(7);
            assert_eq!(folder.contents("log"), before, "{what}: {verb}");
        }
        let told = folder.run("verify log --json --key-file user.key", b"").json().remove(0);
        assert_eq!((&told["verdict"], &told["exit"]), (&"key".into(), &7.into()), "{what}");
    }
}

#[test]
fn damage_is_told_and_repaired_as_far_as_that_needs_no_key() {
    let folder = Folder::new("encrypted-damaged");
    write(&folder);
    let mut file = folder.read(SEGMENT);
    file[START + BATCH + 24 + 60] ^= 1;
    folder.write(SEGMENT, &file);
    for key in ["", "--key-file user.key"] {
        assert_eq!(folder.run(&format!("verify log {key}"), b"").code, 5, "{key}");
        let stat = folder.run(&format!("stat log {key}"), b"");
        assert!(stat.code == 5 && stat.text().contains("encrypted"), "{stat:?}");
        let plan = folder.run(&format!("repair log {key}"), b"");
        let option = if key.is_empty() { "--key-file FILE" } else { key };
        let salvage = format!("seawall repair log --salvage-to NEW {option}");
        assert!(plan.code == 5 && plan.text().contains(&salvage), "{plan:?}");
    }
    let refused = folder.run("repair log --salvage-to new", b"");
    refused.refused(7);
    let salvaged = folder.run("repair log --salvage-to new --key-file user.key", b"");
    assert_eq!(salvaged.code, 5, "{salvaged:?}");
    // The other chunk of that batch is intact.
    let left = folder.run("cat new -o json --key-file user.key", b"").fine().json();
    assert_eq!(left.iter().map(|one| one["lsn"].clone()).collect::<Vec<_>>(), [3, 6]);
    let cut = folder.run("repair log --cut-tail --yes --key-file user.key", b"");
    assert_eq!(cut.code, 5, "{cut:?}");
    folder.run("append log --key-file user.key", b"again\n").fine();
    assert_eq!(folder.run("cat log -o raw --key-file user.key", b"").fine().text(), "again\n");
}
