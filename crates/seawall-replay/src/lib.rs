//! Brings a store back from a Seawall log, each transaction exactly once.
//!
//! A program that keeps its state in a store writes down each [`Operation`] first. After a crash
//! [`Replay`] reads the log twice: once to learn which transactions were committed, once to apply
//! those, in the order of their commits, in batches that the store takes atomically *together with*
//! the number of the last commit in them ([`Watermark`]). So whoever is killed where, nothing is
//! applied twice, and nothing is left out.
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
//! ])?; // and here the machine stopped
//!
//! let store = MemoryStore::new();
//! let reader: LogReader<Operation> = LogReader::open(&dir)?;
//! let report = Replay::new().run(&reader, &store)?;
//! assert_eq!((report.committed, report.unfinished), (2, 1));
//! assert_eq!(store.get("account", b"ada")?, Some(b"300".to_vec()));
//! assert_eq!(store.get("account", b"bob")?, None); // never committed
//!
//! let report = Replay::new().run(&reader, &store)?;
//! assert_eq!(report.applied, 0); // twice is once
//! # drop(log); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Replay cannot log anew what it applies: it reads the log and holds no handle to append with.
//!
//! The walk: [`Source`] gives operations, `transactions` finds what became of each transaction and
//! puts the committed ones together, `apply` deals their changes out by key to partitions, each of
//! which folds them into a batch of a size that follows what it costs, and the [`Store`] takes it.

#![forbid(unsafe_code)]

/// The program of docs/replay.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/replay.md")]
struct Guide;

mod apply;
mod dump;
mod error;
mod merge;
mod operation;
mod progress;
mod record_summary;
mod replay;
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
pub use crate::replay::{Replay, Report, Transactions};
pub use crate::snapshot::error::{PassedOver, Reason, SnapshotError};
pub use crate::snapshot::{Restored, Snapshots, Snapshotter};
pub use crate::source::{Operations, RecordSummaries, Source, known_id};
pub use crate::store::error::StoreError;
pub use crate::store::memory::MemoryStore;
pub use crate::store::watermark::Watermark;
pub use crate::store::write::{Edit, Write};
pub use crate::store::{Batch, Store};
pub use crate::transactions::plan::{Plan, Unfinished};
pub use crate::transactions::transaction_assembler::Transaction;
