//! Truncation at both ends, and checkpoints.

use super::Writer;
use crate::disk::{Name, Stop, World};
use crate::format::SMALL;

impl Writer {
    pub fn truncate_after(&mut self, w: &mut World, lsn: u16) -> Result<(), Stop> {
        if lsn >= self.acked || lsn + 1 < self.chain[0].header.base {
            return Ok(());
        }
        self.settle(w)?;
        let t = &mut w.truth;
        t.cut = Some(lsn as usize);
        // From here on, no truncated record is promised any more.
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
        self.retire_dead(w, holder.header.id)
    }

    /// Notes that the caller needs no record before `lsn`. Removes segments only if `prune`.
    pub fn checkpoint(&mut self, w: &mut World, lsn: u16, prune: bool) -> Result<(), Stop> {
        self.settle(w)?;
        let lsn = lsn.min(self.acked);
        w.truth.checkpoint = w.truth.checkpoint.max(lsn as usize);
        self.manifest.checkpoints = (lsn, self.manifest.checkpoints.0.min(lsn));
        if !prune {
            return self.write_manifest(w, 2);
        }
        let keep = self.chain.iter().rposition(|s| s.header.base <= lsn + 1).unwrap_or(0);
        let header = self.chain[keep].header;
        w.truth.first_needed = w.truth.first_needed.max(header.base as usize - 1);
        let old = |n: &Name| match n {
            Name::Segment(id) | Name::Text(id) | Name::Before(id) => *id < header.id,
            _ => false,
        };
        let dead: Vec<Name> = w.names.keys().copied().filter(old).collect();
        self.chain.drain(..keep);
        if self.rules.manifest_first {
            self.write_manifest(w, 2)?;
        }
        for name in dead {
            self.retire(w, name)?;
        }
        w.sync_dir()?;
        if !self.rules.manifest_first {
            self.write_manifest(w, 2)?;
        }
        Ok(())
    }
}
