//! Salvage: copies the intact records of a damaged log to a new log, with the same LSNs. The source
//! is only read.
//!
//! Lost records become void batches (format.md section 3.3): their LSNs stay used, and readers skip
//! a place that says what is missing.

use crate::base::env::Env;
use crate::base::error::{Corruption, Damage, Error, Lost, Result, is_read_error};
use crate::base::num::to_u64;
use crate::base::options::Options;
use crate::files::directory::{MANIFEST, list, not_a_log, refuse_occupied};
use crate::files::manifest::ManifestFile;
use crate::files::unlock::{LogFiles, lost_keys, require_key};
use crate::files::unreadable_heads;
use crate::maintenance::exclusive::AtRest;
use crate::maintenance::progress::ProgressReporter;
use crate::maintenance::protection::build_parity;
use crate::maintenance::restore::plan_repair;
use crate::maintenance::verify::look_around;
use crate::read::read_repair::ReadRepair;
use crate::recover::report::TailState;
use crate::scan::catalog::{Catalog, KeysLost};
use crate::scan::intact::{AtomicSet, Salvaged};
use crate::scan::load::load_unlocked;
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use crate::write::pending::RewriteBatch;
use crate::write::rotation::{Predecessor, RotationPlan, rotate};
use seawall_format::batch::{BodyKind, HEADER_SIZE};
use seawall_format::frame::{self, Frames};
use seawall_format::{Closed, Level, Lsn, Manifest, SegmentHeader, SegmentId, next_lsn};
use seawall_io::Storage;
use std::sync::Arc;

/// Bytes collected before they are written as a segment.
const GATHERED_MAX: usize = 16 << 20;
/// Largest gap between LSNs that is accepted: no log has that many records, so an LSN beyond it is
/// implausible.
const GIVEN_UP_MAX: u64 = 1 << 40;

/// The result of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Number of copied records.
    pub records: u64,
    /// The first copied record.
    pub first: Option<Lsn>,
    /// The last copied record.
    pub last: Option<Lsn>,
    /// Lost records, whose LSNs stay used.
    pub given_up: Vec<Lost>,
    /// Intact records among `given_up` that belonged to a broken atomic set: a set is copied
    /// completely or not at all.
    pub broken_sets: u64,
    /// The damage of the source.
    pub damage: Vec<Damage>,
    /// What follows the last record of the source. If it is ambiguous, later records may be lost,
    /// and the new log does not show it.
    pub tail: TailState,
    /// The last record, if the source lost its end and only a replica tells where that is.
    pub end_by_replica: Option<Lsn>,
    /// Records of completely lost files that nothing in the source proves: they rest on the
    /// replicas alone.
    pub unproven: Vec<Lost>,
    /// Lost records that a replica has but nothing in the source proves: they are not copied.
    pub refused: Vec<Lost>,
    /// The last record of a replica past the end of the source: such records are not copied.
    pub beyond: Option<Lsn>,
}

/// A view of the log with what parity and `replicas` restore, and a report that says what rests on
/// the replicas. The view also has the records that parity knows of a block where the log may not
/// end: a repair in place would hide the loss of others.
fn repaired_view(
    log: &Arc<dyn Storage>,
    replicas: &[Arc<dyn Storage>],
) -> Result<(Arc<dyn Storage>, SalvageReport)> {
    let names = list(&**log)?;
    let has_parity = names.iter().any(|name| SegmentId::from_parity_name(name).is_some());
    if !has_parity && replicas.is_empty() {
        return Ok((log.clone(), SalvageReport::default()));
    }
    let mut read_repair = ReadRepair::default();
    let plan = match plan_repair(log, replicas) {
        // A plan needs the manifest and all headers.
        Err(error) if replicas.is_empty() && is_read_error(&error) => {
            let view = read_repair.view(log, [None])?.unwrap_or_else(|| log.clone());
            return Ok((view, SalvageReport::default()));
        }
        plan => plan?,
    };
    let (mut view, mut found) = (plan.view(log), plan.after.clone());
    while let Some(next) = read_repair.view(&view, found.doubtful())? {
        let then = look_around(&next)?;
        if !then.is_at_least_as_good_as(&found) {
            break;
        }
        (view, found) = (next, then);
    }
    let is_lost = |lsn: Lsn| found.damage.iter().any(|damage| lost_by(damage, lsn));
    let report = SalvageReport {
        end_by_replica: plan.end_by_replica,
        refused: plan.refused.into_iter().filter(|lost| is_lost(lost.from)).collect(),
        unproven: plan.unproven,
        beyond: plan.beyond.filter(|beyond| Some(*beyond) > found.last_lsn),
        ..SalvageReport::default()
    };
    Ok((view, report))
}

