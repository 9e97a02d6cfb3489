//! Collects for the oracle the evidence on an intact disk of how far a log was durable. It decodes
//! the files itself, so that the oracle knows what evidence a fault leaves.

pub(crate) mod batches;

use crate::world::to_usize;
use std::collections::BTreeMap;
use std::ops::Range;

use seawall_format::batch::BatchHeader;
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{
    Layout, Manifest, Mark, MarkSlot, Offset, Seal, SegmentHeader, SegmentId, lsn_or_zero,
};
use seawall_testkit::{Harmed, Kind, MemStorage};

/// Byte ranges of files, each of which proves that everything up to an LSN was durable.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    places: Vec<(String, Range<usize>, u64)>,
}

const HEADER: Range<usize> = 0..192;
const MARK_SIZE: usize = 40;
const BATCH_HEADER: usize = 48;

impl Evidence {
    /// Collects all evidence of the log on this device.
    pub(crate) fn of(device: &MemStorage) -> Self {
        let mut found = Self::default();
        let headers: BTreeMap<SegmentId, SegmentHeader> =
            device.names().iter().filter_map(|name| header(device, name)).collect();
        let chain = chain(&headers);
        for header in &chain {
            found.add(&header.head_name(), HEADER, header.base.get() - 1);
        }
        if let Some(newest) = chain.first() {
            found.of_newest(device, newest);
        }
        found.of_manifest(device, &chain);
        found
    }

    fn add(&mut self, file: &str, place: Range<usize>, lsn: u64) {
        self.places.push((file.to_owned(), place, lsn));
    }

    fn of_newest(&mut self, device: &MemStorage, header: &SegmentHeader) {
        let (head, data) = (header.head_name(), header.data_name());
        self.add(&head, HEADER, lsn_or_zero(header.carried));
        let bytes = device.bytes(&head).unwrap_or_default();
        for slot in [MarkSlot::A, MarkSlot::B] {
            let at = to_usize(slot.offset(header.geometry).0);
            let mark = bytes.get(at..).and_then(|bytes| Mark::decode(bytes, slot, header));
            if let Some(mark) = mark {
                self.add(&head, at..at + MARK_SIZE, lsn_or_zero(mark.confirmed));
            }
        }
        let bytes = device.bytes(&data).unwrap_or_default();
        let length = u64::try_from(bytes.len()).expect("fits in 64 bits");
        let mut scanner = Scanner::new(header, length, Limit::Open);
        scanner.ends_at(Offset(length));
        let window = Window { start: Offset(0), bytes: &bytes };
        while let Step::Batch(batch) = scanner.step(window) {
            let start = to_usize(batch.offset.0);
            let binary = header.layout == Layout::Binary;
            // A line counts only after a line break, so the break is part of the evidence.
            let start = if binary { start } else { start.saturating_sub(1) };
            let end = if binary { start + BATCH_HEADER } else { to_usize(batch.end.0) };
            self.add(&data, start..end, lsn_or_zero(batch.header.confirmed()));
        }
    }

    fn of_manifest(&mut self, device: &MemStorage, chain: &[SegmentHeader]) {
        let bytes = device.bytes("manifest").unwrap_or_default();
        for slot in Manifest::decode_file(&bytes).into_iter().flatten() {
            let Some(closed) = slot.closed else { continue };
            let place = chain.iter().position(|header| header.reference() == closed.segment);
            let Some(place) = place else { continue };
            let successor = place.checked_sub(1).and_then(|place| chain.get(place));
            let end = successor.map_or(u64::MAX, |header| header.base.get() - 1);
            let at = to_usize(slot.offset().0);
            let size = seawall_format::MANIFEST_SLOT_SIZE;
            self.add("manifest", at..at + size, lsn_or_zero(closed.last).min(end));
        }
    }

    /// Removes the evidence that wrong reads of these files may have hidden: a flipped bit hides
    /// one place of a file, a misdirected read all of them.
    pub(crate) fn misread(mut self, reads: &[(String, Kind)]) -> Self {
        for (file, kind) in reads {
            let of_file = self.places.iter().enumerate().filter(|(_, (name, ..))| name == file);
            let best = of_file.max_by_key(|(_, (.., lsn))| *lsn).map(|(index, _)| index);
            match best {
                Some(index) if *kind == Kind::FlippedRead => drop(self.places.swap_remove(index)),
                _ => self.places.retain(|(name, ..)| name != file),
            }
        }
        self
    }

