//! Readers and other names of a file protect its bytes from removal and reuse.

use super::super::tests::{Scratch, refusal};
use super::*;
use crate::storage::Access;

/// Removes a file of 4,096 bytes with `retire`; returns the number of bytes that can be freed in
/// steps.
fn retired(storage: &PosixStorage, name: &str) -> Option<u64> {
    let rest = storage.retire(name).unwrap();
    refusal(storage.open(name, Access::Read), io::ErrorKind::NotFound);
    rest.map(|file| file.len().unwrap())
}

#[test]
fn retired_file_is_truncated_only_if_nobody_has_it_open() {
    let scratch = Scratch::new("retired");
    let storage = scratch.storage();
    let make = |name: &str| storage.create(name).unwrap().write_at(&[7; 4096], 0).unwrap();
    refusal(storage.retire("none"), io::ErrorKind::NotFound);
    refusal(storage.retire("a/b"), io::ErrorKind::InvalidInput);
    make("alone");
    assert_eq!(retired(&storage, "alone"), Some(4096));
    let is_alone_again = || {
        make("closed");
        drop(storage.open("closed", Access::Read).unwrap());
        retired(&storage, "closed") == Some(4096)
    };
    // A child process of another test may hold the file for a moment.
    assert!((0..100).any(|_| is_alone_again()));
    // Another process has its own handle of the directory.
    make("read");
    let reader = PosixStorage::open(&scratch.log()).unwrap().open("read", Access::Read).unwrap();
    assert_eq!(retired(&storage, "read"), None);
    let mut bytes = [0; 4096];
    assert_eq!((reader.read_at(&mut bytes, 0).unwrap(), bytes), (4096, [7; 4096]));
    // A file with a second name is a copy that is in use.
    make("linked");
    fs::hard_link(scratch.log().join("linked"), scratch.path.join("copy")).unwrap();
    assert_eq!(retired(&storage, "linked"), None);
    let copy = PosixStorage::open(&scratch.path).unwrap().open("copy", Access::Read).unwrap();
    assert_eq!((copy.read_at(&mut bytes, 0).unwrap(), bytes), (4096, [7; 4096]));
}

#[test]
fn retired_file_cannot_be_opened() {
    let scratch = Scratch::new("late");
    let storage = scratch.storage();
    let make = |name: &str| storage.create(name).unwrap().write_at(&[7; 64], 0).unwrap();
    make("file");
    // The reader has opened the file, but does not hold the shared lock yet.
    let late = storage.open_file("file", OFlags::RDONLY).unwrap();
    let rest = storage.retire("file").unwrap().unwrap();
    assert!(!storage.share(&late, "file").unwrap());
    drop(rest);
    // A lock on a file that still has its name does not prevent opening.
    make("file");
    let held = storage.open_file("file", OFlags::RDWR).unwrap();
    held.try_lock().unwrap();
    assert_eq!(storage.open("file", Access::Read).unwrap().len().unwrap(), 64);
}

fn make(storage: &PosixStorage, name: &str) {
    storage.create(name).unwrap().write_at(&[7; 4096], 0).unwrap();
}

fn first_bytes(file: &dyn File) -> (usize, [u8; 4096]) {
    let mut bytes = [0; 4096];
    (file.read_at(&mut bytes, 0).unwrap(), bytes)
}

/// Returns whether this file system overwrites files in place, so that they can be recycled.
fn keeps_files(storage: &PosixStorage) -> bool {
    make(storage, "probe");
    let file = storage.open_file("probe", OFlags::RDWR).unwrap();
    storage.remove("probe").unwrap();
    in_place::overwrites_in_place(&file)
}

#[test]
fn recycled_file_has_its_bytes_and_the_new_name() {
    let scratch = Scratch::new("recycled");
    let storage = scratch.storage();
    let is_kept = keeps_files(&storage);
    make(&storage, "1.seg");
    match storage.recycle("1.seg", "spare").unwrap() {
        Recycled::Renamed(file) => {
            assert!(is_kept);
            assert_eq!(storage.list().unwrap(), ["spare"]);
            file.write_at(&[8], 1).unwrap();
            let (count, bytes) = first_bytes(&*file);
            assert_eq!((count, &bytes[..3]), (4096, &[7, 8, 7][..]));
        }
        Recycled::Removed(file) => {
            assert!(!is_kept);
            assert!(storage.list().unwrap().is_empty());
            assert_eq!(file.unwrap().len().unwrap(), 4096);
        }
    }
    refusal(storage.open("1.seg", Access::Read), io::ErrorKind::NotFound);
}

