//! Rotation: a new segment is made durable under another name, named, then sealed into the chain.

use super::Writer;
use crate::disk::{DirOp, Name, Stop, World, BLOCK, SECTOR};
use crate::format::*;
use crate::inspect::Segment;
use crate::rules::Rules;
use crate::scan::scan;

impl Writer {
    fn new_file(&self, w: &mut World, len: usize) -> Result<(Name, usize), Stop> {
        let file = w.add_file(len);
        let name = Name::Temporary(file as u16);
        w.dir(DirOp::Link(name, file))?;
        Ok((name, file))
    }

    /// Makes a segment that starts at `base` and holds `values`; returns it durable and named.
    pub(super) fn make_segment(
        &mut self,
        w: &mut World,
        base: u16,
        values: &[u64],
        pred: Option<Segment>,
        size: usize,
    ) -> Result<(), Stop> {
        let r = self.rules;
        self.max_id += 1;
        let epoch = if r.fresh_epoch { w.next_epoch } else { visible_epoch(w) + 1 };
        w.next_epoch += 1;
        let data = data_start(self.layout, r.gap);
        let mut header = Header {
            id: self.max_id,
            epoch,
            base,
            pred_id: pred.map_or(0, |p| p.header.id),
            pred_epoch: pred.map_or(0, |p| p.header.epoch),
            pred_digest: self.digest_of(base - 1) as u16,
            size: 0,
            carried: base - 1 + if r.header_confirms { values.len() as u16 } else { 0 },
        };
        let carry = Part { first: base, confirmed: base - 1, values, goes_on: false };
        let longest = self.encode(epoch, data, &carry, false, 0).0.len();
        header.size = size.max(longest.div_ceil(SECTOR).next_multiple_of(BLOCK / SECTOR)) as u16;
        let (bytes, parts, _) = self.encode(epoch, data, &carry, false, header.chain());
        let len = data + header.size as usize * SECTOR;
        let (name, head) =
            self.new_file(w, if self.layout == Layout::Text { HEAD } else { len })?;
        let (text, file) =
            if self.layout == Layout::Text { self.new_file(w, 0)? } else { (name, head) };
        if r.content_before_name && !bytes.is_empty() {
            w.write(file, data, &bytes)?;
            if file != head {
                w.sync(file)?;
            }
        }
        w.write(head, 0, &header.encode())?;
        w.sync(head)?;
        if file != head {
            w.dir(DirOp::Rename(text, Name::Text(header.id)))?;
            if r.text_named_first {
                w.sync_dir()?;
            }
        }
        w.dir(DirOp::Rename(name, Name::Segment(header.id)))?;
        if r.sync_dir {
            w.sync_dir()?;
        }
        if !r.content_before_name && !bytes.is_empty() {
            w.write(file, data, &bytes)?;
            w.sync(file)?;
        }
        self.chain.push(Segment { header, file, head });
        self.pos = data + bytes.len();
        self.digest = parts.last().map_or(header.chain(), |p| p.2);
        self.mark_seq = 0;
        self.ends.clear();
        let mut first = base;
        for (last, end, digest) in parts {
            self.ends.push((last, end));
            self.digests.extend((first..=last).map(|l| (l, digest)));
            first = last + 1;
        }
        self.confirmed = header.carried;
        Ok(())
    }

    /// Continues in a new segment: made durable first, then named by the seal of its predecessor.
    pub(super) fn roll_to(
        &mut self,
        w: &mut World,
        base: u16,
        values: &[u64],
        pred: Option<Segment>,
        size: usize,
    ) -> Result<(), Stop> {
        let r = self.rules;
        if let (false, Some(p)) = (r.seal_names_next, pred) {
            self.seal(w, p, base - 1, (0, 0))?;
        }
        if let (false, Some(p)) = (r.trim_after_roll, pred) {
            trim(w, p, &r, self.layout)?;
        }
        self.make_segment(w, base, values, pred, size)?;
        if let (true, Some(p)) = (r.seal_names_next, pred) {
            if r.reseal_on_cut
                || decode_seal(&w.files[p.head].cache).is_none_or(|s| s.0 != p.header.epoch)
            {
                let next = self.current().header;
                self.seal(w, p, base - 1, (next.id, next.epoch))?;
            }
            if r.trim_after_roll {
                trim(w, p, &r, self.layout)?;
            }
        }
        Ok(())
    }

    fn seal(&self, w: &mut World, seg: Segment, last: u16, next: (u16, u16)) -> Result<(), Stop> {
        w.write(seg.head, SEAL, &encode_seal(seg.header.epoch, last, next))?;
        w.sync(seg.head)
    }

    /// Planted: the next segment is made while a batch of this one is in flight.
    pub(super) fn roll_undrained(&mut self, w: &mut World) -> Result<(), Stop> {
        let pred = self.current();
        let (next, flight) = (self.next, std::mem::take(&mut self.in_flight));
        for b in &flight {
            self.digests.extend((b.first..=b.last()).map(|l| (l, b.parts[0].2)));
        }
        self.make_segment(w, next, &[], Some(pred), SMALL)?;
        for b in flight {
            w.complete(b.ticket)?;
            self.acknowledge_to(w, b.last())?;
        }
        Ok(())
    }
}

/// Cuts the unused zeros off a sealed segment; no barrier follows.
fn trim(w: &mut World, seg: Segment, r: &Rules, layout: Layout) -> Result<(), Stop> {
    let file = &w.files[seg.file].cache;
    let mut used = file.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    if r.trim_keeps_batches {
        // A body may end in zeros.
        used = used.max(scan(w, &seg, r, layout, false).end);
    }
    let len = if layout == Layout::Text { used } else { used.next_multiple_of(BLOCK).max(HEAD) };
    if len < file.len() {
        w.shorten(seg.file, len)?;
    }
    Ok(())
}

fn visible_epoch(w: &World) -> u16 {
    let epochs = w
        .names
        .iter()
        .filter(|(n, _)| matches!(n, Name::Segment(_)))
        .filter_map(|(_, f)| Header::decode(&w.files[*f].cache))
        .map(|h| h.epoch);
    epochs.max().unwrap_or(0)
}
