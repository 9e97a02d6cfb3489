//! Online backup: a consistent copy of a log while its writer keeps running.
//!
//! The copy contains every record up to the durable LSN of one moment, and its manifest records a
//! clean close there.

use crate::base::error::{Error, Result};
use crate::files::consistent_read::{Reading, moved, read_consistent};
use crate::files::directory::{
    KEYS, MANIFEST, MANIFEST_MAX, QUARANTINE, list, not_a_log, read_small, refuse_occupied,
};
use crate::files::live::{LiveSource, Watermark, read_watermark};
use crate::files::manifest::ManifestFile;
use crate::files::unlock::lost_keys;
use crate::maintenance::progress::ProgressReporter;
use crate::recover::report::TailState;
use crate::scan::catalog::{Catalog, ChainedSegment, KeysLost};
use crate::scan::durable_end;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::before::{SectorSums, TableOf};
use seawall_format::scan::Limit;
use seawall_format::{Closed, Lsn, Manifest, Mark, SegmentHeader, next_lsn};
use seawall_io::{Access, Storage};
use std::io;
use std::sync::Arc;

/// Bytes per read.
const CHUNK: usize = 1 << 20;

/// The contents of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The first record, if there is any.
    pub first: Option<Lsn>,
    /// The last record.
    pub last: Option<Lsn>,
    /// Number of records.
    pub records: u64,
    /// What follows the last record in the log. If it is ambiguous, later records may be lost, and
    /// the copy does not show it. Always `Clean` while a writer has the log open.
    pub tail: TailState,
    /// Bytes written.
    pub bytes: u64,
}

/// Copies the log as of one moment to an empty storage, while a writer may continue.
pub(crate) fn back_up(
    source: &Arc<dyn Storage>,
    target: &Arc<dyn Storage>,
    meter: &mut ProgressReporter<'_>,
) -> Result<BackupReport> {
    refuse_occupied(&**target)?;
    let mut is_first = true;
    // Each copy reads its own watermark, after the marks.
    read_consistent(LiveSource::File(&**source), |_| {
        if !std::mem::take(&mut is_first) {
            clear(&**target)?;
        }
        copy_now((source, target), meter).map(Reading::Certain)
    })
}

/// Copies the log once, and checks that the copy still belongs to the log's history afterwards.
fn copy_now(
    (source, target): (&Arc<dyn Storage>, &Arc<dyn Storage>),
    meter: &mut ProgressReporter<'_>,
) -> Result<BackupReport> {
    let moment = Moment::of(source, meter)?;
    let newest = moment.catalog.chain.last().map(|link| link.segment.header.reference());
    let copied = moment.write((&**source, target), meter)?;
    // A truncation seals an older segment again, possibly before that one was copied. Then the
    // newest segment of the copy no longer belongs to the log.
    let now = load_catalog(source, None)?;
    let mut chain = now.chain.iter().map(|link| link.segment.header.reference());
    if !chain.any(|segment| Some(segment) == newest) {
        return Err(moved("find the segments that were copied"));
    }
    verify_copy(target, copied.last)?;
    Ok(copied)
}

/// Verifies the copied records: the source was read again to copy them, and the device or a writer
/// that reuses a file may have returned other bytes than before.
fn verify_copy(target: &Arc<dyn Storage>, last: Option<Lsn>) -> Result<()> {
    let catalog = load_catalog(target, None)?;
    let mut scan = LogScanner::new(&catalog, None).allow_locked();
    let end = loop {
        match scan.step()? {
            ScanItem::Batch(_) => {}
            ScanItem::Damage(damages, _) => return Err(first_of(damages)),
            ScanItem::End(end) => break end,
        }
    };
    match end.damage.into_iter().next() {
        Some(damage) => Err(Error::damaged(damage)),
        None if end.last == last => Ok(()),
        None => Err(moved("find the records that were copied")),
    }
}

/// The log at one moment.
struct Moment {
    catalog: Catalog,
    manifest: Manifest,
    /// Marks of the newest segment as they are stored, read before its durable LSN.
    marks: Vec<(Mark, Vec<u8>)>,
    last: Option<Lsn>,
    /// Number of records up to `last` that a repair gave up.
    given_up: u64,
    tail: TailState,
}

