//! Fuzz targets for recovery of a folder with arbitrary files. A script edits the files of a valid
//! log; checksums may then be corrected, so that the checks after them run, too.

use crate::fixup;
use crate::forge::{self, LogKeys};
use crate::sample::{Encoding, End, Kind, Past, Sample, Scale, contents, files, open};
use arbitrary::{Result, Unstructured};
use seawall::damage::Corruption;
use seawall::recovery::TailState;
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Layout, Level, Lsn, Maintenance, OpenMode};
use seawall_format::tables;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Maximum size of a device: a forged size must not fill the memory.
const ROOM: u64 = 8 << 20;
/// Maximum length of a file.
const LENGTH_MAX: usize = 32 << 10;
const EDITS_MAX: usize = 6;
/// No sample has a record with a higher LSN.
const LSN_MAX: u64 = 1000;
/// Records of the largest set in a sample.
const SET_MAX: usize = 3;

/// The plainest kind of a log.
pub(super) const PLAIN: Kind = Kind {
    layout: Layout::Binary,
    end: End::Closed,
    scale: Scale::Tiny,
    past: Past::Plain,
    encoding: Encoding::Plain,
    seed: 1,
};

type Files = BTreeMap<String, Vec<u8>>;

static LOGS: LazyLock<Vec<Sample>> = LazyLock::new(|| plain_kinds().map(Sample::make).collect());

/// All kinds that are not encrypted. Others would change what existing scripts do.
fn plain_kinds() -> impl Iterator<Item = Kind> {
    Kind::all(Scale::Tiny).into_iter().filter(|kind| !kind.is_encrypted())
}

/// Names for files; logs use most of them.
const NAMES: [&str; 12] = [
    "manifest",
    "live",
    "lock",
    "000000000001.seg",
    "000000000002.seg",
    "000000000004.seg",
    "000000000009.seg",
    "000000000003.head",
    "000000000003.jsonl",
    "spare-1.tmp",
    "18446744073709551615.seg",
    "notes.txt",
];

const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    7,
    512,
    1 << 20,
    u64::MAX,
    u64::MAX - 1,
    1 << 63,
    (1 << 63) - 1,
    0xFFFF_FFFF,
    1 << 32,
];

pub(super) fn run(data: &[u8]) {
    let mut script = Unstructured::new(data);
    // A script that ends early is skipped.
    let Ok((device, kind)) = build(&mut script) else { return };
    look(&device, kind, &mut script);
}

/// An encrypted log, its opened files, and its keys.
struct Encrypted {
    sample: Sample,
    opened: Files,
    keys: LogKeys,
}

static ENCRYPTED: LazyLock<Vec<Encrypted>> = LazyLock::new(|| {
    let kinds = Kind::all(Scale::Tiny).into_iter().filter(|kind| kind.is_encrypted());
    let open = |sample: Sample| {
        let (mut opened, keys) = (files(&sample.device), LogKeys::of(&sample.files["keys"]));
        for (name, bytes) in &mut opened {
            match name.as_str() {
                "keys" => forge::open_keys(bytes),
                _ if is_a(name, "seg") => keys.open_segment(bytes),
                _ => {}
            }
        }
        Encrypted { sample, opened, keys }
    };
    kinds.map(Sample::make).map(open).collect()
});

/// As `run`, for encrypted logs. Either the script edits the opened files, which are then made
/// authentic, or it edits the files as they are stored. In the second case only records that were
/// written may be delivered.
pub(super) fn sealed(data: &[u8]) {
    let mut script = Unstructured::new(data);
    let Ok((device, log, is_authentic)) = build_sealed(&mut script) else { return };
    let kind = log.sample.kind;
    if !is_authentic {
        for skip in [false, true] {
            let delivered = read(&device, kind, skip).into_iter().flat_map(|found| found.records);
            for (lsn, payload) in delivered {
                let written = log.sample.record(lsn);
                assert!(written == Some(&payload), "record {lsn} is not what was written");
            }
        }
    }
    look(&device, kind, &mut script);
}

