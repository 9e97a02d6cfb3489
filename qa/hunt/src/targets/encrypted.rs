//! Fuzz targets for encrypted batches and the file `keys`: authentic but nonsensical ones, and
//! forgeries made without the key.

use super::bytes::segment_header;
use super::scan::walk;
use crate::fixup;
use crate::forge::{self, LogKeys, SegmentKeys};
use crate::sample::{Encoding, End, KEY, Kind, Past, Sample, Scale};
use seawall::encryption::{Key, KeyError};
use seawall::{Compression, Layout};
use seawall_format::batch::{BodyKind, HEADER_SIZE as BATCH, Life};
use seawall_format::encryption::{self, LogKey};
use seawall_format::frame::Frames;
use seawall_format::keys::WrappedKeys;
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{Authenticator, Claims, KeyNumber, Offset, SegmentHeader};

/// The log key of the test segment.
const LOG_KEY: [u8; 32] = [5; 32];

fn header() -> SegmentHeader {
    let proof = Authenticator::unsigned(Claims::of(KeyNumber::FIRST));
    let plain = segment_header(Layout::Binary);
    SegmentHeader { authenticator: Some(proof), compression_max: Compression::Lz4, ..plain }
}

fn origin() -> usize {
    usize::try_from(header().data_start()).unwrap()
}

/// Checks opened batches of a segment. With correct checksums alone, none may count as authentic.
/// With correct tags and codes, too, any content must be handled.
pub(super) fn batches(data: &[u8]) {
    let header = header();
    let data = &data[..data.len().min(8192 - origin())];
    let forger = SegmentKeys::of(&LOG_KEY, [header.log.0, header.id.get(), header.epoch.0]);
    let fixed = |keys: Option<&SegmentKeys>| {
        let mut fixed = data.to_vec();
        let bound_to = (&header.salt(), header.epoch.0, keys);
        fixup::batches_with(&mut fixed, origin(), bound_to, header.chain());
        fixed
    };
    for bytes in [data, &fixed(None)] {
        let taken = check(&header, bytes);
        assert_eq!(taken, 0, "nobody with the key wrote it");
    }
    check(&header, &fixed(Some(&forger)));
}

/// Scans and decrypts the batches; returns how many were authentic and valid.
fn check(header: &SegmentHeader, data: &[u8]) -> usize {
    let place = (header.data_start(), data);
    let (whole, _) = walk(header, place, 1 << 20);
    assert_eq!(walk(header, place, 100).0, whole, "in windows");
    let life = Life::of(header);
    let keys =
        encryption::SegmentKeys::derive(&LogKey::new(&LOG_KEY), header.log, header.reference());
    let length = header.data_start() + u64::try_from(data.len()).unwrap();
    let mut scanner = Scanner::new(header, length, Limit::Open);
    scanner.ends_at(Offset(length));
    let window = Window { start: Offset(header.data_start()), bytes: data };
    let batch_max = usize::try_from(life.batch_max).unwrap();
    let (mut plain, mut taken) = (vec![], 0);
    while let Step::Batch(batch) = scanner.step(window) {
        let (found, at) = (&batch.header, batch.offset);
        let opened = keys.open((found, &batch.body), (at, &life), &mut plain);
        assert!(plain.capacity() <= 2 * batch_max, "no more than a batch: {}", plain.capacity());
        if opened == Ok(true) {
            taken += 1;
            let count = Frames::new(&plain[BATCH..], found.first, found.count).count();
            let wanted = if found.kind == BodyKind::Encrypted { found.count } else { 0 };
            assert_eq!(count, usize::try_from(wanted).unwrap());
        }
        let mut memory = vec![];
        let end = usize::try_from(batch.end.0 - header.data_start()).unwrap();
        let from = usize::try_from(at.0 - header.data_start()).unwrap();
        let records = (found.first, found.last());
        let salvaged = keys.salvage(&data[from..end], (at, &life), (records, &mut memory));
        assert!(memory.len() <= 3 * batch_max, "{}", memory.len());
        for chunk in salvaged.unwrap_or_default() {
            let frames = &memory[chunk.frames.clone()];
            let count = Frames::new(frames, chunk.first, chunk.count).count();
            assert_eq!(count, usize::try_from(chunk.count).unwrap());
        }
    }
    taken
}

/// Returns the opened batches of sound logs, with LSNs as in a first segment.
pub(super) fn some_batches() -> Vec<Vec<u8>> {
    let mut found = vec![];
    for sample in samples() {
        let keys = LogKeys::of(&sample.files["keys"]);
        let segments = sample.files.iter().filter(|(name, _)| name.contains(".seg"));
        for (_, file) in segments {
            let mut opened = file.clone();
            keys.open_segment(&mut opened);
            let used = file.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            let used = used.next_multiple_of(512).min(file.len());
            // A segment that was named ahead may have no batches.
            let batches = opened.get(origin()..used).filter(|batches| !batches.is_empty());
            found.extend(batches.map(renumbered));
        }
    }
    found
}

