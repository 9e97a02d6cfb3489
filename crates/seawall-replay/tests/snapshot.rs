//! Dumps beside a log: after any crash, and with either dump lost, the state is restored exactly.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::common::sample::{Sample, is_long, seed};
use seawall::format::Geometry;
use seawall::{Log, Lsn, Options, Raw, Retention};
use seawall_io::{Access, PosixStorage, Storage};
use seawall_replay::{PassedOver, Reason, Restored, SnapshotError, Snapshots, Snapshotter};
use seawall_testkit::{CrashTest, Dice, FaultDisk, MemStorage, Tried};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type TestLog = Log<[u8], Raw>;
type Result<T> = std::result::Result<T, SnapshotError>;
type Found = std::result::Result<Vec<u64>, String>;

/// All values applied, in order, so that a missing or repeated one is visible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ledger {
    values: Vec<u64>,
}

/// A program with a log, dumps and a state.
struct Program {
    log: TestLog,
    snapshotter: Snapshotter<Ledger>,
    restored: Restored<Ledger>,
    last: Option<Lsn>,
}

impl Program {
    fn start(disk: &Arc<dyn Storage>) -> Result<Self> {
        Self::on(open_log(disk)?, disk)
    }

    fn on(log: TestLog, disk: &Arc<dyn Storage>) -> Result<Self> {
        let (snapshotter, restored) = dumps(disk)?.restore(&log, apply)?;
        let last = restored.last;
        Ok(Self { log, snapshotter, restored, last })
    }

    fn append(&mut self, value: u64) -> Result<()> {
        let record = [value.to_le_bytes().as_slice(), &[0; 192]].concat();
        let lsn = self.log.append(&record)?;
        self.last = Some(lsn);
        apply(&mut self.restored.state, lsn, record).unwrap();
        Ok(())
    }

    fn take(&mut self) -> Result<u64> {
        self.snapshotter.take(&self.log, self.last.unwrap(), &self.restored.state)
    }

    fn prune(&self) -> Result<Lsn> {
        self.snapshotter.prune(&self.log)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "has the signature that `restore` needs")]
fn apply(ledger: &mut Ledger, _: Lsn, record: Vec<u8>) -> std::result::Result<(), String> {
    let number = record.first_chunk().ok_or("too short")?;
    ledger.values.push(u64::from_le_bytes(*number));
    Ok(())
}

/// Opens a log with four records per segment and no background threads.
fn open_log(disk: &Arc<dyn Storage>) -> Result<TestLog> {
    Ok(options().open_in(folder(disk, "log")?)?)
}

fn options() -> Options {
    let geometry = Geometry { block: 512, reach: 512, batch_max: 1024 };
    let options = Options::new().geometry(geometry, 7 * 512).segment_size(7 * 512);
    options.idle_mark(None).preallocate(false)
}

fn dumps(disk: &Arc<dyn Storage>) -> Result<Snapshots<Ledger>> {
    Snapshots::open_in(folder(disk, "dumps")?, "ledger", 1)
}

fn folder(disk: &Arc<dyn Storage>, name: &str) -> Result<Arc<dyn Storage>> {
    disk.folder(name).map_err(|source| SnapshotError::Io { what: format!("open {name}"), source })
}

fn lsn(number: u64) -> Lsn {
    Lsn::new(number).unwrap()
}

/// The states that are allowed after a crash.
#[derive(Default)]
struct Witness {
    /// Allowed states. The first is the state before the operation in progress.
    allowed: Vec<Vec<u64>>,
    /// Whether a dump was damaged and no other was taken since. A second damaged dump may then lose
    /// the state.
    is_harmed: bool,
}

impl Witness {
    fn now(&self) -> Vec<u64> {
        self.allowed.first().cloned().unwrap_or_default()
    }

    fn append(&mut self, program: &mut Program, value: u64) -> Result<()> {
        let mut after = self.now();
        after.push(value);
        self.allowed = vec![self.now(), after.clone()];
        program.append(value)?;
        self.allowed = vec![after];
        Ok(())
    }

