//! Removing the rows of a table that was dropped, some at a time.

use crate::key::{TableId, behind};
use fjall::{Database, Keyspace};

/// Rows that are removed at once; more than enough to make a batch cheap, few enough to be kept in
/// memory with the longest keys.
const ROWS_AT_ONCE: usize = 256;

pub(crate) struct Sweep<'a> {
    pub(crate) database: &'a Database,
    pub(crate) keyspace: &'a Keyspace,
}

impl Sweep<'_> {
    /// Removes all rows of the table, then what says that they are garbage. Where it is killed in
    /// between, the next one begins again, and finds what is left.
    pub(crate) fn remove(&self, id: TableId) -> fjall::Result<()> {
        let mut last = None;
        loop {
            let mut batch = self.database.batch();
            // Behind what is removed already: fjall would walk over it again.
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
