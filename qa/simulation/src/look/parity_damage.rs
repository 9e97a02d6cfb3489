//! Damages copies of what a life left, within the strength of their parity. No reader may lose a
//! record.

use std::ops::Range;
use std::sync::Arc;

use seawall::verify::Verdict;
use seawall::{Lsn, Options};
use seawall_format::parity::{Head, Known, Places};
use seawall_format::{HEADER_SIZE, Manifest, SegmentHeader, SegmentId};
use seawall_io::Storage;
use seawall_testkit::{Dice, MemStorage};

use crate::keyed;
use crate::look::contents;
use crate::run::read;
use crate::world::{Bytes, World, is_parity, to_u64, to_usize};

/// One stripe, and the damage that it can bear.
struct Stripe {
    file: String,
    /// For each data block, the range that the slot covers.
    blocks: Vec<Range<usize>>,
    /// For each data block, whether it matches its checksum in the slot.
    sound: Vec<bool>,
    /// Whether only zeros follow the covered range in the last block.
    ends_blank: bool,
    /// Whether the covered range extends to the end of the last block, or of the file.
    ends_whole: bool,
    /// How many of the data blocks can be lost.
    strength: usize,
}

/// The damage that the parity of a log can restore.
#[derive(Default)]
struct Strength {
    stripes: Vec<Stripe>,
    /// Files whose header has a copy in parity, each with the file of its records.
    heads: Vec<(String, String)>,
}

/// The LSNs and payloads that a log delivers.
type Records = Vec<(u64, Vec<u8>)>;

/// Tries `count` damages on copies; returns the number of lost blocks.
///
/// `is_sound`: so far only the log changed the parity.
pub(crate) fn probe(
    world: &World,
    device: &MemStorage,
    (is_sound, options): (bool, &Options),
    (count, seed): (u64, u64),
) -> u64 {
    let Some(mut strength) = strength(world, device, is_sound) else { return 0 };
    let Ok(records) = delivered(device) else { return 0 };
    let Ok(verdict) = keyed::maintenance(&storage(device)).verify() else { return 0 };
    if !is_closed(device, records.last().map(|(lsn, _)| *lsn)) {
        strength.give_the_end();
    }
    let Ok(kept) = opened(&device.kill(), options) else { return 0 };
    let (mut dice, mut lost) = (Dice::new(seed), 0);
    for _ in 0..count {
        let copy = device.kill();
        let done = strength.damage(&copy, &mut dice);
        lost += u64::try_from(done.len()).expect("a small number");
        let judged = is_as_it_was(&copy, (&records, verdict.records))
            .and_then(|()| opens_as_it_was(&copy, options, &kept));
        if let Err(why) = judged {
            world.find(format!("within the strength of the parity: {why}: {done:?}"));
            break;
        }
    }
    lost
}

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

fn delivered(device: &MemStorage) -> seawall::Result<Records> {
    read(device, false)?.into_iter().collect()
}

fn opened(device: &MemStorage, options: &Options) -> seawall::Result<Records> {
    let log: Bytes = options.open_in(Arc::new(device.clone()))?;
    let entries = log.read_from(log.oldest())?;
    entries.map(|entry| entry.map(|(lsn, payload)| (lsn.get(), payload))).collect()
}

/// Whether the log was closed cleanly with `last` as its last record, and not opened since.
fn is_closed(device: &MemStorage, last: Option<u64>) -> bool {
    let bytes = device.bytes("manifest").unwrap_or_default();
    let slots = Manifest::decode_file(&bytes).into_iter().flatten();
    let closed = slots.max_by_key(|slot| slot.sequence).and_then(|newest| newest.end());
    let newest = device.names().iter().filter_map(|name| SegmentId::from_any_name(name)).max();
    closed.is_some_and(|closed| {
        Some(closed.segment.id) == newest && closed.last.map(Lsn::get) == last
    })
}

