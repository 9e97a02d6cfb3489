//! Tests of a real directory: guarantees that can be checked without a crash.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::mpsc;
use std::thread;

use super::draft::Draft;
use super::*;

/// A directory that is removed when the test ends; the storage is `log` in it.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Scratch {
    pub(super) fn new(test: &str) -> Self {
        let name = format!("seawall-io-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self { path }
    }

    pub(super) fn storage(&self) -> PosixStorage {
        PosixStorage::create(&self.log()).unwrap()
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.path.join(name)).unwrap().permissions().mode() & 0o777
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(super) fn refusal<T: std::fmt::Debug>(result: io::Result<T>, kind: io::ErrorKind) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

#[test]
fn created_files_are_accessible_to_their_owner_only() {
    let scratch = Scratch::new("modes");
    let storage = scratch.storage();
    storage.create("file").unwrap();
    storage.folder("folder").unwrap();
    storage.lock("lock").unwrap().unwrap();
    let modes = ["log", "log/file", "log/folder", "log/lock"].map(|name| scratch.mode(name));
    assert_eq!(modes, [0o700, 0o600, 0o700, 0o600]);
}

#[test]
fn directory_is_created_once() {
    let scratch = Scratch::new("once");
    refusal(PosixStorage::open(&scratch.log()), io::ErrorKind::NotFound);
    scratch.storage();
    refusal(PosixStorage::create(&scratch.log()), io::ErrorKind::AlreadyExists);
    PosixStorage::open(&scratch.log()).unwrap().sync_parent().unwrap();
}

#[test]
fn link_to_a_directory_is_followed() {
    let scratch = Scratch::new("linked-directory");
    scratch.storage().create("file").unwrap();
    let link = scratch.path.join("link");
    symlink(scratch.log(), &link).unwrap();
    for path in [link.clone(), link.join("")] {
        let storage = PosixStorage::open(&path).unwrap();
        assert_eq!(storage.list().unwrap(), ["file"]);
        storage.sync_parent().unwrap();
    }
    let circle = scratch.path.join("circle");
    symlink(&circle, &circle).unwrap();
    let said = PosixStorage::open(&circle).unwrap_err();
    let (_, source) = crate::into_parts(said);
    assert_eq!(source.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
}

#[test]
fn file_is_not_opened_as_a_directory() {
    let scratch = Scratch::new("no-directory");
    scratch.storage().create("file").unwrap();
    let path = scratch.log().join("file");
    let message = refusal(PosixStorage::open(&path), io::ErrorKind::NotADirectory);
    assert_eq!(message, format!("{} is not a directory", path.display()));
}

#[test]
fn link_in_the_directory_is_never_followed() {
    let scratch = Scratch::new("links");
    let storage = scratch.storage();
    let outside = scratch.path.join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, scratch.log().join("link")).unwrap();
    storage.create("target").unwrap();
    symlink(scratch.log().join("target"), scratch.log().join("file-link")).unwrap();

    for access in [Access::Read, Access::ReadWrite] {
        let message = refusal(storage.open("file-link", access), io::ErrorKind::InvalidInput);
        assert!(message.ends_with("it is a symbolic link"), "{message}");
    }
    refusal(storage.create("file-link"), io::ErrorKind::AlreadyExists);
    refusal(storage.lock("file-link"), io::ErrorKind::InvalidInput);
    refusal(storage.is_locked("file-link"), io::ErrorKind::InvalidInput);
    refusal(storage.folder("link"), io::ErrorKind::NotADirectory);
    assert_eq!(storage.list().unwrap(), ["target"]);
}

#[test]
fn special_file_is_refused_without_blocking() {
    let scratch = Scratch::new("pipe");
    let storage = scratch.storage();
    storage.folder("folder").unwrap();
    #[cfg(target_os = "linux")]
    rustix::fs::mknodat(&storage.directory, "pipe", FileType::Fifo, Mode::RUSR, 0).unwrap();
    #[cfg(target_os = "linux")]
    refusal(storage.open("pipe", Access::Read), io::ErrorKind::InvalidInput);
    refusal(storage.open("folder", Access::Read), io::ErrorKind::InvalidInput);
    assert!(storage.list().unwrap().is_empty());
}

/// Opening a tape rewinds it, and opening a watchdog starts it.
#[test]
#[cfg(target_os = "linux")]
fn device_is_refused_before_it_is_opened() {
    let scratch = Scratch::new("device");
    let storage = scratch.storage();
    // No machine has a device with this number; opening it would report that.
    let number = rustix::fs::makedev(4095, 1);
    let kind = FileType::CharacterDevice;
    let made = rustix::fs::mknodat(&storage.directory, "1.seg", kind, Mode::RUSR, number);
    if let Err(error) = made {
        println!("not tried: a device cannot be made here: {error}");
        return;
    }
    for access in [Access::Read, Access::ReadWrite] {
        let said = refusal(storage.open("1.seg", access), io::ErrorKind::InvalidInput);
        assert!(said.ends_with("it is not a regular file"), "{said}");
    }
    refusal(storage.lock("1.seg"), io::ErrorKind::InvalidInput);
    refusal(storage.is_locked("1.seg"), io::ErrorKind::InvalidInput);
}

#[test]
fn replaced_path_does_not_redirect_an_open_directory() {
    let scratch = Scratch::new("replaced");
    let storage = scratch.storage();
    rustix::fs::rename(scratch.log(), scratch.path.join("moved")).unwrap();
    let other = scratch.storage();
    storage.create("file").unwrap();
    assert!(other.list().unwrap().is_empty());
    let moved = PosixStorage::open(&scratch.path.join("moved")).unwrap();
    assert_eq!(moved.list().unwrap(), ["file"]);
}

#[test]
fn zero_filling_writes_every_byte() {
    let scratch = Scratch::new("zeros");
    let file = scratch.storage().create("file").unwrap();
    let length = 2 * ZEROS_SIZE + 5;
    file.fill_with_zeros(u64::try_from(length).unwrap()).unwrap();
    let mut bytes = vec![1; length + 1];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), length);
    assert!(bytes[..length].iter().all(|byte| *byte == 0));
    // Holes take no blocks of 512 bytes.
    let blocks = fs::metadata(scratch.log().join("file")).unwrap().blocks();
    assert!(blocks >= u64::try_from(length / 512).unwrap(), "{blocks} blocks");
}

