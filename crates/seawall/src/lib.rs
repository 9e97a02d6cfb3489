//! Seawall is a write-ahead log: append a record before you act on it; after a crash, read the
//! records back.
//!
//! It distinguishes an unfinished last write from corruption, lists which records are missing, and
//! reports when it cannot tell.
//!
//! ```
//! use seawall::Log;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, Debug, PartialEq)]
//! enum Event {
//!     Deposit { account: u32, cents: u64 },
//! }
//!
//! # let folder = std::env::temp_dir().join(format!("seawall-doc-lib-{}", std::process::id()));
//! let log: Log<Event> = Log::open(&folder)?; // creates or opens; recovery happens here
//! let mut balance = 0;
//! for entry in log.read_from(log.replay_start())? {
//!     let (_, Event::Deposit { cents, .. }) = entry?; // in order, verified
//!     balance += cents;
//! }
//! log.append(&Event::Deposit { account: 7, cents: 100 })?; // returns when durable
//! balance += 100; // log first, then act
//! # drop(log); std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to look
//!
//! - Create or open a log, and recover it: [`Log::open`]; [`Options`] has all settings.
//! - Append, and wait until the record is durable: [`Log::append`]; [`Log::append_batch`] for an
//!   atomic set.
//! - Append without waiting, or from async code: [`Log::submit`], whose [`Ticket`] is a future.
//! - Read: [`Log::read_from`]. In another process: [`LogReader`], and [`LogReader::follow`] for new
//!   records.
//! - Shorten a log: [`Log::checkpoint`], [`Log::truncate_before`], [`Options::retention`].
//! - See what recovery found: [`Log::recovery`].
//! - Verify, repair, salvage or back up a log: [`Maintenance`].
//! - Survive lost disk blocks: [`Options::parity`], [`Maintenance::build_parity`].
//! - Close a log and see errors: [`Log::close`]. Dropping a log closes it too, but reports nothing.
//!
//! # Levels
//!
//! [`Options::level`] sets what an append waits for. [`Level::Synced`], the default, waits for the
//! device. [`Level::Buffered`] does not wait: a crash can lose the newest records, but never leaves
//! a gap. [`Level::Confirmed`] also waits for evidence at a second place, so that damage at one
//! place cannot hide the record.
//!
//! # Records
//!
//! A record is any type of serde, stored as [`MessagePack`] by field names, so that fields can be
//! added later; [`Versioned`](versioned::Versioned) types convert old records. **For bytes use
//! `Log<[u8], Raw>`** ([`Raw`]): serde writes a `Vec<u8>` as an array of numbers, up to twice as
//! large.
//!
//! # Async
//!
//! Any runtime can await a [`Ticket`]; polling it never syncs. [`Log::submit`] itself blocks while
//! the memory for open records is full or a segment is being created: call it on a thread for
//! blocking work where that matters.
//!
//! # Errors
//!
//! [`Error`] has one variant for each action of the caller, and names the log. [`Error::DiskFull`]
//! and [`Error::Io`] leave the log as it was: try again. [`Error::Poisoned`]: reopen the log to see
//! what survived. [`Error::Damaged`] names the lost records; [`LogReader::skip_damaged`] reads the
//! rest.
//! [`Error::Pruned`]: begin at [`Log::replay_start`].
//!
//! # Features
//!
//! `json` (on by default): the codec [`Json`], and logs that people can read, as lines of JSON
//! ([`Layout::Text`]). Without it the crate does not depend on `serde_json`. `cbor`, `ron`: the
//! codecs `Cbor` and `Ron`.
//!
//! # More
//!
//! Programs to start from are in
//! [examples](https://github.com/seawall-wal/seawall/tree/main/crates/seawall/examples). The rest is
//! in the repository: [guide](https://github.com/seawall-wal/seawall/blob/main/docs/guide.md),
//! [guarantees](https://github.com/seawall-wal/seawall/blob/main/docs/guarantees.md) (what is
//! promised, exactly), [DESIGN](https://github.com/seawall-wal/seawall/blob/main/docs/design.md),
//! [format.md](https://github.com/seawall-wal/seawall/blob/main/docs/format.md) (every byte).

