//! Marks a manifest slot that a clean close wrote. Older programs ignore it. format.md section 4.

use crate::checksum::Salt;
use crate::fields::{get, put, slice, slice_mut, table};
use crate::ids::{LogId, Offset, to_u64};

/// Where it lies in the slot: after the authenticator.
pub(crate) const CLOSING_AT: usize = 304;

pub(crate) const CLOSING_SIZE: usize = 16;

const MAGIC_BYTES: &[u8; 4] = b"CLSD";

table! {
    CRC = 0, 4, "crc";
    MAGIC = 4, 4, "magic";
    SEQUENCE = 8, 8, "sequence";
}

const _: () = assert!(CLOSING_AT + CLOSING_SIZE <= crate::fields::sizes::SECTOR);

/// The bytes for the slot at `slot` with this sequence number.
pub(crate) fn encode(log: LogId, slot: Offset, sequence: u64) -> [u8; CLOSING_SIZE] {
    let mut bytes = [0; CLOSING_SIZE];
    slice_mut(&mut bytes, MAGIC).copy_from_slice(MAGIC_BYTES);
    put(&mut bytes, SEQUENCE, sequence);
    Salt::of_log(log).put_checksum(place(slot), &mut bytes, CRC);
    bytes
}

/// Whether the slot in `sector`, which has this sequence number, was written by a clean close. An
/// older program leaves these bytes as they are when it writes the slot, but the number changes.
pub(crate) fn is_in(sector: &[u8], (log, slot, sequence): (LogId, Offset, u64)) -> bool {
    let bytes = sector.get(CLOSING_AT..).and_then(|rest| rest.first_chunk::<CLOSING_SIZE>());
    bytes.is_some_and(|bytes| {
        Salt::of_log(log).matches(place(slot), bytes, CRC)
            && slice(bytes, MAGIC) == MAGIC_BYTES
            && get(bytes, SEQUENCE) == sequence
    })
}

fn place(slot: Offset) -> Offset {
    slot.plus(to_u64(CLOSING_AT))
}
