//! Fuzz target for arbitrary parity files: as head and slot, and next to a log that is sound or
//! lost a block. A parity file may restore lost records; it must not change anything else.

use super::folder::{PLAIN, read, verify};
use crate::fixup;
use crate::random::Random;
use crate::sample::{Encoding, End, Kind, Past, Scale, contents, open, payload};
use arbitrary::{Result, Unstructured};
use seawall::verify::Verdict;
use seawall::{Error, Layout, Maintenance};
use seawall_format::parity::{HEAD_SIZE, Head, Known, Places, Scheme};
use seawall_format::{Refused, SegmentHeader, SegmentId, tables};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const BLOCK: usize = 512;
/// Maximum size of a log with such a file.
const ROOM: u64 = 16 << 20;
/// Maximum length of a generated parity file, which may have a hole, as after a forged length.
const LENGTH_MAX: usize = 4 << 20;
const EDITS_MAX: usize = 6;

/// A log with parity, and its records.
struct Protected {
    layout: Layout,
    device: MemStorage,
    records: BTreeMap<u64, Vec<u8>>,
    /// The segments, oldest first, and the sound parity file of each.
    sides: Vec<(SegmentHeader, Vec<u8>)>,
}

static LOGS: LazyLock<Vec<Protected>> = LazyLock::new(|| {
    let ends = [End::Closed, End::PowerCut];
    let kinds = [Layout::Binary, Layout::Text].into_iter().flat_map(|layout| {
        ends.map(|end| Kind {
            layout,
            end,
            scale: Scale::Tiny,
            past: Past::Plain,
            encoding: Encoding::Plain,
            seed: 3,
        })
    });
    kinds.map(Protected::make).collect()
});

fn scheme() -> Scheme {
    "4+2".parse().expect("it is one")
}

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

impl Protected {
    fn make(kind: Kind) -> Self {
        let mut device = MemStorage::new();
        let log = open(&kind.options(1).parity(Some(scheme())), &device).expect("it opens");
        let mut records = BTreeMap::new();
        for lsn in 1..=24 {
            let size = usize::try_from(lsn * 53 % 480).expect("a small number");
            let record = payload(kind, lsn, size);
            assert_eq!(log.append(&record).expect("it is written").get(), lsn);
            records.insert(lsn, record);
        }
        device = if kind.end == End::PowerCut {
            device.power_cut(|_| true)
        } else {
            log.close().expect("it closes");
            device.power_cut(|_| false)
        };
        let names = device.names();
        let ids = names.iter().filter_map(|name| SegmentId::from_parity_name(name));
        let side = |id: SegmentId| {
            let parity = device.bytes(&id.parity_name()).expect("it is there");
            Some((Head::decode_file(&parity).ok()?.header, parity))
        };
        let sides: Vec<_> = ids.filter_map(side).collect();
        assert!(sides.len() > 1, "several segments");
        Self { layout: kind.layout, device, records, sides }
    }
}

pub(super) fn run(data: &[u8]) {
    structures(data);
    let mut script = Unstructured::new(data);
    if let Ok(case) = Case::build(&mut script) {
        case.look();
    }
}

/// Checks that an accepted head or slot is, byte for byte, what a writer writes.
fn structures(data: &[u8]) {
    let (header, _) = &LOGS[0].sides[0];
    let places = Places::of(header, scheme());
    let mut fixed = data.to_vec();
    fixup::parity_head(&mut fixed, 0);
    for bytes in [data, &fixed] {
        if let Ok(head) = Head::decode(bytes) {
            assert_eq!(head.encode(), bytes[..HEAD_SIZE], "{head:?}");
            assert!(head.covered >= head.header.data_start(), "{head:?}");
        }
        if let Ok(head) = Head::decode_file(bytes) {
            let at = usize::try_from(head.offset().0).expect("within the file");
            assert_eq!(head.encode(), bytes[at..at + HEAD_SIZE], "{head:?}");
        }
    }
    let mut fixed = data.to_vec();
    fixup::parity_slot(&mut fixed, (0, 7), &places, header);
    for bytes in [data, &fixed] {
        if let Some(known) = Known::decode(bytes, 7, &places) {
            assert_eq!(known.encode(&places), bytes[..places.known_size()], "{known:?}");
            assert!(known.covered > 0 && known.number == 7);
        }
    }
}

