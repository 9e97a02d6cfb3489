//! Restores a store from a Seawall log, and applies each transaction exactly once.
//!
//! A program that keeps its state in a store logs each [`Operation`] first. After a crash
//! [`Replay`] reads the log twice: once to learn which transactions were committed, and once to
//! apply those in commit order. The store writes each batch atomically *together with* the LSN of
//! the last commit in it ([`Watermark`]). So a crash at any moment neither applies a change twice
//! nor skips one.
//!
//! ```
//! use seawall::{Log, LogReader};
//! use seawall_replay::{Change, MemoryStore, Operation, Replay, Store, TxId};
//!
//! # let dir = std::env::temp_dir().join(format!("seawall-doc-replay-{}", std::process::id()));
//! let log: Log<Operation> = Log::open(&dir)?;
//! log.append(&Change::create_table("account", "cents").into())?;
//! log.append_batch(&[
//!     Operation::Begin(TxId(1)),
//!     Operation::Change(TxId(1), Change::put("account", "ada", "300")),
//!     Operation::Begin(TxId(2)),
//!     Operation::Change(TxId(2), Change::put("account", "bob", "900")),
//!     Operation::Commit(TxId(1)),
//! ])?; // the machine crashes here
//!
//! let store = MemoryStore::new();
//! let reader: LogReader<Operation> = LogReader::open(&dir)?;
//! let report = Replay::new().run(&reader, &store)?;
//! assert_eq!((report.committed, report.unfinished), (2, 1));
//! assert_eq!(store.get("account", b"ada")?, Some(b"300".to_vec()));
//! assert_eq!(store.get("account", b"bob")?, None); // never committed
//!
//! let report = Replay::new().run(&reader, &store)?;
//! assert_eq!(report.applied, 0); // a second run applies nothing
//! # drop(log); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Replay never logs what it applies: it reads the log and has no handle to append with.
//!
//! Data flow: [`Source`] yields operations, `transactions` finds the outcome of each transaction
//! and assembles the committed ones, and `apply` distributes their changes by key to partitions.
//! Each partition folds its changes into a batch of adaptive size, and the [`Store`] writes the
//! batch. If the store lacks many changes and can ingest them, `bulk` sorts all of them instead.
//! With one partition, a small log is read once: `small` keeps its records in memory, and starts no
//! thread.

#![forbid(unsafe_code)]

mod apply;
mod bulk;
mod dump;
mod error;
mod merge;
mod operation;
mod progress;
mod record_summary;
mod replay;
mod small;
mod snapshot;
mod source;
mod store;
mod transactions;

pub use crate::apply::batch_size::{BatchSize, Bounds};
pub use crate::error::{Error, Result};
pub use crate::merge::{MergeOperator, Operators};
pub use crate::operation::{Change, Logged, Operation, TxId};
pub use crate::progress::{Phase, Progress};
pub use crate::record_summary::RecordSummary;
pub use crate::replay::Replay;
pub use crate::replay::iterator::Transactions;
pub use crate::replay::report::Report;
pub use crate::snapshot::error::{PassedOver, Reason, SnapshotError};
pub use crate::snapshot::{Restored, Snapshots, Snapshotter};
pub use crate::source::{Operations, RecordSummaries, Source, known_id};
pub use crate::store::error::StoreError;
pub use crate::store::memory::MemoryStore;
pub use crate::store::watermark::Watermark;
pub use crate::store::write::{Edit, NewRow, Write};
pub use crate::store::{Batch, Ingest, SortedRows, Store};
pub use crate::transactions::plan::{Plan, Unfinished};
pub use crate::transactions::transaction_assembler::Transaction;
