//! Verifies a whole log: checks every record and names the lost ones. Writes nothing.

use crate::base::error::{Corruption, Damage, Lost, Result, is_read_error};
use crate::base::num::to_u64;
use crate::files::consistent_read::{Reading, read_consistent};
use crate::files::directory::is_in_use;
use crate::files::live::{LiveSource, Watermark};
use crate::files::overlay::Patch;
use crate::files::unlock::{LogFiles, lost_keys};
use crate::files::unreadable_heads;
use crate::maintenance::progress::ProgressReporter;
use crate::read::read_repair::{Repaired, hides_end, read_repaired};
use crate::recover::report::TailState;
use crate::scan::catalog::{Catalog, FoundManifest, KeysLost, Orphan};
use crate::scan::intact::AtomicSet;
use crate::scan::load::{keys_lacking, load_catalog, load_unlocked};
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use seawall_format::batch::{BodyKind, HEADER_SIZE};
use seawall_format::frame::Frames;
use seawall_format::{
    Closed, CodecId, Compression, Layout, Level, Lsn, Manifest, Offset, SegmentHeader, SegmentId,
};
use seawall_io::Storage;
use std::cmp::Reverse;
use std::sync::Arc;

/// The overall result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// All records are intact.
    Clean,
    /// All records are intact; the log ends with an unacknowledged torn write.
    Torn,
    /// The log ends with a torn write or damage; which one is ambiguous.
    Unsure,
    /// Damaged, but every record is readable.
    Correctable,
    /// Damaged, and records are lost.
    Lost,
}

impl Verdict {
    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Torn => "torn",
            Self::Unsure => "unsure",
            Self::Correctable => "correctable",
            Self::Lost => "lost",
        }
    }
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// The overall result.
    pub verdict: Verdict,
    /// Number of intact records.
    pub records: u64,
    /// The first intact record.
    pub first_lsn: Option<Lsn>,
    /// The last intact record.
    pub last_lsn: Option<Lsn>,
    /// All damage, in log order.
    pub damage: Vec<Damage>,
    /// State of the tail.
    pub tail: TailState,
    /// Bytes after the last record, up to the last one that is not zero.
    pub tail_bytes: u64,
    /// Where these bytes begin, if the scan reached the end.
    pub tail_at: Option<(SegmentId, Offset)>,
    /// Damage that parity can repair. The rest of the result describes the repaired view; on the
    /// device the bytes are still [`Patch::old`] until a repair writes them.
    pub mended: Vec<Patch>,
    /// Records that a repair gave up: their LSNs stay used, and readers skip them.
    pub given_up: Vec<Lost>,
    /// Files above the newest segment that never belonged to the log: deleting them loses no
    /// record.
    pub orphans: Vec<Orphan>,
    /// Number of intact records whose atomic set lost other records.
    pub broken_sets: u64,
    /// Properties of the log.
    pub summary: Summary,
    /// Where the manifest says that the log ends, if nothing was appended since the clean close.
    stated_end: Option<Closed>,
    /// Where the scan found that it ends.
    found_end: Option<Closed>,
}

/// Properties of a log, from its manifest and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Codec of the payloads; `None` if neither manifest nor header is readable.
    pub codec: Option<CodecId>,
    /// Name of the record type; empty if the log has none.
    pub type_name: String,
    /// Schema number of the newest records.
    pub schema: u32,
    /// How the records are stored in files.
    pub layout: Option<Layout>,
    /// The durability level that `append` waits for.
    pub level: Option<Level>,
    /// Number of live segments.
    pub segments: u64,
    /// Size of their files in bytes.
    pub bytes: u64,
    /// Total payload of the intact records in bytes.
    pub payload_bytes: u64,
    /// How new batches are compressed; `None` if the manifest is not readable.
    pub compression: Option<Compression>,
    /// Number of intact batches that are compressed.
    pub compressed_batches: u64,
    /// Size of the intact batches in the files, in bytes.
    pub stored_bytes: u64,
    /// Size that the intact batches would have without compression, in bytes.
    pub plain_bytes: u64,
    /// Number of live segments that are encrypted.
    pub encrypted_segments: u64,
    /// Whether a new segment is encrypted; `None` if the manifest is not readable.
    pub encrypts: Option<bool>,
    /// Whether encrypted records were verified without the key: by checksums, and not decrypted.
    pub is_locked: bool,
    /// The size in bytes up to which segments double.
    pub segment_size: u64,
    /// The newest checkpoint.
    pub checkpoint: Option<Lsn>,
    /// The last record of the last clean close.
    pub closed: Option<Lsn>,
    /// Times of the oldest and the newest readable batch, in microseconds since 1970.
    pub written_us: Option<(u64, u64)>,
    /// Whether a writer has the log open.
    pub in_use: bool,
}

