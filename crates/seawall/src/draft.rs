//! A whole log made at a path where there was none: it gets its name when nothing is missing.

use crate::{Error, Result};
use seawall_io::{PosixStorage, Storage};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a directory is called while it is filled.
const SUFFIX: &str = ".partial";

/// Makes the directory `target` with what `fill` writes, durably, or not at all: while it is
/// filled, and after a crash then, it is called `target.partial`; an error removes that.
///
/// Refused inside `source`, the log that is read.
pub(crate) fn make<T>(
    source: &Path,
    target: &Path,
    fill: impl FnOnce(Arc<dyn Storage>) -> Result<T>,
) -> Result<T> {
    let creating = |path: &Path| Error::io(format!("create {}", path.display()));
    if is_inside(source, target) {
        let why = format!("{} is inside the log {}", target.display(), source.display());
        return Err(Error::InvalidOption { why });
    }
    let partial = partial(target).filter(|_| target.symlink_metadata().is_err());
    let partial = partial.ok_or_else(|| creating(target)(io::ErrorKind::AlreadyExists.into()))?;
    let made = Arc::new(PosixStorage::create(&partial).map_err(creating(&partial))?);
    let filled = fill(made.clone());
    let named = filled.and_then(|done| {
        made.rename_directory(target).map_err(creating(target))?;
        Ok(done)
    });
    if named.is_err() {
        // What stays is not taken for a log, and a second try names it.
        let _ = fs::remove_dir_all(&partial);
    }
    named
}

/// The name before the name; none where a path has no last part, and so is there already.
fn partial(target: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(target.file_name()?);
    name.push(SUFFIX);
    Some(target.with_file_name(name))
}

/// Whether the new directory would be in the old one; a path that leads nowhere fails later.
fn is_inside(source: &Path, target: &Path) -> bool {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    source.canonicalize().is_ok_and(|source| parent.is_ok_and(|parent| parent.starts_with(source)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// A directory of this test alone, removed with its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = format!("seawall-draft-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn names(&self) -> Vec<OsString> {
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn kind(made: Result<()>) -> Option<ErrorKind> {
        match made {
            Err(Error::Io { source, .. }) => Some(source.kind()),
            _ => None,
        }
    }

    fn fill(storage: &Arc<dyn Storage>) -> Result<()> {
        storage.create("file").map_err(Error::io("create"))?;
        storage.sync_dir().map_err(Error::io("sync"))
    }

    #[test]
    fn it_has_its_name_when_it_is_whole_and_leaves_nothing_otherwise() {
        let scratch = Scratch::new("whole");
        let (source, target) = (scratch.0.join("log"), scratch.0.join("new"));
        let failing = |storage: Arc<dyn Storage>| {
            assert!(!target.exists());
            fill(&storage).and(Err(Error::io("write")(ErrorKind::StorageFull.into())))
        };
        assert_eq!(kind(make(&source, &target, failing)), Some(ErrorKind::StorageFull));
        assert!(scratch.names().is_empty(), "{:?}", scratch.names());
        make(&source, &target, |storage| fill(&storage)).unwrap();
        assert_eq!(scratch.names(), ["new"]);
        assert!(target.join("file").exists());
    }

    #[test]
    fn nothing_is_taken_over_or_made_inside_the_source() {
        let scratch = Scratch::new("taken");
        let (source, target) = (scratch.0.join("log"), scratch.0.join("new"));
        fs::create_dir(&source).unwrap();
        let inside = make(&source, &source.join("new"), |storage| fill(&storage));
        assert!(matches!(inside, Err(Error::InvalidOption { .. })));
        // Empty as it is, it is somebody's; also if it comes while the new one is filled.
        let beside = |storage: Arc<dyn Storage>| {
            fs::create_dir(&target).unwrap();
            fill(&storage)
        };
        assert_eq!(kind(make(&source, &target, beside)), Some(ErrorKind::AlreadyExists));
        assert_eq!(
            kind(make(&source, &target, |storage| fill(&storage))),
            Some(ErrorKind::AlreadyExists)
        );
        assert!(fs::read_dir(&target).unwrap().next().is_none());
        fs::remove_dir(&target).unwrap();
        // What a crash left, or another one at work.
        fs::create_dir(scratch.0.join("new.partial")).unwrap();
        assert_eq!(
            kind(make(&source, &target, |storage| fill(&storage))),
            Some(ErrorKind::AlreadyExists)
        );
        assert!(scratch.0.join("new.partial").exists());
    }
}
