//! Resumes a log: in place if every record is known to be durable, else in a new segment that
//! carries the uncertain records (rules R12 and R15).

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::options::Options;
use crate::files::directory::{MANIFEST, open_or_make};
use crate::files::live::retract_beyond;
use crate::files::manifest::ManifestFile;
use crate::parity::backfill::backfill;
use crate::recover::handover::{Beginning, remove_preallocated, writer};
use crate::recover::inspection::Inspection;
use crate::recover::orphan_files;
use crate::recover::report::{Recovery, TailState};
use crate::scan::catalog::ChainedSegment;
use crate::scan::quarantine;
use crate::scan::scanner::{LogScanner, ScanEnd, ScanItem, TailFound};
use crate::write::pending::{RewriteBatch, WrittenBatch};
use crate::write::rotation::{Predecessor, Rotated, RotationPlan, rotate};
use crate::write::tail::{TailSegment, release_reserved};
use crate::write::writer::Writer;
use seawall_format::batch::{HEADER_SIZE, Life};
use seawall_format::{
    Closed, Layout, Level, Lsn, Manifest, Offset, SegmentHeader, frame, next_lsn, tail,
};
use seawall_io::{Access, File, Lock};
use std::iter::successors;
use std::sync::Arc;

/// Resumes a log whose acknowledged records all exist, or whose lost records were given up or stay
/// reported as damage.
pub(crate) fn recover(
    options: &Options,
    env: Env,
    lock: Box<dyn Lock>,
    found: &Inspection,
) -> Result<(Writer, Recovery, Level)> {
    let end = found.end.as_ref().expect("the action has seen the end");
    let mut recovery = report(&env, found, end);
    remove_preallocated(&env, &found.catalog.names);
    // New segments may need the orphans' ids, and after another crash nothing would identify them.
    let (warnings, left) = orphan_files::quarantine_orphans(&env, &found.catalog.orphans)?;
    recovery.warnings.extend(warnings);
    // Readers must not take records that are about to be given up for durable (R10).
    recovery.warnings.extend(retract_beyond(&*env.storage, end.last)?);
    env.storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    let file = open_or_make(&*env.storage, MANIFEST)?;
    let _ = file.sync();
    let content = found.catalog.manifest.clone().expect("the action has read it");
    let mut manifest = ManifestFile { content, file };
    let newest = found.catalog.chain.last().expect("a log has a segment");
    let files = synced_files(&env, newest)?;
    let named = is_named_by_predecessor(&env, &found.catalog.chain)?;
    let in_place = end.tail.as_ref().filter(|tail| {
        let quiet = tail.row == tail::Row::Clean && end.last == end.confirmed && tail.is_exact;
        let own = end.confirmed >= Some(newest.segment.header.base);
        // New batches have the geometry of the manifest; this segment may have another (section 4).
        let alike = newest.segment.header.geometry == manifest.content.geometry;
        quiet && own && alike && named && found.is_as_written(newest.segment.header.id)
    });
    overwrite_doubtful_slot_first(&mut manifest.content, found.catalog.readable);
    if in_place.is_some() {
        let segment = newest.segment.header.reference();
        manifest.content.closed = Some(Closed { last: end.last, segment });
    }
    manifest.write_both(env.clock.wall_us())?;
    let mut max_id = found.catalog.max_id;
    let mut replaced: &[ChainedSegment] = &[];
    let rotated = if let Some(tail) = in_place {
        in_place_tail(options, found, files, tail)?
    } else {
        let (plan, before) = plan_new_segment(options, &env, (found, end), named)?;
        let log = match found.schema_of_carry().filter(|_| !plan.carry.is_empty()) {
            Some(schema) => manifest.content.with_schema(schema),
            None => manifest.content.clone(),
        };
        let rotated = rotate(&env, &log, plan, &mut max_id)?;
        if newest.segment.header.layout == Layout::Text {
            // Space that the previous process reserved.
            release_reserved(&*files.1);
        }
        replaced = found.catalog.chain.get(before.len()..).unwrap_or_default();
        Rotated { skipped_segments: [before, rotated.skipped_segments].concat(), ..rotated }
    };
    let holds_last = rotated.tail.at.0 > rotated.tail.header.data_start();
    let last_chain = if holds_last { rotated.tail.chain } else { found.chain_of(end.last) };
    let level = options.level.unwrap_or(manifest.content.level);
    let begin = Beginning { manifest, rotated, last: end.last, last_chain, max_id };
    let mut writer = writer(options, env, lock, begin);
    writer.enter_schema()?;
    writer.tell_readers();
    // Their records were carried over, and readers no longer need these files. The newest goes
    // first: a reader that missed the update looks for it, and uses no replaced segment once it is
    // gone.
    for link in replaced.iter().rev() {
        let parity = link.segment.header.id.parity_name();
        for name in link.segment.names().into_iter().chain([parity]) {
            let _ = writer.env.storage.remove(&name);
        }
    }
    if let Some(scheme) = writer.manifest.content.parity {
        let sealed = (writer.chain.as_slice(), writer.tail.header.base);
        backfill(&writer.env.storage, scheme, sealed);
    }
    // With damage, a text may be all that is left of its segment, so it stays.
    if found.damage.is_empty() {
        writer.remove_orphan_segments(&left)?;
    }
    Ok((writer, recovery, level))
}

