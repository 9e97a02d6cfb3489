//! Changes that a power cut may lose, and what becomes of them.

/// One change that a power cut may lose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// The file's name at present, or its last one; with the folder in front, as in `folder/file`.
    pub file: String,
    /// What of it changes.
    pub what: What,
}

/// What a pending change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The content of the sector with this number, counted from the file's start.
    Sector(u64),
    /// The file's length, which becomes this many bytes.
    Length(u64),
    /// The file's name: it is created, renamed or removed.
    Directory,
}

/// What becomes of a pending item: of the sectors of a write, each one by itself.
///
/// `true` and `false` are [`CrashOutcome::Whole`] and [`CrashOutcome::Lost`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrashOutcome {
    /// It reaches the disk.
    Whole,
    /// It does not.
    Lost,
    /// A sector is torn: so many of its first bytes reach the disk. A length or a name is lost.
    First(usize),
    /// A sector is torn: what follows so many of its first bytes reaches the disk. A length or a
    /// name is lost.
    Behind(usize),
    /// A sector goes astray: it reaches the disk in the place of this sector of this file, if
    /// there is one. A length or a name is lost.
    Astray {
        /// A file, as [`MemStorage::names`](crate::MemStorage::names) lists it.
        file: String,
        /// The number of a sector, counted from the file's start.
        sector: u64,
    },
}

impl From<bool> for CrashOutcome {
    fn from(lands: bool) -> Self {
        if lands { Self::Whole } else { Self::Lost }
    }
}