/// The handle that the first `recycle` returned must not hide a reader from the second.
#[test]
fn readers_of_the_next_contents_are_noticed() {
    let scratch = Scratch::new("recycled-again");
    let storage = scratch.storage();
    make(&storage, "1.seg");
    let Recycled::Renamed(file) = storage.recycle("1.seg", "spare").unwrap() else {
        assert!(!keeps_files(&storage));
        return;
    };
    storage.rename_new("spare", "2.seg").unwrap();
    let reader = storage.open("2.seg", Access::Read).unwrap();
    let recycled = storage.recycle("2.seg", "spare").unwrap();
    assert!(matches!(recycled, Recycled::Removed(None)), "{recycled:?}");
    assert_eq!(first_bytes(&*reader), (4096, [7; 4096]));
    drop(file);
}

#[test]
fn file_with_another_name_or_a_reader_is_not_used_again() {
    let scratch = Scratch::new("not-recycled");
    let storage = scratch.storage();
    make(&storage, "linked");
    fs::hard_link(scratch.log().join("linked"), scratch.path.join("copy")).unwrap();
    let recycled = storage.recycle("linked", "spare").unwrap();
    assert!(matches!(recycled, Recycled::Removed(None)), "{recycled:?}");
    let outside = PosixStorage::open(&scratch.path).unwrap();
    let copy = outside.open("copy", Access::Read).unwrap();
    assert_eq!(first_bytes(&*copy), (4096, [7; 4096]));
    // Another process has its own handle of the directory.
    make(&storage, "read");
    let reader = PosixStorage::open(&scratch.log()).unwrap().open("read", Access::Read).unwrap();
    let recycled = storage.recycle("read", "spare").unwrap();
    assert!(matches!(recycled, Recycled::Removed(None)), "{recycled:?}");
    assert_eq!(first_bytes(&*reader), (4096, [7; 4096]));
    assert!(storage.list().unwrap().is_empty());
}

#[test]
fn reader_that_is_late_finds_no_file() {
    let scratch = Scratch::new("recycled-late");
    let storage = scratch.storage();
    make(&storage, "file");
    // The reader has opened the file, but does not hold the shared lock yet.
    let late = storage.open_file("file", OFlags::RDONLY).unwrap();
    let _kept = storage.recycle("file", "spare").unwrap();
    assert!(!storage.share(&late, "file").unwrap());
    // The old handle stays refused when a new file takes the name; opening again works.
    make(&storage, "file");
    assert!(!storage.share(&late, "file").unwrap());
    assert_eq!(first_bytes(&*storage.open("file", Access::Read).unwrap()), (4096, [7; 4096]));
}

#[test]
fn refused_recycling_changes_nothing() {
    let scratch = Scratch::new("recycle-refused");
    let storage = scratch.storage();
    make(&storage, "file");
    storage.create("taken").unwrap();
    storage.folder("folder").unwrap();
    std::os::unix::fs::symlink("file", scratch.log().join("link")).unwrap();
    refusal(storage.recycle("none", "spare"), io::ErrorKind::NotFound);
    for taken in ["taken", "folder", "link", "file"] {
        refusal(storage.recycle("file", taken), io::ErrorKind::AlreadyExists);
    }
    refusal(storage.recycle("file", "a/b"), io::ErrorKind::InvalidInput);
    refusal(storage.recycle("a/b", "spare"), io::ErrorKind::InvalidInput);
    let said = refusal(storage.recycle("link", "spare"), io::ErrorKind::InvalidInput);
    let link = scratch.log().join("link");
    assert_eq!(said, format!("cannot recycle {}: it is a symbolic link", link.display()));
    let said = refusal(storage.recycle("folder", "spare"), io::ErrorKind::InvalidInput);
    assert!(said.ends_with("it is not a regular file"), "{said}");
    assert_eq!(storage.list().unwrap(), ["file", "taken"]);
    assert_eq!(storage.list_others().unwrap(), ["folder", "link"]);
    let file = storage.open("file", Access::Read).unwrap();
    assert_eq!(first_bytes(&*file), (4096, [7; 4096]));
}

/// Runs only on file systems that can clone a file.
#[cfg(target_os = "linux")]
#[test]
fn clone_of_a_file_keeps_its_bytes() {
    let scratch = Scratch::new("recycled-clone");
    let storage = scratch.storage();
    make(&storage, "file");
    make(&storage, "clone");
    let open = |name: &str| storage.open_file(name, OFlags::RDWR).unwrap();
    if let Err(error) = rustix::fs::ioctl_ficlone(open("clone"), open("file")) {
        println!("not tried: a file cannot be cloned here: {error}");
        return;
    }
    if let Recycled::Renamed(file) = storage.recycle("file", "spare").unwrap() {
        file.write_at(&[8; 4096], 0).unwrap();
        file.sync().unwrap();
    }
    let clone = storage.open("clone", Access::Read).unwrap();
    assert_eq!(first_bytes(&*clone), (4096, [7; 4096]));
}

#[cfg(target_os = "linux")]
#[test]
fn unknown_file_system_counts_as_copying() {
    let process = fs::File::options().read(true).open("/proc/self/stat").unwrap();
    assert!(!in_place::overwrites_in_place(&process));
}
