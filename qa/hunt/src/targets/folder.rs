//! Recovery of a folder of whatever files: a valid log and a script of edits, after which checksums
//! may be made right again, so that the rules behind them are reached.

use crate::fixup;
use crate::sample::{Kind, Sample, Scale, contents, files, open};
use arbitrary::{Result, Unstructured};
use seawall::recovery::TailState;
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Level, LogReader, Lsn, Maintenance, OpenMode, Raw};
use seawall_format::tables;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// What a log may take up after it was tampered with: a forged size is not to fill the memory.
const ROOM: u64 = 8 << 20;
/// The longest file.
const LENGTH_MAX: usize = 32 << 10;
const EDITS_MAX: usize = 6;

type Files = BTreeMap<String, Vec<u8>>;

static LOGS: LazyLock<Vec<Sample>> = LazyLock::new(|| plain_kinds().map(Sample::make).collect());

/// All that are not encrypted: what a script means must not change.
fn plain_kinds() -> impl Iterator<Item = Kind> {
    Kind::all(Scale::Tiny).into_iter().filter(|kind| !kind.is_encrypted())
}

/// Names that a file may have; most of them a log gives.
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
    // What a script that ends early leaves undone is no harm.
    let Ok(device) = build(&mut script) else { return };
    look(&device, &mut script);
}

fn build(script: &mut Unstructured<'_>) -> Result<MemStorage> {
    let sample = script.choose(&LOGS)?;
    let mut now = files(&sample.device);
    for _ in 0..script.int_in_range(0..=EDITS_MAX)? {
        edit(&mut now, script)?;
    }
    let device = sample.device.kill();
    for name in device.names() {
        if name != "lock" && !now.contains_key(&name) {
            device.remove_raw(&name);
        }
    }
    for (name, bytes) in now {
        // A file is copied over itself to be there, and then changed.
        if device.bytes(&name).is_none() {
            device.copy_raw("lock", &name);
        }
        device.edit(&name, |there| *there = bytes);
    }
    device.limit(ROOM);
    Ok(device)
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
    if script.ratio(3_u8, 4_u8)? {
        fix(files);
    }
    Ok(())
}