    fn round(&mut self, program: &mut Program, values: std::ops::Range<u64>) -> Result<()> {
        values.into_iter().try_for_each(|value| self.append(program, value))?;
        program.take()?;
        self.is_harmed = false;
        program.prune()?;
        Ok(())
    }
}

/// The result of restoring after a crash.
struct Recovered {
    state: Vec<u64>,
    passed_over: Vec<PassedOver>,
    /// The result of restoring with one dump damaged, by the name of the dump.
    harmed: Vec<(String, Found)>,
}

#[expect(clippy::needless_pass_by_value, reason = "has the signature that a crash test needs")]
fn recover(disk: Arc<dyn Storage>) -> Result<Recovered> {
    let names = folder(&disk, "dumps")?.list().unwrap_or_default();
    let names = names.into_iter().filter(|name| name.starts_with("0000"));
    let mut harmed = vec![];
    for name in names {
        for harm in [flip, remove] {
            let copy = copy(&disk);
            harm(&copy, &name);
            let found = Program::start(&copy).map_err(|error| error.to_string());
            harmed.push((name.clone(), found.map(|program| program.restored.state.values)));
        }
    }
    let Restored { state, passed_over, .. } = Program::start(&disk)?.restored;
    Ok(Recovered { state: state.values, passed_over, harmed })
}

fn check(witness: &Witness, found: &Recovered) -> std::result::Result<(), String> {
    let Recovered { state, passed_over, harmed } = found;
    let nothing = witness.allowed.is_empty() && state.is_empty();
    if !nothing && !witness.allowed.contains(state) {
        return Err(format!("{:?} were allowed, but {state:?} was restored", witness.allowed));
    }
    if witness.is_harmed {
        return Ok(());
    }
    if let Some(passed) = passed_over.iter().find(|p| !matches!(p.reason, Reason::Unmarked { .. }))
    {
        return Err(format!("a crash left an invalid dump: {passed}"));
    }
    match harmed.iter().find(|(_, found)| found.as_ref() != Ok(state)) {
        Some((name, found)) => {
            Err(format!("without {name}, {found:?} was restored, not {state:?}"))
        }
        None => Ok(()),
    }
}

/// Copies the log and the dumps to another device.
fn copy(disk: &Arc<dyn Storage>) -> Arc<dyn Storage> {
    let other: Arc<dyn Storage> = Arc::new(MemStorage::new());
    for folder in ["log", "dumps"] {
        let (Ok(from), to) = (disk.folder(folder), other.folder(folder).unwrap()) else { continue };
        for name in from.list().unwrap_or_default() {
            let mut bytes = vec![0; 1 << 16];
            let file = from.open(&name, Access::Read).unwrap();
            let size = file.read_at(&mut bytes, 0).unwrap();
            to.create(&name).unwrap().write_at(bytes.get(..size).unwrap(), 0).unwrap();
        }
    }
    other
}

/// Flips a bit in the payload of a dump.
fn flip(disk: &Arc<dyn Storage>, name: &str) {
    try_to_flip(disk, name).unwrap();
}

/// The same, while the power may fail.
fn try_to_flip(disk: &Arc<dyn Storage>, name: &str) -> Result<()> {
    let flipped = || {
        let file = disk.folder("dumps")?.open(name, Access::ReadWrite)?;
        let mut byte = [0];
        file.read_at(&mut byte, 164)?;
        file.write_at(&[!byte[0]], 164)?;
        file.sync()
    };
    flipped().map_err(|source| SnapshotError::Io { what: format!("flip a bit of {name}"), source })
}

fn remove(disk: &Arc<dyn Storage>, name: &str) {
    disk.folder("dumps").unwrap().remove(name).unwrap();
}

fn crash(workload: impl Fn(Arc<dyn Storage>, &mut Witness) -> Result<()>) -> Tried {
    let bounds = CrashTest::new().cuts_max(8).second(96, 2);
    bounds.run(workload, recover, check).unwrap()
}

