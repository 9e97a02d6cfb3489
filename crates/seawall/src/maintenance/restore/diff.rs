//! Describes damage by comparing damaged bytes with the original ones.

use crate::base::error::Result;
use crate::base::num::to_u64;
use crate::files::overlay::{Overlay, Patch, is_manifest};
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use seawall_format::batch::{BodyKind, HEADER_SIZE as BATCH_HEADER_SIZE};
use seawall_format::frame::{self, Frames};
use seawall_format::{
    AUTHENTICATOR_AT, HEADER_SIZE, Layout, Lsn, MANIFEST_SLOT_SIZE, MarkSlot, STORED_MAX, Seal,
    SegmentHeader, SegmentId, Table, tables,
};
use seawall_io::Storage;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Size of the mark of a clean close, in bytes.
const CLOSING_SIZE: usize = 8;

/// A range of damaged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The file name.
    pub file: String,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// How the bytes were damaged.
    pub was: DamageKind,
    /// The field that the first byte belongs to, in words.
    pub place: String,
    /// The records of the batches that the bytes belong to.
    pub records: Option<(Lsn, Lsn)>,
    /// The record that the first byte belongs to; `None` if it belongs to several or to none.
    pub record: Option<Lsn>,
}

/// How bytes differ from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// A single bit is flipped: this one, from 0 to 7.
    Bit(u8),
    /// All bytes are zero, or the device cannot read them.
    Zeros,
    /// The file is missing or too short.
    Missing,
    /// This many bits differ.
    Bits(u64),
}

impl DamageKind {
    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit(_) => "bit",
            Self::Zeros => "zeros",
            Self::Missing => "missing",
            Self::Bits(_) => "other",
        }
    }

    fn of(patch: &Patch) -> Self {
        if patch.old.len() < patch.new.len() {
            return Self::Missing;
        }
        let pairs = patch.old.iter().zip(&patch.new);
        let bits: u64 = pairs.map(|(old, new)| u64::from((old ^ new).count_ones())).sum();
        let differs = patch.old.iter().zip(&patch.new).find(|(old, new)| old != new);
        match (bits, differs) {
            (1, Some((old, new))) => {
                Self::Bit(u8::try_from((old ^ new).trailing_zeros()).unwrap_or(0))
            }
            _ if patch.old.iter().all(|byte| *byte == 0) => Self::Zeros,
            _ => Self::Bits(bits),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, place, .. } = self;
        match self.was {
            DamageKind::Bit(bit) => write!(f, "bit {bit} of byte {offset:#x}: {place}"),
            DamageKind::Zeros => write!(f, "{bytes} bytes of zeros from byte {offset:#x}: {place}"),
            DamageKind::Missing => {
                write!(f, "{bytes} bytes missing from byte {offset:#x}: {place}")
            }
            DamageKind::Bits(bits) => {
                write!(f, "{bits} bits of {bytes} bytes from byte {offset:#x}: {place}")
            }
        }
    }
}

/// Describes what each patch repairs.
pub(crate) fn describe(log: &Arc<dyn Storage>, patches: &[Patch]) -> Result<Vec<Change>> {
    let mut changes: Vec<_> = patches.iter().map(Change::of).collect();
    if patches.is_empty() {
        return Ok(changes);
    }
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(log.clone(), patches));
    let catalog = load_catalog(&view, None)?;
    for link in &catalog.chain {
        let (header, name) = (&link.segment.header, link.segment.name());
        let hit = |change: &Change| SegmentId::from_any_name(&change.file) == Some(header.id);
        if !changes.iter().any(hit) {
            continue;
        }
        let heads = changes.iter_mut().filter(|change| change.file == header.head_name());
        heads.for_each(|change| change.look_at_head(header));
        let mut scan = LogScanner::of_segment(link).skip_io_errors(true).allow_locked();
        loop {
            match scan.step()? {
                ScanItem::Batch(found) => {
                    let here = changes.iter_mut().filter(|change| change.file == name);
                    here.for_each(|change| change.look_at(&scan, &found, header.layout));
                }
                ScanItem::Damage(..) => {}
                ScanItem::End(_) => break,
            }
        }
    }
    Ok(changes)
}

impl Change {
    fn of(patch: &Patch) -> Self {
        let mut change = Self {
            file: patch.file.clone(),
            offset: patch.offset,
            bytes: to_u64(patch.new.len()),
            was: DamageKind::of(patch),
            place: "after the records".to_owned(),
            records: None,
            record: None,
        };
        // After an unreadable page, a patch may begin with bytes that are correct.
        let same = patch.old.iter().zip(&patch.new).take_while(|(old, new)| old == new).count();
        if matches!(change.was, DamageKind::Bit(_)) {
            change.offset += to_u64(same);
            change.bytes = 1;
        }
        if is_manifest(patch) {
            let slot = if change.offset < 512 { "slot A" } else { "slot B" };
            let start = if change.offset < 512 { 0 } else { change.offset / 512 * 512 };
            let field = stored_field("manifest", change.offset - start, MANIFEST_SLOT_SIZE);
            change.place = format!("the manifest, {slot}, {field}");
        }
        change
    }

