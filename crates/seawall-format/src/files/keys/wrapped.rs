//! One slot of `keys`, as it is stored.

use crate::checksum::Salt;
use crate::encryption::{Nonce, Tag};
use crate::fields::{Field, get, get_u32, put, slice, slice_mut, table};
use crate::files::preamble;
use crate::ids::{KeyNumber, LogId, Offset, to_u64};
use crate::refused::Refused;

const MAGIC_BYTES: [u8; 8] = *b"SEAWALLK";

/// Where slot B begins: no block is larger.
pub const SLOT_B: Offset = Offset(65_536);

/// The most log keys that are kept.
pub const LOG_KEYS_MAX: usize = 256;

/// How log keys are wrapped: with the cipher of batches.
const GCM_SIV: u32 = 1;

/// Bytes of a slot before its entries.
const HEAD_SIZE: usize = 96;

table! {
    MAGIC = 0, 8, "magic";
    VERSION = 8, 2, "version";
    DRAFT = 10, 2, "draft";
    PREAMBLE_CRC = 12, 4, "preamble crc";
    CRC = 16, 4, "crc";
    COUNT = 20, 4, "count";
    LOG_ID = 24, 8, "log id";
    SEQUENCE = 32, 8, "sequence";
    KEY_ID = 40, 16, "key id";
    TIME = 56, 8, "time";
    WRAP = 64, 4, "wrap";
    NONCE = 68, 12, "nonce";
    TAG = 80, 16, "tag";
    ENTRIES = 96, 0, "entries";
}

/// One log key in a slot.
pub(crate) mod entry {
    /// Bytes of an entry.
    pub(crate) const SIZE: usize = 40;

    crate::fields::table! {
        NUMBER = 0, 4, "number";
        ZERO = 4, 4, "zero";
        WRAPPED = 8, 32, "wrapped";
    }
}

/// One slot of the file, with its keys as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedKeys {
    /// The log that they belong to.
    pub log: LogId,
    /// Counts the writes of the file; the higher readable slot counts.
    pub sequence: u64,
    /// Microseconds since 1970 when it was written; informational.
    pub time_us: u64,
    /// Tells the user's key from others.
    pub(super) key_id: [u8; 16],
    pub(super) nonce: Nonce,
    pub(super) tag: Tag,
    /// Number and encrypted bytes of each log key.
    pub(super) entries: Vec<(KeyNumber, [u8; 32])>,
}

impl WrappedKeys {
    /// The numbers of the log keys, the newest last.
    pub fn numbers(&self) -> impl Iterator<Item = KeyNumber> {
        self.entries.iter().map(|(number, _)| *number)
    }

    /// The bytes of the slot for [`sequence`](Self::sequence), and where it is.
    #[must_use]
    pub fn encode(&self) -> (Offset, Vec<u8>) {
        let mut slot = self.head().to_vec();
        for (number, wrapped) in &self.entries {
            let mut bytes = [0; entry::SIZE];
            put(&mut bytes, entry::NUMBER, number.get().into());
            slice_mut(&mut bytes, entry::WRAPPED).copy_from_slice(wrapped);
            slot.extend_from_slice(&bytes);
        }
        let offset = slot_offset(self.sequence);
        Salt::of_log(self.log).put_checksum(offset, &mut slot, CRC);
        (offset, slot)
    }

    /// The slot up to its entries, without the crc.
    fn head(&self) -> [u8; HEAD_SIZE] {
        let mut head = [0; HEAD_SIZE];
        preamble::encode(&mut head, MAGIC_BYTES);
        for (field, number) in [
            (COUNT, to_u64(self.entries.len())),
            (LOG_ID, self.log.0),
            (SEQUENCE, self.sequence),
            (TIME, self.time_us),
            (WRAP, GCM_SIV.into()),
        ] {
            put(&mut head, field, number);
        }
        slice_mut(&mut head, KEY_ID).copy_from_slice(&self.key_id);
        slice_mut(&mut head, NONCE).copy_from_slice(&self.nonce);
        slice_mut(&mut head, TAG).copy_from_slice(&self.tag);
        head
    }

