//! What a device does wrong while it is in use.

use std::fmt;
use std::str::FromStr;

/// A way in which one call of the device goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A read fails, once.
    ReadError,
    /// A write, a change of length or of a name fails, once; of a write a part may be done.
    WriteError,
    /// A read or write fails, and from then on each one of that file, whoever opened it.
    LastingError,
    /// A sync fails. Some of what it should have made durable is, the rest is forgotten, and the
    /// cache shows it all the same.
    FailedSync,
    /// A sync of a file fails and garbles the blocks that it wrote to.
    SpoiledSync,
    /// A sync succeeds though the device lost some of the writes.
    LostWrite,
    /// A sync succeeds though one sector went to the place of another, in this file or another.
    MisdirectedWrite,
    /// A read delivers what stands elsewhere in the file.
    MisdirectedRead,
    /// A read delivers one bit that is wrong; the next one is right.
    FlippedRead,
    /// For a while no file can grow.
    Full,
    /// For a while nothing can be written, not even over what is there: the disk is full, and its
    /// file system copies on write, so that an overwrite needs room, too.
    FullCopying,
    /// The call takes up to ten seconds of the clock, and others run meanwhile.
    Stall,
}

impl Kind {
    /// All of them.
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

    /// A word for it.
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

    /// Whether bytes that were durable, or their delivery, are no longer what was written: damage.
    /// The others a log has to bear without losing anything.
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

/// One thing that goes wrong: what, and the seed of all that is left to chance in it.
///
/// It is written as `failed-sync:1f`, and read back from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// What is left to chance follows from this.
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
        let kind = kind.ok_or_else(|| format!("{name} is no fault"))?;
        let seed = u64::from_str_radix(seed, 16).map_err(|why| format!("{text}: {why}"))?;
        Ok(Self { kind, seed })
    }
}

/// A fault that came to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The number of the call, from 1.
    pub step: u64,
    /// What went wrong.
    pub fault: Fault,
    /// The file, or the folder.
    pub file: String,
}

/// A call of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Open,
    Create,
    Rename,
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
    /// Whether it changes something and is no barrier.
    pub(crate) fn is_change(self) -> bool {
        use Act::{Allocate, Create, Fill, Remove, Rename, Reserve, SetLength, Write};
        [Allocate, Create, Fill, Remove, Rename, Reserve, SetLength, Write].contains(&self)
    }

    /// A number for it, to tell calls apart in a trace.
    pub(crate) fn number(self) -> u64 {
        use Act::{
            Allocate, Create, Fill, Folder, Length, List, Lock, Open, Read, Remove, Rename,
            Reserve, SetLength, Sync, SyncDir, Write,
        };
        let all = [
            Open, Create, Rename, Remove, List, SyncDir, Lock, Folder, Read, Write, Sync, Length,
            SetLength, Fill, Allocate, Reserve,
        ];
        let place = all.iter().position(|act| *act == self).expect("all are listed");
        u64::try_from(place).expect("a small number")
    }
}
