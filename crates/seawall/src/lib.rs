//! Seawall, a write-ahead log: write down, durably, what *will* be done; read it back after a
//! crash.
//!
//! It never presents damage as a clean end while evidence of the lost record survives, and says
//! so when it cannot know.
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
//! - Know what a crash left: [`Log::recovery`].
//! - Find and repair damage: [`verify()`], [`diagnose`], [`mend()`], [`salvage()`], [`cut_tail`].
//! - Back up a log in use: [`copy()`].
//! - Survive lost disk blocks: [`Options::parity`], [`protect`].
//! - Close and learn of errors: [`Log::close`]. Dropping a log closes it, too, but reports nothing.
//!
//! # Levels
//!
//! [`Options::level`] says what an append waits for. [`Level::Synced`], the default, waits for the
//! device. [`Level::Buffered`] does not wait: a crash can lose the newest records, never leave a
//! gap. [`Level::Confirmed`] waits for evidence at a second place as well, so that damage at one
//! place cannot hide the record.
//!
//! # Records
//!
//! A record is any type of serde, stored as [`MessagePack`] by field names, so that fields can be
//! added later; [`Versioned`] types convert old records. **For bytes use `Log<[u8], Raw>`**
//! ([`Raw`]): serde writes a `Vec<u8>` as an array of numbers, up to twice as large.
//!
//! # Async
//!
//! A [`Ticket`] may be awaited on any runtime; polling it never syncs. [`Log::submit`] itself waits
//! while the memory for open records is full, or while a segment is begun, so a busy task may
//! prefer to call it on a thread for blocking work.
//!
//! # Errors
//!
//! [`Error`] has one variant for each thing that the caller can do. [`Error::DiskFull`] and
//! [`Error::Io`] leave the log as it was: try again. [`Error::Poisoned`]: open the log again to
//! learn what survived. [`Error::Damaged`] names the lost records;
//! [`LogReader::skip_damaged`] reads the rest. [`Error::Pruned`]: begin at [`Log::replay_start`].
//!
//! # Features
//!
//! `json` (on by default): the codec [`Json`], and logs that people can read, as lines of JSON
//! ([`Layout::Text`]). Without it the crate does not depend on `serde_json`.
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
mod paper;
mod parity;
mod read;
mod reader;
mod recover;
mod scan;
mod write;

pub use crate::base::codec::{Codec, MessagePack, Positional, Raw};
pub use crate::base::error::{Corruption, Damage, Error, Lost, Origin, Result};
#[cfg(feature = "json")]
pub use crate::base::json::Json;
pub use crate::base::options::{Failover, OpenMode, Options, SEGMENT_MIN};
pub use crate::base::retention::Retention;
pub use crate::base::versioned::{Upgraded, Versioned};
pub use crate::files::overlay::{Mender, Overlay, Patch};
pub use crate::log::{Log, Stats, Ticket};
pub use crate::maintenance::backup::{Copied, copy, copy_in, copy_with};
pub use crate::maintenance::progress::Progress;
pub use crate::maintenance::protection::{
    Protection, protect, protect_in, protection, protection_in,
};
pub use crate::maintenance::restore::{Change, Mend, Was, mend, mend_in, plan_mend, plan_mend_in};
pub use crate::maintenance::salvage::{Rescued, salvage, salvage_in, salvage_mended, salvage_with};
pub use crate::maintenance::truncate_damage::{
    Cut, cut_tail, cut_tail_in, diagnose, diagnose_in, plan_cut, plan_cut_in,
};
pub use crate::maintenance::verify::{
    Summary, Verdict, Verification, verify, verify_in, verify_with,
};
#[cfg(feature = "json")]
pub use crate::paper::{BinLogger, JsonLogger, Logger, Retrieved};
pub use crate::read::cursor::{Cursor, Record};
pub use crate::read::entries::Records;
pub use crate::read::follower::Follower;
pub use crate::read::record_id::RecordId;
pub use crate::reader::LogReader;
pub use crate::recover::report::{Recovery, TailState};
pub use crate::scan::catalog::{Orphan, OrphanKind};
pub use crate::scan::intact::AtomicSet;
#[doc(hidden)]
pub use seawall_format::Geometry;
pub use seawall_format::parity::{NoScheme, Scheme as Parity};
pub use seawall_format::{CodecId, Layout, Level, LogId, Lsn, Offset, Refused, SegmentId};
