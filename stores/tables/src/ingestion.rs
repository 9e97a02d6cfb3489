//! Bulk ingestion: translates sorted writes into sorted keys of the database.

use crate::Tables;
use crate::catalog::{Catalog, check_sizes};
use crate::engine::{Engine, NewRow};
use crate::key::{self, TableId};
use seawall_replay::{Edit, Ingest, StoreError, Watermark, Write};

impl<E: Engine> Ingest for Tables<E> {
    /// By id, as the rows of the database are. A missing table comes first: it is refused at once.
    fn sort_tables(&self, tables: &mut [String]) {
        let catalog = self.catalog();
        tables.sort_by_key(|table| catalog.id(table));
    }

    fn ingest(
        &self,
        writes: &mut dyn Iterator<Item = Result<Write, StoreError>>,
        watermarks: &[(u32, Watermark)],
    ) -> Result<(), StoreError> {
        // Keep the catalog locked, so that no table is dropped meanwhile.
        let catalog = self.catalog();
        let mut last = (String::new(), TableId::UNNAMED);
        let rows = writes.map(|write| row::<E>(&catalog, write?, &mut last));
        // Watermarks have greater keys than rows.
        let marks = watermarks.iter().map(|(partition, mark)| {
            Ok((key::watermark(*partition), Some(mark.to_bytes().to_vec())))
        });
        self.engine().ingest(&mut rows.chain(marks))
    }
}

/// The row of the database. `last` has the table of the row before.
fn row<E: Engine>(catalog: &Catalog, write: Write, last: &mut (String, TableId)) -> NewRow {
    check_sizes::<E>(&write)?;
    // Comparing empty strings is slow: their pointers are dangling.
    let is_same =
        write.table.len() == last.0.len() && (write.table.is_empty() || write.table == last.0);
    if !is_same {
        let id = catalog.id(&write.table);
        let id = id.ok_or_else(|| StoreError::refused(&write, "no such table"))?;
        *last = (write.table.clone(), id);
    }
    match write.edit {
        Edit::Put { key, value } => Ok((last.1.row(&key), Some(value))),
        Edit::Delete { key } => Ok((last.1.row(&key), None)),
        Edit::Create { .. } | Edit::Drop => {
            Err(StoreError::refused(&write, "tables are created and dropped in batches"))
        }
    }
}
