//! The location of a file: its directory, with links resolved, and its name.

use crate::commands::outside;
use seawall::Error;
use seawall_host::folder_and_name;
use seawall_io::PosixStorage;
use seawall_output::report::{Exit, Failure};
use seawall_output::text::typed;
use std::io;
use std::path::{Path, PathBuf};

/// A file's location.
#[derive(Debug)]
pub(super) struct Place {
    /// The path as given.
    pub(super) path: PathBuf,
    pub(super) parent: PathBuf,
    pub(super) folder: PosixStorage,
    pub(super) name: String,
}

impl Place {
    /// Opens the directory of a path that may not exist yet.
    pub(super) fn find(path: &Path) -> Result<Self, Failure> {
        let fail = |error: io::Error| unreadable(path, error);
        let (parent, name) = folder_and_name(path).ok_or_else(|| {
            let what = "this path does not end in a UTF-8 file name";
            Failure::new(Exit::Failed, what).at(path.display()).next("give a path that does")
        })?;
        let parent = parent.canonicalize().map_err(|error| no_folder(path, parent, error))?;
        let folder = PosixStorage::open(&parent).map_err(fail)?;
        Ok(Self { path: path.to_owned(), parent, folder, name: name.to_owned() })
    }

    /// Opens the directory of a target that may not exist yet. Refuses one inside a log.
    pub(super) fn find_outside(path: &Path) -> Result<Self, Failure> {
        outside::check_path(path)?;
        Self::find(path)
    }

    /// Opens the directory of an existing file, after following links to the file.
    pub(super) fn find_real(path: &Path) -> Result<Self, Failure> {
        let found = path.metadata().map_err(|error| unreadable(path, error))?;
        if found.is_dir() {
            let what = "this is a directory, but such a log is one file";
            let failure = Failure::new(Exit::Format, what).at(path.display());
            return Err(failure.next("give the file, or --from seawall for a Seawall log"));
        }
        if !found.is_file() {
            let failure = Failure::new(Exit::Failed, "not a regular file").at(path.display());
            return Err(failure.next("write its content to a file, and convert that"));
        }
        let real = path.canonicalize().map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), ..Self::find(&real)? })
    }
}

/// The error of a directory that cannot be opened.
fn no_folder(path: &Path, folder: &Path, error: io::Error) -> Failure {
    if error.kind() != io::ErrorKind::NotFound {
        return unreadable(path, error);
    }
    let failure = Failure::new(Exit::Failed, format!("no such directory: {}", folder.display()));
    failure.at(path.display()).next(format!("mkdir -p {}", typed(folder)))
}

/// The error of a failed file operation.
pub(super) fn unreadable(path: &Path, error: io::Error) -> Failure {
    let what = format!("convert {}", path.display());
    let error = Error::Io { log: None, what, source: error };
    Failure::of(&error, "convert", path)
}