/// A log with one changed parity file.
struct Case {
    log: &'static Protected,
    /// The log with that file.
    with: MemStorage,
    /// The log without that file.
    without: MemStorage,
    /// Whether only the parity file was changed.
    is_sound: bool,
    /// Whether everything that the file states about the records is true.
    is_honest: bool,
    /// Whether the file has another version, so that it is neither used nor overwritten.
    is_foreign: bool,
}

impl Case {
    fn build(script: &mut Unstructured<'_>) -> Result<Self> {
        let log: &'static Protected = script.choose(&LOGS)?;
        let (header, sound) = script.choose(&log.sides)?;
        let without = log.device.kill();
        let is_sound = !damage(&without, header, script)?;
        let name = header.id.parity_name();
        let file = forge(sound, header, log, script)?;
        let with = without.kill();
        with.edit(&name, |there| there.clone_from(&file));
        without.remove_raw(&name);
        with.limit(ROOM);
        without.limit(ROOM);
        let is_honest = is_honest(&file, sound);
        let refused = Head::decode_file(&file).err();
        let is_foreign = refused.is_some_and(|refused| refused != Refused::Invalid);
        Ok(Self { log, with, without, is_sound, is_honest, is_foreign })
    }

    fn look(&self) {
        let plain = read(&self.without, PLAIN, true);
        let before = contents(&self.with);
        let found = verify(&self.with, PLAIN);
        let shown = read(&self.with, PLAIN, true);
        let protection = Maintenance::on(&storage(&self.with)).protection();
        assert!(contents(&self.with) == before, "a reader changes nothing");
        if self.is_sound {
            let found = found.as_ref().unwrap_or_else(|error| panic!("a sound log: {error}"));
            assert_eq!(found.records, len(&self.log.records), "{found:?}");
            assert!(found.verdict < Verdict::Correctable || !self.is_honest, "{found:?}");
            protection.unwrap_or_else(|error| panic!("a sound log: {error}"));
        }
        let kept: BTreeMap<_, _> = plain.into_iter().flat_map(|plain| plain.records).collect();
        let shown = shown.map(|shown| shown.records.into_iter().collect());
        self.assert_kept(&kept, &shown.unwrap_or_default(), "a reader");
        self.goes_on(&kept);
        self.is_protected(&kept);
        let mended = self.with.kill();
        if Maintenance::on(&storage(&mended)).repair().is_ok() {
            self.assert_kept(&kept, &records(&mended), "a repair");
        }
    }

    /// Checks that every delivered record is correct, and that no record is missing that can be
    /// read without the parity file.
    fn assert_kept(
        &self,
        kept: &BTreeMap<u64, Vec<u8>>,
        shown: &BTreeMap<u64, Vec<u8>>,
        who: &str,
    ) {
        for (lsn, payload) in shown {
            let was = self.log.records.get(lsn);
            assert_eq!(was, Some(payload), "{who}: record {lsn} has other bytes");
        }
        let gone = kept.keys().find(|lsn| !shown.contains_key(lsn));
        assert_eq!(gone, None, "{who}: a record is gone");
    }

    fn goes_on(&self, kept: &BTreeMap<u64, Vec<u8>>) {
        let kind = Kind {
            layout: self.log.layout,
            end: End::Closed,
            scale: Scale::Tiny,
            past: Past::Plain,
            encoding: Encoding::Plain,
            seed: 3,
        };
        let device = self.with.kill();
        let log = match open(&kind.options(77), &device) {
            Ok(log) => log,
            Err(error) => {
                let is_refused = matches!(error, Error::Damaged { .. });
                let is_explained = !self.is_sound || (is_refused && !self.is_honest);
                return assert!(is_explained, "a sound log beside honest parity: {error}");
            }
        };
        let last = log.recovery().last.map_or(0, seawall::Lsn::get);
        let lsn = log.append(b"7").unwrap_or_else(|error| panic!("an append: {error}"));
        assert_eq!(lsn.get(), last + 1, "numbers go on");
        log.close().unwrap_or_else(|error| panic!("a close: {error}"));
        let mut shown = records(&device);
        assert_eq!(shown.remove(&lsn.get()).as_deref(), Some(&b"7"[..]), "{lsn}");
        if self.is_sound {
            self.assert_kept(kept, &shown, "an open");
        }
    }

