//! Judges the chunks of a compressed or encrypted body that did not reach the device whole.
//! format.md sections 3.6, 3.7 and 7.

use crate::binary::batch::{BatchHeader, HEADER_SIZE, Life};
use crate::binary::chunk::{self, Left};
use crate::ids::{Offset, to_u64};

/// Whether the prefix and all chunks of the batch at `offset` are valid, except where a sector
/// under them was not written. `has_untouched_sector` tells that for a range of bytes of the batch.
pub(super) fn written_chunks_are_valid(
    header: &BatchHeader,
    body: &[u8],
    (offset, life): (Offset, &Life),
    has_untouched_sector: impl Fn(usize, usize) -> bool,
) -> bool {
    let Some(form) = header.kind.form() else { return false };
    let prefix = form.prefix_size();
    if has_untouched_sector(HEADER_SIZE, HEADER_SIZE + prefix) {
        return true;
    }
    let Some(plain) = form.plain_of(body, life.batch_max) else { return false };
    let (mut position, mut left) =
        (prefix, Left::new((header.first, header.records_in_chunks()), plain));
    while left.has_records() {
        let start = HEADER_SIZE + position;
        if has_untouched_sector(start, start + form.header_size()) {
            return true;
        }
        let Some((chunk, end)) = chunk::read(form, body, position) else { return false };
        let at = offset.plus(to_u64(start));
        let is_written = !has_untouched_sector(start, HEADER_SIZE + end);
        if !left.take(&chunk.fields) || (is_written && !chunk.is_valid(at, &life.salt)) {
            return false;
        }
        position = end;
    }
    left.is_none()
}
