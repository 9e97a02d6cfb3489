//! What a record does to its transaction: all that the first pass asks for.

use crate::{Operation, TxId};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// An [`Operation`] without its keys and values.
///
/// It is read from the same bytes, and what it does not hold is passed over. So a record that is
/// one may still be none of the other: what its keys and values are is not looked at.
///
/// # Examples
///
/// ```
/// use seawall_replay::{Outline, TxId};
///
/// let text = r#"{"change":[7,{"put":{"table":"t","key":"k","value":"v"}}]}"#;
/// assert_eq!(serde_json::from_str::<Outline>(text)?, Outline::Change(TxId(7)));
/// let text = r#"{"atomic":[{"delete":{"table":"t","key":"k"}}]}"#;
/// assert_eq!(serde_json::from_str::<Outline>(text)?, Outline::Atomic(1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Stored")]
pub enum Outline {
    /// A transaction begins.
    Begin(TxId),
    /// A change of it.
    Change(TxId),
    /// It is committed.
    Commit(TxId),
    /// It is aborted.
    Abort(TxId),
    /// A whole transaction of so many changes.
    Atomic(u64),
}

/// As it is stored: [`Operation`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Begin(TxId),
    Change(TxId, IgnoredAny),
    Commit(TxId),
    Abort(TxId),
    // A list of nothing takes no memory.
    Atomic(Vec<IgnoredAny>),
}

impl From<Stored> for Outline {
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

impl From<&Operation> for Outline {
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
    use crate::Change;
    use proptest::prelude::*;

    fn operations() -> impl Strategy<Value = Operation> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..5);
        let change = prop_oneof![
            ("[a-z]?", bytes(), bytes())
                .prop_map(|(table, key, value)| Change::put(table, key, value)),
            ("[a-z]?", bytes()).prop_map(|(table, key)| Change::delete(table, key)),
            (bytes(), bytes()).prop_map(|(key, with)| Change::merge("t", key, ("add", with))),
            bytes().prop_map(|definition| Change::create_table("t", definition)),
            Just(Change::drop_table("t")),
        ];
        let tx = || any::<u64>().prop_map(TxId);
        prop_oneof![
            tx().prop_map(Operation::Begin),
            (tx(), change.clone()).prop_map(|(tx, change)| Operation::Change(tx, change)),
            tx().prop_map(Operation::Commit),
            tx().prop_map(Operation::Abort),
            prop::collection::vec(change, 0..4).prop_map(Operation::Atomic),
        ]
    }

    proptest! {
        /// Also where bytes of it were exchanged: the first pass may see less, and nothing else.
        #[test]
        fn what_is_an_operation_has_its_outline(
            operation in operations(),
            is_json in any::<bool>(),
            exchanged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut bytes = if is_json {
                serde_json::to_vec(&operation).unwrap()
            } else {
                rmp_serde::to_vec_named(&operation).unwrap()
            };
            for (at, byte) in exchanged {
                *at.get_mut(&mut bytes) = byte;
            }
            let (read, outline): (Option<Operation>, Option<Outline>) = if is_json {
                (serde_json::from_slice(&bytes).ok(), serde_json::from_slice(&bytes).ok())
            } else {
                (rmp_serde::from_slice(&bytes).ok(), rmp_serde::from_slice(&bytes).ok())
            };
            if let Some(read) = read {
                prop_assert_eq!(outline, Some(Outline::from(&read)));
            }
        }
    }
}
