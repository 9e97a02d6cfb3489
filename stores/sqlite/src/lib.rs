//! A SQLite database as the target of a Seawall log's replay, which applies each transaction
//! exactly once.
//!
//! ```
//! use seawall::{Log, LogReader};
//! use seawall_replay::{Change, Operation, Replay, Store};
//! use seawall_sqlite::SqliteStore;
//!
//! # let dir = std::env::temp_dir().join(format!("seawall-doc-sqlite-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! let log: Log<Operation> = Log::open(dir.join("log"))?;
//! log.append(&Change::put("", "ada", "300").into())?;
//!
//! let store = SqliteStore::open(dir.join("store.db"))?;
//! let reader: LogReader<Operation> = LogReader::open(dir.join("log"))?;
//! assert_eq!(Replay::new().run(&reader, &store)?.applied, 1);
//! assert_eq!(store.get("", b"ada")?, Some(b"300".to_vec()));
//! # drop((log, store)); std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A store is one file, locked while it is open. All data is in the table `seawall (key, value)`,
//! in the [layout](seawall_tables#layout) of all stores. The view `seawall_rows ("table", key,
//! value)` shows the rows of all tables to SQL:
//!
//! ```console
//! $ sqlite3 store.db 'SELECT "table", key, value FROM seawall_rows'
//! ```

#![forbid(unsafe_code)]

mod engine;

pub use engine::{Rows, Sqlite};
pub use rusqlite;
pub use seawall_tables::{OpenError, Result};

/// Tables in a SQLite database, in a file.
pub type SqliteStore = seawall_tables::Tables<Sqlite>;
