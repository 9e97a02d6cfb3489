//! Where the batches of an intact log are, so that the oracle knows which of them damage leaves
//! alone.

use std::ops::Range;

use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{Layout, Offset, Seal, SegmentHeader};
use seawall_testkit::{Harmed, MemStorage};

use crate::evidence::{HEADER, chain, header};
use crate::world::to_usize;

/// The batches of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    batches: Vec<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    lsns: Range<u64>,
    /// The bytes that this batch needs, in the file of the header and in the file of the records.
    places: [Place; 2],
    /// For each link from the newest segment to this one, what proves it; one of them is enough.
    links: Vec<Vec<Place>>,
}

/// Bytes of a file.
type Place = (String, Range<usize>);

impl Batches {
    /// Finds the batches of the log on this device.
    pub(crate) fn of(device: &MemStorage) -> Self {
        let headers = device.names().iter().filter_map(|name| header(device, name)).collect();
        let mut found = Self::default();
        let (mut successor, mut links): (Option<SegmentHeader>, _) = (None, vec![]);
        for header in chain(&headers) {
            if let Some(next) = &successor {
                links.push([whole(next)].into_iter().chain(seal(device, &header)).collect());
            }
            // Records from there on are in the next segment, which repeats what a segment lost.
            let end_lsn = successor.map_or(u64::MAX, |next| next.base.get());
            found.add(device, &header, (end_lsn, &links));
            successor = Some(header);
        }
        found
    }

    fn add(
        &mut self,
        device: &MemStorage,
        header: &SegmentHeader,
        (end_lsn, links): (u64, &[Vec<Place>]),
    ) {
        let bytes = device.bytes(&header.data_name()).unwrap_or_default();
        let length = u64::try_from(bytes.len()).expect("fits in 64 bits");
        let mut scanner = Scanner::new(header, length, Limit::Open);
        scanner.ends_at(Offset(length));
        let window = Window { start: Offset(0), bytes: &bytes };
        // Only the first batch completes the header of a segment that was named ahead.
        let mut first_end = None;
        while let Step::Batch(batch) = scanner.step(window) {
            let (start, end) = (to_usize(batch.offset.0), to_usize(batch.end.0));
            // A line counts only after a line break.
            let start = if header.layout == Layout::Text { start.saturating_sub(1) } else { start };
            let named_ahead = header.named_ahead.then(|| *first_end.get_or_insert(end));
            let (name, head) = whole(header);
            let head = head.start..named_ahead.unwrap_or(head.end);
            let first = batch.header.first.get();
            let lsns = first..(first + u64::from(batch.header.count)).min(end_lsn);
            let places = [(name, head), (header.data_name(), start..end)];
            self.batches.push(Batch { lsns, places, links: links.to_vec() });
        }
    }

    /// Whether the damage leaves the batch of this record alone, and the header of its segment.
    pub(crate) fn is_intact(&self, lsn: u64, harmed: &Harmed) -> bool {
        let spares = |(file, place): &Place| {
            *file != harmed.file
                || harmed.bytes.end <= place.start
                || place.end <= harmed.bytes.start
        };
        // Without the keys no batch can be decrypted.
        if harmed.file == "keys" {
            return false;
        }
        let mut batches = self.batches.iter().filter(|batch| batch.lsns.contains(&lsn));
        batches.any(|Batch { places, links, .. }| {
            let proves = |place: &Place| spares(place) && !is_without_text(place, harmed);
            places.iter().all(spares) && links.iter().all(|proofs| proofs.iter().any(proves))
        })
    }
}

/// Whether the text of this head may be lost. Without it, the head does not tell which segment it
/// follows.
fn is_without_text((head, _): &Place, harmed: &Harmed) -> bool {
    harmed.bytes.start == 0 && harmed.file == head.replace(".head", ".jsonl")
}

/// Returns the place of a header; that of an encrypted segment has an authenticator behind it.
fn whole(header: &SegmentHeader) -> Place {
    let end = if header.authenticator.is_some() { SECTOR } else { HEADER.end };
    (header.head_name(), HEADER.start..end)
}

const SECTOR: usize = 512;

/// Returns the place of the seal of this segment, if it has one.
fn seal(device: &MemStorage, header: &SegmentHeader) -> Option<Place> {
    let at = to_usize(Seal::offset(header.geometry).0);
    let bytes = device.bytes(&header.head_name())?;
    Seal::decode(bytes.get(at..)?, header)?;
    Some((header.head_name(), at..at + SECTOR))
}
