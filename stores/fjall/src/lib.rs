//! A [fjall] database as the target of a Seawall log's replay, which applies each transaction
//! exactly once.
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
//! The folder of a store contains a file `seawall-fjall.lock` and fjall's folder `database`, which
//! is named `database.partial` until it is complete. All data is in one keyspace, `seawall`, in the
//! [layout](seawall_tables#layout) of all stores. One keyspace is required: fjall flushes keyspaces
//! independently, and syncs its journal only on request, so after a power failure two keyspaces can
//! be at different batches.

#![forbid(unsafe_code)]

mod engine;

pub use engine::{Fjall, Rows};
pub use fjall;
pub use seawall_tables::{OpenError, Result};

/// Tables in a fjall database, in a folder.
pub type FjallStore = seawall_tables::Tables<Fjall>;
