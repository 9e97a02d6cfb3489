//! The conclusions that recovery, `verify` and readers draw from the files. Writes nothing.

use crate::disk::{Live, Name, World, SECTOR};
use crate::format::*;
use crate::rules::{Ahead, Rules, Tail};
use crate::scan::{classify, scan, Scan};
use crate::text;
use crate::writer::{BATCH, WRITE};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub header: Header,
    /// The file with the records.
    pub file: usize,
    /// The file with header, slots and seal: the same one unless the layout is text.
    pub head: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Verdict {
    Clean,
    Torn,
    Ambiguous,
    /// Open refuses the log; the text names the failed check.
    Damage(&'static str),
    /// No log exists yet.
    Fresh,
}

pub struct Inspection {
    pub verdict: Verdict,
    /// The LSN of the first record found.
    pub start: usize,
    /// The values of the records; zero for a record whose body was not judged.
    pub records: Vec<u64>,
    /// The digest of the batch of each record found.
    pub digests: Vec<u64>,
    pub w: usize,
    pub chain: Vec<Segment>,
    pub manifest: Option<Manifest>,
    pub max_id: u16,
    pub end: usize,
    /// (last LSN, end) of each batch of the newest segment.
    pub ends: Vec<(u16, usize)>,
    pub digest: u64,
    /// Whether the last batches are truncated because their set is unfinished.
    pub cut_set: bool,
    /// A segment named ahead in which nothing was written.
    pub prepared: Option<Segment>,
}

/// Inspects the files as recovery does.
pub fn inspect(w: &World, r: &Rules, layout: Layout) -> Inspection {
    judge(w, r, layout, None, false)
}

/// Inspects the files as `verify` does, which judges every body.
pub fn verify(w: &World, r: &Rules, layout: Layout) -> Inspection {
    judge(w, r, layout, None, true)
}

/// Returns the records that a reader shows, and the files that it must sync before that, together
/// with the directory. `None` if the reader must try again.
pub fn reader(w: &World, r: &Rules, layout: Layout) -> Option<(Inspection, Vec<usize>)> {
    let word = w.live.filter(|_| w.live_is_held || !r.live_ends_with_writer);
    let found = judge(w, r, layout, word.filter(|_| r.reader_heeds_live), true);
    if matches!(found.verdict, Verdict::Damage(_)) {
        return None;
    }
    let newest = found.chain.last().filter(|_| word.is_none() && r.reader_syncs);
    let files = newest.filter(|newest| !is_known(w, &found, newest));
    let files = files.map_or(vec![], |newest| vec![newest.head, newest.file]);
    Some((found, files))
}

/// Returns whether the files, or the `live` of a writer that is gone, prove that all records found
/// are durable.
fn is_known(w: &World, found: &Inspection, newest: &Segment) -> bool {
    let h = newest.header;
    let said = w.live.filter(|l| (l.id, l.epoch) == (h.id, h.epoch));
    let sealed = found.chain.iter().rev().nth(1).map(|p| decode_seal(&w.files[p.head].cache));
    let named = sealed.is_none_or(|s| s.is_some_and(|s| (s.2, s.3) == (h.id, h.epoch)));
    let closed = found.manifest.is_some_and(|m| (m.closed.1, m.closed.2) == (h.id, h.epoch));
    let last = found.start - 1 + found.records.len();
    let known = found.w.max(said.map_or(0, |l| l.durable as usize));
    (named || closed || said.is_some()) && last <= known
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
        prepared: None,
    };
    let past = w.live.filter(|_| live.is_none() && r.live_bounds_below);
    let look = Look { w, r, layout, live, past, full };
    if let Err(why) = look.judge(&mut out) {
        out.verdict = Verdict::Damage(why);
    }
    out
}

/// One inspection of a directory.
struct Look<'a> {
    w: &'a World,
    r: &'a Rules,
    layout: Layout,
    /// The durable LSN that the running writer has published for readers.
    live: Option<Live>,
    /// What a writer has published that is not followed: a lower bound.
    past: Option<Live>,
    /// Whether to judge every body.
    full: bool,
}

