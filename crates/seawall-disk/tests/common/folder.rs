//! A folder in the file system for one test.

use seawall_io::PosixStorage;
use std::path::PathBuf;

/// A folder for one test, removed on drop.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("seawall-{name}-{}", std::process::id()));
        PosixStorage::create(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
