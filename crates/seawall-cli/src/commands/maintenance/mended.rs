//! Damage that parity restored, for people and programs: single bits where few were changed.

use crate::output::report::{Exit, Failure};
use crate::output::stdout::Output;
use crate::output::text::{count, number, to_u64, typed};
use seawall::Lsn;
use seawall::damage::Damage;
use seawall::format::{Offset, SegmentId};
use seawall::parity::Protection;
use seawall::repair::{Overlay, Patch, RepairSource};
use seawall::verify::Verification;
use seawall_format::scan::{Batch, Limit, Scanner, Step, Window};
use seawall_format::{HEADER_SIZE, SegmentHeader, batch, frame};
use seawall_io::{Access, File, PosixStorage, Storage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Up to this many changed bytes are listed one by one, if at most 8 of their bits changed: more
/// bits were not flipped but overwritten.
const BYTES_MAX: usize = 4;
/// Bytes of a file to read at once.
const CHUNK: u64 = 1 << 20;

/// A place as machines read it.
pub(crate) fn as_json(patch: &Patch) -> Value {
    json!({
        "file": patch.file,
        "offset": patch.offset,
        "bytes": patch.new.len(),
        "by": patch.by.name(),
    })
}

/// Names every place that was put right, and what was wrong there.
pub(crate) fn tell(out: &mut Output, log: &Path, mended: &[Patch]) {
    let owners = owners(log, mended);
    for patch in mended {
        let Patch { file, offset, new, by, .. } = patch;
        let bytes = number_of(new.len());
        let by = match by {
            RepairSource::Parity => "from parity",
            _ => by.name(),
        };
        out.line(&format!("  mended     {file}   offset {}   {bytes}, {by}", Offset(*offset)));
        for line in changes(patch, &owners) {
            out.line(&format!("             {line}"));
        }
    }
}

/// What was read was put right for this reader alone: the log is still damaged.
pub(crate) fn warn(log: &Path, places: usize) -> Exit {
    let is = if places == 1 { "is" } else { "are" };
    let places = count(to_u64(places), "place");
    let what = format!("{places} {is} damaged; parity restores the bytes, and no record is lost");
    let failure = Failure::new(Exit::Correctable, what).at(log.display());
    failure.next(format!("seawall repair {} --yes, which repairs the files", typed(log))).tell();
    Exit::Correctable
}

/// The first damage that parity does not put right, one with lost records before any other.
pub(crate) fn beyond_parity(log: &Path, found: &Verification) -> seawall::Result<Option<Damage>> {
    if found.mended.is_empty() {
        return Ok(worst(&found.damage));
    }
    Ok(worst(&seawall::Maintenance::on(&view(log, found)?).verify()?.damage))
}

/// The parity of a verified log; restored blocks count as they were written.
pub(crate) fn protection(log: &Path, found: &Verification) -> seawall::Result<Protection> {
    seawall::Maintenance::on(&view(log, found)?).protection()
}

/// The log as it is with what parity gave back.
fn view(log: &Path, found: &Verification) -> seawall::Result<Arc<dyn Storage>> {
    let storage = PosixStorage::open(log)
        .map_err(|source| seawall::Error::Io { what: "open the log".to_owned(), source })?;
    Ok(Arc::new(Overlay::new(Arc::new(storage), &found.mended)))
}

fn worst(damage: &[Damage]) -> Option<Damage> {
    damage.iter().find(|damage| damage.lost.is_some()).or(damage.first()).cloned()
}

/// The records that own a place in a file: one record, or those of a batch for its header.
type Owners = BTreeMap<(String, u64), (Lsn, Lsn)>;

/// In words, what was wrong.
fn changes(patch: &Patch, owners: &Owners) -> Vec<String> {
    if is_few_bits(patch) {
        let told = |(at, changed): (u64, u8)| {
            let bits: Vec<_> = (0..u8::BITS).filter(|bit| changed >> bit & 1 == 1).collect();
            let owner = match owners.get(&(patch.file.clone(), at)) {
                Some((first, last)) if first == last => format!(", in record {first}"),
                Some((first, last)) => format!(", in the batch of records {first} to {last}"),
                None => String::new(),
            };
            let (bit, were) = if bits.len() == 1 { ("bit", "was") } else { ("bits", "were") };
            let bits: Vec<_> = bits.iter().map(u32::to_string).collect();
            format!("byte {}: {bit} {} {were} flipped{owner}", Offset(at), bits.join(" "))
        };
        return differing(patch).map(told).collect();
    }
    let mut lines = vec![];
    let differ: Vec<u64> = differing(patch).map(|(at, _)| at).collect();
    if let (Some(first), Some(last)) = (differ.first(), differ.last()) {
        let bytes = number_of(differ.len());
        let (first, last) = (Offset(*first), Offset(*last));
        lines.push(format!("{bytes} differed, from {first} to {last}"));
    }
    let missing = patch.new.len().saturating_sub(patch.old.len());
    if missing > 0 {
        lines.push(format!("{} missing: the file ended before", number_of(missing)));
    }
    lines
}

/// The bytes that were changed, and how.
fn differing(patch: &Patch) -> impl Iterator<Item = (u64, u8)> {
    let pairs = (patch.offset..).zip(patch.old.iter().zip(&patch.new));
    pairs.map(|(at, (old, new))| (at, old ^ new)).filter(|(_, changed)| *changed != 0)
}

/// Whether bits were flipped, so few that each of them is told.
fn is_few_bits(patch: &Patch) -> bool {
    let bytes: Vec<_> = differing(patch).take(BYTES_MAX + 1).collect();
    let bits: u32 = bytes.iter().map(|(_, changed)| changed.count_ones()).sum();
    (1..=BYTES_MAX).contains(&bytes.len()) && bits <= u8::BITS && patch.old.len() == patch.new.len()
}

/// Whose the flipped bits are, looked up in the log as it is with all patches. What cannot be found
/// out is left out: it is a help, and no verdict rests on it.
fn owners(log: &Path, mended: &[Patch]) -> Owners {
    let mut found = Owners::new();
    let Ok(storage) = PosixStorage::open(log) else { return found };
    let view = Overlay::new(Arc::new(storage), mended);
    let mut wanted: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for patch in mended {
        if is_few_bits(patch) {
            let places = differing(patch).map(|(at, _)| at);
            wanted.entry(&patch.file).or_default().extend(places);
        }
    }
    for (file, places) in &wanted {
        // A file that cannot be read, or that is no segment's, says nothing.
        let _ = look_up(&view, (file, places), &mut found);
    }
    found
}

fn look_up(
    view: &Overlay,
    (name, places): (&str, &[u64]),
    found: &mut Owners,
) -> Result<(), io::Error> {
    let id = SegmentId::from_any_name(name).ok_or(io::ErrorKind::NotFound)?;
    let head = match view.open(&id.file_name(), Access::Read) {
        Ok(file) => file,
        Err(_) => view.open(&id.head_name(), Access::Read)?,
    };
    let mut bytes = [0; HEADER_SIZE];
    head.read_at(&mut bytes, 0)?;
    let header = SegmentHeader::decode(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    if header.data_name() != name {
        return Ok(());
    }
    let data = view.open(name, Access::Read)?;
    let mut scanner = Scanner::new(&header, data.len()?, Limit::Open);
    let (mut start, mut bytes) = (Offset(0), vec![]);
    loop {
        let (offset, length) = match scanner.step(Window { start, bytes: &bytes }) {
            Step::Batch(batch) => {
                for place in places.iter().filter(|at| (batch.offset.0..batch.end.0).contains(at)) {
                    found.insert((name.to_owned(), *place), owner(&batch, &header, *place));
                }
                continue;
            }
            Step::Need { offset, length } => (offset, length),
            Step::Stopped(..) | Step::Refused(_) | Step::Finished => return Ok(()),
        };
        (start, bytes) = (offset, read(&*data, offset, length.max(CHUNK))?);
        if to_u64(bytes.len()) < length {
            scanner.ends_at(Window { start, bytes: &bytes }.end());
        }
    }
}

fn read(file: &dyn File, offset: Offset, length: u64) -> io::Result<Vec<u8>> {
    let length = length.min(file.len()?.saturating_sub(offset.0));
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let read = file.read_at(&mut bytes, offset.0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// First and last record at `place` of a batch.
fn owner(found: &Batch<'_>, header: &SegmentHeader, place: u64) -> (Lsn, Lsn) {
    let whole = (found.header.first, found.header.last());
    // Binary frames are stored as they are; of lines, only the set is known.
    let is_binary = header.layout == seawall::Layout::Binary;
    let body = found.offset.0 + to_u64(batch::HEADER_SIZE);
    let Some(place) = place.checked_sub(body).filter(|_| is_binary) else { return whole };
    let (mut position, mut lsn) = (0, found.header.first);
    while let Some((_, behind)) = frame::read(&found.body, position, lsn) {
        if place < to_u64(behind) {
            return (lsn, lsn);
        }
        (position, lsn) = (behind, lsn.next());
    }
    whole
}

fn number_of(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        _ => format!("{} bytes", number(to_u64(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: &[u8], new: &[u8]) -> Patch {
        let (old, new) = (old.to_vec(), new.to_vec());
        Patch::new("000000000001.seg", 100, (old, new), RepairSource::Parity)
    }

    #[test]
    fn few_bits_are_told_one_by_one_and_many_as_a_range() {
        let lsn = |number| Lsn::new(number).expect("not 0");
        let file = "000000000001.seg".to_owned();
        let owners = Owners::from([((file, 102), (lsn(7), lsn(7)))]);
        let one = patch(b"abcd", b"abkd");
        assert_eq!(changes(&one, &owners), ["byte 0x00000066: bit 3 was flipped, in record 7"]);
        let two = patch(b"abcd", b"cbcm");
        let said = ["byte 0x00000064: bit 1 was flipped", "byte 0x00000067: bits 0 3 were flipped"];
        assert_eq!(changes(&two, &owners), said);
        let many = patch(&[0; 8], &[0, 0, 255, 0, 255, 1, 0, 0]);
        assert_eq!(changes(&many, &owners), ["3 bytes differed, from 0x00000066 to 0x00000069"]);
        let short = patch(&[1], &[1, 2, 3]);
        assert_eq!(changes(&short, &owners), ["2 bytes missing: the file ended before"]);
    }
}
