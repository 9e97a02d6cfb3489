//! The fuzz targets. Each target is a function that panics if something is wrong, so that `cargo
//! test` can run the same checks on the seeds and on thousands of changed seeds.
//!
//! Besides "no panic", the targets check: accepted bytes are encoded to the same bytes where the
//! format determines them; reading in pieces gives the same result; a log that opens accepts
//! appends.

mod bytes;
mod codecs;
mod encrypted;
mod folder;
mod importers;
mod lines;
mod parity;
mod scan;

use crate::random::Random;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name, which is also that of the folder of seeds.
    pub name: &'static str,
    /// Checks any bytes; panics if something is wrong.
    pub run: fn(&[u8]),
    /// Returns valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    Target { name: "header", run: bytes::header, seeds: bytes::headers },
    Target { name: "manifest", run: bytes::manifest, seeds: bytes::manifests },
    Target { name: "slots", run: bytes::slots, seeds: bytes::some_slots },
    Target { name: "live", run: bytes::live, seeds: bytes::lives },
    Target { name: "batch", run: bytes::batch, seeds: bytes::batches },
    Target { name: "scan", run: scan::run, seeds: scan::seeds },
    Target { name: "line", run: lines::line, seeds: lines::some_lines },
    Target { name: "text", run: lines::text, seeds: lines::texts },
    Target { name: "encrypted", run: encrypted::batches, seeds: encrypted::some_batches },
    Target { name: "keys", run: encrypted::keys, seeds: encrypted::some_keys },
    Target { name: "sealed", run: folder::sealed, seeds: folder::sealed_seeds },
    Target { name: "folder", run: folder::run, seeds: folder::seeds },
    Target { name: "parity", run: parity::run, seeds: parity::seeds },
    Target { name: "cwal", run: importers::cwal, seeds: importers::cwals },
    Target { name: "cwal_text", run: importers::cwal_text, seeds: importers::cwal_texts },
    Target { name: "msgpack", run: importers::msgpack, seeds: importers::packs },
    Target { name: "json", run: importers::json, seeds: importers::jsons },
    Target { name: "codecs", run: codecs::run, seeds: codecs::seeds },
];

/// Returns the target with this name.
///
/// # Panics
///
/// If no target has this name.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is called {name}"))
}

/// Returns a seed with some changes, as a fuzzer makes them, or random bytes.
#[must_use]
pub fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = if random.once_in(8) || seeds.is_empty() {
        let mut noise = vec![0; random.size(512)];
        random.fill(&mut noise);
        noise
    } else {
        random.pick(seeds).clone()
    };
    for _ in 0..random.size(8) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = random.below(bytes.len());
        let to = (at + random.size(64)).min(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.draw().to_le_bytes()[0],
            2 => {
                let value = *random.pick(&[0, 1, u64::MAX, 1 << 63, 1 << 32, 0xFFFF_FFFF, 7]);
                let size = *random.pick(&[1, 2, 4, 8]);
                crate::fixup::put(&mut bytes, at / size * size, size, value);
            }
            3 => bytes.truncate(at),
            4 => drop(bytes.drain(at..to)),
            5 => {
                let copy = bytes[at..to].to_vec();
                let place = random.below(bytes.len());
                bytes.splice(place..place, copy);
            }
            6 if !seeds.is_empty() => {
                let other = random.pick(seeds);
                let from = random.below(other.len().max(1)).min(other.len());
                let part = other[from..(from + random.size(64)).min(other.len())].to_vec();
                bytes.splice(at..to, part);
            }
            _ => random.fill(&mut bytes[at..to]),
        }
        bytes.truncate(1 << 16);
    }
    bytes
}
