//! Describes the files of a log, for the trace of a run.

use crate::evidence::begun_header;
use seawall_format::{Live, Manifest, Seal, SegmentHeader, lsn_or_zero};
use seawall_testkit::MemStorage;

/// Describes all files of a device in one line.
pub(crate) fn describe(device: &MemStorage) -> String {
    let names = device.names().into_iter();
    let files = names.map(|name| {
        let bytes = device.bytes(&name).unwrap_or_default();
        segment(&name, &bytes)
            .or_else(|| live(&bytes))
            .or_else(|| manifest(&bytes))
            .unwrap_or_else(|| format!("{name} of {} bytes", bytes.len()))
    });
    files.collect::<Vec<_>>().join("; ")
}

fn segment(name: &str, bytes: &[u8]) -> Option<String> {
    let decoded = SegmentHeader::decode(bytes).ok()?;
    let Some(header) = begun_header(bytes) else {
        return Some(format!("{name} behind {:?}, not begun", decoded.pred));
    };
    let SegmentHeader { base, carried, pred, .. } = &header;
    let (carried, pred) = (lsn_or_zero(*carried), pred.map_or(0, |pred| pred.id.get()));
    let at = usize::try_from(Seal::offset(header.geometry).0).ok()?;
    let seal = bytes.get(at..).and_then(|bytes| Seal::decode(bytes, &header));
    let seal = seal.map(|Seal { last, next, .. }| (lsn_or_zero(last), next.id.get()));
    Some(format!("{name} from {base}, carried {carried}, behind {pred}, sealed {seal:?}"))
}

fn live(bytes: &[u8]) -> Option<String> {
    let live = Live::decode(bytes)?;
    Some(format!("live: segment {}, up to {}", live.segment.id, lsn_or_zero(live.durable)))
}

fn manifest(bytes: &[u8]) -> Option<String> {
    let slots = Manifest::decode_file(bytes).into_iter().flatten();
    let slot = slots.max_by_key(|slot| slot.sequence)?;
    let closed = slot.closed.map(|closed| (closed.segment.id.get(), lsn_or_zero(closed.last)));
    Some(format!("manifest: oldest {}, closed {closed:?}", slot.oldest.id))
}
