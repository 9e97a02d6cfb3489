//! Refuses blocks of copies of what a life left, as a failing device does. Nobody may take what is
//! behind such a block for the end of the log.

use seawall::verify::Verdict;
use seawall_testkit::{Dice, MemStorage};

use crate::keyed;
use crate::look::{mended, storage};
use crate::run::read;
use crate::world::{World, to_u64, to_usize};

/// Size of a block in bytes.
const SIZE: usize = 512;

/// Tries the last block that was written, and `count` others.
pub(crate) fn probe(world: &World, device: &MemStorage, (count, seed): (u64, u64)) {
    let Ok(verified) = keyed::maintenance(&storage(device)).verify() else { return };
    if verified.verdict == Verdict::Lost {
        return;
    }
    let holds_records = |name: &String| {
        name.rsplit_once('.').is_some_and(|(_, kind)| ["seg", "jsonl"].contains(&kind))
    };
    let used = |name: &String| {
        let bytes = device.bytes(name).unwrap_or_default();
        bytes.iter().rposition(|byte| *byte != 0).map(|last| last / SIZE)
    };
    let files = device.names().into_iter().filter(holds_records);
    let files: Vec<_> = files.filter_map(|name| used(&name).map(|last| (name, last))).collect();
    let mut dice = Dice::new(seed);
    let mut blocks: Vec<_> = files.last().cloned().into_iter().collect();
    for _ in 0..count {
        let one = dice.pick(&files).cloned();
        blocks.extend(one.map(|(name, last)| (name, to_usize(dice.below(to_u64(last) + 2)))));
    }
    for (name, block) in blocks {
        if let Err(why) = shows_what_is_lost(device, (&name, block), verified.records) {
            world.find(format!("block {block} of {name} is refused: {why}"));
            return;
        }
    }
}

/// Checks that a reader ends with an error, and that a repair and a salvage name a loss, unless
/// they have all `count` records.
fn shows_what_is_lost(
    device: &MemStorage,
    (name, block): (&str, usize),
    count: u64,
) -> Result<(), String> {
    let copy = device.kill();
    copy.fail_read(name, block * SIZE..(block + 1) * SIZE);
    if let Ok(found) = read(&copy, false)
        && found.iter().all(Result::is_ok)
        && to_u64(found.len()) < count
    {
        return Err(format!("a reader ends after {} of {count} records", found.len()));
    }
    if let Ok(plan) = keyed::maintenance(&storage(&copy)).plan_repair()
        && plan.after.verdict != Verdict::Lost
        && plan.after.records < count
    {
        return Err(format!("a repair loses nothing, of {count} records: {:?}", plan.after));
    }
    let target = MemStorage::new();
    let Ok(rescued) = keyed::maintenance(&storage(&copy)).salvage_to(storage(&target)) else {
        return Ok(());
    };
    if rescued.damage.iter().all(|damage| damage.lost.is_none()) && rescued.records < count {
        return Err(format!("a salvage loses nothing, of {count} records: {rescued:?}"));
    }
    mended::holds(&target, device, rescued.records)
}
