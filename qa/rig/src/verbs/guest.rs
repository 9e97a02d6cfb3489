//! Repeated kernel panics of a guest, and a comparison of the inserts that survive with those
//! acknowledged.

pub(crate) mod uml;

use crate::args::{Buffers, Guest as Args, Transport};
use crate::disk::{Disk, Settings};
use crate::need::Ground;
use crate::process::{Failure, pause, run as run_tool};
use crate::rig::say;
use crate::verbs::crash::Outcome;
use crate::verbs::guest::uml::{Guest, Machine, make_root};
use seawall_io::{Clock, SystemClock};
use serde_json::{Value, json};
use std::time::Duration;

/// Acknowledged inserts that the rig needs before a panic.
const ENOUGH: u64 = 20;

/// A running guest, and its disk.
#[derive(Debug)]
struct Rig {
    disk: Disk,
    machine: Machine,
    guest: Guest,
}

/// One panic.
#[derive(Clone, Debug)]
pub(crate) struct Panic {
    outcome: Outcome,
    /// Flushes from the guest's boot to its panic that returned immediately, and that waited.
    flushes: [u64; 2],
}

/// Runs all cycles.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the disk.
pub(crate) fn run(args: &Args, ground: &Ground) -> Result<Vec<Panic>, Failure> {
    make_root(ground, &args.root)?;
    let mut panics = Vec::new();
    let mut kept = None;
    for cycle in 1..=args.cycles {
        let rig = match kept.take() {
            Some(rig) => rig,
            None => made(args, ground, cycle)?,
        };
        let (panic, rig) = panic(rig, cycle)?;
        say(&panic.outcome.line());
        panics.push(panic);
        kept = rig;
    }
    if let Some(rig) = kept {
        rig.guest.stop()?;
    }
    Ok(panics)
}

fn made(args: &Args, ground: &Ground, cycle: u32) -> Result<Rig, Failure> {
    let transport = Transport::Loop;
    let (delay, hold_up, buffers) = (args.delay, args.hold_up, Buffers::USUAL);
    let settings = Settings { delay, is_cut: true, hold_up, transport, buffers };
    let disk = Disk::make_file(ground, &format!("disk-{cycle}"), settings)?;
    let now = "-Enodiscard,lazy_itable_init=0,lazy_journal_init=0";
    run_tool(&["mkfs.ext4", "-q", "-F", now, &disk.file().display().to_string()])?;
    disk.set_armed(true)?;
    let name = format!("guest-{cycle}");
    let machine = Machine::make((ground, &name), (&args.root, &disk.file()), !args.without_fsync)?;
    let (guest, ..) = machine.boot(0)?;
    Ok(Rig { disk, machine, guest })
}

/// Runs one panic and the boot after it. Returns the rig only if nothing was lost.
fn panic(rig: Rig, cycle: u32) -> Result<(Panic, Option<Rig>), Failure> {
    let Rig { disk, machine, mut guest } = rig;
    // A device that was slow for a while may have disarmed the disk.
    disk.set_armed(true)?;
    let before = disk.flushes()?;
    guest.count(ENOUGH)?;
    // A different moment in each cycle, but the same whenever that cycle is repeated.
    pause(Duration::from_millis(1500 + u64::from(cycle) * 379 % 1500));
    let after = disk.flushes()?;
    let acknowledged = guest.panic()?;

    let clock = SystemClock::new();
    let booted = machine.boot(acknowledged);
    let back_ms = u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX);
    let mut outcome = Outcome { cycle, acknowledged, found: None, max: 0, back_ms, why: None };
    let rig = match booted {
        Ok((guest, found, max)) => {
            (outcome.found, outcome.max) = (Some(found), max);
            Some(Rig { disk, machine, guest })
        }
        Err(why) => {
            outcome.why = Some(format!("{why}\n{}", disk.said()));
            None
        }
    };
    let [early, waited] = before;
    let [early_after, waited_after] = after;
    let flushes = [early_after.saturating_sub(early), waited_after.saturating_sub(waited)];
    // A key that is lost once would count as lost in every later cycle, too.
    let rig = rig.filter(|_| outcome.lost() == 0);
    Ok((Panic { outcome, flushes }, rig))
}

/// Returns the summary as JSON, and whether the result is as expected.
pub(crate) fn summary(args: &Args, panics: &[Panic]) -> (Value, bool) {
    let is_losing = |panic: &&Panic| panic.outcome.lost() > 0 || panic.outcome.found.is_none();
    let losing = panics.iter().filter(is_losing).count();
    let is_fine = if args.without_fsync {
        // The control must lose keys, or a panic of the guest takes nothing away.
        losing * 2 > panics.len()
    } else {
        // If no flush returned early, the disk had nothing to lose.
        let has_tried = panics.iter().all(|panic| panic.flushes.first() > Some(&0));
        losing == 0 && has_tried && !panics.is_empty()
    };
    let each = |panic: &Panic| {
        let [early, waited] = panic.flushes;
        let mut value = panic.outcome.as_json();
        if let Some(value) = value.as_object_mut() {
            value.insert("flushes_at_once".to_owned(), early.into());
            value.insert("flushes_waited".to_owned(), waited.into());
        }
        value
    };
    let summary = json!({
        "schema": "seawall.rig.guest/1",
        "fsync": !args.without_fsync,
        "delay_ms": args.delay,
        "hold_up_ms": args.hold_up,
        "cycles": panics.len(),
        "lost": panics.iter().map(|panic| panic.outcome.lost()).sum::<u64>(),
        "cycles_that_lost": losing,
        "as_it_should_be": is_fine,
        "about": "The guest's kernel panics; the disk's server and its device live on. The log is \
                  on the disk, past the cache of the machine; the data directory is on a file of \
                  the machine, whose cache is kept. Keys count on from cycle to cycle.",
        "outcomes": panics.iter().map(each).collect::<Vec<_>>(),
    });
    (summary, is_fine)
}