    /// Returns the highest LSN that the evidence still proves after these bytes were damaged.
    pub(crate) fn bound(&self, harmed: Option<&Harmed>) -> u64 {
        self.witness(harmed).map_or(0, |(_, _, lsn)| *lsn)
    }

    /// Returns the file and byte range that prove that LSN.
    pub(crate) fn witness(&self, harmed: Option<&Harmed>) -> Option<&(String, Range<usize>, u64)> {
        let is_left = |(file, place, _): &&(String, Range<usize>, u64)| {
            harmed.is_none_or(|harmed| {
                harmed.file != *file
                    || harmed.bytes.end <= place.start
                    || place.end <= harmed.bytes.start
            })
        };
        self.places.iter().filter(is_left).max_by_key(|(_, _, lsn)| *lsn)
    }
}

/// Returns the highest id of a segment that exists, or that a seal or the clean close names. `live`
/// is not evidence for an open.
pub(crate) fn highest_id(device: &MemStorage) -> Option<SegmentId> {
    let spoken_of = |name: &String| {
        let bytes = device.bytes(name)?;
        let (id, header) = header(device, name)?;
        let seal = bytes.get(to_usize(Seal::offset(header.geometry).0)..);
        let seal = seal.and_then(|bytes| Seal::decode(bytes, &header));
        Some(seal.map_or(id, |seal| seal.next.id.max(id)))
    };
    let manifest = device.bytes("manifest").unwrap_or_default();
    let slots = Manifest::decode_file(&manifest).into_iter().flatten();
    let closed = slots.max_by_key(|slot| slot.sequence).and_then(|slot| slot.closed);
    let closed = closed.map(|closed| closed.segment.id);
    device.names().iter().filter_map(spoken_of).chain(closed).max()
}

/// Returns the first LSN of the log according to each readable slot of the manifest; the last
/// element is from the valid slot.
pub(crate) fn beginnings(device: &MemStorage) -> Vec<u64> {
    let manifest = device.bytes("manifest").unwrap_or_default();
    let mut slots: Vec<_> = Manifest::decode_file(&manifest).into_iter().flatten().collect();
    slots.sort_by_key(|slot| slot.sequence);
    let headers: Vec<_> = device.names().iter().filter_map(|name| header(device, name)).collect();
    let begins = |slot: &Manifest| {
        let oldest = headers.iter().find(|(_, header)| header.reference() == slot.oldest);
        oldest.map_or(slot.oldest_base, |(_, header)| header.base.min(slot.oldest_base)).get()
    };
    slots.iter().map(begins).collect()
}

/// Returns the segment with which the log begins, according to the valid slot of the manifest.
pub(crate) fn oldest(device: &MemStorage) -> Option<SegmentHeader> {
    let manifest = device.bytes("manifest").unwrap_or_default();
    let slots = Manifest::decode_file(&manifest).into_iter().flatten();
    let oldest = slots.max_by_key(|slot| slot.sequence)?.oldest;
    let (_, header) = header(device, &oldest.id.file_name())
        .or_else(|| header(device, &oldest.id.head_name()))?;
    (header.reference() == oldest).then_some(header)
}

/// Returns the header of the segment in `file`, or `None` if it was named ahead and has no batch.
pub(crate) fn begun_header(file: &[u8]) -> Option<SegmentHeader> {
    let header = SegmentHeader::decode(file).ok()?;
    if !header.named_ahead {
        return Some(header);
    }
    BatchHeader::begins(&header, file.get(to_usize(header.data_start())..)?)
}

fn header(device: &MemStorage, name: &str) -> Option<(SegmentId, SegmentHeader)> {
    let id = SegmentId::from_file_name(name)?;
    let header = begun_header(&device.bytes(name)?)?;
    (header.id == id).then_some((id, header))
}

/// Returns the live segments, newest first.
fn chain(headers: &BTreeMap<SegmentId, SegmentHeader>) -> Vec<SegmentHeader> {
    let mut chain: Vec<SegmentHeader> = vec![];
    let mut next = headers.values().next_back();
    while let Some(header) = next {
        chain.push(header.clone());
        let pred =
            header.pred.and_then(|pred| headers.get(&pred.id).filter(|h| h.reference() == pred));
        next = pred.filter(|_| chain.len() <= headers.len());
    }
    chain
}
