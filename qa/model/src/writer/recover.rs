//! Opening a log: how recovery acts on its findings.

use super::{Writer, BLOCK};
use crate::disk::{DirOp, Name, Stop, World};
use crate::format::*;
use crate::inspect::{inspect, Inspection, Verdict};
use crate::rules::{Ahead, Rules};

/// Opens the log: inspects it, then truncates, seals and rotates as the rules say.
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
        chain: found.chain.clone(),
        pos: found.end,
        digest: found.digest,
        next: v as u16 + 1,
        acked: v as u16,
        confirmed: found.w as u16,
        ends: found.ends.clone(),
        digests: found
            .digests
            .iter()
            .enumerate()
            .map(|(i, d)| ((found.start + i) as u16, *d))
            .collect(),
        manifest: found.manifest.expect("not fresh"),
        manifest_file: w.names[&Name::Manifest],
        ..Writer::new(*r, layout, found.max_id)
    };
    me.find_spares(w);
    if r.live_after_recovery {
        w.retract_beyond(v as u16)?;
    } else {
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
                // Of the content synced here, only the seal is relied on below.
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
    let head = &w.files[newest.head].cache;
    let sealed = decode_seal(head).is_some_and(|s| s.0 == newest.header.epoch);
    // The note says that the segment named ahead exists, but that is removed below.
    let noted = decode_note(head).is_some_and(|n| n.0 == newest.header.epoch);
    let may_end = (sealed && r.sealed_ends) || (noted && r.features.ahead == Ahead::Batch);
    let quiet =
        found.verdict == Verdict::Clean && v == found.w && own && named && exact && !may_end;
    let in_place = quiet || !r.roll_after_cut;
    if in_place {
        // A slot or a seal may be only in the cache, because its sync failed in an earlier process,
        // and no sync reports that again. The manifest therefore repeats W and names the newest
        // segment.
        me.manifest.closed = (v as u16, newest.header.id, newest.header.epoch);
    }
    if if in_place { r.manifest_in_place } else { r.manifest_at_open } {
        let other = (me.manifest.seq as usize + 1) % 2;
        let readable = Manifest::decode(&w.files[me.manifest_file].cache, other).is_some();
        me.manifest.seq += (readable && r.manifest_doubtful_first) as u16;
        me.write_manifest(w, 2)?;
    }
    if in_place {
        if let Some(unused) = found.prepared {
            w.dir(DirOp::Unlink(Name::Segment(unused.header.id)))?;
        }
        me.tell(w)?;
        return Ok((found, Some(me)));
    }
    // The name of a segment that no seal names may be only in the cache: all its records are
    // carried.
    let before = newest.header.base as usize - 1;
    let sure = if is_named { found.w } else { found.w.min(before) };
    let mut base = if r.rewrite_unconfirmed { sure } else { v } as u16 + 1;
    if r.carry_block && r.rewrite_unconfirmed && layout != Layout::Padded {
        // Records that share a block with unconfirmed bytes may be garbled with them.
        let end = found.ends.iter().filter(|e| e.0 < base).map(|e| e.1).max();
        let block = end.unwrap_or(0) / BLOCK * BLOCK;
        let whole = found.ends.iter().filter(|e| e.1 <= block).map(|e| e.0).max();
        let from = whole.map_or(newest.header.base, |last| last + 1);
        base = if end.is_some() { base.min(from) } else { base };
    }
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
