//! Bulk ingestion: translates sorted rows into sorted keys of the database.

use crate::Tables;
use crate::catalog::check_row_sizes;
use crate::engine::Engine;
use crate::key::TableId;
use crate::tables::put_watermarks;
use seawall_replay::{Ingest, SortedRows, StoreError, Watermark};

impl<E: Engine> Ingest for Tables<E> {
    /// Sorts by table id, as the database does. A missing table comes first, so that it is refused
    /// at once.
    fn sort_tables(&self, tables: &mut [String]) {
        let catalog = self.catalog();
        tables.sort_by_key(|table| catalog.id(table));
    }

    fn ingest(
        &self,
        rows: &mut dyn SortedRows,
        watermarks: &[(u32, Watermark)],
    ) -> Result<(), StoreError> {
        // Keep the catalog locked, so that no table is dropped meanwhile.
        let catalog = self.catalog();
        self.engine().ingest(|edits| {
            let (mut table, mut id) = (String::new(), TableId::UNNAMED);
            let mut key = Vec::new();
            while let Some(row) = rows.next_row()? {
                check_row_sizes::<E>(&row)?;
                // Comparing empty strings is slow: their pointers are dangling.
                let is_same =
                    row.table.len() == table.len() && (row.table.is_empty() || row.table == table);
                if !is_same {
                    let no_table = || StoreError::refused(&row.to_write(), "no such table");
                    id = catalog.id(row.table).ok_or_else(no_table)?;
                    row.table.clone_into(&mut table);
                }
                id.write_row(row.key, &mut key);
                match row.value {
                    Some(value) => edits.put(&key, value)?,
                    None => edits.remove(&key)?,
                }
            }
            // Watermarks have greater keys than rows.
            put_watermarks(watermarks, edits)
        })
    }
}
