//! Git commands on trees and commits, with a separate index: the user's index never changes.

use super::super::copy::succeed;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs git in a tree.
pub(super) struct Git {
    root: PathBuf,
    /// The `.git` folder of the tree.
    store: String,
    index: PathBuf,
}

/// The result of a merge.
#[derive(Debug)]
pub(super) enum Merged {
    /// The tree.
    Clean(String),
    /// The files that conflict.
    Conflict(Vec<String>),
}

impl Git {
    /// Prepares to run git in the tree at `root`, with an index in `folder`.
    pub(super) fn new(root: &Path, folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let index = folder.canonicalize()?.join("index");
        let git = Self { root: root.to_owned(), store: String::new(), index };
        let store = git.run(&["rev-parse", "--absolute-git-dir"])?.trim().to_owned();
        Ok(Self { store, ..git })
    }

    /// Runs git with the user's index and returns its output.
    pub(super) fn run(&self, arguments: &[&str]) -> io::Result<String> {
        text(&self.command(arguments).output()?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "prove");
            command.env(format!("GIT_{role}_EMAIL"), "prove@localhost");
        }
        command
    }

    fn on_index(&self, arguments: &[&str]) -> io::Result<String> {
        text(&self.command(arguments).env("GIT_INDEX_FILE", &self.index).output()?)
    }

    /// Reads `tree` into the index.
    pub(super) fn read_tree(&self, tree: &str) -> io::Result<()> {
        self.on_index(&["read-tree", tree]).map(drop)
    }

    /// Writes the index as a tree.
    pub(super) fn write_tree(&self) -> io::Result<String> {
        Ok(self.on_index(&["write-tree"])?.trim().to_owned())
    }

    /// Applies the patch at `path` to the index.
    pub(super) fn apply_to_index(&self, path: &Path) -> io::Result<()> {
        let path = path.to_str().ok_or_else(|| io::Error::other("its path is not UTF-8"))?;
        self.on_index(&["apply", "--cached", path]).map(drop)
    }

    /// Writes files of the index to `folder`: those at `paths`, or all if `paths` is empty.
    pub(super) fn write_files(&self, folder: &Path, paths: &[String]) -> io::Result<()> {
        let prefix = format!("--prefix={}/", folder.display());
        let mut arguments = vec!["checkout-index", "--force", "--quiet", &prefix];
        if paths.is_empty() {
            arguments.push("--all");
        } else {
            arguments.push("--");
            arguments.extend(paths.iter().map(String::as_str));
        }
        self.on_index(&arguments).map(drop)
    }

    /// Replaces the index by all files of `folder`.
    pub(super) fn take_folder(&self, folder: &Path) -> io::Result<()> {
        let mut git = self.command(&["add", "--all", "--force", "."]);
        git.current_dir(folder).env("GIT_INDEX_FILE", &self.index);
        git.env("GIT_DIR", &self.store).env("GIT_WORK_TREE", folder);
        succeed(&git.output()?)
    }

    /// Adds a file to the index or replaces its content.
    pub(super) fn put_in_index(&self, path: &str, content: &str) -> io::Result<()> {
        let object = self.store_blob(content)?;
        let entry = format!("100644,{object},{path}");
        self.on_index(&["update-index", "--add", "--cacheinfo", &entry]).map(drop)
    }

    /// Removes a file from the index.
    pub(super) fn remove_from_index(&self, path: &str) -> io::Result<()> {
        self.on_index(&["update-index", "--force-remove", path]).map(drop)
    }

    fn store_blob(&self, content: &str) -> io::Result<String> {
        let mut command = self.command(&["hash-object", "-w", "--stdin"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().expect("stdin is a pipe");
        input.write_all(content.as_bytes())?;
        drop(input);
        Ok(text(&child.wait_with_output()?)?.trim().to_owned())
    }

    /// Reads the file `path` of `tree`.
    pub(super) fn file(&self, tree: &str, path: &str) -> io::Result<String> {
        self.run(&["cat-file", "blob", &format!("{tree}:{path}")])
    }

    /// Creates a commit of `tree` on top of `parent`.
    pub(super) fn commit(&self, tree: &str, parent: Option<&str>) -> io::Result<String> {
        let tree = self.run(&["rev-parse", "--verify", &format!("{tree}^{{tree}}")])?;
        let mut arguments = vec!["commit-tree", tree.trim(), "-m", "planted"];
        arguments.extend(parent.iter().flat_map(|parent| ["-p", parent]));
        Ok(self.run(&arguments)?.trim().to_owned())
    }

    /// Merges two commits.
    pub(super) fn merge(&self, ours: &str, theirs: &str) -> io::Result<Merged> {
        let merge = ["merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs];
        let output = self.command(&merge).output()?;
        if output.status.code() != Some(1) {
            return Ok(Merged::Clean(text(&output)?.trim().to_owned()));
        }
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let files = printed.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned);
        Ok(Merged::Conflict(files.collect()))
    }

    /// The difference between two trees, without the lines that name blobs.
    pub(super) fn difference(&self, from: &str, to: &str) -> io::Result<String> {
        let options = ["diff", "--no-ext-diff", "--no-renames", "--no-color", from, to];
        let patch = self.run(&options)?;
        let lines = patch.lines().filter(|line| !line.starts_with("index "));
        Ok(lines.flat_map(|line| [line, "\n"]).collect())
    }
}

fn text(output: &Output) -> io::Result<String> {
    succeed(output)?;
    String::from_utf8(output.stdout.clone()).map_err(io::Error::other)
}
