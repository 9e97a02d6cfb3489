//! Tables of rows in a database of sorted keys, as the target of a Seawall log's replay.
//!
//! [`Tables`] is a [`seawall_replay::Store`] over any [`Engine`]. Each batch is atomic: its changes
//! together with its progress in the log ([`Watermark`](seawall_replay::Watermark)). The crates
//! `seawall-fjall`, `seawall-redb`, `seawall-rocksdb` and `seawall-sqlite` each provide an engine.
//!
//! # Layout
//!
//! The first byte of a key is its kind. Numbers in keys and in the catalog are big-endian, so that
//! rows are sorted by table and key.
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

#![forbid(unsafe_code)]

mod catalog;
mod engine;
mod error;
mod garbage;
mod ingestion;
mod key;
mod lock;
#[cfg(test)]
mod memory;
mod place;
mod rows;
mod tables;

pub use engine::{Edits, Engine, Range, Row};
pub use error::{OpenError, Result};
pub use place::Place;
pub use rows::Rows;
pub use tables::Tables;