/// The same as `crash`, but with fewer crashes unless the long tests run.
fn some_crashes(workload: impl Fn(Arc<dyn Storage>, &mut Witness) -> Result<()>) -> Tried {
    if is_long() {
        return crash(workload);
    }
    let bounds = CrashTest::new().cuts_max(4).second(192, 1).seed(seed());
    bounds.run(workload, recover, check).unwrap()
}

#[test]
fn state_survives_any_crash_and_the_loss_of_one_dump() {
    let tried = crash(|disk, witness| {
        let mut program = Program::start(&disk)?;
        witness.round(&mut program, 0..5)?;
        witness.round(&mut program, 5..11)?;
        drop(program);
        let mut program = Program::start(&disk)?;
        witness.round(&mut program, 11..16)?;
        witness.round(&mut program, 16..22)?;
        assert!(program.log.oldest() > lsn(9), "something was pruned");
        Ok(())
    });
    println!("{tried:?}");
    assert!(tried.states > 1_000 && tried.second > 1_000, "{tried:?}");
}

#[test]
fn state_survives_a_crash_after_a_damaged_dump_and_the_next_dump_restores_redundancy() {
    let tried = some_crashes(|disk, witness| {
        let mut program = Program::start(&disk)?;
        witness.round(&mut program, 0..4)?;
        witness.round(&mut program, 4..9)?;
        witness.round(&mut program, 9..14)?;
        drop(program);
        witness.is_harmed = true;
        let newest = folder(&disk, "dumps")?.list().unwrap_or_default().pop();
        if disk.sync_dir().is_ok() {
            try_to_flip(&disk, &newest.unwrap())?;
        }
        let mut program = Program::start(&disk)?;
        assert_eq!(program.restored.dump, Some(lsn(9)));
        witness.round(&mut program, 14..19)?;
        witness.round(&mut program, 19..24)
    });
    assert!(tried.states > 400, "{tried:?}");
}

#[test]
fn retention_keeps_the_records_that_the_older_dump_needs() {
    let tried = some_crashes(|disk, witness| {
        let keep = options().retention(Retention::new().max_bytes(0));
        let start = || Program::on(keep.open_in(folder(&disk, "log")?)?, &disk);
        let mut program = start()?;
        for round in 0..4 {
            (0..5).try_for_each(|value| witness.append(&mut program, round * 5 + value))?;
            program.take()?;
            if round == 1 {
                drop(program);
                program = start()?;
            }
        }
        assert!(program.log.stats().pruned > 0, "something was pruned");
        Ok(())
    });
    assert!(tried.states > 1_000, "{tried:?}");
}

#[test]
fn dump_is_taken_while_retention_prunes_the_log() {
    let mut pruned = 0;
    for before in 50..58 {
        // Enough for the dump, and for the records that come while it is taken.
        let keep = Retention::new().max_bytes(10 * 7 * 512).without_checkpoints();
        let options = options().retention(keep).buffered(Duration::from_secs(3600), 1 << 20);
        let log: Arc<TestLog> = Arc::new(options.open_in(Arc::new(MemStorage::new())).unwrap());
        let record = [0; 200];
        // Other threads leave records in the open batch. The next checkpoint writes them first.
        let beside = Arc::new(Mutex::new(None::<Arc<TestLog>>));
        let others = beside.clone();
        let disk = FaultDisk::paced(MemStorage::new(), 512, move |_| {
            if let Some(log) = &*others.lock().unwrap() {
                drop(log.submit(&record).unwrap());
            }
        });
        let dumps: Snapshots<Ledger> = Snapshots::open_in(Arc::new(disk), "ledger", 1).unwrap();
        let (mut snapshotter, restored) = dumps.restore(&log, apply).unwrap();
        for _ in 0..before {
            log.append(&record).unwrap();
        }
        let oldest = log.oldest();
        *beside.lock().unwrap() = Some(log.clone());
        let taken = snapshotter.take(&log, log.durable().unwrap(), &restored.state);
        *beside.lock().unwrap() = None;
        assert!(taken.is_ok(), "{before} records: {taken:?}");
        pruned += u64::from(log.oldest() > oldest);
    }
    assert!(pruned > 0, "retention ran meanwhile");
}