    /// Checks that parity can be built, and that it then restores a block.
    fn is_protected(&self, kept: &BTreeMap<u64, Vec<u8>>) {
        let device = self.with.kill();
        let made = Maintenance::on(&storage(&device)).build_parity(scheme());
        self.assert_kept(kept, &records(&device), "protect");
        if !self.is_sound || !self.is_honest {
            return;
        }
        if self.is_foreign {
            return assert!(made.is_err(), "{made:?}");
        }
        let made = made.unwrap_or_else(|error| panic!("a sound log: {error}"));
        let open = usize::from(made.unsure > 0);
        // Unconfirmed records at the end of a log that was not closed get parity only after an
        // open.
        assert_eq!((made.open.len(), made.covered), (open, made.bytes - made.unsure), "{made:?}");
        for (header, _) in self.log.sides.iter().rev().skip(open) {
            let start = usize::try_from(header.data_start()).expect("a small number");
            device.edit(&header.data_name(), |bytes| {
                bytes.iter_mut().skip(start).take(BLOCK).for_each(|byte| *byte ^= 0x55);
            });
        }
        assert_eq!(records(&device), self.log.records, "records restored by parity");
    }
}

fn len(records: &BTreeMap<u64, Vec<u8>>) -> u64 {
    u64::try_from(records.len()).expect("in memory")
}

fn records(device: &MemStorage) -> BTreeMap<u64, Vec<u8>> {
    read(device, PLAIN, true).into_iter().flat_map(|found| found.records).collect()
}

/// Whether everything in the file that is valid equals the sound file. A fuzzer may find or be
/// given a correct checksum for false content.
fn is_honest(file: &[u8], sound: &[u8]) -> bool {
    let truth = Head::decode_file(sound).expect("it is sound");
    let Ok(head) = Head::decode_file(file) else { return true };
    if head.header != truth.header || head.scheme != truth.scheme || head.covered > truth.covered {
        return false;
    }
    let places = Places::of(&truth.header, truth.scheme);
    let known = |bytes: &[u8], number| {
        let at = usize::try_from(places.slot_at(number).0).ok()?;
        Known::decode(bytes.get(at..)?, number, &places)
    };
    let slots = file.len() / places.slot_size();
    (0..u64::try_from(slots).expect("in memory")).all(|number| {
        let said = known(file, number);
        said.is_none() || said == known(sound, number)
    })
}

/// Damages the records of a segment; returns false if nothing was changed.
fn damage(
    device: &MemStorage,
    header: &SegmentHeader,
    script: &mut Unstructured<'_>,
) -> Result<bool> {
    let start = usize::try_from(header.data_start()).expect("a small number");
    let block = usize::from(script.int_in_range(0..=7_u8)?);
    let (name, at) = match script.int_in_range(0..=4_u8)? {
        0 | 1 => return Ok(false),
        2 => (header.head_name(), 0),
        _ => (header.data_name(), start + block * BLOCK),
    };
    let how = script.int_in_range(0..=3_u8)?;
    let length = device.bytes(&name).map_or(0, |bytes| bytes.len());
    if length <= at {
        return Ok(false);
    }
    let end = length.min(at + BLOCK);
    match how {
        0 => device.fail_read(&name, at..end),
        1 => device.edit(&name, |bytes| bytes[at..end].fill(0)),
        2 => device.edit(&name, |bytes| bytes[usize::midpoint(at, end)] ^= 4),
        _ => {
            let noise: u64 = script.arbitrary()?;
            device.edit(&name, |bytes| Random::new(noise).fill(&mut bytes[at..end]));
        }
    }
    Ok(true)
}

/// Returns a parity file: arbitrary bytes, or the sound file with edits; its checksums may be
/// corrected.
fn forge(
    sound: &[u8],
    header: &SegmentHeader,
    log: &Protected,
    script: &mut Unstructured<'_>,
) -> Result<Vec<u8>> {
    let mut file = sound.to_vec();
    let is_fixed: bool = script.arbitrary()?;
    if script.int_in_range(0..=3_u8)? == 0 {
        file = script.bytes(script.len())?.to_vec();
    } else {
        for _ in 0..script.int_in_range(0..=EDITS_MAX)? {
            edit(&mut file, header, &script.choose(&log.sides)?.1, script)?;
        }
    }
    if is_fixed {
        fix(&mut file, header);
    }
    Ok(file)
}