impl Moment {
    fn of(source: &Arc<dyn Storage>, meter: &mut ProgressReporter<'_>) -> Result<Self> {
        // Read the marks first, so that they confirm no record beyond the copy.
        let before = load_catalog(source, None)?;
        let marks = before.chain.last().map(|link| link.segment.stored_marks()).transpose()?;
        let newest = before.chain.last().map(|link| link.segment.header.reference());
        let watermark = read_watermark(&**source)?;
        let mut catalog = load_catalog(source, watermark.as_ref())?;
        if let Some(KeysLost::From(first)) = catalog.keys_lost {
            return Err(Error::damaged(lost_keys(first)));
        }
        meter.begin(&catalog, 2);
        let (last, given_up, tail) = end_of(&catalog, watermark.as_ref(), meter)?;
        // A running writer may be in the middle of a write. Another holder of the lock writes no
        // record.
        let is_running = watermark.as_ref().is_some_and(Watermark::is_running);
        let tail = if is_running { TailState::Clean } else { tail };
        let manifest = catalog.manifest().cloned();
        let manifest =
            manifest.ok_or_else(|| not_a_log(&**source, "its manifest cannot be read"))?;
        if manifest.authenticator.is_some() && catalog.chain.len() > 1 {
            // Without its first batch, only a changed manifest could say that it has begun.
            let has_begun =
                |header: &SegmentHeader| !header.named_ahead || Some(header.base) <= last;
            catalog.chain.pop_if(|link| !has_begun(&link.segment.header));
        }
        let same = catalog.chain.last().map(|link| link.segment.header.reference()) == newest;
        let marks = marks.filter(|_| same).unwrap_or_default();
        // A truncation is in progress. The header still confirms records that the truncation
        // removes, and the copy must not contain them.
        if catalog.chain.last().is_some_and(|link| link.segment.header.carried > last) {
            return Err(moved("find the segment that a truncation continues in"));
        }
        Ok(Self { catalog, manifest, marks, last, given_up, tail })
    }

    fn write(
        self,
        (source, target): (&dyn Storage, &Arc<dyn Storage>),
        meter: &mut ProgressReporter<'_>,
    ) -> Result<BackupReport> {
        let mut bytes = 0;
        meter.half();
        let Some((newest, older)) = self.catalog.chain.split_last() else {
            return Err(not_a_log(&**target, "no segment"));
        };
        if self.manifest.authenticator.is_some() {
            // The file `keys` first: it has the keys that the segments need, and a key is removed
            // only after all segments that need it.
            bytes += copy_file(source, KEYS, (&**target, &mut *meter))?;
        }
        for link in older {
            for name in link.segment.names() {
                bytes += copy_file(source, &name, (&**target, &mut *meter))?;
            }
            let id = link.segment.header.id;
            for name in [id.parity_name(), id.before_name()] {
                if self.catalog.names.contains(&name) {
                    match copy_file(source, &name, (&**target, &mut *meter)) {
                        Ok(size) => bytes += size,
                        // Parity is optional: the writer of the copy builds it again. The table is
                        // of use only for the newest segment.
                        Err(_) => drop(target.remove(&name)),
                    }
                }
            }
        }
        bytes += self.copy_newest(newest, &**target)?;
        self.write_manifest(newest, (source, &**target))?;
        target.sync_dir().map_err(Error::io("sync the copy's directory"))?;
        meter.end();
        let first = self.catalog.chain.first().map(|link| link.segment.header.base);
        let first = first.filter(|first| Some(*first) <= self.last);
        let numbers = first.zip(self.last).map_or(0, |(first, last)| last.get() - first.get() + 1);
        let (records, tail) = (numbers.saturating_sub(self.given_up), self.tail);
        Ok(BackupReport { first, last: self.last, records, tail, bytes })
    }

    /// Writes the manifest of the copy, which records a clean close. The manifest of an encrypted
    /// log can be changed only with its key. So it is copied unchanged, and records a clean close
    /// only if the log had one.
    fn write_manifest(
        &self,
        newest: &ChainedSegment,
        (source, target): (&dyn Storage, &dyn Storage),
    ) -> Result<()> {
        let failed = || Error::io("write the manifest");
        let (end, copied) = (next_lsn(self.last), newest.segment.header.reference());
        let mut content = self.manifest.clone();
        let file = target.create(MANIFEST).map_err(failed())?;
        if content.authenticator.is_some() {
            let bytes = read_small(source, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
            let slots = Manifest::decode_file(&bytes).into_iter().flatten();
            let newest = slots.max_by_key(|slot| slot.sequence);
            // A truncation is in progress: the manifest still confirms records, or a segment, that
            // it removes.
            let is_removed = |closed: Closed| {
                let is_later = closed.segment.id > copied.id;
                is_later || (closed.segment == copied && closed.last > self.last)
            };
            let is_beyond = content.newest_checkpoint().is_some_and(|checkpoint| checkpoint > end)
                || content.closed.is_some_and(is_removed);
            if is_beyond || newest.is_none_or(|newest| newest.sequence != content.sequence) {
                return Err(moved("find the manifest of the moment that was copied"));
            }
            return file.write_at(&bytes, 0).and_then(|()| file.sync()).map_err(failed());
        }
        content.closed = Some(Closed { last: self.last, segment: copied });
        content.is_closed = true;
        content.checkpoints = content.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(end)));
        let time_us = content.time_us;
        ManifestFile { content, file, keys: None }.write_both(time_us)
    }

    /// Copies the newest segment up to the durable LSN; the rest stays zero.
    fn copy_newest(&self, newest: &ChainedSegment, target: &dyn Storage) -> Result<u64> {
        let (segment, header) = (&newest.segment, &newest.segment.header);
        let failed = || Error::io(format!("copy {}", segment.name()));
        let head = target.create(&header.head_name()).map_err(failed())?;
        head.fill_with_zeros(header.size).map_err(failed())?;
        let has_text = header.data_name() != header.head_name();
        let file = if has_text { target.create(&header.data_name()) } else { Ok(head.clone()) };
        let file = file.map_err(failed())?;
        let mut size = header.size;
        let limited = ChainedSegment { limit: Limit::At(self.last), gap: None, ..newest.clone() };
        let mut scan = LogScanner::of_segment(&limited).without_decoding();
        loop {
            match scan.step()? {
                // A truncation inside this batch is in progress: the copy must not contain the
                // removed records.
                ScanItem::Batch(batch) if Some(batch.header.last()) > self.last => {
                    return Err(moved("find the segment that a truncation continues in"));
                }
                ScanItem::Batch(batch) => {
                    file.write_at(scan.raw(&batch), batch.start.0).map_err(failed())?;
                    size = size.max(if has_text { header.size + batch.end.0 } else { 0 });
                }
                ScanItem::Damage(damages, _) => return Err(first_of(damages)),
                ScanItem::End(_) => break,
            }
        }
        // If writing `live` failed, the marks may confirm records beyond this copy.
        for (mark, bytes) in self.marks.iter().filter(|(mark, _)| mark.confirmed <= self.last) {
            let at = mark.slot().offset(header.geometry);
            head.write_at(bytes, at.0).map_err(failed())?;
        }
        if header.is_reused {
            size += write_table_of_zeros(header, target).map_err(failed())?;
        }
        head.write_at(&header.stored(), 0).map_err(failed())?;
        file.sync().and_then(|()| head.sync()).map_err(failed())?;
        Ok(size)
    }
}

