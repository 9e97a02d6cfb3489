//! Deferred deletion: files that retention removes are freed in steps, without harm to readers.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]
#![cfg(target_os = "linux")]

use crate::common;

use common::gate::{Gate, Gated};
use common::programs::output;
use common::watched::{Call, Watch, Watched};
use common::{Bytes, Scratch, lsn};
use seawall::format::SegmentId;
use seawall::{LogReader, Options, Raw, Retention};
use seawall_io::{Access, Clock, File, PosixStorage, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

const SEGMENT: u64 = 1 << 20;
/// The timeout of a wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for the preallocator to do what it must not do yet.
const WHILE: Duration = Duration::from_millis(20);

fn options() -> Options {
    let keep = Retention::new().max_bytes(2 * SEGMENT).without_checkpoints();
    Options::new().segment_size(SEGMENT).retention(keep).reuse(false)
}

/// Like `options`, but files are reused.
fn reusing() -> Options {
    options().reuse(true)
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().repeat(4096);
    bytes.truncate(32_000);
    bytes
}

/// Appends until `count` more segments were pruned.
fn append_until_pruned(log: &Bytes, count: u64) {
    let before = log.stats().pruned;
    while log.stats().pruned < before + count {
        let next = log.durable().map_or(1, |last| last.get() + 1);
        log.append(&payload(next)).unwrap();
    }
}

fn sleep(time: Duration) {
    SystemClock::new().sleep(time);
}

/// The files that lost their names, as the device saw it.
#[derive(Debug, Default)]
struct Seen {
    /// Files whose removal is durable, with their length when they lost their names.
    retired: Mutex<Vec<(Arc<dyn File>, u64)>>,
    /// Files whose removal is not durable yet, with the same length.
    loose: Mutex<Vec<(Arc<dyn File>, u64)>>,
}

impl Watch for Seen {
    fn before(&self, call: Call) {
        if call != Call::SyncDir {
            return;
        }
        let loose = std::mem::take(&mut *self.loose.lock().unwrap());
        if !loose.is_empty() {
            sleep(WHILE);
        }
        for (file, length) in loose {
            assert_eq!(file.len().unwrap(), length, "cut while its name might come back");
            self.retired.lock().unwrap().push((file, length));
        }
    }

    fn was_retired(&self, file: &Arc<dyn File>) {
        let length = file.len().unwrap();
        self.loose.lock().unwrap().push((file.clone(), length));
    }
}

impl Seen {
    /// The number of files that are not truncated to the end and are still held elsewhere.
    fn held(&self) -> usize {
        // One reference is the list's, and one its copy's.
        let is_held = |file: &Arc<dyn File>| file.len().unwrap() > 0 && Arc::strong_count(file) > 2;
        self.retired().iter().filter(|(file, _)| is_held(file)).count()
    }

    /// The number of files that were truncated, at least in part.
    fn cut(&self) -> usize {
        let is_cut = |file: &Arc<dyn File>, length| file.len().unwrap() < length;
        self.retired().iter().filter(|(file, length)| is_cut(file, *length)).count()
    }

    fn count(&self) -> usize {
        self.retired().len()
    }

    fn retired(&self) -> Vec<(Arc<dyn File>, u64)> {
        self.retired.lock().unwrap().clone()
    }
}

fn watched(scratch: &Scratch, options: &Options) -> (Bytes, Arc<Seen>) {
    let (storage, seen) =
        Watched::by(Seen::default(), PosixStorage::create(&scratch.path).unwrap());
    (options.open_in(Arc::new(storage)).unwrap(), seen)
}

#[test]
fn removed_files_are_freed_gradually_and_at_close() {
    let scratch = Scratch::new("retired");
    let (log, seen) = watched(&scratch, &options());
    append_until_pruned(&log, 8);
    let clock = SystemClock::new();
    while seen.held() > 0 {
        assert!(clock.now() < PATIENCE, "{} of {} are held", seen.held(), seen.count());
        sleep(Duration::from_millis(1));
    }
    assert!(seen.cut() >= 4, "{} of {}: the first ones are short", seen.cut(), seen.count());
    append_until_pruned(&log, 4);
    log.close().unwrap();
    assert_eq!(seen.held(), 0);
}

#[test]
fn removed_file_is_freed_at_once_without_preallocation() {
    let scratch = Scratch::new("retired-at-once");
    let (log, seen) = watched(&scratch, &options().preallocate(false));
    append_until_pruned(&log, 4);
    assert!(seen.count() >= 4);
    assert_eq!((seen.held(), seen.cut()), (0, 0));
    drop(log);
}

#[test]
fn reader_of_a_removed_segment_reads_it_to_its_end() {
    read_to_the_end("retired-read", &options(), |_| true);
}

#[test]
fn reader_of_a_removed_segment_sees_nothing_of_a_later_one() {
    read_to_the_end("reused-read", &reusing(), |log| log.stats().reused > 0);
}

fn read_to_the_end(name: &str, options: &Options, is_ready: fn(&Bytes) -> bool) {
    let scratch = Scratch::new(name);
    let log: Bytes = options.open(&scratch.path).unwrap();
    append_until_pruned(&log, 1);
    let first = log.oldest();
    let reader: LogReader<[u8], Raw> = LogReader::open(&scratch.path).unwrap();
    let mut beside = reader.read_from(first).unwrap();
    let mut here = log.read_from(first).unwrap();
    for cursor in [&mut beside, &mut here] {
        assert_eq!(cursor.next().unwrap().unwrap(), (first, payload(first.get())));
    }
    append_until_pruned(&log, 4);
    let clock = SystemClock::new();
    while !is_ready(&log) {
        assert!(clock.now() < PATIENCE, "{:?}", log.stats());
        sleep(Duration::from_millis(1));
        append_until_pruned(&log, 1);
    }
    sleep(5 * WHILE);
    // The whole first segment: some 30 records.
    for cursor in [&mut beside, &mut here] {
        let mut next = first.get() + 1;
        while let Some(Ok((number, bytes))) = cursor.next() {
            assert_eq!((number, bytes), (lsn(next), payload(next)));
            next += 1;
        }
        assert!(next > first.get() + 20, "{next} after {first}");
        assert!(next < log.oldest().get(), "all of it was removed meanwhile");
    }
}

/// A second name, such as a backup by hard links makes, keeps its content.
#[test]
fn file_with_another_name_is_not_used_again() {
    let scratch = Scratch::new("reused-linked");
    // A segment named ahead that has not begun may still become another one.
    let log: Bytes = reusing().name_ahead(false).open(&scratch.path).unwrap();
    let storage = PosixStorage::open(&scratch.path).unwrap();
    let content = |name: &str| {
        let file = storage.open(name, Access::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        Some(bytes)
    };
    let mut links: BTreeMap<String, Option<Vec<u8>>> = BTreeMap::new();
    for _ in 0..6 {
        append_until_pruned(&log, 1);
        for name in storage.list().unwrap() {
            let is_new = SegmentId::from_file_name(&name).is_some() && !links.contains_key(&name);
            let [from, to] = [name.clone(), link(&name)].map(|name| scratch.path.join(name));
            if is_new && output(Command::new("ln").args([from, to])).unwrap().status.success() {
                links.insert(name, None);
            }
        }
        append_until_pruned(&log, 1);
        for (name, held) in &mut links {
            let bytes = content(&link(name)).unwrap();
            match held {
                Some(held) => assert!(*held == bytes, "{name} has changed"),
                None if content(name).is_none() => *held = Some(bytes),
                None => {}
            }
        }
    }
    let removed = links.values().flatten().count();
    assert!(removed > 3, "{removed} of {}", links.len());
    // Files removed before the first link have only one name.
    let reused = log.stats().reused;
    assert!(reused <= 2, "{reused}: all others have a second name");
}

fn link(name: &str) -> String {
    format!("{name}.link")
}

/// Counts the files that lost their names and are still open.
#[derive(Debug, Default)]
struct OpenFiles {
    retired: Mutex<Vec<Weak<dyn File>>>,
    /// The largest number so far.
    most: AtomicUsize,
}

impl Watch for OpenFiles {
    fn before(&self, call: Call) {
        if call == Call::SyncDir {
            let retired = self.retired.lock().unwrap();
            let open = retired.iter().filter(|file| file.strong_count() > 0);
            self.most.fetch_max(open.count(), Ordering::SeqCst);
        }
    }

    fn was_retired(&self, file: &Arc<dyn File>) {
        self.retired.lock().unwrap().push(Arc::downgrade(file));
    }
}

#[test]
fn large_truncation_keeps_few_files_open() {
    // With a preallocator 64 wait, and one is being freed.
    for (preallocates, most) in [(true, 65), (false, 0)] {
        let (storage, files) = Watched::by(OpenFiles::default(), MemStorage::new());
        let options = Options::new().segment_size(SEGMENT).reuse(false).preallocate(preallocates);
        let log: Bytes = options.open_in(Arc::new(storage)).unwrap();
        let record = vec![7; 300_000];
        while log.stats().rolls < 80 {
            log.append(&record).unwrap();
        }
        log.truncate_before(log.durable().unwrap()).unwrap();
        // A file that was named ahead too late to be used may be among them.
        let retired = files.retired.lock().unwrap().len();
        assert!(retired >= 80, "{retired} files were removed");
        // The next directory sync would count files that wait, too.
        files.before(Call::SyncDir);
        let seen = files.most.load(Ordering::SeqCst);
        assert!(seen <= most, "{seen} files are open");
        assert_eq!(seen > 0, preallocates);
    }
}

/// Gives up records at either end of a log.
type Truncation = fn(&Bytes) -> seawall::Result<()>;

const TRUNCATIONS: [Truncation; 3] = [
    |log| log.truncate_before(log.durable().unwrap()).map(drop),
    |log| log.truncate_after(Some(lsn(2))),
    |log| log.checkpoint(log.durable().unwrap()),
];

/// A log that is removing the first of its files, and the thread that does.
struct Removing {
    device: MemStorage,
    log: Arc<Bytes>,
    gate: Arc<Gate>,
    caller: JoinHandle<seawall::Result<()>>,
}

impl Removing {
    fn begin(truncate: Truncation) -> Self {
        let device = MemStorage::new();
        let (storage, gate) = Gated::before(Call::Remove, device.clone());
        let options = Options::new().segment_size(SEGMENT).preallocate(false);
        let options = options.retention(Retention::new().max_bytes(SEGMENT));
        let log: Arc<Bytes> = Arc::new(options.open_in(Arc::new(storage)).unwrap());
        while log.stats().rolls < 5 {
            log.append(&vec![7; 300_000]).unwrap();
        }
        gate.shut();
        let beside = log.clone();
        let caller = spawn(move || truncate(&beside));
        gate.wait_for_somebody();
        Self { device, log, gate, caller }
    }
}

#[test]
fn records_are_committed_while_a_truncation_removes_files() {
    for truncate in TRUNCATIONS {
        let Removing { device, log, gate, caller } = Removing::begin(truncate);
        let (sender, committed) = mpsc::channel();
        let beside = log.clone();
        let commits = spawn(move || sender.send(beside.append(b"meanwhile").unwrap()).unwrap());
        let committed = committed.recv_timeout(PATIENCE);
        let crashed = device.power_cut(|_| true);
        gate.open();
        let last = committed.expect("the commit waits for the removal");
        commits.join().unwrap();
        caller.join().unwrap().unwrap();
        // Files that the crash left are removed, and only those.
        let options = Options::new().segment_size(SEGMENT);
        let after: Bytes = options.open_in(Arc::new(crashed.clone())).unwrap();
        assert_eq!((after.oldest(), after.durable()), (log.oldest(), Some(last)));
        let found: Vec<_> =
            after.read_from(after.oldest()).unwrap().map(|entry| entry.unwrap().0).collect();
        assert_eq!((found.first(), found.last()), (Some(&after.oldest()), Some(&last)));
        drop((after, log));
        assert!(crashed.names().len() <= device.names().len() + 1, "{:?}", crashed.names());
    }
}

#[test]
fn close_waits_until_a_truncation_has_removed_its_files() {
    for truncate in TRUNCATIONS {
        let Removing { device, log, gate, caller } = Removing::begin(truncate);
        let beside = log.clone();
        let close = spawn(move || beside.close_shared());
        sleep(WHILE);
        let is_locked = device.is_locked("lock").unwrap();
        assert!(is_locked && !close.is_finished(), "a second writer may open the log");
        gate.open();
        close.join().unwrap().unwrap();
        caller.join().unwrap().unwrap();
    }
}

#[test]
fn failed_removal_of_a_truncation_poisons_the_log() {
    for truncate in TRUNCATIONS {
        let Removing { device, log, gate, caller } = Removing::begin(truncate);
        device.fail_sync(0, |_| false);
        gate.open();
        let refused = caller.join().unwrap().unwrap_err();
        assert!(matches!(refused, seawall::Error::Poisoned { .. }), "{refused}");
        let refused = log.append(b"later").unwrap_err();
        assert!(matches!(refused, seawall::Error::Poisoned { .. }), "{refused}");
    }
}
