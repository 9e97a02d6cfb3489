//! A view with patches applied, against plain bytes with the same patches applied.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::images::{End, Fill, batches, spoil, write};
use common::{Random, judge};
use seawall::Maintenance;
use seawall::repair::{Overlay, Patch, RepairSource};
use seawall::verify::Verdict;
use seawall_io::{Access, File, Storage};
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The expected files, as plain bytes.
type Files = BTreeMap<String, Vec<u8>>;

fn number(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(u64::try_from(end).unwrap())).unwrap()
}

fn some_bytes(random: &mut Random, most: usize) -> Vec<u8> {
    (0..number(random, most)).map(|_| random.next().unwrap().to_le_bytes()[0]).collect()
}

/// Applies a patch to plain bytes.
fn apply(files: &mut Files, patch: &Patch) {
    let bytes = files.entry(patch.file.clone()).or_default();
    let at = usize::try_from(patch.offset).unwrap();
    let end = at + patch.new.len();
    if !patch.new.is_empty() && bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(&patch.new);
}

fn patch(random: &mut Random, files: &Files) -> Patch {
    let file = ["one", "two", "made"][number(random, 3)].to_owned();
    let length = files.get(&file).map_or(0, Vec::len);
    // Some patches begin exactly at the end of the file.
    let offset = number(random, length + 3).min(length);
    let new = some_bytes(random, 40);
    let old = files.get(&file).map_or(&[][..], |bytes| &bytes[offset..]);
    let old = old[..old.len().min(new.len())].to_vec();
    Patch::new(file, u64::try_from(offset).unwrap(), (old, new), RepairSource::Replica)
}

fn read(file: &dyn File, at: usize, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0xEE; length];
    let read = file.read_at(&mut bytes, u64::try_from(at).unwrap())?;
    assert!(bytes[read..].iter().all(|byte| *byte == 0xEE), "what was not read stays");
    bytes.truncate(read);
    Ok(bytes)
}

#[test]
fn view_shows_patched_bytes_at_every_offset() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (device, mut files) = (MemStorage::new(), Files::new());
        for name in ["one", "two", "not touched"] {
            let bytes = some_bytes(&mut random, 120);
            device.create(name).unwrap().write_at(&bytes, 0).unwrap();
            files.insert(name.to_owned(), bytes);
        }
        let before = files.clone();
        let mut patches = vec![];
        for _ in 0..number(&mut random, 9) {
            patches.push(patch(&mut random, &files));
            apply(&mut files, patches.last().unwrap());
        }
        let view = Overlay::new(Arc::new(device.clone()), &patches);
        let names: Vec<_> = files.keys().cloned().collect();
        assert_eq!(view.list().unwrap(), names, "seed {seed}");
        for (name, bytes) in &files {
            let file = view.open(name, Access::Read).unwrap();
            assert_eq!(file.len().unwrap(), u64::try_from(bytes.len()).unwrap(), "seed {seed}");
            for at in 0..bytes.len() + 3 {
                for length in [0, 1, 2, 7, 30, 200] {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let found = read(&*file, at, length).unwrap();
                    let expected = &rest[..rest.len().min(length)];
                    assert_eq!(found, expected, "seed {seed}, {name} {at} {length}: {patches:?}");
                }
            }
        }
        for (name, bytes) in before {
            assert_eq!(device.bytes(&name), Some(bytes), "seed {seed}: nothing is written");
        }
    }
}

#[test]
fn patched_range_is_not_read_from_the_device() {
    let device = MemStorage::new();
    device.create("one").unwrap().write_at(&[1; 1024], 0).unwrap();
    device.fail_read("one", 512..600);
    let whole = |from: u64, length| {
        Patch::new("one", from, (vec![0; length], vec![2; length]), RepairSource::Parity)
    };
    let part = Overlay::new(Arc::new(device.clone()), &[whole(512, 80)]);
    read(&*part.open("one", Access::Read).unwrap(), 0, 1024).unwrap_err();
    let all = Overlay::new(Arc::new(device), &[whole(512, 80), whole(592, 8)]);
    let found = read(&*all.open("one", Access::Read).unwrap(), 0, 1024).unwrap();
    assert_eq!(found, [vec![1; 512], vec![2; 88], vec![1; 424]].concat());
}

#[test]
fn view_refuses_every_change() {
    let device = MemStorage::new();
    device.create("one").unwrap();
    let before = device.steps();
    let view = Overlay::new(Arc::new(device.clone()), &[]);
    let file = view.open("one", Access::Read).unwrap();
    let refusals = [
        view.open("one", Access::ReadWrite).map(drop),
        view.create("two").map(drop),
        view.rename("one", "two"),
        view.remove("one"),
        view.lock_file("live").map(drop),
        view.lock("lock").map(drop),
        view.folder("quarantine").map(drop),
        file.write_at(b"x", 0),
        file.write_synced(b"x", 0),
        file.set_len(0),
        file.fill_with_zeros(1),
        file.allocate(1),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        assert!(refusal.is_err(), "number {index} of them");
    }
    assert_eq!((device.steps(), device.names()), (before, vec!["one".to_owned()]));
    // Syncs are allowed: they only make durable what others wrote.
    file.sync().and_then(|()| view.sync_dir()).unwrap();
    assert_eq!(view.open("two", Access::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn damaged_log_is_verified_as_if_repaired() {
    let image = write(End::Closed);
    let name = "000000000001.seg";
    let (_, batches) = batches(&image.device, name);
    let (begin, end, _) = batches[1];
    let damaged = image.device.kill();
    damaged.edit(name, |bytes| spoil(&mut bytes[begin..end], Fill::Zeros));
    assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Lost);
    let (was, is) = (image.device.bytes(name).unwrap(), damaged.bytes(name).unwrap());
    let (old, new) = (is[begin..end].to_vec(), was[begin..end].to_vec());
    let offset = u64::try_from(begin).unwrap();
    let patch = Patch::new(name, offset, (old, new), RepairSource::Replica);
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(Arc::new(damaged.clone()), &[patch]));
    assert_eq!(Maintenance::on(&view).verify().unwrap().verdict, Verdict::Clean);
    assert_eq!(judge(&damaged).unwrap().verdict, Verdict::Lost, "the log itself stays");
}
