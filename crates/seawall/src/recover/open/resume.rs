//! Resumes a log as [`decision`](crate::recover::decision) says, in this order: keep what is about
//! to be removed, stop readers, sync what exists, complete `keys`, write the manifest,
//! switch the segment, tell readers, delete what was replaced, backfill parity.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::options::Options;
use crate::files::directory::{MANIFEST, open_or_make};
use crate::files::live::retract_beyond;
use crate::files::manifest::ManifestFile;
use crate::files::unlock::Unlocker;
use crate::parity::backfill::backfill;
use crate::recover::decision::continuation::{
    Carry, Continuation, ManifestUpdate, NewSegment, Target,
};
use crate::recover::handover::{Beginning, remove_preallocated, writer};
use crate::recover::open::encryption::{complete_keys, encrypt};
use crate::recover::open::mended_parity;
use crate::recover::orphan_files;
use crate::recover::remaining::RemainingLog;
use crate::recover::report::{Recovery, TailState};
use crate::scan::catalog::ChainedSegment;
use crate::scan::quarantine;
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch, TailFound};
use crate::write::pending::{RewriteBatch, WrittenBatch};
use crate::write::rotation::{Predecessor, Rotated, RotationPlan, rotate};
use crate::write::tail::batch_encoder::BatchEncoder;
use crate::write::tail::{TailSegment, Written, release_reserved};
use crate::write::writer::Writer;
use seawall_format::batch::{BodyKind, HEADER_SIZE, Life};
use seawall_format::{Level, Lsn, Offset, SegmentId, frame, next_lsn};
use seawall_io::{Access, File, Lock};
use std::io;
use std::iter::successors;
use std::sync::Arc;

/// Resumes a log whose acknowledged records all exist, or whose lost records were given up or stay
/// reported as damage.
pub(crate) fn resume(
    options: &Options,
    env: Env,
    (lock, unlocker): (Box<dyn Lock>, &Unlocker),
    log: &RemainingLog<'_>,
) -> Result<(Writer, Recovery, Level)> {
    let (mut recovery, uncopied) = report(&env, log);
    remove_preallocated(&env, &log.found.catalog.names);
    let orphans_left = stop_readers(&env, log, &mut recovery.warnings)?;
    mended_parity::make_durable(&env, log)?;
    let files = sync_existing(&env, log)?;
    let is_sealed = log.newest().segment.seal()?.is_some();
    let plan = log.evidence((files.newest_is_named, is_sealed)).continuation();
    if let Some(error) = uncopied {
        leave_uncopied(error, &mut recovery, (log, &plan))?;
    }
    complete_keys(&env, unlocker)?;
    let mut manifest = ManifestFile {
        content: log.manifest.clone(),
        file: files.manifest.clone(),
        keys: env.keys(),
    };
    write_manifest(&env, &mut manifest, plan.manifest)?;
    let mut max_id = log.found.catalog.max_id;
    let resuming = Resuming { options, env: &env, log, files };
    let rotated = match plan.target {
        Target::InPlace => resuming.in_place_tail()?,
        Target::NewSegment(new) => resuming.new_segment(&manifest, new, &mut max_id)?,
    };
    let holds_last = rotated.tail.at.0 > rotated.tail.header.data_start();
    let last_chain = if holds_last { rotated.tail.chain } else { plan.chain_of_last };
    let level = options.level.unwrap_or(manifest.content.level);
    let gaps = log.gaps();
    let begin = Beginning { manifest, rotated, gaps, last: log.last, last_chain, max_id };
    let mut writer = writer(options, env, lock, begin);
    recovery.warnings.extend(encrypt(&mut writer, options, unlocker)?);
    writer.enter_settings()?;
    writer.tell_readers();
    delete_replaced(&writer, log, &plan);
    backfill_parity(&writer);
    if plan.removes_orphans {
        writer.remove_orphan_segments(&orphans_left)?;
    }
    Ok((writer, recovery, level))
}

