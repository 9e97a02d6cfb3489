//! A record's effect on its transaction: all that the first pass needs.

use crate::operation::{Operation, TxId};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An [`Operation`] without its keys and values.
///
/// Decoded from the same bytes, but skips keys and values. Because these are not checked, a record
/// can decode as a `RecordSummary` and still not as an [`Operation`].
///
/// # Examples
///
/// ```
/// use seawall_replay::{RecordSummary, TxId};
///
/// let text = r#"{"change":[7,{"put":{"table":"t","key":"k","value":"v"}}]}"#;
/// assert_eq!(serde_json::from_str::<RecordSummary>(text)?, RecordSummary::Change(TxId(7)));
/// let text = r#"{"atomic":[{"delete":{"table":"t","key":"k"}}]}"#;
/// assert_eq!(serde_json::from_str::<RecordSummary>(text)?, RecordSummary::Atomic(1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Stored")]
pub enum RecordSummary {
    /// A transaction begins.
    Begin(TxId),
    /// A change of a transaction.
    Change(TxId),
    /// A transaction is committed.
    Commit(TxId),
    /// A transaction is aborted.
    Abort(TxId),
    /// A whole transaction with this number of changes.
    Atomic(u64),
}

/// The stored form of an [`Operation`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Begin(TxId),
    Change(TxId, IgnoredAny),
    Commit(TxId),
    Abort(TxId),
    // A list of zero-sized elements takes no memory.
    Atomic(Vec<IgnoredAny>),
}

impl From<Stored> for RecordSummary {
    fn from(stored: Stored) -> Self {
        match stored {
            Stored::Begin(tx) => Self::Begin(tx),
            Stored::Change(tx, IgnoredAny) => Self::Change(tx),
            Stored::Commit(tx) => Self::Commit(tx),
            Stored::Abort(tx) => Self::Abort(tx),
            Stored::Atomic(changes) => Self::Atomic(count(changes.len())),
        }
    }
}

impl From<&Operation> for RecordSummary {
    fn from(operation: &Operation) -> Self {
        match operation {
            Operation::Begin(tx) => Self::Begin(*tx),
            Operation::Change(tx, _) => Self::Change(*tx),
            Operation::Commit(tx) => Self::Commit(*tx),
            Operation::Abort(tx) => Self::Abort(*tx),
            Operation::Atomic(changes) => Self::Atomic(count(changes.len())),
        }
    }
}

fn count(changes: usize) -> u64 {
    u64::try_from(changes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Change;
    use seawall_testkit::{Dice, each_seed};

    fn change(dice: &mut Dice) -> Change {
        let table = if dice.one_in(2) { "" } else { ["a", "m", "z"][dice.index(3)] };
        match dice.below(5) {
            0 => Change::put(table, dice.bytes(5), dice.bytes(5)),
            1 => Change::delete(table, dice.bytes(5)),
            2 => Change::merge("t", dice.bytes(5), ("add", dice.bytes(5))),
            3 => Change::create_table("t", dice.bytes(5)),
            _ => Change::drop_table("t"),
        }
    }

    fn operation(dice: &mut Dice) -> Operation {
        let tx = TxId(dice.any());
        match dice.below(5) {
            0 => Operation::Begin(tx),
            1 => Operation::Change(tx, change(dice)),
            2 => Operation::Commit(tx),
            3 => Operation::Abort(tx),
            _ => {
                let count = dice.index(4);
                Operation::Atomic(dice.many(count, change))
            }
        }
    }

    /// Corrupted bytes are tested too: if they decode as an operation, the summary must agree.
    #[test]
    fn every_operation_decodes_as_its_summary() {
        each_seed(1000, |dice| {
            let (operation, is_json) = (operation(dice), dice.one_in(2));
            let mut bytes = if is_json {
                serde_json::to_vec(&operation).unwrap()
            } else {
                rmp_serde::to_vec_named(&operation).unwrap()
            };
            for _ in 0..dice.below(3) {
                let at = dice.index(bytes.len());
                bytes[at] = dice.byte();
            }
            let (read, outline): (Option<Operation>, Option<RecordSummary>) = if is_json {
                (serde_json::from_slice(&bytes).ok(), serde_json::from_slice(&bytes).ok())
            } else {
                (rmp_serde::from_slice(&bytes).ok(), rmp_serde::from_slice(&bytes).ok())
            };
            if let Some(read) = read {
                assert_eq!(outline, Some(RecordSummary::from(&read)));
            }
        });
    }
}
