//! Salvages copies of a damaged log, and cuts their damaged ends: what was readable before must be
//! there afterwards, or be named as lost, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use seawall::verify::Verdict;
use seawall::{Error, Lsn};
use seawall_testkit::MemStorage;

use crate::keyed;
use crate::ledger::{Ledger, Payload};
use crate::look::storage;
use crate::run::{Entry, read};
use crate::world::{World, to_u64};

type Records = BTreeMap<u64, Payload>;

/// Salvages the log to a new one, and cuts the damaged end of a copy. Checks both.
pub(crate) fn probe(world: &World, device: &MemStorage, what: &str) {
    for judged in [is_salvaged(world, device), is_cut(world, device)] {
        if let Err(why) = judged {
            world.find(format!("{what}: {why}"));
        }
    }
}

/// Returns what a reader delivers before the first damage, and what it delivers in all.
fn readable(device: &MemStorage) -> seawall::Result<(Records, Records)> {
    let device = device.kill();
    let before = read(&device, false)?.into_iter().map_while(Result::ok).collect();
    Ok((before, read(&device, true)?.into_iter().flatten().collect()))
}

/// Returns all records of a log without damage.
fn records(device: &MemStorage) -> Result<Records, String> {
    let entries: Vec<Entry> = read(device, false).map_err(|error| format!("{error:#}"))?;
    let records: seawall::Result<_> = entries.into_iter().collect();
    records.map_err(|error| format!("{error:#}"))
}

fn verdict(device: &MemStorage) -> Result<Verdict, String> {
    let found = keyed::maintenance(&storage(device)).verify();
    found.map(|found| found.verdict).map_err(|error| format!("{error:#}"))
}

/// Whether not enough of the log is left to repair.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::NotALog { .. } | Error::Damaged { .. } | Error::InvalidOption { .. })
}

fn is_salvaged(world: &World, device: &MemStorage) -> Result<(), String> {
    let target = MemStorage::new();
    let rescued = match keyed::maintenance(&storage(device)).salvage_to(storage(&target)) {
        Ok(rescued) => rescued,
        Err(error) if is_refused(&error) => return Ok(()),
        Err(error) => return Err(format!("a salvage: {error:#}")),
    };
    let verdict = verdict(&target).map_err(|why| format!("a salvage leaves: {why}"))?;
    if !matches!(verdict, Verdict::Clean | Verdict::Torn | Verdict::Unsure) {
        return Err(format!("a salvage leaves a log that is {verdict:?}"));
    }
    let kept = read(&target, true).map_err(|error| format!("a salvaged log: {error:#}"))?;
    let kept: Records = kept.into_iter().flatten().collect();
    if to_u64(kept.len()) != rescued.records {
        return Err(format!("a salvage kept {} records and says {rescued:?}", kept.len()));
    }
    let Ok((_, before)) = readable(device) else { return Ok(()) };
    is_from(&kept, &before).map_err(|why| format!("a salvage {why}"))?;
    let missing: BTreeSet<u64> =
        before.keys().filter(|lsn| !kept.contains_key(lsn)).copied().collect();
    let named = |lsn: &u64| {
        let mut lost = rescued.given_up.iter();
        lost.any(|lost| lost.from.get() <= *lsn && lost.to.is_none_or(|to| to.get() >= *lsn))
    };
    let ledger = world.ledger();
    if let Some(lsn) = missing.iter().find(|lsn| !named(lsn) || !is_in_a_set(&ledger, **lsn)) {
        return Err(format!("a salvage loses record {lsn}: {rescued:?}"));
    }
    if to_u64(missing.len()) > rescued.broken_sets {
        return Err(format!("a salvage loses {missing:?} and says {rescued:?}"));
    }
    Ok(())
}

/// Whether the record may be from a set, which is kept or given up as a whole.
fn is_in_a_set(ledger: &Ledger, lsn: u64) -> bool {
    ledger.known(lsn).is_none() || ledger.is_in_a_set(lsn)
}

fn is_cut(world: &World, device: &MemStorage) -> Result<(), String> {
    let copy = device.kill();
    let done = match keyed::maintenance(&storage(&copy)).truncate_damaged_tail() {
        Ok(done) => done,
        Err(error) if is_refused(&error) => return Ok(()),
        Err(error) => return Err(format!("a repair that cuts: {error:#}")),
    };
    let Ok((start, before)) = readable(device) else { return Ok(()) };
    let last = done.last.map_or(0, Lsn::get);
    // The damage of a segment that an open does not read stays.
    let kept: Records = match read(&copy, true) {
        Ok(entries) => entries.into_iter().flatten().collect(),
        Err(error) => return Err(format!("a log that was cut: {error:#}")),
    };
    world.tell(|| format!("a cut after {last} keeps {} of {}", kept.len(), before.len()));
    is_from(&kept, &before).map_err(|why| format!("a repair that cuts {why}"))?;
    if let Some(lsn) = before.keys().find(|lsn| **lsn <= last && !kept.contains_key(lsn)) {
        return Err(format!("a repair that cuts after {last} loses record {lsn}: {done:?}"));
    }
    if let Some(lsn) = kept.keys().find(|lsn| **lsn > last) {
        return Err(format!("a repair that cuts after {last} leaves record {lsn}: {done:?}"));
    }
    // A set that is damaged further behind is given up as a whole. Damage that loses no record
    // does not stop a reader.
    let first_lost = done.damage.first().and_then(|damage| damage.lost);
    let end = first_lost.map_or(0, |lost| lost.from.get());
    let ledger = world.ledger();
    let is_needless = |lsn: &u64| *lsn > last && *lsn < end && !is_in_a_set(&ledger, *lsn);
    match start.keys().find(|lsn| is_needless(lsn)) {
        Some(lsn) => {
            Err(format!("a repair that cuts gives up record {lsn}, before the damage: {done:?}"))
        }
        None => Ok(()),
    }
}

/// Checks that all of these records were there before.
fn is_from(kept: &Records, before: &Records) -> Result<(), String> {
    match kept.iter().find(|(lsn, payload)| before.get(lsn) != Some(*payload)) {
        Some((lsn, _)) if before.contains_key(lsn) => Err(format!("changes record {lsn}")),
        Some((lsn, _)) => Err(format!("invents record {lsn}")),
        None => Ok(()),
    }
}

/// Checks that a salvage of the log with a refused block has `count` records and that they were
/// there before. Without the header of a segment that was just made, the one before it may show
/// records that readers did not see yet.
pub(crate) fn holds(target: &MemStorage, before: &MemStorage, count: u64) -> Result<(), String> {
    let kept = read(target, true).map_err(|error| format!("a salvaged log: {error:#}"))?;
    let kept: Records = kept.into_iter().flatten().collect();
    if to_u64(kept.len()) != count {
        return Err(format!("a salvage says {count} records and has {}", kept.len()));
    }
    let before = records(before)?;
    let last = before.keys().next_back().copied().unwrap_or(0);
    let kept: Records = kept.into_iter().take_while(|(lsn, _)| *lsn <= last).collect();
    is_from(&kept, &before).map_err(|why| format!("a salvage {why}"))
}
