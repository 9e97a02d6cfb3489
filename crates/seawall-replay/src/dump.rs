//! The bytes of a dump: a header, checksummed chunks, and an end marker. See format.md, section
//! 13.2.

pub(crate) mod reading;
pub(crate) mod writing;

use seawall::Lsn;
use seawall_format::{Epoch, Field, LogId, Offset, Salt, Table};
use std::{fmt, io};

/// The type name that the program gives its dumps, and the schema number of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) schema: u32,
}

/// The longest type name, in bytes.
pub(crate) const NAME_MAX: usize = 64;

/// The maximum payload of a chunk, in bytes.
pub(crate) const CHUNK: u32 = 65_536;

/// The log that a dump belongs to, and the last record that its state includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) log: LogId,
    /// The time and checksum of that record; both 0 if the log could no longer read it.
    pub(crate) time_us: u64,
    pub(crate) crc: u32,
}

impl Owner {
    /// Returns whether the dump identifies the record.
    pub(crate) fn is_known(self) -> bool {
        (self.time_us, self.crc) != (0, 0)
    }
}

/// The header of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Missing in draft 1.
    pub(crate) owner: Option<Owner>,
    pub(crate) chunk: u32,
    pub(crate) epoch: Epoch,
    pub(crate) lsn: Lsn,
    pub(crate) length: u64,
    pub(crate) time_us: u64,
    pub(crate) kind: Kind,
}

/// Why a file was not accepted as a dump of this kind.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The device could not read the bytes.
    Unread(io::Error),
    /// The bytes differ from what was written.
    Damaged(String),
    /// Intact, but of an unknown version or codec.
    Unknown(String),
    /// Intact, but the payload does not decode as the requested type.
    Undecoded(String),
}

const MAGIC: [u8; 8] = *b"SEAWALLD";
const VERSION: u16 = 0;
const DRAFT: u16 = 2;
/// The previous draft, without a log id: still read, no longer written.
const DRAFT_WITHOUT_LOG: u16 = 1;
const CODEC: u64 = 1;
const CHUNKS: std::ops::RangeInclusive<u64> = 16..=1 << 20;

pub(crate) const HEADER_SIZE: usize = 152;
const HEADER_SIZE_WITHOUT_LOG: usize = 128;
const CHUNK_HEADER_SIZE: usize = 8;
const END_SIZE: usize = 24;
const END_MAGIC: [u8; 4] = *b"ENDS";

const fn field(at: usize, size: usize, name: &'static str) -> Field {
    Field { at, size, name }
}

const F_MAGIC: Field = field(0, 8, "magic");
const F_VERSION: Field = field(8, 2, "version");
const F_DRAFT: Field = field(10, 2, "draft");
const F_PREAMBLE_CRC: Field = field(12, 4, "preamble crc");
const F_HEADER_CRC: Field = field(16, 4, "header crc");
const F_CHUNK: Field = field(20, 4, "chunk");
const F_EPOCH: Field = field(24, 8, "epoch");
const F_LSN: Field = field(32, 8, "lsn");
const F_LENGTH: Field = field(40, 8, "length");
const F_TIME: Field = field(48, 8, "time");
const F_SCHEMA: Field = field(56, 4, "schema");
const F_CODEC: Field = field(60, 2, "codec");
const F_ZERO: Field = field(62, 1, "zero");
const F_NAME_LENGTH: Field = field(63, 1, "type name length");
const F_LOG: Field = field(64, 8, "log id");
const F_RECORD_TIME: Field = field(72, 8, "record time");
const F_RECORD_CRC: Field = field(80, 4, "record crc");
const F_ZEROS: Field = field(84, 4, "zeros");
const F_NAME: Field = field(88, NAME_MAX, "type name");
/// Used in place of `F_NAME` in the draft without a log.
const F_NAME_WITHOUT_LOG: Field = field(64, NAME_MAX, "type name");

const HEADER: Table = &[
    F_MAGIC,
    F_VERSION,
    F_DRAFT,
    F_PREAMBLE_CRC,
    F_HEADER_CRC,
    F_CHUNK,
    F_EPOCH,
    F_LSN,
    F_LENGTH,
    F_TIME,
    F_SCHEMA,
    F_CODEC,
    F_ZERO,
    F_NAME_LENGTH,
    F_LOG,
    F_RECORD_TIME,
    F_RECORD_CRC,
    F_ZEROS,
    F_NAME,
];

const C_CRC: Field = field(0, 4, "crc");
const C_LENGTH: Field = field(4, 4, "length");