    /// What the tag binds the keys to: bytes 0 to 16 and 20 to 68, and the number of each key.
    #[cfg(feature = "encryption")]
    pub(super) fn bound(&self) -> Vec<u8> {
        let head = self.head();
        let parts = [0..CRC.at, COUNT.at..NONCE.at].map(|part| head.get(part).unwrap_or_default());
        let numbers = self.numbers().flat_map(|number| number.get().to_le_bytes());
        parts.concat().into_iter().chain(numbers).collect()
    }

    /// Decodes the slot at `offset`, of which `file` is the file from there on.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why these bytes are not a slot.
    pub fn decode(file: &[u8], offset: Offset) -> Result<Self, Refused> {
        preamble::check(file, MAGIC_BYTES)?;
        let head = file.first_chunk::<HEAD_SIZE>().ok_or(Refused::Invalid)?;
        let count = usize::try_from(get(head, COUNT)).ok();
        let count = count.filter(|count| (1..=LOG_KEYS_MAX).contains(count));
        let end = HEAD_SIZE + count.ok_or(Refused::Invalid)? * entry::SIZE;
        let slot = file.get(..end).ok_or(Refused::Invalid)?;
        let log = LogId(get(head, LOG_ID));
        if !Salt::of_log(log).matches(offset, slot, CRC) {
            return Err(Refused::Invalid);
        }
        let wrap = get_u32(head, WRAP);
        if wrap != GCM_SIV {
            return Err(Refused::Unknown { what: format!("wrapping of keys {wrap}") });
        }
        let (entries, _) = slot.get(HEAD_SIZE..).unwrap_or_default().as_chunks::<{ entry::SIZE }>();
        let found = Self {
            log,
            sequence: get(head, SEQUENCE),
            time_us: get(head, TIME),
            key_id: bytes(head, KEY_ID),
            nonce: bytes(head, NONCE),
            tag: bytes(head, TAG),
            entries: entries.iter().map(read_entry).collect::<Result<_, _>>()?,
        };
        let numbers: Vec<_> = found.numbers().collect();
        let sound = log.0 != 0
            && slot_offset(found.sequence) == offset
            && (1..1 << 63).contains(&found.sequence)
            && numbers.is_sorted_by(|one, next| one < next);
        if sound { Ok(found) } else { Err(Refused::Invalid) }
    }

    /// Both slots of the file, slot A first, each as far as it is readable.
    pub fn decode_file(file: &[u8]) -> [Result<Self, Refused>; 2] {
        let from = |offset: Offset| {
            let at = usize::try_from(offset.0).expect("a small number");
            Self::decode(file.get(at..).unwrap_or_default(), offset)
        };
        [from(Offset(0)), from(SLOT_B)]
    }
}

fn read_entry(bytes: &[u8; entry::SIZE]) -> Result<(KeyNumber, [u8; 32]), Refused> {
    preamble::kept_for_later(bytes, &[entry::ZERO])?;
    let number = KeyNumber::new(get_u32(bytes, entry::NUMBER)).ok_or(Refused::Invalid)?;
    Ok((number, self::bytes(bytes, entry::WRAPPED)))
}

/// The bytes of a field of this size.
fn bytes<const N: usize>(structure: &[u8], field: Field) -> [u8; N] {
    slice(structure, field).try_into().expect("the field has this size")
}

fn slot_offset(sequence: u64) -> Offset {
    if sequence.is_multiple_of(2) { Offset(0) } else { SLOT_B }
}

const _: () = {
    assert!(ENTRIES.at == HEAD_SIZE);
    assert!(entry::WRAPPED.at + entry::WRAPPED.size == entry::SIZE);
    assert!(HEAD_SIZE + LOG_KEYS_MAX * entry::SIZE <= 65_536, "slot A ends before slot B");
};
