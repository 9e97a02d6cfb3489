//! What replay asks of a store: atomic batches that hold how far it has come.

use seawall::Lsn;
use std::fmt;

/// A store that a log is replayed into.
///
/// It promises two things. A batch is applied whole or not at all, its [watermarks](Watermark)
/// included, whoever is killed when; what is lost in a crash are the newest batches, never one from
/// between. And [`flush`](Store::flush) returns when all of them survive a power cut.
///
/// With a watermark that is written beside the batch, or in a part of the store that is not atomic
/// with it, replay is *not* exactly-once.
///
/// Stores for one thread need no more than the four calls. One that takes batches from several
/// threads at once says so by [`lanes_max`](Store::lanes_max). Writes come sorted by table and key
/// within each batch, but for those that create or drop a table.
pub trait Store: Send + Sync {
    /// The watermarks that were written last, in the order of their lanes; none in a new store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn watermarks(&self) -> Result<Vec<Watermark>, StoreError>;

    /// What `key` has in `table`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`]. A table that is not there has no keys.
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Applies a batch, its writes in their order, and its watermarks: all, or nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for a write that cannot be: a row of a table that is not there, a
    /// table that is there already.
    fn write(&self, batch: &Batch) -> Result<(), StoreError>;

    /// Returns when every batch survives a power cut. The log may then be truncated up to what the
    /// watermarks still need.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`].
    fn flush(&self) -> Result<(), StoreError>;

    /// How many threads may call [`write`](Store::write) at once and gain by it.
    fn lanes_max(&self) -> usize {
        1
    }
}

/// Why a store did not do as told.
#[derive(Debug)]
pub enum StoreError {
    /// One of the writes cannot be done.
    Refused {
        /// The record that asks for it.
        lsn: Lsn,
        /// What it asks for.
        change: String,
        /// Why it cannot be.
        why: String,
    },
    /// The store failed, whatever it was given.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// The store failed because of `error`.
    pub fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }

    /// `write` cannot be done.
    pub fn refused(write: &Write, why: impl Into<String>) -> Self {
        Self::Refused { lsn: write.lsn, change: write.to_string(), why: why.into() }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { lsn, change, why } => write!(f, "LSN {lsn}: {change}: {why}"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StoreError {}

/// What a store applies at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What to write, in this order. No key has two writes, unless a table was created or dropped
    /// between them.
    pub writes: Vec<Write>,
    /// The watermarks to write with it: lane, and how far it has come.
    pub watermarks: Vec<(u32, Watermark)>,
}

/// One write to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The record that asks for it; of several writes to one key the last.
    pub lsn: Lsn,
    /// The table; the one without a name is always there.
    pub table: String,
    /// What to do in it.
    pub edit: Edit,
}

/// What a write does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The key is no longer there; it may never have been.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// The table comes to be, empty; it was not there.
    Create {
        /// What the catalog says of it.
        definition: Vec<u8>,
    },
    /// The table, which was there, and its rows go.
    Drop,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.clone();
        match &self.edit {
            Edit::Put { key, .. } => crate::Change::put(table, key.as_slice(), ""),
            Edit::Delete { key } => crate::Change::delete(table, key.as_slice()),
            Edit::Create { .. } => crate::Change::create_table(table, ""),
            Edit::Drop => crate::Change::drop_table(table),
        }
        .fmt(f)
    }
}

/// How far one lane of a replay has come in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The commit of the last transaction whose changes it has applied, those of its keys.
    pub applied: Option<Lsn>,
    /// Where reading begins to go on from there: no transaction that is committed later began
    /// before.
    pub restart: Lsn,
    /// How many lanes the keys were dealt out to.
    pub lanes: u32,
}

/// How keys are dealt out to lanes; stands in each watermark, as another way would tear keys.
const DEAL: u32 = 1;

impl Watermark {
    /// Bytes of a watermark in a store.
    pub const SIZE: usize = 24;

    /// As a store keeps it, little-endian: applied (8 bytes, 0 for none), restart (8), lanes (4),
    /// the way in which keys are dealt out to them (4).
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let fields = self.applied.map_or(0, Lsn::get).to_le_bytes().into_iter();
        let fields = fields.chain(self.restart.get().to_le_bytes());
        let fields = fields.chain(self.lanes.to_le_bytes()).chain(DEAL.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        bytes
    }

    /// The watermark that a store has kept.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if these bytes are none, or of a release that deals keys out in
    /// another way.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let wrong = || StoreError::failed(format!("{bytes:02x?} is no watermark"));
        let field = |at: usize, size: usize| {
            let mut field = [0; 8];
            let found = bytes.get(at..at + size).ok_or_else(wrong)?;
            field.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
            Ok(u64::from_le_bytes(field))
        };
        if bytes.len() != Self::SIZE || field(20, 4)? != u64::from(DEAL) {
            return Err(wrong());
        }
        let lanes = u32::try_from(field(16, 4)?).map_err(|_| wrong())?;
        let restart = Lsn::new(field(8, 8)?).ok_or_else(wrong)?;
        Ok(Self { applied: Lsn::new(field(0, 8)?), restart, lanes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_is_read_back_and_nothing_else_passes_for_one() {
        let lsn = |number| Lsn::new(number).unwrap();
        let mark = Watermark { applied: Some(lsn(1 << 40)), restart: lsn(77), lanes: 4 };
        assert_eq!(Watermark::from_bytes(&mark.to_bytes()).unwrap(), mark);
        let none = Watermark { applied: None, ..mark };
        assert_eq!(Watermark::from_bytes(&none.to_bytes()).unwrap(), none);
        let bytes = mark.to_bytes();
        Watermark::from_bytes(&bytes[..23]).unwrap_err();
        Watermark::from_bytes(&[0; 24]).unwrap_err();
        let mut other = bytes;
        other[20] = 2;
        Watermark::from_bytes(&other).unwrap_err();
    }
}