fn fix(file: &mut [u8], header: &SegmentHeader) {
    fixup::parity_head(file, 0);
    fixup::parity_head(file, BLOCK);
    // The scheme in a valid head determines where the slots are.
    let scheme = Head::decode_file(file).map_or_else(|_| scheme(), |head| head.scheme);
    let places = Places::of(header, scheme);
    for number in 0..64 {
        let at = usize::try_from(places.slot_at(number).0).expect("a small number");
        fixup::parity_slot(file, (at, number), &places, header);
    }
}

fn edit(
    file: &mut Vec<u8>,
    header: &SegmentHeader,
    other: &[u8],
    script: &mut Unstructured<'_>,
) -> Result<()> {
    let at = script.int_in_range(0..=file.len().min(1 << 16))?;
    match script.int_in_range(0..=8_u8)? {
        0 => file.truncate(at),
        1 => {
            let more = usize::from(script.int_in_range(0..=16_u8)?) * (256 << 10);
            let length = file.len() + more;
            file.resize(length.min(LENGTH_MAX), 0);
        }
        2 => {
            let size = usize::from(script.arbitrary::<u8>()?).min(script.len());
            let noise = script.bytes(size)?;
            let end = (at + noise.len()).min(file.len());
            file[at..end].copy_from_slice(&noise[..end - at]);
        }
        3 => {
            let from = script.int_in_range(0..=other.len())?;
            let size = script.int_in_range(0..=2048_usize)?;
            let size = size.min(other.len() - from).min(file.len() - at);
            file[at..at + size].copy_from_slice(&other[from..from + size]);
        }
        4 => other.clone_into(file),
        5 => {
            let size = script.int_in_range(0..=file.len() - at)?.min(2048);
            file[at..at + size].fill(script.arbitrary()?);
        }
        _ => set_field(file, header, script)?,
    }
    Ok(())
}

const NUMBERS: [u64; 10] =
    [0, 1, 2, 512, 1 << 20, u64::MAX, 1 << 63, (1 << 48) - 1, 0xFFFF_FFFF, 1 << 32];

/// Sets a field of a head, of the segment header in it, or of a slot.
fn set_field(file: &mut [u8], header: &SegmentHeader, script: &mut Unstructured<'_>) -> Result<()> {
    let places = Places::of(header, scheme());
    let slot = |number: u64| usize::try_from(places.slot_at(number).0).expect("a small number");
    let copy = if script.arbitrary()? { BLOCK } else { 0 };
    let (kind, start) = match script.int_in_range(0..=5_u8)? {
        0 | 1 => ("parity", copy),
        2 => ("header", copy + 88),
        _ => ("stripe", slot(u64::from(script.int_in_range(0..=3_u8)?))),
    };
    let all = tables();
    let (_, fields) = all.iter().find(|(name, _)| *name == kind).expect("format.md has it");
    let field = script.choose(fields)?;
    let (at, size) = (start + field.at, field.size.min(8));
    let before = fixup::number(file, at, size);
    let number = match script.int_in_range(0..=3_u8)? {
        0 => before.wrapping_add(1),
        1 => before.wrapping_sub(1),
        2 => script.arbitrary()?,
        _ => *script.choose(&NUMBERS)?,
    };
    fixup::put(file, at, size, number);
    Ok(())
}

/// Returns sound files, sound heads and slots, and scripts.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut random = Random::new(11);
    let script = |random: &mut Random| {
        let mut bytes = vec![0; 24 + random.below(100)];
        random.fill(&mut bytes);
        bytes
    };
    let mut found: Vec<Vec<u8>> = (0..16).map(|_| script(&mut random)).collect();
    for (number, log) in (0_u8..).zip(LOGS.iter()) {
        for (segment, (_, file)) in (0_u8..).zip(log.sides.iter()).step_by(2) {
            // A script selects the log, the segment, no damage or a block of noise, checksums as
            // they are or corrected, and arbitrary bytes: this file.
            found.push([&[number, segment, 0, 0, 0, 0][..], file].concat());
            found.push([&[number, segment, 0, 3, 1, 1, 0][..], file].concat());
        }
    }
    let (_, file) = &LOGS[0].sides[0];
    found.push(file[..HEAD_SIZE].to_vec());
    found.push(file[2 * BLOCK..2 * BLOCK + 200].to_vec());
    found
}