const E_CRC: Field = field(0, 4, "crc");
const E_MAGIC: Field = field(4, 4, "magic");
const E_LENGTH: Field = field(8, 8, "length");
const E_CHUNKS: Field = field(16, 8, "chunks");

const _: () = {
    let mut rest = HEADER;
    let mut end = 0;
    while let [field, tail @ ..] = rest {
        assert!(field.at == end, "fields follow each other without gaps");
        end = field.at + field.size;
        rest = tail;
    }
    assert!(end == HEADER_SIZE);
};

impl Header {
    /// The salt of this dump's checksums.
    fn salt(&self) -> Salt {
        Salt::new(self.owner.map_or(LogId(0), |owner| owner.log), self.epoch)
    }

    /// The size of this header.
    fn size(&self) -> usize {
        if self.owner.is_some() { HEADER_SIZE } else { HEADER_SIZE_WITHOUT_LOG }
    }

    fn chunks(&self) -> u64 {
        self.length.div_ceil(u64::from(self.chunk))
    }

    /// The length of the whole file; `None` if it overflows.
    fn file_length(&self) -> Option<u64> {
        let chunk_headers = self.chunks().checked_mul(to_u64(CHUNK_HEADER_SIZE))?;
        let around = to_u64(self.size() + END_SIZE);
        self.length.checked_add(chunk_headers)?.checked_add(around)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size()];
        let draft = if self.owner.is_some() { DRAFT } else { DRAFT_WITHOUT_LOG };
        put(&mut bytes, F_MAGIC, &MAGIC);
        put(&mut bytes, F_VERSION, &VERSION.to_le_bytes());
        put(&mut bytes, F_DRAFT, &draft.to_le_bytes());
        let crc = plain_crc(until(&bytes, F_PREAMBLE_CRC));
        put(&mut bytes, F_PREAMBLE_CRC, &crc.to_le_bytes());
        put(&mut bytes, F_CHUNK, &self.chunk.to_le_bytes());
        put(&mut bytes, F_EPOCH, &self.epoch.0.to_le_bytes());
        put(&mut bytes, F_LSN, &self.lsn.get().to_le_bytes());
        put(&mut bytes, F_LENGTH, &self.length.to_le_bytes());
        put(&mut bytes, F_TIME, &self.time_us.to_le_bytes());
        put(&mut bytes, F_SCHEMA, &self.kind.schema.to_le_bytes());
        put(&mut bytes, F_CODEC, &CODEC.to_le_bytes());
        let name = self.kind.name.as_bytes();
        put(&mut bytes, F_NAME_LENGTH, &to_u64(name.len()).to_le_bytes());
        let mut filled = [0; NAME_MAX];
        filled.get_mut(..name.len()).expect("checked at open").copy_from_slice(name);
        if let Some(Owner { log, time_us, crc }) = self.owner {
            put(&mut bytes, F_LOG, &log.0.to_le_bytes());
            put(&mut bytes, F_RECORD_TIME, &time_us.to_le_bytes());
            put(&mut bytes, F_RECORD_CRC, &crc.to_le_bytes());
            put(&mut bytes, F_NAME, &filled);
        } else {
            put(&mut bytes, F_NAME_WITHOUT_LOG, &filled);
        }
        let crc = self.salt().checksum(Offset(0), after_field(&bytes, F_HEADER_CRC));
        put(&mut bytes, F_HEADER_CRC, &crc.to_le_bytes());
        bytes
    }

    /// Decodes a header of any supported draft.
    fn decode(bytes: &[u8; HEADER_SIZE]) -> Result<Self, Refused> {
        let preamble = get(bytes, F_PREAMBLE_CRC);
        if slice(bytes, F_MAGIC) != MAGIC
            || u64::from(plain_crc(until(bytes, F_PREAMBLE_CRC))) != preamble
        {
            return Err(damaged("it does not start with the signature of a dump"));
        }
        let (version, draft) = (get(bytes, F_VERSION), get(bytes, F_DRAFT));
        let drafts = [DRAFT_WITHOUT_LOG, DRAFT].map(u64::from);
        if version != u64::from(VERSION) || !drafts.contains(&draft) {
            return Err(Refused::Unknown(format!(
                "dump version {version} draft {draft}; this program reads version {VERSION} drafts \
                 {DRAFT_WITHOUT_LOG} and {DRAFT}"
            )));
        }
        let has_log = draft == u64::from(DRAFT);
        let size = if has_log { HEADER_SIZE } else { HEADER_SIZE_WITHOUT_LOG };
        let bytes = bytes.get(..size).expect("the longer one was read");
        let log = LogId(if has_log { get(bytes, F_LOG) } else { 0 });
        let epoch = Epoch(get(bytes, F_EPOCH));
        let crc = Salt::new(log, epoch).checksum(Offset(0), after_field(bytes, F_HEADER_CRC));
        if u64::from(crc) != get(bytes, F_HEADER_CRC) {
            return Err(damaged("the header's checksum does not match"));
        }
        let codec = get(bytes, F_CODEC);
        if codec != CODEC {
            return Err(Refused::Unknown(format!("codec {codec} is not supported")));
        }
        let header = Self::of_fields(bytes, epoch, has_log);
        header.ok_or_else(|| damaged("the header contains an invalid value"))
    }

    fn of_fields(bytes: &[u8], epoch: Epoch, has_log: bool) -> Option<Self> {
        let name_length = usize::try_from(get(bytes, F_NAME_LENGTH)).ok()?;
        let name = if has_log { F_NAME } else { F_NAME_WITHOUT_LOG };
        let (name, rest) = slice(bytes, name).split_at_checked(name_length)?;
        let chunk = Some(get(bytes, F_CHUNK)).filter(|chunk| CHUNKS.contains(chunk))?;
        let owner = has_log.then(|| {
            let crc = u32::try_from(get(bytes, F_RECORD_CRC)).expect("four bytes wide");
            Owner { log: LogId(get(bytes, F_LOG)), time_us: get(bytes, F_RECORD_TIME), crc }
        });
        let header = Self {
            owner,
            chunk: u32::try_from(chunk).ok()?,
            epoch,
            lsn: Lsn::new(get(bytes, F_LSN))?,
            length: Some(get(bytes, F_LENGTH)).filter(|length| *length > 0)?,
            time_us: get(bytes, F_TIME),
            kind: Kind {
                name: String::from_utf8(name.to_vec()).ok()?,
                schema: u32::try_from(get(bytes, F_SCHEMA)).ok()?,
            },
        };
        let zeros = get(bytes, F_ZERO) == 0
            && rest.iter().all(|byte| *byte == 0)
            && (!has_log || get(bytes, F_ZEROS) == 0);
        let numbers = epoch.0 != 0 && owner.is_none_or(|owner| owner.log.0 != 0);
        (zeros && numbers && header.file_length().is_some()).then_some(header)
    }

    /// The end marker of this dump, for the offset `at`.
    fn end(&self, at: u64) -> [u8; END_SIZE] {
        let mut bytes = [0; END_SIZE];
        put(&mut bytes, E_MAGIC, &END_MAGIC);
        put(&mut bytes, E_LENGTH, &self.length.to_le_bytes());
        put(&mut bytes, E_CHUNKS, &self.chunks().to_le_bytes());
        let crc = self.salt().checksum(Offset(at), after_field(&bytes, E_CRC));
        put(&mut bytes, E_CRC, &crc.to_le_bytes());
        bytes
    }
}

