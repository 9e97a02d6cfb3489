//! A verdict on a whole log: every body judged, every lost record named. Nothing is written.

use crate::base::error::{Corruption, Damage, Lost, Result, is_read_error};
use crate::base::num::to_u64;
use crate::files::directory::{is_in_use, is_not_found};
use crate::files::live::{Watermark, read_watermark};
use crate::files::overlay::Patch;
use crate::maintenance::progress::ProgressReporter;
use crate::read::read_repair::ReadRepair;
use crate::recover::report::TailState;
use crate::scan::catalog::{Catalog, Orphan};
use crate::scan::intact::AtomicSet;
use crate::scan::load::load_catalog;
use crate::scan::scanner::{LogScanner, ScanItem};
use seawall_format::frame::Frames;
use seawall_format::{CodecId, Layout, Level, Lsn, Manifest, Offset, SegmentId};
use seawall_io::Storage;
use std::cmp::Reverse;
use std::sync::Arc;

/// How often a look starts over because a writer moved on under it.
const ATTEMPTS: u32 = 8;

/// What is to be said of a log in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Verdict {
    /// All there.
    Clean,
    /// All there; a write that nobody was promised was under way at its end.
    Torn,
    /// What lies at its end could be such a write, or damage.
    Unsure,
    /// Damaged, and every record can still be read.
    Correctable,
    /// Damaged, and records are lost: they are named.
    Lost,
}

impl Verdict {
    /// A word for it, stable for scripts.
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

/// The verdict on a log, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// In one word.
    pub verdict: Verdict,
    /// How many records are intact.
    pub records: u64,
    /// The first of them.
    pub first_lsn: Option<Lsn>,
    /// The last of them.
    pub last_lsn: Option<Lsn>,
    /// Every damaged place, in order.
    pub damage: Vec<Damage>,
    /// What the end looks like.
    pub tail: TailState,
    /// Bytes behind the last record, up to the last that is not zero.
    pub tail_bytes: u64,
    /// Where they begin, if the end was reached.
    pub tail_at: Option<(SegmentId, Offset)>,
    /// What of that is put right with parity, in what is judged here; on the device it is still as
    /// [`Patch::old`] says, and waits for a repair.
    pub mended: Vec<Patch>,
    /// Records that a repair gave up: their numbers stay taken, and reading passes over them.
    pub given_up: Vec<Lost>,
    /// Files above the newest segment that are not part of the log: no record is lost with them.
    pub orphans: Vec<Orphan>,
    /// Intact records whose atomic set lost others.
    pub broken_sets: u64,
    /// What the log is like.
    pub summary: Summary,
}

/// What a log is like, from its manifest and headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// What the payloads are; `None` where nothing could be read that says so.
    pub codec: Option<CodecId>,
    /// What the records are called; empty if nobody ever said.
    pub type_name: String,
    /// The schema number of the newest records.
    pub schema: u32,
    /// How the records stand in the files.
    pub layout: Option<Layout>,
    /// What `append` waits for.
    pub level: Option<Level>,
    /// How many live segments there are.
    pub segments: u64,
    /// The size of their files, in bytes.
    pub bytes: u64,
    /// The sum of the payloads of intact records, in bytes.
    pub payload_bytes: u64,
    /// The size that segments double up to, in bytes.
    pub segment_size: u64,
    /// The newest checkpoint.
    pub checkpoint: Option<Lsn>,
    /// The last record at the last clean close.
    pub closed: Option<Lsn>,
    /// Microseconds since 1970 of the oldest and the newest batch that could be read.
    pub written_us: Option<(u64, u64)>,
    /// Whether a writer had the log open.
    pub in_use: bool,
}

/// Verifies a log; beside a writer until two looks agree.
pub(crate) fn verify(
    storage: &Arc<dyn Storage>,
    meter: &mut ProgressReporter<'_>,
) -> Result<Verification> {
    let mut seen = writer(&**storage)?;
    let mut attempt = 1;
    loop {
        let looked = look(storage, &seen, meter);
        // Beside a writer, or while one comes or goes, all but a clean look may be of bytes on
        // their way; and a file that is gone was pruned or cut off.
        let now = writer(&**storage)?;
        match looked {
            Err(error) if is_not_found(&error) && attempt < ATTEMPTS => {}
            Ok(found) => {
                // A writer that cannot say that it moved on may have, for once.
                let is_told = now == seen && (now != (true, None) || attempt > 1);
                let is_calm = found.verdict == Verdict::Clean || is_told;
                if is_calm || attempt == ATTEMPTS {
                    return Ok(found);
                }
            }
            Err(error) => return Err(error),
        }
        (seen, attempt) = (now, attempt + 1);
    }
}

/// Whether a writer has the log open, and what it says is durable.
fn writer(storage: &dyn Storage) -> Result<(bool, Option<Watermark>)> {
    let in_use = is_in_use(storage)?;
    Ok((in_use, read_watermark(storage)?.filter(Watermark::is_running)))
}

/// A verdict on what is there.
fn look(
    storage: &Arc<dyn Storage>,
    (in_use, watermark): &(bool, Option<Watermark>),
    meter: &mut ProgressReporter<'_>,
) -> Result<Verification> {
    let mut look_at = |log: &Arc<dyn Storage>| {
        let catalog = load_catalog(log, watermark.as_ref())?;
        meter.begin(&catalog, 1);
        judge(LogScanner::new(&catalog, None), (&catalog, *in_use), meter)
    };
    let (mut read_repair, mut log) = (ReadRepair::default(), storage.clone());
    let mut found = loop {
        match look_at(&log) {
            // Where is not said.
            Err(error) if is_read_error(&error) => {
                log = read_repair.view(&log, [None])?.ok_or(error)?;
            }
            looked => break looked?,
        }
    };
    if read_repair.patches.is_empty() {
        found = put_right(storage, found, look_at)?;
    } else {
        found.say_mended(read_repair.patches);
    }
    meter.end();
    Ok(found)
}

