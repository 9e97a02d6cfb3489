//! `seawall-rig qemu`: a QEMU guest with a vhost-user disk writes numbered blocks. The server or
//! QEMU is killed, or the power is cut, and every acknowledged block is looked for.

mod machine;
mod server;

use super::VERSIONS;
use super::work::{Found, Promised, look};
use crate::args::{self, QemuCut};
use crate::process::{Failure, pause};
use crate::rig::say;
use machine::Machine;
pub(crate) use machine::look_for_machine;
use seawall_io::{Entropy, SeededEntropy};
use serde_json::{Value, json};
use server::{Served, Setup};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result of one cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    acknowledged: u64,
    found: Found,
    /// Kills of the server, and how many of them happened with bytes only in memory.
    kills: u32,
    kills_with_bytes: u32,
    /// Whether the server wrote its dump in time.
    is_dumped: bool,
}

/// Runs all cycles. Returns a summary, and whether all is well.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the disk.
pub(crate) fn run(
    args: &args::Qemu,
    (dir, program): (&Path, PathBuf),
) -> Result<(Value, bool), Failure> {
    let machine = Machine::make(&args.kernel, dir)?;
    let mut rig = Rig { args, dir, program, machine, chance: SeededEntropy::new(args.seed) };
    let mut rows = Vec::new();
    for kind in &args.kinds {
        for number in 1..=args.cycles {
            let cycle = rig.cycle(*kind, number)?;
            say(&cycle.line(*kind, number));
            rows.push((*kind, cycle));
        }
    }
    Ok(summary(args, &rows))
}

/// State that outlives a cycle.
struct Rig<'a> {
    args: &'a args::Qemu,
    dir: &'a Path,
    program: PathBuf,
    machine: Machine,
    chance: SeededEntropy,
}

impl Rig<'_> {
    fn cycle(&mut self, kind: QemuCut, number: u32) -> Result<Cycle, Failure> {
        let is_cut = matches!(kind, QemuCut::Announced | QemuCut::Unannounced);
        let (delay, hold_up) = (self.args.delay, self.args.hold_up);
        let is_armed = kind != QemuCut::Waiting;
        let (is_simulated, is_kept) = (is_cut || !is_armed, !is_cut);
        let program = self.program.clone();
        let setup = Setup { program, delay, hold_up, is_simulated, is_armed, is_kept };
        let folder = self.dir.join(format!("{}-{number}", kind.name()));
        let seed = self.args.seed + u64::from(number);
        let mut served = Served::start(setup, folder.clone(), seed)?;
        served.wait_until_armed()?;
        let told = (self.args.clients, u64::from(number) * VERSIONS, seed);
        let mut guest = self.machine.boot(&served.socket(), told)?;
        let (mut promised, mut cycle) = (Promised::new(), Cycle::default());
        guest.wait_for_more(&mut promised)?;
        let is_killed = matches!(kind, QemuCut::Server | QemuCut::Waiting);
        let kills = if is_killed { self.args.kills } else { 0 };
        for kill in 0..kills {
            self.pause(20, 400)?;
            let mut in_memory = served.wait_until_armed()?;
            if kill % 2 == 1 || !is_armed {
                // Not a random moment, but one with something to lose, or to wait for.
                in_memory = served.wait_for_bytes()?;
            }
            if kill % 10 == 9 {
                // To the guest, a restart looks like a kill.
                served.stop()?;
            } else {
                served.kill()?;
                cycle.kills += 1;
                cycle.kills_with_bytes += u32::from(in_memory > 0);
            }
            guest.listen(&mut promised)?;
            // The device may be at a request of the killed server; it finishes that before the
            // next.
            self.pause(100, 200)?;
            served.start_again(seed)?;
            // After this wait, acknowledgements come from the new server.
            served.wait_until_used()?;
            guest.listen(&mut promised)?;
            guest.wait_for_more(&mut promised)?;
        }
        self.pause(500, 1500)?;
        served.wait_until_armed()?;
        if kind == QemuCut::Unannounced {
            // The control needs something to lose.
            served.wait_for_bytes()?;
        }
        if is_cut {
            cycle.is_dumped = served.cut(kind == QemuCut::Announced)?;
        }
        guest.kill(&mut promised)?;
        if is_cut {
            served.start_again(seed)?;
        }
        served.stop()?;
        cycle.acknowledged = u64::try_from(promised.len())?;
        cycle.found = look(&*served.image()?, &mut promised)?;
        drop(served);
        std::fs::remove_dir_all(&folder)?;
        Ok(cycle)
    }

    /// Pauses for a random time, in milliseconds.
    fn pause(&self, least: u64, most: u64) -> Result<(), Failure> {
        let chance = self.chance.random()?;
        pause(Duration::from_millis(least + chance % (most - least)));
        Ok(())
    }
}

impl Cycle {
    fn line(&self, kind: QemuCut, number: u32) -> String {
        let Found { lost, damaged, .. } = self.found;
        let kills = match kind {
            QemuCut::Server | QemuCut::Waiting => {
                format!(", {} kills, {} of them with bytes", self.kills, self.kills_with_bytes)
            }
            QemuCut::Announced if !self.is_dumped => ", NO dump in time".to_owned(),
            _ => String::new(),
        };
        let (name, blocks) = (kind.name(), self.acknowledged);
        format!(
            "{name:>12} {number:>4}   acknowledged {blocks:>6} blocks   lost {lost}, damaged \
             {damaged}{kills}"
        )
    }
}

/// Summarises all cycles.
fn summary(args: &args::Qemu, rows: &[(QemuCut, Cycle)]) -> (Value, bool) {
    let mut kinds = serde_json::Map::new();
    let mut all_fine = !rows.is_empty();
    for kind in &args.kinds {
        let its = || rows.iter().filter(|(its, _)| its == kind).map(|(_, cycle)| cycle);
        let sum = |of: fn(&Cycle) -> u64| its().map(of).sum::<u64>();
        let lost = sum(|cycle| cycle.found.lost + cycle.found.damaged);
        let losing = its().filter(|cycle| cycle.found.lost > 0).count();
        let cycles = its().count();
        let is_fine = match kind {
            // The control: if it mostly keeps everything, the other kinds prove nothing.
            QemuCut::Unannounced => losing * 2 > cycles,
            QemuCut::Announced => lost == 0 && its().all(|cycle| cycle.is_dumped),
            _ => lost == 0,
        };
        all_fine &= is_fine && sum(|cycle| cycle.acknowledged) > 0;
        let row = json!({
            "cycles": cycles,
            "acknowledged": sum(|cycle| cycle.acknowledged),
            "lost": lost,
            "cycles_that_lost": losing,
            "kills": sum(|cycle| u64::from(cycle.kills)),
            "kills_with_bytes_in_memory": sum(|cycle| u64::from(cycle.kills_with_bytes)),
            "as_it_should_be": is_fine,
        });
        kinds.insert(kind.name().to_owned(), row);
    }
    let summary = json!({
        "schema": "seawall.rig.qemu/1",
        "seed": args.seed,
        "clients": args.clients,
        "hold_up_ms": args.hold_up.as_secs_f64() * 1000.0,
        "kinds": kinds,
        "as_it_should_be": all_fine,
    });
    (summary, all_fine)
}
