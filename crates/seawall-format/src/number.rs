//! Where a record is in the log: its number, and its place in a file.

use std::fmt;
use std::num::NonZeroU64;

/// The number of a record in one log: 1, 2, 3, ... without gaps.
///
/// An `Lsn` names a record until a cut removes it: segments may be removed in front of it or
/// mirrored, and the number stays. It says nothing about where the bytes lie; that is [`Offset`].
/// "No record" is `None`, which sorts before every `Some`.
///
/// # Examples
///
/// ```
/// use seawall_format::Lsn;
///
/// assert_eq!(Lsn::FIRST.next().get(), 2);
/// assert_eq!(Lsn::FIRST.previous(), None);
/// assert!(None < Some(Lsn::FIRST));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(NonZeroU64);

impl Lsn {
    /// The first record of a log.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The LSN with this number; `None` for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The LSN behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The LSN `count` places behind this one; the highest there is where that overflows.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The LSN before this one; `None` before the first.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        Self::new(self.get() - 1)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number, or 0 for "none", as it stands on disk.
#[must_use]
pub fn lsn_or_zero(lsn: Option<Lsn>) -> u64 {
    lsn.map_or(0, Lsn::get)
}

/// The LSN behind the last one: the first where there is none.
#[must_use]
pub fn next_lsn(last: Option<Lsn>) -> Lsn {
    last.map_or(Lsn::FIRST, Lsn::next)
}

/// A byte position in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// The position `bytes` further on; the highest there is where that overflows.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// The number of a segment: from 1, never used twice in one log.
///
/// # Examples
///
/// ```
/// use seawall_format::SegmentId;
///
/// let id = SegmentId::from_file_name("000000000007.seg").expect("the form that we write");
/// assert_eq!(id.file_name(), "000000000007.seg");
/// assert_eq!(SegmentId::from_file_name("7.seg"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(NonZeroU64);

impl SegmentId {
    /// The first segment of a log.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The id with this number; `None` for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The id behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The name of the segment's file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{:012}.seg", self.0)
    }

    /// The name of its head, where its records have a file of their own.
    #[must_use]
    pub fn head_name(self) -> String {
        format!("{:012}.head", self.0)
    }

    /// The name of that file.
    #[must_use]
    pub fn text_name(self) -> String {
        format!("{:012}.jsonl", self.0)
    }

    /// The id that the name of a segment's file or of its head stands for; `None` for every name
    /// that we would not write.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".seg").or_else(|| name.strip_suffix(".head"))?;
        let id = Self::new(stem.parse().ok()?)?;
        (id.file_name() == name || id.head_name() == name).then_some(id)
    }

    /// The id that the name of any of a segment's files stands for, of its text, too.
    #[must_use]
    pub fn from_any_name(name: &str) -> Option<Self> {
        let text = || {
            let id = Self::new(name.strip_suffix(".jsonl")?.parse().ok()?)?;
            (id.text_name() == name).then_some(id)
        };
        Self::from_file_name(name).or_else(text)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a file: 64 random bits that every checksum in it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The half that each batch header repeats.
    pub(crate) const fn tag(self) -> u64 {
        self.0 & 0xFFFF_FFFF
    }
}

/// Which log: 64 random bits drawn at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u64);
