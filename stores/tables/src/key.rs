//! The encoding of keys and values, as described in the crate documentation.

use crate::engine::Range;
use std::ops::Bound;

/// The version of the layout.
pub(crate) const FORMAT: [u8; 1] = [1];
/// The key of the version.
pub(crate) const FORMAT_KEY: [u8; 1] = [0];

pub(crate) const CATALOG: [u8; 1] = [2];
pub(crate) const WATERMARKS: [u8; 1] = [3];
pub(crate) const GARBAGE: [u8; 1] = [4];
const ROWS: u8 = 1;

/// The size of the prefix before a row's key.
pub(crate) const ROW_PREFIX: usize = 9;
/// The longest key that fjall accepts. All stores have this limit, so a log that fits one store
/// fits all.
const KEY_MAX: usize = 65_535;
pub(crate) const ROW_KEY_MAX: usize = KEY_MAX - ROW_PREFIX;
pub(crate) const NAME_MAX: usize = KEY_MAX - CATALOG.len();
/// The size of the table id before a definition.
pub(crate) const ID_SIZE: usize = 8;

/// The id of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(pub(crate) u64);

impl TableId {
    /// The table without a name.
    pub(crate) const UNNAMED: Self = Self(0);

    /// Returns the prefix of the keys of all rows of the table.
    pub(crate) fn prefix(self) -> Vec<u8> {
        self.row(&[])
    }

    pub(crate) fn row(self, key: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ROW_PREFIX + key.len());
        self.write_row(key, &mut bytes);
        bytes
    }

    /// Replaces `bytes` with the key of a row. The buffer is reused for all rows of a batch.
    pub(crate) fn write_row(self, key: &[u8], bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.push(ROWS);
        bytes.extend_from_slice(&self.0.to_be_bytes());
        bytes.extend_from_slice(key);
    }

    pub(crate) fn garbage(self) -> Vec<u8> {
        [&GARBAGE[..], &self.0.to_be_bytes()].concat()
    }

    /// Decodes an id from the catalog or a garbage key. Returns it with the remaining bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (id, rest) = bytes.split_first_chunk()?;
        Some((Self(u64::from_be_bytes(*id)), rest))
    }
}

pub(crate) fn catalog(name: &str) -> Vec<u8> {
    [&CATALOG[..], name.as_bytes()].concat()
}

pub(crate) fn catalog_entry(id: TableId, definition: &[u8]) -> Vec<u8> {
    [&id.0.to_be_bytes()[..], definition].concat()
}

pub(crate) fn watermark(partition: u32) -> Vec<u8> {
    [&WATERMARKS[..], &partition.to_be_bytes()].concat()
}

/// Returns the range of keys with this prefix, after `last` if given.
pub(crate) fn behind(last: Option<Vec<u8>>, prefix: Vec<u8>) -> Range {
    let mut end = prefix.clone();
    // The first byte of every kind is small, so a next prefix of the same length exists.
    while end.last() == Some(&0xff) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (last.map_or(Bound::Included(prefix), Bound::Excluded), Bound::Excluded(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeBounds;

    #[test]
    fn tables_have_disjoint_keys() {
        for id in [0, 1, 254, 255, 256, 0xffff, u64::MAX - 1, u64::MAX] {
            let table = TableId(id);
            let range = behind(None, table.prefix());
            for key in [&b""[..], &[0], &[0xff; 300]] {
                assert!(range.contains(&table.row(key)), "{id}");
                for other in [id.wrapping_add(1), id.wrapping_sub(1)] {
                    assert!(!range.contains(&TableId(other).row(key)), "{id}, {other}");
                }
            }
            assert!(!range.contains(&catalog("")) && !range.contains(&FORMAT_KEY.to_vec()));
            let range = behind(Some(table.row(b"k")), table.prefix());
            assert!(!range.contains(&table.row(b"k")) && range.contains(&table.row(b"k\0")));
        }
    }
}
