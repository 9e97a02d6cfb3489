//! How errors name a file: one of a log's directory by the name that it has now.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

/// What the system adds to the name of a file that was removed.
const REMOVED: &str = " (deleted)";

/// How errors name a file.
#[derive(Debug)]
pub(super) struct Label {
    /// The directory and the name that the file had when it was opened.
    opened_as: String,
    /// Whether the file may get another name in its directory.
    may_change: bool,
}

impl Label {
    /// A name that stays.
    pub(super) fn fixed(opened_as: String) -> Self {
        Self { opened_as, may_change: false }
    }

    /// The path of a file in a log's directory: a preallocated file becomes a segment later.
    pub(super) fn of_entry(opened_as: String) -> Self {
        Self { opened_as, may_change: true }
    }

    /// The name now. Where the system does not tell it, the name when the file was opened.
    pub(super) fn now(&self, file: &fs::File) -> String {
        let link = self.may_change.then(|| format!("/proc/self/fd/{}", file.as_raw_fd()));
        let found = link.and_then(|link| fs::read_link(link).ok());
        let name = found.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        let Some(name) = name else { return self.opened_as.clone() };
        let name = name.strip_suffix(REMOVED).unwrap_or(name);
        Path::new(&self.opened_as).with_file_name(name).display().to_string()
    }
}
