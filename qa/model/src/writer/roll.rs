//! Rotation: a new segment becomes durable, gets its name, and is linked by its predecessor's seal.

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

    /// Makes a segment that starts at `base` and holds `values`, durable and under its final name.
    pub(super) fn make_segment(
        &mut self,
        w: &mut World,
        base: u16,
        values: &[u64],
        pred: Option<Segment>,
        size: usize,
    ) -> Result<(), Stop> {
        let r = self.rules;
        let data = data_start(self.layout, r.gap);
        let carry = Part { first: base, confirmed: base - 1, values, goes_on: false };
        let longest = self.encode(0, data, &carry, false, 0).0.len();
        let longest = longest.div_ceil(SECTOR).next_multiple_of(BLOCK / SECTOR);
        let sizes = (longest.max(SMALL), longest.max(size));
        let (mut header, spare) = self.new_header(w, pred, sizes)?;
        header.base = base;
        header.pred_digest = self.digest_of(base - 1) as u16;
        header.carried = base - 1 + if r.header_confirms { values.len() as u16 } else { 0 };
        let (mut bytes, parts, _) = self.encode(header.epoch, data, &carry, false, header.chain());
        let end = data + bytes.len();
        if spare.is_some() && r.fill_block {
            bytes.resize(end.next_multiple_of(BLOCK) - data, 0);
        }
        let seg = self.build(w, header, &bytes, spare)?;
        self.chain.push(seg);
        self.pos = end;
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
        self.ahead = super::ahead::State::default();
        Ok(())
    }

    /// Makes the segment after the current one under its final name, without a batch.
    pub(super) fn make_ahead(&mut self, w: &mut World) -> Result<Segment, Stop> {
        let pred = self.current();
        let (mut header, spare) = self.new_header(w, Some(pred), (SMALL, LARGE))?;
        header.ahead = true;
        self.build(w, header, &[], spare)
    }

    /// Returns the header of a new segment, and the spare to make it from, if one has at least the
    /// smaller of the two sizes.
    fn new_header(
        &mut self,
        w: &mut World,
        pred: Option<Segment>,
        (least, size): (usize, usize),
    ) -> Result<(Header, Option<usize>), Stop> {
        let r = self.rules;
        let spare = self.pick_spare(w, least)?;
        self.max_id += 1;
        let old = spare.and_then(|file| Header::decode(&w.files[file].cache)).map(|h| h.epoch);
        let planted = || old.unwrap_or_else(|| visible_epoch(w) + 1);
        let epoch = if r.fresh_epoch { w.next_epoch } else { planted() };
        w.next_epoch += 1;
        let data = data_start(self.layout, r.gap);
        let header = Header {
            id: self.max_id,
            epoch,
            base: 0,
            pred_id: pred.map_or(0, |p| p.header.id),
            pred_epoch: pred.map_or(0, |p| p.header.epoch),
            pred_digest: 0,
            size: spare.map_or(size, |file| (w.files[file].cache.len() - data) / SECTOR) as u16,
            carried: 0,
            reused: spare.is_some(),
            ahead: false,
            flights: r.features.flights,
            link: 0,
        };
        Ok((header, spare))
    }

    /// Makes the files of a segment with this content, and names them.
    fn build(
        &mut self,
        w: &mut World,
        header: Header,
        bytes: &[u8],
        spare: Option<usize>,
    ) -> Result<Segment, Stop> {
        let r = self.rules;
        let data = data_start(self.layout, r.gap);
        let len = data + header.size as usize * SECTOR;
        let (mut head_bytes, mut table) = (header.encode(), None);
        let (name, head) = match spare {
            Some(file) => {
                head_bytes.resize(data, 0);
                table = Some(self.write_table(w, &header, file)?);
                (Name::Spare(file as u16), file)
            }
            None => self.new_file(w, if self.layout == Layout::Text { HEAD } else { len })?,
        };
        let (text, file) =
            if self.layout == Layout::Text { self.new_file(w, 0)? } else { (name, head) };
        if r.content_before_name && !bytes.is_empty() {
            w.write(file, data, bytes)?;
            if file != head {
                w.sync(file)?;
            }
        }
        w.write(head, 0, &head_bytes)?;
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
        if let (Some(table), false) = (table, r.table_synced) {
            w.sync(table)?;
        }
        if !r.content_before_name && !bytes.is_empty() {
            w.write(file, data, bytes)?;
            w.sync(file)?;
        }
        Ok(Segment { header, file, head })
    }

    /// Continues in a new segment, which is durable before the seal of its predecessor names it.
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
        if let (false, false, Some(p)) = (r.trim_after_roll, self.reuses(), pred) {
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
            if r.trim_after_roll && !self.reuses() {
                trim(w, p, &r, self.layout)?;
            }
        }
        Ok(())
    }

    fn seal(&self, w: &mut World, seg: Segment, last: u16, next: (u16, u16)) -> Result<(), Stop> {
        w.write(seg.head, SEAL, &encode_seal(seg.header.epoch, last, next))?;
        w.sync(seg.head)
    }

    /// Planted bug: makes the next segment while a batch of this one is in flight.
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

/// Truncates the unused zeros of a sealed segment. No sync follows.
pub(super) fn trim(w: &mut World, seg: Segment, r: &Rules, layout: Layout) -> Result<(), Stop> {
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
