//! A folder for the files of one look, removed at its end.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// How many were made by this process: no two have one name.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A fresh folder; dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one among the machine's temporary files, which `TMPDIR` says.
    pub(super) fn new() -> io::Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("seawall-damage-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
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