    fn look_at_head(&mut self, header: &SegmentHeader) {
        let geometry = header.geometry;
        let slots = [
            ("header", 0, HEADER_SIZE, "the segment's header"),
            ("mark", MarkSlot::A.offset(geometry).0, 40, "mark slot A"),
            ("mark", MarkSlot::B.offset(geometry).0, 40, "mark slot B"),
            ("seal", Seal::offset(geometry).0, 48, "the seal"),
        ];
        for (table, start, size, name) in slots {
            let end = if header.authenticator.is_some() { STORED_MAX } else { size };
            if (start..start + to_u64(end)).contains(&self.offset) {
                self.place = format!("{name}, {}", stored_field(table, self.offset - start, size));
                return;
            }
        }
        if self.offset < geometry.data_start() {
            "before the records".clone_into(&mut self.place);
        }
    }

    fn look_at(&mut self, scan: &LogScanner, found: &ScannedBatch, layout: Layout) {
        let (start, end) = (found.start.0, found.end.0);
        if end <= self.offset || self.offset + self.bytes <= start {
            return;
        }
        let (first, last) = (found.header.first, found.last);
        let (from, to) = self.records.unwrap_or((first, last));
        self.records = Some((from.min(first), to.max(last)));
        if !(start..end).contains(&self.offset) {
            return;
        }
        self.record = Some(first).filter(|_| first == last);
        if !layout.has_batch_headers() {
            self.place = if first == last {
                format!("the line of record {first}")
            } else {
                format!("the lines of records {first} to {last}")
            };
            return;
        }
        let at = usize::try_from(self.offset - start).expect("a place in a batch");
        self.look_at_batch(scan, found, at);
    }

    /// Finds the field and the record at offset `at` of a batch.
    fn look_at_batch(&mut self, scan: &LogScanner, found: &ScannedBatch, at: usize) {
        let first = found.header.first;
        let Some(mut at) = at.checked_sub(BATCH_HEADER_SIZE) else {
            let field = field("batch", to_u64(at), BATCH_HEADER_SIZE);
            self.place = format!("the batch of record {first}, {field}");
            return;
        };
        let encoding = match found.header.kind {
            BodyKind::Frames | BodyKind::Void => None,
            BodyKind::Encrypted | BodyKind::EncryptedVoid => Some("encrypted"),
            _ => Some("compressed"),
        };
        if let Some(encoding) = encoding {
            self.place = format!("the {encoding} batch of records {first} to {}", found.last);
            return;
        }
        let body = scan.bytes().get(found.body.clone()).unwrap_or_default();
        for record in Frames::new(body, first, found.header.count) {
            let size = frame::size_on_disk(record.payload.len());
            if at >= size {
                at -= size;
                continue;
            }
            let field = match at.checked_sub(frame::HEADER_SIZE) {
                Some(byte) if byte < record.payload.len() => format!("payload byte {byte}"),
                Some(_) => "padding".to_owned(),
                None => field("frame", to_u64(at), frame::HEADER_SIZE),
            };
            self.record = Some(record.lsn);
            self.place = format!("record {}, {field}", record.lsn);
            return;
        }
        self.place = format!("the batch of record {first}, padding");
    }
}

/// The field that contains byte `at` of a structure of `size` bytes, as it is stored: with its
/// authenticator and, in the manifest, the mark of a clean close.
fn stored_field(structure: &str, at: u64, size: usize) -> String {
    let parts = [
        ("authenticator", AUTHENTICATOR_AT..STORED_MAX, "its authenticator"),
        // The mark has the bytes after the authenticator.
        ("closing", STORED_MAX..STORED_MAX + CLOSING_SIZE, "the mark of a clean close"),
    ];
    let has = |part: &str| part != "closing" || structure == "manifest";
    let byte = usize::try_from(at).unwrap_or(usize::MAX);
    let found = parts.into_iter().find(|(part, place, _)| has(part) && place.contains(&byte));
    match found {
        Some((part, place, name)) => {
            format!("{name}, {}", field(part, at - to_u64(place.start), place.len()))
        }
        None => field(structure, at, size),
    }
}

/// The field of a structure that contains byte `at`.
fn field(structure: &str, at: u64, size: usize) -> String {
    let table: Option<Table> =
        tables().into_iter().find(|(name, _)| *name == structure).map(|(_, table)| table);
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = |field: &seawall_format::Field| -> Range<usize> { field.at..field.at + field.size };
    let field = table.into_iter().flatten().find(|field| bytes(field).contains(&at));
    match field.filter(|_| at < size) {
        Some(field) => format!("field \"{}\"", field.name),
        None => "padding".to_owned(),
    }
}
