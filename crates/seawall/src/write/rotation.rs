//! Rotation: the only way a log continues in a new segment (format.md section 8, rule R6).
//!
//! The new content becomes durable under a temporary name; then come the rename, the directory sync
//! and the predecessor's seal. The caller tells readers and acknowledges. Creation and recovery use
//! the same steps.

use crate::base::env::Env;
use crate::base::error::{Corruption, Damage, Error, Lost, Result};
use crate::base::spare_files::may_be_spare;
use crate::write::pending::{RewriteBatch, WrittenBatch};
use crate::write::preallocation::file::{PreallocatedFile, PreallocatedSegment, length_for};
use crate::write::tail::TailSegment;
use crate::write::tail::batch_encoder::{BatchEncoder, Overhead};
use seawall_format::batch::{BodyKind, Spec};
use seawall_format::before::SectorSums;
use seawall_format::{
    Finished, Lsn, Manifest, Offset, Seal, SegmentHeader, SegmentId, SegmentRef, lsn_or_zero,
};
use seawall_io::File;
use std::io;
use std::sync::Arc;

/// The segment to create.
#[derive(Debug)]
pub(crate) struct RotationPlan {
    /// The first LSN of the segment; the record before it is durable.
    pub(crate) base: Lsn,
    pub(crate) carry: Vec<RewriteBatch>,
    pub(crate) pred: Option<Predecessor>,
    /// The chain value of the batch that holds the record before `base`, or 0.
    pub(crate) chain_before: u64,
    /// Minimum size of the file, in bytes.
    pub(crate) size_min: u64,
    /// Bytes that must fit after the rewritten batches.
    pub(crate) reserve: u64,
    /// Preallocated files.
    pub(crate) spare: Option<PreallocatedSegment>,
    /// How many writes may be in flight, unless the file is too small.
    pub(crate) in_flight_max: u8,
}

impl RotationPlan {
    /// Size of the rewritten batches at most, in bytes.
    fn data_max(&self, env: &Env, log: &Manifest) -> u64 {
        let overhead = Overhead::of(env, log);
        let padding = if env.fills_blocks { u64::from(log.geometry.block) - 1 } else { 0 };
        let size = |batch: &RewriteBatch| {
            let lines = if batch.kind == BodyKind::Void { 1 } else { batch.count };
            overhead.size_max(batch.bytes.len(), lines) + padding
        };
        self.carry.iter().map(size).sum()
    }
}

/// The segment that the new one follows.
#[derive(Clone, Debug)]
pub(crate) struct Predecessor {
    pub(crate) header: SegmentHeader,
    /// The file that gets the seal.
    pub(crate) head: Arc<dyn File>,
    /// Whether a seal failed already: it is not written again.
    pub(crate) seal_failed: bool,
}

/// A new segment, and the batches that were written to it.
#[derive(Debug)]
pub(crate) struct Rotated {
    pub(crate) tail: TailSegment,
    pub(crate) sent: Vec<WrittenBatch>,
    /// Segments that stay in the chain before it: only their seal failed.
    pub(crate) skipped_segments: Vec<SegmentHeader>,
}

/// Why a step failed, as far as that decides about another attempt.
enum Failure {
    /// The directory sync: the state of all names is unknown, so no other attempt is safe.
    Directory(Error),
    /// One file; another file may work.
    File(Error),
}

/// Attempts before rotation fails, and with it the log.
const ATTEMPTS: u32 = 3;

/// Creates the segment, durable under its final name, and seals its predecessor.
///
/// A failed write is never repeated on the same blocks: each attempt uses another file, and if only
/// the seal failed, the next segment follows the one just created (R8). Each attempt increments
/// `max_id`.
pub(crate) fn rotate(
    env: &Env,
    log: &Manifest,
    mut plan: RotationPlan,
    max_id: &mut Option<SegmentId>,
) -> Result<Rotated> {
    check_batch_sizes(log, &plan)?;
    // Encryption makes a batch larger, so a batch to rewrite may have to be split.
    let size_max = Overhead::of(env, log).plain_max();
    plan.carry = plan.carry.into_iter().flat_map(|batch| batch.split(size_max)).collect();
    let (mut attempt, mut skipped_segments) = (1, vec![]);
    loop {
        // If the file is a reused one, its table has already taken the id.
        let life = plan.spare.as_ref().and_then(|spare| spare.life);
        let reserved = life.map(|life| life.id).filter(|id| Some(*id) == *max_id);
        let id = reserved.map_or_else(|| next_id(*max_id), Ok)?;
        *max_id = Some(id);
        match try_rotate(env, log, &mut plan, id) {
            Ok(rotated) => return Ok(Rotated { skipped_segments, ..rotated }),
            Err(Failure::Directory(error)) => return Err(error),
            Err(Failure::File(error)) if attempt == ATTEMPTS => return Err(error),
            Err(Failure::File(_)) => {
                attempt += 1;
                let pred = plan.pred.as_ref().filter(|pred| pred.header.id == id);
                skipped_segments.extend(pred.map(|pred| pred.header.clone()));
            }
        }
    }
}

