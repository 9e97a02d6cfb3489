//! Finds the root of the tree and lists its files.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder above this crate, according to cargo.
pub(crate) fn root() -> io::Result<PathBuf> {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(xtask) => Ok(Path::new(&xtask).join("..").canonicalize()?),
        None => std::env::current_dir(),
    }
}

/// The files that git tracks or would track, so that a new file counts before it is added.
pub(crate) fn tracked(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let names = String::from_utf8(listing.stdout).ok()?;
    let names: Vec<String> = names.split_terminator('\0').map(str::to_owned).collect();
    (listing.status.success() && !names.is_empty()).then_some(names)
}

/// The target directory of cargo: `CARGO_TARGET_DIR`, or a folder in the tree.
pub(crate) fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => root.join(target),
        None => root.join("target"),
    }
}

/// Reads a text file.
///
/// # Errors
///
/// The file cannot be read, or is not text; the error names it.
#[expect(clippy::disallowed_methods, reason = "these tools read the tree that they check")]
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let named = |error| io::Error::other(format!("{}: {error}", path.display()));
    let bytes = std::fs::read(path).map_err(named)?;
    String::from_utf8(bytes).map_err(|_| named(io::ErrorKind::InvalidData.into()))
}
