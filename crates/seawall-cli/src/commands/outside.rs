//! Refuses to create files and directories inside a log: its readers would find foreign files, and
//! a backup of the log would have a key beside the records that it protects.

use seawall::format::SegmentId;
use seawall_io::{PosixStorage, Storage};
use seawall_output::report::{Exit, Failure};
use std::path::{Path, PathBuf};

/// Refuses a new file or directory `path` inside a log.
pub(in crate::commands) fn check_path(path: &Path) -> Result<(), Failure> {
    // `..` at the end has no parent in the text, and is a directory itself.
    let folder = path.file_name().and_then(|_| path.parent()).unwrap_or(path);
    refuse_inside(path, folder)
}

/// Refuses to create files in the directory `folder`, which is a log or inside one.
pub(in crate::commands) fn check_folder(folder: &Path) -> Result<(), Failure> {
    refuse_inside(folder, folder)
}

/// Refuses a new log at `path` inside a log. An existing log stays usable where it is.
pub(in crate::commands) fn check_new_log(path: &Path) -> Result<(), Failure> {
    match path.canonicalize() {
        Ok(real) if is_log(&real) => Ok(()),
        // An empty directory becomes a log, so the links to it are followed.
        Ok(real) => refuse_inside(path, real.parent().unwrap_or(&real)),
        Err(_) => check_path(path),
    }
}

fn refuse_inside(path: &Path, folder: &Path) -> Result<(), Failure> {
    let Some(log) = log_around(folder) else { return Ok(()) };
    let what = format!("{} is inside the log {}", path.display(), log.display());
    let failure = Failure::new(Exit::Usage, what).at(path.display());
    Err(failure.next("give a path outside of the log"))
}

/// Returns the log that is or holds `folder`, as a part of that path if possible.
fn log_around(folder: &Path) -> Option<PathBuf> {
    // Some targets create missing parents, too.
    let shown = || folder.ancestors().map(or_here);
    let real = shown().find_map(|folder| folder.canonicalize().ok())?;
    let log = real.ancestors().find(|folder| is_log(folder))?;
    let named = shown().find(|folder| folder.canonicalize().is_ok_and(|real| real == log));
    Some(named.unwrap_or(log).to_owned())
}

fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Whether the directory has a file with the name of a segment. One that cannot be listed counts as
/// no log: a new file in it would fail, or is the user's own.
fn is_log(folder: &Path) -> bool {
    let names = PosixStorage::open(folder).and_then(|storage| storage.list());
    names.is_ok_and(|names| names.iter().any(|name| SegmentId::from_any_name(name).is_some()))
}
