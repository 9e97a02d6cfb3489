//! The results for a golden file: of `verify`, of readers, and of opens of copies.

use super::image::Files;
use seawall::damage::Damage;
use seawall::encryption::{Key, KeyError};
use seawall::format::CodecId;
use seawall::repair::Patch;
use seawall::verify::Verification;
use seawall::{Error, Layout, LogReader, Lsn, Maintenance, OpenMode, Options, Raw};
use seawall_format::Manifest;
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The key of encrypted logs.
pub(crate) const KEY: [u8; 32] = [7; 32];

/// `NAME.json`: the results that `NAME.bytes` must give for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// A description of the case.
    pub(crate) what: String,
    /// Part of the error with which everything refuses the log, or refuses to read beyond
    /// `records`.
    pub(crate) refused: Option<String>,
    pub(crate) verdict: String,
    pub(crate) tail: String,
    /// Properties of the log, from its manifest and headers.
    pub(crate) log: String,
    pub(crate) damage: Vec<String>,
    /// What parity can restore: file, offset, length.
    pub(crate) mended: Vec<String>,
    pub(crate) given_up: Vec<String>,
    /// Every readable record: LSN, length, CRC-32C.
    pub(crate) records: Vec<String>,
    /// The number of records shown by a reader that stops at damage.
    pub(crate) shown: usize,
    /// The result of an open in each mode. An open that succeeds keeps the shown records and
    /// appends one.
    pub(crate) open: Vec<String>,
    /// The results of the second reader, docs/reader.py: exit code and number of records.
    pub(crate) second_reader: (i32, usize),
    /// The results of `verify` without the key, for an encrypted log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) locked: Vec<String>,
}

/// Computes all results except those of the second reader.
pub(crate) fn observe(files: &Files) -> Expected {
    let storage = storage(files);
    let (key, locked) = (key(files), locked(files));
    let found = match maintenance(&storage, key.as_ref()).verify() {
        Ok(found) => found,
        Err(error) => return Expected { locked, ..refused(files, &error) },
    };
    let records = read(&storage, key.as_ref(), true).0;
    let (shown, _) = read(&storage, key.as_ref(), false);
    assert!(records.starts_with(&shown), "{shown:?} of {records:?}");
    Expected {
        locked,
        verdict: found.verdict.name().to_owned(),
        tail: format!("{}, {} bytes", found.tail.name(), found.tail_bytes),
        log: log(&found),
        damage: found.damage.iter().map(damage).collect(),
        mended: found.mended.iter().map(mended).collect(),
        given_up: found.given_up.iter().map(ToString::to_string).collect(),
        open: modes().map(|(name, mode)| open(files, &found, &shown, (name, mode))).to_vec(),
        shown: shown.len(),
        records,
        ..Expected::default()
    }
}

/// The key, if the manifest says that the log is encrypted.
fn key(files: &Files) -> Option<Key> {
    is_encrypted(files).then(|| Key::new(&KEY))
}

/// Whether the manifest says that the log is encrypted.
pub(crate) fn is_encrypted(files: &Files) -> bool {
    let manifest = files.get("manifest").map(|bytes| Manifest::decode_file(bytes));
    let slots = manifest.into_iter().flat_map(|slots| slots.into_iter().flatten());
    slots.into_iter().any(|slot| slot.authenticator.is_some())
}

fn maintenance<'a>(storage: &Arc<dyn Storage>, key: Option<&Key>) -> Maintenance<'a> {
    let maintenance = Maintenance::on(storage);
    key.into_iter().fold(maintenance, |maintenance, key| maintenance.key(key.clone()))
}

fn with_key(options: Options, key: Option<&Key>) -> Options {
    key.into_iter().fold(options, |options, key| options.key(key.clone()))
}

