//! A [redb] database as the target of a Seawall log's replay, which applies each transaction
//! exactly once.
//!
//! ```
//! use seawall::{Log, LogReader};
//! use seawall_redb::RedbStore;
//! use seawall_replay::{Change, Operation, Replay, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("seawall-doc-redb-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let log: Log<Operation> = Log::open(dir.join("log"))?;
//! log.append(&Change::put("", "ada", "300").into())?;
//!
//! let store = RedbStore::open(dir.join("store.redb"))?;
//! let reader: LogReader<Operation> = LogReader::open(dir.join("log"))?;
//! assert_eq!(Replay::new().run(&reader, &store)?.applied, 1);
//! assert_eq!(store.get("", b"ada")?, Some(b"300".to_vec()));
//! # drop((log, store)); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A store is one file, with a file `.lock` next to it. The database is named `.partial` until it
//! is complete. All data is in one table of redb, `seawall`, in the
//! [layout](seawall_tables#layout) of all stores.

#![forbid(unsafe_code)]

mod backend;
mod engine;

pub use engine::{Redb, Rows};
pub use redb;
pub use seawall_tables::{OpenError, Result};

/// Tables in a redb database, in a file.
pub type RedbStore = seawall_tables::Tables<Redb>;
