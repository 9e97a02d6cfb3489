//! The content of an operation log: changes to tables, and the transactions they belong to.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The number of a transaction, chosen by the program that logs it.
///
/// A number identifies one transaction from its begin to its commit or abort, and can be reused
/// afterwards. A second begin with the same number leaves the first transaction unfinished, so a
/// program may restart numbering at one after a crash.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct TxId(pub u64);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One record of an operation log.
///
/// In JSON: `{"begin":7}`, `{"change":[7,{"put":{"table":"t","key":"k","value":"v"}}]}`,
/// `{"commit":7}`, `{"abort":7}`, `{"atomic":[{"delete":{"table":"t","key":"k"}}]}`. Keys and
/// values are bytes. In JSON they are text if they are valid UTF-8, otherwise a list of numbers.
///
/// Open the log with [`seawall::versioned::Upgraded`] to store the type's name and schema number in
/// it.
///
/// # Examples
///
/// ```
/// use seawall_replay::{Change, Operation};
///
/// let text = r#"{"atomic":[{"put":{"table":"quake","key":"us1000","value":"5.3"}}]}"#;
/// let operation: Operation = serde_json::from_str(text)?;
/// assert_eq!(operation, Change::put("quake", "us1000", "5.3").into());
/// assert_eq!(serde_json::to_string(&operation)?, text);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operation {
    /// A transaction begins.
    Begin(TxId),
    /// A change that takes effect if its transaction is committed.
    Change(TxId, Change),
    /// The transaction's changes take effect.
    Commit(TxId),
    /// The transaction's changes are discarded.
    Abort(TxId),
    /// A whole transaction in one record. It needs no number and cannot be left unfinished.
    Atomic(Vec<Change>),
}

/// The first schema, so there is nothing to upgrade from.
impl seawall::versioned::Versioned for Operation {
    const NAME: &'static str = "operation";
    const SCHEMA: u32 = 1;

    fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, seawall::CodecError> {
        match schema {
            // A log created without a schema number.
            0 => <seawall::MessagePack as seawall::Codec<Self>>::decode(payload),
            other => Err(format!("unknown schema {other} of operations").into()),
        }
    }
}

impl From<Change> for Operation {
    fn from(change: Change) -> Self {
        Self::Atomic(vec![change])
    }
}

/// One change to a store.
///
/// Keys are chosen when a change is logged: replay assigns no numbers, so every replay gives the
/// same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// Sets the value of a key, whether it exists (an update) or not (an insert).
    #[serde(alias = "insert", alias = "update")]
    Put {
        /// The table. The table with the empty name always exists.
        table: String,
        /// The key.
        #[serde(with = "bytes")]
        key: Vec<u8>,
        /// The complete value.
        #[serde(with = "bytes")]
        value: Vec<u8>,
    },
    /// Removes a key. A missing key is not an error.
    Delete {
        /// The table.
        table: String,
        /// The key.
        #[serde(with = "bytes")]
        key: Vec<u8>,
    },
    /// Computes the new value of a key from its old value and `operand`, with a registered operator
    /// ([`Operators`](crate::Operators)).
    Merge {
        /// The table.
        table: String,
        /// The key.
        #[serde(with = "bytes")]
        key: Vec<u8>,
        /// The operator's name.
        operator: String,
        /// The operand.
        #[serde(with = "bytes")]
        operand: Vec<u8>,
    },
    /// Creates an empty table.
    CreateTable {
        /// The table's name.
        table: String,
        /// The table's description in the catalog, in the program's own format.
        #[serde(with = "bytes", default)]
        definition: Vec<u8>,
    },
    /// Drops a table and all its rows.
    DropTable {
        /// The table's name.
        table: String,
    },
}

impl Change {
    /// Inserts a row or replaces it.
    pub fn put(
        table: impl Into<String>,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) -> Self {
        Self::Put { table: table.into(), key: key.into(), value: value.into() }
    }

    /// Removes a row.
    pub fn delete(table: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        Self::Delete { table: table.into(), key: key.into() }
    }

    /// Changes a row with a registered operator.
    pub fn merge(
        table: impl Into<String>,
        key: impl Into<Vec<u8>>,
        (operator, operand): (impl Into<String>, impl Into<Vec<u8>>),
    ) -> Self {
        let (operator, operand) = (operator.into(), operand.into());
        Self::Merge { table: table.into(), key: key.into(), operator, operand }
    }

    /// Creates a table.
    pub fn create_table(table: impl Into<String>, definition: impl Into<Vec<u8>>) -> Self {
        Self::CreateTable { table: table.into(), definition: definition.into() }
    }

    /// Drops a table.
    pub fn drop_table(table: impl Into<String>) -> Self {
        Self::DropTable { table: table.into() }
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        match self {
            Self::Put { table, .. }
            | Self::Delete { table, .. }
            | Self::Merge { table, .. }
            | Self::CreateTable { table, .. }
            | Self::DropTable { table } => table,
        }
    }

