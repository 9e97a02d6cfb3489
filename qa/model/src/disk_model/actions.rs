//! The actions that are possible in a state, and their effects.

use super::device::{HomeSector, SLOTS};
use super::memory::Memory;
use super::ring::publish;
use super::start::{compose, steps};
use super::world::{Config, Keeper, Kinds, Server, Serving, Starting, Step, World, BUDGET};

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    Write {
        offset: u8,
        size: u8,
    },
    Flush,
    /// The drainer takes the runs of these slots, one bit each.
    Take {
        slots: u8,
    },
    WriteHome,
    SyncHome,
    /// The next step of the thread that holds the lock, or of a start.
    Step,
    /// The next step of the dump in an emergency.
    Dump,
    KillServer,
    KillKeeper,
    SyncFails {
        stays_visible: bool,
    },
    Announce,
    LosePower {
        fate: u16,
    },
    Start {
        has_keeper: bool,
    },
    Put,
    Arrive,
}

/// Returns every action that is possible now.
pub fn actions(w: &World, c: &Config) -> Vec<Action> {
    let mut out = vec![];
    match &w.server {
        Server::Down => {
            out.push(Action::Start { has_keeper: true });
            if w.events < c.extent.events && c.extent.kinds == Kinds::All {
                out.push(Action::Start { has_keeper: false });
            }
        }
        Server::Starting(_) => out.push(Action::Step),
        Server::Serving(serving) if !serving.steps.is_empty() => out.push(Action::Step),
        Server::Serving(serving) => serve(w, serving, c, &mut out),
    }
    if w.late.is_some() {
        out.push(Action::Arrive);
    }
    if w.events < c.extent.events {
        faults(w, c.extent.kinds, &mut out);
    }
    if w.may_lose_power(&c.extent) {
        out.extend((0..w.device.fates().len() as u16).map(|fate| Action::LosePower { fate }));
    }
    out
}

fn serve(w: &World, s: &Serving, c: &Config, out: &mut Vec<Action>) {
    let is_emergency = s.emergency.is_some();
    let dirty = s.ring.dirty();
    if w.writes < c.extent.writes && !is_emergency {
        for (offset, size) in [(0, 1), (1, 1), (0, 2)] {
            let is_covered = !c.rules.budget || dirty == 0 || dirty + size <= BUDGET;
            if is_covered && s.ring.clone().write((offset, size), 1, c).is_some() {
                out.push(Action::Write { offset, size });
            }
        }
    }
    let is_covered = !is_emergency && (dirty <= BUDGET || !c.rules.budget);
    let floor = if dirty == 0 { w.truth.durable } else { w.truth.flushed };
    if (dirty == 0 || is_covered) && floor != w.truth.acknowledged {
        out.push(Action::Flush);
    }
    if s.flights.is_empty() && !is_emergency {
        let mask = |n: usize| 1 << n;
        let ready = (0..SLOTS).filter(|n| s.ring.may_fly(*n, &c.rules)).map(mask).sum::<u8>();
        let choices = 1..1 << SLOTS;
        out.extend(choices.filter(|slots| slots & !ready == 0).map(|slots| Action::Take { slots }));
    } else if !s.flights.is_empty() {
        let is_written = s.flying().len() == usize::from(s.written);
        out.push(if is_written { Action::SyncHome } else { Action::WriteHome });
    }
    if s.has_keeper && w.keeper != Keeper::Shared {
        out.push(Action::Put);
    }
    if !s.dump.is_empty() {
        out.push(Action::Dump);
    }
}

