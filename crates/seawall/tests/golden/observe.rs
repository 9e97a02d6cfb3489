//! What is said of a golden file: by `verify`, by readers, by opens of copies.

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

/// The key of the logs that are encrypted.
pub(crate) const KEY: [u8; 32] = [7; 32];

/// `NAME.json`: what has to be said of `NAME.bytes` for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// What the case is, for people.
    pub(crate) what: String,
    /// A part of what all say who refuse the log, or to look further than `records`.
    pub(crate) refused: Option<String>,
    pub(crate) verdict: String,
    pub(crate) tail: String,
    /// What the log is like, from its manifest and headers.
    pub(crate) log: String,
    pub(crate) damage: Vec<String>,
    /// What parity gives back: file, offset, length.
    pub(crate) mended: Vec<String>,
    pub(crate) given_up: Vec<String>,
    /// Every record that can be read: LSN, length, CRC-32C.
    pub(crate) records: Vec<String>,
    /// So many of them are shown by a reader that stops at damage.
    pub(crate) shown: usize,
    /// What an open answers, which also keeps all that is shown, and adds a record.
    pub(crate) open: Vec<String>,
    /// What the second reader, docs/reader.py, answers: exit code and number of records.
    pub(crate) second_reader: (i32, usize),
    /// Of an encrypted log: what `verify` says without the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) locked: Vec<String>,
}

/// All of that but what the second reader says.
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

/// What `verify` says of an encrypted log without its key. Readers and opens say that it is
/// missing, unless what they see anyhow was not written with it.
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

/// A file that is not part of the log: nobody touches it.
const UNKNOWN: &str = "000000000001.index";

fn modes() -> [(&'static str, OpenMode); 3] {
    [("strict", OpenMode::Strict), ("standard", OpenMode::Standard), ("salvage", OpenMode::Salvage)]
}

/// All say the same, and nobody writes.
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
    // In whatever words: which version, which feature, which key.
    let said = match error {
        Error::Unsupported { refused, .. } => refused.to_string(),
        Error::Key { source, .. } => source.to_string(),
        other => panic!("{other}"),
    };
    said.split([',', ';']).next().unwrap().to_owned()
}

/// The files on a device in memory, all of them durable.
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

/// What a reader shows, and what it named besides.
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

/// By itself: what this says of records must not change with the code.
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

/// What an open of a copy answers; the records that are shown are kept, and one more goes in.
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
