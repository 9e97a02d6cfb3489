//! The writer: appends, syncs, marks, a clean close, and the response to failures.

mod ahead;
mod cut;
mod flights;
mod recover;
mod reuse;
mod roll;

pub use recover::recover;

use crate::disk::{DirOp, Live, Name, Stop, World, BLOCK, SECTOR};
use crate::format::*;
use crate::inspect::Segment;
use crate::rules::Rules;
use crate::text;
use std::collections::BTreeMap;

const ATTEMPTS: usize = 3;
/// The maximum number of records in a batch, and of batches in a write.
pub const BATCH: usize = 2;
pub const WRITE: usize = 2;

/// One device write: one batch or several.
#[derive(Clone)]
struct Write {
    first: u16,
    values: Vec<u64>,
    /// (last LSN, end, digest) of each batch.
    parts: Vec<(u16, usize, u64)>,
    /// The offset of the last batch, and the LSN that it confirms.
    evidence: (usize, u16),
    ticket: u32,
    /// The result of its sync, once that has returned.
    returned: Option<bool>,
}

impl Write {
    fn last(&self) -> u16 {
        self.first + self.values.len() as u16 - 1
    }
}

#[derive(Clone)]
pub struct Writer {
    rules: Rules,
    layout: Layout,
    chain: Vec<Segment>,
    pos: usize,
    digest: u64,
    next: u16,
    acked: u16,
    confirmed: u16,
    in_flight: Vec<Write>,
    /// (last LSN, end) of each batch of this segment.
    ends: Vec<(u16, usize)>,
    /// The digest of the batch of each LSN.
    digests: BTreeMap<u16, u64>,
    mark_seq: u16,
    max_id: u16,
    manifest: Manifest,
    manifest_file: usize,
    reuse: reuse::Pool,
    ahead: ahead::State,
}

impl Writer {
    fn new(rules: Rules, layout: Layout, max_id: u16) -> Writer {
        Writer {
            rules,
            layout,
            chain: vec![],
            pos: 0,
            digest: 0,
            next: 1,
            acked: 0,
            confirmed: 0,
            in_flight: vec![],
            ends: vec![],
            digests: BTreeMap::new(),
            mark_seq: 0,
            max_id,
            manifest: Manifest::default(),
            manifest_file: 0,
            reuse: reuse::Pool::default(),
            ahead: ahead::State::default(),
        }
    }

    pub fn create(w: &mut World, rules: Rules, layout: Layout) -> Result<Writer, Stop> {
        let max_id = w
            .names
            .keys()
            .map(|n| if let Name::Segment(i) = n { *i } else { 0 })
            .max()
            .unwrap_or(0);
        let mut me = Writer::new(rules, layout, max_id);
        me.retrying(w, |me, w| me.roll_to(w, 1, &[], None, SMALL))?;
        me.manifest_file = match w.names.get(&Name::Manifest) {
            Some(file) => *file,
            None => {
                let file = w.add_file(2 * BLOCK);
                w.dir(DirOp::Link(Name::Manifest, file))?;
                file
            }
        };
        me.write_manifest(w, 2)?;
        w.sync_dir()?;
        me.tell(w)?;
        Ok(me)
    }

    fn retrying(
        &mut self,
        w: &mut World,
        act: impl Fn(&mut Writer, &mut World) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for _ in 0..ATTEMPTS {
            match act(self, w) {
                Err(Stop::Failed) => {}
                other => return other,
            }
        }
        Err(Stop::Poisoned)
    }

    fn current(&self) -> Segment {
        *self.chain.last().expect("a log has a segment")
    }

    fn digest_of(&self, lsn: u16) -> u64 {
        self.digests.get(&lsn).copied().unwrap_or(0)
    }

    /// Publishes for readers what is durable.
    fn tell(&self, w: &mut World) -> Result<(), Stop> {
        let h = self.current().header;
        w.tell(Live { id: h.id, epoch: h.epoch, durable: self.acked })
    }

