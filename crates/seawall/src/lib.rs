//! Seawall, a write-ahead log: write down, durably, what *will* be done; read it back after a
//! crash.
//!
//! It never presents damage as a clean end while evidence of the lost record survives, and says
//! so when it could not know.
//!
//! ```
//! use seawall::{Log, Lsn};
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
//! for entry in log.read_from(Lsn::FIRST)? {
//!     let (_, Event::Deposit { cents, .. }) = entry?; // in order, verified
//!     balance += cents;
//! }
//! log.append(&Event::Deposit { account: 7, cents: 100 })?; // returns when durable
//! balance += 100; // written down first, then done
//! # drop(log); std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A record's way to the device: [`Log::append`] (`log`) gives it to the open batch (`commit`),
//! a leader takes the batch (`core`), `writer` finishes it with `seawall_format::batch` and calls
//! `write_at` and `sync` of `seawall_io`'s POSIX files. Reading and opening walk the other way
//! (`walk`), and the decision table is in `recovery`. The bytes: `docs/FORMAT.md`; the promises:
//! `docs/DURABILITY.md`.

#![forbid(unsafe_code)]

/// The README's program compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The program of docs/START.md runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/START.md")]
struct Start;

/// The programs of docs/RECORDS.md run.
#[cfg(all(doctest, feature = "json"))]
#[doc = include_str!("../../../docs/RECORDS.md")]
struct Records;

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
