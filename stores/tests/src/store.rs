//! A store behaves like a store in memory, also after it is reopened, and refuses invalid writes.

use crate::folder::Folder;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use seawall::format::{LogId, RecordId};
use seawall::{Log, LogReader, Lsn};
use seawall_replay::{
    Batch, Change, Edit, Error, Ingest, MemoryStore, Operation, Replay, Store, StoreError,
    Watermark, Write,
};
use seawall_tables::{Engine, OpenError, Tables};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

const TABLES: [&str; 3] = ["", "t", "u"];

/// A step that is applied to the store and to its model in memory.
#[derive(Clone, Debug)]
enum Step {
    Write(Batch),
    /// The rows of a batch, sorted. Skipped if the store has no ingestion.
    Ingest(Batch),
    Flush,
    Reopen,
}

fn edit() -> impl Strategy<Value = (usize, Edit)> {
    let key = prop::collection::vec(prop::sample::select(vec![0, 1, 0xff]), 0..4);
    let value = prop::collection::vec(any::<u8>(), 0..4);
    (0..TABLES.len(), 0..10u8, key, value).prop_map(|(table, kind, key, value)| {
        let edit = match kind {
            0 => Edit::Create { definition: value },
            1 => Edit::Drop,
            2 | 3 => Edit::Delete { key },
            _ => Edit::Put { key, value },
        };
        (table, edit)
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    let mark = (0..3u32, 0..9u64, 1..9u64);
    let writes = prop::collection::vec(edit(), 0..12);
    (writes, prop::collection::vec(mark, 0..3)).prop_map(|(edits, marks)| {
        let write = |(table, edit): (usize, Edit)| {
            // All writes belong to one record, so that its tables need different ids.
            Write { lsn: Lsn::FIRST, table: TABLES[table].to_owned(), edit }
        };
        let mark = |(partition, applied, restart)| {
            let record = |lsn: Lsn| RecordId { lsn, time_us: lsn.get() + 1, crc: 7 };
            let applied = Lsn::new(applied).map(record);
            let mark = Watermark::new(LogId(9), applied, Lsn::new(restart).unwrap());
            (partition, Watermark { partitions: 3, ..mark })
        };
        let marks: BTreeMap<u32, Watermark> = marks.into_iter().map(mark).collect();
        let writes = edits.into_iter().map(write).collect();
        Batch { writes, watermarks: marks.into_iter().collect() }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => batch().prop_map(Step::Write),
        2 => batch().prop_map(Step::Ingest),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

fn rows<E: Engine>(store: &Tables<E>, table: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    store.rows(table).collect::<Result<_, _>>().unwrap()
}

fn assert_same<E: Engine>(store: &Tables<E>, model: &MemoryStore) {
    assert_eq!(store.tables(), model.tables());
    assert_eq!(store.watermarks().unwrap(), model.watermarks().unwrap());
    for table in TABLES {
        let (rows, expected) = (rows(store, table), model.rows(table));
        assert_eq!(rows, expected);
        for key in [&b""[..], &[0], &[1], &[0xff], &[0, 0xff]] {
            assert_eq!(store.get(table, key).unwrap(), model.get(table, key).unwrap());
        }
    }
}

/// Applies random steps to the store and to a model in memory.
///
/// # Panics
///
/// If they differ.
pub fn store_behaves_like_a_memory_store<E: Engine>() {
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() };
    let steps = prop::collection::vec(step(), 1..40);
    let mut runner = TestRunner::new(config);
    runner
        .run(&steps, |steps| {
            compare::<E>(steps);
            Ok(())
        })
        .unwrap();
}

fn compare<E: Engine>(steps: Vec<Step>) {
    let folder = Folder::new(&format!("same-{}", E::NAME));
    let path = folder.0.join("store");
    let (mut store, model) = (Tables::<E>::open(&path).unwrap(), MemoryStore::new());
    for step in steps {
        match step {
            Step::Write(batch) => {
                let (done, expected) = (store.write(&batch), model.write(&batch));
                let words = |done: Result<(), StoreError>| done.map_err(|error| error.to_string());
                assert_eq!(words(done), words(expected));
            }
            Step::Ingest(batch) => {
                let Some(ingestion) = store.ingestion() else { continue };
                let Batch { writes, watermarks } = sorted(batch, ingestion);
                let done = ingestion.ingest(&mut writes.iter(), &watermarks);
                assert_eq!(done.is_ok(), model.write(&Batch { writes, watermarks }).is_ok());
            }
            Step::Flush => store.flush().unwrap(),
            Step::Reopen => {
                drop(store);
                store = Tables::open(&path).unwrap();
            }
        }
        assert_same(&store, &model);
    }
    drop(store);
    assert_same(&Tables::<E>::open(&path).unwrap(), &model);
}

/// Returns the rows of a batch in the order that an ingestion requires.
fn sorted(batch: Batch, ingestion: &dyn Ingest) -> Batch {
    let mut rows: BTreeMap<String, BTreeMap<Vec<u8>, Write>> = BTreeMap::new();
    for write in batch.writes {
        let (Edit::Put { key, .. } | Edit::Delete { key }) = &write.edit else { continue };
        rows.entry(write.table.clone()).or_default().insert(key.clone(), write);
    }
    let mut tables: Vec<String> = rows.keys().cloned().collect();
    ingestion.sort_tables(&mut tables);
    let rows = |table: String| rows.remove(&table).unwrap().into_values();
    Batch { writes: tables.into_iter().flat_map(rows).collect(), watermarks: batch.watermarks }
}

fn write(lsn: u64, table: &str, edit: Edit) -> Write {
    Write { lsn: Lsn::new(lsn).unwrap(), table: table.to_owned(), edit }
}

fn put(table: &str, key: impl Into<Vec<u8>>) -> Write {
    write(1, table, Edit::Put { key: key.into(), value: b"v".to_vec() })
}

fn create(lsn: u64, table: &str) -> Write {
    write(lsn, table, Edit::Create { definition: vec![] })
}

fn batch_of(writes: Vec<Write>) -> Batch {
    Batch { writes, watermarks: vec![] }
}

/// Returns the number of database entries of a kind.
fn count<E: Engine>(store: &Tables<E>, kind: u8) -> usize {
    let range = (Bound::Included(vec![kind]), Bound::Excluded(vec![kind + 1]));
    store.engine().scan(range).unwrap().count()
}

/// Checks that a dropped table is empty at once, and that a flush frees its space.
///
/// # Panics
///
/// If a count of rows or entries is wrong.
pub fn dropped_rows_vanish_at_once_and_their_space_at_the_next_flush<E: Engine>() {
    let folder = Folder::new(&format!("drop-{}", E::NAME));
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    let keys = || (0..1000u16).map(|key| put("t", key.to_be_bytes()));
    store.write(&batch_of([create(1, "t")].into_iter().chain(keys()).collect())).unwrap();
    store.write(&batch_of(vec![put("", "kept")])).unwrap();
    store.write(&batch_of(vec![write(2, "t", Edit::Drop), create(3, "t")])).unwrap();
    assert_eq!((rows(&store, "t").len(), count(&store, 1), count(&store, 4)), (0, 1001, 1));

    // Simulates a kill during the sweep.
    let table = |id: u64| Bound::Included([&[1][..], &id.to_be_bytes()].concat());
    let dropped = store.engine().scan((table(1), table(2))).unwrap().skip(100).step_by(3);
    let keys: Vec<Vec<u8>> = dropped.map(|row| row.unwrap().0).collect();
    store
        .engine()
        .write(keys.len(), |edits| keys.iter().try_for_each(|key| edits.remove(key)))
        .unwrap();
    drop(store);
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    assert_eq!((count(&store, 1), count(&store, 4)), (701, 1));
    store.write(&batch_of(vec![put("t", "new")])).unwrap();
    store.flush().unwrap();
    assert_eq!((count(&store, 1), count(&store, 4)), (2, 0));
    assert_eq!((rows(&store, "t").len(), rows(&store, "").len()), (1, 1));
}

/// Checks that tables created by the same record do not share rows.
///
/// # Panics
///
/// If a table has wrong rows.
pub fn tables_created_by_one_record_have_separate_rows<E: Engine>() {
    let folder = Folder::new(&format!("one-record-{}", E::NAME));
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    let both = vec![create(5, "a"), create(5, "b"), put("a", "k"), create(6, "c")];
    store.write(&batch_of(both)).unwrap();
    drop(store);
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    let counts = ["a", "b", "c"].map(|table| rows(&store, table).len());
    assert_eq!(counts, [1, 0, 0]);
    store.write(&batch_of(vec![write(7, "a", Edit::Drop)])).unwrap();
    store.write(&batch_of(vec![create(8, "a")])).unwrap();
    assert_eq!(rows(&store, "a").len(), 0);
}

/// Checks that a batch with a key or table name that is too long changes nothing.
///
/// # Panics
///
/// If such a batch is not refused, or changes the store.
pub fn batch_with_a_longer_key_than_allowed_is_refused_whole<E: Engine>() {
    let folder = Folder::new(&format!("long-{}", E::NAME));
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    let longest = 65_535 - 9;
    for wrong in [put("", vec![7; longest + 1]), create(1, &"t".repeat(65_535))] {
        let why = store.write(&batch_of(vec![put("", "k"), wrong])).unwrap_err().to_string();
        let limits = ["65526", "65534"].map(|max| format!("bytes, and {} takes {max}", E::NAME));
        assert!(limits.iter().any(|limit| why.ends_with(limit)), "{why}");
    }
    assert_eq!(rows(&store, "").len(), 0);
    store
        .write(&batch_of(vec![put("", vec![7; longest]), create(1, &"t".repeat(65_534))]))
        .unwrap();
    assert_eq!(store.get("", &vec![7; longest]).unwrap(), Some(b"v".to_vec()));
    assert_eq!(store.get("", &vec![7; longest + 1]).unwrap(), None);
}

/// Checks that a store that is open, foreign or of an unknown format is not opened.
///
/// # Panics
///
/// If such a store is opened or changed.
pub fn open_or_foreign_or_unknown_store_is_refused<E: Engine>() {
    let folder = Folder::new(&format!("open-{}", E::NAME));
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    let path = folder.0.join("store");
    let locked = Tables::<E>::open(&path).unwrap_err();
    assert!(matches!(locked, OpenError::Locked { .. }), "{locked}");
    store.engine().write(1, |edits| edits.put(&[0], &[2])).unwrap();
    drop(store);
    let foreign = Tables::<E>::open(&path).unwrap_err().to_string();
    assert!(foreign.ends_with("the format is [2], not [1]"), "{foreign}");

    let other = folder.0.join("other");
    drop(Log::<u32>::open(&other).unwrap());
    assert_refused_unchanged::<E>(&other);
    let text = folder.0.join("text");
    std::fs::write(&text, "not a database, and longer than the header of one".repeat(9)).unwrap();
    assert_refused_unchanged::<E>(&text);
}

/// Checks that something else is refused, and that neither it nor its folder is changed.
///
/// # Panics
///
/// If it is opened, or anything is changed.
pub fn assert_refused_unchanged<E: Engine>(path: &Path) {
    let folder = path.parent().unwrap();
    let before = content(folder);
    let found = Tables::<E>::exists(path);
    // An open can find what this did not, for example in SQLite's write-ahead log.
    assert!(matches!(found, Ok(true) | Err(OpenError::Foreign { .. })), "{found:?}");
    let refused = Tables::<E>::open(path).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert!(content(folder) == before, "{} is left alone", path.display());
}

/// Returns all names in a folder, with the content of files.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(content(&path));
            found.insert(path, None);
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, Some(bytes));
        }
    }
    found
}