#[test]
fn crash_during_a_truncation_leaves_the_state_before_or_after_it() {
    let tried = some_crashes(|disk, witness| {
        let mut program = Program::start(&disk)?;
        witness.round(&mut program, 0..4)?;
        witness.round(&mut program, 4..8)?;
        witness.round(&mut program, 8..12)?;
        drop(program);
        // Two of the three dumps are left, and the truncation removes one of these.
        witness.is_harmed = true;
        let log = open_log(&disk)?;
        let cut: Vec<u64> = (0..10).collect();
        witness.allowed = vec![witness.now(), cut.clone()];
        dumps(&disk)?.truncate_after(&log, Some(lsn(10)))?;
        witness.allowed = vec![cut];
        drop(log);
        let mut program = Program::start(&disk)?;
        witness.round(&mut program, 100..103)?;
        witness.round(&mut program, 103..107)
    });
    assert!(tried.states > 400, "{tried:?}");
}

/// Performs one random step. Records the allowed states before it and the resulting state after it.
fn act(disk: &Arc<dyn Storage>, witness: &mut Witness, dice: &mut Dice) -> Result<()> {
    let mut program = Program::start(disk)?;
    for _ in 0..dice.any() % 9 {
        let value = dice.any();
        witness.append(&mut program, value)?;
    }
    let Some(last) = program.last else { return Ok(()) };
    if dice.one_in(5) {
        let mut cut = witness.now();
        let last = Lsn::new(last.get().saturating_sub(dice.any() % 7));
        cut.truncate(last.map_or(0, |lsn| usize::try_from(lsn.get()).unwrap()));
        witness.is_harmed = true;
        witness.allowed = vec![witness.now(), cut.clone()];
        let done = dumps(disk)?.truncate_after(&program.log, last);
        match done {
            Err(SnapshotError::NothingLeft { .. }) => witness.allowed.truncate(1),
            done => {
                done?;
                witness.allowed = vec![cut];
            }
        }
    } else if dice.one_in(2) {
        // Without new records no dump is taken, so nothing replaces a damaged one.
        witness.is_harmed &= program.take()? == 0;
        program.prune()?;
    }
    Ok(())
}

#[test]
fn random_crashes_truncations_and_damage_end_in_an_allowed_state() {
    let mut sample = Sample::one_in(4);
    for seed in (1..=LIVES).filter(|_| sample.takes_next()) {
        let (mut dice, mut witness) = (Dice::new(seed), Witness::default());
        let mut device = MemStorage::new();
        for life in 0..12 {
            device.stop_after(20 + dice.any() % 400);
            let disk: Arc<dyn Storage> = Arc::new(device.clone());
            while let Ok(()) = act(&disk, &mut witness, &mut dice) {}
            device =
                if dice.one_in(3) { device.kill() } else { device.power_cut(|_| dice.one_in(2)) };
            let disk: Arc<dyn Storage> = Arc::new(device.clone());
            let found = recover(disk.clone()).unwrap_or_else(|why| panic!("{seed} {life}: {why}"));
            check(&witness, &found).unwrap_or_else(|why| panic!("{seed} {life}: {why}"));
            witness.allowed = vec![found.state];
            let newest = folder(&disk, "dumps").unwrap().list().unwrap().pop();
            if let Some(newest) = newest.filter(|_| !witness.is_harmed && dice.one_in(3)) {
                flip(&disk, &newest);
                disk.sync_dir().unwrap();
                witness.is_harmed = true;
            }
        }
    }
}

const LIVES: u64 = 200;

