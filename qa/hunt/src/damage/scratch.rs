//! A temporary folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// Counts the folders of this process, so that their names differ.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A new folder, removed with its content on drop.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a folder below `TMPDIR`.
    pub(super) fn new() -> io::Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("seawall-damage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    /// The path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover does no harm: no other run uses the name.
        let _ = fs::remove_dir_all(&self.path);
    }
}
