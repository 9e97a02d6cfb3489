//! Settings that are fixed when a log is created, and stored in its manifest and in every header.

use crate::fields::sizes::{BATCH_HEADER, FRAME_HEADER, SECTOR};
use crate::refused::Refused;

/// The longest type name, in bytes.
pub const TYPE_NAME_MAX: usize = 64;

/// Sizes that determine the offsets in a segment. format.md section 3.
///
/// # Examples
///
/// ```
/// use seawall_format::Geometry;
///
/// assert_eq!(Geometry::DEFAULT.data_start(), 4 * 4096 + 65_536);
/// assert!(Geometry { block: 1000, ..Geometry::DEFAULT }.check().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The physical block, in bytes: how much around it one write may garble.
    pub block: u32,
    /// How far one fault is assumed to spoil neighbouring bytes, in bytes.
    pub reach: u32,
    /// The largest batch, header included, in bytes.
    pub batch_max: u32,
}

impl Geometry {
    /// What every log has unless a test says otherwise.
    pub const DEFAULT: Self = Self { block: 4096, reach: 65_536, batch_max: 8 << 20 };

    const BATCH_MAX: std::ops::RangeInclusive<u32> = 256..=64 << 20;

    /// The largest segment file, in bytes: a segment file is read whole when it is checked.
    pub const SEGMENT_MAX: u64 = 4 << 30;

    /// Whether the sizes are ones that format.md allows.
    ///
    /// # Errors
    ///
    /// [`Refused::Invalid`] if not.
    pub fn check(self) -> Result<Self, Refused> {
        let sound = self.block.is_power_of_two()
            && (512..=65_536).contains(&self.block)
            && self.reach.is_multiple_of(self.block)
            && (1..=1 << 20).contains(&self.reach)
            && self.batch_max.is_multiple_of(8)
            && Self::BATCH_MAX.contains(&self.batch_max);
        if sound { Ok(self) } else { Err(Refused::Invalid) }
    }

    /// Where the batches of a segment begin, in bytes.
    #[must_use]
    pub fn data_start(self) -> u64 {
        4 * u64::from(self.block) + u64::from(self.reach)
    }

    /// The length of the head of a segment in the readable layout, in bytes.
    #[must_use]
    pub fn head_size(self) -> u64 {
        4 * u64::from(self.block)
    }

    /// The largest payload of a record, in bytes.
    #[must_use]
    pub fn payload_max(self) -> usize {
        let batch = usize::try_from(self.batch_max).expect("at most 64 MiB");
        batch - BATCH_HEADER - FRAME_HEADER
    }

    /// The size of the smallest segment file that holds `data` bytes of batches and is not
    /// smaller than `least`, in bytes: a multiple of the block.
    #[must_use]
    pub fn segment_size(self, data: u64, least: u64) -> u64 {
        (self.data_start() + data).max(least).next_multiple_of(u64::from(self.block))
    }
}

const _: () = assert!(SECTOR == 512, "a block is at least a sector");

/// How records were turned into payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecId {
    /// The user's bytes, unchanged.
    Raw,
    /// `MessagePack`, structures as maps with their field names.
    MessagePack,
    /// JSON text.
    Json,
    /// `MessagePack`, structures as arrays of their fields.
    Positional,
}

impl CodecId {
    const ALL: [(Self, u64, &'static str); 4] = [
        (Self::Raw, 0, "raw"),
        (Self::MessagePack, 1, "msgpack"),
        (Self::Json, 2, "json"),
        (Self::Positional, 3, "positional"),
    ];

    pub(crate) fn number(self) -> u64 {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").1
    }

    pub(crate) fn from_number(number: u64) -> Result<Self, Refused> {
        let row = Self::ALL.iter().find(|row| row.1 == number);
        row.map(|row| row.0).ok_or_else(|| Refused::Unknown { what: format!("codec {number}") })
    }

    /// The name that the command line uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").2
    }

    /// The codec of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.2 == name).map(|row| row.0)
    }
}

/// How a batch is compressed. format.md section 3.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As blocks of LZ4.
    Lz4,
    /// As frames of Zstandard: smaller, in more time. Programs without the feature `zstd` cannot
    /// read the log.
    Zstd,
}

impl Compression {
    /// Whether this build has it: LZ4 is the cargo feature `lz4`, Zstandard `zstd`.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        match self {
            Self::None => true,
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    pub(crate) fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    pub(crate) fn from_number(number: u64) -> Result<Self, Refused> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Zstd),
            _ => Err(Refused::Unknown { what: format!("compression {number}") }),
        }
    }
}

/// The layout of a log's records in its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Batches of frames, in one file a segment.
    #[default]
    Binary,
    /// Lines of JSON in a file of their own, for people and their tools. format.md section 9.
    Text,
}

impl Layout {
    const ALL: [(Self, u64, &'static str); 2] =
        [(Self::Binary, 0, "binary"), (Self::Text, 1, "json")];

    pub(crate) fn number(self) -> u64 {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").1
    }

    pub(crate) fn from_number(number: u64) -> Result<Self, Refused> {
        let known = |row: &&(Self, u64, &str)| row.1 == number;
        let found = Self::ALL.iter().find(known).map(|row| row.0);
        let found = found.filter(|layout| layout.is_built_in());
        found.ok_or_else(|| Refused::Unknown { what: format!("layout {number}") })
    }

    /// Whether this program can read and write it: a text takes a parser, the feature `json`.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        self == Self::Binary || cfg!(feature = "json")
    }

    /// The name that the command line uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").2
    }
}

