//! Checks what a life left on the device: the result of `verify`, what readers see, and the effect
//! of single faults on copies of it.

mod beside;
pub(crate) mod ends;
pub(crate) mod mended;
pub(crate) mod parity_damage;
pub(crate) mod refused;

use std::collections::BTreeMap;
use std::sync::Arc;

use seawall::verify::Verdict;
use seawall::{Error, Lsn};
use seawall_io::Storage;
use seawall_testkit::{Decay, Dice, Harm, Harmed, MemStorage, harm};

use crate::describe::describe;
use crate::evidence::batches::Batches;
use crate::evidence::{Evidence, beginnings, oldest};
use crate::keyed;
use crate::ledger::Ledger;
use crate::look::beside::{gives_back, is_parity_alone};
use crate::plan::reach;
use crate::run::{plain, read};
use crate::world::{Bytes, World};

pub(crate) fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

/// Checks the log after a life: `verify` must find no damage in an undamaged log, readers must see
/// what was promised and no more, and all of them must find the same end.
///
/// `may_be_gone`: a sync failed, so the page cache may show bytes that are not on the disk.
pub(crate) fn after(world: &World, device: &MemStorage, may_be_gone: bool) {
    let Ledger { damaged, may_be_unsure, .. } = *world.ledger();
    let judged = keyed::maintenance(&storage(device)).verify();
    let verdict = match judged {
        Ok(found) => found,
        Err(Error::NotALog { .. }) if world.ledger().durable == 0 => return,
        Err(error) if damaged && shows_damage(&error) => return,
        Err(error) => return world.find(format!("after a crash: {error:#}")),
    };
    let sound = match verdict.verdict {
        Verdict::Clean | Verdict::Torn => true,
        Verdict::Unsure => may_be_unsure,
        _ => false,
    };
    if !sound && !damaged {
        return world.find(format!("a crash alone is no damage: {verdict:?}"));
    }
    ends::agree(world, device, may_be_gone);
    if world.has_found() {
        return;
    }
    // A reader syncs what it shows. In half of the lives it reads a copy, so that the next life
    // finds exactly what this one left.
    let is_settled = world.disk.steps().is_multiple_of(2);
    let device = if is_settled { device.clone() } else { device.kill() };
    let before = contents(&device);
    let entries = match read(&device, false) {
        Ok(entries) => entries,
        Err(error) if damaged && shows_damage(&error) => return,
        Err(error) => return world.find(format!("a reader after a crash: {error:#}")),
    };
    let mut next = None;
    for entry in entries {
        let (lsn, payload) = match entry {
            Ok(entry) => entry,
            Err(error) if damaged && shows_damage(&error) => return,
            Err(error) => return world.find(format!("a reader after a crash: {error:#}")),
        };
        if damaged {
            // If the device lost writes in the middle of the log, truncated records may show.
            continue;
        }
        let mut ledger = world.ledger();
        let now = ledger.now();
        let judged = if may_be_gone || !is_settled {
            ledger.clone().shown((lsn, &payload), now).map(drop)
        } else {
            ledger.shown((lsn, &payload), now).map(drop)
        };
        let has_holes = ledger.has_holes();
        drop(ledger);
        world.judge(judged, "a reader after a crash");
        if next.is_some_and(|next| next != lsn) && !has_holes {
            world.find(format!("a reader after a crash delivers {lsn}, not {next:?}"));
        }
        next = Some(lsn + 1);
    }
    if contents(&device) != before {
        world.find("a reader changed something".to_owned());
    }
}

/// Whether damage explains this error.
fn shows_damage(error: &Error) -> bool {
    use Error::{Ambiguous, Damaged, Io, Key, NotALog, Unsupported};
    matches!(
        error,
        Damaged { .. }
            | Ambiguous { .. }
            | Io { .. }
            | Key { .. }
            | NotALog { .. }
            | Unsupported { .. }
    )
}

/// Returns all file names and contents, as the page cache shows them.
pub(crate) fn contents(device: &MemStorage) -> Vec<(String, Option<Vec<u8>>)> {
    let names = device.names().into_iter();
    names.map(|name| (name.clone(), device.bytes(&name))).collect()
}

/// Whether `verify` finds no damage.
pub(crate) fn is_undamaged(device: &MemStorage) -> bool {
    let found = keyed::maintenance(&storage(&device.kill())).verify();
    found.is_ok_and(|found| matches!(found.verdict, Verdict::Clean | Verdict::Torn))
}

