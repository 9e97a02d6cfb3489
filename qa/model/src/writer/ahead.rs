//! Segments named ahead of need, and the rotation into one: its first batch and the seal of the
//! previous segment are written together.

use super::roll::trim;
use super::Writer;
use crate::disk::{Stop, World};
use crate::format::*;
use crate::inspect::Segment;
use crate::rules::Ahead;

#[derive(Clone, Default)]
pub(super) struct State {
    prepared: Option<Segment>,
    /// Whether naming a segment ahead was tried, which happens once for each segment.
    was_tried: bool,
    /// Whether a rotation was requested: the next write then goes to the segment named ahead.
    pub(super) is_due: bool,
    /// The previous segment, until its seal is written with the first batch.
    entered_from: Option<Segment>,
    /// The previous segment, and the write of its seal.
    sealing: Option<(Segment, u32)>,
    seal_failed: bool,
    /// The previous segment, until it is shortened.
    untrimmed: Option<Segment>,
}

impl Writer {
    fn rotates_ahead(&self, when: Ahead) -> bool {
        self.rules.features.ahead == when && self.layout != Layout::Text
    }

    pub(super) fn is_prepared(&self) -> bool {
        self.ahead.prepared.is_some()
    }

    /// Names the next segment while a write is in flight.
    pub(super) fn prepare_beside(&mut self, w: &mut World) -> Result<(), Stop> {
        if self.rotates_ahead(Ahead::Both) {
            self.prepare(w)?;
        }
        Ok(())
    }

    /// Names the next segment while no write is in flight, then notes it in the current segment.
    pub(super) fn prepare_before(&mut self, w: &mut World) -> Result<(), Stop> {
        if !self.rotates_ahead(Ahead::Batch) || !self.prepare(w)? || !self.rules.note_names_next {
            return Ok(());
        }
        let next = self.ahead.prepared.expect("prepared above").header;
        let seg = self.current();
        let (at, note) = encode_note(seg.header.epoch, (next.id, next.epoch));
        let ticket = w.write(seg.head, at, &note)?;
        match w.complete(ticket) {
            Err(Stop::Failed) => self.go_on(w, self.next, &[], SMALL),
            other => other,
        }
    }

    /// Names the next segment and returns whether it did. After a failure the log is unchanged, and
    /// its next rotation is a plain one.
    fn prepare(&mut self, w: &mut World) -> Result<bool, Stop> {
        let is_entering = self.ahead.entered_from.is_some() || self.ahead.sealing.is_some();
        if self.ahead.was_tried || is_entering || self.ahead.seal_failed {
            return Ok(false);
        }
        self.ahead.was_tried = true;
        match self.make_ahead(w) {
            Ok(seg) => self.ahead.prepared = Some(seg),
            Err(Stop::Failed) => return Ok(false),
            Err(stop) => return Err(stop),
        }
        Ok(true)
    }

    /// Enters the segment named ahead. All records before it are durable.
    pub(super) fn begin(&mut self) {
        let mut seg = self.ahead.prepared.take().expect("a rotation is due");
        let pred = self.current();
        let link = self.digest_of(self.next - 1);
        seg.header = seg.header.begin(self.next, link);
        self.chain.push(seg);
        (self.pos, self.digest) = (data_start(self.layout, self.rules.gap), link);
        (self.mark_seq, self.confirmed) = (0, self.next - 1);
        self.ends.clear();
        self.ahead = State { entered_from: Some(pred), ..State::default() };
    }

    /// Writes the seal of the previous segment, after the first batch was submitted.
    pub(super) fn seal_the_one_before(&mut self, w: &mut World) -> Result<(), Stop> {
        let Some(pred) = self.ahead.entered_from.take() else { return Ok(()) };
        let h = self.current().header;
        let seal = encode_seal(pred.header.epoch, h.base - 1, (h.id, h.epoch));
        self.ahead.sealing = Some((pred, w.write(pred.head, SEAL, &seal)?));
        Ok(())
    }

    /// Returns whether the seal's sync returns before that of the first batch. Both orders are
    /// tried.
    pub(super) fn seal_returns_first(&self) -> bool {
        let base = self.current().header.base;
        let is_first = self.in_flight.first().is_some_and(|b| b.first == base);
        self.ahead.sealing.is_some() && is_first && base.is_multiple_of(2)
    }

    pub(super) fn must_wait_for_seal(&self, first: u16) -> bool {
        let is_first = first == self.current().header.base;
        match self.rules.features.ahead {
            Ahead::Off => false,
            Ahead::Batch => !is_first && self.rules.next_ack_waits,
            Ahead::Both => self.rules.ack_waits_for_seal,
        }
    }

    /// Waits for the sync of the previous segment's seal. Returns whether the seal is durable.
    pub(super) fn wait_for_seal(&mut self, w: &mut World) -> Result<bool, Stop> {
        let Some((pred, ticket)) = self.ahead.sealing.take() else {
            return Ok(!self.ahead.seal_failed);
        };
        match w.complete(ticket) {
            Ok(()) => {
                self.ahead.untrimmed = Some(pred);
                // The seal confirms all records before this segment.
                let before = self.current().header.base as usize - 1;
                w.truth.confirmed = w.truth.confirmed.max(before);
                if self.acked >= self.current().header.base || !self.rules.trim_after_batch {
                    self.finish_rotation(w)?;
                }
                Ok(true)
            }
            Err(Stop::Failed) => {
                self.ahead.seal_failed = true;
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Finishes the rotation once the first batch and the seal are durable: the batch says that all
    /// records before it are durable, and the seal that the batch exists. Until both are durable,
    /// the previous segment is the newest after a crash, and must be as long as its header says.
    pub(super) fn finish_rotation(&mut self, w: &mut World) -> Result<(), Stop> {
        let h = self.current().header;
        if !h.ahead || self.ahead.sealing.is_some() || self.ahead.seal_failed {
            return Ok(());
        }
        if self.acked >= h.base {
            w.truth.confirmed = w.truth.confirmed.max(h.base as usize - 1);
        }
        match self.ahead.untrimmed.take() {
            Some(pred) if self.rules.trim_after_roll && !self.reuses() => {
                trim(w, pred, &self.rules, self.layout)
            }
            _ => Ok(()),
        }
    }

    /// Waits for a seal in flight. If it failed, continues in a segment whose seal is durable.
    pub(super) fn settle(&mut self, w: &mut World) -> Result<(), Stop> {
        if !self.wait_for_seal(w)? {
            self.go_on(w, self.next, &[], SMALL)?;
        }
        Ok(())
    }

    /// Returns whether the failed write is the first batch of a segment named ahead.
    pub(super) fn never_began(&self) -> bool {
        let h = self.current().header;
        let failed = self.in_flight.first().filter(|b| b.returned == Some(false));
        h.ahead && failed.is_some_and(|b| b.first == h.base)
    }

    /// Abandons the segment named ahead: the next segment follows the one before it.
    pub(super) fn abandon(
        &mut self,
        w: &mut World,
        base: u16,
        is_sealed: bool,
    ) -> Result<(), Stop> {
        self.chain.pop();
        let values = w.truth.log[base as usize - 1..].to_vec();
        if is_sealed {
            return self.go_on(w, base, &values, SMALL);
        }
        // The seal failed, and its block is not written again. So two segments are made: the seal
        // of the first one names the second.
        let pred = self.current();
        self.retrying(w, |me, w| me.make_segment(w, base, &values, Some(pred), SMALL))?;
        self.go_on(w, self.next, &[], SMALL)
    }
}
