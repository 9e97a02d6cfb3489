//! A changed dump gives either the state that was written or an error.

use super::reading::read;
use super::writing::{NotWritten, write};
use super::*;
use seawall_format::nesting::TOO_DEEP;
use seawall_io::Storage;
use seawall_testkit::{Dice, MemStorage, each_seed};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note {
    count: u32,
    text: String,
}

fn header(chunk: u32) -> Header {
    let kind = Kind { name: "note".to_owned(), schema: 3 };
    let (epoch, lsn) = (Epoch(0x0102_0304_0506_0708), Lsn::new(42).unwrap());
    let (log, time_us, crc) = (LogId(0x1112_1314_1516_1718), 0x2122_2324_2526_2728, 0x3132_3334);
    let owner = Some(Owner { log, time_us, crc });
    Header { owner, chunk, epoch, lsn, length: 0, time_us: 7, kind }
}

/// Encodes a dump of `state`.
fn bytes<S: Serialize>(state: &S, chunk: u32) -> Vec<u8> {
    bytes_with(header(chunk), state)
}

fn bytes_with<S: Serialize>(header: Header, state: &S) -> Vec<u8> {
    let disk = MemStorage::new();
    write(&*disk.create("dump").unwrap(), header, state).unwrap();
    disk.bytes("dump").unwrap()
}