/// The durability that an `append` waits for. guarantees.md says what each level survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The log has the bytes in memory; they are written and synced within a bounded time.
    Buffered,
    /// A sync that covers the record has returned.
    #[default]
    Synced,
    /// The record is durable, and so is evidence of that, far enough away from it.
    Confirmed,
}

impl Level {
    const ALL: [(Self, u64, &'static str); 3] = [
        (Self::Buffered, 0, "buffered"),
        (Self::Synced, 1, "synced"),
        (Self::Confirmed, 2, "confirmed"),
    ];

    pub(crate) fn number(self) -> u64 {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").1
    }

    pub(crate) fn from_number(number: u64) -> Result<Self, Refused> {
        let row = Self::ALL.iter().find(|row| row.1 == number);
        row.map(|row| row.0).ok_or_else(|| Refused::Unknown { what: format!("level {number}") })
    }

    /// The name that the command line uses.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.0 == self).expect("all are listed").2
    }
}

/// What the payloads are: a codec, the name of the user's type, and its schema number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordType {
    /// How records became bytes.
    pub codec: CodecId,
    /// The name of the type, at most [`TYPE_NAME_MAX`] bytes; may be empty.
    pub name: String,
    /// The user's schema number. In a segment's header: that of every record there; in a manifest:
    /// that of records to come.
    pub schema: u32,
}

impl RecordType {
    /// Nameless records of this codec.
    #[must_use]
    pub fn of(codec: CodecId) -> Self {
        Self { codec, name: String::new(), schema: 0 }
    }

    /// Whether this layout can contain records of this type.
    pub(crate) fn fits(&self, layout: Layout) -> bool {
        layout == Layout::Binary || self.codec == CodecId::Json
    }

    pub(crate) fn name_length(&self) -> u64 {
        u64::try_from(self.name.len()).expect("at most 64")
    }

    /// Its name as stored on disk.
    pub(crate) fn name_bytes(&self) -> [u8; TYPE_NAME_MAX] {
        assert!(self.name.len() <= TYPE_NAME_MAX, "checked where names enter the log");
        let mut bytes = [0; TYPE_NAME_MAX];
        let (start, _) = bytes.split_at_mut(self.name.len());
        start.copy_from_slice(self.name.as_bytes());
        bytes
    }

    /// The type stored in these fields.
    pub(crate) fn decode(fields: &RecordTypeFields<'_>) -> Result<Self, Refused> {
        let codec = CodecId::from_number(fields.codec)?;
        let length = usize::try_from(fields.length).map_err(|_| Refused::Invalid)?;
        let name = fields.name.get(..length).ok_or(Refused::Invalid)?;
        let rest = fields.name.get(length..).ok_or(Refused::Invalid)?;
        let name = std::str::from_utf8(name).map_err(|_| Refused::Invalid)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Refused::Invalid);
        }
        Ok(Self { codec, name: name.to_owned(), schema: fields.schema })
    }
}

/// The fields of a [`RecordType`] as a header or manifest holds them.
pub(crate) struct RecordTypeFields<'a> {
    pub(crate) codec: u64,
    pub(crate) length: u64,
    pub(crate) name: &'a [u8],
    pub(crate) schema: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        use CodecId::{Json, MessagePack, Positional, Raw};
        let known = [Raw, MessagePack, Json, Positional];
        for (number, codec) in (0..).zip(known) {
            assert_eq!((codec.number(), CodecId::from_number(number)), (number, Ok(codec)));
            assert_eq!(CodecId::from_name(codec.name()), Some(codec));
        }
        assert_eq!(known.map(CodecId::name), ["raw", "msgpack", "json", "positional"]);
        assert_eq!(CodecId::from_name("yaml"), None);
        let levels = [Level::Buffered, Level::Synced, Level::Confirmed];
        for (number, level) in (0..).zip(levels) {
            assert_eq!((level.number(), Level::from_number(number)), (number, Ok(level)));
        }
        assert_eq!(levels.map(Level::name), ["buffered", "synced", "confirmed"]);
        let layouts = [Layout::Binary, Layout::Text];
        assert_eq!(layouts.map(Layout::name), ["binary", "json"]);
        assert_eq!(layouts.map(Layout::is_built_in), [true, cfg!(feature = "json")]);
        for (number, layout) in (0..).zip(layouts) {
            assert_eq!(
                (layout.number(), Layout::from_number(number).is_ok()),
                (number, layout.is_built_in())
            );
        }
    }

    #[test]
    fn offsets_in_a_segment_follow_from_its_geometry() {
        let geometry = Geometry { block: 512, reach: 1024, batch_max: 4096 };
        assert_eq!((geometry.head_size(), geometry.data_start()), (2048, 3072));
        assert_eq!(geometry.payload_max(), 4096 - 48 - 8);
        assert_eq!(geometry.segment_size(0, 0), 3072);
        assert_eq!(geometry.segment_size(1, 0), 3584);
        assert_eq!(geometry.segment_size(513, 4096), 4096);
        assert_eq!(geometry.segment_size(0, 4097), 4608);
    }
}