/// Checks that a store is found only if opening does not create it.
///
/// # Panics
///
/// If it is found too early, too late, or if the search changes something.
pub fn store_exists_once_it_was_opened<E: Engine>() {
    let folder = Folder::new(&format!("exists-{}", E::NAME));
    let path = folder.0.join("store");
    assert!(!Tables::<E>::exists(&path).unwrap());
    assert_eq!(content(&folder.0), BTreeMap::new());
    let store = Tables::<E>::open(&path).unwrap();
    assert!(Tables::<E>::exists(&path).unwrap(), "another handle is no obstacle");
    drop(store);
    let before = content(&folder.0);
    assert!(Tables::<E>::exists(&path).unwrap());
    assert!(content(&folder.0) == before);
}

/// Appends keys to the log, each in its own transaction.
fn log_puts(log: &Log<Operation>, name: &str, count: u64) {
    for number in 0..count {
        log.append(&Change::put("", format!("{name}{number}"), "v").into()).unwrap();
    }
}

/// Checks that a replay refuses a store of another log, or with records that the log lost.
///
/// # Panics
///
/// If such a store is accepted or changed.
pub fn store_of_another_log_or_of_truncated_records_is_refused<E: Engine>() {
    let folder = Folder::new(&format!("history-{}", E::NAME));
    let path = folder.0.join("log");
    let log: Log<Operation> = Log::open(&path).unwrap();
    log_puts(&log, "k", 10);
    let replay = |path: &Path, store: &Tables<E>| {
        let reader: LogReader<Operation> = LogReader::open(path).unwrap();
        Replay::new().run(&reader, store).map(|report| report.applied)
    };
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    assert_eq!(replay(&path, &store).unwrap(), 10);
    drop(store);
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    assert_eq!(replay(&path, &store).unwrap(), 0);
    seawall::Maintenance::at(&path).back_up(folder.0.join("copied")).unwrap();
    assert_eq!(replay(&folder.0.join("copied"), &store).unwrap(), 0);

    log.truncate_after(Lsn::new(5)).unwrap();
    log_puts(&log, "n", 7);
    let before = rows(&store, "");
    let refused = replay(&path, &store).unwrap_err();
    assert!(matches!(refused, Error::OtherHistory { .. }), "{refused}");
    let other: Log<Operation> = Log::open(folder.0.join("other")).unwrap();
    log_puts(&other, "x", 15);
    let refused = replay(&folder.0.join("other"), &store).unwrap_err();
    assert!(matches!(refused, Error::OtherLog { .. }), "{refused}");
    assert_eq!(rows(&store, ""), before);
}

