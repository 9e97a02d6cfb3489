//! Pending changes, which a power cut may lose.

/// A change that a power cut may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// The file's current or last name, with its directory, as in `directory/file`.
    pub file: String,
    /// The changed part of the file.
    pub what: What,
}

/// The part of a file that a pending change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The content of a sector, numbered from the start of the file.
    Sector(u64),
    /// The file's length, in bytes, after the change.
    Length(u64),
    /// The file's name: a creation, rename or removal.
    Directory,
}

/// The fate of a pending item in a crash. Each sector of a write is an item of its own.
///
/// `true` and `false` convert to [`CrashOutcome::Whole`] and [`CrashOutcome::Lost`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrashOutcome {
    /// The whole item reaches the disk.
    Whole,
    /// The item is lost.
    Lost,
    /// Only this many bytes at the start of the sector reach the disk. A length or a name is lost.
    First(usize),
    /// All but this many bytes at the start of the sector reach the disk. A length or a name is
    /// lost.
    Behind(usize),
    /// After all items have reached the disk, the block of this many bytes that contains the sector
    /// is corrupted, including older data in it. A length or a name is lost.
    Garbled(usize),
    /// The sector is written over another one, if that exists. A length or a name is lost.
    Astray {
        /// The file that is overwritten, as in [`MemStorage::names`](crate::MemStorage::names).
        file: String,
        /// The number of the sector that is overwritten, from the start of the file.
        sector: u64,
    },
}

impl From<bool> for CrashOutcome {
    fn from(lands: bool) -> Self {
        if lands { Self::Whole } else { Self::Lost }
    }
}