fn faults(w: &World, kinds: Kinds, out: &mut Vec<Action>) {
    let mut may_fail = false;
    match &w.server {
        Server::Down => {}
        Server::Starting(starting) => {
            out.push(Action::KillServer);
            let next = starting.steps.as_ref().and_then(|steps| steps.last());
            may_fail = matches!(next, Some(Step::SyncArea | Step::SyncHome | Step::SyncUsed));
        }
        Server::Serving(serving) => {
            out.push(Action::KillServer);
            may_fail = !serving.flights.is_empty()
                && serving.steps.is_empty()
                && serving.flying().len() == usize::from(serving.written);
            let is_first = serving.emergency.is_none() && !w.is_failing;
            if serving.steps.is_empty() && is_first && kinds != Kinds::Kills {
                out.push(Action::Announce);
            }
        }
    }
    // While the lock is held, only its holder could notice that the keeper is gone.
    let is_locked = matches!(&w.server, Server::Serving(s) if !s.steps.is_empty());
    if kinds != Kinds::All {
        return;
    }
    if w.keeper != Keeper::Gone && !is_locked {
        out.push(Action::KillKeeper);
    }
    if may_fail {
        let both = [true, false].map(|stays_visible| Action::SyncFails { stays_visible });
        out.extend(both);
    }
}

/// Returns the state after the action, or the promise that the action breaks.
pub fn apply(before: &World, action: Action, c: &Config) -> Result<World, String> {
    let mut w = before.clone();
    match action {
        Action::LosePower { fate } => {
            let device = w.device.fates().swap_remove(usize::from(fate));
            w.power_fails(device);
        }
        Action::Start { has_keeper } => {
            w.events += u8::from(!has_keeper);
            if !has_keeper {
                // Data that is only in the keeper's memory is lost.
                w.truth.needed = w.truth.durable;
                w.truth.may_refuse = true;
            }
            let is_alone = false;
            w.server = Server::Starting(Starting { steps: None, has_keeper, is_alone });
        }
        Action::KillServer => {
            w.events += 1;
            w.server_dies(&c.rules);
        }
        Action::KillKeeper => {
            w.events += 1;
            w.keeper_dies();
        }
        Action::Put => w.keeper = Keeper::Shared,
        Action::Arrive => {
            let (at, sector) = w.late.take().unwrap();
            w.device.home[usize::from(at)].write(sector);
        }
        Action::SyncFails { stays_visible } => sync_fails(&mut w, stays_visible, c),
        Action::Step if matches!(w.server, Server::Starting(_)) => start(&mut w, c)?,
        _ => served(&mut w, action, c),
    }
    w.read().map(|()| w)
}

fn sync_fails(w: &mut World, stays_visible: bool, c: &Config) {
    w.events += 1;
    let failed = |sector: &mut HomeSector| sector.sync_failed(stays_visible);
    match &mut w.server {
        Server::Serving(s) => {
            w.device.home.iter_mut().for_each(failed);
            for slot in std::mem::take(&mut s.flights).into_iter().rev() {
                let slot = usize::from(slot);
                let own = s.ring.slots[slot].as_mut().unwrap();
                own.is_flying = false;
                if !c.rules.cleared_after_sync {
                    let entry = publish(slot, Some(own.run));
                    s.steps.extend(entry.map(Step::Store).into_iter().rev());
                }
            }
            s.written = 0;
        }
        Server::Starting(starting) => {
            match starting.steps.as_ref().and_then(|steps| steps.last()) {
                Some(Step::SyncHome) => w.device.home.iter_mut().for_each(failed),
                Some(Step::SyncUsed) => w.device.used.sync_failed(stays_visible),
                _ => w.device.area.iter_mut().for_each(|place| place.sync_failed(stays_visible)),
            }
            w.server_dies(&c.rules);
        }
        Server::Down => {}
    }
}