fn is_as_it_was(device: &MemStorage, (records, count): (&Records, u64)) -> Result<(), String> {
    let before = contents(device);
    let found = delivered(device).map_err(|error| format!("a reader: {error:#}"))?;
    if found != *records {
        return Err(differ("a reader", records, &found));
    }
    let found = keyed::maintenance(&storage(device))
        .verify()
        .map_err(|error| format!("verify: {error:#}"))?;
    if found.verdict == Verdict::Lost || found.records != count {
        return Err(format!("verify, where {count} records were: {found:?}"));
    }
    let reader = keyed::reader(Arc::new(device.clone()));
    let reader = reader.map_err(|error| format!("a reader opens: {error:#}"))?;
    for (lsn, payload) in records.iter().step_by(1 + records.len() / 4) {
        let got = reader.get(Lsn::new(*lsn).expect("it was one"));
        let got = got.map_err(|error| format!("get {lsn}: {error:#}"))?;
        if got.as_ref() != Some(payload) {
            return Err(format!(
                "get {lsn} gives {:?} bytes, not {}",
                got.map(|got| got.len()),
                payload.len()
            ));
        }
    }
    if contents(device) != before {
        return Err("a reader changed something".to_owned());
    }
    Ok(())
}

fn opens_as_it_was(device: &MemStorage, options: &Options, kept: &Records) -> Result<(), String> {
    let found = opened(device, options).map_err(|error| format!("an open: {error:#}"))?;
    if found == *kept { Ok(()) } else { Err(differ("an open", kept, &found)) }
}

fn differ(who: &str, was: &Records, is: &Records) -> String {
    let ends = |of: &Records| (of.first().map(|one| one.0), of.last().map(|one| one.0));
    format!("{who} had {:?}, and has {:?}", ends(was), ends(is))
}

/// Returns what parity can restore, or `None` after a finding.
fn strength(world: &World, device: &MemStorage, is_sound: bool) -> Option<Strength> {
    let mut found = Strength::default();
    for name in device.names().into_iter().filter(|name| is_parity(name)) {
        let parity = device.bytes(&name).unwrap_or_default();
        let Ok(head) = Head::decode_file(&parity) else { continue };
        let bytes = device.bytes(&head.header.head_name()).unwrap_or_default();
        if SegmentHeader::decode(&bytes).ok().as_ref() != Some(&head.header)
            || head.header.id.parity_name() != name
        {
            continue;
        }
        found.heads.push((head.header.head_name(), head.header.data_name()));
        if let Err(why) = found.add((&head, &parity), device)
            && is_sound
        {
            world.find(format!("{name} covers {}, and {why}", head.covered));
            return None;
        }
    }
    Some(found)
}

impl Strength {
    fn add(&mut self, (head, parity): (&Head, &[u8]), device: &MemStorage) -> Result<(), String> {
        let places = Places::of(&head.header, head.scheme);
        let file = head.header.data_name();
        let data = device.bytes(&file).unwrap_or_default();
        let (block, length) = (places.block(), to_u64(data.len()));
        for number in (0..).take_while(|number| places.stripe_at(*number) < length) {
            let is_covered = places.stripe_at(number + 1) <= head.covered;
            let slot = parity.get(to_usize(places.slot_at(number).0)..).unwrap_or_default();
            let Some(known) = Known::decode(slot, number, &places) else {
                if is_covered {
                    return Err(format!("stripe {number} has no slot"));
                }
                continue;
            };
            let size = to_usize(places.stripe_size());
            if is_covered && known.covered < size {
                return Err(format!("stripe {number} has {} bytes", known.covered));
            }
            let from = to_usize(places.stripe_at(number));
            let end = data.len().min(from + known.covered);
            let mut stripe = data.get(from..end).unwrap_or_default().to_vec();
            stripe.resize(size, 0);
            let own = slot.get(places.known_size()..).unwrap_or_default();
            let all = stripe.chunks(block).chain(own.chunks(block));
            let all = all.zip(&known.checksums).map(|(block, sum)| Known::checksum(block) == *sum);
            let all: Vec<bool> = all.collect();
            let (sound, lost) = all.split_at_checked(head.scheme.data()).unwrap_or_default();
            let sound_parity = lost.iter().filter(|sound| **sound).count();
            let lost = sound.iter().filter(|sound| !**sound).count();
            if is_covered && sound_parity < head.scheme.parity() {
                return Err(format!("stripe {number} has {sound_parity} blocks of parity"));
            }
            let blocks: Vec<_> =
                (from..end).step_by(block).map(|at| at..end.min(at + block)).collect();
            let behind = data.get(end..data.len().min(end.next_multiple_of(block)));
            self.stripes.push(Stripe {
                file: file.clone(),
                blocks,
                sound: sound.to_vec(),
                ends_blank: behind.unwrap_or_default().iter().all(|byte| *byte == 0),
                ends_whole: behind.unwrap_or_default().is_empty(),
                strength: sound_parity.saturating_sub(lost),
            });
        }
        Ok(())
    }

