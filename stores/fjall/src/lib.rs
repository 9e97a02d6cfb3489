//! A [fjall] database as the target of a Seawall log's replay, which applies each transaction
//! exactly once.
//!
//! [`FjallStore`] is a [`seawall_replay::Store`]: tables of rows, sorted by key. The changes of a
//! batch and its progress in the log ([`Watermark`](seawall_replay::Watermark)) are written as one
//! atomic batch of fjall.
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
//! The folder of a store contains a file `seawall-fjall.lock` and fjall's folder `database`, which
//! is named `database.partial` until it is complete.
//!
//! All data is in one keyspace, `seawall`. The first byte of a key is its kind. Numbers in keys and
//! in the catalog are big-endian, so that rows are sorted by table and key.
//!
//! | kind | then | value |
//! |---|---|---|
//! | 0 format | | one byte: 1, the version of this layout |
//! | 1 row | table id (8 bytes), the row's key | the row's value |
//! | 2 catalog | the table's name | table id (8 bytes), definition |
//! | 3 watermark | partition (4 bytes) | the 44 bytes of `Watermark::to_bytes` |
//! | 4 garbage | table id (8 bytes) | nothing |
//!
//! A watermark of 24 bytes was written by an earlier version and names no log: replay refuses it
//! until it is [adopted](seawall_replay::Replay::adopt).
//!
//! The id of a table is the LSN of the record that created it. If one record creates several
//! tables, each further one gets the next free number. The table without a name always exists and
//! has id 0. A dropped table is removed from the catalog and its id becomes garbage. The next
//! [`flush`](seawall_replay::Store::flush) removes its rows in steps and then the garbage entry, so
//! dropping a large table uses no more memory than dropping a small one.
//!
//! One keyspace is required. fjall flushes keyspaces independently, and syncs its journal only on
//! request: after a power failure two keyspaces can be at different batches.

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
