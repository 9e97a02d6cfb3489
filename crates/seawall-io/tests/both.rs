//! Both storages behave the same: one script, and random operations, run on both.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use std::fs;
use std::io;
use std::path::PathBuf;

use seawall_io::{Access, AlignedMemory, Entropy, PosixStorage, Recycled, SeededEntropy, Storage};
use seawall_testkit::MemStorage;

/// A real directory that is removed when the test ends.
struct Scratch {
    path: PathBuf,
    storage: PosixStorage,
}

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("seawall-io-both-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let storage = PosixStorage::create(&path).unwrap();
        Self { path, storage }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn on_both(test: &str, promise: impl Fn(&dyn Storage)) {
    promise(&MemStorage::new());
    promise(&Scratch::new(test).storage);
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn only_plain_file_names_are_allowed() {
    on_both("names", |storage| {
        for name in ["", ".", "..", "a/b", "/", "a\0"] {
            let kinds = [
                kind(storage.open(name, Access::Read)),
                kind(storage.create(name)),
                kind(storage.rename(name, "b")),
                kind(storage.rename("b", name)),
                kind(storage.rename_new(name, "b")),
                kind(storage.rename_new("b", name)),
                kind(storage.remove(name)),
                kind(storage.recycle(name, "b")),
                kind(storage.recycle("b", name)),
                kind(storage.lock(name)),
                kind(storage.is_locked(name)),
                kind(storage.folder(name)),
            ];
            assert_eq!(kinds, [Some(io::ErrorKind::InvalidInput); 12], "{name:?}");
        }
    });
}

#[test]
fn missing_and_existing_names_are_reported() {
    on_both("kinds", |storage| {
        storage.create("file").unwrap();
        storage.folder("folder").unwrap();
        assert_eq!(kind(storage.create("file")), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(kind(storage.create("folder")), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(kind(storage.open("none", Access::Read)), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(storage.open("folder", Access::Read)), Some(io::ErrorKind::InvalidInput));
        assert_eq!(kind(storage.rename("none", "file")), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(storage.rename("file", "folder")), Some(io::ErrorKind::IsADirectory));
        assert_eq!(kind(storage.rename_new("none", "new")), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(storage.remove("none")), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(storage.recycle("none", "new")), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(storage.recycle("folder", "new")), Some(io::ErrorKind::InvalidInput));
        for taken in ["file", "folder"] {
            let recycled = storage.recycle("file", taken);
            assert_eq!(kind(recycled), Some(io::ErrorKind::AlreadyExists), "{taken}");
        }
        assert_eq!(kind(storage.folder("file")), Some(io::ErrorKind::NotADirectory));
        assert_eq!(storage.list().unwrap(), ["file"]);
    });
}

#[test]
fn file_opened_for_reading_is_not_changed() {
    on_both("reading", |storage| {
        storage.create("file").unwrap().write_at(b"kept", 0).unwrap();
        let file = storage.open("file", Access::Read).unwrap();
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        file.sync().unwrap();
        assert_eq!(file.len().unwrap(), 4);
        assert!(!file.is_empty().unwrap());
        let mut memory = AlignedMemory::default();
        let block = memory.first(4096);
        assert_eq!(file.read_uncached(block, 0).unwrap(), 4);
        assert_eq!(&block[..4], b"kept");
    });
}

#[test]
fn lock_has_one_holder_until_it_is_dropped() {
    on_both("lock", |storage| {
        assert!(!storage.is_locked("lock").unwrap());
        assert!(storage.list().unwrap().is_empty(), "looking creates nothing");
        let held = storage.lock("lock").unwrap().unwrap();
        assert!(storage.lock("lock").unwrap().is_none());
        assert!(storage.is_locked("lock").unwrap());
        assert!(storage.is_locked("lock").unwrap(), "looking does not disturb");
        assert!(storage.lock("other").unwrap().is_none(), "it is the lock of the directory");
        held.check().unwrap();
        drop(held);
        assert!(!storage.is_locked("lock").unwrap());
        assert!(storage.lock("lock").unwrap().is_some());
    });
}

#[test]
fn holder_detects_a_removed_or_replaced_lock_file() {
    on_both("lost-lock", |storage| {
        let held = storage.lock("lock").unwrap().unwrap();
        storage.remove("lock").unwrap();
        let ends = |said: io::Result<()>, with: &str| {
            let said = said.unwrap_err().to_string();
            assert!(said.ends_with(with), "{said}");
        };
        ends(held.check(), "/lock was removed");
        assert!(storage.is_locked("lock").unwrap());
        assert!(storage.lock("lock").unwrap().is_none());
        assert!(storage.list().unwrap().is_empty(), "a refused lock creates no file");
        storage.create("lock").unwrap();
        ends(held.check(), "/lock was replaced");
        assert!(storage.is_locked("lock").unwrap());
        drop(held);
        storage.lock("lock").unwrap().unwrap().check().unwrap();
    });
}

#[test]
fn file_knows_whether_it_is_linked() {
    on_both("nameless", |storage| {
        let file = storage.create("file").unwrap();
        assert!(file.has_name().unwrap());
        storage.rename("file", "other").unwrap();
        assert!(file.has_name().unwrap());
        storage.remove("other").unwrap();
        storage.create("other").unwrap();
        assert!(!file.has_name().unwrap());
        let file = storage.open("other", Access::Read).unwrap();
        storage.create("new").unwrap();
        storage.rename("new", "other").unwrap();
        assert!(!file.has_name().unwrap());
    });
}

#[test]
fn new_name_replaces_no_existing_file() {
    on_both("new-name", |storage| {
        storage.create("file").unwrap().write_at(b"mine", 0).unwrap();
        storage.create("taken").unwrap().write_at(b"theirs", 0).unwrap();
        storage.folder("folder").unwrap();
        for name in ["taken", "folder"] {
            let kind = kind(storage.rename_new("file", name));
            assert_eq!(kind, Some(io::ErrorKind::AlreadyExists), "{name}");
        }
        assert_eq!(storage.open("taken", Access::Read).unwrap().len().unwrap(), 6);
        storage.rename_new("file", "new").unwrap();
        assert_eq!(storage.list().unwrap(), ["new", "taken"]);
    });
}

#[test]
fn lock_does_not_change_the_bytes_of_its_file() {
    on_both("lock-bytes", |storage| {
        storage.create("lock").unwrap().write_at(b"kept", 0).unwrap();
        storage.lock("lock").unwrap().unwrap();
        assert_eq!(storage.open("lock", Access::Read).unwrap().len().unwrap(), 4);
    });
}

#[test]
fn only_empty_files_can_be_zero_filled() {
    on_both("zeros", |storage| {
        let file = storage.create("file").unwrap();
        file.fill_with_zeros(0).unwrap();
        file.fill_with_zeros(300_000).unwrap();
        assert_eq!(file.len().unwrap(), 300_000);
        assert_eq!(kind(file.fill_with_zeros(1)), Some(io::ErrorKind::InvalidInput));
    });
}

/// Performs one random operation and returns all of its visible effects.
fn random_operation(storage: &dyn Storage, entropy: &SeededEntropy) -> String {
    let number = |bound| entropy.random().unwrap() % bound;
    let name = || ["a", "b", "c"][usize::try_from(number(3)).unwrap()];
    let size = usize::try_from(number(2000)).unwrap();
    let bytes = vec![u8::try_from(number(256)).unwrap(); size];
    let at = number(3000);
    let result = match number(10) {
        0 | 1 => storage.create(name()).map(drop),
        2 => storage.rename(name(), name()),
        3 => storage.remove(name()),
        4 => storage.open(name(), Access::ReadWrite).and_then(|file| file.set_len(at)),
        5 => storage.open(name(), Access::ReadWrite).and_then(|file| file.sync()),
        6 => storage.sync_dir(),
        7 => recycle_and_remove(storage, name(), name()),
        _ => storage.open(name(), Access::ReadWrite).and_then(|file| file.write_at(&bytes, at)),
    };
    format!("{:?} {:?}", kind(result), content(storage))
}

/// Recycles a file and removes it. Some file systems remove the file instead of renaming it.
fn recycle_and_remove(storage: &dyn Storage, from: &str, to: &str) -> io::Result<()> {
    match storage.recycle(from, to)? {
        Recycled::Renamed(file) => {
            file.write_at(b"new", 0)?;
            storage.remove(to)
        }
        Recycled::Removed(_) => Ok(()),
    }
}

fn content(storage: &dyn Storage) -> Vec<(String, u64, Vec<u8>)> {
    let with_bytes = |name: String| {
        let file = storage.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; 6000];
        let count = file.read_at(&mut bytes, 1).unwrap();
        bytes.truncate(count);
        (name, file.len().unwrap(), bytes)
    };
    storage.list().unwrap().into_iter().map(with_bytes).collect()
}

#[test]
fn random_operations_have_the_same_effect_on_both() {
    for seed in 0..20 {
        let (memory, scratch) = (MemStorage::new(), Scratch::new(&format!("random-{seed}")));
        let (one, other) = (SeededEntropy::new(seed), SeededEntropy::new(seed));
        for step in 0..60 {
            let in_memory = random_operation(&memory, &one);
            let on_disk = random_operation(&scratch.storage, &other);
            assert!(in_memory == on_disk, "seed {seed}, step {step}: {in_memory}\n{on_disk}");
        }
        sync_everything(&memory);
        let after = memory.power_cut(|_| false);
        assert!(content(&after) == content(&memory), "seed {seed}: what was synced was lost");
    }
}

fn sync_everything(storage: &dyn Storage) {
    for name in storage.list().unwrap() {
        storage.open(&name, Access::Read).unwrap().sync().unwrap();
    }
    storage.sync_dir().unwrap();
}