/// Checks that a store with old watermarks, which have no log id, is refused until it is adopted.
///
/// # Panics
///
/// If the store is accepted before that.
pub fn watermarks_of_an_earlier_version_have_no_log_id<E: Engine>() {
    let folder = Folder::new(&format!("older-{}", E::NAME));
    let path = folder.0.join("log");
    let log: Log<Operation> = Log::open(&path).unwrap();
    log_puts(&log, "k", 10);
    let reader: LogReader<Operation> = LogReader::open(&path).unwrap();
    let store = Tables::<E>::open(folder.0.join("store")).unwrap();
    Replay::new().until(Lsn::new(6).unwrap()).run(&reader, &store).unwrap();
    let key = [3, 0, 0, 0, 0];
    let bytes = store.engine().get(&key).unwrap().unwrap();
    store.engine().write(1, |edits| edits.put(&key, &bytes[..24])).unwrap();
    let refused = Replay::new().run(&reader, &store).unwrap_err();
    assert!(matches!(refused, Error::Unproven { .. }), "{refused}");
    assert_eq!(Replay::new().adopt().run(&reader, &store).unwrap().applied, 4);
    assert_eq!(Replay::new().run(&reader, &store).unwrap().applied, 0);
    assert_eq!(rows(&store, "").len(), 10);
}