/// The same view, if the device reads every header, mark, seal and the manifest. Otherwise a view
/// with invalid ones in their place, and the report names them.
fn readable_view(
    (view, mut report): (Arc<dyn Storage>, SalvageReport),
) -> Result<(Arc<dyn Storage>, SalvageReport)> {
    let Some((readable, unreadable)) = unreadable_heads::view(&view)? else {
        return Ok((view, report));
    };
    report.damage.extend(unreadable);
    Ok((readable, report))
}

fn lost_by(damage: &Damage, lsn: Lsn) -> bool {
    damage.lost.is_some_and(|lost| lost.names(lsn))
}

/// Salvages a log that no writer opens meanwhile.
pub(crate) struct Salvage {
    log: LogFiles,
    at_rest: AtRest,
    report: SalvageReport,
}

impl Salvage {
    /// Salvages `log` with what parity and `replicas` restore.
    pub(crate) fn of(log: &LogFiles, replicas: &[Arc<dyn Storage>]) -> Result<Self> {
        let at_rest = AtRest::of(&log.storage)?;
        let viewed = repaired_view(&log.storage, replicas);
        let (view, report) = at_rest.check(viewed.and_then(readable_view))?;
        Ok(Self { log: log.with_storage(view), at_rest, report })
    }

    /// Copies the intact records to the empty storage `target`.
    pub(crate) fn copy_to(
        self,
        target: Arc<dyn Storage>,
        meter: &mut ProgressReporter<'_>,
    ) -> Result<SalvageReport> {
        refuse_occupied(&*target)?;
        let rescue = rescue((&self.log, self.report), target, meter);
        let rescue = self.at_rest.check(rescue)?;
        let (target, parity) = (rescue.env.storage.clone(), rescue.manifest.parity);
        let rescued = rescue.finish()?;
        if let Some(scheme) = parity {
            build_parity(&target, scheme)?;
        }
        meter.end();
        Ok(rescued)
    }
}

/// Copies the intact records of `source`, and completes `report`.
fn rescue(
    (source, report): (&LogFiles, SalvageReport),
    target: Arc<dyn Storage>,
    meter: &mut ProgressReporter<'_>,
) -> Result<Rescue> {
    let catalog = load_unlocked(&source.storage, None, &source.unlocker)?;
    check_keys(source, &catalog)?;
    let mut rescue = Rescue::new(&catalog, target, (source, report))?;
    let mut scan = LogScanner::new(&catalog, None).skip_io_errors(true);
    meter.begin(&catalog, 1);
    loop {
        let event = scan.step()?;
        meter.walked(&scan);
        match event {
            ScanItem::Batch(found) => {
                rescue.expect_schema(scan.schema())?;
                rescue.keep_batch(&found, scan.bytes())?;
            }
            ScanItem::Damage(damages, salvaged) => {
                rescue.expect_schema(scan.schema())?;
                rescue.keep_salvaged(&salvaged, scan.bytes())?;
                rescue.note(damages)?;
            }
            ScanItem::End(end) => {
                rescue.rescued.tail = end.tail.map_or(TailState::Clean, |t| TailState::of(t.row));
                rescue.note(end.damage)?;
                return Ok(rescue);
            }
        }
    }
}

/// Refuses an encrypted log without its keys. If they were lost before they encrypted a record, the
/// log can be copied without a key, to a log that is not encrypted: nothing shows that a holder of
/// the key wrote these records.
fn check_keys(source: &LogFiles, catalog: &Catalog) -> Result<()> {
    let has_key = source.unlocker.has_key();
    let first = match catalog.keys_lost {
        Some(KeysLost::ToCome) if !has_key => return Ok(()),
        Some(KeysLost::ToCome) => next_record(catalog)?,
        lost => {
            require_key(&source.unlocker, catalog.is_encrypted())?;
            let Some(KeysLost::From(first)) = lost else { return Ok(()) };
            first
        }
    };
    Err(Error::damaged(lost_keys(first)))
}