/// Creates three dumps of five records each, and three later records, in memory.
fn three_rounds() -> Arc<dyn Storage> {
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let mut program = Program::start(&disk).unwrap();
    for round in 0..3 {
        (0..5).for_each(|value| program.append(round * 5 + value).unwrap());
        program.take().unwrap();
        program.prune().unwrap();
    }
    (15..18).for_each(|value| program.append(value).unwrap());
    program.log.close().unwrap();
    disk
}

fn names(disk: &Arc<dyn Storage>) -> Vec<String> {
    disk.folder("dumps").unwrap().list().unwrap()
}

fn refused(disk: &Arc<dyn Storage>) -> SnapshotError {
    Program::start(disk).err().expect("it is refused")
}

const OLDER: &str = "00000000000000000010.dump";
const NEWER: &str = "00000000000000000015.dump";

#[test]
fn restore_reads_only_the_tail() {
    let disk = three_rounds();
    assert_eq!(names(&disk), [OLDER, NEWER]);
    let log = open_log(&disk).unwrap();
    assert!(log.oldest() > lsn(5), "records that only older dumps needed are pruned");
    let mut read = vec![];
    let (_, restored) = dumps(&disk)
        .unwrap()
        .restore(&log, |state, lsn, record| {
            read.push(lsn.get());
            apply(state, lsn, record)
        })
        .unwrap();
    assert_eq!(read, [16, 17, 18]);
    assert_eq!((restored.replayed, restored.dump), (3, Some(lsn(15))));
    assert_eq!(restored.state.values, (0..18).collect::<Vec<_>>());
    assert!(restored.passed_over.is_empty());
}

#[test]
fn damaged_newest_dump_is_passed_over_and_reported() {
    let disk = three_rounds();
    flip(&disk, NEWER);
    let Restored { state, dump, replayed, passed_over, .. } =
        Program::start(&disk).unwrap().restored;
    assert_eq!((dump, replayed), (Some(lsn(10)), 8));
    assert_eq!(state.values, (0..18).collect::<Vec<_>>());
    assert_eq!(
        passed_over.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["the dump at LSN 15: the checksum of the chunk at offset 152 does not match"]
    );
}

#[test]
fn dump_truncated_anywhere_is_passed_over() {
    for length in (0..225).step_by(7) {
        let disk = three_rounds();
        let file = disk.folder("dumps").unwrap().open(NEWER, Access::ReadWrite).unwrap();
        let whole = file.len().unwrap();
        file.set_len(length.min(whole - 1)).unwrap();
        let restored = Program::start(&disk).unwrap().restored;
        assert_eq!(restored.dump, Some(lsn(10)), "{length} of {whole}");
        assert_eq!(restored.state.values, (0..18).collect::<Vec<_>>());
    }
}

#[test]
fn two_damaged_dumps_of_a_pruned_log_are_an_error_not_an_empty_state() {
    let disk = three_rounds();
    flip(&disk, NEWER);
    flip(&disk, OLDER);
    let said = refused(&disk).to_string();
    assert!(said.starts_with("the log begins at LSN "), "{said}");
    assert!(
        said.contains("LSN 15: the checksum") && said.contains("LSN 10: the checksum"),
        "{said}"
    );
    for name in names(&disk) {
        remove(&disk, &name);
    }
    let said = refused(&disk).to_string();
    assert!(said.ends_with("there is no dump of the records before it"), "{said}");
}

#[test]
fn complete_log_restores_the_state_without_a_dump() {
    let disk: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let mut program = Program::start(&disk).unwrap();
    (0..9).for_each(|value| program.append(value).unwrap());
    program.take().unwrap();
    assert_eq!(program.prune().unwrap(), Lsn::FIRST, "nothing is pruned with a single dump");
    drop(program);
    flip(&disk, "00000000000000000009.dump");
    let restored = Program::start(&disk).unwrap().restored;
    assert_eq!((restored.dump, restored.replayed, restored.passed_over.len()), (None, 9, 1));
}

