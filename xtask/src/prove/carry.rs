//! `cargo xtask prove --carry BASE [--renames SCRIPT]`: rewrites patches that no longer apply.
//!
//! 1. The patch is planted in the commit BASE, where it applies.
//! 2. SCRIPT makes the moves and renames of `HEAD` in BASE, once with the bug and once without.
//! 3. The two results differ only by the bug. Git merges this difference with `HEAD`: a merge
//!    follows moved files and moved code, `git apply` does not.
//! 4. If the merge conflicts, or the patch does not apply to BASE, [`place`] looks for the changed
//!    lines in the files of `HEAD`.
//!
//! A patch that no step can carry stays as it is and is printed: rewrite it by hand.

mod difference;
mod git;
mod place;
mod renames;

use super::bug::Bug;
use super::copy::Copy;
use crate::planted;
use crate::tree;
use git::{Git, Merged};
use place::Places;
use renames::Renames;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Carries patches from one commit to `HEAD`.
pub(super) struct Carrier {
    root: PathBuf,
    git: Git,
    base: String,
    renames: Option<Renames>,
    /// A commit with the tree of BASE after SCRIPT has run.
    moved_base: String,
    /// A commit with the tree of `HEAD` on top of `moved_base`, which makes that the merge base.
    head: String,
    places: OnceCell<Places>,
}

impl Carrier {
    /// Prepares to carry patches from the commit `base` in the tree at `root`.
    ///
    /// # Errors
    ///
    /// The tree has uncommitted changes, `base` names no commit, SCRIPT fails, or git does.
    pub(super) fn new(root: &Path, base: &str, script: Option<&Path>) -> io::Result<Self> {
        Self::in_folder(root, &tree::target(root).join("prove/carry"), base, script)
    }

    fn in_folder(
        root: &Path,
        folder: &Path,
        base: &str,
        script: Option<&Path>,
    ) -> io::Result<Self> {
        let git = Git::new(root, folder)?;
        // Patches are carried to what is committed, and checked against the files of the tree.
        let status = ["status", "--porcelain", "--untracked-files=no", "--", ":!proof/*.patch"];
        if !git.run(&status)?.is_empty() {
            return Err(io::Error::other("commit your changes first: patches are carried to HEAD"));
        }
        let base = git.run(&["rev-parse", "--verify", &format!("{base}^{{commit}}")])?;
        let base = base.trim().to_owned();
        let renames = script.map(|script| Renames::new(script, folder)).transpose()?;
        let moved_base = match &renames {
            Some(renames) => git.commit(&renames.whole(&git, &base)?, None)?,
            None => base.clone(),
        };
        let head = git.commit("HEAD^{tree}", Some(&moved_base))?;
        let root = root.to_owned();
        Ok(Self { root, git, base, renames, moved_base, head, places: OnceCell::new() })
    }

    /// Carries the patches of `bugs` that do not apply to `HEAD`; false if one is not carried.
    ///
    /// # Errors
    ///
    /// A patch cannot be read or written.
    pub(super) fn carry(&self, bugs: &[Bug]) -> io::Result<bool> {
        let mut err = io::stderr().lock();
        let mut count = BTreeMap::new();
        for bug in bugs {
            let name = &bug.name;
            let file = self.root.join(format!("proof/{name}.patch"));
            let old = tree::read(&file)?;
            let outcome = match self.carried(bug, &file, &old) {
                Ok(Carried { text, by }) => {
                    if text != old {
                        replace(&file, &text)?;
                    }
                    if by == PLACED {
                        writeln!(err, "proof/{name}.patch: placed by its lines: review it")?;
                    }
                    by
                }
                Err(error) => {
                    writeln!(err, "proof/{name}.patch: {error}")?;
                    NOT_CARRIED
                }
            };
            *count.entry(outcome).or_insert(0_usize) += 1;
        }
        let counts: Vec<String> =
            count.iter().map(|(outcome, number)| format!("{number} {outcome}")).collect();
        writeln!(err, "prove: {} patches: {}", bugs.len(), counts.join(", "))?;
        Ok(!count.contains_key(NOT_CARRIED))
    }