impl Look<'_> {
    fn judge(&self, out: &mut Inspection) -> Result<(), &'static str> {
        let (w, r, layout) = (self.w, self.r, self.layout);
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
        let Some(manifest) = out.manifest else {
            let used = named.iter().any(|(id, head)| self.is_used(*id, *head));
            return if used { Err("no manifest") } else { Ok(()) };
        };
        let (mut segments, orphan) = self.segments(&named, &manifest)?;
        let highest = segments.last_entry();
        let prepared = highest.filter(|s| s.get().header.has_not_begun()).map(|s| s.remove());
        segments.retain(|_, s| !s.header.has_not_begun());
        let Some((newest_id, newest)) = segments.last_key_value() else {
            return Err("no segment");
        };
        self.judge_names(&segments, (*newest_id, newest), prepared.as_ref(), &manifest)?;
        let chain = chain(&segments, newest, manifest.oldest.0)?;
        let closed = self.last_close(&chain, *newest_id, &manifest)?;
        out.start = chain[0].header.base as usize;
        out.chain = chain.clone();
        let judged_from =
            chain.iter().rposition(|s| s.header.base <= manifest.checkpoints.0 + 1).unwrap_or(0);
        for (i, seg) in chain.iter().enumerate() {
            let next = chain.get(i + 1).map(|s| s.header);
            let scan = scan(w, seg, r, layout, self.full || i >= judged_from);
            take(r, seg, next, &scan, out)?;
            if next.is_none() {
                let seal = decode_seal(&w.files[seg.head].cache);
                let seal = seal.filter(|s| s.0 == seg.header.epoch && r.seal_confirms);
                out.w = (seg.header.base as usize - 1)
                    .max(seg.header.carried as usize)
                    .max(seal.map_or(0, |s| s.1 as usize))
                    .max(scan.confirmed)
                    .max(closed);
                self.judge_end(seg, scan, out)?;
            }
        }
        self.judge_prepared((&segments, newest), prepared, out)?;
        match orphan {
            Some(why) if r.orphan_after_close && !self.is_closed(newest, &manifest, out) => {
                Err(why)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a clean close was the last operation on the newest segment.
    fn is_closed(&self, newest: &Segment, manifest: &Manifest, out: &Inspection) -> bool {
        let (lsn, id, epoch) = manifest.closed;
        let seal = self.w.files[newest.head].cache.get(SEAL..HEAD);
        (id, epoch) == (newest.header.id, newest.header.epoch)
            && out.start + out.records.len() - 1 == lsn as usize
            && out.verdict == Verdict::Clean
            && seal.is_some_and(|seal| seal.iter().all(|byte| *byte == 0))
    }

    fn text(&self, id: u16) -> Option<usize> {
        self.w.names.get(&Name::Text(id)).copied()
    }

    /// Returns whether a segment has content. True if that is unknown.
    fn is_used(&self, id: u16, head: usize) -> bool {
        let file = &self.w.files[head].cache;
        let Some(h) = Header::decode(file) else {
            return true;
        };
        let text = self.layout == Layout::Text;
        let seg = Segment {
            header: h.begun(file, data_start(self.layout, self.r.gap)),
            file: if text { self.text(id).unwrap_or(head) } else { head },
            head,
        };
        let found = scan(self.w, &seg, self.r, self.layout, true);
        found.confirmed > 0
            || !found.records.is_empty()
            || decode_seal(file).is_some_and(|s| s.0 == h.epoch)
    }

    /// Returns the segments that may be part of the log, by the id in their name, and the error of
    /// a file after them that may be an orphan.
    fn segments(
        &self,
        named: &BTreeMap<u16, usize>,
        manifest: &Manifest,
    ) -> Result<(BTreeMap<u16, Segment>, Option<&'static str>), &'static str> {
        let oldest = manifest.oldest.0;
        let (mut segments, mut others) = (BTreeMap::new(), vec![]);
        for (id, head) in named.range(oldest..=self.live.map_or(u16::MAX, |l| l.id.max(oldest))) {
            match Header::decode(&self.w.files[*head].cache) {
                Some(h) if h.id == *id || !self.r.check_name => {
                    let text = self.layout == Layout::Text;
                    let file = if text { self.text(*id).ok_or("text missing")? } else { *head };
                    let begins = data_start(self.layout, self.r.gap);
                    let header = h.begun(&self.w.files[*head].cache, begins);
                    segments.insert(*id, Segment { header, file, head: *head });
                }
                Some(h) => others.push((*id, Some((h.id, h.epoch)), "segment under another name")),
                None if self.r.check_header => {
                    let is_blank = self.w.files[*head].cache.iter().all(|byte| *byte == 0);
                    let text = self.text(*id).map(|text| &self.w.files[text].cache);
                    let is_blank = is_blank && text.is_none_or(|t| t.iter().all(|byte| *byte == 0));
                    others.push((*id, is_blank.then_some((0, 0)), "segment header"));
                }
                None => {}
            }
        }
        let newest = segments.keys().next_back().copied();
        let is_known = |(id, epoch): (u16, u16)| {
            let twin = |s: &Segment| s.header.epoch == epoch;
            id < oldest || segments.get(&id).is_some_and(twin)
        };
        let is_orphan = |(id, what, _): &(u16, Option<(u16, u16)>, &str)| {
            newest.is_some_and(|newest| *id > newest) && what.is_some_and(is_known)
        };
        if let Some((_, _, why)) = others.iter().find(|other| !is_orphan(other)) {
            return Err(why);
        }
        Ok((segments, others.first().map(|other| other.2)))
    }

    /// Checks that the segments named by `live`, the manifest and the seals exist.
    fn judge_names(
        &self,
        segments: &BTreeMap<u16, Segment>,
        (newest_id, newest): (u16, &Segment),
        prepared: Option<&Segment>,
        manifest: &Manifest,
    ) -> Result<(), &'static str> {
        let (w, r, live) = (self.w, self.r, self.live);
        let prepared = prepared.filter(|_| r.seal_may_be_early);
        let highest = prepared.map_or(newest_id, |next| next.header.id);
        if live.is_some_and(|l| (l.id, l.epoch) != (newest.header.id, newest.header.epoch)) {
            return Err("not the segment that `live` names");
        }
        if self.past.is_some_and(|l| l.id > highest) {
            return Err("the segment that `live` names is missing");
        }
        let oldest = segments.get(&manifest.oldest.0);
        if r.names_carry_epoch && oldest.is_some_and(|s| s.header.epoch != manifest.oldest.1) {
            return Err("epoch differs from the manifest's");
        }
        for s in segments.values().filter(|_| live.is_none()) {
            let Some((_, _, next, next_epoch)) =
                decode_seal(&w.files[s.head].cache).filter(|x| x.0 == s.header.epoch)
            else {
                continue;
            };
            if r.seal_names_next && next > highest {
                return Err("newest segment missing");
            }
            let replaced = |n: &Segment| n.header.id == next && n.header.epoch != next_epoch;
            let named = segments.get(&next).or(prepared);
            if r.seal_names_next && r.names_carry_epoch && named.is_some_and(replaced) {
                return Err("epoch differs from the seal's");
            }
        }
        Ok(())
    }

    /// Returns the LSN up to which the chain was durable according to the last clean close.
    fn last_close(
        &self,
        chain: &[Segment],
        newest_id: u16,
        manifest: &Manifest,
    ) -> Result<usize, &'static str> {
        let (lsn, id, epoch) = manifest.closed;
        if self.live.is_none() && self.r.check_close && id > newest_id {
            return Err("newest segment missing since the last clean close");
        }
        let named = |s: &Segment| s.header.id == id && self.r.check_close;
        let Some(at) = chain.iter().position(named) else {
            return Ok(0);
        };
        if chain[at].header.epoch != epoch {
            return Err("epoch differs from the last clean close's");
        }
        let limit = chain.get(at + 1).map_or(u16::MAX, |s| s.header.base - 1);
        Ok(if self.r.clamp_close { lsn.min(limit) } else { lsn } as usize)
    }

    /// Checks whether a segment named ahead has begun after all, which makes it the newest one, and
    /// whether one is missing that the newest segment notes.
    fn judge_prepared(
        &self,
        (segments, newest): (&BTreeMap<u16, Segment>, &Segment),
        prepared: Option<Segment>,
        out: &mut Inspection,
    ) -> Result<(), &'static str> {
        let (w, r, h) = (self.w, self.r, newest.header);
        if self.live.is_some() {
            return Ok(());
        }
        let Some(mut next) = prepared else {
            let head = &w.files[newest.head].cache;
            let noted = decode_note(head).is_some_and(|n| n.0 == h.epoch);
            let sealed = decode_seal(head).is_some_and(|s| s.0 == h.epoch);
            if noted && !sealed && r.note_names_next && r.features.ahead == Ahead::Batch {
                out.verdict = Verdict::Ambiguous;
            }
            return Ok(());
        };
        let pred = (next.header.pred_id, next.header.pred_epoch);
        if segments.get(&pred.0).is_none_or(|s| s.header.epoch != pred.1) {
            return Err("the segment before one named ahead is missing");
        }
        let v = out.start + out.records.len() - 1;
        let named = |l: Live| (l.id, l.epoch) == (next.header.id, next.header.epoch);
        if self.past.is_some_and(|l| named(l) && v < l.durable as usize) {
            return Err("the first batch of the segment that `live` names is missing");
        }
        next.header = next.header.begin(v as u16 + 1, out.digest & 0xFFFF_FFFF_FFFF);
        let file = &w.files[next.file].cache;
        let data = data_start(self.layout, r.gap);
        if r.check_length && file.len() != data + next.header.size as usize * SECTOR {
            return Err("segment named ahead cut short");
        }
        let found = scan(w, &next, r, self.layout, true);
        let verdict = classify(w, &next, &found, data, r, self.layout);
        if !r.begun_by_bytes || (verdict == Verdict::Clean && found.confirmed == 0) {
            out.prepared = Some(next);
            return Ok(());
        }
        if pred != (h.id, h.epoch) {
            return Err("a segment that has begun follows an older one");
        }
        out.w = out.w.max(found.confirmed);
        if v < out.w {
            return Err("V < W");
        }
        // A segment begins only when all records before it are durable, so those must end cleanly.
        out.verdict = if out.verdict == Verdict::Clean { verdict } else { Verdict::Ambiguous };
        (out.end, out.ends) = (data, vec![]);
        out.chain.push(next);
        Ok(())
    }

    /// Judges the end of the newest segment. `out` has its records and W.
    fn judge_end(
        &self,
        seg: &Segment,
        scan: Scan,
        out: &mut Inspection,
    ) -> Result<(), &'static str> {
        let (r, layout) = (self.r, self.layout);
        let v = out.start + out.records.len() - 1;
        (out.end, out.digest, out.cut_set) = (scan.end, scan.digest, scan.open_set);
        if let Some(l) = self.live {
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
        let h = seg.header;
        let past = self.past.filter(|l| (l.id, l.epoch) == (h.id, h.epoch));
        if past.is_some_and(|l| v < l.durable as usize) {
            return Err("the log ends before what `live` says");
        }
        let file = &self.w.files[seg.file].cache;
        let whole = data_start(layout, r.gap) + seg.header.size as usize * SECTOR;
        if layout != Layout::Text && r.check_length && file.len() != whole {
            return Err("newest segment cut short");
        }
        let p = if r.torn_behind_set { scan.end } else { scan.whole_end };
        out.verdict = match layout {
            Layout::Text => text::classify(file, p, text::LINE * BATCH * WRITE),
            _ => classify(self.w, seg, &scan, p, r, layout),
        };
        if out.cut_set && r.whole_sets && out.verdict == Verdict::Clean {
            out.verdict = Verdict::Torn;
        }
        if r.tail == Tail::Watermark && out.verdict == Verdict::Ambiguous {
            out.verdict = Verdict::Torn;
        }
        out.ends = scan.ends;
        Ok(())
    }
}