/// The results of `verify` on an encrypted log without its key. Readers and opens report a missing
/// key, unless what they can read shows that it was not written with the key.
fn locked(files: &Files) -> Vec<String> {
    let storage = storage(files);
    if !is_encrypted(files) {
        return vec![];
    }
    let found = Maintenance::on(&storage).verify();
    let expected = if found.is_ok() { KeyError::NoKey } else { KeyError::Forged };
    let reader = LogReader::<[u8], Raw>::open_any_in(storage.clone()).map(drop);
    let opened = options(CodecId::Raw, None).open_in::<[u8], Raw>(storage.clone()).map(drop);
    for outcome in [reader, opened] {
        let is_it = matches!(&outcome, Err(Error::Key { source, .. }) if *source == expected);
        assert!(is_it, "{outcome:?}");
    }
    is_unchanged(files, &storage);
    let found = match found {
        Ok(found) => found,
        Err(error) => return vec![unsupported(&error)],
    };
    let said = format!(
        "{}, {} records, tail {}, {} bytes",
        found.verdict.name(),
        found.records,
        found.tail.name(),
        found.tail_bytes
    );
    [said].into_iter().chain(found.damage.iter().map(damage)).collect()
}

/// A file that is not part of the log: it is never touched.
const UNKNOWN: &str = "000000000001.index";

