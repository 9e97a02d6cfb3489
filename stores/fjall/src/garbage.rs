//! Removes the rows of dropped tables in steps.

use crate::key::{TableId, behind};
use fjall::{Database, Keyspace};

/// Rows per batch: enough to make a batch cheap, and few enough to keep the longest keys in memory.
const ROWS_AT_ONCE: usize = 256;

pub(crate) struct Sweep<'a> {
    pub(crate) database: &'a Database,
    pub(crate) keyspace: &'a Keyspace,
}

impl Sweep<'_> {
    /// Removes all rows of a table, then its garbage entry. If the process is killed in between,
    /// the next sweep continues with the remaining rows.
    pub(crate) fn remove(&self, id: TableId) -> fjall::Result<()> {
        let mut last = None;
        loop {
            let mut batch = self.database.batch();
            // Start after the removed rows, because fjall would scan them again.
            for entry in self.keyspace.range(behind(last.take(), id.prefix())).take(ROWS_AT_ONCE) {
                let key = entry.key()?;
                last = Some(key.to_vec());
                batch.remove(self.keyspace, key);
            }
            if last.is_none() {
                batch.remove(self.keyspace, id.garbage());
                return batch.commit();
            }
            batch.commit()?;
        }
    }
}
