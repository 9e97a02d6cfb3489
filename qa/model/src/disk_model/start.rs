//! A start: how it handles the memory of the previous server, and a dump.

use super::device::{DumpRun, Sector};
use super::memory::{Buffer, Memory, Run};
use super::rules::Rules;
use super::world::{Keeper, Step, World};

/// Returns the steps that write a dump of these runs, and the dump's runs by place.
pub fn compose(runs: &[(Run, Buffer)], generation: u8) -> (Vec<Step>, Vec<DumpRun>) {
    let count = runs.len() as u8;
    let dumped =
        |(run, bytes): &(Run, Buffer)| DumpRun { generation, count, run: *run, bytes: *bytes };
    let dump: Vec<_> = runs.iter().map(dumped).collect();
    let places = (0..).zip(&dump);
    let steps = places.flat_map(|(at, run)| {
        [Step::Place { at, run: None }, Step::Place { at, run: Some(run.clone()) }]
    });
    (steps.collect(), dump)
}

/// Returns the runs of the memory in the order in which they are dumped.
fn usable(mut memory: Memory, r: &Rules) -> Vec<(Run, Buffer)> {
    if r.pending_redone {
        memory.redo();
    }
    let mut runs = memory.runs();
    if r.restored_in_order {
        runs.sort_by_key(|(run, _)| run.number);
    }
    runs
}

fn sectors(dump: &DumpRun) -> impl Iterator<Item = (u8, Sector)> + '_ {
    (dump.run.offset..dump.run.end()).zip(dump.bytes)
}

/// Returns the steps that mark this dump as used, or that make the existing mark durable.
fn mark(generation: Option<u8>, used: u8, r: &Rules) -> Vec<Step> {
    let generation = match generation {
        None if !r.mark_synced => return vec![],
        None if !r.mark_rewritten => return vec![Step::SyncUsed],
        None => used,
        Some(generation) => generation,
    };
    vec![Step::Use { generation }, Step::SyncUsed]
}

/// Returns all steps of a start, the first one last. Nothing else changes the machine meanwhile.
pub fn steps(world: &World, has_keeper: bool, r: &Rules) -> Result<Vec<Step>, String> {
    let device = &world.device;
    let memory = match &world.keeper {
        Keeper::Holds(memory) if has_keeper => Some((**memory).clone()),
        _ => None,
    };
    let counts = |memory: &Memory| memory.serve == device.serve.visible || !r.own_serve;
    let is_wrong = |memory: &Memory| !counts(memory) && !memory.runs().is_empty();
    let is_refused = memory.as_ref().is_some_and(|memory| !memory.is_laid_out || is_wrong(memory));
    if is_refused && !world.truth.may_refuse {
        return Err("the start refuses memory needlessly".to_owned());
    }
    // After a refusal, the operator discards the memory.
    let runs = memory.filter(counts).map_or(vec![], |memory| usable(memory, r));

    let waiting = device.dump();
    let is_whole = waiting.as_ref().is_some_and(|(_, is_whole)| *is_whole);
    let mut dump = waiting.map_or(vec![], |(runs, _)| runs);
    let mut out = vec![];
    let is_ignored = is_whole && r.whole_dump_stays;
    if !runs.is_empty() && !is_ignored {
        let newest =
            if r.fresh_generation { device.newest_generation() } else { device.used.visible };
        let (places, composed) = compose(&runs, newest + 1);
        dump = composed;
        out.extend(places);
        out.push(Step::SyncArea);
    }
    if has_keeper {
        let at = match (r.dumped_before_drop, r.synced_before_drop) {
            (false, _) => 0,
            (_, false) => out.len().saturating_sub(1),
            _ => out.len(),
        };
        out.insert(at, Step::Drop);
    }
    let note = [Step::Note, Step::SyncNote];
    if r.dropped_before_note {
        out.extend(note);
    } else {
        out.splice(0..0, note);
    }
    if r.restored_in_order {
        dump.sort_by_key(|run| run.run.number);
    }
    out.extend(dump.iter().flat_map(sectors).map(|(at, sector)| Step::Home { at, sector }));
    let generation = dump.first().map(|run| run.generation);
    let sync = (generation.is_some() || r.home_synced).then_some(Step::SyncHome);
    let used = mark(generation, device.used.visible, r);
    if r.used_after_sync {
        out.extend(sync);
        out.extend(used);
    } else {
        out.extend(used);
        out.extend(sync);
    }
    if has_keeper && r.kept_before_write {
        out.push(Step::Put);
        out.extend((!r.laid_out_before_kept).then_some(Step::LayOut));
    }
    out.push(Step::Open);
    out.reverse();
    Ok(out)
}