/// The LSN after the last record of the log.
fn next_record(catalog: &Catalog) -> Result<Lsn> {
    let newest = catalog.chain.last().map(|newest| LogScanner::within(catalog, newest, None));
    let scan = newest.unwrap_or_else(|| LogScanner::new(catalog, None));
    let mut scan = scan.skip_io_errors(true);
    while !matches!(scan.step()?, ScanItem::End(_)) {}
    Ok(next_lsn(scan.last()))
}

/// A record to copy.
struct Intact<'a> {
    lsn: Lsn,
    payload: &'a [u8],
    goes_on: bool,
}

/// The new log under construction.
struct Rescue {
    env: Env,
    manifest: Manifest,
    /// The next LSN.
    next: Lsn,
    gathered: Vec<RewriteBatch>,
    gathered_size: usize,
    /// Schema number of the collected records.
    schema: u32,
    /// The last segment written.
    pred: Option<Predecessor>,
    oldest: Option<SegmentHeader>,
    /// Chain value of its last batch.
    chain: u64,
    max_id: Option<SegmentId>,
    rescued: SalvageReport,
}

impl Rescue {
    fn new(
        catalog: &Catalog,
        target: Arc<dyn Storage>,
        (source, rescued): (&LogFiles, SalvageReport),
    ) -> Result<Self> {
        let manifest = catalog.manifest().cloned().or_else(|| rebuilt(catalog));
        let mut manifest = manifest.ok_or_else(|| {
            not_a_log(&**source, "neither a manifest nor the header of a segment can be read")
        })?;
        let env = Env::new(&Options::new(), target);
        if catalog.keys_lost == Some(KeysLost::ToCome) {
            manifest.authenticator = None;
        } else if catalog.is_encrypted() {
            encrypt(&env, &mut manifest, (source, catalog))?;
        }
        Ok(Self {
            env,
            next: manifest.oldest_base,
            manifest,
            gathered: vec![],
            gathered_size: 0,
            schema: 0,
            pred: None,
            oldest: None,
            chain: 0,
            max_id: None,
            rescued,
        })
    }

    /// Starts a new segment if the schema number changes: a segment has one schema.
    fn expect_schema(&mut self, schema: u32) -> Result<()> {
        if schema != self.schema && !self.gathered.is_empty() {
            self.make_segment()?;
        }
        self.schema = schema;
        Ok(())
    }

    /// Copies a valid batch up to its last record that counts.
    fn keep_batch(&mut self, found: &ScannedBatch, bytes: &[u8]) -> Result<()> {
        let header = &found.header;
        if header.is_void() {
            return self.give_up_to(found.last, header.time_us);
        }
        let body = bytes.get(found.body.clone()).expect("the scan has read it");
        let records: Vec<_> = Frames::new(body, header.first, header.count)
            .take_while(|record| record.lsn <= found.last)
            .map(|record| Intact {
                lsn: record.lsn,
                payload: record.payload,
                goes_on: record.goes_on && record.lsn < found.last,
            })
            .collect();
        self.keep(&records, header.time_us)
    }

    /// Copies the intact records of a damaged range, except parts of broken sets.
    fn keep_salvaged(&mut self, salvaged: &[Salvaged], bytes: &[u8]) -> Result<()> {
        let is_broken = |record: &Salvaged| record.set == AtomicSet::Broken;
        let time_us = salvaged.first().map_or(0, |record| record.time_us);
        let runs = salvaged
            .chunk_by(|one, next| next.lsn == one.lsn.next() && is_broken(one) == is_broken(next));
        for run in runs {
            if let Some(last) = run.last().filter(|record| is_broken(record)) {
                self.rescued.broken_sets += to_u64(run.len());
                // Give up explicitly: if no record follows, no gap would show that these are lost.
                self.give_up_to(last.lsn, time_us)?;
                continue;
            }
            // A set shortened by a truncation ends at the truncation, as in `keep_batch`.
            let end = run.last().map(|record| record.lsn);
            let records: Vec<_> = run
                .iter()
                .filter_map(|record| {
                    let payload = bytes.get(record.payload.clone())?;
                    let goes_on = record.goes_on && Some(record.lsn) < end;
                    Some(Intact { lsn: record.lsn, payload, goes_on })
                })
                .collect();
            self.keep(&records, time_us)?;
        }
        Ok(())
    }