    /// Returns the patch `old` of `bug` as a patch to `HEAD`.
    fn carried(&self, bug: &Bug, file: &Path, old: &str) -> io::Result<Carried> {
        let (head, difference) = planted::split(old);
        let head = self.head(head, bug.caught_by.test_name())?;
        if Copy::check(&self.root, &bug.name).is_ok() {
            return Ok(Carried { text: head + difference, by: APPLIES });
        }
        let (tree, by) = match self.planted(file) {
            Ok(planted) => self.merged(&planted)?,
            // The patch was written for a later commit than BASE.
            Err(error) => {
                let placed = self.placed(difference);
                let both = |why| io::Error::other(format!("{error}; {why}"));
                (placed.map_err(both)?, PLACED)
            }
        };
        let difference = self.git.difference("HEAD", &tree)?;
        if difference.is_empty() {
            return Err(io::Error::other("nothing is left of it: HEAD has the same change"));
        }
        Ok(Carried { text: head + &difference, by })
    }

    /// Returns a tree of `HEAD` with the bug of the commit `planted`, and how it was made.
    fn merged(&self, planted: &str) -> io::Result<(String, &'static str)> {
        match self.git.merge(&self.head, planted)? {
            Merged::Clean(tree) => Ok((tree, MERGED)),
            Merged::Conflict(files) => {
                let placed = self.placed(&self.git.difference(&self.moved_base, planted)?);
                let both =
                    |why| io::Error::other(format!("conflict in {}; {why}", files.join(", ")));
                Ok((placed.map_err(both)?, PLACED))
            }
        }
    }

    /// Returns `head` with the current name of the test in its command.
    ///
    /// `test` is part of the names of one or more functions. If one of them was renamed, its whole
    /// new name replaces `test`; if several were, the command must be changed by hand.
    fn head(&self, head: &str, test: Option<&str>) -> io::Result<String> {
        let (Some(renames), Some(test)) = (&self.renames, test) else { return Ok(head.to_owned()) };
        let pattern = format!("fn [a-z0-9_]*{test}[a-z0-9_]*");
        let grep = ["grep", "--only-matching", "-E", &pattern, &self.base, "--", "*.rs"];
        // Git fails if it finds nothing.
        let found = self.git.run(&grep).unwrap_or_default();
        let mut old: BTreeMap<&str, String> = BTreeMap::new();
        for line in found.lines() {
            if let [_, path, function] = line.splitn(3, ':').collect::<Vec<_>>().as_slice() {
                old.entry(path).or_default().extend([function, "\n"]);
            }
        }
        let mut new = BTreeSet::new();
        for (path, functions) in old {
            new.extend(renames.text(path, &functions)?.lines().map(str::to_owned));
        }
        let is_kept = new.iter().all(|function| function.contains(test));
        let only = new.pop_first().filter(|_| !is_kept && new.is_empty());
        // The head names the test once, as the last word of its command.
        Ok(match only.zip(head.rsplit_once(test)) {
            Some((function, (before, after))) => {
                format!("{before}{}{after}", function.trim_start_matches("fn "))
            }
            None => head.to_owned(),
        })
    }

    /// Returns a commit on top of `moved_base` with the bug of the patch in `file`.
    fn planted(&self, file: &Path) -> io::Result<String> {
        self.git.read_tree(&self.base)?;
        self.git
            .apply_to_index(file)
            .map_err(|error| io::Error::other(format!("does not apply to the base: {error}")))?;
        let tree = self.git.write_tree()?;
        let tree = match &self.renames {
            Some(renames) => renames.planted(&self.git, [&self.base, &tree, &self.moved_base])?,
            None => tree,
        };
        self.git.commit(&tree, Some(&self.moved_base))
    }

    /// Returns a tree of `HEAD` with the changes of `difference` made where their lines are found.
    fn placed(&self, difference: &str) -> io::Result<String> {
        if self.places.get().is_none() {
            let files = tree::tracked(&self.root).unwrap_or_default();
            let _ = self.places.set(Places::of(&self.root, &files)?);
        }
        let places = self.places.get().expect("it was set above");
        let changed = places.plant(difference).map_err(io::Error::other)?;
        self.git.read_tree("HEAD")?;
        for (path, text) in changed {
            self.git.put_in_index(&path, &text)?;
        }
        self.git.write_tree()
    }
}

const APPLIES: &str = "apply";
const MERGED: &str = "merged";
const PLACED: &str = "placed by their lines";
const NOT_CARRIED: &str = "not carried";

/// A patch to `HEAD`, and how it was carried.
struct Carried {
    text: String,
    by: &'static str,
}

#[expect(clippy::disallowed_methods, reason = "a patch under version control")]
fn replace(file: &Path, text: &str) -> io::Result<()> {
    fs::write(file, text)
}

#[cfg(test)]
mod tests;