#![forbid(unsafe_code)]

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of docs/guide.md run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

mod base;
mod files;
mod log;
mod maintenance;
#[cfg(feature = "json")]
pub mod paper;
pub mod parity;
mod read;
mod reader;
mod recover;
mod scan;
mod write;

#[cfg(feature = "cbor")]
pub use crate::base::codec::cbor::Cbor;
#[cfg(feature = "ron")]
pub use crate::base::codec::ron::Ron;
pub use crate::base::codec::{Codec, MessagePack, Positional, Raw};
pub use crate::base::error::kind::ErrorKind;
pub use crate::base::error::{CodecError, Error, Result};
#[cfg(feature = "json")]
pub use crate::base::json::Json;
pub use crate::base::options::{OpenMode, Options};
pub use crate::base::retention::Retention;
pub use crate::log::{Log, Stats, Ticket};
pub use crate::maintenance::Maintenance;
pub use crate::maintenance::progress::Progress;
pub use crate::read::cursor::{Cursor, Record};
pub use crate::read::entries::Records;
pub use crate::read::follower::Follower;
pub use crate::reader::LogReader;
pub use crate::recover::report::Recovery;
pub use seawall_format::{Compression, Layout, Level, Lsn};

/// Damage to stored bytes: where it is, what it destroyed, and what caught it.
pub mod damage {
    pub use crate::base::error::{Corruption, Damage, Lost, Origin};
    pub use crate::scan::intact::AtomicSet;
    pub use seawall_format::ChangedPart;
}

/// Results of [`Maintenance::verify`].
pub mod verify {
    pub use crate::maintenance::verify::{Summary, Verdict, Verification};
    pub use crate::scan::catalog::{Orphan, OrphanKind};
}

/// Plans and results of [`Maintenance::repair`], [`Maintenance::truncate_damaged_tail`] and
/// [`Maintenance::salvage`].
pub mod repair {
    pub use crate::files::overlay::{Overlay, Patch, RepairSource};
    pub use crate::maintenance::restore::{Change, DamageKind, RepairPlan};
    pub use crate::maintenance::salvage::SalvageReport;
    pub use crate::maintenance::truncate_damage::TailTruncation;
}

/// Keys of encrypted logs: see [`Options::key`].
#[cfg(feature = "encryption")]
pub mod encryption {
    pub use crate::base::key_source::{Key, KeyCommand, KeyFile, KeySource};
    pub use seawall_format::encryption::{KeyError, Padding, PaddingSize};
}

/// Results of [`Maintenance::back_up`].
pub mod backup {
    pub use crate::maintenance::backup::BackupReport;
}

/// Details of [`Log::recovery`] and of failures that a log survives.
pub mod recovery {
    pub use crate::base::options::Failover;
    pub use crate::recover::report::TailState;
}

/// Record types that change: each stored record is decoded by the schema it was written with.
pub mod versioned {
    pub use crate::base::versioned::{Upgraded, Versioned};
}

/// Identifiers and limits of the on-disk format.
pub mod format {
    pub use crate::base::options::SEGMENT_MIN;
    pub use crate::read::record_id::RecordId;
    #[doc(hidden)]
    pub use seawall_format::Geometry;
    pub use seawall_format::{CodecId, LogId, Offset, Refused, SegmentId};
}

/// Storage for logs that are not directories, and the clock and randomness that tests replace.
///
/// [`Storage`](storage::Storage) and [`File`](storage::File) may get new methods in a minor
/// version; each has a default body, so that existing implementations keep compiling.
pub mod storage {
    pub use seawall_io::{
        Access, Clock, Entropy, File, Lock, Recycled, Storage, SystemClock, SystemEntropy,
    };
}
