//! A log's directory: the names in it, and whether it is one. format.md section 1.

use crate::base::error::{Error, Result};
use seawall_format::SegmentId;
use seawall_io::{Access, File, PosixStorage, Storage};
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const LIVE: &str = "live";
pub(crate) const LOCK: &str = "lock";
pub(crate) const QUARANTINE: &str = "quarantine";

/// Two slots of the largest block.
pub(crate) const MANIFEST_MAX: usize = 2 * 65_536;

/// Opens the directory of an existing log, for reading.
pub(crate) fn open_existing(path: &Path) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(error) => Err(not_opened(path, error)),
    }
}

/// Opens the directory of a log for writing, or makes it.
pub(crate) fn open_or_create(path: &Path, create: bool) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => {
            let names = list(&storage)?;
            if !names.iter().any(|name| name == MANIFEST) {
                let others = storage.list_others();
                let others = others.map_err(Error::io(format!("list {}", path.display())))?;
                if let Some(stranger) = others.iter().find(|name| *name != QUARANTINE) {
                    return Err(not_a_log(&storage, format!("it holds {stranger}")));
                }
                // Somebody may have died between making the directory and making it durable.
                let synced = storage.sync_parent();
                synced.map_err(Error::io(format!("sync the parent of {}", path.display())))?;
            }
            Ok(Arc::new(storage))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            let made = PosixStorage::create(path);
            Ok(Arc::new(made.map_err(Error::io(format!("create {}", path.display())))?))
        }
        Err(error) => Err(not_opened(path, error)),
    }
}

fn not_opened(path: &Path, error: io::Error) -> Error {
    let place = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotADirectory => {
            Error::NotALog { place, found: "a file, and a log is a directory".to_owned() }
        }
        _ => Error::io(format!("open {place}"))(error),
    }
}

/// Whether a name is one that a log's directory has.
fn is_ours(name: &str) -> bool {
    let fixed = [MANIFEST, LIVE, LOCK, QUARANTINE].contains(&name);
    fixed || is_preallocated(name) || SegmentId::from_any_name(name).is_some()
}

/// Refuses a directory that holds other people's files and no log, before anything is made in it.
pub(crate) fn refuse_foreign(storage: &dyn Storage) -> Result<Vec<String>> {
    let names = list(storage)?;
    let foreign = names.iter().find(|name| !is_ours(name));
    let holds_log = segment_ids(&names).next().is_some();
    match foreign {
        Some(foreign) if !holds_log => Err(not_a_log(storage, format!("it holds {foreign}"))),
        _ => Ok(names),
    }
}

pub(crate) fn not_a_log(storage: &dyn Storage, found: impl Into<String>) -> Error {
    Error::NotALog { place: storage.place(), found: found.into() }
}

/// The names of the files in a log's directory.
pub(crate) fn list(storage: &dyn Storage) -> Result<Vec<String>> {
    storage.list().map_err(Error::io(format!("list {}", storage.place())))
}

/// The segments among these names.
pub(crate) fn segment_ids(names: &[String]) -> impl Iterator<Item = SegmentId> {
    names.iter().filter_map(|name| SegmentId::from_file_name(name))
}

/// Whether somebody has the log open for writing.
pub(crate) fn is_in_use(storage: &dyn Storage) -> Result<bool> {
    storage.is_locked(LOCK).map_err(Error::io(format!("look at {LOCK}")))
}

/// Reads all of a small file; `None` if there is none.
pub(crate) fn read_small(storage: &dyn Storage, name: &str, max: usize) -> Result<Option<Vec<u8>>> {
    let file = match storage.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    read_start(&*file, name, max).map(Some)
}

/// Opens a file of the log to read and write it, and makes it if there is none.
pub(crate) fn open_or_make(storage: &dyn Storage, name: &str) -> Result<Arc<dyn File>> {
    let file = match storage.open(name, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(name),
        other => other,
    };
    file.map_err(Error::io(format!("open {name}")))
}

/// The first bytes of an open file, `max` at most.
pub(crate) fn read_start(file: &dyn File, name: &str, max: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    let read = file.read_at(&mut bytes, 0).map_err(Error::io(format!("read {name}")))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// A file of the log, for people.
pub(crate) fn file_place(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.place())
}

/// Whether a file was not there, or not all of it: pruned, or cut behind its last batch meanwhile.
pub(crate) fn is_not_found(error: &Error) -> bool {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof];
    matches!(error, Error::Io { source, .. } if gone.contains(&source.kind()))
}

/// Whether a name is one that a spare has.
pub(crate) fn is_preallocated(name: &str) -> bool {
    let number = name.strip_prefix("spare-").and_then(|name| name.strip_suffix(".tmp"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Opens a file for reading; `None` if there is none of that name.
pub(crate) fn open_if_exists(storage: &dyn Storage, name: &str) -> Result<Option<Arc<dyn File>>> {
    match storage.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("open {name}"))(error)),
    }
}

/// Whether files of a log have this name: its manifest, its segments and their parity.
pub(crate) fn is_of_log(name: &str) -> bool {
    name == MANIFEST || SegmentId::from_any_name(name).is_some()
}
