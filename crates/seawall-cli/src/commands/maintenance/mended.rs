//! Reports damage that parity restored: single bits if few were changed.

use seawall::Maintenance;
use seawall::damage::Damage;
use seawall::format::Offset;
use seawall::parity::Protection;
use seawall::repair::{Change, Overlay, Patch, RepairSource};
use seawall::verify::Verification;
use seawall_io::{PosixStorage, Storage};
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{count, to_u64, typed};
use std::path::Path;
use std::sync::Arc;

/// Up to this many changed bytes are listed one by one, if at most 8 of their bits changed. More
/// changed bits mean an overwrite.
const BYTES_MAX: usize = 4;

/// Lists every restored range, and what was wrong in it.
pub(crate) fn tell(out: &mut Output, log: &Path, mended: &[Patch]) {
    let flipped = flipped(log, mended);
    for patch in mended {
        let Patch { file, offset, new, by, .. } = patch;
        let bytes = count(to_u64(new.len()), "byte");
        let by = match by {
            RepairSource::Parity => "from parity",
            _ => by.name(),
        };
        out.line(&format!("  restored   {file}   offset {}   {bytes}, {by}", Offset(*offset)));
        let owner = |at| {
            let mut bytes = flipped.iter();
            let byte = bytes.find(|change| change.file == *file && change.offset == at);
            byte.map(owner).unwrap_or_default()
        };
        for line in changes(patch, owner) {
            out.line(&format!("             {line}"));
        }
    }
}

/// Warns that only this reader sees the restored bytes: the log is still damaged.
pub(crate) fn warn(log: &Path, places: usize) -> Exit {
    restorable(log, places).tell()
}

/// The log has damage that parity restores.
pub(crate) fn restorable(log: &Path, places: usize) -> Failure {
    let is = if places == 1 { "is" } else { "are" };
    let places = count(to_u64(places), "place");
    let what = format!("{places} {is} damaged; parity restores the bytes, and no record is lost");
    let failure = Failure::new(Exit::Correctable, what).at(log.display());
    failure.next(format!("seawall repair {} --yes, which repairs the files", typed(log)))
}

/// Returns damage that parity cannot restore: the first with lost records, else the first.
pub(crate) fn beyond_parity(log: &Path, found: &Verification) -> seawall::Result<Option<Damage>> {
    if found.mended.is_empty() {
        return Ok(worst(&found.damage));
    }
    Ok(worst(&Maintenance::on(&view(log, &found.mended)?).verify()?.damage))
}

/// The parity of a verified log; restored blocks count as undamaged.
pub(crate) fn protection(log: &Path, found: &Verification) -> seawall::Result<Protection> {
    Maintenance::on(&view(log, &found.mended)?).protection()
}

/// Returns a view of the log with the bytes that parity restored.
fn view(log: &Path, mended: &[Patch]) -> seawall::Result<Arc<dyn Storage>> {
    let storage = PosixStorage::open(log).map_err(|source| seawall::Error::Io {
        log: None,
        what: "open the log".to_owned(),
        source,
    })?;
    Ok(Arc::new(Overlay::new(Arc::new(storage), mended)))
}

fn worst(damage: &[Damage]) -> Option<Damage> {
    damage.iter().find(|damage| damage.lost.is_some()).or(damage.first()).cloned()
}

/// Describes what was wrong.
fn changes(patch: &Patch, owner: impl Fn(u64) -> String) -> Vec<String> {
    if is_few_bits(patch) {
        let told = |(at, old, new): (u64, u8, u8)| {
            let bits: Vec<_> = (0..u8::BITS).filter(|bit| (old ^ new) >> bit & 1 == 1).collect();
            let (bit, were) = if bits.len() == 1 { ("bit", "was") } else { ("bits", "were") };
            let bits: Vec<_> = bits.iter().map(u32::to_string).collect();
            let owner = owner(at);
            format!("byte {}: {bit} {} {were} flipped{owner}", Offset(at), bits.join(" "))
        };
        return differing(patch).map(told).collect();
    }
    let mut lines = vec![];
    let differ: Vec<u64> = differing(patch).map(|(at, ..)| at).collect();
    if let (Some(first), Some(last)) = (differ.first(), differ.last()) {
        let bytes = count(to_u64(differ.len()), "byte");
        let (first, last) = (Offset(*first), Offset(*last));
        lines.push(format!("{bytes} differed, from {first} to {last}"));
    }
    let missing = patch.new.len().saturating_sub(patch.old.len());
    if missing > 0 {
        let bytes = count(to_u64(missing), "byte");
        lines.push(format!("{bytes} missing: the file ended before"));
    }
    lines
}

/// Names the record or the batch that a changed byte belongs to.
fn owner(change: &Change) -> String {
    match (change.record, change.records) {
        (Some(record), _) => format!(", in record {record}"),
        (None, Some((first, last))) => format!(", in the batch of records {first} to {last}"),
        (None, None) => String::new(),
    }
}

/// The differing bytes: their offset, their present value and their original value.
fn differing(patch: &Patch) -> impl Iterator<Item = (u64, u8, u8)> {
    let pairs = (patch.offset..).zip(patch.old.iter().zip(&patch.new));
    pairs.map(|(at, (old, new))| (at, *old, *new)).filter(|(_, old, new)| old != new)
}

/// Whether so few bits were flipped that each is listed.
fn is_few_bits(patch: &Patch) -> bool {
    let bytes: Vec<_> = differing(patch).take(BYTES_MAX + 1).collect();
    let bits: u32 = bytes.iter().map(|(_, old, new)| (old ^ new).count_ones()).sum();
    (1..=BYTES_MAX).contains(&bytes.len()) && bits <= u8::BITS && patch.old.len() == patch.new.len()
}

/// Describes the bytes with flipped bits one by one. An error gives an empty list: no verdict
/// depends on it.
fn flipped(log: &Path, mended: &[Patch]) -> Vec<Change> {
    let bytes = |patch: &Patch| -> Vec<Patch> {
        let (file, by) = (patch.file.clone(), patch.by);
        let byte = |(at, old, new)| Patch::new(&file, at, (vec![old], vec![new]), by);
        differing(patch).map(byte).collect()
    };
    let bytes: Vec<_> = mended.iter().filter(|patch| is_few_bits(patch)).flat_map(bytes).collect();
    let view = view(log, mended);
    view.and_then(|view| Maintenance::on(&view).describe(&bytes)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: &[u8], new: &[u8]) -> Patch {
        let (old, new) = (old.to_vec(), new.to_vec());
        Patch::new("000000000001.seg", 100, (old, new), RepairSource::Parity)
    }

    #[test]
    fn few_bits_are_listed_and_many_bytes_are_a_range() {
        let owner = |at| if at == 102 { ", in record 7".to_owned() } else { String::new() };
        let one = patch(b"abcd", b"abkd");
        assert_eq!(changes(&one, owner), ["byte 0x00000066: bit 3 was flipped, in record 7"]);
        let two = patch(b"abcd", b"cbcm");
        let said = ["byte 0x00000064: bit 1 was flipped", "byte 0x00000067: bits 0 3 were flipped"];
        assert_eq!(changes(&two, owner), said);
        let many = patch(&[0; 8], &[0, 0, 255, 0, 255, 1, 0, 0]);
        assert_eq!(changes(&many, owner), ["3 bytes differed, from 0x00000066 to 0x00000069"]);
        let short = patch(&[1], &[1, 2, 3]);
        assert_eq!(changes(&short, owner), ["2 bytes missing: the file ended before"]);
    }
}