    /// Acknowledges up to `lsn`, after publishing that for readers.
    fn acknowledge_to(&mut self, w: &mut World, lsn: u16) -> Result<(), Stop> {
        self.acked = lsn;
        if self.rules.live_before_ack {
            self.tell(w)?;
        }
        w.truth.acked = lsn as usize;
        if !self.rules.live_before_ack {
            self.tell(w)?;
        }
        Ok(())
    }

    /// Encodes the batches of `values` from byte `at` on. Returns their bytes, (last LSN, end,
    /// digest) of each, and the offset of the last one.
    fn encode(
        &self,
        epoch: u16,
        at: usize,
        part: &Part,
        set: bool,
        mut chain: u64,
    ) -> (Vec<u8>, Vec<(u16, usize, u64)>, usize) {
        let (mut bytes, mut parts, mut begin) = (vec![], vec![], at);
        let per = if self.layout == Layout::Text { 1 } else { BATCH };
        let count = part.values.chunks(per).len();
        for (i, values) in part.values.chunks(per).enumerate() {
            let first = part.first + (i * per) as u16;
            let confirmed = if self.rules.confirm_by_write {
                part.confirmed
            } else {
                part.confirmed.max(first - 1)
            };
            let goes_on = set && i + 1 < count;
            begin = at + bytes.len();
            let (b, digest) = match self.layout {
                Layout::Text => text::encode(epoch, first, confirmed, goes_on, values[0]),
                // Only the last batch of a write is padded.
                _ => {
                    let is_padded = self.layout == Layout::Padded && self.rules.pad_flights;
                    let seg = self.chain.last().map(|s| s.header);
                    let begins = seg.is_some_and(|h| h.ahead && h.base == part.first);
                    let pad = is_padded || (begins && self.rules.pad_first);
                    let pad = pad && i + 1 == count;
                    encode_batch(
                        epoch,
                        begin,
                        &Part { first, confirmed, values, goes_on },
                        chain,
                        pad,
                    )
                }
            };
            bytes.extend(b);
            chain = digest;
            parts.push((first + values.len() as u16 - 1, at + bytes.len(), digest));
        }
        (bytes, parts, begin)
    }

    fn write_manifest(&mut self, w: &mut World, slots: usize) -> Result<(), Stop> {
        let oldest = self.chain[0].header;
        self.manifest.oldest = (oldest.id, oldest.epoch);
        for _ in 0..slots {
            self.manifest.seq += 1;
            let slot = self.manifest.seq as usize % 2;
            w.write(self.manifest_file, MANIFEST_SLOT[slot], &self.manifest.encode())?;
            w.sync(self.manifest_file)?;
        }
        Ok(())
    }

    fn room(&self) -> usize {
        data_start(self.layout, self.rules.gap) + self.current().header.size as usize * SECTOR
    }

    fn fits(&self, count: usize) -> bool {
        // The longest frame is 40 bytes.
        let batches = count.div_ceil(BATCH) * BATCH_HEADER;
        let bytes =
            if self.layout == Layout::Text { text::LINE * count } else { batches + 40 * count };
        self.pos + bytes.next_multiple_of(BLOCK) <= self.room()
    }

    /// Encodes the batches of `count` new records and starts the write of all of them.
    fn submit(&mut self, w: &mut World, count: usize, set: bool) -> Result<(), Stop> {
        let values: Vec<u64> = (0..count as u64).map(|i| w.next_value + i).collect();
        w.next_value += count as u64;
        if set {
            w.truth.sets.push((w.truth.log.len() + 1, w.truth.log.len() + count));
        }
        w.truth.log.extend(&values);
        let confirmed = if self.rules.confirm_after_barrier {
            self.confirmed
        } else {
            self.next - 1 + count as u16
        };
        let seg = self.current();
        let part = Part { first: self.next, confirmed, values: &values, goes_on: false };
        let (mut image, parts, begin) =
            self.encode(seg.header.epoch, self.pos, &part, set, self.digest);
        let (at, end) = (self.pos, self.pos + image.len());
        if self.layout != Layout::Text && self.rules.fill_block {
            image.resize(end.next_multiple_of(BLOCK).min(self.room()) - at, 0);
        }
        let digest = parts.last().expect("a write holds a batch").2;
        let evidence = (begin, confirmed);
        let write = Write { first: self.next, values, parts, evidence, ticket: 0, returned: None };
        self.in_flight.push(write);
        self.next += count as u16;
        let ticket = w.write(seg.file, at, &image)?;
        self.in_flight.last_mut().expect("just pushed").ticket = ticket;
        (self.pos, self.digest) = (end, digest);
        self.seal_the_one_before(w)
    }

