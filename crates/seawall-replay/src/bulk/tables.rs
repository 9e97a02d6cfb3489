//! The tables of collected changes, numbered in order of appearance.

use crate::store::Ingest;
use crate::store::write::is_same;
use std::collections::BTreeMap;

/// The names and numbers of tables, and the common prefix of each table's keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    numbers: BTreeMap<String, u32>,
    tables: Vec<Table>,
}

#[derive(Clone, Debug)]
struct Table {
    name: String,
    /// The common prefix of its keys.
    common: Vec<u8>,
}

impl Tables {
    /// Returns the number of the row's table. `guess` is the number of the previous row's table,
    /// which is often the same. `None` if the row must be [added](Self::add): the table is new, or
    /// the key does not have the table's common prefix.
    pub(crate) fn find(&self, guess: u32, (name, key): (&str, &[u8])) -> Option<u32> {
        let (number, table) = match self.table(guess) {
            Some(table) if is_same(&table.name, name) => (guess, table),
            _ => {
                let number = *self.numbers.get(name)?;
                (number, self.table(number)?)
            }
        };
        key.starts_with(&table.common).then_some(number)
    }

    /// Adds a row, and returns the number of its table.
    pub(crate) fn add(&mut self, (name, key): (&str, &[u8])) -> u32 {
        let next = u32::try_from(self.tables.len()).expect("each takes more than a byte");
        let number = *self.numbers.entry(name.to_owned()).or_insert(next);
        match self.tables.get_mut(index(number)) {
            Some(table) => {
                let same = table.common.iter().zip(key).take_while(|(one, other)| one == other);
                let size = same.count();
                table.common.truncate(size);
            }
            None => self.tables.push(Table { name: name.to_owned(), common: key.to_vec() }),
        }
        number
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        self.table(number).map_or("", |table| &table.name)
    }

    /// Returns the eight bytes of a key that follow the common prefix of its table's keys, as a
    /// number. A lower number means a lower key.
    pub(crate) fn head(&self, number: u32, key: &[u8]) -> u64 {
        let common = self.table(number).map_or(0, |table| table.common.len());
        let key = key.get(common..).unwrap_or_default();
        if let Some(eight) = key.first_chunk() {
            return u64::from_le_bytes(*eight).swap_bytes();
        }
        let bytes = key.iter().copied().chain(std::iter::repeat(0));
        bytes.take(8).fold(0, |head, byte| (head << 8) | u64::from(byte))
    }

    /// Returns the numbers of all tables, sorted by name.
    pub(crate) fn by_name(&self) -> Vec<u32> {
        self.numbers.values().copied().collect()
    }

    /// Returns the numbers of all tables, in the order in which the store ingests them.
    pub(crate) fn in_order_of(&self, ingest: &dyn Ingest) -> Vec<u32> {
        let mut names: Vec<String> = self.numbers.keys().cloned().collect();
        ingest.sort_tables(&mut names);
        names.iter().filter_map(|name| self.numbers.get(name).copied()).collect()
    }

    fn table(&self, number: u32) -> Option<&Table> {
        self.tables.get(index(number))
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_keep_their_numbers() {
        let mut tables = Tables::default();
        let numbers = ["b", "a", "a", "b"].map(|name| tables.add((name, b"key")));
        assert_eq!(numbers, [0, 1, 1, 0]);
        for guess in [0, 1, 2] {
            let found = ["b", "a", "c"].map(|name| tables.find(guess, (name, b"key")));
            assert_eq!(found, [Some(0), Some(1), None]);
        }
        assert_eq!(tables.find(0, ("b", b"ke")), None, "its common prefix is longer");
        assert_eq!((tables.name(0), tables.name(1)), ("b", "a"));
        assert_eq!(tables.by_name(), [1, 0]);
    }

    #[test]
    fn heads_begin_after_the_common_prefix() {
        let mut tables = Tables::default();
        for key in [&b"key-12345678"[..], b"key-2", b"key-"] {
            tables.add(("", key));
        }
        let heads = [&b"key-12345678"[..], b"key-2", b"key-"].map(|key| tables.head(0, key));
        assert_eq!(heads, [0x3132_3334_3536_3738, 0x32 << 56, 0]);
    }
}
