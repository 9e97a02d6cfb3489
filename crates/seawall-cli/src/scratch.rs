//! A folder for the files of one run, removed at its end.

use crate::report::{Exit, Failure};
use std::fs;
use std::path::{Path, PathBuf};

/// A fresh folder; dropping it removes it with all that is in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Makes the folder `name` with this process's number behind it.
    pub(crate) fn new(parent: &Path, name: &str) -> Result<Self, Failure> {
        let path = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            let failure = Failure::new(Exit::Failed, format!("cannot make a folder: {error}"));
            failure.at(path.display()).next("choose another place with --dir")
        })?;
        Ok(Self { path, keep: false })
    }

    /// Takes charge of the folder `path`, which somebody is about to make.
    pub(crate) fn around(path: PathBuf) -> Result<Self, Failure> {
        if path.symlink_metadata().is_ok() {
            let what = "an interrupted run left its folder";
            let failure = Failure::new(Exit::Failed, what).at(path.display());
            return Err(failure.next("remove it, and try again"));
        }
        Ok(Self { path, keep: false })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed now is in nobody's way: the name is ours alone.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