fn file(bytes: &[u8]) -> Arc<dyn seawall_io::File> {
    let file = MemStorage::new().create("dump").unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn read_bytes<S: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<S, Refused> {
    read(&*file(bytes), |_| Ok(()))
}

fn note() -> Note {
    Note { count: 300, text: "longer than one chunk".to_owned() }
}

/// Produced by an independent program written from format.md, section 13.
const GOLDEN: &str = "\
    53454157414c4c4400000200c184accc728284061000000008070605040302012a00000000000000\
    25000000000000000700000000000000030000000100000418171615141312112827262524232221\
    34333231000000006e6f746500000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000f096651110000000\
    82a5636f756e74cd012ca474657874b5454ca6f1100000006c6f6e676572207468616e206f6e6520\
    84f9a039050000006368756e6b8c6d49e2454e445325000000000000000300000000000000";

/// The same dump in draft 1, without a log id.
const GOLDEN_WITHOUT_LOG: &str = "\
    53454157414c4c4400000100582c4bf8a4f0f9e31000000008070605040302012a00000000000000\
    2500000000000000070000000000000003000000010000046e6f7465000000000000000000000000\
    00000000000000000000000000000000000000000000000000000000000000000000000000000000\
    00000000000000005d5d2c801000000082a5636f756e74cd012ca474657874b5ba26e99610000000\
    6c6f6e676572207468616e206f6e6520ce11f063050000006368756e6bc297562b454e4453250000\
    00000000000300000000000000";

fn from_hex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn encoded_dump_equals_the_golden_bytes() {
    assert_eq!(bytes(&note(), 16), from_hex(GOLDEN));
    assert_eq!(read_bytes::<Note>(&from_hex(GOLDEN)).unwrap(), note());
}

#[test]
fn dump_of_draft_1_without_a_log_id_is_read() {
    let golden = from_hex(GOLDEN_WITHOUT_LOG);
    let told: Result<Note, Refused> = read(&*file(&golden), |header| {
        assert_eq!((header.owner, header.lsn.get()), (None, 42));
        Ok(())
    });
    assert_eq!(told.unwrap(), note());
    assert_eq!(bytes_with(Header { owner: None, ..header(16) }, &note()), golden);
}

#[test]
fn field_tables_in_format_md_match_the_code() {
    let text = include_str!("../../../../docs/format.md");
    let payload = Field { at: 8, size: 0, name: "payload" };
    let chunk = [C_CRC, C_LENGTH, payload];
    let end = [E_CRC, E_MAGIC, E_LENGTH, E_CHUNKS];
    for (name, table) in [("header", HEADER), ("chunk", &chunk), ("end", &end)] {
        let block = text.split(&format!("```text dump {name}\n")).nth(1).unwrap();
        let (head, rows) = block.split_once("```").unwrap().0.split_once('\n').unwrap();
        let value = head.find("value").unwrap();
        let cells = rows.lines().map(|row| row.get(..value).unwrap_or(row).trim_end());
        // A row with empty cells continues the previous value.
        let said: Vec<_> = cells.filter(|cells| !cells.is_empty()).collect();
        let size = |size: usize| if size == 0 { "n".to_owned() } else { size.to_string() };
        let row = |f: &Field| format!("{:>6}  {:>4}  {}", f.at, size(f.size), f.name);
        assert_eq!(said, table.iter().map(row).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn state_of_any_size_is_read_back() {
    for size in [0, 1, 15, 16, 17, 500, 200_000] {
        for chunk in [16, 17, CHUNK] {
            let state = Note { count: 1, text: "x".repeat(size) };
            assert_eq!(read_bytes::<Note>(&bytes(&state, chunk)).unwrap(), state);
        }
    }
    read_bytes::<()>(&bytes(&(), 16)).unwrap();
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let sound = bytes(&note(), 16);
    for bit in 0..sound.len() * 8 {
        let mut harmed = sound.clone();
        harmed[bit / 8] ^= 1 << (bit % 8);
        let refused = read_bytes::<Note>(&harmed).unwrap_err();
        assert!(matches!(refused, Refused::Damaged(_)), "bit {bit}: {refused}");
    }
    for length in 0..sound.len() {
        let refused = read_bytes::<Note>(&sound[..length]).unwrap_err();
        assert!(matches!(refused, Refused::Damaged(_)), "{length} bytes: {refused}");
    }
    assert!(read_bytes::<Note>(&[sound.clone(), vec![0]].concat()).is_err(), "a byte too many");
}

#[test]
fn chunks_from_another_dump_or_in_another_order_are_refused() {
    let (one, size) = (bytes(&[1_u8; 40].as_slice(), 16), CHUNK_HEADER_SIZE + 16);
    let (first, second) = (HEADER_SIZE..HEADER_SIZE + size, HEADER_SIZE + size..);
    let mut swapped = one.clone();
    swapped[first.clone()].copy_from_slice(&one[second][..size]);
    read_bytes::<Vec<u8>>(&swapped).unwrap_err();

    let disk = MemStorage::new();
    let other = Header { epoch: Epoch(9), ..header(16) };
    write(&*disk.create("dump").unwrap(), other, &[2_u8; 40].as_slice()).unwrap();
    let mut mixed = one;
    mixed[first.clone()].copy_from_slice(&disk.bytes("dump").unwrap()[first]);
    read_bytes::<Vec<u8>>(&mixed).unwrap_err();
}

#[test]
fn unknown_version_codec_or_type_is_not_reported_as_damage() {
    let mut newer = bytes(&note(), 16);
    put(&mut newer, F_VERSION, &9_u16.to_le_bytes());
    let crc = plain_crc(until(&newer, F_PREAMBLE_CRC));
    put(&mut newer, F_PREAMBLE_CRC, &crc.to_le_bytes());
    let said = read_bytes::<Note>(&newer).unwrap_err().to_string();
    assert_eq!(said, "dump version 9 draft 2; this program reads version 0 drafts 1 and 2");

    let mut other = bytes(&note(), 16);
    put(&mut other, F_CODEC, &2_u16.to_le_bytes());
    let crc = header(16).salt().checksum(Offset(0), &other[20..HEADER_SIZE]);
    put(&mut other, F_HEADER_CRC, &crc.to_le_bytes());
    let said = read_bytes::<Note>(&other).unwrap_err().to_string();
    assert_eq!(said, "codec 2 is not supported");

    let refused = read_bytes::<Vec<u64>>(&bytes(&note(), 16)).unwrap_err();
    assert!(matches!(refused, Refused::Undecoded(_)), "{refused}");
    // Bytes after the state make the dump invalid.
    let refused = read_bytes::<u8>(&around(&[1, 2])).unwrap_err();
    assert_eq!(refused.to_string(), "unexpected bytes follow the state");
}

/// A header with arbitrary values and valid checksums, as an attacker or a bug could write it.
fn forged(chunk: u32, length: u64, name_length: u8) -> Vec<u8> {
    let mut bytes = bytes(&note(), 16);
    put(&mut bytes, F_CHUNK, &chunk.to_le_bytes());
    put(&mut bytes, F_LENGTH, &length.to_le_bytes());
    put(&mut bytes, F_NAME_LENGTH, &[name_length]);
    let crc = header(16).salt().checksum(Offset(0), &bytes[20..HEADER_SIZE]);
    put(&mut bytes, F_HEADER_CRC, &crc.to_le_bytes());
    bytes
}

/// A dump with valid checksums around an arbitrary payload.
fn around(payload: &[u8]) -> Vec<u8> {
    let header = Header { length: to_u64(payload.len()), ..header(1 << 20) };
    let length = u32::try_from(payload.len()).unwrap();
    let covered = [&length.to_le_bytes(), payload].concat();
    let crc = header.salt().checksum(Offset(to_u64(HEADER_SIZE)), &covered);
    let end = header.end(to_u64(HEADER_SIZE + CHUNK_HEADER_SIZE + payload.len()));
    [&header.encode(), crc.to_le_bytes().as_slice(), &covered, &end].concat()
}

#[test]
fn too_deeply_nested_state_is_refused() {
    let refused = read_bytes::<Nested>(&around(&vec![0x91; 100_000])).unwrap_err();
    assert_eq!(refused.to_string(), TOO_DEEP);
    // The decoder does not count the levels of an enum.
    let variants = [0x81, 0xa4, b'D', b'o', b'w', b'n'].repeat(100_000);
    let refused = read_bytes::<Link>(&around(&variants)).unwrap_err();
    assert_eq!(refused.to_string(), TOO_DEEP);
    // A reader that skips values recurses too.
    let refused = read_bytes::<IgnoredAny>(&around(&vec![0x91; 100_000])).unwrap_err();
    assert_eq!(refused.to_string(), TOO_DEEP);
}

#[test]
fn state_that_a_reader_would_refuse_is_not_written() {
    let nested = |levels| (1..levels).fold(Nested(vec![]), |inner, _| Nested(vec![inner]));
    assert_eq!(read_bytes::<Nested>(&bytes(&nested(127), 16)).unwrap(), nested(127));
    let linked = |levels| (0..levels).fold(Link::End, |inner, _| Link::Down(Box::new(inner)));
    assert_eq!(read_bytes::<Link>(&bytes(&linked(127), 16)).unwrap(), linked(127));

    let disk = MemStorage::new();
    let file = disk.create("dump").unwrap();
    for refused in
        [write(&*file, header(16), &nested(128)), write(&*file, header(16), &linked(128))]
    {
        assert!(matches!(refused, Err(NotWritten::Encode(why)) if why == TOO_DEEP));
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Link {
    Down(Box<Link>),
    End,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Nested(Vec<Nested>);

type State = BTreeMap<String, (u64, Option<Vec<f64>>)>;

fn state(dice: &mut Dice) -> State {
    let count = dice.below(12);
    let entry = |dice: &mut Dice| {
        let length = dice.index(21);
        let name = dice.many(length, |dice| char::from(b'a' + dice.byte() % 26));
        let count = dice.index(5);
        let numbers = dice
            .many(count, |dice| f64::from(u32::try_from(dice.below(1 << 32)).unwrap()) / 7.0 - 1e8);
        let numbers = dice.one_in(2).then_some(numbers);
        (name.into_iter().collect(), (dice.any(), numbers))
    };
    (0..count).map(|_| entry(dice)).collect()
}

#[test]
fn damaged_dump_gives_an_error_or_the_written_state() {
    each_seed(4_000, |dice| {
        let state = state(dice);
        let chunk = 16 + u32::try_from(dice.below(184)).unwrap();
        let sound = bytes(&state, chunk);
        assert_eq!(read_bytes::<State>(&sound).unwrap(), state.clone());
        let mut harmed = sound.clone();
        for _ in 0..dice.below(4) {
            let at = dice.index(harmed.len());
            harmed[at] = dice.byte();
        }
        if dice.one_in(2) {
            harmed.truncate(dice.index(sound.len() + 1));
        }
        match read_bytes::<State>(&harmed) {
            Ok(read) => assert_eq!((&read, &harmed), (&state, &sound)),
            Err(refused) => assert!(matches!(refused, Refused::Damaged(_)), "{refused}"),
        }
    });
}

#[test]
fn header_with_arbitrary_lengths_does_not_panic() {
    each_seed(4_000, |dice| {
        let chunk = u32::try_from(dice.below(1 << 32)).unwrap();
        let forged = forged(chunk, dice.any(), dice.byte());
        read_bytes::<Note>(&forged).unwrap_err();
    });
}

#[test]
fn arbitrary_payload_gives_a_state_or_an_error() {
    each_seed(4_000, |dice| {
        let mut payload = vec![dice.byte()];
        payload.extend(dice.bytes(59));
        let read = read_bytes::<State>(&around(&payload));
        assert!(matches!(read, Ok(_) | Err(Refused::Undecoded(_))), "{read:?}");
    });
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    each_seed(4_000, |dice| {
        let junk = dice.bytes(400);
        read_bytes::<Note>(&junk).unwrap_err();
    });
}
