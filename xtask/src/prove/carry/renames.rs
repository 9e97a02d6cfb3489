//! Runs SCRIPT, the program that makes the moves and renames of `HEAD` in a checkout.
//!
//! `SCRIPT TREE` changes all files of the folder TREE, `SCRIPT TREE FILE...` only the files named,
//! by paths relative to TREE. A SCRIPT whose name ends in `.py` is run by `python3`.

use super::super::copy::succeed;
use super::git::Git;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program, and a cache of its results.
#[derive(Debug)]
pub(super) struct Renames {
    script: PathBuf,
    tree: PathBuf,
    /// Files of BASE after the program has run, by their old paths: many bugs change the same
    /// files.
    sound: RefCell<BTreeMap<Vec<String>, Files>>,
    /// Texts after the program has run, by their path and old text.
    texts: RefCell<BTreeMap<(String, String), String>>,
}

/// Files by path.
type Files = BTreeMap<String, String>;

impl Renames {
    /// Prepares to run the program at `script` in folders below `folder`.
    pub(super) fn new(script: &Path, folder: &Path) -> io::Result<Self> {
        let named = |error| io::Error::other(format!("{}: {error}", script.display()));
        let script = script.canonicalize().map_err(named)?;
        fs::create_dir_all(folder)?;
        let tree = folder.canonicalize()?.join("tree");
        Ok(Self { script, tree, sound: RefCell::default(), texts: RefCell::default() })
    }

    /// Returns the tree of the commit `base` after the program has run.
    pub(super) fn whole(&self, git: &Git, base: &str) -> io::Result<String> {
        self.clear()?;
        git.read_tree(base)?;
        git.write_files(&self.tree, &[])?;
        self.run(&[])?;
        git.take_folder(&self.tree)?;
        git.write_tree()
    }

    /// Returns the tree `moved_base` with the bug that the tree `planted` adds to `base`.
    ///
    /// The program sees only the files that the bug changes.
    pub(super) fn planted(
        &self,
        git: &Git,
        [base, planted, moved_base]: [&str; 3],
    ) -> io::Result<String> {
        let paths = git.run(&["diff", "--name-only", "--no-renames", base, planted])?;
        let paths: Vec<String> = paths.lines().map(str::to_owned).collect();
        let with_bug = self.some(git, planted, &paths)?;
        if !self.sound.borrow().contains_key(&paths) {
            let sound = self.some(git, base, &paths)?;
            for (path, text) in &sound {
                if git.file(moved_base, path)? != *text {
                    let why = "SCRIPT changes it otherwise alone than with the whole tree";
                    return Err(io::Error::other(format!("{path}: {why}")));
                }
            }
            self.sound.borrow_mut().insert(paths.clone(), sound);
        }
        git.read_tree(moved_base)?;
        let sound = self.sound.borrow();
        let gone = sound.get(&paths).into_iter().flat_map(Files::keys);
        for path in gone.filter(|path| !with_bug.contains_key(*path)) {
            git.remove_from_index(path)?;
        }
        for (path, text) in &with_bug {
            git.put_in_index(path, text)?;
        }
        git.write_tree()
    }

    /// Returns the files at `paths` in `tree` after the program has run, by their new paths.
    fn some(&self, git: &Git, tree: &str, paths: &[String]) -> io::Result<Files> {
        self.clear()?;
        git.read_tree(tree)?;
        let present: Vec<String> =
            paths.iter().filter(|path| git.file(tree, path).is_ok()).cloned().collect();
        if present.is_empty() {
            return Ok(Files::new());
        }
        git.write_files(&self.tree, &present)?;
        self.run(&present)?;
        let mut found = Files::new();
        collect(&self.tree, Path::new(""), &mut found)?;
        Ok(found)
    }

    /// Returns `text` as the program would change it in the file at `path`.
    #[expect(clippy::disallowed_methods, reason = "a scratch file for a program")]
    pub(super) fn text(&self, path: &str, text: &str) -> io::Result<String> {
        let key = (path.to_owned(), text.to_owned());
        if let Some(known) = self.texts.borrow().get(&key) {
            return Ok(known.clone());
        }
        self.clear()?;
        let file = self.tree.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&self.tree))?;
        fs::write(&file, text)?;
        self.run(&[path.to_owned()])?;
        let mut found = Files::new();
        collect(&self.tree, Path::new(""), &mut found)?;
        let lost = || io::Error::other(format!("SCRIPT removes {path}"));
        let left = found.into_values().next().ok_or_else(lost)?;
        self.texts.borrow_mut().insert(key, left.clone());
        Ok(left)
    }

    fn run(&self, files: &[String]) -> io::Result<()> {
        let mut command = if self.script.extension().is_some_and(|ending| ending == "py") {
            let mut python = Command::new("python3");
            python.arg(&self.script);
            python
        } else {
            Command::new(&self.script)
        };
        command.arg(&self.tree).args(files).current_dir(&self.tree).stdin(Stdio::null());
        let named = |error| io::Error::other(format!("{}: {error}", self.script.display()));
        succeed(&command.output().map_err(named)?).map_err(named)
    }

    fn clear(&self) -> io::Result<()> {
        if self.tree.exists() {
            fs::remove_dir_all(&self.tree)?;
        }
        fs::create_dir_all(&self.tree)
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Files) -> io::Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(root, &path, found)?;
        } else {
            let name = path.to_str().ok_or_else(|| io::Error::other("a path is not UTF-8"))?;
            found.insert(name.to_owned(), crate::tree::read(&entry.path())?);
        }
    }
    Ok(())
}