#[test]
fn dump_of_another_type_or_schema_is_refused() {
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Renamed {
        numbers: Vec<u64>,
    }

    let disk = three_rounds();
    let log = open_log(&disk).unwrap();
    let open = |name: &str, schema: u32| {
        let folder = disk.folder("dumps").unwrap();
        let snapshots = Snapshots::<Ledger>::open_in(folder, name, schema).unwrap();
        snapshots.restore(&log, apply).map(drop).unwrap_err().to_string()
    };
    let said = "the dump at LSN 15 has type name ledger, but stock was requested";
    assert_eq!(open("stock", 1), said);
    assert_eq!(open("ledger", 2), "the dump at LSN 15 has schema 1, but 2 was requested");

    let folder = disk.folder("dumps").unwrap();
    let snapshots = Snapshots::<Renamed>::open_in(folder, "ledger", 1).unwrap();
    let refused = snapshots.restore(&log, |_, _, _| Ok(())).unwrap_err();
    assert!(matches!(refused, SnapshotError::Decode { .. }), "{refused}");
}

#[test]
fn dump_beyond_the_end_of_the_log_is_refused_until_truncate_after() {
    let disk = three_rounds();
    open_log(&disk).unwrap().truncate_after(Some(lsn(13))).unwrap();
    let said = refused(&disk).to_string();
    assert!(
        said.starts_with("the dump at LSN 15 is ahead of the log, which ends at LSN 13"),
        "{said}"
    );

    let log = open_log(&disk).unwrap();
    dumps(&disk).unwrap().truncate_after(&log, log.durable()).unwrap();
    drop(log);
    let restored = Program::start(&disk).unwrap().restored;
    assert_eq!((restored.dump, restored.replayed), (Some(lsn(10)), 3));

    // An unrelated log is refused too.
    let other = copy(&disk);
    let log_folder = other.folder("log").unwrap();
    log_folder.list().unwrap().iter().for_each(|name| log_folder.remove(name).unwrap());
    let said = refused(&other);
    assert!(matches!(said, SnapshotError::OtherLog { .. }), "{said}");
}

#[test]
fn truncation_that_would_leave_no_state_changes_nothing() {
    let disk = three_rounds();
    flip(&disk, OLDER);
    let log = open_log(&disk).unwrap();
    let refused = dumps(&disk).unwrap().truncate_after(&log, Some(lsn(12))).unwrap_err();
    assert!(matches!(refused, SnapshotError::NothingLeft { .. }), "{refused}");
    assert_eq!((names(&disk).len(), log.durable()), (2, Some(lsn(18))));
}

#[test]
fn dump_is_not_used_when_the_log_has_regrown_past_it_after_a_truncation() {
    let disk = three_rounds();
    let log = open_log(&disk).unwrap();
    log.truncate_after(Some(lsn(13))).unwrap();
    for value in 900..904_u64 {
        log.append(&value.to_le_bytes()).unwrap();
    }
    drop(log);
    let mut program = Program::start(&disk).unwrap();
    assert_eq!(program.restored.dump, Some(lsn(10)));
    assert!(matches!(program.restored.passed_over[0].reason, Reason::Unmarked { .. }));
    assert_eq!(program.restored.state.values[10..], [10, 11, 12, 900, 901, 902, 903]);
    // Taking the next dump must not make the unmarked one valid again.
    program.append(904).unwrap();
    program.take().unwrap();
    assert_eq!(names(&disk), [OLDER, "00000000000000000018.dump"]);
    program.log.truncate_after(Some(lsn(17))).unwrap();
    program.last = Some(lsn(17));
    assert!(matches!(program.take().unwrap_err(), SnapshotError::Disowned { .. }));
}

#[test]
fn dump_needs_its_records_and_may_not_go_back() {
    let disk = three_rounds();
    let mut program = Program::start(&disk).unwrap();
    let state = program.restored.state.clone();
    let mut take = |number| program.snapshotter.take(&program.log, lsn(number), &state);
    assert!(matches!(take(19).unwrap_err(), SnapshotError::Ahead { .. }));
    assert!(matches!(take(12).unwrap_err(), SnapshotError::Behind { .. }));
    assert_eq!(take(15).unwrap(), 0);
    assert!(take(18).unwrap() > 100);
}

