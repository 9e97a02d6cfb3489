//! The lock file of a store, which also records a failed sync.
//!
//! After a failed sync, the kernel may drop what it could not write, still show it to readers, and
//! let the next sync succeed. A process that opens the database later cannot notice this. The
//! record has to outlast only this process: when the machine restarts, the kernel forgets what it
//! showed, and the database has what the device has.

use crate::{OpenError, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of the file, which never changes: a record needs no space on a full device.
const SIZE: usize = 128;
/// The content without a record, and the start of a record. The id of the machine's start follows.
const SYNCED: &str = "seawall: no sync failed\n";
const UNSYNCED: &str = "seawall: a sync failed, in start ";
/// Where Linux shows the id of the machine's start.
const START_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A locked file.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    is_unsynced: AtomicBool,
}

impl Lock {
    /// Locks `file`, and creates it if necessary, for the store at `path`.
    ///
    /// # Errors
    ///
    /// [`OpenError::Unsynced`] if a sync failed since the machine was started.
    pub(crate) fn open(file: &Path, path: &Path) -> Result<Self> {
        let failed = OpenError::io(path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(file).map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut content = Vec::new();
        let limit = u64::try_from(SIZE).unwrap_or(u64::MAX);
        (&file).take(limit).read_to_end(&mut content).map_err(&failed)?;
        let lock = Self { file, is_unsynced: AtomicBool::new(false) };
        match content.strip_prefix(UNSYNCED.as_bytes()) {
            Some(start) if may_be_this_start(start) => {
                Err(OpenError::Unsynced { path: path.to_owned() })
            }
            None if content.starts_with(SYNCED.as_bytes()) => Ok(lock),
            // New, of an earlier version, after a power cut, or of an earlier start.
            Some(_) => lock.cleared().map_err(failed),
            None if content.iter().all(|byte| *byte == 0) => lock.cleared().map_err(failed),
            None => {
                let why = "its lock file has other content".to_owned();
                Err(OpenError::Foreign { path: path.to_owned(), why })
            }
        }
    }

    fn cleared(self) -> io::Result<Self> {
        self.write(SYNCED)?;
        Ok(self)
    }

    /// Records that a sync of the database failed. If this cannot be written either, only this
    /// handle knows.
    pub(crate) fn mark_unsynced(&self) {
        self.is_unsynced.store(true, Ordering::SeqCst);
        let start = start_id().unwrap_or_default();
        let _ = self.write(&format!("{UNSYNCED}{start}\n"));
    }

    pub(crate) fn is_unsynced(&self) -> bool {
        self.is_unsynced.load(Ordering::SeqCst)
    }

    /// Replaces the content, padded to its size. Not synced: see the module.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{text:<SIZE$}").as_bytes())
    }
}

/// Whether a record was made since the machine was started, or may have been.
fn may_be_this_start(record: &[u8]) -> bool {
    let record = String::from_utf8_lossy(record);
    start_id().is_none_or(|now| record.trim().is_empty() || record.trim() == now)
}

fn start_id() -> Option<String> {
    let id = fs::read_to_string(START_ID).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty() && id.len() < SIZE - UNSYNCED.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the database is not a log")]
    fn store_whose_sync_failed_is_refused_until_the_machine_restarts() {
        let name = format!("seawall-tables-lock-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let open = || Lock::open(&path, &path);
        for content in [&b""[..], &[0; SIZE], format!("{UNSYNCED}another\n").as_bytes()] {
            fs::write(&path, content).unwrap();
            assert!(!open().unwrap().is_unsynced());
            assert!(fs::read(&path).unwrap().starts_with(SYNCED.as_bytes()));
        }
        let lock = open().unwrap();
        assert!(matches!(open(), Err(OpenError::Locked { .. })));
        lock.mark_unsynced();
        assert!(lock.is_unsynced());
        drop(lock);
        for _ in 0..2 {
            assert!(matches!(open(), Err(OpenError::Unsynced { .. })));
        }
        fs::write(&path, UNSYNCED).unwrap();
        assert!(matches!(open(), Err(OpenError::Unsynced { .. })));
        fs::write(&path, "notes of another program").unwrap();
        assert!(matches!(open(), Err(OpenError::Foreign { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"notes of another program");
        fs::remove_file(&path).unwrap();
    }
}
