//! Removes the rows of dropped tables in steps.

use crate::engine::Engine;
use crate::key::{TableId, behind};
use seawall_replay::StoreError;

/// Rows per batch: enough to make a batch cheap, and few enough to keep the longest keys in memory.
const ROWS_AT_ONCE: usize = 256;

/// Removes all rows of a table, then its garbage entry. If the process is killed in between, the
/// next sweep continues with the remaining rows.
pub(crate) fn sweep(engine: &impl Engine, id: TableId) -> Result<(), StoreError> {
    let mut last = None;
    loop {
        // Start after the removed rows: the database would otherwise scan them again.
        let rows = engine.scan(behind(last.take(), id.prefix()))?.take(ROWS_AT_ONCE);
        let keys = rows.map(|row| row.map(|(key, _)| key)).collect::<Result<Vec<_>, _>>()?;
        engine.write(keys.len(), |edits| {
            if keys.is_empty() {
                return edits.remove(&id.garbage());
            }
            keys.iter().try_for_each(|key| edits.remove(key))
        })?;
        last = keys.into_iter().last();
        if last.is_none() {
            return Ok(());
        }
    }
}
