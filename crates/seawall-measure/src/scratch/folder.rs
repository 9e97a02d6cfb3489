//! A temporary folder of one run.

use seawall_io::{Clock, PosixStorage, Storage, SystemClock};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// A new folder that is removed with its content on drop.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    /// Creates the folder `name`-PID in `parent`.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn new(parent: &Path, name: &str) -> Result<Self, NoFolder> {
        let path = parent.join(format!("{name}-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, keep: false }),
            Err(source) => Err(NoFolder { path, source }),
        }
    }

    /// Takes ownership of the folder `path`, which the caller is about to create.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AlreadyExists`] if the path exists.
    pub fn around(path: PathBuf) -> Result<Self, NoFolder> {
        if path.symlink_metadata().is_ok() {
            return Err(NoFolder { path, source: io::ErrorKind::AlreadyExists.into() });
        }
        Ok(Self { path, keep: false })
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // If this fails, the folder stays; its name is unique to this process.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the file or folder at `path` while other threads may still create files in it.
///
/// Gives up after some attempts.
pub(super) fn remove_in_use(path: &Path) {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        let removed = match path.symlink_metadata() {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path),
            Ok(_) => remove_file(path),
            Err(_) => return,
        };
        if removed.is_err() {
            SystemClock::new().sleep(Duration::from_millis(2));
        }
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::InvalidFilename)?;
    PosixStorage::open(parent.unwrap_or(Path::new(".")))?.remove(name)
}

/// The error of creating a folder.
#[derive(Debug)]
pub struct NoFolder {
    /// The path.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

impl Display for NoFolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "cannot create a directory: {}", self.source)
    }
}

impl std::error::Error for NoFolder {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
