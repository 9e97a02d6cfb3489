//! No nonce is used twice with one key, even if logs are killed, lose power, continue in place, or
//! are cloned and restored.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "a test reports failure by panicking, and the log made the file names"
)]

use crate::common;

use common::sample::is_long;
use common::{GEOMETRY, KEY, Random, SEGMENT_MIN};
use seawall::encryption::Key;
use seawall::{Log, Maintenance, Options, Raw};
use seawall_format::batch::{BatchHeader, HEADER_SIZE as BATCH, Life};
use seawall_format::{Offset, SegmentHeader};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Uses the operating system's random bits: those of a seed would repeat in a clone.
fn options() -> Options {
    let key = Key::new(&KEY);
    let options = Options::new().key(key).geometry(GEOMETRY, SEGMENT_MIN).segment_size(20 * 512);
    options.idle_mark(None).preallocate(false).encode_sizes(0, 100)
}

/// All chunks seen. The key is the segment's id and epoch and the nonce; the value is the chunk's
/// offset and a hash of its content.
#[derive(Default)]
struct Nonces(HashMap<(u64, u64, [u8; 12]), (usize, u64)>);

impl Nonces {
    /// Adds the nonces of a log. A copy of a chunk counts as the same chunk.
    fn take(&mut self, device: &MemStorage) {
        for name in device.names().iter().filter(|name| name.ends_with(".seg")) {
            let file = device.bytes(name).unwrap();
            let Ok(header) = SegmentHeader::decode(&file) else { continue };
            let (life, mut at) = (Life::of(&header), usize::try_from(header.data_start()).unwrap());
            while let Some(rest) = file.get(at..) {
                let place = Offset(u64::try_from(at).unwrap());
                let Some(batch) = BatchHeader::decode(rest, place, &life) else { break };
                let end = at + usize::try_from(batch.size()).unwrap();
                let mut chunk = at + BATCH + 24;
                while file.get(chunk + 4..chunk + 8).is_some_and(|size| size != [0; 4])
                    && chunk < end
                {
                    let size: [u8; 4] = file[chunk + 4..chunk + 8].try_into().unwrap();
                    let next = chunk + 40 + usize::try_from(u32::from_le_bytes(size)).unwrap();
                    let nonce = file[chunk + 24..chunk + 36].try_into().unwrap();
                    let mut hasher = DefaultHasher::new();
                    file[chunk..next].hash(&mut hasher);
                    let found = (chunk, hasher.finish());
                    match self.0.entry((header.id.get(), header.epoch.0, nonce)) {
                        Entry::Vacant(free) => drop(free.insert(found)),
                        Entry::Occupied(known) => assert_eq!(*known.get(), found, "used twice"),
                    }
                    chunk = next;
                }
                at = end;
            }
        }
    }
}

#[test]
fn no_nonce_is_used_twice() {
    let wanted = if is_long() { 1_000_000 } else { 20_000 };
    let (mut dice, mut nonces) = (Random::new(7), Nonces::default());
    let (mut pool, mut batches) = (vec![MemStorage::new()], 0);
    while nonces.0.len() < wanted {
        let from = &pool[usize::try_from(dice.below(pool.len() as u64)).unwrap()];
        let device = match dice.below(4) {
            0 => from.kill(),
            1 => from.power_cut(|_| false),
            2 => from.power_cut(|_| dice.below(2) == 0),
            _ => {
                let (source, copy) = (from.kill(), MemStorage::new());
                let source: Arc<dyn Storage> = Arc::new(source);
                let target: Arc<dyn Storage> = Arc::new(copy.clone());
                match Maintenance::on(&source).back_up_to(&target) {
                    Ok(_) => copy,
                    Err(_) => from.kill(),
                }
            }
        };
        // Opening continues after a torn tail or a lost write, and creates a missing log.
        let log: Log<[u8], Raw> = options().open_in(Arc::new(device.clone())).unwrap();
        for _ in 0..dice.below(60) {
            log.append(&common::payload(1, 1, usize::try_from(dice.below(300)).unwrap())).unwrap();
            batches += 1;
        }
        if dice.below(10) == 0 {
            log.renew_log_key().unwrap();
        }
        if dice.below(5) == 0 {
            log.truncate_before(log.durable().unwrap_or(seawall::Lsn::FIRST)).unwrap();
        }
        let left = if dice.below(2) == 0 {
            device.kill()
        } else {
            drop(log);
            device
        };
        nonces.take(&left);
        if pool.len() == 12 {
            pool.remove(usize::try_from(dice.below(12)).unwrap());
        }
        pool.push(left);
    }
    println!("{} nonces, {batches} batches", nonces.0.len());
}
