//! The server's own view of its ring, and the stores to memory that make up a write.

use super::device::{whole, Sector, SLOTS};
use super::memory::{Run, Store, BUFFER, PENDING};
use super::rules::Rules;
use super::world::Config;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    pub run: Run,
    pub is_flying: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Ring {
    pub slots: [Option<Slot>; SLOTS],
    newest: u8,
}

/// Where to store a sector: in a run that holds it, after the end of a run, or in a new run.
enum Home {
    In(usize),
    Behind(usize),
    New,
}

impl Ring {
    pub fn runs(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        self.slots.iter().enumerate().filter_map(|(n, slot)| Some((n, (*slot)?)))
    }

    pub fn dirty(&self) -> u8 {
        self.runs().map(|(_, slot)| slot.run.size).sum()
    }

    /// Returns the slots with their runs, oldest first.
    pub fn by_age(&self) -> Vec<(usize, Run)> {
        let mut runs: Vec<_> = self.runs().map(|(n, slot)| (n, slot.run)).collect();
        runs.sort_by_key(|(_, run)| run.number);
        runs
    }

    /// Returns whether this run may be written home now.
    pub fn may_fly(&self, slot: usize, rules: &Rules) -> bool {
        let Some(own) = self.slots[slot].filter(|own| !own.is_flying) else { return false };
        let blocks = |other: Slot| other.run.number < own.run.number && other.run.meets(&own.run);
        !(rules.older_lands_first && self.runs().any(|(_, other)| blocks(other)))
    }

    fn home(&self, at: u8, end: u8) -> (Home, u8) {
        let holding = self.runs().filter(|(_, slot)| slot.run.holds(at));
        let newest = holding.max_by_key(|(_, slot)| slot.run.number);
        let edges = self.runs().flat_map(|(_, slot)| [slot.run.offset, slot.run.end()]);
        let part = edges.filter(|edge| *edge > at).fold(end, u8::min) - at;
        if let Some((n, slot)) = newest {
            if !slot.is_flying {
                return (Home::In(n), part);
            }
        }
        let number = newest.map_or(0, |(_, slot)| slot.run.number);
        let continues = |(_, slot): &(usize, Slot)| {
            let has_room = usize::from(slot.run.size) < BUFFER;
            slot.run.end() == at && !slot.is_flying && slot.run.number > number && has_room
        };
        match self.runs().filter(continues).max_by_key(|(_, slot)| slot.run.number) {
            Some((n, slot)) => (Home::Behind(n), part.min(BUFFER as u8 - slot.run.size)),
            None => (Home::New, part.min(BUFFER as u8)),
        }
    }

    /// Returns the stores of a write in order, or `None` if there is no room.
    pub fn write(&mut self, (offset, size): (u8, u8), value: u8, c: &Config) -> Option<Vec<Store>> {
        let r = &c.rules;
        let mut stores = vec![];
        let (mut at, end) = (offset, offset + size);
        while at < end {
            let (home, part) = self.home(at, end);
            match home {
                Home::In(slot) => self.overwrite(slot, (at, part), value, r, &mut stores),
                Home::Behind(slot) => {
                    let own = self.slots[slot].as_mut()?;
                    let from = own.run.size;
                    own.run.size += part;
                    add(slot, own.run, (from, part), value, r, &mut stores);
                }
                Home::New => {
                    let slot = self.slots[..c.extent.slots].iter().position(Option::is_none)?;
                    self.newest += 1;
                    let run = Run { number: self.newest, offset: at, size: part };
                    self.slots[slot] = Some(Slot { run, is_flying: false });
                    add(slot, run, (0, part), value, r, &mut stores);
                }
            }
            at += part;
        }
        Some(stores)
    }

    fn overwrite(
        &self,
        slot: usize,
        (at, part): (u8, u8),
        value: u8,
        r: &Rules,
        out: &mut Vec<Store>,
    ) {
        let run = self.slots[slot].expect("it holds these bytes").run;
        let from = at - run.offset;
        if !r.overwrite_by_staging {
            out.extend(copies(slot, (from, part), whole(value)));
            return;
        }
        let sector = whole(value);
        let halves = |part: u8| (0..part).flat_map(|n| [(n, 0), (n, 1)]);
        out.extend(halves(part).map(|(at, half)| Store::Stage { at, half, sector }));
        out.extend(publish(PENDING, Some(Run { number: run.number, offset: at, size: part })));
        let slot = slot as u8;
        out.extend(halves(part).map(|(n, half)| Store::Unstage {
            slot,
            at: from + n,
            from: n,
            half,
        }));
        if r.pending_cleared {
            out.extend(publish(PENDING, None));
        }
    }
}

fn add(slot: usize, run: Run, place: (u8, u8), value: u8, r: &Rules, out: &mut Vec<Store>) {
    let entry = publish(slot, Some(run));
    if r.data_before_entry {
        out.extend(copies(slot, place, whole(value)));
        out.extend(entry);
    } else {
        out.extend(entry);
        out.extend(copies(slot, place, whole(value)));
    }
}

fn copies(slot: usize, (from, part): (u8, u8), sector: Sector) -> impl Iterator<Item = Store> {
    let slot = slot as u8;
    let halves = (from..from + part).flat_map(|at| [(at, 0), (at, 1)]);
    halves.map(move |(at, half)| Store::Copy { slot, at, half, sector })
}

/// Returns the stores that update an entry.
pub fn publish(entry: usize, run: Option<Run>) -> [Store; 2] {
    let entry = entry as u8;
    [Store::Tear { entry }, Store::Publish { entry, run }]
}
