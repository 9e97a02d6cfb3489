//! A [fjall] database that a Seawall log is replayed into, each transaction exactly once.
//!
//! [`FjallStore`] is a [`seawall_replay::Store`]: tables of rows, sorted by key. What a batch
//! changes and how far the log is applied with it ([`Watermark`](seawall_replay::Watermark)) are
//! written as one batch of fjall, so that none of the two is ever there without the other.
//!
//! ```
//! use seawall::{Log, LogReader};
//! use seawall_fjall::FjallStore;
//! use seawall_replay::{Change, Operation, Replay, Store};
//!
//! # let dir = std::env::temp_dir().join(format!("seawall-doc-fjall-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let log: Log<Operation> = Log::open(dir.join("log"))?;
//! log.append(&Change::create_table("account", "cents").into())?;
//! log.append(&Change::merge("account", "ada", ("add", 300u64.to_le_bytes())).into())?;
//!
//! let store = FjallStore::open(dir.join("store"))?;
//! let reader: LogReader<Operation> = LogReader::open(dir.join("log"))?;
//! assert_eq!(Replay::new().run(&reader, &store)?.applied, 2);
//! drop(store); // or the process is killed
//!
//! let store = FjallStore::open(dir.join("store"))?;
//! assert_eq!(Replay::new().run(&reader, &store)?.applied, 0); // 300 are not added again
//! assert_eq!(store.get("account", b"ada")?, Some(300u64.to_le_bytes().to_vec()));
//! # drop((log, store)); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! The folder of a store holds a file `seawall-fjall.lock` and the folder `database`, which is
//! fjall's; until that is whole it is named `database.partial`.
//!
//! Everything is in the one keyspace `seawall`. A key begins with a byte that says what it is;
//! numbers in keys and in the catalog are big-endian, so that rows lie sorted by table and key.
//!
//! | kind | then | value |
//! |---|---|---|
//! | 0 format | | one byte: 1, the version of this layout |
//! | 1 row | table id (8 bytes), the row's key | the row's value |
//! | 2 catalog | the table's name | table id (8 bytes), definition |
//! | 3 watermark | lane (4 bytes) | the 44 bytes of `Watermark::to_bytes` |
//! | 4 garbage | table id (8 bytes) | nothing |
//!
//! A watermark of 24 bytes is one of an earlier version, which names no log: replay refuses it
//! until it is [adopted](seawall_replay::Replay::adopt).
//!
//! A table's id is the number of the record that created it; where one record creates several, each
//! further one has the next number that is free. The table without a name is always there, and has
//! id 0. A table that is dropped leaves the catalog, and its id is garbage from then on: its rows
//! go at the next [`flush`](seawall_replay::Store::flush), some at a time, and the entry after the
//! last of them. So dropping takes no more memory for a large table than for a small one.
//!
//! It must be *one* keyspace. fjall writes each of them to files at its own time, and syncs its
//! journal when it is told to: after a power cut two keyspaces may stand at different batches.

#![forbid(unsafe_code)]

mod catalog;
mod error;
mod garbage;
mod key;
mod place;
mod rows;
mod store;

pub use error::{OpenError, Result};
pub use fjall;
pub use rows::Rows;
pub use store::FjallStore;