fn build_sealed(script: &mut Unstructured<'_>) -> Result<(MemStorage, &'static Encrypted, bool)> {
    let log = script.choose(&ENCRYPTED)?;
    let is_authentic: bool = script.arbitrary()?;
    let mut now = if is_authentic { log.opened.clone() } else { files(&log.sample.device) };
    for _ in 0..script.int_in_range(0..=EDITS_MAX)? {
        edit(&mut now, script)?;
    }
    fix(&mut now);
    for (name, bytes) in now.iter_mut().filter(|_| is_authentic) {
        match name.as_str() {
            "keys" => forge::seal_keys(bytes),
            "manifest" => log.keys.seal_manifest(bytes),
            _ if is_a(name, "seg") => log.keys.seal_segment(bytes),
            _ => {}
        }
    }
    Ok((device_of(&log.sample, now), log, is_authentic))
}

fn build(script: &mut Unstructured<'_>) -> Result<(MemStorage, Kind)> {
    let sample = script.choose(&LOGS)?;
    let mut now = files(&sample.device);
    for _ in 0..script.int_in_range(0..=EDITS_MAX)? {
        edit(&mut now, script)?;
        if script.ratio(3_u8, 4_u8)? {
            fix(&mut now);
        }
    }
    Ok((device_of(sample, now), sample.kind))
}

/// Returns a device with these files instead of those of the log.
fn device_of(sample: &Sample, now: Files) -> MemStorage {
    let device = sample.device.kill();
    for name in device.names() {
        if name != "lock" && !now.contains_key(&name) {
            device.remove_raw(&name);
        }
    }
    for (name, bytes) in now {
        // A missing file is created as a copy of `lock`, and then filled.
        if device.bytes(&name).is_none() {
            device.copy_raw("lock", &name);
        }
        device.edit(&name, |there| *there = bytes);
    }
    device.limit(ROOM);
    device
}

fn edit(files: &mut Files, script: &mut Unstructured<'_>) -> Result<()> {
    let names: Vec<String> = files.keys().cloned().collect();
    if names.is_empty() {
        return Ok(());
    }
    let name = script.choose(&names)?.clone();
    let other = files[script.choose(&names)?].clone();
    let act = script.int_in_range(0..=10_u8)?;
    let bytes = files.get_mut(&name).expect("it is one of them");
    let at = script.int_in_range(0..=bytes.len())?;
    match act {
        0 => bytes.truncate(at),
        1 => bytes.resize((at + 1).next_multiple_of(512).max(bytes.len()).min(LENGTH_MAX), 0),
        2 => {
            let size = usize::from(script.arbitrary::<u8>()?).min(script.len());
            let noise = script.bytes(size)?;
            let end = (at + noise.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&noise[..end - at]);
        }
        3 => {
            let from = script.int_in_range(0..=other.len())?;
            let size = script.int_in_range(0..=4096_usize)?;
            let size = size.min(other.len() - from).min(bytes.len() - at);
            bytes[at..at + size].copy_from_slice(&other[from..from + size]);
        }
        4 => drop(files.remove(&name)),
        5 => drop(files.insert((*script.choose(&NAMES)?).to_owned(), other)),
        6 => drop(files.insert(name, other)),
        7 => {
            let size = script.int_in_range(0..=bytes.len() - at)?.min(2048);
            bytes[at..at + size].fill(script.arbitrary()?);
        }
        _ => set_field(bytes, &name, script)?,
    }
    Ok(())
}

/// Sets a field of a structure to a number that is likely to break something.
fn set_field(bytes: &mut [u8], name: &str, script: &mut Unstructured<'_>) -> Result<()> {
    let table = |name: &str| tables().into_iter().find(|(found, _)| *found == name);
    let (kind, places) = match name {
        "manifest" if bytes.len() >= 1024 && bytes[260..264] == *b"AUTH" => {
            match script.int_in_range(0..=2_u8)? {
                0 => ("authenticator", vec![256, 768]),
                _ => ("manifest", vec![0, 512]),
            }
        }
        "manifest" => ("manifest", vec![0, 512]),
        "keys" => match script.int_in_range(0..=2_u8)? {
            0 => ("key", vec![96, 136, fixup::KEYS_B + 96, fixup::KEYS_B + 136]),
            _ => ("keys", vec![0, fixup::KEYS_B]),
        },
        "live" => ("live", vec![0]),
        _ if is_a(name, "jsonl") => return set_digit(bytes, script),
        _ if is_encrypted(bytes) => encrypted_field(bytes, script)?,
        _ => match script.int_in_range(0..=7_u8)? {
            0 | 1 => ("header", vec![0]),
            2 => ("mark", vec![512, 1024]),
            3 => ("seal", vec![1536]),
            4 => ("frame", batches(bytes).into_iter().map(|at| at + 48).collect()),
            _ => ("batch", batches(bytes)),
        },
    };
    if places.is_empty() {
        return Ok(());
    }
    let (_, fields) = table(kind).expect("format.md has it");
    let field = script.choose(fields)?;
    let at = script.choose(&places)? + field.at;
    let before = fixup::number(bytes, at, field.size.min(8));
    let number = match script.int_in_range(0..=3_u8)? {
        0 => before.wrapping_add(1),
        1 => before.wrapping_sub(1),
        2 => script.arbitrary()?,
        _ => *script.choose(&NUMBERS)?,
    };
    fixup::put(bytes, at, field.size.min(8), number);
    Ok(())
}