    /// Excludes that the device refuses the last block, if parity knows only the beginning of it:
    /// without a clean close, nothing shows that the log ends there.
    fn give_the_end(&mut self) {
        if let Some(last) = self.stripes.last_mut() {
            last.ends_blank &= last.ends_whole;
        }
    }

    /// Damages the device; returns the damaged ranges.
    fn damage(&self, device: &MemStorage, dice: &mut Dice) -> Vec<(String, Range<usize>)> {
        let mut done = vec![];
        for stripe in &self.stripes {
            let mut left: Vec<_> = (0..stripe.blocks.len()).collect();
            for _ in 0..dice.below(to_u64(stripe.strength) + 1) {
                let Some(at) = dice.pick(&(0..left.len()).collect::<Vec<_>>()).copied() else {
                    break;
                };
                let number = left.swap_remove(at);
                let Some(bytes) = stripe.blocks.get(number) else { continue };
                let is_last = number + 1 == stripe.blocks.len();
                let may_refuse = !is_last || stripe.ends_blank;
                spoil(device, (&stripe.file, bytes.clone()), may_refuse, dice);
                done.push((stripe.file.clone(), bytes.clone()));
            }
        }
        for (name, data) in &self.heads {
            // A header can be restored only if an intact block of its segment is left that is not
            // blank.
            let is_left = |bytes: &Range<usize>| {
                let is_lost = done.contains(&(data.clone(), bytes.clone()));
                let there = device.bytes(data).unwrap_or_default();
                let there = there.get(bytes.clone()).unwrap_or_default();
                !is_lost && there.iter().any(|byte| *byte != 0)
            };
            let own = self.stripes.iter().filter(|stripe| stripe.file == *data);
            let sound = own.flat_map(|stripe| stripe.blocks.iter().zip(&stripe.sound));
            let mut sound = sound.filter(|(_, is_sound)| **is_sound).map(|(block, _)| block);
            if dice.one_in(4) && sound.any(is_left) {
                spoil(device, (name, 0..HEADER_SIZE), true, dice);
                done.push((name.clone(), 0..HEADER_SIZE));
            }
        }
        done
    }
}

fn spoil(
    device: &MemStorage,
    (file, bytes): (&str, Range<usize>),
    may_refuse: bool,
    dice: &mut Dice,
) {
    let (kind, noise) = (dice.below(5), dice.any());
    if kind == 0 && may_refuse {
        return device.fail_read(file, bytes);
    }
    let place = bytes.start + to_usize(dice.below(to_u64(bytes.len())));
    device.edit(file, |all| {
        let all = all.get_mut(if kind == 1 { place } else { bytes.start }..bytes.end);
        let all = all.unwrap_or_default();
        match kind {
            1 => all.iter_mut().take(1).for_each(|byte| *byte ^= 1 << (noise % 8)),
            2 => all.fill(0),
            _ => {
                let mut noise = Dice::new(noise);
                for byte in all {
                    *byte ^= noise.any().to_le_bytes()[0];
                }
            }
        }
    });
}