/// Performs the next step of a start.
fn start(w: &mut World, c: &Config) -> Result<(), String> {
    let Server::Starting(starting) = &w.server else { return Ok(()) };
    let has_keeper = starting.has_keeper;
    let step = match starting.steps.clone() {
        None => {
            let steps = steps(w, has_keeper, &c.rules)?;
            let Server::Starting(starting) = &mut w.server else { return Ok(()) };
            starting.steps = Some(steps);
            return Ok(());
        }
        Some(mut steps) => {
            let step = steps.pop().expect("it opens last");
            let Server::Starting(starting) = &mut w.server else { return Ok(()) };
            starting.steps = Some(steps);
            step
        }
    };
    let device = &mut w.device;
    match step {
        Step::Place { at, run } => device.area[usize::from(at)].write(run),
        Step::SyncArea => {
            device.sync_area();
            w.truth.durable = w.truth.needed;
        }
        Step::Drop if w.keeper != Keeper::Gone => w.keeper = Keeper::Empty,
        Step::Note => device.serve.write(device.serve.visible + 1),
        Step::SyncNote => device.serve.sync(),
        Step::Home { at, sector } => device.home[usize::from(at)].write(sector),
        Step::SyncHome => device.sync_home(),
        Step::Use { generation } => device.used.write(generation),
        Step::SyncUsed => device.used.sync(),
        Step::Put => {
            let mut memory = Memory::new(device.serve.visible);
            memory.is_laid_out = c.rules.laid_out_before_kept;
            w.keeper = Keeper::Holds(Box::new(memory));
            w.truth.may_refuse = false;
        }
        Step::LayOut => {
            if let Keeper::Holds(memory) = &mut w.keeper {
                memory.is_laid_out = true;
            }
        }
        Step::Open => {
            w.open()?;
            let memory = Memory::new(w.device.serve.visible);
            if has_keeper && w.keeper == Keeper::Holds(Box::new(memory.clone())) {
                w.keeper = Keeper::Shared;
            }
            w.server = Server::Serving(Box::new(Serving::new(memory, has_keeper)));
        }
        _ => {}
    }
    Ok(())
}

/// Performs an action of a running server.
fn served(w: &mut World, action: Action, c: &Config) {
    let World { device, truth, server: Server::Serving(s), .. } = w else { return };
    match action {
        Action::Write { offset, size } => {
            w.writes += 1;
            let value = w.writes;
            for n in offset..offset + size {
                truth.written[usize::from(n)] |= 1 << value;
            }
            let stores = s.ring.write((offset, size), value, c).unwrap();
            s.steps = stores.into_iter().map(Step::Store).collect();
            s.steps.push(Step::Acknowledge { offset, size, value });
            s.steps.reverse();
        }
        Action::Flush => {
            truth.flushed = truth.acknowledged;
            if s.ring.dirty() == 0 {
                truth.durable = truth.acknowledged;
            }
        }
        Action::Take { slots } => {
            s.flights = (0..SLOTS as u8).filter(|n| slots >> n & 1 == 1).collect();
            for slot in &s.flights {
                s.ring.slots[usize::from(*slot)].as_mut().unwrap().is_flying = true;
            }
        }
        Action::WriteHome => {
            let flying = s.flying();
            let (at, sector) = flying[usize::from(s.written)];
            device.home[usize::from(at)].write(sector);
            s.written += 1;
            if !c.rules.cleared_after_sync && flying.len() == usize::from(s.written) {
                s.steps = cleared(&s.flights);
            }
        }
        Action::SyncHome => {
            device.sync_home();
            if c.rules.cleared_after_sync {
                s.steps = cleared(&s.flights);
            }
            for slot in std::mem::take(&mut s.flights) {
                s.ring.slots[usize::from(slot)] = None;
            }
            s.written = 0;
        }
        Action::Announce => {
            w.events += 1;
            w.is_failing = true;
            let aged = s.ring.by_age().into_iter();
            let runs: Vec<_> = aged.map(|(n, run)| (run, s.memory.buffers[n])).collect();
            s.emergency = Some(s.ring.dirty());
            (s.dump, _) = compose(&runs, device.newest_generation() + 1);
            s.dump.push(Step::SyncArea);
            s.dump.reverse();
        }
        Action::Step => match s.steps.pop().expect("there is one") {
            Step::Store(store) => s.memory.store(store, c.rules.two_copies),
            Step::Acknowledge { offset, size, value } => {
                for n in offset..offset + size {
                    truth.acknowledged[usize::from(n)] = value;
                }
            }
            _ => {}
        },
        Action::Dump => match s.dump.pop().expect("there is one") {
            Step::Place { at, run } => device.area[usize::from(at)].write(run),
            _ => {
                device.sync_area();
                truth.durable = truth.acknowledged;
                s.has_dumped = true;
            }
        },
        _ => {}
    }
}

fn cleared(flights: &[u8]) -> Vec<Step> {
    let entries = flights.iter().flat_map(|slot| publish(usize::from(*slot), None));
    let mut steps: Vec<_> = entries.map(Step::Store).collect();
    steps.reverse();
    steps
}
