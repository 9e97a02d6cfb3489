//! `cargo xtask prove --carry BASE`: brings patches that no longer apply from the commit BASE,
//! where they did, to `HEAD`.
//!
//! Each patch becomes a commit on BASE, which git merges with `HEAD`: a merge follows renamed files
//! and code that moved within its file, `git apply` does neither. A patch whose lines were changed
//! on the way is a conflict and stays as it was, to be written again by hand.

use super::copy::{Copy, succeed};
use super::row::Row;
use crate::tree;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Carries the patches of `rows` that do not apply to `HEAD`; false if one could not be carried.
///
/// # Errors
///
/// The tree has changes that are not committed, BASE does not name a commit, git cannot be run, or
/// a patch cannot be written.
pub(super) fn carry(root: &Path, base: &str, rows: &[Row]) -> io::Result<bool> {
    let carrier = Carrier::new(root, base)?;
    let mut err = io::stderr().lock();
    let (mut done, mut conflicts) = (0, 0);
    for row in rows {
        if Copy::check(root, &row.name).is_ok() {
            continue;
        }
        match carrier.carried(&row.name) {
            Ok(patch) => {
                replace(&carrier.patch(&row.name), &patch)?;
                done += 1;
            }
            Err(error) => {
                writeln!(err, "proof/{}.patch: {error}", row.name)?;
                conflicts += 1;
            }
        }
    }
    let still = rows.len() - done - conflicts;
    writeln!(err, "prove: {still} patches still apply, {done} carried, {conflicts} not carried")?;
    Ok(conflicts == 0)
}

/// The two commits, and an index of its own, so that the user's stays as it is.
struct Carrier<'a> {
    root: &'a Path,
    base: String,
    index: PathBuf,
}

impl<'a> Carrier<'a> {
    fn new(root: &'a Path, base: &str) -> io::Result<Self> {
        let folder = tree::target(root).join("prove");
        fs::create_dir_all(&folder)?;
        let carrier = Self { root, base: base.to_owned(), index: folder.join("carry.index") };
        // Patches are carried to what is committed, and checked against what is in the files.
        let status = ["status", "--porcelain", "--untracked-files=no", "--", ":!proof/*.patch"];
        if !carrier.git(&status)?.is_empty() {
            return Err(io::Error::other("commit your changes first: patches are carried to HEAD"));
        }
        let commit = carrier.git(&["rev-parse", "--verify", &format!("{base}^{{commit}}")])?;
        Ok(Self { base: commit.trim().to_owned(), ..carrier })
    }

    fn patch(&self, name: &str) -> PathBuf {
        self.root.join("proof").join(format!("{name}.patch"))
    }

    /// The patch as a difference to `HEAD`.
    fn carried(&self, name: &str) -> io::Result<String> {
        let patch = self.patch(name);
        let patch = patch.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
        self.git(&["read-tree", &self.base])?;
        self.git(&["apply", "--cached", patch])
            .map_err(|error| io::Error::other(format!("does not apply to the base: {error}")))?;
        let planted = self.git(&["write-tree"])?;
        let commit = ["commit-tree", planted.trim(), "-p", &self.base, "-m", "planted"];
        let commit = self.git(&commit)?;
        let merged = self
            .git(&["merge-tree", "--write-tree", "HEAD", commit.trim()])
            .map_err(|_| io::Error::other("conflict: the lines it changes were changed"))?;
        let merged = merged.lines().next().unwrap_or_default();
        let patch =
            self.git(&["diff", "--no-ext-diff", "--no-renames", "--no-color", "HEAD", merged])?;
        if patch.is_empty() {
            return Err(io::Error::other("nothing is left of it: HEAD has the same change"));
        }
        let lines = patch.lines().filter(|line| !line.starts_with("index "));
        Ok(lines.flat_map(|line| [line, "\n"]).collect())
    }

    fn git(&self, arguments: &[&str]) -> io::Result<String> {
        let output = Command::new("git")
            .args(arguments)
            .envs(own_index(arguments).then_some(("GIT_INDEX_FILE", &self.index)))
            .current_dir(self.root)
            .stdin(Stdio::null())
            .output()?;
        succeed(&output)?;
        String::from_utf8(output.stdout).map_err(io::Error::other)
    }
}

fn own_index(arguments: &[&str]) -> bool {
    matches!(arguments.first(), Some(&("read-tree" | "apply" | "write-tree")))
}

#[expect(clippy::disallowed_methods, reason = "a patch under version control")]
fn replace(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)
}