/// Whether the header of a segment says that it is encrypted.
fn is_encrypted(bytes: &[u8]) -> bool {
    fixup::number(bytes, 104, 4) & 1 << 4 != 0
}

/// Picks a structure of an encrypted segment; returns its name and its possible offsets.
fn encrypted_field(
    bytes: &[u8],
    script: &mut Unstructured<'_>,
) -> Result<(&'static str, Vec<usize>)> {
    let batches = batches(bytes);
    let from = |at: usize| batches.iter().map(|batch| batch + at).collect();
    let chunk = fixup::BATCH + fixup::PREFIX[1];
    Ok(match script.int_in_range(0..=11_u8)? {
        0 => ("header", vec![0]),
        1 => ("mark", vec![512, 1024]),
        2 => ("seal", vec![1536]),
        3 => ("authenticator", [0, 512, 1024, 1536].map(|at| at + 256).to_vec()),
        4 | 5 => ("batch", from(0)),
        6 => ("encrypted prefix", from(fixup::BATCH)),
        7 | 8 => ("encrypted chunk", from(chunk)),
        9 | 10 => ("content", from(chunk + fixup::CHUNK[1])),
        _ => ("frame", from(chunk + fixup::CHUNK[1] + 12)),
    })
}

/// Changes a digit of a text.
fn set_digit(bytes: &mut [u8], script: &mut Unstructured<'_>) -> Result<()> {
    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    if !digits.is_empty() {
        bytes[*script.choose(&digits)?] = b'0' + script.int_in_range(0..=9)?;
    }
    Ok(())
}