#[test]
fn error_names_file_and_operation_and_keeps_errno() {
    let scratch = Scratch::new("errors");
    let storage = scratch.storage();
    storage.create("file").unwrap();
    let file = storage.open("file", Access::Read).unwrap();
    let error = file.write_at(b"x", 0).unwrap_err();
    let start = format!("cannot write {}/file: ", scratch.log().display());
    assert!(error.to_string().starts_with(&start), "{error}");
    let (_, source) = crate::into_parts(error);
    assert_eq!(source.raw_os_error(), Some(Errno::BADF.raw_os_error()));
}

#[test]
fn lock_waits_for_probes() {
    let scratch = Scratch::new("looking");
    let storage = scratch.storage();
    storage.create("lock").unwrap();
    let looking = storage.open_file("lock", OFlags::RDONLY).unwrap();
    looking.try_lock_shared().unwrap();
    let (_sender, receiver) = mpsc::channel::<()>();
    let (sender, started) = mpsc::channel();
    let looker = thread::spawn(move || {
        sender.send(()).unwrap();
        // This is a pause: nothing is ever sent.
        let _ = receiver.recv_timeout(Duration::from_millis(15));
        drop(looking);
    });
    started.recv().unwrap();
    assert!(storage.lock("lock").unwrap().is_some());
    looker.join().unwrap();
}

/// Earlier versions locked only the file.
#[test]
fn holder_of_only_the_lock_file_is_detected() {
    let scratch = Scratch::new("file-lock");
    let storage = scratch.storage();
    storage.create("lock").unwrap();
    let old = storage.open_file("lock", OFlags::RDWR).unwrap();
    old.try_lock().unwrap();
    assert!(storage.is_locked("lock").unwrap());
    assert!(storage.lock("lock").unwrap().is_none());
    drop(old);
    let _new = storage.lock("lock").unwrap().unwrap();
    let old = storage.open_file("lock", OFlags::RDWR).unwrap();
    assert!(matches!(old.try_lock(), Err(TryLockError::WouldBlock)));
}

