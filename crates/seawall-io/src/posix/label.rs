//! How errors name a file of a directory: by the name that it has now.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

/// What the system adds to the name of a file that was removed.
const REMOVED: &str = " (deleted)";

/// Returns `label`, the path of the opened file, with its present name: a preallocated file becomes
/// a segment later. Where the system does not tell the name, the label stays.
pub(super) fn present(file: &fs::File, label: &str) -> String {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let found = fs::read_link(link).ok();
    let name = found.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    name.map_or_else(
        || label.to_owned(),
        |name| {
            let name = name.strip_suffix(REMOVED).unwrap_or(name);
            Path::new(label).with_file_name(name).display().to_string()
        },
    )
}
