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
//! [FORMAT](https://github.com/seawall-wal/seawall/blob/main/docs/FORMAT.md) (every byte).

#![forbid(unsafe_code)]

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of docs/guide.md run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

mod asked;
mod background;
mod blocks;
mod chain;
mod codec;
mod commit;
mod copy;
mod core;
mod cursor;
mod cut;
mod damage;
mod directory;
mod draft;
mod error;
mod follow;
mod gate;
mod horizon;
mod inspect;
#[cfg(feature = "json")]
mod json;
mod live;
mod log;
mod lookup;
mod mend;
mod names;
mod open;
mod options;
mod orphan;
mod overlay;
mod pace;
#[cfg(feature = "json")]
mod paper;
mod parity;
mod process;
mod progress;
mod quarantine;
mod reader;
mod record_id;
mod recovery;
mod repair;
mod replica;
mod rest;
mod retention;
mod retired;
mod roll;
mod salvage;
mod segment;
mod set;
mod siblings;
mod source;
mod spare;
mod survey;
mod sync;
mod verify;
mod versioned;
mod wakers;
mod walk;
mod writer;

pub use codec::{Codec, MessagePack, Positional, Raw};
pub use copy::{Copied, copy, copy_in, copy_with};
pub use cursor::{Cursor, Record};
pub use damage::AtomicSet;
pub use error::{Corruption, Damage, Error, Lost, Origin, Result};
pub use follow::Follower;
#[cfg(feature = "json")]
pub use json::Json;
pub use log::{Log, Stats, Ticket};
pub use mend::{Change, Mend, Was, mend, mend_in, plan_mend, plan_mend_in};
pub use options::{Failover, OpenMode, Options, SEGMENT_MIN};
pub use orphan::{Orphan, OrphanKind};
pub use overlay::{Mender, Overlay, Patch};
#[cfg(feature = "json")]
pub use paper::{BinLogger, JsonLogger, Logger, Retrieved};
pub use parity::{Protection, protect, protect_in, protection, protection_in};
pub use progress::Progress;
pub use reader::{Entries, LogReader};
pub use record_id::RecordId;
pub use recovery::{Recovery, TailState};
pub use repair::{Cut, cut_tail, cut_tail_in, diagnose, diagnose_in, plan_cut, plan_cut_in};
pub use retention::Retention;
pub use salvage::{Rescued, salvage, salvage_in, salvage_mended, salvage_with};
#[doc(hidden)]
pub use seawall_format::Geometry;
pub use seawall_format::parity::{NoScheme, Scheme as Parity};
pub use seawall_format::{CodecId, Layout, Level, LogId, Lsn, Offset, Refused, SegmentId};
pub use verify::{Summary, Verdict, Verification, verify, verify_in, verify_with};
pub use versioned::{Upgraded, Versioned};