fn modes() -> [(&'static str, OpenMode); 3] {
    [("strict", OpenMode::Strict), ("standard", OpenMode::Standard), ("salvage", OpenMode::Salvage)]
}

/// Checks that every way to use the log gives the same error, and that none writes.
fn refused(files: &Files, error: &Error) -> Expected {
    let said = unsupported(error);
    let (storage, key) = (storage(files), key(files));
    let mut records = vec![];
    let reader = with_key(Options::new(), key.as_ref()).open_any_reader_in(storage.clone());
    let stopped = reader.and_then(|reader: LogReader<[u8], Raw>| {
        for entry in reader.read_from(Lsn::FIRST)? {
            let (lsn, payload) = entry?;
            records.push(record(lsn, &payload));
        }
        Ok(())
    });
    assert_eq!(unsupported(&stopped.unwrap_err()), said);
    for (_, mode) in modes() {
        let options = with_key(options(CodecId::Raw, None).mode(mode), key.as_ref());
        let opened = options.open_in::<[u8], Raw>(storage.clone());
        assert_eq!(unsupported(&opened.unwrap_err()), said);
    }
    is_unchanged(files, &storage);
    Expected { refused: Some(said), shown: records.len(), records, ..Expected::default() }
}

fn is_unchanged(files: &Files, storage: &Arc<dyn Storage>) {
    for (name, bytes) in files {
        let file = storage.open(name, seawall_io::Access::Read).unwrap();
        let mut now = vec![0; bytes.len()];
        assert_eq!(file.read_at(&mut now, 0).unwrap(), bytes.len());
        assert!(now == *bytes, "{name} was changed");
    }
}

fn unsupported(error: &Error) -> String {
    // The wording may change. The version, feature or key is what counts.
    let said = match error {
        Error::Unsupported { refused, .. } => refused.to_string(),
        Error::Key { source, .. } => source.to_string(),
        other => panic!("{other}"),
    };
    said.split([',', ';']).next().unwrap().to_owned()
}

/// An in-memory device with `files`, all of them durable.
pub(crate) fn storage(files: &Files) -> Arc<dyn Storage> {
    let device = MemStorage::new();
    for (name, bytes) in files {
        let file = device.create(name).unwrap();
        file.write_at(bytes, 0).unwrap();
        file.sync().unwrap();
    }
    device.sync_dir().unwrap();
    Arc::new(device)
}

fn log(found: &Verification) -> String {
    let like = &found.summary;
    let number = |lsn: Option<Lsn>| lsn.map_or(0, Lsn::get);
    let span = |lsn: Option<Lsn>| lsn.map_or_else(|| "-".to_owned(), |lsn| lsn.to_string());
    format!(
        "{} {:?} schema {}, layout {}, level {}, {} segments, records {} to {}, checkpoint {}, \
         closed at {}",
        like.codec.map_or("-", CodecId::name),
        like.type_name,
        like.schema,
        like.layout.map_or("-", Layout::name),
        like.level.map_or("-", seawall::Level::name),
        like.segments,
        span(found.first_lsn),
        span(found.last_lsn),
        number(like.checkpoint),
        number(like.closed),
    )
}

fn damage(found: &Damage) -> String {
    let segment = found.segment.map_or_else(|| "-".to_owned(), |segment| segment.to_string());
    let lost = found.lost.map_or_else(|| "nothing".to_owned(), |lost| lost.to_string());
    let origin =
        found.origin.map(|of| format!(", of segment {} offset {:#x}", of.segment, of.offset.0));
    let (offset, cause) = (found.offset.0, found.cause.name());
    format!(
        "segment {segment}, offset {offset:#x}, {} bytes: {cause}, lost: {lost}{}",
        found.bytes,
        origin.unwrap_or_default()
    )
}

fn mended(patch: &Patch) -> String {
    format!("{} offset {:#x}, {} bytes", patch.file, patch.offset, patch.new.len())
}

/// The records that a reader shows, and the number of damage errors.
fn read(storage: &Arc<dyn Storage>, key: Option<&Key>, skips: bool) -> (Vec<String>, usize) {
    let reader = with_key(Options::new(), key).open_any_reader_in(storage.clone());
    let reader: LogReader<[u8], Raw> = reader.unwrap();
    let (mut shown, mut named) = (vec![], 0);
    let from = reader.oldest().unwrap();
    for entry in reader.skip_damaged(skips).read_from(from).unwrap() {
        match entry {
            Ok((lsn, payload)) => shown.push(record(lsn, &payload)),
            Err(Error::Damaged { .. }) => named += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (shown, named)
}

pub(crate) fn record(lsn: Lsn, payload: &[u8]) -> String {
    format!("{lsn} {} {:08x}", payload.len(), crc32c(payload))
}

/// A separate implementation: recorded checksums must not change with the code.
fn crc32c(bytes: &[u8]) -> u32 {
    let of_bit = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
    let of_byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| of_bit(crc));
    !bytes.iter().fold(u32::MAX, of_byte)
}

fn options(codec: CodecId, layout: Option<Layout>) -> Options {
    let clock = ManualClock::new();
    clock.set_wall_us(2_000_000_000_000_000);
    let options = Options::new()
        .idle_mark(None)
        .preallocate(false)
        .codec(codec)
        .env(Arc::new(clock), Arc::new(SeededEntropy::new(99)));
    if layout == Some(Layout::Text) { options.layout(Layout::Text) } else { options }
}

/// The result of opening a copy. Checks that the shown records are kept, and appends one more.
fn open(
    files: &Files,
    found: &Verification,
    shown: &[String],
    (name, mode): (&str, OpenMode),
) -> String {
    let storage = storage(files);
    let like = &found.summary;
    let key = key(files);
    let options = options(like.codec.unwrap_or(CodecId::Raw), like.layout);
    let options = with_key(options.schema(like.schema).mode(mode), key.as_ref());
    let log = match options.open_in::<[u8], Raw>(storage.clone()) {
        Ok(log) => log,
        Err(Error::Damaged { damage: found, .. }) => {
            return format!("{name}: refused, {}", damage(&found));
        }
        Err(Error::Ambiguous { .. }) => return format!("{name}: refused, unsure"),
        Err(other) => panic!("{name}: {other}"),
    };
    let recovery = log.recovery().clone();
    let lsn = log.append(b"7").unwrap();
    log.close().unwrap();
    let kept = read(&storage, key.as_ref(), mode == OpenMode::Salvage).0;
    let added = record(lsn, b"7");
    let are_kept = shown.iter().all(|record| kept.contains(record));
    assert!(are_kept && kept.last() == Some(&added), "{name}: {kept:?}");
    if files.contains_key(UNKNOWN) {
        assert!(storage.list().unwrap().contains(&UNKNOWN.to_owned()), "it is not ours");
    }
    let last = recovery.last.map_or(0, Lsn::get);
    format!(
        "{name}: record {lsn} follows {last}, tail {}, {} bytes cut, {} damaged",
        recovery.tail.name(),
        recovery.cut_bytes,
        recovery.damage.len()
    )
}