/// Writes the table of a segment whose file in the copy is new, and was therefore all zeros.
/// Returns the table's length.
fn write_table_of_zeros(header: &SegmentHeader, target: &dyn Storage) -> io::Result<u64> {
    let of = TableOf::segment(header);
    let file = target.create(&header.id.before_name())?;
    file.write_at(&SectorSums::of_zeros(of.start, of.size).encode(&of), 0)?;
    file.sync()?;
    Ok(of.length())
}

/// The last durable record, how many up to there a repair gave up, and what follows it. Verifies
/// the whole log on the way.
fn end_of(
    catalog: &Catalog,
    watermark: Option<&Watermark>,
    meter: &mut ProgressReporter<'_>,
) -> Result<(Option<Lsn>, u64, TailState)> {
    let mut scan = LogScanner::new(catalog, None).allow_locked();
    let mut given_up = 0;
    let open_end = durable_end::open_end(catalog);
    let known = durable_end::known(catalog, watermark)?;
    if open_end.is_some() {
        scan = scan.up_to(Limit::At(known));
    }
    let end = loop {
        let event = scan.step()?;
        meter.walked(&scan);
        match event {
            ScanItem::Batch(batch) => given_up += batch.given_up_after(None),
            ScanItem::Damage(damages, _) => return Err(first_of(damages)),
            ScanItem::End(end) => break end,
        }
    };
    let (last, end) = match open_end {
        None => (end.last, end),
        Some(newest) => {
            let scan = scan
                .beyond_end()
                .unwrap_or_else(|| LogScanner::within(catalog, newest, None).allow_locked());
            let mut behind = durable_end::scan_beyond_known(catalog, scan, known)?;
            behind.make_durable(catalog, &mut None)?;
            if let Some(refusal) = behind.refusal() {
                return Err(refusal);
            }
            if let Some(damages) = behind.damage.take() {
                return Err(first_of(damages));
            }
            given_up += behind.given_up;
            (behind.durable(), behind.end)
        }
    };
    match end.damage.into_iter().next() {
        Some(damage) => Err(Error::damaged(damage)),
        None => {
            Ok((last, given_up, end.tail.map_or(TailState::Clean, |tail| TailState::of(tail.row))))
        }
    }
}

fn first_of(damages: Vec<crate::base::error::Damage>) -> Error {
    Error::damaged(damages.into_iter().next().expect("damage is named"))
}

/// Copies a file of a segment that is no longer written.
fn copy_file(
    source: &dyn Storage,
    name: &str,
    (target, meter): (&dyn Storage, &mut ProgressReporter<'_>),
) -> Result<u64> {
    let failed = || Error::io(format!("copy {name}"));
    let source = source.open(name, Access::Read).map_err(failed())?;
    let file = target.create(name).map_err(failed())?;
    let (mut at, mut chunk) = (0, vec![0; CHUNK]);
    loop {
        let read = source.read_at(&mut chunk, at).map_err(failed())?;
        if read == 0 {
            break;
        }
        file.write_at(chunk.get(..read).unwrap_or_default(), at).map_err(failed())?;
        at += u64::try_from(read).expect("fits in 64 bits");
        meter.add(read);
    }
    file.sync().map_err(failed())?;
    Ok(at)
}

fn clear(target: &dyn Storage) -> Result<()> {
    let names = list(target)?;
    for name in names.iter().filter(|name| *name != QUARANTINE) {
        target.remove(name).map_err(Error::io(format!("remove {name}")))?;
    }
    Ok(())
}
