//! A temporary folder for a test.

use std::path::PathBuf;

/// A folder that is removed at the end of the test, unless the test failed.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates an empty folder whose name ends with the process id.
    ///
    /// # Panics
    ///
    /// If the folder cannot be created.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let name = format!("seawall-store-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