#[test]
fn removed_and_moved_directories_are_distinguished() {
    let scratch = Scratch::new("removed-directory");
    let storage = scratch.storage();
    let held = storage.lock("lock").unwrap().unwrap();
    rustix::fs::rename(scratch.log(), scratch.path.join("moved")).unwrap();
    held.check().unwrap();
    fs::remove_dir_all(scratch.path.join("moved")).unwrap();
    let said = held.check().unwrap_err().to_string();
    assert_eq!(said, format!("{} was removed", scratch.log().display()));
}

#[test]
fn files_of_one_directory_are_locked_separately() {
    let scratch = Scratch::new("file-locks");
    let storage = scratch.storage();
    let first = storage.lock_file("first.lock").unwrap().unwrap();
    let _second = storage.lock_file("second.lock").unwrap().unwrap();
    assert!(storage.lock_file("first.lock").unwrap().is_none());
    drop(first);
    assert!(storage.lock_file("first.lock").unwrap().is_some());
}

/// Programs that delete old files skip a directory that is locked in this way.
#[test]
fn directory_itself_is_locked() {
    let scratch = Scratch::new("locked-directory");
    let storage = scratch.storage();
    #[expect(clippy::disallowed_methods, reason = "this is what a program that cleans up does")]
    let cleaner = fs::File::open(scratch.log()).unwrap();
    let held = storage.lock("lock").unwrap().unwrap();
    assert!(matches!(cleaner.try_lock(), Err(TryLockError::WouldBlock)));
    drop(held);
    cleaner.try_lock().unwrap();
    assert!(storage.lock("lock").unwrap().is_none(), "while it cleans");
}

#[test]
fn lock_on_a_file_replaced_after_opening_is_refused() {
    let scratch = Scratch::new("raced-lock");
    let storage = scratch.storage();
    let open = || {
        let _ = storage.create("lock");
        storage.open_file("lock", OFlags::RDWR).unwrap()
    };
    let hold = |file| {
        let directory = storage.lock_directory().unwrap().unwrap();
        storage.hold(directory, file, "lock").unwrap().is_some()
    };
    assert!(hold(open()));
    let old = open();
    storage.remove("lock").unwrap();
    assert!(!hold(old.try_clone().unwrap()));
    open();
    assert!(!hold(old));
}