#[test]
fn dump_after_a_truncation_beyond_the_dump_before_it_counts() {
    let disk = three_rounds();
    let mut program = Program::start(&disk).unwrap();
    (18..30).for_each(|value| program.append(value).unwrap());
    let oldest = program.log.truncate_before(lsn(28)).unwrap();
    assert!(oldest > lsn(21), "{oldest}");
    let state = program.restored.state.clone();
    let refused = program.snapshotter.take(&program.log, lsn(18), &state).unwrap_err();
    let is_pruned = matches!(refused, SnapshotError::Log(seawall::Error::Pruned { .. }));
    assert!(is_pruned, "{refused}");
    program.take().unwrap();
    drop(program);
    let restored = Program::start(&disk).unwrap().restored;
    assert_eq!((restored.dump, restored.state.values), (Some(lsn(30)), (0..30).collect()));
}

#[test]
fn unfinished_dump_is_removed_and_foreign_files_stay() {
    let disk = three_rounds();
    let folder = disk.folder("dumps").unwrap();
    for name in ["new.dump.tmp", "notes.txt", "7.dump"] {
        folder.create(name).unwrap();
    }
    Program::start(&disk).unwrap();
    assert_eq!(names(&disk), [OLDER, NEWER, "7.dump", "notes.txt"]);
}

#[test]
fn directory_of_a_log_is_refused() {
    let disk = three_rounds();
    let refused = Snapshots::<Ledger>::open_in(disk.folder("log").unwrap(), "ledger", 1);
    assert!(matches!(refused.unwrap_err(), SnapshotError::HoldsALog { .. }));
    let long = Snapshots::<Ledger>::open_in(disk.folder("dumps").unwrap(), &"x".repeat(65), 1);
    assert!(matches!(long.unwrap_err(), SnapshotError::InvalidOption { .. }));
}

#[test]
fn refused_name_leaves_no_directory() {
    let place = std::env::temp_dir().join(format!("seawall-dumps-{}", std::process::id()));
    let refused = Snapshots::<Ledger>::open(&place, &"x".repeat(65), 1);
    assert!(matches!(refused.unwrap_err(), SnapshotError::InvalidOption { .. }));
    assert!(PosixStorage::open(&place).is_err(), "{}", place.display());
}

#[test]
fn state_that_cannot_be_read_back_is_not_published() {
    /// A type that cannot decode what it encodes.
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct OneWay {
        #[serde(rename(serialize = "a", deserialize = "b"))]
        value: u64,
    }
    let disk = three_rounds();
    let log = open_log(&disk).unwrap();
    let open = || {
        let folder = disk.folder("one-way").unwrap();
        Snapshots::<OneWay>::open_in(folder, "one way", 1).unwrap()
    };
    // Uses a separate directory and a log that was not pruned.
    let fresh: Arc<dyn Storage> = Arc::new(MemStorage::new());
    let whole = open_log(&fresh).unwrap();
    let number = whole.append(&[0; 8]).unwrap();
    let (mut snapshotter, restored) = open().restore(&whole, |_, _, _| Ok(())).unwrap();
    let refused = snapshotter.take(&whole, number, &restored.state).unwrap_err();
    assert!(matches!(refused, SnapshotError::Encode { .. }), "{refused}");
    assert_eq!(disk.folder("one-way").unwrap().list().unwrap(), [""; 0]);
    assert!(
        open().restore(&log, |_, _, _| Ok(())).is_err(),
        "the pruned log cannot be restored without a dump"
    );

    let (mut snapshotter, restored) =
        open().read_back(false).restore(&whole, |_, _, _| Ok(())).unwrap();
    assert!(snapshotter.take(&whole, number, &restored.state).unwrap() > 0);
}

