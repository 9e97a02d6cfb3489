//! Checks all rules and prints the findings.

use crate::allowed::{ALLOWED, excuse};
use crate::critical;
use crate::rules::{Finding, look, smells};
use crate::source::Source;
use crate::tree::{root, tracked};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Folders to skip if git cannot list the files of the tree.
const NOT_OURS: &[&str] = &[".git", "target", "demo"];

/// Checks the tree; false if there are findings.
///
/// # Errors
///
/// The tree cannot be read, or the result cannot be written.
pub(crate) fn run() -> io::Result<bool> {
    let root = root()?;
    let tree = read(&root)?;
    if tree.is_empty() {
        return Err(io::Error::other(format!("no files in {}", root.display())));
    }
    let (critical, too_many) = critical::count(&tree);
    let mut findings = excuse(look(&tree), ALLOWED);
    findings.extend(too_many);
    print(&findings, &smells(&tree))?;
    writeln!(io::stderr(), "tidy: {critical}")?;
    writeln!(io::stderr(), "tidy: {} files, {} findings", tree.len(), findings.len())?;
    Ok(findings.is_empty())
}

fn print(findings: &[Finding], smells: &[String]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for smell in smells {
        writeln!(out, "{smell}")?;
    }
    for Finding { path, line, rule, advice } in findings {
        writeln!(out, "{path}:{line}: {rule}: {advice}")?;
    }
    Ok(())
}

/// Reads all text files of the tree, sorted by path.
fn read(root: &Path) -> io::Result<Vec<Source>> {
    let mut paths = if let Some(paths) = tracked(root) {
        paths
    } else {
        writeln!(io::stderr(), "tidy: git does not know this tree; looking at every file")?;
        walked(root)?
    };
    paths.sort();
    paths.dedup();
    let mut sources = Vec::new();
    for path in paths {
        let full = root.join(&path);
        // A tracked file may have been deleted; the target of a symbolic link is checked under its
        // own name.
        if !full.symlink_metadata().is_ok_and(|data| data.is_file()) {
            continue;
        }
        if let Some(text) = text_of(&full)? {
            sources.push(Source::new(&path, &text));
        }
    }
    Ok(sources)
}

#[expect(clippy::disallowed_methods, reason = "tidy reads the tree that it checks")]
fn text_of(path: &Path) -> io::Result<Option<String>> {
    Ok(String::from_utf8(fs::read(path)?).ok().filter(|text| !text.contains('\0')))
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            if folder == Path::new("")
                && NOT_OURS.iter().any(|n| entry.file_name() == OsStr::new(n))
            {
                continue;
            }
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if let Some(name) = path.to_str() {
                found.push(name.replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(mut names: Vec<String>) -> Vec<String> {
        names.sort();
        names.retain(|name| name.starts_with("xtask/") && !name.contains("/target/"));
        names
    }

    #[test]
    fn walking_finds_what_git_lists() {
        let root = root().unwrap();
        let walked = paths(walked(&root).unwrap());
        assert!(walked.contains(&"xtask/src/tidy.rs".to_owned()));
        if let Some(tracked) = tracked(&root) {
            assert_eq!(paths(tracked), walked);
        }
    }

    #[test]
    fn files_that_are_no_text_are_left_out() {
        assert!(text_of(&std::env::current_exe().unwrap()).unwrap().is_none());
    }
}