/// Builds the report, and moves the truncated bytes to quarantine.
fn report(env: &Env, found: &Inspection, end: &ScanEnd) -> Recovery {
    let found_tail = end.tail.as_ref();
    let mut recovery = Recovery {
        created: false,
        tail: found_tail.map_or(TailState::Clean, |tail| TailState::of(tail.row)),
        first: found.first.filter(|first| Some(*first) <= end.last),
        last: end.last,
        confirmed: end.confirmed,
        cut_bytes: found_tail.map_or(0, |tail| tail.length),
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
    if let Some(found_tail) = found_tail.filter(|_| recovery.tail != TailState::Clean) {
        match quarantine::keep(env, found_tail) {
            Ok(name) => recovery.quarantine = Some(name),
            Err(error) => recovery
                .warnings
                .push(format!("cannot move the truncated bytes to quarantine: {error:#}")),
        }
    }
    recovery
}

/// Opens and syncs the head of a segment and its file with the records; they may be the same.
fn synced_files(env: &Env, link: &ChainedSegment) -> Result<(Arc<dyn File>, Arc<dyn File>)> {
    let header = &link.segment.header;
    let head = read_write(env, &header.head_name())?;
    // A successful sync here does not prove that bytes of an earlier process are durable (R12).
    let _ = head.sync();
    if header.layout == Layout::Binary {
        return Ok((head.clone(), head));
    }
    let data = read_write(env, &header.data_name())?;
    let _ = data.sync();
    Ok((head, data))
}

/// Makes the next manifest write start with the slot that may exist in the page cache only: the
/// unreadable one, else the newest.
fn overwrite_doubtful_slot_first(manifest: &mut Manifest, readable: [bool; 2]) {
    if readable == [true, true] {
        manifest.sequence += 1;
    }
}

/// The newest segment as the tail, with the batches in its last block.
fn in_place_tail(
    options: &Options,
    found: &Inspection,
    (head, file): (Arc<dyn File>, Arc<dyn File>),
    found_tail: &TailFound,
) -> Result<Rotated> {
    let newest = found.catalog.chain.last().expect("a log has a segment");
    let header = newest.segment.header.clone();
    let marks = newest.segment.marks()?.iter().map(|mark| mark.sequence).max();
    let (soft_limit, is_reserved) = match header.layout {
        // A text has no size field: use the size that doubling would have produced.
        Layout::Text => {
            let sizes = successors(Some(options.segment_min.max(1)), |size| size.checked_mul(2));
            let mut large_enough = sizes.skip_while(|size| *size < found_tail.offset.0);
            let doubled = large_enough.next().unwrap_or(u64::MAX);
            let max = found.catalog.manifest.as_ref().map_or(doubled, |log| log.segment_max);
            match file.reserve_space(doubled.min(max)) {
                Ok(is_reserved) => (doubled.min(max), is_reserved),
                // Without space the next record starts another segment.
                Err(_) => (found_tail.offset.0, true),
            }
        }
        _ => (header.size, true),
    };
    let tail = TailSegment {
        life: Life::of(&header),
        head,
        file,
        soft_limit,
        is_reserved,
        at: found_tail.offset,
        chain: found_tail.chain,
        marks: marks.unwrap_or(0),
        header,
    };
    let sent = batches_in_last_block(found, newest, found_tail.offset)?;
    let before = found.catalog.chain.iter().rev().skip(1).rev();
    let skipped_segments = before.map(|link| link.segment.header.clone()).collect();
    Ok(Rotated { tail, sent, skipped_segments })
}

/// Reads the batches in the last block: a failed write may damage them, so they must be in memory.
fn batches_in_last_block(
    found: &Inspection,
    newest: &ChainedSegment,
    at: Offset,
) -> Result<Vec<WrittenBatch>> {
    let block = u64::from(newest.segment.header.geometry.block);
    let start = Offset(at.0 / block * block);
    let mut sent = vec![];
    let mut scan = LogScanner::of_segment(newest);
    while let ScanItem::Batch(batch) = scan.step()? {
        if batch.end <= start {
            continue;
        }
        let whole = batch.body.start - HEADER_SIZE..batch.body.end;
        let is_first = batch.header.first == newest.segment.header.base;
        let chain_before = if is_first { found.chain_before } else { batch.header.chain };
        sent.push(WrittenBatch {
            bytes: scan.bytes().get(whole).expect("the scan has read it").to_vec(),
            first: batch.header.first,
            count: batch.header.count,
            is_void: batch.header.is_void,
            time_us: batch.header.time_us,
            end: batch.end,
            chain_before,
        });
    }
    Ok(sent)
}

/// Plans the new segment, and returns the headers of the segments before it. Its base is W + 1 and
/// it carries W + 1 to V, because the page cache may show records that the disk does not have.
///
/// If no durable seal has `named` the newest segment, its name is uncertain, too, so all of its
/// records are carried.
fn plan_new_segment(
    options: &Options,
    env: &Env,
    (found, end): (&Inspection, &ScanEnd),
    named: bool,
) -> Result<(RotationPlan, Vec<SegmentHeader>)> {
    let chain = &found.catalog.chain;
    let (sure, carry) = if found.carry.is_empty() {
        let newest = chain.last().expect("a log has a segment");
        let whole = !named && found.damage.is_empty();
        let before = newest.segment.header.base.previous();
        let sure = if whole { end.sure().min(before) } else { end.sure() };
        let sure = if found.damage.is_empty() { found.before_shared_block(sure) } else { sure };
        (sure, records_after(newest, sure, end.last)?)
    } else {
        (end.confirmed, found.carry.clone())
    };
    let base = next_lsn(sure);
    let keep = chain.iter().rposition(|link| link.segment.header.base < base).unwrap_or(0);
    let pred = chain.get(keep).expect("a log has a segment");
    let head = read_write(env, &pred.segment.header.head_name())?;
    let plan = RotationPlan {
        base,
        carry,
        pred: Some(Predecessor { header: pred.segment.header.clone(), head }),
        chain_before: found.chain_of(sure),
        size_min: options.segment_min,
        reserve: 0,
        spare: None,
    };
    let before = chain.iter().take(keep + 1).map(|link| link.segment.header.clone());
    Ok((plan, before.collect()))
}

/// The records of the newest segment after `confirmed`, batch by batch.
fn records_after(
    newest: &ChainedSegment,
    confirmed: Option<Lsn>,
    last: Option<Lsn>,
) -> Result<Vec<RewriteBatch>> {
    let mut carry = vec![];
    let mut scan = LogScanner::of_segment(newest);
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
        let (is_void, time_us) = (batch.header.is_void, batch.header.time_us);
        if is_void {
            count = u32::try_from(batch.last.get() - first.get() + 1).expect("a part of a batch");
        }
        carry.push(RewriteBatch { bytes, first, count, is_void, time_us });
    }
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
