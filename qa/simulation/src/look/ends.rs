//! Checks that everything that reads a log without a writer agrees on its end: a reader, a get by
//! LSN, a copy, `verify` and the next open find the same last record, or return an error that
//! explains why not.

use std::sync::Arc;

use seawall::{Error, Lsn};
use seawall_io::Storage;
use seawall_testkit::MemStorage;

use crate::evidence::oldest;
use crate::keyed;
use crate::ledger::Payload;
use crate::look::storage;
use crate::run::{plain, read};
use crate::world::{Bytes, World};

/// Compares all of them, each on its own copy of the device, so that the sync of one does not help
/// another.
///
/// `may_be_gone`: a sync failed before, so the page cache may show bytes that are not on the disk,
/// and no later sync reports it. The same holds after a device that lied.
pub(crate) fn agree(world: &World, device: &MemStorage, may_be_gone: bool) {
    let Ok(found) = keyed::maintenance(&storage(&device.kill())).verify() else { return };
    let last = found.last_lsn.map(Lsn::get);
    let copy = device.kill();
    let (shown, end) = match read_all(&copy) {
        Ok(records) => (records.clone(), Ok(last_of(&records))),
        Err(error) => (vec![], Err(error)),
    };
    let ends = [
        ("a reader", end),
        ("a get", last_got(&device.kill(), last)),
        ("a copy", last_copied(&device.kill())),
        ("an open", opened(world, &device.kill()).map(|left| last_of(&left.records))),
    ];
    for (who, end) in ends {
        match end {
            Ok(end) if end == last => {}
            // Damage explains the error.
            Err(_) if world.ledger().damaged || !found.damage.is_empty() => {}
            Ok(end) => world.find(format!("{who} ends with {end:?}, a verdict: {found:?}")),
            Err(error) => world.find(format!("{who}: {error:#}; a verdict: {found:?}")),
        }
    }
    let may_be_gone = may_be_gone || world.ledger().damaged;
    if !may_be_gone {
        is_durable(world, &copy, ("a reader", &shown));
    }
    fails_aloud(world, device, (last, may_be_gone));
}

/// Checks that the records a reader showed survive a power cut, unless they are pruned. A prune
/// that failed halfway is in one slot of the manifest, and a power cut can change which slot is
/// valid.
fn is_durable(world: &World, shown: &MemStorage, (who, records): (&str, &[Record])) {
    let last = last_of(records);
    let copy = shown.power_cut(|_| false);
    let left = match opened(world, &copy) {
        Ok(left) => left,
        Err(error) => {
            return world.find(format!("{who} showed {last:?}, and a power cut left: {error:#}"));
        }
    };
    if left.last < last {
        let end = left.last;
        world.find(format!("{who} showed {last:?}, and a power cut left {end:?}"));
    }
    let first = left.first;
    let may_begin = world.ledger().may_begin_with(first, oldest(&copy).as_ref());
    let is_pruned = |lsn: u64| lsn < first && may_begin;
    let mut kept = records.iter().filter(|(lsn, _)| !is_pruned(*lsn));
    if let Some((lsn, _)) = kept.find(|record| !left.records.contains(record)) {
        world.find(format!("{who} showed {lsn}, and a power cut took it; {first} is the first"));
    }
}

/// Checks that a reader whose sync fails still shows the durable records, and returns an error if
/// those are not all.
fn fails_aloud(world: &World, device: &MemStorage, (last, may_be_gone): (Option<u64>, bool)) {
    for sync in 0..2 {
        let copy = device.kill();
        copy.fail_sync(sync, |_| false);
        let Ok(entries) = read(&copy, false) else { continue };
        let has_error = entries.iter().any(Result::is_err);
        let shown: Vec<Record> = entries.into_iter().flatten().collect();
        let end = last_of(&shown);
        if end < last && !has_error {
            let what = "a reader whose sync failed ends without a word with";
            world.find(format!("{what} {end:?}, a verdict with {last:?}"));
        }
        if !may_be_gone {
            is_durable(world, &copy, ("a reader whose sync failed", &shown));
        }
    }
}

type Last = seawall::Result<Option<u64>>;

type Record = (u64, Payload);

fn last_of(records: &[Record]) -> Option<u64> {
    records.last().map(|(lsn, _)| *lsn)
}

fn read_all(device: &MemStorage) -> seawall::Result<Vec<Record>> {
    read(device, false)?.into_iter().collect()
}

/// Returns `last` if a get by LSN finds that record.
fn last_got(device: &MemStorage, last: Option<u64>) -> Last {
    let reader = keyed::reader(storage(device))?;
    let Some(lsn) = last.and_then(Lsn::new) else { return Ok(None) };
    Ok(reader.get(lsn)?.and(last))
}

fn last_copied(device: &MemStorage) -> Last {
    let copy = MemStorage::new();
    let target: Arc<dyn Storage> = Arc::new(copy.clone());
    match keyed::maintenance(&storage(device)).back_up_to(&target) {
        Ok(_) => Ok(last_of(&read_all(&copy.power_cut(|_| false))?)),
        // There is no log to copy.
        Err(Error::NotALog { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The state that an open finds.
struct Left {
    /// The first LSN that the log has, or will assign.
    first: u64,
    /// The last LSN that was assigned, even if its record was pruned.
    last: Option<u64>,
    records: Vec<Record>,
}

fn opened(world: &World, device: &MemStorage) -> seawall::Result<Left> {
    let options = plain(world.layout, 11).preallocate(false).idle_mark(None);
    let log: Bytes = options.open_in(Arc::new(device.clone()))?;
    let (first, last) = (log.oldest(), log.recovery().last);
    let entries = log.read_from(first)?;
    let records = entries.map(|entry| entry.map(|(lsn, payload)| (lsn.get(), payload)));
    let records: seawall::Result<_> = records.collect();
    Ok(Left { first: first.get(), last: last.map(Lsn::get), records: records? })
}
