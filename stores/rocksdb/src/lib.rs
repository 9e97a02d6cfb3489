//! A [RocksDB](rocksdb) database as the target of a Seawall log's replay, which applies each
//! transaction exactly once.
//!
//! ```
//! use seawall::{Log, LogReader};
//! use seawall_replay::{Change, Operation, Replay, Store};
//! use seawall_rocksdb::RocksStore;
//!
//! # let dir = std::env::temp_dir().join(format!("seawall-doc-rocksdb-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let log: Log<Operation> = Log::open(dir.join("log"))?;
//! log.append(&Change::put("", "ada", "300").into())?;
//!
//! let store = RocksStore::open(dir.join("store"))?;
//! let reader: LogReader<Operation> = LogReader::open(dir.join("log"))?;
//! assert_eq!(Replay::new().partitions(2).run(&reader, &store)?.applied, 1);
//! assert_eq!(store.get("", b"ada")?, Some(b"300".to_vec()));
//! # drop((log, store)); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The folder of a store contains a file `seawall-rocksdb.lock` and RocksDB's folder `database`.
//! All data is in the default column family, in the [layout](seawall_tables#layout) of all stores.
//! One column family is required: RocksDB flushes them independently.

#![forbid(unsafe_code)]

mod engine;
mod sorted_files;

pub use engine::{Rocks, Rows};
pub use rocksdb;
pub use seawall_tables::{OpenError, Result};

/// Tables in a RocksDB database, in a folder.
pub type RocksStore = seawall_tables::Tables<Rocks>;
