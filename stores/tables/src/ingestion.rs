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
        // No table is dropped meanwhile. The catalog itself is locked only for each look-up: the
        // next row can be a merge that reads the store, and a thread that waits to change the
        // catalog would block this second read for ever.
        let _ingesting = self.tables_stay();
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
                    id = self.catalog().id(row.table).ok_or_else(no_table)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use seawall::Lsn;
    use seawall_replay::{Batch, Edit, NewRow, Store, Write};
    use std::path::Path;

    /// Two rows, which read the store as merges do.
    struct Merges<'a> {
        store: &'a Tables<Memory>,
        left: u8,
    }

    impl SortedRows for Merges<'_> {
        fn next_row(&mut self) -> Result<Option<NewRow<'_>>, StoreError> {
            let is_free = self.store.catalog.try_write().is_ok();
            assert!(is_free, "a thread that waits to change the catalog would block the read");
            assert!(self.store.ingesting.try_lock().is_err(), "a table can be dropped meanwhile");
            self.store.get("t", b"k")?;
            let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
            self.left = left;
            let key: &[u8] = if left == 0 { b"two" } else { b"one" };
            Ok(Some(NewRow { lsn: Lsn::FIRST, table: "t", key, value: Some(b"v") }))
        }
    }

    #[test]
    fn ingested_rows_can_read_the_store_while_another_thread_waits_to_change_its_tables() {
        let store = Tables::<Memory>::open(Path::new("")).unwrap();
        let edit = Edit::Create { definition: vec![] };
        let create = Write { lsn: Lsn::FIRST, table: "t".to_owned(), edit };
        store.write(&Batch { writes: vec![create], watermarks: vec![] }).unwrap();
        store.ingest(&mut Merges { store: &store, left: 2 }, &[]).unwrap();
        assert_eq!(store.rows("t").count(), 2);
        assert!(store.ingesting.try_lock().is_ok());
    }
}