/// Checks that `verify` finds the log clean after a clean close.
pub(crate) fn is_clean(world: &World, device: &MemStorage) {
    if world.ledger().damaged {
        return;
    }
    match keyed::maintenance(&storage(device)).verify() {
        Ok(found) if found.verdict == Verdict::Clean => {}
        other => world.find(format!("a log that was closed is not clean: {other:?}")),
    }
}

/// Tries `count` single faults on copies; returns how many there was something to damage for.
pub(crate) fn probe(
    world: &World,
    (device, earlier): (&MemStorage, &MemStorage),
    (count, seed): (u64, u64),
) -> u64 {
    let kinds = [
        Decay::Bit,
        Decay::Garbage,
        Decay::Zeros,
        Decay::Stale,
        Decay::Copied,
        Decay::LostFile,
        Decay::DuplicatedFile,
    ];
    let evidence = Evidence::of(device);
    let (range, batches) = (seen(device), Batches::of(device));
    let mut dice = Dice::new(seed);
    let may = |name: &str| !name.starts_with("quarantine/") && name != "lock";
    let mut done = 0;
    for _ in 0..count {
        let decay = *dice.pick(&kinds).expect("there are some");
        let reach = usize::try_from(reach::get()).expect("a small number");
        let how = Harm { decay, reach, seed: dice.any() & 0xFFFF_FFFF };
        let copy = device.kill();
        let Some(harmed) = harm(&copy, earlier, how, may) else { continue };
        done += 1;
        let what = format!("{how} of {} at {:?}", harmed.file, harmed.bytes);
        is_there_or_named(world, &copy, (&evidence, &batches, &harmed, range), (decay, &what));
        // Repairs take longer than everything else.
        if !world.has_found() && how.seed.is_multiple_of(8) {
            mended::probe(world, &copy, &what);
        }
        if !world.has_found() && gives_back(device, &copy, &harmed) {
            is_whole(world, device, &copy, &format!("{what}, which parity covers"));
        } else if !world.has_found() && is_parity_alone(&harmed) {
            is_whole(world, device, &copy, &format!("{what}, which holds no record"));
        }
        if world.has_found() {
            world.tell(|| format!("before {what}: {}", describe(device)));
            break;
        }
    }
    done
}

/// Returns the first and the last LSN that a reader sees of an intact log.
fn seen(device: &MemStorage) -> (u64, u64) {
    let reader = keyed::reader(storage(device));
    let oldest = reader.and_then(|reader| reader.oldest()).map_or(1, Lsn::get);
    let entries = read(device, false).unwrap_or_default();
    (oldest, entries.iter().flatten().last().map_or(0, |(lsn, _)| *lsn))
}

/// Checks that the fault costs the copy no record, for readers, `verify` and an open.
fn is_whole(world: &World, device: &MemStorage, copy: &MemStorage, what: &str) {
    let seen = |device: &MemStorage| -> seawall::Result<_> {
        let found = keyed::maintenance(&storage(device)).verify()?;
        let read: seawall::Result<Vec<_>> = read(device, true)?.into_iter().collect();
        Ok(((found.records, found.last_lsn, found.verdict <= Verdict::Correctable), read?))
    };
    let Ok((before, records)) = seen(device) else { return };
    match seen(copy) {
        Ok((after, found)) if after == before && found == records => {}
        Ok((after, found)) => world.find(format!(
            "{what}: verify says {after:?}, not {before:?}; {} of {} records are read",
            found.len(),
            records.len()
        )),
        Err(error) => return world.find(format!("{what}: {error:#}")),
    }
    let opened = |device: &MemStorage| -> seawall::Result<Vec<(u64, Vec<u8>)>> {
        let options = plain(world.layout, 9).preallocate(false).idle_mark(None);
        let log: Bytes = options.open_in(Arc::new(device.kill()))?;
        log.read_from(log.oldest())?
            .map(|entry| entry.map(|(lsn, bytes)| (lsn.get(), bytes)))
            .collect()
    };
    let Ok(before) = opened(device) else { return };
    match opened(copy) {
        Ok(found) if found == before => {}
        Ok(found) => {
            let (found, before) = (found.len(), before.len());
            world.find(format!("{what}: an open finds {found} of {before} records"));
        }
        Err(error) => world.find(format!("{what}: an open: {error:#}")),
    }
}