/// The next segment id, never used before. Only a forged header comes near the highest id.
pub(crate) fn next_id(max_id: Option<SegmentId>) -> Result<SegmentId> {
    max_id.map_or(Some(SegmentId::FIRST), SegmentId::next).ok_or_else(|| {
        Error::io("create the next segment")(io::Error::other("all segment ids are used"))
    })
}

/// Refuses to rewrite a batch that is too large for this log, which means that the manifest or a
/// segment was altered.
fn check_batch_sizes(log: &Manifest, plan: &RotationPlan) -> Result<()> {
    let max = usize::try_from(log.geometry.batch_max).expect("at most 64 MiB");
    let Some(batch) = plan.carry.iter().find(|batch| batch.bytes.len() > max) else {
        return Ok(());
    };
    let lost = Some(Lost { from: batch.first, to: None });
    let segment = plan.pred.as_ref().map(|pred| pred.header.id);
    Err(Error::damaged(Damage { segment, lost, ..Damage::new(Corruption::Order) }))
}

fn try_rotate(
    env: &Env,
    log: &Manifest,
    plan: &mut RotationPlan,
    id: SegmentId,
) -> Result<Rotated, Failure> {
    let failed = Error::io_in(format!("create a file for segment {id}"));
    let mut files = files_for(env, log, plan, id).map_err(failed).map_err(Failure::File)?;
    let header = header(env, log, plan, (id, &files)).map_err(Failure::File);
    let made = header.and_then(|header| make(env, (header, log), plan, &mut files));
    if let Err(Failure::File(_)) = made {
        // Half a segment is useless and may fill the disk.
        discard(files, env, id);
    }
    let rotated = made?;
    let header = &rotated.tail.header;
    if let Some(pred) = &plan.pred {
        let sealed = if pred.seal_failed {
            let again = io::Error::other("a seal that failed is not written again");
            Err(Error::io(format!("seal {}", pred.header.head_name()))(again))
        } else {
            let last = header.base.previous();
            let seal = SealWrite::new(env, pred, (last, header.reference()));
            seal.and_then(|seal| seal.write().and_then(|()| seal.sync()))
        };
        // From here on this segment is the one to follow, whether or not sealing succeeded.
        plan.pred = Some(Predecessor::of(&rotated.tail));
        sealed.map_err(Failure::File)?;
    }
    Ok(rotated)
}

fn discard(files: PreallocatedSegment, env: &Env, id: SegmentId) {
    let text = files.text.as_ref().map(|text| text.file.clone());
    files.discard(env);
    // Removes the text under its final name, if it got that far: without a head it is not a
    // segment.
    if text.is_some_and(|text| text.has_name().unwrap_or(false)) {
        let _ = env.storage.remove(&id.text_name());
    }
}

/// The preallocated files if they are large enough, else new ones. On a full disk, new ones are as
/// small as possible: a truncation frees space only when it is done.
fn files_for(
    env: &Env,
    log: &Manifest,
    plan: &mut RotationPlan,
    id: SegmentId,
) -> io::Result<PreallocatedSegment> {
    let data = plan.data_max(env, log) + plan.reserve;
    let (usual, size_min) = (length_for(log, data, plan.size_min), length_for(log, data, 0));
    if let Some(mut spare) = plan.spare.take() {
        let is_large = spare.reserved.is_none_or(|reserved| reserved >= size_min);
        let mut is_mine = || spare.take_name(env).and_then(|()| spare.rebind(env, log, id)).is_ok();
        if is_large && is_mine() {
            return Ok(spare);
        }
        spare.discard(env);
    }
    PreallocatedSegment::create_now(env, log, (usual, size_min))
}

fn header(
    env: &Env,
    log: &Manifest,
    plan: &RotationPlan,
    (id, files): (SegmentId, &PreallocatedSegment),
) -> Result<SegmentHeader> {
    let epoch = files.epoch(env).map_err(Error::io("draw a random epoch"))?;
    let count: u64 = plan.carry.iter().map(|batch| u64::from(batch.count)).sum();
    let data = plan.data_max(env, log) + plan.reserve;
    let in_flight_max = files.in_flight_max(log, plan.in_flight_max, data);
    let header = SegmentHeader {
        geometry: log.geometry,
        log: log.log,
        authenticator: None,
        id,
        epoch,
        base: plan.base,
        carried: Lsn::new(lsn_or_zero(plan.base.previous()) + count),
        size: files.head.size,
        pred: plan.pred.as_ref().map(|pred| pred.header.reference()),
        pred_chain: plan.pred.as_ref().map_or(0, |_| plan.chain_before),
        layout: log.layout,
        is_reused: files.life.is_some(),
        named_ahead: false,
        in_flight_max,
        compression_max: log.compression,
        record_type: log.record_type.clone(),
        time_us: env.clock.wall_us(),
    };
    env.sign(header, log.authenticator.is_some()).map_err(Error::io(format!("start segment {id}")))
}

