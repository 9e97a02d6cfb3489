//! Enters the segment that was named ahead: its first batch and the seal of the segment before are
//! written together (format.md sections 3.5 and 8, ADR 16).

use crate::base::error::{Error, Result};
use crate::base::spare_files::may_be_spare;
use crate::write::pending::BatchInFlight;
use crate::write::preallocation::named_ahead::NextSegment;
use crate::write::rotation::{Predecessor, SealWrite, next_id};
use crate::write::tail::TailSegment;
use crate::write::tail::batch_encoder::BatchEncoder;
use crate::write::writer::seal_thread::{SealInFlight, SealThread};
use crate::write::writer::{NewSegment, Writer};
use seawall_format::before::SectorSums;
use seawall_format::{SegmentId, next_lsn};

impl Writer {
    /// The header content of the next segment if it is named now; its id is reserved from now on.
    /// `None` if the log does not name segments ahead, or the manifest has to change first.
    pub(crate) fn next_named_ahead(&mut self, reserved: Option<SegmentId>) -> Option<NextSegment> {
        let log = &self.manifest.content;
        let in_flight_max = self.next_in_flight_max();
        let is_possible = self.env.names_ahead
            && log.names_ahead
            && in_flight_max <= log.in_flight_max
            && self.tail.header.record_type == log.record_type;
        if !is_possible {
            return None;
        }
        let id = reserved.map_or_else(|| next_id(self.max_id), Ok).ok()?;
        self.max_id = Some(id);
        let (log, pred) = (self.manifest.content.clone(), self.tail.header.reference());
        Some(NextSegment { log, pred, id, in_flight_max })
    }

    /// Whether the segment after the tail has its name, and space for a batch of `size` bytes that
    /// is extended to the end of a block.
    pub(super) fn can_enter_next(&self, size: u64) -> bool {
        let (tail, log) = (&self.tail.header, &self.manifest.content);
        let spare = self.spare.as_ref().and_then(|spare| spare.named.as_ref());
        spare.is_some_and(|next| {
            let padded = size.next_multiple_of(u64::from(next.geometry.block));
            next.pred == Some(tail.reference())
                && (next.geometry, &next.record_type) == (log.geometry, &log.record_type)
                && padded <= u64::from(next.geometry.batch_max)
                && next.data_start() + padded <= next.size
        })
    }

    /// Writes a batch as the first one of the segment that was named ahead, with the seal of the
    /// tail beside it. Returns once both are durable.
    pub(super) fn enter_next(&mut self, bytes: Vec<u8>, count: u32) -> Result<()> {
        self.check_names()?;
        let (base, chain_before) = (next_lsn(self.last), self.last_chain);
        let next = self.spare.take().expect("the caller has checked");
        let header = next.named.expect("it has a name").begin(base, chain_before);
        let named = header.reference();
        let log = &self.manifest.content;
        let needs_sums = self.env.spare_files.need_sums() && may_be_spare(&header, log);
        let zeros = || SectorSums::of_zeros(header.data_start(), header.size);
        let sums = needs_sums.then(|| next.sums.unwrap_or_else(zeros));
        let (file, limit) = (next.head.file, (header.size, true));
        let encoder = BatchEncoder::of(&self.env, &header, log)?;
        let tail = TailSegment::empty(header, [file.clone(), file], limit, (sums, encoder));
        let before = std::mem::replace(&mut self.tail, tail);
        while let Some(whole) = self.recent.pop_front() {
            self.keep_buffer(whole.bytes);
        }
        let pred = Predecessor::of(&before);
        let seal = SealWrite::new(&self.env, &pred, (base.previous(), named))?;
        let seal = self.begin_seal(seal);
        let (batch, _) = self.prepare(bytes, count)?;
        let mut blocks = self.blocks.pop().unwrap_or_default();
        let written = self.write_synced(&batch, None, &mut blocks);
        self.blocks.push(blocks);
        let sealed = seal.finish();
        match (written, sealed) {
            (Ok(()), Ok(())) => {
                self.leave(before, vec![]);
                self.entered();
                self.acknowledge(batch)
            }
            (Ok(()), Err(error)) => self.follow_unnamed(before, batch, &error),
            (Err(error), sealed) => {
                let error = (&error, sealed.is_err());
                self.counting(|writer| writer.follow_instead(before, batch, error))
            }
        }
    }

    fn begin_seal(&mut self, seal: SealWrite) -> BesideFirstBatch {
        if self.seal_thread.is_none() && self.env.has_preallocator {
            self.seal_thread = SealThread::start();
        }
        match &self.seal_thread {
            Some(thread) => BesideFirstBatch::Thread(thread.begin(seal)),
            None => BesideFirstBatch::Here(seal.write().map(|()| seal)),
        }
    }

    /// Runs `act`. If it fails, the batches that it has counted are not durable.
    pub(super) fn counting(&mut self, act: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let before = (self.counts, self.last);
        act(self).inspect_err(|_| (self.counts, self.last) = before)
    }

    fn entered(&mut self) {
        self.counts.rolls += 1;
        self.counts.named_ahead += 1;
        self.counts.reused += u64::from(self.tail.header.is_reused);
        self.retained.is_due = self.retained.rule.is_some();
    }

    /// The batch is durable, but no seal names its segment. So another segment follows, which names
    /// it (R8).
    fn follow_unnamed(
        &mut self,
        before: TailSegment,
        batch: BatchInFlight,
        error: &Error,
    ) -> Result<()> {
        self.chain.push(before.header);
        self.entered();
        self.check_tail()?;
        self.take_in(batch);
        let empty = self.empty_segment();
        self.switch_segment(next_lsn(self.last), self.last_chain, empty)?;
        self.note_failover(error);
        self.tell_readers();
        Ok(())
    }

    /// The first batch failed, so its segment does not count: another one follows the segment
    /// before it (R8). If the seal failed as well, it is not written again.
    fn follow_instead(
        &mut self,
        before: TailSegment,
        batch: BatchInFlight,
        (error, seal_failed): (&Error, bool),
    ) -> Result<()> {
        let failed = std::mem::replace(&mut self.tail, before);
        self.count(&batch);
        let sent = batch.sent;
        let (base, chain_before) = (sent.first, sent.chain_before);
        let keys = self.env.keys_of(&failed.header)?;
        let carry = vec![sent.unseal((&failed.life, keys.as_deref()))?];
        let new = NewSegment { carry, seal_failed, ..self.empty_segment() };
        self.switch_segment(base, chain_before, new)?;
        self.note_failover(error);
        self.forget_whole_blocks();
        self.tell_readers();
        // Removed only now, because a seal may have named it. The next open removes what is left.
        for name in [failed.header.data_name(), failed.header.id.before_name()] {
            let _ = self.env.storage.remove(&name);
        }
        Ok(())
    }
}

/// The seal of the previous segment, written at the same time as the first batch.
enum BesideFirstBatch {
    Thread(SealInFlight),
    /// Written by this thread, and synced after the batch.
    Here(Result<SealWrite>),
}

impl BesideFirstBatch {
    fn finish(self) -> Result<()> {
        match self {
            Self::Thread(seal) => seal.finish(),
            Self::Here(seal) => seal?.sync(),
        }
    }
}