/// Builds the report, and copies the truncated bytes to quarantine. Also returns the error if that
/// failed.
fn report(env: &Env, log: &RemainingLog<'_>) -> (Recovery, Option<io::Error>) {
    let RemainingLog { found, tail, .. } = log;
    let row = found.tail_row().filter(|_| tail.is_some());
    let mut recovery = Recovery {
        created: false,
        tail: row.map_or(TailState::Clean, TailState::of),
        first: found.first.filter(|first| Some(*first) <= log.last),
        last: log.last,
        confirmed: log.confirmed,
        cut_bytes: tail.map_or(0, |tail| tail.length),
        quarantine: None,
        damage: found.damage.clone(),
        mended: found.mended.clone(),
        given_up: found.given_up.clone(),
        warnings: vec![],
    };
    if !found.mended.is_empty() {
        let count = found.mended.len();
        let why = format!("places repaired from parity in memory only: {count}; repair the log");
        recovery.warnings.push(why);
    }
    let mut uncopied = None;
    if let Some(tail) = tail.filter(|_| recovery.tail != TailState::Clean) {
        match quarantine::keep(env, tail) {
            Ok(name) => recovery.quarantine = Some(name),
            Err(error) => uncopied = Some(error),
        }
    }
    (recovery, uncopied)
}

