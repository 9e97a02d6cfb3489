//! Where files are: the folder, which may be reached over links, and the name in it.

use crate::output::report::{Exit, Failure};
use seawall::Error;
use seawall_host::folder_and_name;
use seawall_io::PosixStorage;
use std::io;
use std::path::{Path, PathBuf};

/// A file by its folder.
#[derive(Debug)]
pub(super) struct Place {
    /// Its path as it was given.
    pub(super) path: PathBuf,
    pub(super) parent: PathBuf,
    pub(super) folder: PosixStorage,
    pub(super) name: String,
}

impl Place {
    /// Finds the folder of what is or will be at `path`.
    pub(super) fn find(path: &Path) -> Result<Self, Failure> {
        let fail = |error: io::Error| unreadable(path, error);
        let (parent, name) = folder_and_name(path).ok_or_else(|| {
            let what = "this path does not end in a name in UTF-8";
            Failure::new(Exit::Failed, what).at(path.display()).next("give one that does")
        })?;
        let parent = parent.canonicalize().map_err(fail)?;
        let folder = PosixStorage::open(&parent).map_err(fail)?;
        Ok(Self { path: path.to_owned(), parent, folder, name: name.to_owned() })
    }

    /// The same file for one that it is reached by: links are followed.
    pub(super) fn find_real(path: &Path) -> Result<Self, Failure> {
        let found = path.metadata().map_err(|error| unreadable(path, error))?;
        if found.is_dir() {
            let what = "this is a directory, and such a log is one file";
            let failure = Failure::new(Exit::Format, what).at(path.display());
            return Err(failure.next("give the file, or --from seawall for a log of ours"));
        }
        if !found.is_file() {
            let failure = Failure::new(Exit::Failed, "not a regular file").at(path.display());
            return Err(failure.next("write what it gives to a file, and convert that"));
        }
        let real = path.canonicalize().map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), ..Self::find(&real)? })
    }
}

/// The system refused something about this file.
pub(super) fn unreadable(path: &Path, error: io::Error) -> Failure {
    let error = Error::Io { what: format!("convert {}", path.display()), source: error };
    Failure::of(&error, "convert", path)
}
