//! Bulk recovery: collects the changes of many transactions, sorts them, and lets the store ingest
//! one write for each key, with the watermark of the last transaction.
//!
//! Each ingestion is atomic, so a kill at any step leaves the store at the watermark of the
//! previous ingestion. Memory is bounded: excess changes go to a scratch file, as sorted runs.

pub(crate) mod collect;
pub(crate) mod drive;
pub(crate) mod gathered;
pub(crate) mod part;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod sorter;
pub(crate) mod tables;
pub(crate) mod way;
pub(crate) mod writes;