    /// Acknowledges the oldest write in flight, whose sync has returned.
    fn acknowledge(&mut self, w: &mut World) -> Result<(), Stop> {
        let b = self.in_flight.remove(0);
        let mut first = b.first;
        for (last, end, digest) in &b.parts {
            self.digests.extend((first..=*last).map(|l| (l, *digest)));
            self.ends.push((*last, *end));
            first = last + 1;
        }
        self.acknowledge_to(w, b.last())?;
        // This durable batch is evidence for the earlier records that it confirms.
        let (begin, confirmed) = b.evidence;
        let far = |end: usize| !self.rules.far_confirm || end + REACH <= begin;
        let proven =
            self.ends.iter().filter(|(lsn, end)| *lsn <= confirmed && far(*end)).map(|e| e.0).max();
        let mut proven = proven.unwrap_or(0) as usize;
        // Recovery returns a set whole or not at all: no record of it is safe before its last
        // batch.
        let open = w.truth.sets.iter().find(|s| s.0 <= proven && proven < s.1);
        if let (true, Some(set)) = (self.rules.confirm_sets, open) {
            proven = set.0 - 1;
        }
        w.truth.confirmed = w.truth.confirmed.max(proven);
        if self.rules.confirm_in_order {
            self.confirmed = self.confirmed.max(b.last());
        }
        self.finish_rotation(w)
    }

    fn saw_barrier(&mut self, b: &Write) {
        if !self.rules.confirm_in_order {
            self.confirmed = self.confirmed.max(b.last());
        }
    }

    pub fn roll(&mut self, w: &mut World) -> Result<(), Stop> {
        self.settle(w)?;
        if self.is_prepared() {
            self.ahead.is_due = true;
            return Ok(());
        }
        let size = if self.rules.features.flights == 2 { LARGEST } else { LARGE };
        self.go_on(w, self.next, &[], size)
    }

    /// Continues in a new segment that starts at `base` with `values`, and acknowledges these.
    fn go_on(&mut self, w: &mut World, base: u16, values: &[u64], size: usize) -> Result<(), Stop> {
        self.retrying(w, |me, w| {
            let pred = me.current();
            me.roll_to(w, base, values, Some(pred), size)
        })?;
        w.truth.failing = false;
        self.acknowledge_to(w, self.next - 1)?;
        w.truth.confirmed = w.truth.confirmed.max(self.confirmed as usize);
        Ok(())
    }

    /// Writes one mark slot, because the log is idle.
    pub fn mark(&mut self, w: &mut World) -> Result<(), Stop> {
        if self.rules.confirmed_waits {
            self.settle(w)?;
        }
        let seg = self.current();
        self.mark_seq += 1;
        let slot = self.mark_seq as usize % 2;
        w.write(seg.head, SLOT[slot], &encode_mark(seg.header.epoch, self.acked, self.mark_seq))?;
        match w.sync(seg.head) {
            Ok(()) => {
                self.confirmed = self.acked;
                w.truth.confirmed = self.acked as usize;
                Ok(())
            }
            Err(Stop::Failed) => self.go_on(w, self.next, &[], SMALL),
            Err(stop) => Err(stop),
        }
    }

    /// Closes cleanly: the manifest says where the log ends, which stays true whatever follows.
    pub fn close(&mut self, w: &mut World) -> Result<(), Stop> {
        self.settle(w)?;
        let h = self.current().header;
        self.manifest.closed = (self.acked, h.id, h.epoch);
        self.write_manifest(w, if self.rules.close_both { 2 } else { 1 })?;
        w.truth.closed = self.acked as usize;
        w.truth.confirmed = self.acked as usize;
        Ok(())
    }
}
