//! The rules under test: the writer, and recovery. Each rule can be dropped by a switch.

use crate::disk::{DirOp, Live, Name, Stop, World, BLOCK, SECTOR};
use crate::format::*;
use crate::text;
use std::collections::BTreeMap;

const ATTEMPTS: usize = 3;
/// Records in one batch, batches in one write, at most.
const BATCH: usize = 2;
const WRITE: usize = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tail {
    /// What lies beyond V and above W is torn if it looks like a half-written batch over zeros.
    ZeroPreimage,
    /// What lies beyond V and above W is torn, whatever it is.
    Watermark,
}

macro_rules! rules {
    ($($name:ident: $about:literal,)*) => {
        /// Every switch is true in the design as mended; false plants the bug.
        #[derive(Clone, Copy)]
        pub struct Rules { pub tail: Tail, $(pub $name: bool,)* }
        impl Rules {
            pub fn all() -> Rules { Rules { tail: Tail::ZeroPreimage, $($name: true,)* } }
            pub fn without(name: &str) -> Rules {
                let mut r = Rules::all();
                $(if name == stringify!($name) { r.$name = false; })*
                r
            }
            pub const NAMES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), $about),)*];
        }
    };
}

rules! {
    fresh_epoch: "each segment has an epoch never used before (off: highest visible + 1)",
    roll_after_cut: "a cut tail is followed by a new segment (off: append in place, same epoch)",
    no_retry: "a failed barrier is not repeated on the same blocks",
    confirm_after_barrier: "confirmed is raised only after the barrier returned",
    confirm_in_order: "confirmed counts only LSNs below which all barriers returned",
    confirm_by_write: "a batch does not confirm another batch of its own write",
    sync_dir: "directory sync before the first acknowledgement in a segment",
    base_hides: "frames at or above a successor's base are ignored",
    content_before_name: "rewritten records are durable before the segment gets its name",
    seal_names_next: "the seal names the successor, is written after it is durable, and is checked",
    reseal_on_cut: "truncation and recovery rewrite the seal of the segment they cut",
    rewrite_unconfirmed: "recovery rewrites (W, V] into the new segment",
    carry_block: "a failed barrier carries the whole shared block into the new segment",
    header_confirms: "the header says up to where its segment was durable when it got its name",
    pred_holds_w: "recovery links the new segment to the one that holds W",
    in_place_needs_own_mark:
        "recovery goes on in place only if the segment confirms a record of its own",
    in_place_needs_seal:
        "and only if its predecessor's seal names it: else the roll was cut before its end",
    drain_before_roll: "a segment's base is below every LSN whose barrier has not returned",
    manifest_first: "segments are given up only after the manifest is durable",
    whole_scan: "confirmed is looked for in the whole segment, not in the valid prefix",
    check_name: "the header's id must match the file's name",
    check_header: "an unreadable header of a named segment is damage",
    check_length: "a newest segment shorter than its header says is damage",
    trim_after_roll: "the unused tail is cut off after the successor is durable",
    trim_keeps_batches:
        "it is measured by the end of the last batch (off: by the last byte not zero)",
    gap: "mark slots lie farther from the data than a fault reaches",
    far_confirm: "a batch confirms only records farther away than a fault reaches",
    confirm_sets: "a record of an atomic set is confirmed only with the whole of it",
    manifest_at_open: "recovery rewrites the manifest before it makes a segment",
    manifest_doubtful_first:
        "and begins with an unreadable slot, else the newest: it may be so in the cache only",
    manifest_in_place:
        "and, with where it opened as a clean close, before it goes on in place: see `recover`",
    close_both: "a clean close goes to both slots: the next open overwrites the newest first",
    names_carry_epoch: "seal and manifest name a segment by id and epoch",
    sync_files_at_open:
        "recovery syncs the manifest and the newest segment before it writes to them",
    sync_dir_at_open: "recovery syncs the directory before it trusts what it sees",
    check_close: "where the last clean close ended is evidence for W",
    clamp_close: "that evidence is clamped to the live range of the segment it names",
    lower_checkpoints: "a cut lowers the checkpoints in the manifest first",
    whole_sets: "V ends at the end of an atomic set",
    torn_behind_set: "the tail test starts at the end of the valid prefix, not at V",
    live_before_ack: "`live` is written before the acknowledgement",
    live_lowered_first: "a cut lowers `live` before it makes its segment",
    live_after_recovery: "recovery writes `live` last (off: first, with V)",
    reader_heeds_live: "a reader on the same boot goes no further than `live`",
    text_named_first: "text is named, and the directory synced, before its head is named",
}

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub header: Header,
    /// Holds the records.
    pub file: usize,
    /// Holds header, slots and seal: the same file unless the layout is text.
    pub head: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Verdict {
    Clean,
    Torn,
    CannotTell,
    /// Open refuses; the text says which check.
    Damage(&'static str),
    /// No log here yet.
    Fresh,
}

pub struct Inspection {
    pub verdict: Verdict,
    /// LSN of the first record found.
    pub start: usize,
    /// A zero stands for a record whose body was not judged.
    pub records: Vec<u64>,
    /// Digest of the batch of each record found.
    digests: Vec<u64>,
    pub w: usize,
    pub chain: Vec<Segment>,
    pub manifest: Option<Manifest>,
    max_id: u16,
    end: usize,
    /// (last LSN, end) of the batches of the newest segment.
    ends: Vec<(u16, usize)>,
    digest: u64,
    /// The last batches of an unfinished set are cut.
    cut_set: bool,
}

/// One device write: one batch or several.
#[derive(Clone)]
struct Write {
    first: u16,
    values: Vec<u64>,
    /// (last LSN, end, digest) of its batches.
    parts: Vec<(u16, usize, u64)>,
    /// Where the last batch begins, and what it confirms.
    evidence: (usize, u16),
    ticket: u32,
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
    /// (last LSN, end) of the batches of this segment.
    ends: Vec<(u16, usize)>,
    /// Digest of the batch of each LSN.
    digests: BTreeMap<u16, u64>,
    mark_seq: u16,
    max_id: u16,
    manifest: Manifest,
    manifest_file: usize,
}

impl Writer {
    pub fn create(w: &mut World, rules: Rules, layout: Layout) -> Result<Writer, Stop> {
        let max_id = w
            .names
            .keys()
            .map(|n| if let Name::Segment(i) = n { *i } else { 0 })
            .max()
            .unwrap_or(0);
        let mut me = Writer {
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
        };
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

    /// Tells readers what is durable.
    fn tell(&self, w: &mut World) -> Result<(), Stop> {
        let h = self.current().header;
        w.tell(Live { id: h.id, epoch: h.epoch, durable: self.acked })
    }

    /// Acknowledges up to `lsn`: readers first.
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

    fn new_file(&self, w: &mut World, len: usize) -> Result<(Name, usize), Stop> {
        let file = w.add_file(len);
        let name = Name::Temporary(file as u16);
        w.dir(DirOp::Link(name, file))?;
        Ok((name, file))
    }

    /// The batches of `values` from byte `at` on: their bytes, and (last LSN, end, digest) of each.
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
                // Padding follows the last batch of a write.
                _ => {
                    let pad = self.layout == Layout::Padded && i + 1 == count;
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

    /// Makes a segment that starts at `base` and holds `values`; returns it durable and named.
    fn make_segment(
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

    /// Goes on in a new segment: made durable first, then named by the seal of its predecessor.
    fn roll_to(
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

    /// Builds the batches of `count` new records and starts their one write.
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
        if self.layout != Layout::Text {
            image.resize(end.next_multiple_of(BLOCK).min(self.room()) - at, 0);
        }
        let digest = parts.last().expect("a write holds a batch").2;
        let evidence = (begin, confirmed);
        self.in_flight.push(Write { first: self.next, values, parts, evidence, ticket: 0 });
        self.next += count as u16;
        let ticket = w.write(seg.file, at, &image)?;
        self.in_flight.last_mut().expect("just pushed").ticket = ticket;
        (self.pos, self.digest) = (end, digest);
        Ok(())
    }

    /// The barrier of the oldest write in flight has returned: acknowledge it.
    fn acknowledge(&mut self, w: &mut World) -> Result<(), Stop> {
        let b = self.in_flight.remove(0);
        let mut first = b.first;
        for (last, end, digest) in &b.parts {
            self.digests.extend((first..=*last).map(|l| (l, *digest)));
            self.ends.push((*last, *end));
            first = last + 1;
        }
        self.acknowledge_to(w, b.last())?;
        // What this durable batch carries is evidence for earlier ones.
        let (begin, confirmed) = b.evidence;
        let far = |end: usize| !self.rules.far_confirm || end + REACH <= begin;
        let proven =
            self.ends.iter().filter(|(lsn, end)| *lsn <= confirmed && far(*end)).map(|e| e.0).max();
        let mut proven = proven.unwrap_or(0) as usize;
        // A set comes back whole or not at all: none of it is safe before its last batch is.
        let open = w.truth.sets.iter().find(|s| s.0 <= proven && proven < s.1);
        if let (true, Some(set)) = (self.rules.confirm_sets, open) {
            proven = set.0 - 1;
        }
        w.truth.confirmed = w.truth.confirmed.max(proven);
        if self.rules.confirm_in_order {
            self.confirmed = self.confirmed.max(b.last());
        }
        Ok(())
    }

    fn saw_barrier(&mut self, b: &Write) {
        if !self.rules.confirm_in_order {
            self.confirmed = self.confirmed.max(b.last());
        }
    }

    /// One write of `count` records; more than one batch if they do not fit one; atomic if `set`.
    pub fn append(&mut self, w: &mut World, count: usize, set: bool) -> Result<(), Stop> {
        if !self.fits(count) {
            self.roll(w)?;
        }
        self.submit(w, count, set)?;
        let b = self.in_flight[0].clone();
        match w.complete(b.ticket) {
            Ok(()) => {
                self.saw_barrier(&b);
                self.acknowledge(w)
            }
            Err(Stop::Failed) if !self.rules.no_retry => {
                w.complete(b.ticket)?;
                self.acknowledge(w)
            }
            Err(Stop::Failed) => self.fail_over(w),
            Err(stop) => Err(stop),
        }
    }

    /// Two batches in flight; `swap` says that the second barrier returns first. A third is
    /// built between the two, so that its `confirmed` is put to the test.
    pub fn append_pipelined(
        &mut self,
        w: &mut World,
        swap: bool,
        roll_early: bool,
    ) -> Result<(), Stop> {
        if !self.fits(6) {
            self.roll(w)?;
        }
        self.submit(w, 1, false)?;
        self.submit(w, 1, false)?;
        let (a, b) = (self.in_flight[0].clone(), self.in_flight[1].clone());
        let order = if swap { [b, a] } else { [a, b] };
        let mut failed = false;
        let mut good = vec![];
        for (i, batch) in order.iter().enumerate() {
            if i == 1 && roll_early && !self.rules.drain_before_roll {
                return self.roll_undrained(w);
            }
            match w.complete(batch.ticket) {
                Ok(()) => {
                    self.saw_barrier(batch);
                    good.push(batch.first);
                }
                Err(Stop::Failed) => failed = true,
                Err(stop) => return Err(stop),
            }
            while !failed && self.in_flight.first().is_some_and(|f| good.contains(&f.first)) {
                self.acknowledge(w)?;
            }
            if i == 0 && !failed {
                self.submit(w, 1, false)?;
            }
        }
        while let (false, Some(f)) = (failed, self.in_flight.first().cloned()) {
            match if good.contains(&f.first) { Ok(()) } else { w.complete(f.ticket) } {
                Ok(()) => self.acknowledge(w)?,
                Err(Stop::Failed) => failed = true,
                Err(stop) => return Err(stop),
            }
        }
        if failed {
            self.fail_over(w)
        } else if roll_early {
            self.roll(w)
        } else {
            Ok(())
        }
    }

    /// Planted: the next segment is made while a batch of this one is in flight.
    fn roll_undrained(&mut self, w: &mut World) -> Result<(), Stop> {
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

    pub fn roll(&mut self, w: &mut World) -> Result<(), Stop> {
        self.go_on(w, self.next, &[], LARGE)
    }

    /// Goes on in a new segment that starts at `base` with `values`, and acknowledges those.
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

    /// After a failed barrier: the records of its blocks go into a new segment.
    fn fail_over(&mut self, w: &mut World) -> Result<(), Stop> {
        w.truth.failing = true;
        self.in_flight.clear();
        let mut base = self.acked + 1;
        if self.rules.carry_block && self.layout != Layout::Padded {
            // What shares a block with the failed write may be lost with it.
            let end = self.ends.iter().filter(|e| e.0 == self.acked).map(|e| e.1).max();
            let block = end.unwrap_or(0) / BLOCK * BLOCK;
            let before = self.ends.iter().filter(|e| e.1 <= block).map(|e| e.0).max();
            let known = self
                .ends
                .first()
                .map_or(base, |_| before.map_or(self.current().header.base, |l| l + 1));
            base = base.min(known);
        }
        let values = w.truth.log[base as usize - 1..].to_vec();
        self.go_on(w, base, &values, SMALL)
    }

    /// Idle: one mark slot.
    pub fn mark(&mut self, w: &mut World) -> Result<(), Stop> {
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

    /// A clean close: the manifest says where the log ends. It stays true whatever follows.
    pub fn close(&mut self, w: &mut World) -> Result<(), Stop> {
        let h = self.current().header;
        self.manifest.closed = (self.acked, h.id, h.epoch);
        self.write_manifest(w, if self.rules.close_both { 2 } else { 1 })?;
        w.truth.closed = self.acked as usize;
        w.truth.confirmed = self.acked as usize;
        Ok(())
    }

    pub fn truncate_after(&mut self, w: &mut World, lsn: u16) -> Result<(), Stop> {
        if lsn >= self.acked || lsn + 1 < self.chain[0].header.base {
            return Ok(());
        }
        let t = &mut w.truth;
        t.cut = Some(lsn as usize);
        // From here on an idle record of the cut part is not promised any more.
        t.confirmed = t.confirmed.min(lsn as usize);
        t.closed = t.closed.min(lsn as usize);
        t.shown = t.shown.min(lsn as usize);
        t.sets.retain(|s| s.1 <= lsn as usize);
        let (told, checkpoints) = (self.acked, self.manifest.checkpoints);
        if self.rules.live_lowered_first {
            self.acked = lsn;
            self.tell(w)?;
            self.acked = told;
        }
        if self.rules.lower_checkpoints && checkpoints.0.max(checkpoints.1) > lsn {
            self.manifest.checkpoints = (checkpoints.0.min(lsn), checkpoints.1.min(lsn));
            self.write_manifest(w, 2)?;
        }
        let keep =
            self.chain.iter().rposition(|s| s.header.base <= lsn + 1).expect("checked above");
        let holder = self.chain[keep];
        self.chain.truncate(keep + 1);
        self.retrying(w, |me, w| {
            let pred = if me.chain.len() > keep + 1 { me.current() } else { holder };
            me.roll_to(w, lsn + 1, &[], Some(pred), SMALL)
        })?;
        self.next = lsn + 1;
        self.acked = lsn;
        self.digests.retain(|l, _| *l <= lsn);
        self.tell(w)?;
        let t = &mut w.truth;
        t.cut = None;
        t.log.truncate(lsn as usize);
        t.acked = lsn as usize;
        t.confirmed = t.confirmed.max(lsn as usize);
        t.shown = t.shown.min(lsn as usize);
        t.checkpoint = t.checkpoint.min(lsn as usize);
        Ok(())
    }

    /// Nothing before `lsn` is needed by the caller; segments stay for the checkpoint before.
    pub fn checkpoint(&mut self, w: &mut World, lsn: u16, prune: bool) -> Result<(), Stop> {
        let lsn = lsn.min(self.acked);
        w.truth.checkpoint = w.truth.checkpoint.max(lsn as usize);
        self.manifest.checkpoints = (lsn, self.manifest.checkpoints.0.min(lsn));
        if !prune {
            return self.write_manifest(w, 2);
        }
        let keep = self.chain.iter().rposition(|s| s.header.base <= lsn + 1).unwrap_or(0);
        let header = self.chain[keep].header;
        w.truth.first_needed = w.truth.first_needed.max(header.base as usize - 1);
        let old = |n: &Name| matches!(n, Name::Segment(i) | Name::Text(i) if *i < header.id);
        let dead: Vec<Name> = w.names.keys().copied().filter(old).collect();
        self.chain.drain(..keep);
        if self.rules.manifest_first {
            self.write_manifest(w, 2)?;
        }
        for name in dead {
            w.dir(DirOp::Unlink(name))?;
        }
        w.sync_dir()?;
        if !self.rules.manifest_first {
            self.write_manifest(w, 2)?;
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

/// What recovery reads and concludes; writes nothing.
pub fn inspect(w: &World, r: &Rules, layout: Layout) -> Inspection {
    judge(w, r, layout, None, false)
}

/// The same, with every body judged, as `verify` does.
pub fn verify(w: &World, r: &Rules, layout: Layout) -> Inspection {
    judge(w, r, layout, None, true)
}

/// What a reader beside the writer shows; nothing if it must try again.
pub fn reader(w: &World, r: &Rules, layout: Layout) -> Option<Inspection> {
    let found = judge(w, r, layout, w.live.filter(|_| r.reader_heeds_live), true);
    (!matches!(found.verdict, Verdict::Damage(_))).then_some(found)
}

fn judge(w: &World, r: &Rules, layout: Layout, live: Option<Live>, full: bool) -> Inspection {
    let mut out = Inspection {
        verdict: Verdict::Fresh,
        start: 1,
        records: vec![],
        digests: vec![],
        w: 0,
        chain: vec![],
        manifest: None,
        max_id: 0,
        end: 0,
        ends: vec![],
        digest: 0,
        cut_set: false,
    };
    if let Err(why) = look(w, r, layout, live, full, &mut out) {
        out.verdict = Verdict::Damage(why);
    }
    out
}

fn look(
    w: &World,
    r: &Rules,
    layout: Layout,
    live: Option<Live>,
    full: bool,
    out: &mut Inspection,
) -> Result<(), &'static str> {
    if let Some(file) = w.names.get(&Name::Manifest) {
        let slots = [0, 1].map(|s| Manifest::decode(&w.files[*file].cache, s));
        out.manifest = slots.into_iter().flatten().max();
    }
    let named: BTreeMap<u16, usize> = w
        .names
        .iter()
        .filter_map(|(n, f)| if let Name::Segment(i) = n { Some((*i, *f)) } else { None })
        .collect();
    out.max_id = named.keys().max().copied().unwrap_or(0);
    let text = |id: &u16| w.names.get(&Name::Text(*id)).copied();
    let Some(manifest) = out.manifest else {
        let used = named.iter().any(|(id, head)| {
            let file = &w.files[*head].cache;
            let Some(h) = Header::decode(file) else {
                return true;
            };
            let seg = Segment {
                header: h,
                file: if layout == Layout::Text { text(id).unwrap_or(*head) } else { *head },
                head: *head,
            };
            let found = scan(w, &seg, r, layout, true);
            found.confirmed > 0
                || !found.records.is_empty()
                || decode_seal(file).is_some_and(|s| s.0 == h.epoch)
        });
        return if used { Err("no manifest") } else { Ok(()) };
    };
    let oldest = manifest.oldest.0;
    let mut segments = BTreeMap::new();
    for (id, head) in named.range(oldest..=live.map_or(u16::MAX, |l| l.id.max(oldest))) {
        match Header::decode(&w.files[*head].cache) {
            Some(h) if h.id == *id || !r.check_name => {
                let file =
                    if layout == Layout::Text { text(id).ok_or("text missing")? } else { *head };
                segments.insert(*id, Segment { header: h, file, head: *head });
            }
            Some(_) => return Err("segment under another name"),
            None if r.check_header => return Err("segment header"),
            None => {}
        }
    }
    let Some((newest_id, newest)) = segments.last_key_value() else {
        return Err("no segment");
    };
    if live.is_some_and(|l| (l.id, l.epoch) != (newest.header.id, newest.header.epoch)) {
        return Err("not the segment that `live` names");
    }
    if r.names_carry_epoch
        && segments.get(&oldest).is_some_and(|s| s.header.epoch != manifest.oldest.1)
    {
        return Err("epoch differs from the manifest's");
    }
    for s in segments.values().filter(|_| live.is_none()) {
        let Some((_, _, next, next_epoch)) =
            decode_seal(&w.files[s.head].cache).filter(|x| x.0 == s.header.epoch)
        else {
            continue;
        };
        if r.seal_names_next && next > *newest_id {
            return Err("newest segment missing");
        }
        let replaced = |n: &Segment| n.header.epoch != next_epoch;
        if r.seal_names_next && r.names_carry_epoch && segments.get(&next).is_some_and(replaced) {
            return Err("epoch differs from the seal's");
        }
    }
    let mut chain = vec![*newest];
    while chain[0].header.id != oldest {
        let h = chain[0].header;
        match segments.get(&h.pred_id) {
            Some(p) if p.header.epoch == h.pred_epoch && p.header.id < h.id => chain.insert(0, *p),
            _ => return Err("segment missing in the chain"),
        }
    }
    let (lsn, id, epoch) = manifest.closed;
    let mut closed = 0;
    if live.is_none() && r.check_close && id > *newest_id {
        return Err("newest segment missing since the last clean close");
    }
    if let Some(at) = chain.iter().position(|s| s.header.id == id && r.check_close) {
        if chain[at].header.epoch != epoch {
            return Err("epoch differs from the last clean close's");
        }
        let limit = chain.get(at + 1).map_or(u16::MAX, |s| s.header.base - 1);
        closed = if r.clamp_close { lsn.min(limit) } else { lsn } as usize;
    }
    out.start = chain[0].header.base as usize;
    out.chain = chain.clone();
    let judged_from =
        chain.iter().rposition(|s| s.header.base <= manifest.checkpoints.0 + 1).unwrap_or(0);
    for (i, seg) in chain.iter().enumerate() {
        let next = chain.get(i + 1).map(|s| s.header);
        let scan = scan(w, seg, r, layout, full || i >= judged_from);
        let base = seg.header.base as usize;
        if base > out.start
            && out.digests.get(base - 1 - out.start).map(|d| *d as u16)
                != Some(seg.header.pred_digest)
        {
            return Err("predecessor digest");
        }
        let limit = next.map_or(usize::MAX, |h| h.base as usize - 1);
        let skip =
            if r.base_hides { 0 } else { (out.start + out.records.len()).saturating_sub(base) };
        let take = match next {
            None if r.whole_sets => scan.whole,
            Some(_) if r.base_hides => limit.saturating_sub(base - 1),
            _ => usize::MAX,
        };
        for (value, digest) in scan.records.iter().take(take).skip(skip) {
            out.records.push(*value);
            out.digests.push(*digest);
        }
        let v = out.start + out.records.len() - 1;
        if next.is_some() {
            if v < limit {
                return Err("V < base of the successor");
            }
            continue;
        }
        out.w = (base - 1).max(seg.header.carried as usize).max(scan.confirmed).max(closed);
        (out.end, out.digest, out.cut_set) = (scan.end, scan.digest, scan.open_set);
        if let Some(l) = live {
            let shown = (l.durable as usize + 1).saturating_sub(out.start);
            out.records.truncate(shown);
            out.verdict = Verdict::Clean;
            return if v < l.durable as usize {
                Err("a reader finds less than `live` says")
            } else {
                Ok(())
            };
        }
        if v < out.w {
            return Err("V < W");
        }
        let file = &w.files[seg.file].cache;
        let whole = data_start(layout, r.gap) + seg.header.size as usize * SECTOR;
        if layout != Layout::Text && r.check_length && file.len() != whole {
            return Err("newest segment cut short");
        }
        let p = if r.torn_behind_set { scan.end } else { scan.whole_end };
        out.verdict = match layout {
            Layout::Text => text::classify(file, p, text::LINE * BATCH * WRITE),
            _ => classify(file, seg, &scan, p, r, layout),
        };
        if out.cut_set && r.whole_sets && out.verdict == Verdict::Clean {
            out.verdict = Verdict::Torn;
        }
        if r.tail == Tail::Watermark && out.verdict == Verdict::CannotTell {
            out.verdict = Verdict::Torn;
        }
        out.ends = scan.ends;
    }
    Ok(())
}

pub struct Scan {
    /// (value, digest of its batch)
    pub records: Vec<(u64, u64)>,
    pub confirmed: usize,
    /// Where the valid prefix ends.
    pub end: usize,
    pub digest: u64,
    /// The last batch says that its set goes on.
    pub open_set: bool,
    /// Records up to the end of the last finished set, and its byte.
    pub whole: usize,
    pub whole_end: usize,
    pub ends: Vec<(u16, usize)>,
}

fn scan(w: &World, seg: &Segment, r: &Rules, layout: Layout, bodies: bool) -> Scan {
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

/// What lies beyond V, none of it at or below W.
fn classify(
    file: &[u8],
    seg: &Segment,
    scan: &Scan,
    p: usize,
    r: &Rules,
    layout: Layout,
) -> Verdict {
    if zero(file, p, file.len()) {
        return Verdict::Clean;
    }
    if r.tail == Tail::Watermark {
        return Verdict::Torn;
    }
    let depth = if layout == Layout::Padded { 3 } else { 1 };
    let longest = (WRITE * (BATCH_HEADER + BATCH * 40)).next_multiple_of(BLOCK) + BLOCK;
    let window = (p + depth * longest).min(file.len());
    if !zero(file, window, file.len()) {
        return Verdict::CannotTell;
    }
    let unwritten = |from: usize, to: usize| {
        (from / SECTOR..to.div_ceil(SECTOR))
            .any(|s| zero(file, (s * SECTOR).max(p), ((s + 1) * SECTOR).min(file.len())))
    };
    if p + BATCH_HEADER > file.len() {
        return Verdict::CannotTell;
    }
    match decode_header(file, p, seg.header.epoch) {
        Some(h) => {
            let end = p + BATCH_HEADER + h.len as usize;
            let expected = seg.header.base as usize + scan.records.len();
            if h.first as usize != expected || end > file.len() {
                return Verdict::CannotTell;
            }
            if unwritten(p + BATCH_HEADER, end)
                && frames_in_written_sectors_are_sound(file, p, seg.header.epoch, &h)
            {
                Verdict::Torn
            } else {
                Verdict::CannotTell
            }
        }
        None if unwritten(p, p + BATCH_HEADER) => Verdict::Torn,
        None => Verdict::CannotTell,
    }
}

/// Opens the log: inspects, then cuts, seals and rolls as the rules say.
pub fn recover(
    w: &mut World,
    r: &Rules,
    layout: Layout,
) -> Result<(Inspection, Option<Writer>), Stop> {
    let found = inspect(w, r, layout);
    match found.verdict {
        Verdict::Damage(_) => return Ok((found, None)),
        Verdict::Fresh => {
            let writer = Writer::create(w, *r, layout)?;
            return Ok((found, Some(writer)));
        }
        _ => {}
    }
    let v = found.start + found.records.len() - 1;
    let newest = *found.chain.last().expect("not fresh");
    let mut me = Writer {
        rules: *r,
        layout,
        chain: found.chain.clone(),
        pos: found.end,
        digest: found.digest,
        next: v as u16 + 1,
        acked: v as u16,
        confirmed: found.w as u16,
        in_flight: vec![],
        ends: found.ends.clone(),
        digests: found
            .digests
            .iter()
            .enumerate()
            .map(|(i, d)| ((found.start + i) as u16, *d))
            .collect(),
        mark_seq: 0,
        max_id: found.max_id,
        manifest: found.manifest.expect("not fresh"),
        manifest_file: w.names[&Name::Manifest],
    };
    if !r.live_after_recovery {
        me.tell(w)?;
    }
    if r.sync_dir_at_open {
        w.sync_dir()?;
    }
    let pred = found.chain.iter().rev().nth(1);
    let mut seal = pred.map(|p| decode_seal(&w.files[p.head].cache));
    if r.sync_files_at_open {
        for file in
            [me.manifest_file, newest.head, newest.file].into_iter().chain(pred.map(|p| p.head))
        {
            match w.sync(file) {
                Ok(()) => {}
                // Of what this barrier covered, only the seal is relied on below.
                Err(Stop::Failed) if pred.is_some_and(|p| p.head == file) => seal = Some(None),
                Err(Stop::Failed) => {}
                Err(stop) => return Err(stop),
            }
        }
    }
    me.mark_seq = (0..2)
        .filter_map(|s| decode_mark(&w.files[newest.head].cache, s))
        .filter(|m| m.0 == newest.header.epoch)
        .map(|m| m.2)
        .max()
        .unwrap_or(0);
    let own = found.w >= newest.header.base as usize || !r.in_place_needs_own_mark;
    // A text with zeros after V would keep some of them between its lines and its end.
    let exact = layout != Layout::Text || found.end == w.files[newest.file].cache.len();
    let named = seal
        .is_none_or(|s| s.is_some_and(|s| (s.2, s.3) == (newest.header.id, newest.header.epoch)));
    let is_named = named;
    let named = named || !r.in_place_needs_seal;
    let quiet = found.verdict == Verdict::Clean && v == found.w && own && named && exact;
    let in_place = quiet || !r.roll_after_cut;
    if in_place {
        // A slot or a seal may be in the cache only, its barrier having failed in an earlier
        // process, and no sync says so again. This says it anew: W, and which segment is newest.
        me.manifest.closed = (v as u16, newest.header.id, newest.header.epoch);
    }
    if if in_place { r.manifest_in_place } else { r.manifest_at_open } {
        let other = (me.manifest.seq as usize + 1) % 2;
        let readable = Manifest::decode(&w.files[me.manifest_file].cache, other).is_some();
        me.manifest.seq += (readable && r.manifest_doubtful_first) as u16;
        me.write_manifest(w, 2)?;
    }
    if in_place {
        me.tell(w)?;
        return Ok((found, Some(me)));
    }
    // The name of a segment that no seal names may be in the cache only: all of it is carried.
    let before = newest.header.base as usize - 1;
    let sure = if is_named { found.w } else { found.w.min(before) };
    let base = if r.rewrite_unconfirmed { sure } else { v } as u16 + 1;
    let values: Vec<u64> = found.records[base as usize - found.start..].to_vec();
    let keep = if r.pred_holds_w {
        me.chain.iter().rposition(|s| s.header.base < base).unwrap_or(0)
    } else {
        me.chain.len() - 1
    };
    me.chain.truncate(keep + 1);
    me.retrying(w, |me, w| {
        let pred = me.current();
        me.roll_to(w, base, &values, Some(pred), SMALL)
    })?;
    me.tell(w)?;
    Ok((found, Some(me)))
}
