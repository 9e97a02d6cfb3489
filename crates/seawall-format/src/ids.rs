//! Where a record is in the log: its number, and its place in a file.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// Declares a number from 1 on; "none" is 0 on disk and `None` in memory.
macro_rules! number_from_one {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// The first one, 1.
            pub const FIRST: Self = Self(NonZeroU64::MIN);

            /// The one with this number; `None` for 0.
            #[must_use]
            pub const fn new(number: u64) -> Option<Self> {
                match NonZeroU64::new(number) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }

            /// The number, from 1.
            #[must_use]
            #[inline]
            pub const fn get(self) -> u64 {
                self.0.get()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_from_one! {
    /// The number of a record in one log: 1, 2, 3, ... without gaps.
    ///
    /// An `Lsn` names a record until a truncation removes it: segments before it may be removed or
    /// mirrored, and the number stays. The place of its bytes is an [`Offset`]. "No record" is
    /// `None`, which sorts before every `Some`.
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
    Lsn
}

impl Lsn {
    /// The next LSN.
    #[must_use]
    #[inline]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The LSN that is `count` higher, or the highest possible one.
    #[must_use]
    #[inline]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// The LSN before this one; `None` before the first.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        Self::new(self.get() - 1)
    }
}

/// The number, or 0 for "none", as stored on disk.
#[must_use]
pub fn lsn_or_zero(lsn: Option<Lsn>) -> u64 {
    lsn.map_or(0, Lsn::get)
}

/// The LSN after `last`: the first if there is none.
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

number_from_one! {
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
    SegmentId
}

impl SegmentId {
    /// The id after this one; `None` after the highest there is.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The name of the segment's file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{:012}.seg", self.0)
    }

    /// The name of its head file, if its records have a file of their own.
    #[must_use]
    pub fn head_name(self) -> String {
        format!("{:012}.head", self.0)
    }

    /// The name of the file that holds only its records.
    #[must_use]
    pub fn text_name(self) -> String {
        format!("{:012}.jsonl", self.0)
    }

    /// The name of the file with its parity, where it has one.
    #[must_use]
    pub fn parity_name(self) -> String {
        format!("{:012}.parity", self.0)
    }

    /// Parses the name of a parity file.
    #[must_use]
    pub fn from_parity_name(name: &str) -> Option<Self> {
        Self::from_name(name, ".parity")
    }

    /// The name of the table that says what its file held before, if the file is a reused one.
    #[must_use]
    pub fn before_name(self) -> String {
        format!("{:012}.before", self.0)
    }

    /// Parses the name of a segment file or of a head; `None` for every name that Seawall would not
    /// write.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::from_name(name, ".seg").or_else(|| Self::from_name(name, ".head"))
    }

    /// Parses the name of any file of a segment, including its text, its parity and its table.
    #[must_use]
    pub fn from_any_name(name: &str) -> Option<Self> {
        let others = || [".jsonl", ".parity", ".before"].iter();
        let other = || others().find_map(|suffix| Self::from_name(name, suffix));
        Self::from_file_name(name).or_else(other)
    }

    fn from_name(name: &str, suffix: &str) -> Option<Self> {
        let digits = name.strip_suffix(suffix)?;
        let is_canonical = match digits.len() {
            ..12 => false,
            12 => true,
            13.. => !digits.starts_with('0'),
        };
        if !is_canonical || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Self::new(digits.parse().ok()?)
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

/// 16 hexadecimal digits.
impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The number of a log key: from 1, never used twice in one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyNumber(NonZeroU32);

impl KeyNumber {
    /// The first one, 1.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The one with this number; `None` for 0.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number after this one; `None` after the highest there is.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }
}

impl fmt::Display for KeyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(crate) fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}

/// A segment as others name it: by id and epoch, so that another file under its name is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// Its number.
    pub id: SegmentId,
    /// The one life of its file.
    pub epoch: Epoch,
}

impl SegmentRef {
    pub(crate) fn from_numbers(id: u64, epoch: u64) -> Option<Self> {
        Some(Self { id: SegmentId::new(id)?, epoch: Epoch(epoch) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_from_one_and_stop_at_the_highest() {
        let highest = Lsn::new(u64::MAX).unwrap();
        assert_eq!((Lsn::new(0), SegmentId::new(0)), (None, None));
        assert_eq!(Lsn::FIRST.plus(41), Lsn::new(42).unwrap());
        assert_eq!(Lsn::new(42).unwrap().previous(), Lsn::new(41));
        assert_eq!((highest.next(), highest.plus(9)), (highest, highest));
        assert_eq!((lsn_or_zero(Lsn::new(42)), lsn_or_zero(None)), (42, 0));
        assert_eq!((next_lsn(Lsn::new(42)), next_lsn(None)), (Lsn::new(43).unwrap(), Lsn::FIRST));
        assert_eq!(SegmentId::FIRST.next(), SegmentId::new(2));
        assert_eq!(SegmentId::new(u64::MAX).unwrap().next(), None);
        assert_eq!((Offset(8).plus(4), Offset(8).plus(u64::MAX)), (Offset(12), Offset(u64::MAX)));
    }

    #[test]
    fn displayed_ids_are_numbers_and_hexadecimal_offsets() {
        assert_eq!(Lsn::new(42).unwrap().to_string(), "42");
        assert_eq!(SegmentId::new(7).unwrap().to_string(), "7");
        assert_eq!(Offset(0x1_1000).to_string(), "0x00011000");
    }

    #[test]
    fn only_canonical_file_names_are_segments() {
        let id = SegmentId::new(1_234_567_890_123).unwrap();
        for id in [id, SegmentId::FIRST] {
            for name in [id.file_name(), id.head_name()] {
                assert_eq!(SegmentId::from_file_name(&name), Some(id));
                assert_eq!(SegmentId::from_any_name(&name), Some(id));
            }
            for name in [id.text_name(), id.parity_name(), id.before_name()] {
                assert_eq!(SegmentId::from_any_name(&name), Some(id));
            }
            assert_eq!(SegmentId::from_file_name(&id.text_name()), None);
        }
        for name in [
            "000000000000.seg",
            "7.seg",
            "7.head",
            "7.jsonl",
            "+00000000007.seg",
            "+00000000007.jsonl",
            "0000000000007.seg",
            "000000000007.segment",
            "000000000007",
            ".seg",
        ] {
            assert_eq!(SegmentId::from_any_name(name), None, "{name}");
        }
    }

    #[test]
    fn batch_has_the_low_half_of_the_epoch() {
        assert_eq!(Epoch(0x1112_1314_1516_1718).tag(), 0x1516_1718);
    }
}