#[test]
fn probes_do_not_see_each_other() {
    let scratch = Scratch::new("lookers");
    let storage = scratch.storage();
    storage.create("lock").unwrap();
    let looking = storage.open_file("lock", OFlags::RDONLY).unwrap();
    looking.try_lock_shared().unwrap();
    assert!(!storage.is_locked("lock").unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn boot_id_is_parsed_byte_by_byte() {
    let text = "01234567-89ab-cdef-0123-456789ABCDEF\n";
    let half = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    assert_eq!(parse_boot_id(text).unwrap().as_chunks().0, [half, half]);
    for wrong in ["", "0123", "+1234567-89ab-cdef-0123-456789abcdef", &text.repeat(2)] {
        assert_eq!(parse_boot_id(wrong), None);
    }
    assert!(boot_id().is_some());
}

#[test]
fn draft_is_renamed_when_complete_and_removed_otherwise() {
    let scratch = Scratch::new("draft");
    let draft = Draft::create(&scratch.log()).unwrap();
    draft.storage().create("file").unwrap();
    assert!(!scratch.log().exists());
    drop(draft);
    assert!(fs::read_dir(&scratch.path).unwrap().next().is_none());
    let draft = Draft::create(&scratch.path.join("log/")).unwrap();
    let storage = draft.storage();
    storage.create("file").unwrap();
    draft.finish().unwrap();
    let names: Vec<_> = fs::read_dir(&scratch.path).unwrap().collect();
    assert_eq!(names.len(), 1);
    // All later operations go to the renamed directory.
    storage.create("another").unwrap();
    assert!(scratch.log().join("file").exists() && scratch.log().join("another").exists());
}

#[test]
fn draft_never_replaces_another() {
    let scratch = Scratch::new("draft-taken");
    let draft = Draft::create(&scratch.log()).unwrap();
    refusal(Draft::create(&scratch.log()), io::ErrorKind::AlreadyExists);
    // Even an empty directory may belong to another program, also if it was created while the draft
    // was being filled.
    fs::create_dir(scratch.log()).unwrap();
    refusal(draft.finish(), io::ErrorKind::AlreadyExists);
    refusal(Draft::create(&scratch.log()), io::ErrorKind::AlreadyExists);
    refusal(Draft::create(Path::new("..")), io::ErrorKind::AlreadyExists);
    let names: Vec<_> = fs::read_dir(&scratch.path).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn draft_that_another_process_removed_has_no_name() {
    let scratch = Scratch::new("draft-removed");
    let draft = Draft::create(&scratch.log()).unwrap();
    fs::remove_dir_all(scratch.path.join("log.partial")).unwrap();
    let error = refusal(draft.finish(), io::ErrorKind::Other);
    assert!(error.ends_with("log.partial"), "{error}");
}

#[test]
fn draft_that_replaced_another_is_neither_renamed_nor_removed_by_it() {
    let scratch = Scratch::new("draft-replaced");
    let partial = scratch.path.join("log.partial");
    for finishes in [false, true] {
        let draft = Draft::create(&scratch.log()).unwrap();
        draft.storage().create("mine").unwrap();
        fs::remove_dir_all(&partial).unwrap();
        let other = Draft::create(&scratch.log()).unwrap();
        other.storage().create("theirs").unwrap();
        if finishes {
            refusal(draft.finish(), io::ErrorKind::Other);
        } else {
            drop(draft);
        }
        assert!(!scratch.log().exists(), "the other one is not complete");
        assert!(partial.join("theirs").exists());
    }
}

#[test]
fn dropped_draft_takes_its_folders_with_it() {
    let scratch = Scratch::new("draft-folders");
    let draft = Draft::create(&scratch.log()).unwrap();
    let inner = draft.storage().folder("folder").unwrap();
    inner.create("file").unwrap();
    inner.folder("empty").unwrap();
    symlink(&scratch.path, scratch.path.join("log.partial/link")).unwrap();
    drop((draft, inner));
    assert_eq!(fs::read_dir(&scratch.path).unwrap().count(), 0, "the link is not followed");
}

/// Runs `work` while the scratch directory can be changed but not read, and so not synced.
#[cfg(target_os = "linux")]
fn without_parent_sync(scratch: &Scratch, work: impl FnOnce() + Send) {
    let closed = fs::Permissions::from_mode(0o333);
    fs::set_permissions(&scratch.path, closed).unwrap();
    thread::scope(|scope| {
        let work = || {
            if rustix::process::geteuid().is_root() {
                // Of this thread only. Permissions do not apply to root.
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
            }
            work();
        };
        scope.spawn(work).join().unwrap();
    });
    fs::set_permissions(&scratch.path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn draft_whose_first_sync_fails_leaves_nothing() {
    let scratch = Scratch::new("draft-first-sync");
    without_parent_sync(&scratch, || {
        refusal(Draft::create(&scratch.log()), io::ErrorKind::PermissionDenied);
    });
    assert_eq!(fs::read_dir(&scratch.path).unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn draft_whose_last_sync_fails_is_complete_and_the_error_says_so() {
    let scratch = Scratch::new("draft-last-sync");
    let draft = Draft::create(&scratch.log()).unwrap();
    draft.storage().create("file").unwrap();
    without_parent_sync(&scratch, || {
        let error = refusal(draft.finish(), io::ErrorKind::PermissionDenied);
        assert!(error.contains("log, which is complete but may not be durable"), "{error}");
    });
    assert!(scratch.log().join("file").exists());
}

#[test]
fn direct_write_is_visible_to_readers_by_every_method() {
    check_visible(|file, bytes, offset| file.write_synced(bytes, offset));
    check_visible(|file, bytes, offset| file.write_uncached(bytes, offset));
}

fn check_visible(write: fn(&dyn File, &[u8], u64) -> io::Result<()>) {
    let scratch = Scratch::new("synced");
    let storage = scratch.storage();
    let file = storage.create("blocks").unwrap();
    file.fill_with_zeros(1 << 20).unwrap();
    file.sync().unwrap();
    // The file no longer has its old name when the direct descriptor is opened.
    storage.rename("blocks", "segment").unwrap();
    let reader = storage.open("segment", Access::Read).unwrap();
    let mut expected = vec![0; 1 << 20];
    let mut memory = crate::AlignedMemory::default();
    let places = [(0, 4096), (100, 5000), (8192, 65_536), (73_728, 131_072), (70_001, 90_000)];
    for (number, (offset, length)) in (1..).zip(places) {
        // This read puts the old bytes into the page cache.
        let mut seen = vec![1; 1 << 20];
        reader.read_at(&mut seen, 0).unwrap();
        assert!(seen == expected, "before {number}");
        let bytes = memory.first(length);
        bytes.fill(number);
        write(&*file, bytes, offset).unwrap();
        let start = usize::try_from(offset).unwrap();
        expected[start..start + length].fill(number);
        reader.read_at(&mut seen, 0).unwrap();
        assert!(seen == expected, "after {number}");
    }
    let memory = memory.first(65_537);
    assert!(write(&*file, memory, u64::MAX - 65_537).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn only_whole_blocks_bypass_the_cache() {
    use crate::direct::DirectWay;
    let scratch = Scratch::new("direct");
    let made = scratch.storage().create("file").unwrap();
    made.fill_with_zeros(1 << 20).unwrap();
    let path = scratch.log().join("file");
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let way = DirectWay::new(true);
    let mut memory = crate::AlignedMemory::default();
    let bytes: &[u8] = memory.first(1 << 18);
    for (part, offset) in
        [(1..65_537, 0), (0..65_537, 0), (0..65_536, 512), (0..4096, 0), (0..61_440, 4096)]
    {
        assert_eq!(way.write(&file, &bytes[part], offset).unwrap(), 0);
    }
    let whole = PosixFile::new(file.try_clone().unwrap(), "file".to_owned());
    let flags = whole.direct.way(&whole.file).map(|way| rustix::fs::fcntl_getfl(way).unwrap());
    assert!(flags.is_none_or(|flags| flags.contains(OFlags::DIRECT | OFlags::DSYNC)), "a barrier");
    // Without direct writes, opening the descriptor fails, so nothing bypasses the cache.
    let is_there = path_has_direct_writes(&path);
    let taken = way.write(&file, bytes, 4096).unwrap();
    assert_eq!(taken, if is_there { bytes.len() } else { 0 });
}

#[test]
fn uncached_read_returns_what_was_written_by_every_method() {
    let scratch = Scratch::new("uncached");
    let file = scratch.storage().create("file").unwrap();
    let written: Vec<u8> = (0..=250).cycle().take(200_000).collect();
    file.write_at(&written, 0).unwrap();
    let mut memory = crate::AlignedMemory::default();
    file.write_synced(memory.first(65_536), 65_536).unwrap();
    let mut expected = written;
    expected[65_536..131_072].fill(0);
    let mut memory = crate::AlignedMemory::default();
    // Whole blocks, a part of the last block, ranges after the end, and ranges that need the cache.
    for (offset, length) in
        [(0, 131_072), (61_440, 8192), (131_072, 131_072), (196_608, 4096), (204_800, 4096)]
            .into_iter()
            .chain([(262_144, 4096), (5, 4096), (4096, 5), (4096, 0)])
    {
        let start = usize::try_from(offset).unwrap().min(expected.len());
        let end = (start + length).min(expected.len());
        let buffer = memory.first(length);
        buffer.fill(255);
        assert_eq!(file.read_uncached(buffer, offset).unwrap(), end - start, "{offset}");
        assert!(buffer[..end - start] == expected[start..end], "{offset}");
    }
    let mut unaligned = [0; 8];
    assert_eq!(file.read_uncached(&mut unaligned[1..], 4096).unwrap(), 7);
    assert_eq!(unaligned[1..], expected[4096..4103]);
}

/// Runs only on file systems with direct access to a device, if the system counts the bytes read.
#[cfg(target_os = "linux")]
#[test]
fn uncached_read_reaches_the_device() {
    let scratch = Scratch::new("device-read");
    let file = scratch.storage().create("file").unwrap();
    file.write_at(&vec![7; 1 << 18], 0).unwrap();
    file.sync().unwrap();
    let read_so_far = || {
        let counts = fs::read_to_string("/proc/thread-self/io").ok()?;
        let line = counts.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        line.and_then(|count| count.parse::<u64>().ok())
    };
    let directory = fs::File::options().read(true).open(&scratch.path).unwrap();
    // The magic number of ext4.
    let is_on_device = in_place::file_system(&directory) == Some(0xEF53);
    let path = scratch.log().join("file");
    let Some(before) = read_so_far().filter(|_| is_on_device && path_has_direct_writes(&path))
    else {
        println!("not tried: the device's reads are not counted here");
        return;
    };
    let mut memory = crate::AlignedMemory::default();
    file.read_at(memory.first(1 << 18), 0).unwrap();
    assert_eq!(read_so_far(), Some(before), "from the cache");
    assert_eq!(file.read_uncached(memory.first(1 << 18), 0).unwrap(), 1 << 18);
    assert_eq!(read_so_far(), Some(before + (1 << 18)));
}

#[cfg(target_os = "linux")]
fn path_has_direct_writes(path: &Path) -> bool {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).is_ok()
}

/// Runs only on file systems that can reserve space beyond the end.
#[cfg(target_os = "linux")]
#[test]
fn reserved_space_changes_no_length_and_is_freed_by_setting_the_same_length() {
    let scratch = Scratch::new("reserved");
    let file = scratch.storage().create("text").unwrap();
    file.write_at(b"a line", 0).unwrap();
    file.sync().unwrap();
    let status = || fs::metadata(scratch.log().join("text")).unwrap();
    let before = status().blocks();
    if !file.reserve_space(1 << 20).unwrap() {
        return;
    }
    assert_eq!(status().len(), 6);
    assert!(status().blocks() >= (1 << 20) / 512, "{}", status().blocks());
    file.set_len(6).unwrap();
    file.sync().unwrap();
    assert_eq!((status().len(), status().blocks()), (6, before));
}

/// Set in the child process, which has a limit on the size of its files.
const LIMITED: &str = "SEAWALL_TEST_FILE_LIMIT";

/// The system would end the process by SIGXFSZ.
#[test]
fn limit_on_file_sizes_is_an_error_of_each_call_that_would_exceed_it() {
    if std::env::var_os(LIMITED).is_some() {
        return exceed_the_limit();
    }
    let this = std::env::current_exe().unwrap();
    let test = "posix::tests::limit_on_file_sizes_is_an_error_of_each_call_that_would_exceed_it";
    // The limit applies only to the child process, not to other tests.
    let line = format!("ulimit -c 0; ulimit -f 300; exec '{}' --exact {test}", this.display());
    let mut shell = std::process::Command::new("sh");
    let ran = shell.arg("-c").arg(line).env(LIMITED, "1").output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"), "{ran:?}");
}

fn exceed_the_limit() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap();
    let mut memory = crate::AlignedMemory::default();
    let memory = memory.first(64 << 10);
    let scratch = Scratch::new("file-limit");
    let storage = scratch.storage();
    let file = |name| storage.create(name).unwrap();
    let aligned = limit / 4096 * 4096;
    let refused = [
        file("write").write_at(&memory[..2], limit - 1),
        file("uncached").write_uncached(memory, aligned),
        file("synced").write_synced(memory, aligned),
        file("direct").write_direct(memory, aligned),
        file("length").set_len(limit + 1),
        file("allocated").allocate(limit + 1),
        file("filled").fill_with_zeros(limit + 1),
        file("reserved").reserve_space(limit + 1).map(drop),
        #[cfg(target_os = "linux")]
        crate::Memory::shared("memory", usize::try_from(limit).unwrap() + 1).map(drop),
    ];
    for refused in refused {
        let said = refusal(refused, io::ErrorKind::FileTooLarge);
        assert!(said.contains(&format!("beyond {limit} bytes")), "{said}");
    }
    for name in storage.list().unwrap() {
        assert_eq!(storage.open(&name, Access::Read).unwrap().len().unwrap(), 0, "{name}");
    }
    let full = file("full");
    full.allocate(limit).unwrap();
    full.write_at(&memory[..1], limit - 1).unwrap();
    full.set_len(limit - 1).unwrap();
}

/// Other systems do not tell the name.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn error_names_a_file_as_it_is_called_now() {
    let scratch = Scratch::new("renamed");
    let storage = scratch.storage();
    storage.create("spare").unwrap();
    let file = storage.open("spare", Access::Read).unwrap();
    let refused = || file.write_at(b"x", 0).unwrap_err().to_string();
    assert!(refused().starts_with(&format!("cannot write {}/spare: ", scratch.log().display())));
    storage.rename_new("spare", "segment").unwrap();
    let name = format!("cannot write {}/segment: ", scratch.log().display());
    assert!(refused().starts_with(&name), "{}", refused());
    storage.remove("segment").unwrap();
    assert!(refused().starts_with(&name), "{}", refused());
}