    /// Returns the key; `None` for a change of a whole table.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } | Self::Merge { key, .. } => Some(key),
            Self::CreateTable { .. } | Self::DropTable { .. } => None,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let held = match self {
            Self::Put { table, key, value } => table.len() + key.len() + value.len(),
            Self::Delete { table, key } => table.len() + key.len(),
            Self::Merge { table, key, operator, operand } => {
                table.len() + key.len() + operator.len() + operand.len()
            }
            Self::CreateTable { table, definition } => table.len() + definition.len(),
            Self::DropTable { table } => table.len(),
        };
        held + size_of::<Self>()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, table) = match self {
            Self::Put { table, .. } => ("put into", table),
            Self::Delete { table, .. } => ("delete from", table),
            Self::Merge { table, .. } => ("merge into", table),
            Self::CreateTable { table, .. } => ("create", table),
            Self::DropTable { table } => ("drop", table),
        };
        write!(f, "{verb} table `{table}`")?;
        match self.key() {
            Some(key) => write!(f, ", key `{}`", Shown(key)),
            None => Ok(()),
        }
    }
}

/// The first bytes of a key, for messages.
struct Shown<'a>(&'a [u8]);

const SHOWN_MAX: usize = 40;

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN_MAX).unwrap_or(self.0);
        write!(f, "{}", shown.escape_ascii())?;
        if shown.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

/// Maps a program's own records to operations.
///
/// # Examples
///
/// ```
/// use seawall_replay::{Change, Logged, Operation};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// enum Event {
///     Paid { account: String, cents: u64 },
///     Heartbeat,
/// }
///
/// impl Logged for Event {
///     fn operation(self) -> Option<Operation> {
///         match self {
///             Self::Paid { account, cents } => {
///                 let operand = cents.to_le_bytes();
///                 Some(Change::merge("account", account, ("add", operand)).into())
///             }
///             Self::Heartbeat => None,
///         }
///     }
/// }
/// ```
pub trait Logged {
    /// Returns the operation; `None` if the record changes nothing.
    fn operation(self) -> Option<Operation>;
}

impl Logged for Operation {
    fn operation(self) -> Option<Operation> {
        Some(self)
    }
}

/// Serializes bytes as text in JSON if they are valid UTF-8.
mod bytes {
    use super::{Deserializer, Serializer, de, fmt};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(bytes) {
            Ok(text) if to.is_human_readable() => to.serialize_str(text),
            Err(_) if to.is_human_readable() => to.collect_seq(bytes),
            _ => to.serialize_bytes(bytes),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        if from.is_human_readable() {
            from.deserialize_any(Visitor)
        } else {
            from.deserialize_byte_buf(Visitor)
        }
    }

    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text, or bytes, or a list of numbers below 256")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_vec())
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = list.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::{Codec, MessagePack};

    fn all() -> Vec<Operation> {
        let odd = vec![0xff, 0, 1];
        vec![
            Operation::Begin(TxId(7)),
            Operation::Change(TxId(7), Change::put("t", odd.clone(), "text")),
            Operation::Change(TxId(7), Change::delete("", odd.clone())),
            Operation::Change(TxId(u64::MAX), Change::merge("t", "k", ("add", odd.clone()))),
            Operation::Commit(TxId(7)),
            Operation::Abort(TxId(8)),
            Operation::Atomic(vec![Change::create_table("t", odd), Change::drop_table("t")]),
            Operation::Atomic(vec![]),
        ]
    }

    #[test]
    fn every_operation_is_read_back_from_json_and_message_pack() {
        for operation in all() {
            let text = serde_json::to_string(&operation).unwrap();
            assert_eq!(serde_json::from_str::<Operation>(&text).unwrap(), operation, "{text}");
            let mut payload = Vec::new();
            <MessagePack as Codec<Operation>>::encode(&operation, &mut payload).unwrap();
            assert_eq!(<MessagePack as Codec<Operation>>::decode(&payload).unwrap(), operation);
        }
    }

    #[test]
    fn json_bytes_are_read_from_text_and_from_lists() {
        for value in [r#""ab""#, "[97,98]"] {
            let text =
                format!(r#"{{"atomic":[{{"insert":{{"table":"t","key":"k","value":{value}}}}}]}}"#);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let payload = rmp_serde::to_vec_named(&value).unwrap();
            let read = <MessagePack as Codec<Operation>>::decode(&payload).unwrap();
            assert_eq!(read, Change::put("t", "k", "ab").into());
        }
    }

    #[test]
    fn displayed_change_names_its_place_and_shortens_long_keys() {
        let shown = Change::put("t", vec![7; 100], "").to_string();
        assert!(shown.starts_with(r"put into table `t`, key `\x07"), "{shown}");
        assert!(shown.ends_with("...`"), "{shown}");
        assert_eq!(Change::drop_table("t").to_string(), "drop table `t`");
    }
}
