//! Every error of a public handle names its log, in `Error::log` and in the text.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common;

use common::gate::Gated;
use common::{Bytes, Scratch, block_on, lsn, open, tiny, within};
use seawall::format::CodecId;
use seawall::paper::JSONLogger;
use seawall::parity::Parity;
use seawall::{
    Codec, CodecError, Error, ErrorKind, Json, Log, LogReader, Lsn, Maintenance, OpenMode, Options,
    Raw,
};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The path that an in-memory device reports.
const MEMORY: &str = "memory";
/// Time limit of each test, in seconds.
const PATIENCE: u64 = 20;

/// A call and its error; `None` if it succeeded.
type Answer = (&'static str, Option<Error>);

/// Checks that each call failed with an error that names `log`.
fn check(log: &Path, answers: impl IntoIterator<Item = Answer>) {
    for (call, error) in answers {
        let error = error.unwrap_or_else(|| panic!("{call} succeeded"));
        assert_eq!(error.log(), Some(log), "{call}: {error:?}");
        let (text, path) = (error.to_string(), log.display().to_string());
        assert!(text.contains(&path), "{call}: {text}");
        if let Some(rest) = text.strip_prefix(&format!("log {path}: ")) {
            assert_eq!(error.without_log().to_string(), rest, "{call}");
        }
    }
}

fn check_memory(answers: impl IntoIterator<Item = Answer>) {
    check(Path::new(MEMORY), answers);
}

fn device(storage: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

/// A closed log of 100 records in several segments.
fn written() -> MemStorage {
    let storage = MemStorage::new();
    let log = open(&tiny(1), &storage).unwrap();
    for number in 0..100_u8 {
        log.append(&[number; 200]).unwrap();
    }
    log.close().unwrap();
    storage
}

/// The log of [`written`] with a flipped bit in a record of the first segment, between intact ones.
fn damaged() -> MemStorage {
    let storage = written();
    storage.edit("000000000001.seg", |bytes| {
        let record = bytes.windows(200).position(|part| part == [3; 200]);
        *bytes.get_mut(record.unwrap()).unwrap() ^= 1;
    });
    storage
}

/// A codec that encodes bytes but cannot decode them.
#[derive(Debug)]
enum Undecodable {}

impl Codec<[u8]> for Undecodable {
    type Item = ();

    const ID: CodecId = CodecId::Raw;

    fn encode(record: &[u8], payload: &mut Vec<u8>) -> Result<(), CodecError> {
        payload.extend_from_slice(record);
        Ok(())
    }

    fn decode(_: &[u8]) -> Result<(), CodecError> {
        Err("no record of this test".into())
    }
}

#[test]
fn calls_of_a_poisoned_log_name_it() {
    let storage = MemStorage::new();
    // No record is written before a call waits for it.
    let options = tiny(1).buffered(Duration::from_secs(3600), 1 << 20);
    let log = open(&options, &storage).unwrap();
    let ticket = log.submit(b"first").unwrap();
    for sync in 0..12 {
        storage.fail_sync(sync, |_| false);
    }
    check_memory([
        ("Ticket::wait", ticket.clone().wait().err()),
        ("Ticket::poll", block_on(ticket).err()),
        ("append", log.append(b"x").err()),
        ("append_batch", log.append_batch([b"x".as_slice()]).err()),
        ("submit", log.submit(b"x").err()),
        ("try_submit", log.try_submit(b"x").err()),
        ("flush", log.flush().err()),
        ("confirm", log.confirm().err()),
        ("checkpoint", log.checkpoint(Lsn::FIRST).err()),
        ("truncate_before", log.truncate_before(Lsn::FIRST).err()),
        ("truncate_after", log.truncate_after(None).err()),
        ("close", log.close().err()),
    ]);
}

#[test]
fn append_that_only_fails_while_it_waits_names_the_log() {
    let storage = MemStorage::new();
    let log = open(&tiny(1), &storage).unwrap();
    for sync in 0..12 {
        storage.fail_sync(sync, |_| false);
    }
    check_memory([("append", log.append(b"x").err())]);
}

#[test]
fn refused_records_and_positions_name_the_log() {
    let storage = written();
    let log = open(&tiny(2), &storage).unwrap();
    let large = vec![0; 9 << 20];
    check_memory([
        ("append", log.append(&large).err()),
        ("append_batch", log.append_batch([large.as_slice()]).err()),
        ("append_batch of nothing", log.append_batch([] as [&[u8]; 0]).err()),
        ("submit", log.submit(&large).err()),
        ("try_submit", log.try_submit(&large).err()),
        ("checkpoint", log.checkpoint(lsn(999)).err()),
        ("follow", log.follow(lsn(999)).err()),
    ]);
    assert!(log.truncate_before(lsn(60)).unwrap() > Lsn::FIRST);
    check_memory([
        ("read_from", log.read_from(Lsn::FIRST).err()),
        ("follow", log.follow(Lsn::FIRST).err()),
        ("get", log.get(Lsn::FIRST).err()),
        ("record_id", log.record_id(Lsn::FIRST).err()),
        ("truncate_after", log.truncate_after(Some(Lsn::FIRST)).err()),
    ]);
    let mut follower = log.follow(lsn(100)).unwrap();
    assert!(follower.next_within(Duration::ZERO).unwrap().is_some());
    log.truncate_after(Some(lsn(90))).unwrap();
    check_memory([("Follower", follower.next_within(Duration::ZERO).err())]);
    let json: Log<f64, Json> = Options::new().open_in(device(&MemStorage::new())).unwrap();
    check_memory([
        ("append", json.append(&f64::NAN).err()),
        ("append_batch", json.append_batch([&f64::NAN]).err()),
        ("submit", json.submit(&f64::NAN).err()),
        ("try_submit", json.try_submit(&f64::NAN).err()),
    ]);
}

#[test]
fn records_that_cannot_be_decoded_name_the_log() {
    let storage = MemStorage::new();
    let log: Log<[u8], Undecodable> = tiny(1).open_in(device(&storage)).unwrap();
    log.append(b"first").unwrap();
    let reader = LogReader::<[u8], Undecodable>::open_in(device(&storage)).unwrap();
    let first = Lsn::FIRST;
    check_memory([
        ("Log::get", log.get(first).err()),
        ("Log::read_from", log.read_from(first).unwrap().next().unwrap().err()),
        ("Log::follow", log.follow(first).unwrap().next_record().err()),
        ("LogReader::get", reader.get(first).err()),
        ("LogReader::read_from", reader.read_from(first).unwrap().next().unwrap().err()),
        ("Records::next_stored", reader.read_from(first).unwrap().next_stored().err()),
        ("LogReader::follow", reader.follow(first).unwrap().next_record().err()),
    ]);
}

#[test]
fn calls_that_would_block_or_find_a_full_disk_name_the_log() {
    within(PATIENCE, || {
        let storage = MemStorage::new();
        let (gated, gate) = Gated::new(storage.clone());
        let log: Bytes = tiny(1).open_in(Arc::new(gated)).unwrap();
        gate.shut();
        let refused = (0..1000).find_map(|_| log.try_submit(&[b'x'; 400]).err());
        assert!(matches!(refused, Some(Error::WouldBlock { .. })), "{refused:?}");
        check_memory([("try_submit", refused)]);
        gate.open();
        storage.limit(0);
        let refused = (0..1000).find_map(|_| log.append(&[b'x'; 400]).err());
        assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?}");
        check_memory([("append", refused)]);
    });
}

#[test]
fn call_in_a_failover_hook_names_the_log() {
    let (log, answer) = (Arc::new(OnceLock::<Bytes>::new()), Arc::new(Mutex::new(None)));
    let (inner, storage) = ((log.clone(), answer.clone()), MemStorage::new());
    let hook = move |_: &_| *inner.1.lock().unwrap() = inner.0.get().unwrap().flush().err();
    log.set(open(&tiny(1).on_failover(hook), &storage).unwrap()).unwrap();
    storage.fail_sync(0, |_| false);
    log.get().unwrap().append(b"x").unwrap();
    let refused = answer.lock().unwrap().take();
    assert!(matches!(refused, Some(Error::Reentrant { .. })), "{refused:?}");
    check_memory([("flush", refused)]);
}

#[test]
fn log_that_cannot_be_opened_is_named() {
    let storage = written();
    let other = || tiny(2).codec(CodecId::Json);
    let long = || tiny(2).type_name("x".repeat(99));
    let empty = || device(&MemStorage::new());
    let open_damaged = tiny(2).mode(OpenMode::Strict).open_in::<[u8], Raw>(device(&damaged()));
    let open = |options: Options| options.open_in::<[u8], Raw>(device(&storage)).err();
    let read = |options: Options| options.open_reader_in::<[u8], Raw>(device(&storage)).err();
    check_memory([
        ("another codec", open(other())),
        ("another codec, reader", read(other())),
        ("a long type name", open(long())),
        ("a long type name, reader", read(long())),
        ("no log", tiny(2).create(false).open_in::<[u8], Raw>(empty()).err()),
        ("no log, reader", LogReader::<[u8], Raw>::open_in(empty()).err()),
        ("no log, reader of any", LogReader::open_any_in(empty()).err()),
        ("a wrong segment size", tiny(2).segment_size(1).open_in::<[u8], Raw>(empty()).err()),
        ("damage", open_damaged.err()),
    ]);
    let _writer: Bytes = tiny(2).open_in(device(&storage)).unwrap();
    check_memory([("busy", open(tiny(3)))]);
}

#[test]
fn directory_that_is_no_log_is_named() {
    let scratch = Scratch::new("error-names-log");
    let (folder, missing) = (scratch.storage(), scratch.path.join("missing"));
    folder.create("file").unwrap();
    let file = scratch.path.join("file");
    let closed = Options::new().create(false);
    check(
        &missing,
        [
            ("open", closed.open::<[u8], Raw>(&missing).err()),
            ("open_reader", closed.open_reader::<[u8], Raw>(&missing).err()),
            ("LogReader::open", LogReader::<[u8], Raw>::open(&missing).err()),
            ("LogReader::open_any", LogReader::open_any(&missing).err()),
            ("verify", Maintenance::at(&missing).verify().err()),
        ],
    );
    check(
        &file,
        [
            ("Log::open", Log::<[u8], Raw>::open(&file).err()),
            ("LogReader::open_any", LogReader::open_any(&file).err()),
            ("verify", Maintenance::at(&file).verify().err()),
        ],
    );
    check(&scratch.path, [("Log::open", Log::<[u8], Raw>::open(&scratch.path).err())]);
    let logger = || JSONLogger::<u32>::new(&file);
    check(
        &file,
        [
            ("write", logger().write(&1).err()),
            ("write_data", logger().write_data(&1).err()),
            ("write_set", logger().write_set([&1]).err()),
            ("retrieve", logger().retrieve().err()),
            ("retrieve_iterator", logger().retrieve_iterator().err()),
        ],
    );
}

#[test]
fn readers_name_the_log_with_its_damage() {
    let reader = LogReader::<[u8], Raw>::open_in(device(&damaged())).unwrap();
    let mut cursor = reader.cursor(Lsn::FIRST).unwrap();
    let stop = loop {
        match cursor.next_record() {
            Ok(record) => assert!(record.is_some(), "the damage was not found"),
            Err(error) => break error,
        }
    };
    let Error::Damaged { damage, .. } = &stop else { panic!("{stop}") };
    let lost = damage.lost.unwrap().from;
    assert!(stop.to_string().starts_with("log memory: segment 1, offset "), "{stop}");
    assert!(stop.to_string().ends_with("; run seawall verify"), "{stop}");
    let mut follower = reader.follow(Lsn::FIRST).unwrap();
    let mut shares = reader.cursors(Lsn::FIRST, 2).unwrap();
    let share = shares.first_mut().unwrap();
    let mut records = reader.read_from(Lsn::FIRST).unwrap();
    check_memory([
        ("Cursor", Some(stop)),
        ("Cursor of several", (0..100).find_map(|_| share.next_record().err())),
        ("Records", records.find_map(Result::err)),
        ("Follower", (0..100).find_map(|_| follower.next_within(Duration::ZERO).err())),
        ("get", reader.get(lost).err()),
        ("record_id", reader.record_id(lost).err()),
        ("follow", reader.follow(lsn(999)).err()),
    ]);
}

#[test]
fn readers_name_the_log_that_lacks_the_position_or_cannot_be_read() {
    let storage = written();
    let log = open(&tiny(2), &storage).unwrap();
    log.truncate_before(lsn(60)).unwrap();
    let reader = LogReader::<[u8], Raw>::open_in(device(&storage)).unwrap();
    check_memory([
        ("read_from", reader.read_from(Lsn::FIRST).err()),
        ("cursor", reader.cursor(Lsn::FIRST).err()),
        ("cursors", reader.cursors(Lsn::FIRST, 2).err()),
        ("get", reader.get(Lsn::FIRST).err()),
        ("record_id", reader.record_id(Lsn::FIRST).err()),
        ("follow", reader.follow(Lsn::FIRST).err()),
    ]);
    let mut follower = reader.follow(lsn(100)).unwrap();
    assert!(follower.next_within(Duration::ZERO).unwrap().is_some());
    storage.fail_read("manifest", 0..4096);
    storage.fail_read("live", 0..4096);
    check_memory([
        ("open", LogReader::<[u8], Raw>::open_in(device(&storage)).err()),
        ("open_any", LogReader::open_any_in(device(&storage)).err()),
        ("oldest", reader.oldest().err()),
        ("read_from", reader.read_from(lsn(90)).err()),
        ("cursors", reader.cursors(lsn(90), 2).err()),
        ("Follower", follower.next_within(Duration::ZERO).err()),
    ]);
}

#[test]
fn maintenance_names_the_log() {
    let scratch = Scratch::new("error-names-source");
    let (target, storage) = (scratch.path.join("target"), written());
    scratch.storage();
    let log = device(&storage);
    let on = || Maintenance::on(&log);
    let writer: Bytes = open(&tiny(2), &storage).unwrap();
    check_memory([
        ("diagnose", on().diagnose().err()),
        ("plan_repair", on().plan_repair().err()),
        ("repair", on().repair().err()),
        ("plan_truncation", on().plan_truncation().err()),
        ("truncate_damaged_tail", on().truncate_damaged_tail().err()),
        ("salvage", on().salvage(&target).err()),
        ("salvage_to", on().salvage_to(device(&MemStorage::new())).err()),
        ("build_parity", on().build_parity(Parity::DEFAULT).err()),
    ]);
    writer.close().unwrap();
    storage.fail_read("manifest", 0..4096);
    check_memory([
        ("verify", on().verify().err()),
        ("protection", on().protection().err()),
        ("back_up", on().back_up(&target).err()),
        ("back_up_to", on().back_up_to(&device(&MemStorage::new())).err()),
    ]);
}

#[test]
fn path_that_is_not_utf8_is_named_by_its_bytes() {
    let scratch = Scratch::new("error-names-bytes");
    scratch.storage();
    let path = scratch.path.join(OsStr::from_bytes(b"log-\xff"));
    let log: Bytes = Options::new().open(&path).unwrap();
    let reader: LogReader<[u8], Raw> = LogReader::open(&path).unwrap();
    assert_eq!(reader.path(), path);
    check(
        &path,
        [
            ("Log::follow", log.follow(lsn(999)).err()),
            ("Log::checkpoint", log.checkpoint(lsn(999)).err()),
            ("LogReader::follow", reader.follow(lsn(999)).err()),
        ],
    );
}

#[test]
fn repair_names_the_replica_that_is_no_log() {
    let log = device(&damaged());
    let replica = MemStorage::new().folder("copy").unwrap();
    let refused = || Maintenance::on(&log).replicas_on([&replica]).plan_repair().err();
    assert_eq!(refused().map(|error| error.kind()), Some(ErrorKind::Usage));
    check(Path::new("memory/copy"), [("plan_repair", refused())]);
}