/// Returns the batches with LSNs from 1 on, in their chunks, too.
fn renumbered(batches: &[u8]) -> Vec<u8> {
    let mut whole = batches.to_vec();
    let bytes = whole.as_mut_slice();
    let (mut at, mut next) = (0, 1);
    while bytes.len() >= at + BATCH {
        let size = usize::try_from(fixup::number(bytes, at + 4, 4) & 0x07FF_FFFF).unwrap();
        let (count, first) = (fixup::number(bytes, at + 16, 4), fixup::number(bytes, at + 8, 8));
        fixup::put(bytes, at + 8, 8, next);
        fixup::put(bytes, at + 20, 4, 0);
        let (mut chunk, end) = (at + BATCH + fixup::PREFIX[1], at + BATCH + size);
        while chunk < end && fixup::number(bytes, chunk + 4, 4) > 0 {
            let own = fixup::number(bytes, chunk + 16, 8);
            fixup::put(bytes, chunk + 16, 8, own - first + next);
            let stored = usize::try_from(fixup::number(bytes, chunk + 4, 4)).unwrap();
            chunk += fixup::CHUNK[1] + stored;
        }
        next += count;
        at = end;
    }
    whole
}

fn samples() -> [Sample; 2] {
    [Encoding::Encrypted, Encoding::Both].map(|encoding| {
        Sample::make(Kind {
            layout: Layout::Binary,
            end: End::PowerCut,
            scale: Scale::Tiny,
            past: Past::Eventful,
            encoding,
            seed: 1,
        })
    })
}

/// Checks an opened file `keys`. The input holds its slots one right after the other, to be short.
pub(super) fn keys(data: &[u8]) {
    let (first, second) = data.split_at(data.len() / 2);
    let mut file = vec![0; fixup::KEYS_B];
    let size = first.len().min(fixup::KEYS_B);
    file[..size].copy_from_slice(&first[..size]);
    file.extend_from_slice(second);
    let mut fixed = file.clone();
    fixup::keys(&mut fixed);
    for file in [&file, &fixed] {
        for slot in WrappedKeys::decode_file(file).into_iter().flatten() {
            let refused = slot.unwrap(&Key::new(&KEY)).map(drop);
            assert!(matches!(refused, Err(KeyError::Forged | KeyError::WrongKey)), "{refused:?}");
        }
    }
    forge::seal_keys(&mut file);
    for slot in WrappedKeys::decode_file(&file).into_iter().flatten() {
        let (at, bytes) = slot.encode();
        let at = usize::try_from(at.0).unwrap();
        assert!(bytes == file[at..at + bytes.len()], "what is accepted is what is written");
        let ring = slot.unwrap(&Key::new(&KEY)).expect("it is authentic");
        assert_eq!((ring.log(), ring.sequence()), (slot.log, slot.sequence));
        let (newest, _) = ring.newest();
        assert_eq!(Some(newest), slot.numbers().last());
        for number in slot.numbers() {
            ring.get(number).expect("it is one of them");
        }
    }
}

pub(super) fn some_keys() -> Vec<Vec<u8>> {
    let files = samples().map(|sample| {
        let mut opened = sample.files["keys"].clone();
        forge::open_keys(&mut opened);
        opened
    });
    let input = |file: Vec<u8>| {
        let second = &file[fixup::KEYS_B..];
        [&file[..second.len()], second].concat()
    };
    files.map(input).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise every input would count as forged, and no code after that check would run.
    #[test]
    fn what_is_opened_and_sealed_is_what_the_library_wrote() {
        for sample in samples() {
            let keys = LogKeys::of(&sample.files["keys"]);
            assert_eq!(keys.0.len(), 2, "a log key for each half");
            for (name, file) in &sample.files {
                let mut made = file.clone();
                match name.as_str() {
                    "keys" => {
                        forge::open_keys(&mut made);
                        assert!(made != *file, "the keys are opened");
                        forge::seal_keys(&mut made);
                    }
                    "manifest" => {
                        made[256 + 32..256 + 48].fill(0);
                        keys.seal_manifest(&mut made);
                    }
                    "live" => {}
                    _ => {
                        keys.open_segment(&mut made);
                        assert!(made != *file, "{name} is opened");
                        keys.seal_segment(&mut made);
                    }
                }
                let other: Vec<_> = (0..file.len()).filter(|at| made[*at] != file[*at]).collect();
                assert_eq!(other, Vec::<usize>::new(), "{name}");
            }
        }
        let header = header();
        let forger = SegmentKeys::of(&LOG_KEY, [header.log.0, header.id.get(), header.epoch.0]);
        for mut bytes in some_batches() {
            let bound_to = (&header.salt(), header.epoch.0, Some(&forger));
            fixup::batches_with(&mut bytes, origin(), bound_to, header.chain());
            assert!(check(&header, &bytes) > 0, "{} bytes are taken", bytes.len());
        }
    }
}