/// Verifies a log. While a writer is running, repeats the verification until its watermark does not
/// change during one, or the result is clean.
pub(crate) fn verify(log: &LogFiles, meter: &mut ProgressReporter<'_>) -> Result<Verification> {
    read_consistent(LiveSource::File(&**log), |watermark| {
        let in_use = is_in_use(&**log)?;
        let running = watermark.filter(|watermark| watermark.is_running());
        let found = look(log, (in_use, running), meter)?;
        // Damage of a log that no process has open is believed at once: no writer can have caused
        // it, and a second pass over a large log would take as long again.
        let is_at_rest = !in_use && running.is_none() && !is_in_use(&**log)?;
        let is_certain = found.verdict == Verdict::Clean || is_at_rest;
        Ok(if is_certain { Reading::Certain(found) } else { Reading::Doubtful(found) })
    })
}

/// Verifies the log once.
fn look(
    files: &LogFiles,
    (in_use, watermark): (bool, Option<&Watermark>),
    meter: &mut ProgressReporter<'_>,
) -> Result<Verification> {
    let mut newest = None;
    let look_at = |log: &Arc<dyn Storage>| {
        let mut catalog = load_unlocked(log, watermark, &files.unlocker)?;
        if catalog.keys_lost.is_none() && !files.unlocker.has_key() {
            catalog.keys_lost = keys_lacking(&**log, &catalog)?;
        }
        newest = catalog.chain.last().map(|link| link.segment.header.clone());
        meter.begin(&catalog, 1);
        judge(LogScanner::new(&catalog, None).allow_locked(), (&catalog, in_use), meter)
    };
    let mut found = select(read_repaired(&files.storage, look_at, Verification::doubtful)?)?;
    found.doubt_end(newest.as_ref());
    meter.end();
    Ok(found)
}

/// Verifies a log without a writer, skipping blocks that the device cannot read.
pub(crate) fn look_around(storage: &Arc<dyn Storage>) -> Result<Verification> {
    let found = look_around_data(storage);
    let Err(true) = found.as_ref().map_err(is_read_error) else { return found };
    let Some((view, unreadable)) = unreadable_heads::view(storage)? else { return found };
    let mut found = look_around_data(&view)?;
    found.damage.extend(unreadable);
    found.verdict = found.judge();
    Ok(found)
}

/// Like [`look_around`], but the device must be able to read the manifest and all headers, marks
/// and seals.
fn look_around_data(storage: &Arc<dyn Storage>) -> Result<Verification> {
    let catalog = load_catalog(storage, None)?;
    let scan = LogScanner::new(&catalog, None).skip_io_errors(true).allow_locked();
    judge(scan, (&catalog, false), &mut ProgressReporter::new(&mut |_| {}))
}

/// Like [`look_around`], and parity restores what it can.
pub(crate) fn look_around_repaired(storage: &Arc<dyn Storage>) -> Result<Verification> {
    let mut newest = None;
    let look_at = |log: &Arc<dyn Storage>| {
        // Of a log with an unreadable header, mark or seal, the damage tells enough.
        let catalog = load_catalog(log, None).ok();
        let last = catalog.as_ref().and_then(|catalog| catalog.chain.last());
        newest = last.map(|link| link.segment.header.clone());
        look_around(log)
    };
    let mut found = select(read_repaired(storage, look_at, Verification::doubtful)?)?;
    found.doubt_end(newest.as_ref());
    Ok(found)
}

/// Selects the result for the repaired view if it is better than that for the log as it is.
fn select(repaired: Repaired<Verification>) -> Result<Verification> {
    let Repaired { first, last, patches } = repaired;
    let (first, mut found) = match (first, last) {
        // Without repairs, or if repaired bytes lead to a place that the device cannot read.
        (first, None) | (first @ Ok(_), Some(Err(_))) => return first,
        (Err(_), Some(last)) => {
            let mut found = last?;
            found.say_mended(patches);
            return Ok(found);
        }
        (Ok(first), Some(Ok(found))) => (first, found),
    };
    // Parity may repair bytes after the end that a failed write left in an older segment. They no
    // longer count, so the result is the same except for file sizes.
    let is_same = Verification { summary: first.summary.clone(), ..found.clone() } == first;
    if is_same || !found.is_at_least_as_good_as(&first) {
        return Ok(first);
    }
    let gone = first.damage.into_iter().filter(|damage| !found.damage.contains(damage));
    let gone: Vec<_> = gone.map(|damage| Damage { lost: None, ..damage }).collect();
    found.damage.extend(gone);
    found.damage.sort_by_key(|damage| (damage.segment, damage.offset));
    found.say_mended(patches);
    Ok(found)
}

