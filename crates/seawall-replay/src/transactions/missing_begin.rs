//! Why a committed transaction has no begin among the records that a replay reads.

use crate::error::Error;
use crate::operation::TxId;
use crate::record_summary::RecordSummary;
use crate::source::Source;
use seawall::damage::Lost;
use seawall::{Lsn, Result};

/// Replaces [`Error::NeverBegan`] if a repair gave up records before the first one that was read,
/// and the begin may be among them.
pub(crate) fn explained(source: &dyn Source, error: Error) -> Error {
    let Error::NeverBegan { lsn, tx, from } = error else { return error };
    match given_up_before(source, (from, tx)) {
        Ok(lost) if !lost.is_empty() => Error::Incomplete { lsn, tx, lost },
        // If earlier records cannot be read, nothing is known of them.
        _ => error,
    }
}

/// Returns the records before `end` that a repair gave up; none if transaction `tx` is open at the
/// end of the others.
fn given_up_before(source: &dyn Source, (end, tx): (Lsn, TxId)) -> Result<Vec<Lost>> {
    let mut next = source.oldest()?;
    let (mut lost, mut is_open) = (vec![], false);
    for entry in source.summaries(next)? {
        let (lsn, summary) = entry?;
        if let Some(to) = lsn.min(end).previous().filter(|to| next <= *to) {
            lost.push(Lost::new(next, Some(to)));
        }
        if lsn >= end {
            break;
        }
        next = lsn.next();
        is_open = match summary {
            Some(RecordSummary::Begin(other)) if other == tx => true,
            Some(RecordSummary::Commit(other) | RecordSummary::Abort(other)) if other == tx => {
                false
            }
            _ => is_open,
        };
    }
    Ok(if is_open { vec![] } else { lost })
}
