//! Fuzz targets for importers of other formats: the delivered entries are those in the bytes,
//! however the stream is divided.

use seawall_foreign::{Entries, Stop, cwal as theirs, json as values, msgpack as pairs};
use std::io::{self, Read};

/// A stream that delivers its bytes in pieces of the given sizes, repeated in turn.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: &'a [usize],
    turn: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.turn % self.sizes.len()].min(buffer.len()).min(self.bytes.len());
        self.turn += 1;
        let (now, later) = self.bytes.split_at(size);
        buffer[..size].copy_from_slice(now);
        self.bytes = later;
        Ok(size)
    }
}

/// The entries, and the damage that ended the reading, if any: its cause, entry number and offset.
type Found = (Vec<Vec<u8>>, Option<(&'static str, u64, u64)>);

fn read(reader: &mut dyn Entries) -> Found {
    let mut entries = vec![];
    loop {
        match reader.next() {
            Ok(Some(entry)) => entries.push(entry.to_vec()),
            Ok(None) => return (entries, None),
            Err(Stop::Damaged(damage)) => {
                let _ = reader.remarks();
                return (entries, Some((damage.cause, damage.entry, damage.offset)));
            }
            Err(error) => panic!("memory can be read: {error:?}"),
        }
    }
}

type Open = for<'a> fn(Pieces<'a>) -> Box<dyn Entries + 'a>;

/// Reads in pieces of several sizes and checks that the result is the same.
fn in_pieces(data: &[u8], open: Open) -> Found {
    let whole = read(&mut *open(Pieces { bytes: data, sizes: &[1 << 20], turn: 0 }));
    for sizes in [&[1][..], &[7, 1, 13]] {
        let found = read(&mut *open(Pieces { bytes: data, sizes, turn: 0 }));
        assert_eq!(found, whole, "in pieces of {sizes:?}");
    }
    let (entries, damage) = &whole;
    if let Some((_, entry, offset)) = damage {
        let delivered = u64::try_from(entries.len()).unwrap();
        assert_eq!(*entry, delivered + 1, "what is not delivered comes next");
        assert!(*offset <= u64::try_from(data.len()).unwrap());
    }
    whole
}

/// Checks that the delivered entries, written again, give the same bytes.
fn stands_there(data: &[u8], (entries, damage): &Found, write: fn(&[u8], &mut Vec<u8>)) {
    let mut written = vec![];
    for entry in entries {
        write(entry, &mut written);
    }
    let is_prefix = data.starts_with(&written);
    // The newline of the last line may be missing.
    let is_all = written.strip_suffix(b"\n") == Some(data);
    assert!(is_prefix || is_all, "{entries:?}");
    assert!(damage.is_some() || is_all || written.len() == data.len(), "all of it was read");
}

pub(super) fn cwal(data: &[u8]) {
    let found = in_pieces(data, |input| Box::new(theirs::Binary::new(input)));
    stands_there(data, &found, theirs::write_binary);
}

pub(super) fn cwal_text(data: &[u8]) {
    let found = in_pieces(data, |input| Box::new(theirs::Text::new(input)));
    stands_there(data, &found, theirs::write_text);
}

pub(super) fn msgpack(data: &[u8]) {
    let found = in_pieces(data, |input| Box::new(pairs::Pairs::new(input)));
    // A checksum can be encoded in several forms, so the bytes may differ: compare the entries.
    let mut written = vec![];
    for entry in &found.0 {
        pairs::write(entry, &mut written);
    }
    let again = read(&mut pairs::Pairs::new(written.as_slice()));
    assert_eq!((again.0, again.1), (found.0, None));
}

pub(super) fn json(data: &[u8]) {
    let found = in_pieces(data, |input| Box::new(values::Values::new(input)));
    let mut rest = data;
    for entry in &found.0 {
        values::check(entry).expect("what is delivered is a value");
        let at = rest.iter().position(|byte| !b" \t\r\n".contains(byte)).unwrap_or(0);
        rest = rest[at..].strip_prefix(entry.as_slice()).expect("the entry is there");
    }
    let blank = rest.iter().all(|byte| b" \t\r\n".contains(byte));
    assert_eq!(found.1.is_none(), blank, "all is delivered, or damage is told");
}

fn written(entries: &[&[u8]], write: fn(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![];
    for entry in entries {
        write(entry, &mut bytes);
    }
    bytes
}

const SOME: &[&[u8]] = &[b"one", b"", b"three and more of it", &[0; 13], b" 3 "];

pub(super) fn cwals() -> Vec<Vec<u8>> {
    vec![written(SOME, theirs::write_binary), written(&[b""], theirs::write_binary)]
}

pub(super) fn cwal_texts() -> Vec<Vec<u8>> {
    vec![written(SOME, theirs::write_text), b"3 one 2053932785".to_vec()]
}

pub(super) fn packs() -> Vec<Vec<u8>> {
    let some: &[&[u8]] = &[
        b"\x93\x01\xa3two\xc3",
        b"\x82\xa1a\xcb\x3f\xf8\0\0\0\0\0\0\xa1b\xc4\x03abc",
        b"\xd6\x01abcd",
        b"\xc0",
    ];
    vec![written(some, pairs::write)]
}

pub(super) fn jsons() -> Vec<Vec<u8>> {
    let some: &[&[u8]] = &[b"{\"a\":[1,-2.5e3,null]}", b"\"\\u00e9\\\"\"", b"true", b"17"];
    vec![written(some, values::write), b" [1][2]{} \"x\"\n3".to_vec()]
}
