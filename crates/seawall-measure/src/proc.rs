//! Reads the statistics that the system publishes in `/proc`.

use seawall_io::{Access, PosixStorage, Storage};
use std::path::Path;

pub(crate) fn own_folder() -> String {
    format!("/proc/{}", std::process::id())
}

/// The fields of a process's `stat` from the third on. The second one is the program name in
/// parentheses, which may contain any character.
pub(crate) fn after_name(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

/// Reads the start of a file in a folder of `/proc`.
pub(crate) fn text_of_system(folder: &str, name: &str) -> Option<String> {
    let file = PosixStorage::open(Path::new(folder)).ok()?.open(name, Access::Read).ok()?;
    let mut bytes = vec![0; 4096];
    let read = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(read);
    String::from_utf8(bytes).ok()
}
