//! The mount table, `proc_pid_mountinfo(5)`. Parsing it never fails, whatever it contains.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems that keep their files in memory.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// One mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mount {
    /// Major and minor number of its device, such as `254:1`; the major number is 0 without a
    /// device.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The type, such as `ext4`.
    pub kind: String,
    /// The mounted device, or the name given in place of one.
    pub source: String,
    /// The options of the mount and of the file system, without duplicates.
    pub options: Vec<String>,
}

impl Mount {
    /// Finds the mount of `path`, which must be absolute and without links: the one with the
    /// longest mount point, and the last of several at the same point.
    pub(super) fn find(table: &str, path: &Path) -> Option<Self> {
        let mounts = table.lines().filter_map(Self::parse);
        let around = mounts.filter(|mount| path.starts_with(&mount.point));
        around.max_by_key(|mount| mount.point.components().count())
    }

    /// Parses one line of the table; `None` if it is malformed.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // A dash ends the optional fields.
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ');
        let device = mount.nth(2)?.to_owned();
        let point = PathBuf::from(OsString::from_vec(unescaped(mount.nth(1)?)));
        let mount_options = mount.next()?;
        let mut system = system.split(' ');
        let kind = text(system.next()?);
        let source = text(system.next().unwrap_or_default());
        let system_options = system.next().unwrap_or_default();
        let mut options: Vec<String> = vec![];
        for option in mount_options.split(',').chain(system_options.split(',')).map(text) {
            if !option.is_empty() && !options.contains(&option) {
                options.push(option);
            }
        }
        Some(Self { device, point, kind, source, options })
    }

    /// Returns whether files are kept in memory and lost without power.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind.as_str())
    }

    pub(super) fn is_overlay(&self) -> bool {
        self.kind == "overlay"
    }

    /// For an overlay, the directory that receives writes.
    pub(super) fn upper(&self) -> Option<PathBuf> {
        let found = self.options.iter().find_map(|option| option.strip_prefix("upperdir="));
        found.filter(|_| self.kind == "overlay").map(PathBuf::from)
    }
}

fn text(field: &str) -> String {
    String::from_utf8_lossy(&unescaped(field)).into_owned()
}

/// Decodes the octal escapes of a field: blanks, tabs, newlines and backslashes are escaped.
fn unescaped(field: &str) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let escape = behind.split_first_chunk::<3>().filter(|_| byte == b'\\');
        let value = escape.and_then(|(digits, behind)| Some((octal(*digits)?, behind)));
        let (byte, behind) = value.unwrap_or((byte, behind));
        plain.push(byte);
        rest = behind;
    }
    plain
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    let text = std::str::from_utf8(&digits).ok()?;
    u8::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
25 24 0:23 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=100k
30 27 0:30 / /mnt/my\\040disk rw - xfs /dev/sda1 rw,nobarrier
31 27 0:31 / /srv rw,relatime master:4 propagate_from:2 - nfs4 host:/srv rw,vers=4.2
32 27 0:32 / /srv rw - overlay overlay rw,lowerdir=/l,upperdir=/up\\040per,workdir=/w
";

    fn at(path: &str) -> Mount {
        Mount::find(TABLE, Path::new(path)).unwrap()
    }

    #[test]
    fn innermost_and_topmost_mount_of_a_path_counts() {
        assert_eq!((at("/var/lib").kind.as_str(), at("/var").device.as_str()), ("ext4", "254:0"));
        assert_eq!(at("/dev/shm").kind, "tmpfs");
        assert_eq!(at("/dev/shmoo").kind, "ext4");
        assert_eq!(at("/mnt/my disk/log").options, ["rw", "nobarrier"]);
        assert_eq!(at("/srv/x").kind, "overlay");
        assert_eq!(at("/srv").upper(), Some(PathBuf::from("/up per")));
        assert_eq!(at("/").upper(), None);
        assert_eq!(Mount::find("", Path::new("/")), None);
    }

    #[test]
    fn mangled_mount_table_never_fails() {
        for end in 0..TABLE.len() {
            for line in [&TABLE[..end], &TABLE[end..]] {
                let _ = Mount::find(line, Path::new("/srv/x"));
            }
        }
        for line in
            [" - ", "\\", "1 2 3 4 /\\7 - ", "a b c d / e - f \\777\\0", "- - - - - - - - -"]
        {
            let _ = Mount::find(line, Path::new("/"));
        }
        assert_eq!(unescaped("a\\040b\\\\12\\999\\04"), b"a b\\\\12\\999\\04");
    }
}