/// Steps (a) to (c) of R6.
fn make(
    env: &Env,
    (header, log): (SegmentHeader, &Manifest),
    plan: &RotationPlan,
    files: &mut PreallocatedSegment,
) -> Result<Rotated, Failure> {
    // Only a file that may be used again needs checksums. They do not cover carried batches.
    let needs_sums = env.spare_files.need_sums() && may_be_spare(&header, log);
    let zeros = || SectorSums::of_zeros(header.data_start(), header.size);
    let sums = Some(files.sums.take()).filter(|_| needs_sums && plan.carry.is_empty());
    let sums = sums.map(|sums| sums.unwrap_or_else(zeros));
    let (data, head) = (files.text.as_ref().unwrap_or(&files.head), &files.head);
    let limit = (files.reserved.unwrap_or(plan.size_min), files.reserved.is_some());
    let encoder = BatchEncoder::of(env, &header, log).map_err(Failure::File)?;
    let files_of_tail = [head.file.clone(), data.file.clone()];
    let tail = TailSegment::empty(header, files_of_tail, limit, (sums, encoder));
    let mut rotated = Rotated { tail, sent: vec![], skipped_segments: vec![] };
    let failed = |what: &str| Error::io(format!("{what} {}", head.name));
    rotated.write(plan, env.fills_blocks).map_err(failed("write")).map_err(Failure::File)?;
    // The text first, so that a head never exists without its text.
    let text = files.text.as_ref();
    for file in text.into_iter().chain([head]) {
        file.file.sync().map_err(failed("sync")).map_err(Failure::File)?;
    }
    let header = &rotated.tail.header;
    if let Some(text) = text {
        give_name(env, text, &header.data_name())?;
    }
    give_name(env, head, &header.head_name())?;
    Ok(rotated)
}

/// Step (c) of R6, for one file.
fn give_name(env: &Env, spare: &PreallocatedFile, name: &str) -> Result<(), Failure> {
    // If the name is taken, the file there is not this log's; the next attempt uses another id.
    let renamed = env.storage.rename_new(&spare.name, name);
    renamed.map_err(Error::io_in(format!("rename a file to {name}"))).map_err(Failure::File)?;
    let synced = env.sync_dir();
    let failed = Error::io_in(format!("rename a file to {name}"));
    synced.map_err(failed).map_err(Failure::Directory)
}

impl Rotated {
    /// Writes header and rewritten batches, without a sync.
    fn write(&mut self, plan: &RotationPlan, fills_blocks: bool) -> io::Result<()> {
        let tail = &mut self.tail;
        let mut chain_before = plan.chain_before;
        for batch in &plan.carry {
            let mut spec = Spec {
                first: batch.first,
                count: batch.count,
                kind: batch.kind,
                confirmed: tail.header.base.previous(),
                chain: tail.chain,
                time_us: batch.time_us,
            };
            let mut bytes = vec![];
            match tail.encode((&batch.bytes, spec), tail.at, &mut bytes)? {
                Some(encoded) => spec = encoded,
                None => bytes.clone_from(&batch.bytes),
            }
            if fills_blocks && spec.kind != BodyKind::Void {
                bytes.resize(tail.padded(bytes.len(), tail.at), 0);
            }
            let Finished { end, chain, text } = tail.finish(&mut bytes, spec, tail.at);
            tail.file.write_at(text.as_ref().unwrap_or(&bytes), tail.at.0)?;
            (tail.at, tail.chain) = (end, chain);
            let Spec { first, count, kind, time_us, .. } = spec;
            self.sent.push(WrittenBatch { bytes, first, count, kind, time_us, end, chain_before });
            chain_before = tail.chain;
        }
        if tail.header.is_reused {
            tail.file.write_at(&tail.zeros_after(tail.at), tail.at.0)?;
        }
        tail.head.write_at(&tail.header.stored(), 0)
    }
}

impl Predecessor {
    pub(crate) fn of(tail: &TailSegment) -> Self {
        Self { header: tail.header.clone(), head: tail.head.clone(), seal_failed: false }
    }
}

/// Step (d) of R6.
#[derive(Clone, Debug)]
pub(crate) struct SealWrite {
    head: Arc<dyn File>,
    name: String,
    at: Offset,
    bytes: Vec<u8>,
}

impl SealWrite {
    /// The seal of `pred`, whose last record is `last`, before the segment `next`.
    pub(crate) fn new(
        env: &Env,
        pred: &Predecessor,
        (last, next): (Option<Lsn>, SegmentRef),
    ) -> Result<Self> {
        let seal = Seal { last, next, time_us: env.clock.wall_us() };
        Ok(Self {
            head: pred.head.clone(),
            name: pred.header.head_name(),
            at: Seal::offset(pred.header.geometry),
            bytes: seal.stored(&pred.header, env.keys_of(&pred.header)?.as_deref()).to_vec(),
        })
    }

    pub(crate) fn write(&self) -> Result<()> {
        self.head.write_at(&self.bytes, self.at.0).map_err(|error| self.failed(error))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.head.sync().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(format!("seal {}", self.name))(error)
    }
}