/// Returns the live chain, from the manifest's oldest segment to the newest one.
fn chain(
    segments: &BTreeMap<u16, Segment>,
    newest: &Segment,
    oldest: u16,
) -> Result<Vec<Segment>, &'static str> {
    let mut chain = vec![*newest];
    while chain[0].header.id != oldest {
        let h = chain[0].header;
        match segments.get(&h.pred_id) {
            Some(p) if p.header.epoch == h.pred_epoch && p.header.id < h.id => chain.insert(0, *p),
            _ => return Err("segment missing in the chain"),
        }
    }
    Ok(chain)
}

/// Adds the valid records of one segment to those of the segments before it.
fn take(
    r: &Rules,
    seg: &Segment,
    next: Option<Header>,
    scan: &Scan,
    out: &mut Inspection,
) -> Result<(), &'static str> {
    let base = seg.header.base as usize;
    if base > out.start
        && out.digests.get(base - 1 - out.start).map(|d| *d as u16) != Some(seg.header.pred_digest)
    {
        return Err("predecessor digest");
    }
    let limit = next.map_or(usize::MAX, |h| h.base as usize - 1);
    let skip = if r.base_hides { 0 } else { (out.start + out.records.len()).saturating_sub(base) };
    let take = match next {
        None if r.whole_sets => scan.whole,
        Some(_) if r.base_hides => limit.saturating_sub(base - 1),
        _ => usize::MAX,
    };
    for (value, digest) in scan.records.iter().take(take).skip(skip) {
        out.records.push(*value);
        out.digests.push(*digest);
    }
    if next.is_some() && out.start + out.records.len() - 1 < limit {
        return Err("V < base of the successor");
    }
    Ok(())
}