/// Damage for a patch where the first scan saw only an ambiguous end.
fn damage_at(patch: &Patch) -> Damage {
    let segment = SegmentId::from_any_name(&patch.file);
    let (offset, bytes) = (Offset(patch.offset), to_u64(patch.new.len()));
    Damage { segment, offset, bytes, ..Damage::new(Corruption::Body) }
}

fn judge(
    mut scan: LogScanner,
    (catalog, in_use): (&Catalog, bool),
    meter: &mut ProgressReporter<'_>,
) -> Result<Verification> {
    let mut found = Verification {
        verdict: Verdict::Clean,
        records: 0,
        first_lsn: None,
        last_lsn: None,
        damage: vec![],
        tail: TailState::Clean,
        tail_bytes: 0,
        tail_at: None,
        mended: vec![],
        given_up: vec![],
        orphans: catalog.orphans().to_vec(),
        broken_sets: 0,
        summary: summary(catalog, in_use),
        stated_end: catalog.manifest().and_then(Manifest::end),
        found_end: None,
    };
    if matches!(catalog.found_manifest, FoundManifest::Never) {
        // Creation was interrupted before anything was acknowledged.
        return Ok(found);
    }
    let end = loop {
        let event = scan.step()?;
        meter.walked(&scan);
        match event {
            ScanItem::Batch(batch) if batch.header.is_void() => {
                let (from, to) = (batch.header.first, Some(batch.last));
                Lost { from, to }.join(&mut found.given_up);
            }
            // Nothing can decrypt it.
            ScanItem::Batch(batch)
                if batch.is_locked && catalog.are_keys_lost(batch.header.first) => {}
            ScanItem::Batch(batch) => {
                let count = batch.last.get() - batch.header.first.get() + 1;
                let body = scan.bytes().get(batch.body.clone()).unwrap_or_default();
                let frames = Frames::new(body, batch.header.first, batch.header.count);
                let counted = frames.take_while(|frame| frame.lsn <= batch.last);
                let bytes = counted.map(|frame| frame.payload.len()).sum();
                found.add((batch.header.first, batch.last), count, bytes);
                found.summary.add_batch(&batch);
            }
            ScanItem::Damage(damages, salvaged) => {
                found.damage.extend(damages);
                for record in salvaged {
                    found.add((record.lsn, record.lsn), 1, record.payload.len());
                    found.broken_sets += u64::from(record.set == AtomicSet::Broken);
                }
            }
            ScanItem::End(end) => break end,
        }
    };
    if let Some(tail) = &end.tail {
        found.tail = TailState::of(tail.row);
        found.tail_bytes = tail.length;
        found.tail_at = Some((tail.segment, tail.offset));
    }
    let newest = catalog.chain.last().map(|link| link.segment.header.reference());
    found.found_end = newest.map(|segment| Closed { last: end.last, segment });
    found.damage.extend(end.damage);
    if let Some(KeysLost::From(first)) = catalog.keys_lost {
        found.damage.push(lost_keys(first));
    }
    found.verdict = found.judge();
    Ok(found)
}

impl Verification {
    /// The segments with damage or an ambiguous end.
    pub(crate) fn doubtful(&self) -> Vec<Option<SegmentId>> {
        let tail = self.tail_at.filter(|_| self.tail != TailState::Clean);
        let tail = tail.map(|(segment, _)| Some(segment));
        self.damage.iter().map(|damage| damage.segment).chain(tail).collect()
    }

    /// As for an open: the restored block in which the log ends may have held more records.
    fn doubt_end(&mut self, newest: Option<&SegmentHeader>) {
        if let (TailState::Clean, Some((_, end)), Some(newest)) = (self.tail, self.tail_at, newest)
            && hides_end(&self.mended, newest, end)
        {
            self.tail = TailState::Ambiguous;
        }
    }

    /// Whether an unknown number of records is lost at the end.
    pub(crate) fn is_open(&self) -> bool {
        let mut lost = self.damage.iter().filter_map(|damage| damage.lost);
        lost.any(|lost| lost.to.is_none())
    }