    /// Copies consecutive records. Of two records with the same LSN the second one is forged: the
    /// first stays.
    fn keep(&mut self, records: &[Intact<'_>], time_us: u64) -> Result<()> {
        let known = records.partition_point(|record| record.lsn < self.next);
        let records = records.get(known..).unwrap_or_default();
        let Some(first) = records.first() else { return Ok(()) };
        if let Some(lost) = first.lsn.previous() {
            self.give_up_to(lost, time_us)?;
        }
        let room = usize::try_from(self.manifest.geometry.batch_max).expect("at most 64 MiB");
        let mut batch = self.batch(time_us);
        for set in records.chunk_by(|one, _| one.goes_on) {
            let size: usize = set.iter().map(|one| frame::size_on_disk(one.payload.len())).sum();
            if batch.count > 0 && batch.bytes.len() + size > room {
                self.gather(std::mem::replace(&mut batch, self.batch(time_us)))?;
            }
            if batch.bytes.len() + size > room {
                // The set exceeds the batch size of the manifest, so the manifest belongs to
                // another log.
                self.give_up_to(set.last().map_or(self.next, |one| one.lsn), time_us)?;
                batch = self.batch(time_us);
                continue;
            }
            self.rescued.records += to_u64(set.len());
            for record in set {
                frame::push_unbound(&mut batch.bytes, record.payload, record.goes_on);
                batch.count += 1;
                self.next = record.lsn.next();
                self.rescued.first.get_or_insert(record.lsn);
                self.rescued.last = Some(record.lsn);
            }
        }
        if batch.count > 0 { self.gather(batch) } else { Ok(()) }
    }

    /// An empty batch that begins with the next LSN.
    fn batch(&self, time_us: u64) -> RewriteBatch {
        let bytes = vec![0; HEADER_SIZE];
        RewriteBatch { bytes, first: self.next, count: 0, kind: BodyKind::Frames, time_us }
    }

    /// Gives up the missing records up to `last`.
    fn give_up_to(&mut self, last: Lsn, time_us: u64) -> Result<()> {
        if last.get().saturating_sub(self.next.get()) > GIVEN_UP_MAX {
            let range = Some(Lost { from: self.next, to: Some(last) });
            let damage = Damage { lost: range, ..Damage::new(Corruption::Order) };
            return Err(Error::damaged(damage));
        }
        while self.next <= last {
            let first = self.next;
            let count = u32::try_from(last.get() - first.get() + 1).unwrap_or(u32::MAX);
            let bytes = vec![0; HEADER_SIZE];
            self.gather(RewriteBatch { bytes, first, count, kind: BodyKind::Void, time_us })?;
            self.next = first.plus(u64::from(count));
            let to = self.next.previous();
            Lost { from: first, to }.join(&mut self.rescued.given_up);
        }
        Ok(())
    }

    /// Adds the damage of the source to the report. The LSNs of lost records stay used.
    fn note(&mut self, damages: Vec<Damage>) -> Result<()> {
        let ends = damages.iter().filter_map(|damage| damage.lost.and_then(|lost| lost.to));
        if let Some(last) = ends.max() {
            self.give_up_to(last, 0)?;
        }
        self.rescued.damage.extend(damages);
        Ok(())
    }

    fn gather(&mut self, batch: RewriteBatch) -> Result<()> {
        let size = batch.bytes.len();
        let segment_max = usize::try_from(self.manifest.segment_max).unwrap_or(usize::MAX);
        let is_full = self.gathered_size + size > GATHERED_MAX.min(segment_max / 2);
        // The distance of a batch from the base of its segment is stored in 32 bits.
        let base = self.gathered.first().map_or(batch.first, |first| first.first);
        let is_far = u32::try_from(batch.first.get() - base.get()).is_err();
        if (is_full || is_far) && !self.gathered.is_empty() {
            self.make_segment()?;
        }
        self.gathered_size += size;
        self.gathered.push(batch);
        Ok(())
    }

    /// Writes the collected records as a segment, in the order of rule R6.
    fn make_segment(&mut self) -> Result<()> {
        let carry = std::mem::take(&mut self.gathered);
        self.gathered_size = 0;
        let base = carry.first().map_or(self.next, |batch| batch.first);
        if self.pred.is_some() && carry.is_empty() {
            return Ok(());
        }
        let (pred, chain_before) = (self.pred.take(), self.chain);
        let plan = RotationPlan {
            base,
            carry,
            pred,
            chain_before,
            size_min: 0,
            reserve: 0,
            spare: None,
            in_flight_max: 1,
        };
        let log = self.manifest.with_schema(self.schema);
        let made = rotate(&self.env, &log, plan, &mut self.max_id)?;
        made.tail.release_reserved();
        self.chain = made.tail.chain;
        self.oldest.get_or_insert_with(|| made.tail.header.clone());
        self.pred = Some(Predecessor::of(&made.tail));
        Ok(())
    }

    /// Writes the manifest, which makes the directory a log that was closed cleanly.
    fn finish(mut self) -> Result<SalvageReport> {
        self.make_segment()?;
        let last = self.next.previous();
        let (oldest, newest) = (self.oldest.expect("made above"), self.pred.expect("made above"));
        let content = &mut self.manifest;
        content.sequence = 0;
        (content.oldest, content.oldest_base) = (oldest.reference(), oldest.base);
        let end = next_lsn(last);
        content.checkpoints = content.checkpoints.map(|lsn| lsn.map(|lsn| lsn.min(end)));
        content.closed = Some(Closed { last, segment: newest.header.reference() });
        content.is_closed = true;
        let file = self.env.storage.create(MANIFEST);
        let file = file.map_err(Error::io("create the manifest"))?;
        let keys = self.env.keys();
        let time_us = self.env.clock.wall_us();
        ManifestFile { content: self.manifest, file, keys }.write_both(time_us)?;
        let synced = self.env.storage.sync_dir();
        synced.map_err(Error::io("sync the new log's directory"))?;
        Ok(self.rescued)
    }
}

/// Prepares an encrypted copy with the keys of the log.
#[cfg(feature = "encryption")]
fn encrypt(
    env: &Env,
    manifest: &mut Manifest,
    (source, catalog): (&LogFiles, &Catalog),
) -> Result<()> {
    use crate::files::keys_file::write_keys;
    use seawall_format::encryption::{KeyError, Padding};
    use seawall_format::{Authenticator, Claims};

    let key = source.unlocker.key().ok_or(KeyError::NoKey).map_err(Error::key(None))?;
    let keys = source.unlocker.unlock(&**source, catalog.manifest())?;
    // The file `keys` is lost, and no header shows that.
    let keys = keys.ok_or_else(|| Error::damaged(lost_keys(manifest.oldest_base)))?;
    let keys = write_keys(env, keys.ring().again(), &key)?;
    let padding = manifest.authenticator.map_or(Padding::Off, |proof| proof.claims.padding);
    let (number, _) = keys.ring().newest();
    let (from, sequence) = (Some(SegmentId::FIRST), keys.sequence_min());
    let claims = Claims { padding, from, keys: sequence, ..Claims::of(number) };
    manifest.authenticator = Some(Authenticator::unsigned(claims));
    env.set_keys(Some(keys));
    Ok(())
}

/// This build refuses an encrypted log before this call.
#[cfg(not(feature = "encryption"))]
fn encrypt(_: &Env, _: &mut Manifest, _: (&LogFiles, &Catalog)) -> Result<()> {
    use seawall_format::encryption::KeyError;

    Err(Error::key(None)(KeyError::NoKey))
}

/// Rebuilds a lost manifest from the segment headers.
fn rebuilt(catalog: &Catalog) -> Option<Manifest> {
    let headers = || catalog.chain.iter().map(|link| &link.segment.header);
    let (oldest, newest) = (headers().next()?, headers().next_back()?);
    // Earlier records were pruned or lost; their LSNs stay used.
    let before = catalog.chain.first().and_then(|link| link.gap.as_ref());
    let before = before.and_then(|(_, missing)| missing.lost);
    Some(Manifest {
        geometry: oldest.geometry,
        log: oldest.log,
        authenticator: None,
        sequence: 0,
        oldest: oldest.reference(),
        oldest_base: before.map_or(oldest.base, |lost| lost.from),
        checkpoints: [None; 2],
        closed: None,
        is_closed: false,
        segment_max: headers()
            .map(|header| header.size)
            .max()?
            .max(crate::base::options::SEGMENT_DEFAULT),
        layout: oldest.layout,
        level: Level::default(),
        record_type: newest.record_type.clone(),
        parity: None,
        reuses: headers().any(|header| header.is_reused),
        names_ahead: headers().any(|header| header.named_ahead),
        in_flight_max: headers().map(|header| header.in_flight_max).max()?,
        compression_max: headers().map(|header| header.compression_max).max()?,
        // The lost manifest may have had a lower method.
        compression: newest.compression_max,
        time_us: 0,
    })
}
