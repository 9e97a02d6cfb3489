//! Describes actions in words.

use super::actions::Action;
use super::device::{show, DumpRun, SLOTS};
use super::memory::{Run, Store, PENDING};
use super::world::{Server, Step, World};

/// Describes the effect of this action on this state.
pub fn words(w: &World, action: Action) -> String {
    match action {
        Action::Write { offset, size } => {
            let to = sectors(offset, size);
            format!("a client writes {} to {to}", w.writes + 1)
        }
        Action::Flush => flush(w),
        Action::Take { slots } => {
            let taken = (0..SLOTS).filter(|n| slots >> n & 1 == 1).map(|n| runs(w, n));
            format!("the drainer takes {}", taken.collect::<Vec<_>>().join(" and "))
        }
        Action::WriteHome => match &w.server {
            Server::Serving(s) => home(s.flying()[usize::from(s.written)]),
            _ => String::new(),
        },
        Action::SyncHome => "it syncs the home".to_owned(),
        Action::Step => step(
            match &w.server {
                Server::Down => None,
                Server::Starting(starting) => starting.steps.as_ref(),
                Server::Serving(serving) => Some(&serving.steps),
            },
            w,
        ),
        Action::Dump => match &w.server {
            Server::Serving(serving) => step(Some(&serving.dump), w),
            _ => String::new(),
        },
        Action::KillServer => "THE SERVER IS KILLED".to_owned(),
        Action::KillKeeper => "THE KEEPER IS KILLED".to_owned(),
        Action::SyncFails { stays_visible } => {
            let then = if stays_visible { "stays visible" } else { "is gone" };
            format!("THE NEXT SYNC FAILS: what was not durable {then}")
        }
        Action::Announce => "THE POWER FAILURE IS ANNOUNCED".to_owned(),
        Action::LosePower { fate } => {
            let device = w.device.fates().swap_remove(usize::from(fate));
            let home = device.home.map(|sector| show(sector.durable)).join(", ");
            let area =
                device.area.map(|place| place.durable.map_or("-".to_owned(), |r| dumped(&r)));
            format!("THE POWER FAILS: home {home}; area {}", area.join(", "))
        }
        Action::Start { has_keeper: true } => "a server starts".to_owned(),
        Action::Start { has_keeper: false } => "A SERVER STARTS WITHOUT THE KEEPER".to_owned(),
        Action::Put => "the server gives its memory to a keeper".to_owned(),
        Action::Arrive => {
            let (at, sector) = w.late.expect("there is one");
            format!("a write of the killed server arrives: {} to sector {at}", show(sector))
        }
    }
}

fn flush(w: &World) -> String {
    let is_home = matches!(&w.server, Server::Serving(s) if s.ring.dirty() == 0);
    let how = if is_home { "all is on the device" } else { "early" };
    format!("a flush is acknowledged: {how}")
}

fn sectors(offset: u8, size: u8) -> String {
    match size {
        1 => format!("sector {offset}"),
        _ => format!("sectors {offset} to {}", offset + size - 1),
    }
}

fn run(run: &Run) -> String {
    format!("run {} ({})", run.number, sectors(run.offset, run.size))
}

fn runs(w: &World, slot: usize) -> String {
    match &w.server {
        Server::Serving(s) => s.ring.slots[slot].map_or(String::new(), |s| run(&s.run)),
        _ => String::new(),
    }
}

fn dumped(dump: &DumpRun) -> String {
    let bytes = dump.bytes[..usize::from(dump.run.size)].iter().map(|sector| show(*sector));
    let bytes = bytes.collect::<Vec<_>>().join(", ");
    format!("dump {}'s {} with {bytes}", dump.generation, run(&dump.run))
}

fn home((at, sector): (u8, u8)) -> String {
    format!("home: {} to sector {at}", show(sector))
}

fn step(steps: Option<&Vec<Step>>, w: &World) -> String {
    let Some(step) = steps.and_then(|steps| steps.last()) else {
        return "it looks at memory and area".to_owned();
    };
    match step {
        Step::Store(made) => store(*made),
        Step::Acknowledge { .. } => "the write is acknowledged".to_owned(),
        Step::Place { at, run: None } => format!("place {at} of the area is being written"),
        Step::Place { at, run: Some(run) } => format!("place {at} of the area: {}", dumped(run)),
        Step::SyncArea => "it syncs the area".to_owned(),
        Step::Drop => "it lets the keeper drop the memory".to_owned(),
        Step::Note => format!("it notes that it is start {}", w.device.serve.visible + 1),
        Step::SyncNote => "durably".to_owned(),
        Step::Home { at, sector } => home((*at, *sector)),
        Step::SyncHome => "it syncs the home".to_owned(),
        Step::Use { generation } if *generation == w.device.used.visible => {
            "it writes the mark of the used dump again".to_owned()
        }
        Step::Use { generation } => format!("it marks dump {generation} as used"),
        Step::SyncUsed => "durably".to_owned(),
        Step::Put => "it gives new memory to the keeper".to_owned(),
        Step::LayOut => "it lays the memory out".to_owned(),
        Step::Open => "it accepts clients".to_owned(),
    }
}

fn store(store: Store) -> String {
    let part = |half| if half == 0 { "first" } else { "second" };
    match store {
        Store::Copy { slot, at, half, sector } => {
            format!("buffer {slot}: {} half of {} at {at}", part(half), show(sector))
        }
        Store::Stage { at, half, sector } => {
            format!("staging buffer: {} half of {} at {at}", part(half), show(sector))
        }
        Store::Unstage { slot, at, from, half } => {
            format!("buffer {slot}: {} half from staging {from} at {at}", part(half))
        }
        Store::Tear { entry } => format!("{} is being written", entry_name(entry)),
        Store::Publish { entry, run: None } => format!("{}: none", entry_name(entry)),
        Store::Publish { entry, run: Some(named) } => {
            format!("{}: {}", entry_name(entry), run(&named))
        }
    }
}

fn entry_name(entry: u8) -> String {
    if usize::from(entry) == PENDING {
        "the pending entry".to_owned()
    } else {
        format!("the entry of buffer {entry}")
    }
}
