//! Appends: one write at a time or several in flight, and failover after a failed one.

use super::Writer;
use crate::disk::{Stop, World, BLOCK};
use crate::format::*;

impl Writer {
    /// Appends `count` records in one write: in several batches if needed, atomically if `set`.
    pub fn append(&mut self, w: &mut World, count: usize, set: bool) -> Result<(), Stop> {
        self.make_room(w, count)?;
        self.submit(w, count, set)?;
        self.prepare_beside(w)?;
        if self.seal_returns_first() {
            self.wait_for_seal(w)?;
        }
        let b = self.in_flight[0].clone();
        match w.complete(b.ticket) {
            Ok(()) => {
                self.saw_barrier(&b);
                self.in_flight[0].returned = Some(true);
                if self.admit(w)? {
                    Ok(())
                } else {
                    self.fail_over(w)
                }
            }
            Err(Stop::Failed) if !self.rules.no_retry => {
                w.complete(b.ticket)?;
                self.acknowledge(w)
            }
            Err(Stop::Failed) => {
                self.in_flight[0].returned = Some(false);
                self.fail_over(w)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Rotates unless `count` records fit, and enters the segment named ahead if that is due. In
    /// both cases nothing is in flight.
    fn make_room(&mut self, w: &mut World, count: usize) -> Result<(), Stop> {
        if !self.fits(count) {
            self.roll(w)?;
        }
        if self.ahead.is_due {
            self.begin();
        }
        // If the note fails, the next segment follows the acknowledged records.
        if self.in_flight.is_empty() {
            self.prepare_before(w)?;
        }
        Ok(())
    }

    /// Acknowledges the oldest write, whose sync has returned. Returns false if the write waits for
    /// a seal that failed.
    fn admit(&mut self, w: &mut World) -> Result<bool, Stop> {
        if self.must_wait_for_seal(self.in_flight[0].first) && !self.wait_for_seal(w)? {
            return Ok(false);
        }
        self.acknowledge(w)?;
        Ok(true)
    }

    /// Appends `writes` writes of `count` records, with as many in flight as the log allows. Their
    /// syncs return in order, or always the newest one first.
    pub fn append_stream(
        &mut self,
        w: &mut World,
        writes: usize,
        count: usize,
        newest_first: bool,
    ) -> Result<(), Stop> {
        let (mut left, mut failed) = (writes, false);
        loop {
            while !failed && left > 0 && self.has_free_flight() {
                let must_drain = !self.fits(count) || self.ahead.is_due;
                let is_drained = self.in_flight.is_empty() || !self.rules.drain_before_roll;
                if must_drain && !is_drained {
                    break;
                }
                self.make_room(w, count)?;
                self.submit(w, count, false)?;
                self.prepare_beside(w)?;
                left -= 1;
            }
            let mut waiting = self.in_flight.iter_mut().filter(|b| b.returned.is_none());
            let next = if newest_first { waiting.next_back() } else { waiting.next() };
            let Some(b) = next else {
                match (self.in_flight.is_empty(), left) {
                    (true, 0) => return Ok(()),
                    (true, _) => continue,
                    // One write failed, and the syncs of all others have returned.
                    _ => return self.fail_over(w),
                }
            };
            match w.complete(b.ticket) {
                Ok(()) => {
                    b.returned = Some(true);
                    let b = b.clone();
                    self.saw_barrier(&b);
                    if !self.rules.ack_in_order {
                        self.acknowledge_to(w, b.last())?;
                    }
                }
                Err(Stop::Failed) => (b.returned, failed) = (Some(false), true),
                Err(stop) => return Err(stop),
            }
            while self.in_flight.first().is_some_and(|b| b.returned == Some(true)) {
                if !self.admit(w)? {
                    failed = true;
                    break;
                }
            }
        }
    }

    fn has_free_flight(&self) -> bool {
        let counts =
            |returned: Option<bool>| returned.is_none() || self.rules.flights_unacknowledged;
        let flying = self.in_flight.iter().filter(|b| counts(b.returned)).count();
        flying < self.rules.features.flights as usize
    }

    /// Appends two writes that are in flight together. If `swap`, the second sync returns first. A
    /// third write is built between the two returns, to test its `confirmed`.
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

    /// Continues after a failed sync: the records of its blocks go into a new segment.
    fn fail_over(&mut self, w: &mut World) -> Result<(), Stop> {
        let never_began = self.never_began();
        w.truth.failing = !never_began && self.in_flight.iter().any(|b| b.returned != Some(true));
        let is_sealed = self.wait_for_seal(w)?;
        self.in_flight.clear();
        let mut base = self.acked + 1;
        if self.rules.carry_block && self.layout != Layout::Padded {
            // Records that share a block with the failed write may be lost with it.
            let end = self.ends.iter().filter(|e| e.0 == self.acked).map(|e| e.1).max();
            let block = end.unwrap_or(0) / BLOCK * BLOCK;
            let before = self.ends.iter().filter(|e| e.1 <= block).map(|e| e.0).max();
            let known = self
                .ends
                .first()
                .map_or(base, |_| before.map_or(self.current().header.base, |l| l + 1));
            base = base.min(known);
        }
        if never_began && self.rules.abandon_unbegun {
            return self.abandon(w, base, is_sealed);
        }
        let values = w.truth.log[base as usize - 1..].to_vec();
        self.go_on(w, base, &values, SMALL)
    }
}
