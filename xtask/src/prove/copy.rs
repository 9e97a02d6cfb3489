//! A copy of the tree to plant bugs in, with its own target directory.
//!
//! The copy is kept for the next run: only files that differ are written, so that cargo rebuilds
//! only what changed.

use crate::tree;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A copy of the tree.
#[derive(Debug)]
pub(super) struct Copy {
    /// Locks the copy against other runs of `prove`.
    _lock: fs::File,
    tree: PathBuf,
    target: PathBuf,
    patches: PathBuf,
}

impl Copy {
    /// Opens copy `number` and updates it from the tree at `root`.
    pub(super) fn new(root: &Path, number: usize) -> io::Result<Self> {
        let folder = tree::target(root).join("prove").join(number.to_string());
        fs::create_dir_all(&folder)?;
        let copy = Self {
            _lock: lock(&folder.join("lock"))?,
            tree: folder.join("tree"),
            target: folder.join("target"),
            patches: root.join("proof"),
        };
        fs::create_dir_all(&copy.tree)?;
        if !copy.tree.join(".git").exists() {
            // Without a repository of its own, git would apply patches to the enclosing tree.
            let mut git = Command::new("git");
            succeed(&git.args(["init", "--quiet", "."]).current_dir(&copy.tree).output()?)?;
        }
        copy.fill(root)?;
        Ok(copy)
    }

    /// The folder in which commands run.
    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    /// Their target directory.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    fn fill(&self, root: &Path) -> io::Result<()> {
        let paths = tree::tracked(root).ok_or_else(|| io::Error::other("git lists no files"))?;
        // A tracked file may have been deleted.
        let paths: BTreeSet<PathBuf> =
            paths.iter().map(PathBuf::from).filter(|path| root.join(path).is_file()).collect();
        remove_others(&self.tree, Path::new(""), &paths)?;
        for path in &paths {
            let (from, to) = (root.join(path), self.tree.join(path));
            if read(&to).is_some_and(|there| Some(there) == read(&from)) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.tree))?;
            fs::copy(from, to)?;
        }
        Ok(())
    }

    /// Plants the bug `name`.
    pub(super) fn plant(&self, name: &str) -> io::Result<()> {
        self.apply(name, &[])
    }

    /// Removes the bug `name`.
    pub(super) fn take_out(&self, name: &str) -> io::Result<()> {
        self.apply(name, &["--reverse"])
    }

    /// Checks whether the bug `name` can be planted in the tree at `root`.
    pub(super) fn check(root: &Path, name: &str) -> io::Result<()> {
        apply(root, &root.join("proof").join(format!("{name}.patch")), &["--check"])
    }

    fn apply(&self, name: &str, how: &[&str]) -> io::Result<()> {
        apply(&self.tree, &self.patches.join(format!("{name}.patch")), how)
    }
}

fn lock(path: &Path) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(io::Error::other(format!("another `prove` holds {}", path.display())))
        }
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

fn apply(tree: &Path, patch: &Path, how: &[&str]) -> io::Result<()> {
    let mut git = Command::new("git");
    git.arg("apply").args(how).arg(patch).current_dir(tree).stdin(Stdio::null());
    succeed(&git.output()?)
}

pub(super) fn succeed(output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.lines().next().unwrap_or("git failed").to_owned()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a file removed from the tree is removed from the copy"
)]
fn remove_others(tree: &Path, folder: &Path, keep: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(tree.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if path.as_os_str() == OsStr::new(".git") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_others(tree, &path, keep)?;
        } else if !keep.contains(&path) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "files of a tree, compared with their copies")]
fn read(path: &Path) -> Option<Vec<u8>> {
    fs::read(path).ok()
}
