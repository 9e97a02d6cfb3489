//! A copy of the log gets parity: a flipped bit and an erased block come back, for every reader.

use super::damage::{copy_log, find, flip};
use super::earthquake::Earthquake;
use super::stage::trouble;
use crate::output::report::Failure;
use seawall::parity::Parity;
use seawall::verify::Verdict;
use seawall::{LogReader, Lsn, Maintenance};
use seawall_io::{Access, Entropy, PosixStorage, SeededEntropy, Storage};
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The copy of the log that has parity.
const COPY: &str = "parity.wal";
/// What a device loses at least.
pub(super) const BLOCK: usize = 4096;

/// What came of it.
#[derive(Debug)]
pub(super) struct Mended {
    /// The record in which a bit was flipped.
    pub(super) lsn: u64,
    /// How many records the log has.
    pub(super) records: u64,
    /// With the bit flipped, all of them were read.
    pub(super) bit: bool,
    /// With a block erased as well, too.
    pub(super) block: bool,
}

impl Mended {
    pub(super) fn holds(&self) -> bool {
        self.bit && self.block
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "scheme": Parity::DEFAULT.to_string(),
            "lsn": self.lsn,
            "records": self.records,
            "bit_corrected": self.bit,
            "erased_bytes": BLOCK,
            "block_corrected": self.block,
        })
    }
}

/// Copies the log into `folder`, makes parity of it, and damages it twice.
pub(super) fn damage_and_read(
    log: &Path,
    folder: &Path,
    dice: &SeededEntropy,
) -> Result<Mended, Failure> {
    let damaged = folder.join(COPY);
    let fail = |error| Failure::of(&error, "demo", &damaged);
    let refused = |error| trouble("damage the copy with parity", &error);
    let copy = copy_log(log, &damaged).map_err(refused)?;
    Maintenance::at(&damaged).build_parity(Parity::DEFAULT).map_err(fail)?;
    let records = Maintenance::at(&damaged).verify().map_err(fail)?.records;
    let draw = || dice.random().map_err(|error| trouble("draw a number", &error));
    let lsn = Lsn::new(1 + draw()? % records.max(1)).expect("not 0");
    let (segment, place, payload) = find(&copy, lsn).map_err(refused)?;
    let name = segment.file_name();
    let at = place.0 + draw()? % u64::try_from(payload.len()).expect("a record is small");
    flip(&copy, (&name, at), draw()? % 8).map_err(refused)?;
    let bit = is_put_right(&damaged, log).map_err(fail)?;
    erase_block(&copy, &name, at).map_err(refused)?;
    let block = is_put_right(&damaged, log).map_err(fail)?;
    Ok(Mended { lsn: lsn.get(), records, bit, block })
}

/// Zeros over the whole block around a place.
fn erase_block(log: &PosixStorage, name: &str, at: u64) -> io::Result<()> {
    let file = log.open(name, Access::ReadWrite)?;
    let size = u64::try_from(BLOCK).expect("a block is small");
    let start = at / size * size;
    let left = usize::try_from(file.len()?.saturating_sub(start)).unwrap_or(BLOCK);
    file.write_at(&vec![0; left.min(BLOCK)], start)
}

/// Whether the damage is known, and a reader gets all that the sound log has.
fn is_put_right(damaged: &Path, sound: &Path) -> seawall::Result<bool> {
    let found = Maintenance::at(damaged).verify()?;
    let open = |path: &Path| -> seawall::Result<_> {
        let reader: LogReader<Earthquake> = LogReader::open(path)?;
        reader.read_from(Lsn::FIRST)
    };
    let mut mended = open(damaged)?;
    for entry in open(sound)? {
        if mended.next().transpose()? != Some(entry?) {
            return Ok(false);
        }
    }
    let is_told = found.verdict == Verdict::Correctable && !found.mended.is_empty();
    Ok(is_told && mended.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::machine::demo::damage::by_lot;

    #[test]
    fn wherever_the_damage_falls_it_is_put_right() {
        by_lot("seawall-parity", |(log, folder), _, dice| {
            let mended = damage_and_read(log, folder, dice).expect("a copy");
            assert!(mended.holds() && mended.records == 200, "{folder:?}: {mended:?}");
        });
    }
}
