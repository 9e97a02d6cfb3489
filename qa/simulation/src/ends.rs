//! Where a log ends, for all that read it without a writer: a reader, a look by number, a copy,
//! a verdict and the next open find the same last record, or say by name why not.

use std::sync::Arc;

use seawall::{Error, LogReader, Lsn, Maintenance, Raw};
use seawall_io::Storage;
use seawall_testkit::MemStorage;

use crate::look::storage;
use crate::run::{plain, read};
use crate::world::{Bytes, World};

/// Compares them, each on a copy of its own, so that the sync of one does not help another.
///
/// `may_be_gone`: a barrier failed before, so what the cache shows may not be on the disk, and no
/// later sync says so. The same after a device that lied.
pub(crate) fn agree(world: &World, device: &MemStorage, may_be_gone: bool) {
    let Ok(found) = Maintenance::on(&storage(&device.kill())).verify() else { return };
    let last = found.last_lsn.map(Lsn::get);
    let read = device.kill();
    let ends = [
        ("a reader", last_read(&read)),
        ("a get", last_got(&device.kill(), last)),
        ("a copy", last_copied(&device.kill())),
        ("an open", last_opened(world, &device.kill())),
    ];
    for (who, end) in ends {
        match end {
            Ok(end) if end == last => {}
            // It says so.
            Err(_) if world.ledger().damaged || !found.damage.is_empty() => {}
            Ok(end) => world.find(format!("{who} ends with {end:?}, a verdict: {found:?}")),
            Err(error) => world.find(format!("{who}: {error:#}; a verdict: {found:?}")),
        }
    }
    let may_be_gone = may_be_gone || world.ledger().damaged;
    if !may_be_gone {
        is_durable(world, &read, ("a reader", last));
    }
    fails_aloud(world, device, (last, may_be_gone));
}

/// What was shown up to that record survives a power cut.
fn is_durable(world: &World, shown: &MemStorage, (who, last): (&str, Option<u64>)) {
    match last_opened(world, &shown.power_cut(|_| false)) {
        Ok(end) if end >= last => {}
        Ok(end) => world.find(format!("{who} showed {last:?}, and a power cut left {end:?}")),
        Err(error) => world.find(format!("{who} showed {last:?}, and a power cut left: {error:#}")),
    }
}

/// A reader whose sync fails shows what is durable all the same, and says that it is not all.
fn fails_aloud(world: &World, device: &MemStorage, (last, may_be_gone): (Option<u64>, bool)) {
    for sync in 0..2 {
        let copy = device.kill();
        copy.fail_sync(sync, |_| false);
        let Ok(entries) = read(&copy, false) else { continue };
        let shown = entries.iter().flatten().last().map(|(lsn, _)| *lsn);
        if shown < last && entries.iter().all(Result::is_ok) {
            let what = "a reader whose sync failed ends without a word with";
            world.find(format!("{what} {shown:?}, a verdict with {last:?}"));
        }
        if !may_be_gone {
            is_durable(world, &copy, ("a reader whose sync failed", shown));
        }
    }
}

type Last = seawall::Result<Option<u64>>;

fn last_read(device: &MemStorage) -> Last {
    let entries: seawall::Result<Vec<_>> = read(device, false)?.into_iter().collect();
    Ok(entries?.last().map(|(lsn, _)| *lsn))
}

/// That record, if a look by number finds it.
fn last_got(device: &MemStorage, last: Option<u64>) -> Last {
    let reader = LogReader::<[u8], Raw>::open_any_in(storage(device))?;
    let Some(lsn) = last.and_then(Lsn::new) else { return Ok(None) };
    Ok(reader.get(lsn)?.and(last))
}

fn last_copied(device: &MemStorage) -> Last {
    let copy = MemStorage::new();
    let target: Arc<dyn Storage> = Arc::new(copy.clone());
    match Maintenance::on(&storage(device)).back_up_to(&target) {
        Ok(_) => last_read(&copy.power_cut(|_| false)),
        // There is no log to copy.
        Err(Error::NotALog { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn last_opened(world: &World, device: &MemStorage) -> Last {
    let options = plain(world.layout, 11).preallocate(false).idle_mark(None);
    let log: Bytes = options.open_in(Arc::new(device.clone()))?;
    let mut last = None;
    for entry in log.read_from(log.oldest())? {
        last = Some(entry?.0.get());
    }
    Ok(last)
}
