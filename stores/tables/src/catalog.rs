//! The tables of a store, and the effect of a batch, computed before anything is changed.

use crate::engine::Engine;
use crate::key::{ID_SIZE, NAME_MAX, ROW_KEY_MAX, TableId};
use seawall_replay::{Batch, Edit, NewRow, StoreError, Write};
use std::collections::{BTreeMap, BTreeSet};

/// The tables of the store, and the ids of dropped tables whose rows remain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<String, Table>,
    pub(crate) garbage: BTreeSet<TableId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) definition: Vec<u8>,
}

/// The effect of a batch: one write for each key of the database.
#[derive(Debug, Default)]
pub(crate) struct Prepared<'a> {
    /// One entry per table and key; `None` means deleted.
    pub(crate) rows: Vec<Row<'a>>,
    /// Tables that were created or dropped.
    pub(crate) tables: BTreeMap<&'a str, Option<Table>>,
    /// Existing tables that were dropped.
    pub(crate) garbage: BTreeSet<TableId>,
    /// Tables that were created, including those dropped again.
    created: BTreeSet<TableId>,
}

/// A row of a table and its new value.
pub(crate) type Row<'a> = ((TableId, &'a [u8]), Option<&'a [u8]>);

impl Catalog {
    /// The id of a table, if it exists.
    pub(crate) fn id(&self, table: &str) -> Option<TableId> {
        if table.is_empty() {
            return Some(TableId::UNNAMED);
        }
        self.tables.get(table).map(|table| table.id)
    }

    /// Computes the effect of `batch`, or the reason why it is invalid.
    pub(crate) fn prepare<'a, E: Engine>(
        &self,
        batch: &'a Batch,
    ) -> Result<Prepared<'a>, StoreError> {
        let mut prepared = Prepared::default();
        for write in &batch.writes {
            check_sizes::<E>(write)?;
            let id = match prepared.tables.get(write.table.as_str()) {
                Some(table) => table.as_ref().map(|table| table.id),
                None => self.id(&write.table),
            };
            match (&write.edit, id) {
                (Edit::Create { .. }, Some(_)) => {
                    return Err(StoreError::refused(write, "the table already exists"));
                }
                (Edit::Create { definition }, None) => {
                    let id = self.free_id(write, &prepared);
                    prepared.create(&write.table, Table { id, definition: definition.clone() });
                }
                (_, None) => return Err(StoreError::refused(write, "no such table")),
                (Edit::Drop, Some(TableId::UNNAMED)) => {
                    let why = "the table with the empty name always exists";
                    return Err(StoreError::refused(write, why));
                }
                (Edit::Drop, Some(id)) => prepared.remove(&write.table, id),
                (Edit::Put { key, value }, Some(id)) => {
                    prepared.rows.push(((id, key), Some(value)));
                }
                (Edit::Delete { key }, Some(id)) => prepared.rows.push(((id, key), None)),
            }
        }
        if !prepared.tables.is_empty() {
            // A key can have two writes if its table was created or dropped in between: the last
            // one counts.
            let rows: BTreeMap<_, _> = prepared.rows.drain(..).collect();
            prepared.rows = rows.into_iter().collect();
        }
        Ok(prepared)
    }

    /// Applies `prepared`, after it was written.
    pub(crate) fn apply(&mut self, prepared: Prepared<'_>) {
        self.garbage.extend(prepared.garbage);
        for (name, table) in prepared.tables {
            match table {
                Some(table) => drop(self.tables.insert(name.to_owned(), table)),
                None => drop(self.tables.remove(name)),
            }
        }
    }

    /// Returns the LSN as an id, or the next id that no table with remaining rows uses: one record
    /// can create several tables.
    fn free_id(&self, write: &Write, prepared: &Prepared<'_>) -> TableId {
        let is_taken = |id: &TableId| {
            self.garbage.contains(id)
                || prepared.created.contains(id)
                || self.tables.values().any(|table| table.id == *id)
        };
        let ids = (write.lsn.get()..).map(TableId);
        ids.into_iter().find(|id| !is_taken(id)).expect("fewer tables than numbers")
    }
}

impl<'a> Prepared<'a> {
    fn create(&mut self, name: &'a str, table: Table) {
        self.created.insert(table.id);
        self.tables.insert(name, Some(table));
    }

    fn remove(&mut self, name: &'a str, id: TableId) {
        self.rows.retain(|((table, _), _)| *table != id);
        if !self.created.contains(&id) {
            self.garbage.insert(id);
        }
        self.tables.insert(name, None);
    }
}

/// Checks the sizes of a write: some databases panic for longer keys and values.
pub(crate) fn check_sizes<E: Engine>(write: &Write) -> Result<(), StoreError> {
    let why = match &write.edit {
        Edit::Put { .. } | Edit::Delete { .. } => {
            return NewRow::of(write).map_or(Ok(()), |row| check_row_sizes::<E>(&row));
        }
        Edit::Create { definition } => {
            too_long::<E>(("the definition", definition.len(), E::VALUE_MAX - ID_SIZE))
        }
        Edit::Drop => None,
    };
    let why = too_long::<E>(("the table's name", write.table.len(), NAME_MAX)).or(why);
    why.map_or(Ok(()), |why| Err(StoreError::refused(write, why)))
}

/// Checks the sizes of a row.
pub(crate) fn check_row_sizes<E: Engine>(row: &NewRow<'_>) -> Result<(), StoreError> {
    let value = row.value.map_or(0, <[u8]>::len);
    let why = too_long::<E>(("the table's name", row.table.len(), NAME_MAX))
        .or_else(|| too_long::<E>(("the key", row.key.len(), ROW_KEY_MAX)))
        .or_else(|| too_long::<E>(("the value", value, E::VALUE_MAX - ID_SIZE)));
    why.map_or(Ok(()), |why| Err(StoreError::refused(&row.to_write(), why)))
}

fn too_long<E: Engine>((what, size, max): (&str, usize, usize)) -> Option<String> {
    (size > max).then(|| format!("{what} has {size} bytes, and {} takes {max}", E::NAME))
}

/// Returns whether `batch` creates or drops tables.
pub(crate) fn has_tables(batch: &Batch) -> bool {
    batch.writes.iter().any(|write| matches!(write.edit, Edit::Create { .. } | Edit::Drop))
}
