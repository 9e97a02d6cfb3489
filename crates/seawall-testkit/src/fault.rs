//! Faults of a device in use.

use std::fmt;
use std::str::FromStr;

/// A kind of fault in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A read fails once.
    ReadError,
    /// A write, a change of length or a rename fails once. A part of the write may be done, and a
    /// file that was to be recycled may have its new name.
    WriteError,
    /// A read or write fails, and so do all later ones of that file, through any handle.
    LastingError,
    /// A sync fails. A part of the data becomes durable and the rest is dropped, while the cache
    /// still shows all of it.
    FailedSync,
    /// A sync of a file fails and corrupts the blocks that it wrote to.
    SpoiledSync,
    /// A sync succeeds, but the device lost some of the writes.
    LostWrite,
    /// A sync succeeds, but one sector was written over another, in the same file or another one.
    MisdirectedWrite,
    /// A read returns data from another position in the file.
    MisdirectedRead,
    /// A read returns one flipped bit. The next read is correct.
    FlippedRead,
    /// For some time no file can grow.
    Full,
    /// For some time all writes fail, including overwrites: the disk is full, and on a
    /// copy-on-write file system overwrites need space too.
    FullCopying,
    /// The call takes up to ten seconds, while other threads run.
    Stall,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::ReadError,
        Self::WriteError,
        Self::LastingError,
        Self::FailedSync,
        Self::SpoiledSync,
        Self::LostWrite,
        Self::MisdirectedWrite,
        Self::MisdirectedRead,
        Self::FlippedRead,
        Self::Full,
        Self::FullCopying,
        Self::Stall,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadError => "read-error",
            Self::WriteError => "write-error",
            Self::LastingError => "lasting-error",
            Self::FailedSync => "failed-sync",
            Self::SpoiledSync => "spoiled-sync",
            Self::LostWrite => "lost-write",
            Self::MisdirectedWrite => "misdirected-write",
            Self::MisdirectedRead => "misdirected-read",
            Self::FlippedRead => "flipped-read",
            Self::Full => "full",
            Self::FullCopying => "full-copying",
            Self::Stall => "stall",
        }
    }

    /// Returns whether this kind is damage: durable bytes, or the bytes returned by a read, differ
    /// from what was written. A log must survive all other kinds without loss.
    #[must_use]
    pub fn is_damage(self) -> bool {
        use Kind::{FlippedRead, LostWrite, MisdirectedRead, MisdirectedWrite, SpoiledSync};
        [FlippedRead, LostWrite, MisdirectedRead, MisdirectedWrite, SpoiledSync].contains(&self)
    }

    pub(crate) fn applies_to(self, act: Act) -> bool {
        match self {
            Self::ReadError | Self::MisdirectedRead | Self::FlippedRead => act == Act::Read,
            Self::WriteError => act.is_change(),
            Self::LastingError => matches!(act, Act::Read | Act::Write),
            Self::FailedSync | Self::LostWrite => matches!(act, Act::Sync | Act::SyncDir),
            Self::SpoiledSync | Self::MisdirectedWrite => act == Act::Sync,
            Self::Full | Self::FullCopying | Self::Stall => true,
        }
    }
}

/// A fault: its kind, and the seed of its random choices.
///
/// The text form, such as `failed-sync:1f`, can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The kind of fault.
    pub kind: Kind,
    /// The seed of the random choices.
    pub seed: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}", self.kind.name(), self.seed)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, seed) = text.split_once(':').unwrap_or((text, "0"));
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| format!("unknown fault: {name}"))?;
        let seed = u64::from_str_radix(seed, 16).map_err(|why| format!("{text}: {why}"))?;
        Ok(Self { kind, seed })
    }
}

/// A fault that occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The number of the call, from 1.
    pub step: u64,
    /// The fault.
    pub fault: Fault,
    /// The file or directory.
    pub file: String,
}

/// A kind of call to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Open,
    Create,
    Rename,
    Recycle,
    Remove,
    List,
    SyncDir,
    Lock,
    Folder,
    Read,
    Write,
    Sync,
    Length,
    SetLength,
    Fill,
    Allocate,
    Reserve,
}

impl Act {
    /// Returns whether the call changes something and is not a sync.
    pub(crate) fn is_change(self) -> bool {
        use Act::{Allocate, Create, Fill, Recycle, Remove, Rename, Reserve, SetLength, Write};
        [Allocate, Create, Fill, Recycle, Remove, Rename, Reserve, SetLength, Write].contains(&self)
    }

    /// Returns a number that identifies the kind in a trace.
    pub(crate) fn number(self) -> u64 {
        use Act::{
            Allocate, Create, Fill, Folder, Length, List, Lock, Open, Read, Recycle, Remove,
            Rename, Reserve, SetLength, Sync, SyncDir, Write,
        };
        let all = [
            Open, Create, Rename, Remove, List, SyncDir, Lock, Folder, Read, Write, Sync, Length,
            SetLength, Fill, Allocate, Reserve, Recycle,
        ];
        let place = all.iter().position(|act| *act == self).expect("all are listed");
        u64::try_from(place).expect("a small number")
    }
}
