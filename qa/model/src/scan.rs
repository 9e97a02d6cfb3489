//! The content of one segment: its valid prefix, the confirmed LSN, and the bytes after the prefix.

use crate::disk::{World, BLOCK, SECTOR};
use crate::format::*;
use crate::inspect::{Segment, Verdict};
use crate::rules::{Rules, Tail};
use crate::table::Untouched;
use crate::text;
use crate::writer::{BATCH, WRITE};

/// The content of one segment.
pub struct Scan {
    /// The value of each record and the digest of its batch.
    pub records: Vec<(u64, u64)>,
    pub confirmed: usize,
    /// The end of the valid prefix.
    pub end: usize,
    pub digest: u64,
    /// Whether the last batch says that its set continues.
    pub open_set: bool,
    /// The number of records up to the end of the last finished set; `whole_end` is that end.
    pub whole: usize,
    pub whole_end: usize,
    pub ends: Vec<(u16, usize)>,
}

/// Scans one segment. A record whose body is not to be judged has the value zero.
pub fn scan(w: &World, seg: &Segment, r: &Rules, layout: Layout, bodies: bool) -> Scan {
    let (h, file) = (seg.header, &w.files[seg.file].cache);
    let end = data_start(layout, r.gap);
    let mut out = Scan {
        records: vec![],
        confirmed: 0,
        end,
        digest: h.chain(),
        open_set: false,
        whole: 0,
        whole_end: end,
        ends: vec![],
    };
    if layout == Layout::Text {
        text::scan(file, h, r, &mut out);
    } else {
        scan_batches(file, h, r, bodies, &mut out);
    }
    for slot in 0..2 {
        if let Some((epoch, confirmed, _)) = decode_mark(&w.files[seg.head].cache, slot) {
            if epoch == h.epoch {
                out.confirmed = out.confirmed.max(confirmed as usize);
            }
        }
    }
    out
}

fn scan_batches(file: &[u8], h: Header, r: &Rules, bodies: bool, out: &mut Scan) {
    while let Some(b) = decode_header(file, out.end, h.epoch) {
        let expected = h.base as usize + out.records.len();
        if b.first as usize != expected || b.chain != out.digest & 0xFFFF_FFFF_FFFF {
            break;
        }
        let values = if bodies {
            decode_body(file, out.end, h.epoch, &b)
        } else {
            Some(vec![0; b.count as usize])
        };
        let Some(values) = values else {
            break;
        };
        out.records.extend(values.into_iter().map(|v| (v, b.digest)));
        out.end += BATCH_HEADER + b.len as usize;
        out.digest = b.digest;
        out.confirmed = out.confirmed.max(b.confirmed as usize);
        out.ends.push((b.first + b.count - 1, out.end));
        out.open_set = b.goes_on;
        if !b.goes_on {
            (out.whole, out.whole_end) = (out.records.len(), out.end);
        }
    }
    if r.whole_scan {
        for at in (out.end..file.len()).step_by(8) {
            if let Some(b) = decode_header(file, at, h.epoch) {
                out.confirmed = out.confirmed.max(b.confirmed as usize);
            }
        }
    }
}

/// Judges the bytes after V, where no record is at or below W.
pub fn classify(
    w: &World,
    seg: &Segment,
    scan: &Scan,
    p: usize,
    r: &Rules,
    layout: Layout,
) -> Verdict {
    let file = &w.files[seg.file].cache;
    let untouched = Untouched::after(w, seg, p, r, layout);
    if untouched.all(p, file.len()) {
        return Verdict::Clean;
    }
    if r.tail == Tail::Watermark {
        return Verdict::Torn;
    }
    let flights = if r.window_counts_flights { seg.header.flights as usize } else { 1 };
    let longest = (WRITE * (BATCH_HEADER + BATCH * 40)).next_multiple_of(BLOCK);
    let window = (p + flights * longest + BLOCK).next_multiple_of(SECTOR).min(file.len());
    if !untouched.all(window, file.len()) {
        return Verdict::Ambiguous;
    }
    if p + BATCH_HEADER > file.len() {
        return Verdict::Ambiguous;
    }
    match decode_header(file, p, seg.header.epoch) {
        Some(h) => {
            let end = p + BATCH_HEADER + h.len as usize;
            let expected = seg.header.base as usize + scan.records.len();
            if h.first as usize != expected || end > file.len() {
                return Verdict::Ambiguous;
            }
            let look = |from, to, end| untouched.any(from, to, end);
            if untouched.any(p + BATCH_HEADER, end, file.len())
                && frames_in_written_sectors_are_sound(file, p, seg.header.epoch, &h, &look)
            {
                Verdict::Torn
            } else {
                Verdict::Ambiguous
            }
        }
        None if untouched.any(p, p + BATCH_HEADER, file.len()) => Verdict::Torn,
        None => Verdict::Ambiguous,
    }
}