fn is_a(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// Returns the offsets of the batches of a segment, found by their lengths.
fn batches(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (2560, vec![]);
    while bytes.len() >= at + 48 && fixup::number(bytes, at + 16, 4) > 0 {
        found.push(at);
        at += 48 + usize::try_from(fixup::number(bytes, at + 4, 4) & 0x07FF_FFFF).unwrap();
    }
    found
}

/// Corrects every checksum of every file.
fn fix(files: &mut Files) {
    let mut texts = vec![];
    for (name, bytes) in files.iter_mut() {
        match name.as_str() {
            "manifest" => fixup::manifest(bytes),
            "live" => fixup::live(bytes),
            "keys" => fixup::keys(bytes),
            _ if is_a(name, "seg") => fixup::segment(bytes),
            _ if is_a(name, "head") => {
                fixup::segment(bytes);
                texts.push((name.replace(".head", ".jsonl"), fixup::salt_of(bytes)));
            }
            _ => {}
        }
    }
    for (name, salt) in texts {
        if let Some(bytes) = files.get_mut(&name) {
            *bytes = fixup::text(bytes, &salt);
        }
    }
}

/// The delivered records, and the number of errors.
pub(super) struct Reading {
    pub(super) records: Vec<(u64, Vec<u8>)>,
    errors: usize,
}

/// Reads all records; returns `None` if a reader cannot be opened or positioned.
pub(super) fn read(device: &MemStorage, kind: Kind, skip: bool) -> Option<Reading> {
    let reader = kind.reader(Arc::new(device.clone())).ok()?;
    let from = reader.oldest().ok()?;
    let mut cursor = reader.skip_damaged(skip).cursor(from).ok()?;
    let mut reading = Reading { records: vec![], errors: 0 };
    loop {
        match cursor.next_record() {
            Ok(Some(record)) => {
                let last = reading.records.last().map(|(lsn, _)| *lsn);
                assert!(Some(record.lsn.get()) > last, "{} after {last:?}", record.lsn);
                reading.records.push((record.lsn.get(), record.payload.to_vec()));
            }
            Ok(None) => return Some(reading),
            Err(_) => reading.errors += 1,
        }
        assert!(reading.records.len() + reading.errors < 10_000, "the reader ends");
    }
}

pub(super) fn verify(device: &MemStorage, kind: Kind) -> seawall::Result<Verification> {
    kind.maintenance(&(Arc::new(device.clone()) as Arc<dyn Storage>)).verify()
}

fn look(device: &MemStorage, kind: Kind, script: &mut Unstructured<'_>) {
    let before = contents(device);
    let found = verify(device, kind);
    if kind.is_encrypted() {
        // Without the key, `verify` must not panic, either.
        let _ = Maintenance::on(&(Arc::new(device.clone()) as Arc<dyn Storage>)).verify();
    }
    let plain = read(device, kind, false);
    let skipping = read(device, kind, true);
    if let (Some(plain), Some(skipping)) = (&plain, &skipping) {
        assert!(skipping.records.starts_with(&plain.records), "damage is where reading stops");
        look_up(device, kind, plain);
    }
    assert!(contents(device) == before, "readers change nothing");
    let mode = *script
        .choose(&[OpenMode::Standard, OpenMode::Strict, OpenMode::Salvage])
        .unwrap_or(&OpenMode::Standard);
    let opened = if kind.is_encrypted() { kind } else { LOGS[0].kind };
    for layout in [Layout::Binary, Layout::Text] {
        goes_on(&device.kill(), &found, (Kind { layout, ..opened }, mode));
    }
    is_rescued(device, kind, skipping.as_ref());
    is_cut(&device.kill(), kind, plain.as_ref());
}

/// Checks that `get` returns the records that the cursor delivered. If the next segment does not
/// follow the last of them, the cursor reports that after the record, and `get` instead of it.
fn look_up(device: &MemStorage, kind: Kind, plain: &Reading) {
    let reader = kind.reader(Arc::new(device.clone())).unwrap();
    let some = [plain.records.first(), plain.records.get(plain.records.len() / 2)];
    for (lsn, payload) in some.into_iter().flatten().chain(plain.records.last()) {
        let is_last = plain.records.last().is_some_and(|(last, _)| last == lsn);
        match reader.get(Lsn::new(*lsn).unwrap()) {
            Ok(got) => assert_eq!(got.as_ref(), Some(payload), "record {lsn}"),
            Err(Error::Damaged { damage, .. })
                if is_last && plain.errors > 0 && damage.cause == Corruption::Order => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Checks that a log that opens delivers its records in order and none after its last one, accepts
/// an append, and is sound afterwards.
fn goes_on(
    device: &MemStorage,
    found: &seawall::Result<Verification>,
    (kind, mode): (Kind, OpenMode),
) {
    let Ok(log) = open(&kind.options(5).mode(mode), device) else { return };
    let (oldest, last) = (log.oldest(), log.recovery().last);
    let mut next = oldest.get();
    let mut is_whole = true;
    for entry in log.read_from(oldest).unwrap_or_else(|error| panic!("it reads: {error}")) {
        let Ok((lsn, _)) = entry else {
            is_whole = false;
            break;
        };
        assert!(lsn.get() >= next, "record {lsn} comes twice or late");
        next = lsn.get().saturating_add(1);
    }
    assert!(!is_whole || mode == OpenMode::Salvage || next <= last.map_or(0, Lsn::get) + 1);
    let Ok(lsn) = log.append(b"7") else { return };
    assert!(Some(lsn) > last, "{lsn} was used again");
    // The level is in the manifest, and may be forged to `Buffered`.
    if log.level() == Level::Buffered && log.flush().is_err() {
        return;
    }
    let got = log.get(lsn);
    assert!(matches!(&got, Ok(Some(payload)) if payload == b"7"), "what was appended: {got:?}");
    if log.close().is_err() {
        return;
    }
    let after = match (verify(device, kind), found) {
        (Ok(after), _) => after,
        // An open does not read what is before the checkpoint.
        (Err(Error::Key { .. }), Err(Error::Key { .. })) => return,
        (Err(error), _) => panic!("it is a log: {error}"),
    };
    let was_damaged = found.as_ref().is_ok_and(|found| !found.damage.is_empty());
    assert!(after.verdict == Verdict::Clean || was_damaged, "{found:?}, then {after:?}");
    assert_eq!(after.tail, TailState::Clean);
    assert_eq!(after.last_lsn, Some(lsn));
}

/// Checks that a salvaged log is sound, and has all records that were readable before except those
/// of broken sets.
fn is_rescued(device: &MemStorage, kind: Kind, skipping: Option<&Reading>) {
    let target = MemStorage::new();
    target.limit(ROOM);
    let source: Arc<dyn Storage> = Arc::new(device.kill());
    let Ok(report) = kind.maintenance(&source).salvage_to(Arc::new(target.clone())) else { return };
    let found = verify(&target, kind).unwrap_or_else(|error| panic!("the rescued: {error}"));
    assert_eq!(found.verdict, Verdict::Clean, "{found:?}");
    let rescued = read(&target, kind, false).expect("a clean log is readable");
    assert_eq!(report.records, to_u64(rescued.records.len()), "{report:?}");
    let Some(skipping) = skipping else { return };
    let there: BTreeMap<_, _> = skipping.records.iter().map(|(lsn, bytes)| (lsn, bytes)).collect();
    for (lsn, payload) in &rescued.records {
        // A salvage continues where `live` of a killed writer stops readers, so it may have more
        // records.
        assert!(there.get(lsn).is_none_or(|found| *found == payload), "record {lsn}");
    }
    let kept: BTreeSet<_> = rescued.records.iter().map(|(lsn, _)| lsn).collect();
    if report.given_up.iter().any(|lost| lost.to > Lsn::new(LSN_MAX)) {
        // A forged batch says that it has records of later segments; the first ones count.
        return;
    }
    let lacks: Vec<_> = there.into_keys().filter(|lsn| !kept.contains(lsn)).collect();
    assert!(to_u64(lacks.len()) <= report.broken_sets, "{lacks:?} are not rescued: {report:?}");
    let is_named = |lsn: u64| {
        report
            .given_up
            .iter()
            .any(|lost| lost.from.get() <= lsn && lost.to.is_none_or(|to| to.get() >= lsn))
    };
    let silent = lacks.into_iter().find(|lsn| !is_named(**lsn));
    assert_eq!(silent, None, "silently not rescued: {report:?}");
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).expect("in memory")
}

/// Checks that a truncation of the damaged tail does what was planned, and keeps the records before
/// the damage.
fn is_cut(device: &MemStorage, kind: Kind, plain: Option<&Reading>) {
    let before = contents(device);
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let is_forged = matches!(verify(device, kind), Err(Error::Key { .. }));
    let planned = kind.maintenance(&storage).plan_truncation();
    assert!(contents(device) == before, "a plan changes nothing");
    let Ok(cut) = kind.maintenance(&storage).truncate_damaged_tail() else { return };
    let planned = planned.unwrap_or_else(|error| panic!("done, and not planned: {error}"));
    assert_eq!((cut.last, cut.intact_behind), (planned.last, planned.intact_behind));
    match verify(device, kind) {
        Ok(found) => {
            assert_eq!(found.tail, TailState::Clean, "{found:?}");
        }
        // Like an open, the truncation does not read records before the checkpoint.
        Err(Error::Key { .. }) if is_forged => {}
        Err(error) => panic!("after a cut: {error}"),
    }
    let Some(plain) = plain else { return };
    // A set is kept whole or not at all, and the damage may be within one.
    let whole = plain.records.len().saturating_sub(SET_MAX - 1);
    let kept = read(device, kind, true).map_or(vec![], |reading| reading.records);
    let lacks = plain.records.iter().take(whole).find(|record| !kept.contains(record));
    assert!(lacks.is_none(), "a cut takes {lacks:?} from before the damage: {cut:?}");
}

/// Returns scripts of a form that a fuzzer would take long to find.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    scripts(5)
}

pub(super) fn sealed_seeds() -> Vec<Vec<u8>> {
    scripts(6)
}

fn scripts(seed: u64) -> Vec<Vec<u8>> {
    let mut random = crate::random::Random::new(seed);
    let script = |random: &mut crate::random::Random| {
        let mut bytes = vec![0; 24 + random.below(100)];
        random.fill(&mut bytes);
        bytes
    };
    (0..24).map(|_| script(&mut random)).collect()
}