    /// Whether the device cannot read the place where the log ends, which may hold more records.
    pub(crate) fn hides_end(&self) -> bool {
        let is_open = |damage: &Damage| damage.lost.is_some_and(|lost| lost.to.is_none());
        self.damage.iter().any(|one| one.cause == Corruption::Unreadable && is_open(one))
    }

    /// Whether this view of a repaired log ends where the manifest of the log `before` it says.
    /// The manifest of a replica says nothing about this log.
    pub(crate) fn ends_as_closed(&self, before: &Self) -> bool {
        before.stated_end.is_some() && before.stated_end == self.found_end
    }

    /// Whether this result loses no more than `other`.
    ///
    /// Lost records count first, not the number of records. If the header of the newest segment is
    /// damaged, the scan finds records that a truncation could not remove; they disappear again in
    /// the repaired view.
    pub(crate) fn is_at_least_as_good_as(&self, other: &Self) -> bool {
        let rank = |found: &Self| (found.is_open(), found.verdict, Reverse(found.records));
        rank(self) <= rank(other)
    }

    /// Adds the repairs from parity to the result.
    fn say_mended(&mut self, patches: Vec<Patch>) {
        if self.damage.is_empty() {
            self.damage.extend(patches.first().map(damage_at));
        }
        self.mended = patches;
        self.verdict = self.judge();
    }

    fn add(&mut self, (first, last): (Lsn, Lsn), count: u64, bytes: usize) {
        self.records += count;
        self.first_lsn.get_or_insert(first);
        self.last_lsn = self.last_lsn.max(Some(last));
        self.summary.payload_bytes += u64::try_from(bytes).expect("fits in 64 bits");
    }

    fn judge(&self) -> Verdict {
        if self.damage.iter().any(|damage| damage.lost.is_some()) {
            return Verdict::Lost;
        }
        match self.tail {
            _ if !self.damage.is_empty() => Verdict::Correctable,
            TailState::Clean => Verdict::Clean,
            TailState::Torn => Verdict::Torn,
            TailState::Ambiguous => Verdict::Unsure,
        }
    }
}

fn summary(catalog: &Catalog, in_use: bool) -> Summary {
    let manifest = catalog.manifest();
    let headers = || catalog.chain.iter().map(|link| &link.segment.header);
    let stated = manifest.map(|manifest| &manifest.record_type);
    let record_type = stated.or_else(|| headers().next_back().map(|header| &header.record_type));
    Summary {
        codec: record_type.map(|records| records.codec),
        type_name: record_type.map_or_else(String::new, |records| records.name.clone()),
        schema: record_type.map_or(0, |records| records.schema),
        layout: manifest.map(|m| m.layout).or_else(|| headers().next().map(|header| header.layout)),
        level: manifest.map(|manifest| manifest.level),
        segments: u64::try_from(catalog.chain.len()).expect("fits in 64 bits"),
        bytes: catalog.chain.iter().map(|link| link.segment.size()).sum(),
        payload_bytes: 0,
        compression: manifest.map(|manifest| manifest.compression),
        compressed_batches: 0,
        stored_bytes: 0,
        plain_bytes: 0,
        encrypted_segments: to_u64(headers().filter(|h| h.authenticator.is_some()).count()),
        encrypts: manifest.map(|manifest| manifest.authenticator.is_some()),
        is_locked: catalog.is_locked(),
        segment_size: manifest.map_or(0, |manifest| manifest.segment_max),
        checkpoint: manifest.and_then(Manifest::newest_checkpoint),
        closed: manifest.and_then(|manifest| manifest.closed).and_then(|closed| closed.last),
        written_us: None,
        in_use,
    }
}

impl Summary {
    fn add_batch(&mut self, batch: &ScannedBatch) {
        let time_us = batch.header.time_us;
        let stored = batch.end.0 - batch.start.0;
        let is_compressed = batch.header.kind == BodyKind::Encoded;
        self.compressed_batches += u64::from(is_compressed);
        self.stored_bytes += stored;
        // The body is decoded.
        let plain = to_u64(HEADER_SIZE + batch.body.len());
        let is_encrypted = batch.header.kind == BodyKind::Encrypted && !batch.is_locked;
        self.plain_bytes += if is_compressed || is_encrypted { plain } else { stored };
        let (first, last) = self.written_us.unwrap_or((time_us, time_us));
        self.written_us = Some((first.min(time_us), last.max(time_us)));
    }
}