#[test]
fn state_may_be_converted_to_another_type() {
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Sum {
        sum: u64,
    }
    let disk = three_rounds();
    let program = Program::start(&disk).unwrap();
    let mut sum = Sum { sum: program.restored.state.values.iter().sum() };
    let mut snapshotter = program.snapshotter.converted::<Sum>("sum", 1).unwrap();
    snapshotter.take(&program.log, lsn(18), &sum).unwrap();
    program.log.append(&100_u64.to_le_bytes()).unwrap();
    sum.sum += 100;
    let snapshots = Snapshots::<Sum>::open_in(disk.folder("dumps").unwrap(), "sum", 1).unwrap();
    let add = |state: &mut Sum, _, record: Vec<u8>| {
        state.sum += u64::from_le_bytes(*record.first_chunk().ok_or("too short")?);
        Ok(())
    };
    let (_, restored) = snapshots.restore(&program.log, add).unwrap();
    assert_eq!((restored.state, restored.replayed), (sum, 1));
}

#[test]
fn dumps_can_be_taken_on_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Snapshotter<Ledger>>();
    is_send::<Snapshots<Ledger>>();
}

#[test]
fn first_record_that_cannot_be_applied_is_reported() {
    let disk = three_rounds();
    let log = open_log(&disk).unwrap();
    let refuse = |_: &mut Ledger, lsn: Lsn, _| match lsn.get() {
        17 => Err("no such account".to_owned()),
        _ => Ok(()),
    };
    let refused = dumps(&disk).unwrap().restore(&log, refuse).unwrap_err();
    assert_eq!(refused.to_string(), "LSN 17: no such account");
}

#[test]
fn failed_directory_sync_stops_the_snapshotter_and_keeps_the_older_dump() {
    let device = MemStorage::new();
    let disk: Arc<dyn Storage> = Arc::new(device.clone());
    let mut program = Program::start(&disk).unwrap();
    (0..5).for_each(|value| program.append(value).unwrap());
    program.take().unwrap();
    program.append(5).unwrap();
    program.log.confirm().unwrap();
    // The next dump syncs its file first, then the directory.
    device.fail_sync(1, |_| false);
    assert!(matches!(program.take().unwrap_err(), SnapshotError::Io { .. }));
    assert!(matches!(program.take().unwrap_err(), SnapshotError::Unfinished));
    drop(program);
    let restored = Program::start(&disk).unwrap().restored;
    assert_eq!((restored.dump, restored.replayed), (Some(lsn(5)), 1));
}

#[test]
fn full_disk_leaves_the_dumps_unchanged_and_the_next_dump_works() {
    let device = MemStorage::new();
    let disk: Arc<dyn Storage> = Arc::new(device.clone());
    let mut program = Program::start(&disk).unwrap();
    (0..5).for_each(|value| program.append(value).unwrap());
    device.limit(0);
    let refused = program.take().unwrap_err();
    assert!(matches!(refused, SnapshotError::Io { .. }), "{refused}");
    assert_eq!(names(&disk), [""; 0]);
    device.limit(1 << 30);
    assert!(program.take().unwrap() > 0);
}

#[test]
fn dumps_work_on_a_real_file_system_next_to_the_log() {
    let path = std::env::temp_dir().join(format!("seawall-snapshots-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    for (round, replayed) in [(0, 0), (1, 1), (2, 1)] {
        let log: Log<u64> = Log::open(path.join("log")).unwrap();
        let snapshots = Snapshots::<Vec<u64>>::open(path.join("dumps"), "numbers", 1).unwrap();
        let (mut snapshotter, restored) = snapshots
            .restore(&log, |state, _, value| {
                state.push(value);
                Ok(())
            })
            .unwrap();
        let mut state = restored.state;
        assert_eq!((state.len(), restored.replayed), (round * 3, replayed));
        for value in 0..2 {
            let lsn = log.append(&value).unwrap();
            state.push(value);
            snapshotter.take(&log, lsn, &state).unwrap();
        }
        log.append(&2).unwrap();
    }
    std::fs::remove_dir_all(&path).unwrap();
}
