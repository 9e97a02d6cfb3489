//! A crash-safe map with a bug in its recovery, and the crash that shows it.
//!
//! The map notes each change in a log before it does it. `compact` writes an image of the whole map
//! and then begins to read there. The bug: the recovery begins at the newest image that it finds,
//! record by record, instead of where the log says that a whole one begins.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn, Options, Result};
use seawall_io::Storage;
use seawall_testkit::{Failure, Tried, crash_test};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

/// What is written down.
#[derive(Serialize, Deserialize)]
enum Change {
    Put(String, u32),
    /// An image of the map begins: what came before does not count.
    Clear,
}

/// How the image is written.
#[derive(Clone, Copy, Debug)]
pub enum Compaction {
    /// As one atomic set: after a crash all of it is there, or nothing.
    AtOnce,
    /// Record by record: the bug. A crash in between leaves half an image, and all before is
    /// forgotten.
    OneByOne,
}

struct Store {
    log: Log<Change>,
    map: BTreeMap<String, u32>,
}

impl Store {
    fn open(disk: Arc<dyn Storage>) -> Result<Self> {
        // No threads of its own, so that each run takes the same steps.
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

/// Tries every crash of a few changes and a compaction.
///
/// # Errors
///
/// The first crash that is not survived.
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
                writeln!(out, "{name}: {states} crashes survived, and {second} second ones")?;
            }
            Err(failure) => writeln!(out, "{name}: {failure}")?,
        }
    }
    Ok(())
}
