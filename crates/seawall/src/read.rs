//! Readers: cursors, lookup by LSN, followers, and read repair from parity.

pub(crate) mod cursor;
pub(crate) mod entries;
pub(crate) mod follower;
pub(crate) mod lookup;
pub(crate) mod read_repair;
pub(crate) mod record_id;
pub(crate) mod snapshot;
