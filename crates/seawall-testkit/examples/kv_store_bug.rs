//! A crash-safe map with a bug in its recovery, and the crash that reveals it.
//!
//! The map logs each change before it applies it. `compact` writes an image of the whole map, from
//! which recovery then starts. The bug: if the image is written record by record, a crash can leave
//! half an image, and recovery starts from it anyway. Written as an atomic set, the image is
//! complete or missing.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn, Options, Result};
use seawall_io::Storage;
use seawall_testkit::{Failure, Tried, crash_test};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

/// A log record.
#[derive(Serialize, Deserialize)]
enum Change {
    Put(String, u32),
    /// The start of an image: discards all earlier changes.
    Clear,
}

/// How an image is written.
#[derive(Clone, Copy, Debug)]
pub enum Compaction {
    /// As one atomic set: complete or missing after a crash.
    AtOnce,
    /// Record by record: the bug. After a crash, half an image replaces everything before it.
    OneByOne,
}

struct Store {
    log: Log<Change>,
    map: BTreeMap<String, u32>,
}

impl Store {
    fn open(disk: Arc<dyn Storage>) -> Result<Self> {
        // Without background threads, so that all runs take the same steps.
        let log: Log<Change> = Options::new().preallocate(false).idle_mark(None).open_in(disk)?;
        let mut map = BTreeMap::new();
        for entry in log.read_from(Lsn::FIRST)? {
            match entry?.1 {
                Change::Put(key, value) => drop(map.insert(key, value)),
                Change::Clear => map.clear(),
            }
        }
        Ok(Self { log, map })
    }

    fn put(&mut self, key: &str, value: u32) -> Result<()> {
        self.log.append(&Change::Put(key.to_owned(), value))?;
        self.map.insert(key.to_owned(), value);
        Ok(())
    }

    fn compact(&self, how: Compaction) -> Result<()> {
        let put = |(key, value): (&String, &u32)| Change::Put(key.clone(), *value);
        let image: Vec<Change> =
            std::iter::once(Change::Clear).chain(self.map.iter().map(put)).collect();
        match how {
            Compaction::AtOnce => self.log.append_batch(&image).map(drop),
            Compaction::OneByOne => {
                image.iter().try_for_each(|change| self.log.append(change).map(drop))
            }
        }
    }
}

/// Tries every crash during a few changes and a compaction.
///
/// # Errors
///
/// The first crash that loses data.
pub fn try_every_crash(how: Compaction) -> std::result::Result<Tried, Failure> {
    crash_test(
        |disk, promised: &mut BTreeMap<String, u32>| {
            let mut store = Store::open(disk)?;
            for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
                store.put(key, value)?;
                promised.insert(key.to_owned(), value);
            }
            store.compact(how)
        },
        |disk| Ok(Store::open(disk)?.map),
        |promised, found: &BTreeMap<String, u32>| match promised
            .iter()
            .find(|(key, value)| found.get(*key) != Some(value))
        {
            Some((key, value)) => Err(format!("{key} = {value} is lost: {found:?}")),
            None => Ok(()),
        },
    )
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for (name, how) in [("at once", Compaction::AtOnce), ("one by one", Compaction::OneByOne)] {
        match try_every_crash(how) {
            Ok(Tried { states, second, .. }) => {
                writeln!(out, "{name}: survived {states} crashes, and {second} second crashes")?;
            }
            Err(failure) => writeln!(out, "{name}: {failure}")?,
        }
    }
    Ok(())
}
