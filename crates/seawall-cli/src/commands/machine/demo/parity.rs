//! Adds parity to a copy of the log: every reader sees a flipped bit and an erased block restored.

use super::damage::{Found, erase, flip_in};
use super::rescue::is_rest_of;
use super::stage::trouble;
use seawall::parity::Parity;
use seawall::verify::Verdict;
use seawall::{Lsn, Maintenance};
use seawall_io::{Entropy, SeededEntropy};
use seawall_output::report::Failure;
use seawall_output::text::to_u64;
use serde::Serialize;
use std::path::Path;

/// The copy of the log with parity.
const COPY: &str = "parity.wal";
/// The smallest unit that a device loses.
pub(super) const BLOCK: usize = 4096;

/// The result of both kinds of damage.
#[derive(Debug, Serialize)]
pub(super) struct Mended {
    pub(super) scheme: String,
    /// The record in which a bit was flipped.
    pub(super) lsn: u64,
    /// How many records the log has.
    pub(super) records: u64,
    /// Whether all records could be read with the flipped bit.
    pub(super) bit_corrected: bool,
    pub(super) erased_bytes: usize,
    /// Whether all records could be read with an erased block as well.
    pub(super) block_corrected: bool,
}

impl Mended {
    pub(super) fn holds(&self) -> bool {
        self.bit_corrected && self.block_corrected
    }
}

/// Copies the log into `folder`, adds parity, and damages the copy twice.
pub(super) fn damage_and_read(
    log: &Path,
    folder: &Path,
    dice: &SeededEntropy,
) -> Result<Mended, Failure> {
    let damaged = folder.join(COPY);
    let fail = |error| Failure::of(&error, "demo", &damaged);
    let refused = |error| trouble("damage the copy with parity", &error);
    Maintenance::at(log).back_up(&damaged).map_err(fail)?;
    Maintenance::at(&damaged).build_parity(Parity::DEFAULT).map_err(fail)?;
    let records = Maintenance::at(&damaged).verify().map_err(fail)?.records;
    let draw = dice.random().map_err(|error| trouble("draw a number", &error))?;
    let lsn = Lsn::new(1 + draw % records.max(1)).expect("not 0");
    let Found { file, at, .. } = flip_in(&damaged, lsn, dice).map_err(refused)?;
    let bit_corrected = is_put_right(&damaged, log).map_err(fail)?;
    // The start of the block that contains the flipped bit.
    let start = at / to_u64(BLOCK) * to_u64(BLOCK);
    erase(&damaged, &file, start, BLOCK).map_err(refused)?;
    Ok(Mended {
        scheme: Parity::DEFAULT.to_string(),
        lsn: lsn.get(),
        records,
        bit_corrected,
        erased_bytes: BLOCK,
        block_corrected: is_put_right(&damaged, log).map_err(fail)?,
    })
}

/// Whether `verify` reports the damage, and a reader gets every record of the sound log.
fn is_put_right(damaged: &Path, sound: &Path) -> seawall::Result<bool> {
    let found = Maintenance::at(damaged).verify()?;
    let is_told = found.verdict == Verdict::Correctable && !found.mended.is_empty();
    Ok(is_told && is_rest_of(damaged, sound, &[])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::machine::demo::damage::by_lot;

    #[test]
    fn parity_restores_damage_anywhere() {
        by_lot("seawall-parity", |(log, folder), _, dice| {
            let mended = damage_and_read(log, folder, dice).expect("a copy");
            assert!(mended.holds() && mended.records == 200, "{folder:?}: {mended:?}");
        });
    }
}