/// The same of a log at rest, around what the device cannot read.
pub(crate) fn look_around(storage: &Arc<dyn Storage>) -> Result<Verification> {
    let catalog = load_catalog(storage, None)?;
    let scan = LogScanner::new(&catalog, None).skip_io_errors(true);
    judge(scan, (&catalog, false), &mut ProgressReporter::new(&mut |_| {}))
}

/// The same verdict with what parity gives back: `judge` looks at a view of the log.
fn put_right(
    storage: &Arc<dyn Storage>,
    first: Verification,
    mut judge: impl FnMut(&Arc<dyn Storage>) -> Result<Verification>,
) -> Result<Verification> {
    let (mut read_repair, mut view, mut found) =
        (ReadRepair::default(), storage.clone(), first.clone());
    let (mut doubtful, mut is_judged) = (first.doubtful(), true);
    while let Some(next) = read_repair.view(&view, doubtful)? {
        view = next;
        doubtful = match judge(&view) {
            Ok(assessment) => {
                (found, is_judged) = (assessment, true);
                found.doubtful()
            }
            // What parity gave back leads to what the device refuses. Where is not said.
            Err(error) if is_read_error(&error) => {
                is_judged = false;
                vec![None]
            }
            Err(error) => return Err(error),
        };
    }
    // What is lost decides first: where the header of the newest segment is, records are seen that
    // a cut took and could not remove, as long as it is not given back.
    let rank = |found: &Verification| (found.is_open(), found.verdict, Reverse(found.records));
    let is_better = rank(&found) <= rank(&first);
    // What parity puts right where nothing counts any more, behind the end that a failed write gave
    // a segment, makes no difference but to the length of a file.
    let is_same = Verification { summary: first.summary.clone(), ..found.clone() } == first;
    if read_repair.patches.is_empty() || !is_judged || !is_better || is_same {
        return Ok(first);
    }
    let gone = first.damage.into_iter().filter(|damage| !found.damage.contains(damage));
    let gone: Vec<_> = gone.map(|damage| Damage { lost: None, ..damage }).collect();
    found.damage.extend(gone);
    found.damage.sort_by_key(|damage| (damage.segment, damage.offset));
    found.say_mended(read_repair.patches);
    Ok(found)
}

/// Damage that showed as nothing but an end which could not be told.
fn damage_at(patch: &Patch) -> Damage {
    let segment = SegmentId::from_any_name(&patch.file);
    let (offset, bytes) = (Offset(patch.offset), to_u64(patch.new.len()));
    Damage { segment, offset, bytes, lost: None, cause: Corruption::Body, origin: None }
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
        orphans: catalog.orphans.clone(),
        broken_sets: 0,
        summary: summary(catalog, in_use),
    };
    if catalog.manifest.is_none() && !catalog.manifest_lost {
        // A creation that did not get far: nothing was ever promised here.
        return Ok(found);
    }
    let end = loop {
        let event = scan.step()?;
        meter.walked(&scan);
        match event {
            ScanItem::Batch(batch) if batch.header.is_void => {
                let (from, to) = (batch.header.first, Some(batch.last));
                Lost { from, to }.join(&mut found.given_up);
            }
            ScanItem::Batch(batch) => {
                let count = batch.last.get() - batch.header.first.get() + 1;
                let body = scan.bytes().get(batch.body.clone()).unwrap_or_default();
                let frames = Frames::new(body, batch.header.first, batch.header.count);
                let counted = frames.take_while(|frame| frame.lsn <= batch.last);
                let bytes = counted.map(|frame| frame.payload.len()).sum();
                found.add((batch.header.first, batch.last), count, bytes);
                found.summary.add_time(batch.header.time_us);
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
    found.damage.extend(end.damage);
    found.verdict = found.judge();
    Ok(found)
}

impl Verification {
    /// The segments where something is damaged, or may be.
    pub(crate) fn doubtful(&self) -> Vec<Option<SegmentId>> {
        let tail = self.tail_at.filter(|_| self.tail != TailState::Clean);
        let tail = tail.map(|(segment, _)| Some(segment));
        self.damage.iter().map(|damage| damage.segment).chain(tail).collect()
    }

    /// Whether nobody knows how much is lost at the end.
    pub(crate) fn is_open(&self) -> bool {
        let mut lost = self.damage.iter().filter_map(|damage| damage.lost);
        lost.any(|lost| lost.to.is_none())
    }

    /// Notes what parity gave back.
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
    let manifest = catalog.manifest.as_ref();
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
        segment_size: manifest.map_or(0, |manifest| manifest.segment_max),
        checkpoint: manifest.and_then(Manifest::newest_checkpoint),
        closed: manifest.and_then(|manifest| manifest.closed).and_then(|closed| closed.last),
        written_us: None,
        in_use,
    }
}

impl Summary {
    fn add_time(&mut self, time_us: u64) {
        let (first, last) = self.written_us.unwrap_or((time_us, time_us));
        self.written_us = Some((first.min(time_us), last.max(time_us)));
    }
}
