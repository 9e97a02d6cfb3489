//! Tests of the whole log, linked into one program: one link takes less time than thirty. A test
//! with its own allocator (`allocations`) is a separate program, in the package of the log.
//!
//! These tests are a separate package, `seawall-tests`, because compiler optimisation is set per
//! package: the log needs it for the millions of states that are tried, the tests do not.
//!
//! `cargo test` runs each suite once, on plain logs. CI also runs the suites of `encoded` for each
//! encoding. They take as long as all others: `cargo test --test all -- --ignored`.

mod at_rest;
mod callbacks;
#[cfg(all(feature = "cbor", feature = "ron"))]
mod codecs;
mod common;
#[cfg(feature = "json")]
mod compatibility;
#[cfg(feature = "lz4")]
mod compressed;
#[cfg(feature = "lz4")]
mod compression;
mod confirmation;
mod copy;
mod crash_points;
mod cuts;
mod cwal_lessons;
mod diverged;
mod emptied;
mod encoded;
#[cfg(feature = "encryption")]
mod encryption;
mod error_names_log;
mod every_bit_and_cut;
mod examples;
mod failover;
mod fill_blocks;
mod follow;
mod format_text;
mod full_disk;
mod get;
mod group_commit;
mod guests;
mod headless;
mod hints;
mod in_flight;
#[cfg(feature = "encryption")]
mod key_slots;
#[cfg(feature = "encryption")]
mod lost_keys;
mod mend;
mod named_ahead;
mod names;
mod nesting;
mod no_threads;
#[cfg(feature = "encryption")]
mod nonces;
mod older_replica;
mod orphans;
mod overlay;
mod paper;
mod parity;
mod parity_crash;
mod parity_repair;
mod progress;
mod quarantine;
mod readable;
mod readers;
mod record_types;
mod repair;
#[cfg(feature = "encryption")]
mod repair_journal;
mod replaced;
mod reserved;
mod retention;
mod retired;
mod reuse;
mod segment_sizes;
#[cfg(feature = "encryption")]
mod sync_every;
mod tampering;
mod try_submit;