/// Checks that every record that was promised, and that the remaining evidence confirms, is
/// delivered or named as lost.
fn is_there_or_named(
    world: &World,
    copy: &MemStorage,
    (evidence, batches, harmed, seen): (&Evidence, &Batches, &Harmed, (u64, u64)),
    (decay, what): (Decay, &str),
) {
    let bound = evidence.bound(Some(harmed));
    let ledger = world.ledger().clone();
    let found = match keyed::maintenance(&storage(copy)).verify() {
        Ok(found) => found,
        Err(Error::NotALog { .. }) if ledger.durable.min(bound) == 0 => return,
        Err(error) => return world.find(format!("{what}: {error:#}")),
    };
    let entries = match read(copy, true) {
        Ok(entries) => entries,
        Err(error) => return world.find(format!("{what}, a reader: {error:#}")),
    };
    // Only the manifest says where a log begins. Without it, earlier records may return with a file
    // whose removal did not reach the disk.
    let returned = |lsn| lsn < seen.0 && beginnings(copy).is_empty();
    let mut delivered = BTreeMap::new();
    let mut told = vec![];
    for entry in entries {
        let (lsn, payload) = match entry {
            Ok(entry) => entry,
            Err(Error::Damaged { damage, .. }) => {
                told.extend(damage.lost);
                continue;
            }
            Err(_) => continue,
        };
        let is_other = ledger.known(lsn).is_some_and(|known| *known != payload);
        if is_other && !returned(lsn) {
            return world.find(format!("{what}: record {lsn} is delivered with other bytes"));
        }
        delivered.insert(lsn, payload);
    }
    is_looked_up(world, copy, &delivered, what);
    let sure = ledger.sure(bound).min(seen.1);
    // A prune that failed halfway may take effect with an older slot of the manifest.
    let begins = self::seen(copy).0;
    let may_begin = ledger.may_begin_with(begins, oldest(copy).as_ref());
    let first = if may_begin { seen.0.max(begins) } else { seen.0 };
    let named = |lsn: u64| {
        let lost = found.damage.iter().filter_map(|damage| damage.lost);
        lost.chain(told.iter().copied())
            .any(|lost| lost.from.get() <= lsn && lost.to.is_none_or(|to| to.get() >= lsn))
    };
    for lsn in first..=sure {
        if ledger.known(lsn).is_none() || delivered.contains_key(&lsn) {
            continue;
        }
        // Stale and copied bytes may be valid batches, which supersede others.
        let is_plain = [Decay::Bit, Decay::Garbage, Decay::Zeros, Decay::LostFile].contains(&decay);
        if is_plain && batches.is_intact(lsn, harmed) {
            return world
                .find(format!("{what}: record {lsn} is intact and not delivered: {found:?}"));
        }
        if !named(lsn) {
            return world.find(format!(
                "{what}: record {lsn} is silently missing; up to {bound} is confirmed by what is \
                 left ({:?}), {} by promise; {found:?}",
                evidence.witness(Some(harmed)),
                ledger.confirmed
            ));
        }
    }
}

/// Checks that a get by LSN returns what the scan delivered: for the first record, the last, and
/// one in the middle.
fn is_looked_up(world: &World, copy: &MemStorage, delivered: &BTreeMap<u64, Vec<u8>>, what: &str) {
    let reader = match keyed::reader(storage(copy)) {
        Ok(reader) => reader,
        Err(error) => return world.find(format!("{what}, a look by number: {error:#}")),
    };
    let middle = delivered.iter().nth(delivered.len() / 2);
    let some = [delivered.first_key_value(), middle, delivered.last_key_value()];
    for (lsn, payload) in some.into_iter().flatten() {
        match reader.get(Lsn::new(*lsn).expect("a walk delivered it")) {
            Ok(Some(got)) if got == *payload => {}
            Ok(got) => {
                let got = got.map(|got| got.len());
                world.find(format!("{what}: a walk delivers record {lsn}, get {got:?} bytes"));
            }
            Err(error) => world.find(format!("{what}: get of record {lsn}: {error:#}")),
        }
    }
}

/// Repairs copies of a damaged log that does not open, and checks the results. Repairs draw random
/// bits from the machine, so the simulation continues with a new log.
pub(crate) fn mend(world: &World, device: &MemStorage) -> MemStorage {
    mended::probe(world, device, "a log that does not open");
    world.ledger().start_over();
    MemStorage::new()
}