fn damaged(why: impl Into<String>) -> Refused {
    Refused::Damaged(why.into())
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(error) => write!(f, "it cannot be read: {error}"),
            Self::Damaged(why) | Self::Unknown(why) | Self::Undecoded(why) => f.write_str(why),
        }
    }
}

/// CRC-32C without a salt.
fn plain_crc(bytes: &[u8]) -> u32 {
    let salt = Salt::new(LogId(0), Epoch(0));
    salt.checksum(Offset(0), bytes) ^ salt.checksum(Offset(0), b"")
}

/// Reads a number of up to 8 bytes.
fn get(bytes: &[u8], field: Field) -> u64 {
    let mut whole = [0; 8];
    let (number, _) = whole.split_at_mut(field.size);
    number.copy_from_slice(slice(bytes, field));
    u64::from_le_bytes(whole)
}

/// Writes bytes into a field. Excess bytes must be zeros.
fn put(bytes: &mut [u8], field: Field, value: &[u8]) {
    let (value, rest) = value.split_at(field.size);
    assert!(rest.iter().all(|byte| *byte == 0), "{} does not fit its field", field.name);
    let place = bytes.get_mut(field.at..field.at + field.size).expect("a field lies inside");
    place.copy_from_slice(value);
}

fn slice(bytes: &[u8], field: Field) -> &[u8] {
    bytes.get(field.at..field.at + field.size).expect("a field lies inside")
}

fn until(bytes: &[u8], field: Field) -> &[u8] {
    bytes.get(..field.at).expect("a field lies inside")
}

/// The bytes after the checksum field, which the checksum covers.
fn after_field(bytes: &[u8], field: Field) -> &[u8] {
    bytes.get(field.at + field.size..).expect("a field lies inside")
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).expect("fits in 64 bits")
}

#[cfg(test)]
mod tests;
