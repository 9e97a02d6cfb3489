//! Marks a manifest slot that a clean close wrote. Older programs ignore it. format.md section 4.

use crate::checksum::Salt;
use crate::fields::{get_u32, put, slice, slice_mut, table};
use crate::ids::{LogId, Offset, to_u64};

/// Where it lies in the slot: after the authenticator.
pub(crate) const CLOSING_AT: usize = 304;

pub(crate) const CLOSING_SIZE: usize = 8;

const MAGIC_BYTES: &[u8; 4] = b"CLSD";

table! {
    CRC = 0, 4, "crc";
    MAGIC = 4, 4, "magic";
}

const _: () = assert!(CLOSING_AT + CLOSING_SIZE <= crate::fields::sizes::SECTOR);

/// The bytes that mark `slot`, which goes to `offset`.
pub(crate) fn encode(slot: &[u8], (log, offset): (LogId, Offset)) -> [u8; CLOSING_SIZE] {
    let mut bytes = [0; CLOSING_SIZE];
    slice_mut(&mut bytes, MAGIC).copy_from_slice(MAGIC_BYTES);
    put(&mut bytes, CRC, u64::from(checksum(slot, (log, offset))));
    bytes
}

/// Whether a clean close wrote `slot`, at the start of `sector`. A later write of the slot may
/// leave the mark as it is, even with the same sequence number, if the slot was damaged before.
pub(crate) fn is_in(sector: &[u8], slot: &[u8], (log, offset): (LogId, Offset)) -> bool {
    let bytes = sector.get(CLOSING_AT..).and_then(|rest| rest.first_chunk::<CLOSING_SIZE>());
    bytes.is_some_and(|bytes| {
        slice(bytes, MAGIC) == MAGIC_BYTES && get_u32(bytes, CRC) == checksum(slot, (log, offset))
    })
}

fn checksum(slot: &[u8], (log, offset): (LogId, Offset)) -> u32 {
    let place = offset.plus(to_u64(CLOSING_AT));
    Salt::of_log(log).checksum(place, &[slot, MAGIC_BYTES].concat())
}