/// Leaves the truncated bytes where they are, because they could not be copied to quarantine.
///
/// # Errors
///
/// [`Error::Io`], [`Error::DiskFull`]: their file would be removed, and they may be records that
/// were acknowledged.
fn leave_uncopied(
    error: io::Error,
    recovery: &mut Recovery,
    (log, plan): (&RemainingLog<'_>, &Continuation),
) -> Result<()> {
    let is_replaced = match plan.target {
        Target::NewSegment(new) => new.segments_kept < log.chain.len(),
        Target::InPlace => false,
    };
    if is_replaced && recovery.tail == TailState::Ambiguous {
        let name = log.newest().segment.name();
        return Err(Error::io_in(format!("copy the end of {name} to quarantine"))(error));
    }
    let what = format!("cannot move the truncated bytes to quarantine: {error:#}");
    recovery.warnings.push(what);
    Ok(())
}

/// Moves orphan files aside and removes a `live` beyond the last record. Returns the orphans that
/// could not be moved.
fn stop_readers(
    env: &Env,
    log: &RemainingLog<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<SegmentId>> {
    // New segments may need the orphans' ids, and after another crash nothing would identify them.
    let (moved, left) = orphan_files::quarantine_orphans(env, log.found.catalog.orphans())?;
    warnings.extend(moved);
    // Readers must not take records that are about to be given up for durable (R10).
    retract_beyond(&*env.storage, log.last)?;
    env.storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    Ok(left)
}

/// Open files of the log, after a sync of each.
struct SyncedFiles {
    manifest: Arc<dyn File>,
    /// The file with header, marks and seal of the newest segment.
    head: Arc<dyn File>,
    /// The file with the records of the newest segment; may be the same file as `head`.
    data: Arc<dyn File>,
    /// Whether the predecessor's seal names the newest segment and could be synced.
    newest_is_named: bool,
}

/// Opens and syncs the manifest, the newest segment and its predecessor's seal. A successful sync
/// here does not prove that bytes of an earlier process are durable (R12).
fn sync_existing(env: &Env, log: &RemainingLog<'_>) -> Result<SyncedFiles> {
    let manifest = open_or_make(&*env.storage, MANIFEST)?;
    let _ = manifest.sync();
    let header = &log.newest().segment.header;
    let head = read_write(env, &header.head_name())?;
    let _ = head.sync();
    let data = if header.own_head_length().is_none() {
        head.clone()
    } else {
        let data = read_write(env, &header.data_name())?;
        let _ = data.sync();
        data
    };
    let newest_is_named = is_named_by_predecessor(env, log.chain)?;
    Ok(SyncedFiles { manifest, head, data, newest_is_named })
}

/// Whether the predecessor's seal names the newest segment and could be synced.
fn is_named_by_predecessor(env: &Env, chain: &[ChainedSegment]) -> Result<bool> {
    let [.., pred, newest] = chain else { return Ok(true) };
    let seal = pred.segment.seal()?;
    let file = read_write(env, &pred.segment.header.head_name())?;
    let synced = file.sync().is_ok();
    Ok(synced && seal.is_some_and(|seal| seal.next == newest.segment.header.reference()))
}

fn read_write(env: &Env, name: &str) -> Result<Arc<dyn File>> {
    let file = env.storage.open(name, Access::ReadWrite);
    file.map_err(Error::io(format!("open {name} for writing")))
}

/// Writes and syncs both slots of the manifest.
fn write_manifest(env: &Env, manifest: &mut ManifestFile, update: ManifestUpdate) -> Result<()> {
    let content = &mut manifest.content;
    content.names_ahead |= env.names_ahead && content.layout.has_batch_headers();
    content.compression_max = content.compression_max.max(content.compression);
    content.oldest_base = update.oldest_base;
    content.closed = update.closed.or(content.closed);
    content.is_closed = false;
    // The sequence number selects the slot.
    content.sequence += u64::from(update.newest_slot_first);
    manifest.write_both(env.clock.wall_us())
}

/// Removes the segments whose records the new segment carries: readers no longer need these files.
/// The newest goes first: a reader that missed the update looks for it, and uses no replaced
/// segment once it is gone.
fn delete_replaced(writer: &Writer, log: &RemainingLog<'_>, plan: &Continuation) {
    let Target::NewSegment(new) = plan.target else { return };
    let replaced = log.chain.get(new.segments_kept..).unwrap_or_default();
    for link in replaced.iter().rev() {
        let id = link.segment.header.id;
        for name in link.segment.names().into_iter().chain([id.parity_name(), id.before_name()]) {
            let _ = writer.env.storage.remove(&name);
        }
    }
}

/// Writes the parity that sealed segments lack.
fn backfill_parity(writer: &Writer) {
    if let Some(scheme) = writer.manifest.content.parity {
        let sealed = (writer.chain.as_slice(), writer.tail.header.base);
        backfill(&writer.env.storage, scheme, sealed);
    }
}

/// The step that switches the segment.
struct Resuming<'a> {
    options: &'a Options,
    env: &'a Env,
    log: &'a RemainingLog<'a>,
    files: SyncedFiles,
}

impl Resuming<'_> {
    /// The newest segment as the tail, with the batches in its last block.
    fn in_place_tail(&self) -> Result<Rotated> {
        let (newest, SyncedFiles { head, data, .. }) = (self.log.newest(), &self.files);
        let found = self.log.tail.expect("a log that continues in place has an end");
        let header = newest.segment.header.clone();
        let marks = newest.segment.marks()?.iter().map(|mark| mark.sequence).max();
        let (soft_limit, is_reserved) = match header.fixed_length() {
            Some(size) => (size, true),
            None => self.reserve_text(found),
        };
        let tail = TailSegment {
            life: Life::of(&header),
            head: head.clone(),
            file: data.clone(),
            soft_limit,
            is_reserved,
            at: found.offset,
            chain: found.chain,
            marks: marks.unwrap_or(0),
            sums: None,
            encoder: BatchEncoder::of(self.env, &header, &self.log.manifest)?,
            written: Written::default(),
            header,
        };
        let sent = batches_in_last_block(self.log, found.offset)?;
        let before = self.log.chain.iter().rev().skip(1).rev();
        let skipped_segments = before.map(|link| link.segment.header.clone()).collect();
        Ok(Rotated { tail, sent, skipped_segments })
    }

    /// Reserves space for a text. Returns its soft limit, and whether space is reserved.
    fn reserve_text(&self, found: &TailFound) -> (u64, bool) {
        // A text has no size field: use the size that doubling would have produced.
        let segment_min = self.options.segment_min.max(1);
        let sizes = successors(Some(segment_min), |size| size.checked_mul(2));
        let mut large_enough = sizes.skip_while(|size| *size < found.offset.0);
        let doubled = large_enough.next().unwrap_or(u64::MAX);
        let size = doubled.min(self.log.manifest.segment_max);
        match self.files.data.reserve_space(size) {
            Ok(is_reserved) => (size, is_reserved),
            // Without space the next record starts another segment.
            Err(_) => (found.offset.0, true),
        }
    }

    /// Creates the new segment with the records that it carries.
    fn new_segment(
        &self,
        manifest: &ManifestFile,
        new: NewSegment,
        max_id: &mut Option<SegmentId>,
    ) -> Result<Rotated> {
        let (log, newest) = (self.log, self.log.newest());
        let carry = match new.carry {
            Carry::UpTo(last) => records_after(log, new.base.previous(), last)?,
            Carry::Salvaged => log.salvaged.to_vec(),
        };
        let kept = log.chain.get(..new.segments_kept).expect("the plan knows the chain");
        let pred = kept.last().expect("a log has a segment").segment.header.clone();
        let head = read_write(self.env, &pred.head_name())?;
        let content = if carry.is_empty() {
            manifest.content.clone()
        } else {
            manifest.content.with_schema(log.schema_of_carry())
        };
        let plan = RotationPlan {
            base: new.base,
            carry,
            pred: Some(Predecessor { header: pred, head, seal_failed: false }),
            chain_before: new.chain_before,
            size_min: self.options.segment_min,
            reserve: 0,
            spare: None,
            in_flight_max: 1,
        };
        let rotated = rotate(self.env, &content, plan, max_id)?;
        if newest.segment.header.layout.has_growing_file() {
            // Space that the previous process reserved.
            release_reserved(&*self.files.data);
        }
        let kept = kept.iter().map(|link| link.segment.header.clone());
        let skipped_segments = kept.chain(rotated.skipped_segments).collect();
        Ok(Rotated { skipped_segments, ..rotated })
    }
}