/// Gives a field of a structure a number, of those that break things.
fn set_field(bytes: &mut [u8], name: &str, script: &mut Unstructured<'_>) -> Result<()> {
    let table = |name: &str| tables().into_iter().find(|(found, _)| *found == name);
    let (kind, places) = match name {
        "manifest" => ("manifest", vec![0, 512]),
        "live" => ("live", vec![0]),
        _ if is_a(name, "jsonl") => return set_digit(bytes, script),
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

/// Where the batches of a segment begin, as far as their lengths lead.
fn batches(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (2560, vec![]);
    while bytes.len() >= at + 48 && fixup::number(bytes, at + 16, 4) > 0 {
        found.push(at);
        at += 48 + usize::try_from(fixup::number(bytes, at + 4, 4) & 0x07FF_FFFF).unwrap();
    }
    found
}

/// Makes every checksum of every file right.
fn fix(files: &mut Files) {
    let mut texts = vec![];
    for (name, bytes) in files.iter_mut() {
        match name.as_str() {
            "manifest" => fixup::manifest(bytes),
            "live" => fixup::live(bytes),
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

/// What reading delivered, and how it ended.
pub(super) struct Reading {
    pub(super) records: Vec<(u64, Vec<u8>)>,
    errors: usize,
}

/// Reads all there is; `None`: a reader does not even begin.
pub(super) fn read(device: &MemStorage, skip: bool) -> Option<Reading> {
    let reader = LogReader::<[u8], Raw>::open_any_in(Arc::new(device.clone())).ok()?;
    let mut cursor = reader.skip_damaged(skip).cursor(reader_start(device)?).ok()?;
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

fn reader_start(device: &MemStorage) -> Option<Lsn> {
    LogReader::<[u8], Raw>::open_any_in(Arc::new(device.clone())).ok()?.oldest().ok()
}

pub(super) fn verify(device: &MemStorage) -> seawall::Result<Verification> {
    Maintenance::on(&(Arc::new(device.clone()) as Arc<dyn Storage>)).verify()
}

fn look(device: &MemStorage, script: &mut Unstructured<'_>) {
    let before = contents(device);
    let found = verify(device);
    let plain = read(device, false);
    let skipping = read(device, true);
    if let (Some(plain), Some(skipping)) = (&plain, &skipping) {
        assert!(skipping.records.starts_with(&plain.records), "damage is where reading stops");
        look_up(device, plain);
    }
    assert!(contents(device) == before, "readers change nothing");
    let mode = *script
        .choose(&[OpenMode::Standard, OpenMode::Strict, OpenMode::Salvage])
        .unwrap_or(&OpenMode::Standard);
    let kind = LOGS[0].kind;
    for layout in [seawall::Layout::Binary, seawall::Layout::Text] {
        goes_on(&device.kill(), &found, (Kind { layout, ..kind }, mode));
    }
    is_rescued(device, skipping.as_ref());
    is_cut(&device.kill());
}

/// What a walk delivered, a look by number gives.
fn look_up(device: &MemStorage, plain: &Reading) {
    let reader = LogReader::<[u8], Raw>::open_any_in(Arc::new(device.clone())).unwrap();
    let some = [plain.records.first(), plain.records.get(plain.records.len() / 2)];
    for (lsn, payload) in some.into_iter().flatten().chain(plain.records.last()) {
        let got = reader.get(Lsn::new(*lsn).unwrap()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(got.as_ref(), Some(payload), "record {lsn}");
    }
}

/// A log that opens is in order and without a hole, takes a record, and is sound then.
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
    let Ok(Some(payload)) = log.get(lsn) else { panic!("what was appended is there") };
    assert_eq!(payload, b"7");
    if log.close().is_err() {
        return;
    }
    let after = verify(device).unwrap_or_else(|error| panic!("it is a log: {error}"));
    let was_damaged = found.as_ref().is_ok_and(|found| !found.damage.is_empty());
    assert!(after.verdict == Verdict::Clean || was_damaged, "{found:?}, then {after:?}");
    assert_eq!(after.tail, TailState::Clean);
    assert_eq!(after.last_lsn, Some(lsn));
}

/// What is salvaged is sound, and was there.
fn is_rescued(device: &MemStorage, skipping: Option<&Reading>) {
    let target = MemStorage::new();
    target.limit(ROOM);
    let source: Arc<dyn Storage> = Arc::new(device.kill());
    if Maintenance::on(&source).salvage_to(Arc::new(target.clone())).is_err() {
        return;
    }
    let found = verify(&target).unwrap_or_else(|error| panic!("the rescued: {error}"));
    assert_eq!(found.verdict, Verdict::Clean, "{found:?}");
    let Some(rescued) = read(&target, false) else { return };
    let Some(skipping) = skipping else { return };
    let there: BTreeMap<_, _> = skipping.records.iter().map(|(lsn, bytes)| (lsn, bytes)).collect();
    for (lsn, payload) in &rescued.records {
        // A salvage continues where `live` of a killed writer stops readers.
        assert!(there.get(lsn).is_none_or(|found| *found == payload), "record {lsn}");
    }
}

fn is_cut(device: &MemStorage) {
    let before = contents(device);
    let storage: Arc<dyn Storage> = Arc::new(device.clone());
    let planned = Maintenance::on(&storage).plan_truncation();
    assert!(contents(device) == before, "a plan changes nothing");
    let Ok(cut) = Maintenance::on(&storage).truncate_damaged_tail() else { return };
    let planned = planned.unwrap_or_else(|error| panic!("done, and not planned: {error}"));
    assert_eq!((cut.last, cut.intact_behind), (planned.last, planned.intact_behind));
    match verify(device) {
        Ok(found) => assert_eq!(found.tail, TailState::Clean, "{found:?}"),
        Err(error) => assert!(matches!(error, Error::NotALog { .. }), "{error}"),
    }
}

/// Scripts: a few that a fuzzer would take long to find the form of.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut random = crate::random::Random::new(5);
    let script = |random: &mut crate::random::Random| {
        let mut bytes = vec![0; 24 + random.below(100)];
        random.fill(&mut bytes);
        bytes
    };
    (0..24).map(|_| script(&mut random)).collect()
}
