//! The names in a log's directory, and whether a directory is a log. format.md section 1.

use crate::base::error::log_path::NamesLog;
use crate::base::error::{Error, Result};
use seawall_format::SegmentId;
use seawall_io::{Access, File, PosixStorage, Storage};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const KEYS: &str = "keys";
pub(crate) const LIVE: &str = "live";
pub(crate) const LOCK: &str = "lock";
pub(crate) const QUARANTINE: &str = "quarantine";

/// Two slots of the largest block size.
pub(crate) const MANIFEST_MAX: usize = 2 * 65_536;

/// Two slots, each with the most keys.
pub(crate) const KEYS_MAX: usize = 2 * 65_536;

/// Opens the directory of an existing log for reading.
pub(crate) fn open_existing(path: &Path) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(error) => Err(not_opened(path, error)),
    }
}

/// Opens the directory of a log for writing. Creates a missing one, if that is allowed and
/// `check_new` accepts what will be created there.
pub(crate) fn open_or_create(
    path: &Path,
    may_create: bool,
    check_new: impl FnOnce() -> Result<()>,
) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => {
            let names = list(&storage)?;
            if !names.iter().any(|name| name == MANIFEST) {
                let others = storage.list_others();
                let others = others.map_err(Error::io(format!("list {}", path.display())))?;
                if let Some(foreign) = others.iter().find(|name| *name != QUARANTINE) {
                    return Err(not_a_log(&storage, format!("it holds {foreign}")));
                }
                // An earlier process may have crashed after creating the directory and before
                // syncing its parent.
                let synced = storage.sync_parent();
                synced.map_err(Error::io(format!("sync the parent of {}", path.display())))?;
            }
            Ok(Arc::new(storage))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_create => {
            check_new()?;
            let made = PosixStorage::create(path);
            Ok(Arc::new(made.map_err(Error::io(format!("create {}", path.display())))?))
        }
        Err(error) => Err(not_opened(path, error)),
    }
}

fn not_opened(path: &Path, error: io::Error) -> Error {
    let failed = match error.kind() {
        io::ErrorKind::NotADirectory => {
            Error::NotALog { log: None, found: "a file; a log is a directory".to_owned() }
        }
        _ => Error::io(format!("open {}", path.display()))(error),
    };
    failed.of_log_at(path)
}

/// Whether a log's directory may contain this name.
fn is_ours(name: &str) -> bool {
    let fixed = [MANIFEST, KEYS, LIVE, LOCK, QUARANTINE].contains(&name);
    fixed || is_preallocated(name) || SegmentId::from_any_name(name).is_some()
}

/// Refuses a directory that contains foreign files and no log, before anything is created there.
pub(crate) fn refuse_foreign(storage: &dyn Storage) -> Result<Vec<String>> {
    let names = list(storage)?;
    let foreign = names.iter().find(|name| !is_ours(name));
    let holds_log = segment_ids(&names).next().is_some();
    match foreign {
        Some(foreign) if !holds_log => Err(not_a_log(storage, format!("it holds {foreign}"))),
        _ => Ok(names),
    }
}

/// Refuses a target that is not empty, before anything is created there.
pub(crate) fn refuse_occupied(target: &dyn Storage) -> Result<()> {
    let Some(name) = list(target)?.into_iter().next() else { return Ok(()) };
    let holds = format!("it holds {name}");
    let occupied = io::Error::new(io::ErrorKind::AlreadyExists, holds);
    Err(Error::io(format!("create a log in {}", target.place()))(occupied))
}

pub(crate) fn not_a_log(storage: &dyn Storage, found: impl Into<String>) -> Error {
    Error::NotALog { log: None, found: found.into() }.of_log(storage)
}

/// The file names in a log's directory.
pub(crate) fn list(storage: &dyn Storage) -> Result<Vec<String>> {
    storage.list().map_err(|error| Error::io(format!("list {}", storage.place()))(error))
}

/// The segments among `names`.
pub(crate) fn segment_ids(names: &[String]) -> impl Iterator<Item = SegmentId> {
    names.iter().filter_map(|name| SegmentId::from_file_name(name))
}

/// Whether a process has the log open for writing.
pub(crate) fn is_in_use(storage: &dyn Storage) -> Result<bool> {
    storage.is_locked(LOCK).map_err(Error::io(format!("check the lock {LOCK}")))
}

/// Zeroing a buffer of more bytes takes longer than a look at the length of the file.
const ZEROED_MAX: usize = 16 << 10;

/// Reads a whole small file; `None` if it does not exist.
pub(crate) fn read_small(storage: &dyn Storage, name: &str, max: usize) -> Result<Option<Vec<u8>>> {
    let file = match storage.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    let length = if max > ZEROED_MAX { file.len() } else { Ok(u64::MAX) };
    let length = length.map_err(|error| Error::io(format!("read {name}"))(error))?;
    read_start(&*file, name, usize::try_from(length).map_or(max, |length| length.min(max)))
        .map(Some)
}

/// Opens a file of the log for reading and writing; creates it if it does not exist.
pub(crate) fn open_or_make(storage: &dyn Storage, name: &str) -> Result<Arc<dyn File>> {
    let file = match storage.open(name, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(name),
        other => other,
    };
    file.map_err(Error::io(format!("open {name}")))
}

/// Reads the first bytes of an open file, at most `max`.
pub(crate) fn read_start(file: &dyn File, name: &str, max: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    let read = file.read_at(&mut bytes, 0);
    let read = read.map_err(|error| Error::io(format!("read {name}"))(error))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The path of a file of the log, for messages.
pub(crate) fn file_place(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.place())
}

/// Whether a file was missing or too short: it was pruned, or truncated after its last batch.
pub(crate) fn is_not_found(error: &Error) -> bool {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof];
    matches!(error, Error::Io { source, .. } if gone.contains(&source.kind()))
}

/// Whether `name` is that of a preallocated file.
pub(crate) fn is_preallocated(name: &str) -> bool {
    let number = name.strip_prefix("spare-").and_then(|name| name.strip_suffix(".tmp"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Opens a file for reading; `None` if it does not exist.
pub(crate) fn open_if_exists(storage: &dyn Storage, name: &str) -> Result<Option<Arc<dyn File>>> {
    match storage.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("open {name}"))(error)),
    }
}

/// The first non-empty file among `names` of a segment that has neither its file nor a head: it may
/// be the rest of a log.
pub(crate) fn lone_file<'a>(storage: &dyn Storage, names: &'a [String]) -> Result<Option<&'a str>> {
    let headed: BTreeSet<_> = segment_ids(names).collect();
    for name in names {
        let id = SegmentId::from_any_name(name).filter(|id| !headed.contains(id));
        if id.is_some()
            && let Some(file) = open_if_exists(storage, name)?
            && !file.is_empty().map_err(Error::io(format!("check {name}")))?
        {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Whether `name` is a file with log data: the manifest, the keys, a segment or its parity.
pub(crate) fn is_of_log(name: &str) -> bool {
    name == MANIFEST || name == KEYS || SegmentId::from_any_name(name).is_some()
}