/// Reads the batches in the last block: a failed write may damage them, so they must be in memory.
fn batches_in_last_block(log: &RemainingLog<'_>, at: Offset) -> Result<Vec<WrittenBatch>> {
    let header = &log.newest().segment.header;
    let block = u64::from(header.geometry.block);
    let start = Offset(at.0 / block * block);
    let mut sent = vec![];
    let mut scan = log.scan_newest(|batch| batch.end <= start);
    while let ScanItem::Batch(batch) = scan.step()? {
        if batch.end <= start {
            continue;
        }
        let is_first = batch.header.first == header.base;
        let chain_before = if is_first { log.found.chain_before } else { batch.header.chain };
        sent.push(WrittenBatch {
            bytes: as_written(&scan, &batch),
            first: batch.header.first,
            count: batch.header.count,
            kind: batch.header.kind,
            time_us: batch.header.time_us,
            end: batch.end,
            chain_before,
        });
    }
    Ok(sent)
}

/// A batch as it is on the device; if it is text, as it would be in the binary layout.
fn as_written(scan: &LogScanner, batch: &ScannedBatch) -> Vec<u8> {
    if !matches!(batch.header.kind, BodyKind::Frames | BodyKind::Void) {
        return scan.raw(batch).to_vec();
    }
    let whole = batch.body.start - HEADER_SIZE..batch.body.end;
    scan.bytes().get(whole).expect("the scan has read it").to_vec()
}

/// The records of the newest segment after `confirmed`, batch by batch.
fn records_after(
    log: &RemainingLog<'_>,
    confirmed: Option<Lsn>,
    last: Option<Lsn>,
) -> Result<Vec<RewriteBatch>> {
    let mut carry = vec![];
    let mut scan = log.scan_newest(|batch| Some(batch.last) <= confirmed);
    loop {
        let batch = match scan.step()? {
            ScanItem::Batch(batch)
                if (confirmed < Some(batch.last)) && Some(batch.last) <= last =>
            {
                batch
            }
            // Damage is reported elsewhere; batches after it are still intact.
            ScanItem::Batch(_) | ScanItem::Damage(..) => continue,
            ScanItem::End(_) => return Ok(carry),
        };
        let body = scan.bytes().get(batch.body.clone()).expect("the scan has read it");
        let frames = frame::Frames::new(body, batch.header.first, batch.header.count);
        let first = batch.header.first.max(next_lsn(confirmed));
        let (mut bytes, mut count) = (vec![0; HEADER_SIZE], 0);
        for record in frames.filter(|record| record.lsn >= first) {
            frame::push_unbound(&mut bytes, record.payload, record.goes_on);
            count += 1;
        }
        let time_us = batch.header.time_us;
        // The scan has decoded what was compressed.
        let is_void = batch.header.is_void();
        let kind = if is_void { BodyKind::Void } else { BodyKind::Frames };
        if is_void {
            count = u32::try_from(batch.last.get() - first.get() + 1).expect("a part of a batch");
        }
        carry.push(RewriteBatch { bytes, first, count, kind, time_us });
    }
}
