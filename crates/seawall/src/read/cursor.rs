//! Cursor: yields a log's records in order, and restarts its scan when the writer changes the files
//! underneath.

mod partition;
mod restart;

use crate::base::error::log_path::NamesLog;
use crate::base::error::{Corruption, Damage, Error, Result, is_read_error};
use crate::files::consistent_read::{Doubt, Retries, is_moved};
use crate::files::directory::{is_not_found, list, segment_ids};
use crate::files::live::{LiveSource, Watermark};
use crate::files::local_writer::LocalWriter;
use crate::files::overlay::Patch;
use crate::files::unlock::LogFiles;
use crate::read::read_repair::ReadRepair;
use crate::read::snapshot::Snapshot;
use crate::scan::catalog::Catalog;
use crate::scan::durable_end;
use crate::scan::durable_end::{Refused, UnconfirmedEnd};
use crate::scan::intact::{AtomicSet, Salvaged};
use crate::scan::scanner::{LogScanner, ScanItem, ScannedBatch};
use seawall_format::scan::Limit;
use seawall_format::{Live, Lsn, Offset, SegmentId, frame, next_lsn};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// One record, borrowed from the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The record's LSN.
    pub lsn: Lsn,
    /// The record's bytes.
    pub payload: &'a [u8],
    /// Microseconds since 1970 when the record's batch was written; 0 if unknown.
    pub time_us: u64,
    /// Whether the atomic set continues with the next record.
    pub goes_on: bool,
    /// Whether the atomic set of this record is complete; after damage it may not be.
    pub set: AtomicSet,
    /// The schema number of the log when the record was appended.
    pub schema: u32,
}

impl<'a> Record<'a> {
    /// A record that is not part of an atomic set, written at an unknown time in schema 0.
    #[must_use]
    pub fn new(lsn: Lsn, payload: &'a [u8]) -> Self {
        Self { lsn, payload, time_us: 0, goes_on: false, set: AtomicSet::Whole, schema: 0 }
    }
}

/// Reads records in order without copying them.
#[derive(Debug)]
pub struct Cursor {
    /// The log when the scan began. The watermark moves on as the scan continues.
    snapshot: Snapshot,
    /// The writer, if it runs in this process; the watermark comes from it then.
    writer: Option<Arc<dyn LocalWriter>>,
    scan: LogScanner,
    bound: Bound,
    next: Lsn,
    /// The first record of the next cursor, if several share the log.
    until: Option<Lsn>,
    /// The segment that holds the record before `next`, once that was read, or the record at
    /// `next`, if the cursor stepped back.
    read_in: Option<SegmentId>,
    skip_damaged: bool,
    /// Whether a restart must check again that the next segment follows the record before `next`.
    rechecks_link: bool,
    /// Retries of the current scan.
    retries: Retries,
    /// Repairs from parity so far.
    read_repair: ReadRepair,
    batch: Option<BatchPosition>,
    queue: VecDeque<Queued>,
    finished: bool,
    /// The segment whose sync failed, if any.
    refused: Option<Refused>,
    /// The bytes after the end, when a follower last checked for new records.
    peek_after_end: Option<EndPeek>,
}

/// Where the scan ends in the newest segment.
#[derive(Debug)]
enum Bound {
    /// At the end that a running writer published, or where files are missing.
    Given,
    /// At this record, which is known to be durable; the bytes after it were not examined.
    Known(Option<Lsn>),
    /// At the end that this examination found.
    Seen(Box<UnconfirmedEnd>),
}

/// Starts a scan for the records from `from` on, at the batch of record `start`.
///
/// `read_in` is the segment in which the caller read the record before `from`. Refuses if `from`
/// was pruned, if the earlier records were truncated since and their LSNs reused, or if that is
/// unknown because every segment created since was pruned.
fn scan_from(
    found: &Catalog,
    (from, read_in): (Lsn, Option<SegmentId>),
    start: Lsn,
) -> Result<LogScanner> {
    let oldest = found.manifest().map(|manifest| manifest.oldest_base);
    let pred = found.chain.first().and_then(|link| link.segment.header.pred);
    let is_new = read_in.is_some_and(|read_in| pred.is_some_and(|pred| pred.id > read_in));
    let is_not_found = |oldest: &Lsn| from < *oldest || (from == *oldest && is_new);
    if let Some(oldest) = oldest.filter(is_not_found) {
        return Err(Error::pruned(oldest));
    }
    // A segment created since then starts before `from`. If it did not carry the record before
    // `from`, that record was truncated.
    let headers = found.chain.iter().map(|link| &link.segment.header);
    let mut cuts = headers.filter(|header| {
        let is_new = read_in.is_some_and(|read_in| header.id > read_in);
        is_new && header.base < from && header.carried < from.previous()
    });
    match cuts.next() {
        Some(cut) => Err(Error::rewound(next_lsn(cut.carried))),
        None => Ok(LogScanner::new(found, Some(start))),
    }
}

/// Starts a scan that ends at the last record known to be durable.
fn known_scan(
    snapshot: &Snapshot,
    place: (Lsn, Option<SegmentId>),
    start: Lsn,
) -> Result<(LogScanner, Bound)> {
    let found = &snapshot.catalog;
    let scan = scan_from(found, place, start)?;
    if durable_end::open_end(found).is_none() {
        return Ok((scan, Bound::Given));
    }
    let known = durable_end::known(found, snapshot.watermark.as_ref())?;
    Ok((scan.up_to(Limit::At(known)), Bound::Known(known)))
}

/// A position within a batch.
#[derive(Debug)]
struct BatchPosition {
    body: Range<usize>,
    at: usize,
    lsn: Lsn,
    last: Lsn,
    time_us: u64,
    set: AtomicSet,
}

impl BatchPosition {
    #[inline]
    fn is_at_record(&self) -> bool {
        self.lsn <= self.last
    }

    /// Returns the record at this position and moves to the next one.
    ///
    /// # Panics
    ///
    /// If there is no record here, or the batch was not verified.
    #[inline]
    fn lend<'a>(&mut self, bytes: &'a [u8], schema: u32) -> Record<'a> {
        let body = bytes.get(self.body.clone()).expect("the scan holds its batch");
        let frame = frame::read(body, self.at, self.lsn);
        let (frame, next) = frame.expect("frames fill a sound batch");
        (self.at, self.lsn) = (next, self.lsn.next());
        let frame::Frame { lsn, payload, goes_on } = frame;
        Record { lsn, payload, time_us: self.time_us, goes_on, set: self.set, schema }
    }
}

#[derive(Debug)]
enum Queued {
    Record(Salvaged),
    Damage(Damage),
    End,
}

/// Where the next record is.
enum NextRecord {
    /// In the current batch.
    InBatch,
    /// In a damaged place, intact.
    Salvaged(Salvaged),
}

impl Cursor {
    pub(crate) fn new(log: &LogFiles, from: Lsn, skip_damaged: bool) -> Result<Self> {
        let mut read_repair = ReadRepair::default();
        let snapshot = Snapshot::of_files(log, &mut read_repair)?;
        let mut found = Self::start(snapshot, read_repair, from)?;
        found.skip_damaged = skip_damaged;
        found.scan = found.scan.skip_io_errors(skip_damaged);
        Ok(found)
    }

    pub(crate) fn beside_writer(coordinator: &Arc<dyn LocalWriter>, from: Lsn) -> Result<Self> {
        coordinator.check_process()?;
        let (source, mut read_repair) = (LiveSource::InProcess(coordinator), ReadRepair::default());
        let snapshot = Snapshot::load(source, coordinator.files(), &mut read_repair)?;
        let started = Self::start(snapshot, read_repair, from)?;
        Ok(Self { writer: Some(coordinator.clone()), ..started })
    }

    fn start(snapshot: Snapshot, read_repair: ReadRepair, from: Lsn) -> Result<Self> {
        let (scan, bound) = known_scan(&snapshot, (from, None), from)?;
        Ok(Self {
            snapshot,
            writer: None,
            scan,
            bound,
            next: from,
            until: None,
            read_in: None,
            skip_damaged: false,
            rechecks_link: false,
            retries: Retries::default(),
            read_repair,
            batch: None,
            queue: VecDeque::new(),
            finished: false,
            refused: None,
            peek_after_end: None,
        })
    }

    /// Returns the next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] names records that are lost. The cursor ends there, unless it skips
    /// damage: then the next call continues after it. [`Error::Io`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        if !self.batch.as_ref().is_some_and(BatchPosition::is_at_record) {
            match self.find()? {
                Some(NextRecord::InBatch) => {}
                Some(NextRecord::Salvaged(found)) => return Ok(Some(self.lend(found))),
                None => return Ok(None),
            }
        }
        let place = self.batch.as_mut().expect("the cursor is in a batch");
        let record = place.lend(self.scan.bytes(), self.scan.schema());
        self.next = place.lsn;
        Ok(Some(record))
    }

    /// Returns an intact record of a damaged batch.
    fn lend(&mut self, found: Salvaged) -> Record<'_> {
        let Salvaged { lsn, payload, goes_on, set, time_us } = found;
        (self.next, self.read_in) = (lsn.next(), self.scan.segment());
        let payload = self.scan.bytes().get(payload).expect("the scan holds its batch");
        Record { lsn, payload, time_us, goes_on, set, schema: self.scan.schema() }
    }

    /// Finds the next batch; `None` at the end. Kept out of line, so that records within a batch
    /// are fast.
    #[cold]
    fn find(&mut self) -> Result<Option<NextRecord>> {
        let found = self.find_next();
        if found.is_err() && !self.skip_damaged {
            self.finished = true;
        }
        found.of_log(&**self.files())
    }

    fn find_next(&mut self) -> Result<Option<NextRecord>> {
        self.batch = None;
        while !self.finished {
            match self.queue.pop_front() {
                Some(Queued::Damage(damage)) => {
                    self.finished =
                        damage.lost.is_some_and(|lost| self.belongs_to_next_cursor(lost.from));
                    if self.finished {
                        break;
                    }
                    return Err(Error::damaged(damage));
                }
                Some(Queued::Record(found)) => {
                    self.finished = self.belongs_to_next_cursor(found.lsn);
                    if found.lsn >= self.next && !self.finished {
                        return Ok(Some(NextRecord::Salvaged(found)));
                    }
                    continue;
                }
                Some(Queued::End) => {
                    self.finished = true;
                    continue;
                }
                None => {}
            }
            match self.step() {
                Ok(ScanItem::Batch(found)) if self.enter(&found) => {
                    return Ok(Some(NextRecord::InBatch));
                }
                Ok(ScanItem::Batch(_)) => {}
                Ok(ScanItem::Damage(damages, salvaged)) => self.queue_damage(damages, salvaged)?,
                Ok(ScanItem::End(end)) => {
                    let again = !end.damage.is_empty() && self.restart_if_writer_moved()?;
                    if !again && !self.restart_if_repaired(end.doubtful())? {
                        self.queue.extend(end.damage.into_iter().map(Queued::Damage));
                        self.queue.push_back(Queued::End);
                    }
                }
                Err(error)
                    if is_read_error(&error)
                        && self.restart_if_repaired([self.scan.segment()])? => {}
                Err(error) => self.restart_after_missing_file(error)?,
            }
        }
        Ok(None)
    }

    /// The next item of the scan. At the last record known to be durable, examines the bytes after
    /// it and scans on.
    fn step(&mut self) -> Result<ScanItem> {
        loop {
            let event = self.scan.step()?;
            match (&event, &mut self.bound) {
                (ScanItem::Batch(_), _) | (_, Bound::Given) => return Ok(event),
                (ScanItem::Damage(..), _) if !self.scan.is_in_newest() => return Ok(event),
                (ScanItem::Damage(..), Bound::Seen(_)) => return Ok(event),
                (_, Bound::Known(known)) => {
                    let known = *known;
                    self.scan_beyond_known(matches!(event, ScanItem::End(_)), known)?;
                }
                (ScanItem::End(_), Bound::Seen(seen)) => {
                    return match seen.refusal() {
                        Some(refusal) => Err(refusal),
                        None => Ok(ScanItem::End(seen.end.clone())),
                    };
                }
            }
        }
    }

    /// Examines the bytes after the last record known to be durable, and lets the scan continue as
    /// far as allowed. `at_end` means that the scan reached this record without damage.
    fn scan_beyond_known(&mut self, at_end: bool, known: Option<Lsn>) -> Result<()> {
        let scan = self.scan.beyond_end().filter(|_| at_end);
        let scan = match (scan, durable_end::open_end(&self.snapshot.catalog)) {
            (Some(scan), _) => scan,
            (None, Some(newest)) => LogScanner::within(&self.snapshot.catalog, newest, None)
                .skip_io_errors(self.skip_damaged),
            (None, None) => LogScanner::new(&self.snapshot.catalog, None),
        };
        let mut seen = durable_end::scan_beyond_known(&self.snapshot.catalog, scan, known)?;
        seen.make_durable(&self.snapshot.catalog, &mut self.refused)?;
        let limit = seen.limit();
        if !at_end || limit == Limit::Open || !self.scan.raise(limit) {
            let scan = scan_from(&self.snapshot.catalog, (self.next, self.read_in), self.next)?;
            let scan = scan.following(&self.scan).skip_io_errors(self.skip_damaged);
            self.scan = scan.up_to(limit).with_min_end(known);
        }
        self.bound = Bound::Seen(Box::new(seen));
        Ok(())
    }

    /// Whether the record at `lsn` is read by the next cursor.
    fn belongs_to_next_cursor(&self, lsn: Lsn) -> bool {
        self.until.is_some_and(|until| lsn >= until)
    }

    /// Enters the batch, if it holds a record for this cursor.
    fn enter(&mut self, found: &ScannedBatch) -> bool {
        let (lsn, last) = (found.header.first, found.last);
        // The next cursor starts at a segment, and so at a batch.
        self.finished = self.belongs_to_next_cursor(lsn);
        if last < self.next || self.finished {
            return false;
        }
        self.read_in = self.scan.segment();
        self.rechecks_link = false;
        if found.header.is_void() {
            // These records are lost for good, so a follower continues with the next ones.
            self.next = last.next();
            return false;
        }
        let (body, position) = (found.body.clone(), 0);
        let (time_us, set) = (found.header.time_us, found.set);
        let mut place = BatchPosition { body, at: position, lsn, last, time_us, set };
        while place.lsn < self.next {
            place.lend(self.scan.bytes(), self.scan.schema());
        }
        self.batch = Some(place);
        true
    }

    fn queue_damage(&mut self, damages: Vec<Damage>, salvaged: Vec<Salvaged>) -> Result<()> {
        let has_rechecked = self.rechecks_link;
        self.rechecks_link = damages.iter().any(|damage| self.follows_broken_link(damage));
        // Other damage before the link may forget that it was checked.
        if self.rechecks_link && !has_rechecked && self.retries.again(Doubt::Moved) {
            // After a failed write the writer may have divided the records into other batches.
            return self.start_over(self.snapshot.watermark);
        }
        if self.restart_if_writer_moved()?
            || self.restart_if_repaired(damages.iter().map(|damage| damage.segment))?
            || self.restart_if_view_is_stale(&damages)?
        {
            return Ok(());
        }
        let mut salvaged: VecDeque<_> = salvaged.into();
        for damage in damages {
            if let Some(lost) = damage.lost {
                if lost.to.is_some_and(|to| to < self.next) && !self.follows_broken_link(&damage) {
                    continue;
                }
                let before = salvaged.partition_point(|found| found.lsn < lost.from);
                self.queue.extend(salvaged.drain(..before).map(Queued::Record));
            }
            self.queue.push_back(Queued::Damage(damage));
        }
        self.queue.extend(salvaged.into_iter().map(Queued::Record));
        self.rechecks_link = false;
        Ok(())
    }
}

impl Cursor {
    /// Whether a segment follows another record than the one that this cursor returned last.
    fn follows_broken_link(&self, damage: &Damage) -> bool {
        let at_end = damage.lost.and_then(|lost| lost.to).map(Lsn::next) == Some(self.next);
        let is_other = self.read_in.is_some_and(|read_in| Some(read_in) < damage.segment);
        damage.cause == Corruption::Order && at_end && is_other
    }

    /// Returns the damage that this cursor repaired from parity. The files are unchanged until
    /// [`repair`](crate::Maintenance::repair).
    ///
    /// After a torn end, the list may include places that hold no records any more;
    /// [`verify`](crate::verify) leaves those out.
    #[must_use]
    pub fn mended(&self) -> &[Patch] {
        &self.read_repair.patches
    }

    /// The last watermark of the writer in this process.
    pub(crate) fn live(&self) -> Option<Live> {
        self.snapshot.watermark.map(|watermark| watermark.live)
    }

    /// The log's storage, or a view of it.
    pub(crate) fn files(&self) -> &LogFiles {
        &self.snapshot.files
    }

    /// The LSN of the next record.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// Whether reading continues after errors about damage.
    pub(crate) fn skips_damage(&self) -> bool {
        self.skip_damaged
    }

    /// Sets the position back to `lsn`, the last record returned. A restart follows.
    pub(crate) fn step_back(&mut self, lsn: Lsn) {
        self.next = lsn;
    }

    /// Restarts at the same position after an error: the log may have changed since.
    ///
    /// # Errors
    ///
    /// As [`Log::read_from`](crate::Log::read_from).
    pub(crate) fn restart_after_error(&mut self) -> Result<()> {
        (self.retries, self.batch) = (Retries::default(), None);
        self.queue.clear();
        let watermark = self.watermark_now()?;
        self.check_rewound(watermark.as_ref())?;
        self.start_over(watermark)?;
        self.finished = false;
        Ok(())
    }

    /// Refuses to continue if the log now ends before this cursor's position.
    ///
    /// A writer in this process may have assigned that LSN to a record that is not durable yet,
    /// which is not an error. A truncation always starts a new segment; within the same segment, a
    /// lower watermark of another process only means that it knows of fewer records than were read.
    fn check_rewound(&self, watermark: Option<&Watermark>) -> Result<()> {
        let Some(Watermark { live, .. }) = watermark.filter(|watermark| watermark.is_running())
        else {
            return Ok(());
        };
        let next = next_lsn(live.durable);
        let newest = self.snapshot.catalog.chain.last().map(|link| link.segment.header.id);
        let was_truncated = match self.writer() {
            Some(coordinator) => coordinator.check_position(self.next).is_err(),
            None => newest.is_none_or(|newest| newest < live.segment.id),
        };
        if next < self.next && was_truncated { Err(Error::rewound(next)) } else { Ok(()) }
    }

    /// Refuses the position `from` if the log ends before it. This cursor starts at the record
    /// before `from` and has read nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondEnd`], [`Error::Io`].
    pub(crate) fn check_reaches(&mut self, from: Lsn) -> Result<()> {
        match self.next_record() {
            Ok(Some(_)) | Err(Error::Damaged { .. } | Error::Pruned { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(None) => {
                let next = next_lsn(self.scan.last());
                if next < from { Err(Error::BeyondEnd { log: None, from, next }) } else { Ok(()) }
            }
        }
    }

    /// Continues after the previous end, as far as `live` of the writer in this process allows.
    ///
    /// # Errors
    ///
    /// [`Error::Rewound`] if records that were read have been truncated.
    pub(crate) fn continue_to(&mut self, live: Live) -> Result<()> {
        let watermark = Some(Watermark::own(live));
        if watermark == self.snapshot.watermark {
            return Ok(());
        }
        self.check_rewound(watermark.as_ref())?;
        (self.finished, self.retries) = (false, Retries::default());
        self.queue.clear();
        if self.scan.extend(&live) {
            self.snapshot.watermark = watermark;
            return Ok(());
        }
        let started = self.start_over(watermark);
        self.finished |= started.is_err();
        started
    }

    /// Checks for new records after the previous end: by the watermark of a writer in another
    /// process, or by the log's files. Returns whether there are any.
    ///
    /// # Errors
    ///
    /// As [`continue_to`](Self::continue_to).
    pub(crate) fn poll_end(&mut self, watermark: Option<Watermark>) -> Result<bool> {
        let is_same = watermark == self.snapshot.watermark;
        let running = watermark.filter(Watermark::is_running);
        if is_same && running.is_some() {
            return Ok(false);
        }
        self.check_rewound(watermark.as_ref())?;
        let mut is_in_place = false;
        if running.is_none() {
            let peek_after_end = self.peek_after_end()?;
            if is_same && self.peek_after_end.as_ref() == Some(&peek_after_end) {
                return Ok(false);
            }
            let newest = self.snapshot.catalog.chain.last().map(|link| link.segment.header.id);
            is_in_place = peek_after_end.newest == newest && peek_after_end.bytes_after.is_some();
            self.peek_after_end = Some(peek_after_end);
        }
        (self.finished, self.retries) = (false, Retries::default());
        self.queue.clear();
        if running.is_some_and(|watermark| self.scan.extend(&watermark.live)) {
            (self.snapshot.watermark, self.bound) = (watermark, Bound::Given);
        } else if is_in_place && matches!(self.bound, Bound::Seen(_)) {
            (self.snapshot.watermark, self.bound) = (watermark, Bound::Known(self.scan.last()));
        } else {
            match self.start_over(watermark) {
                // The segment that the writer named was pruned since.
                Err(error) if is_moved(&error) && running.is_some() => return Ok(false),
                started => started?,
            }
        }
        Ok(true)
    }

    /// Reads what changes when a log grows: the newest segment id and a few bytes after the end.
    fn peek_after_end(&self) -> Result<EndPeek> {
        let newest = segment_ids(&list(&*self.snapshot.files)?).max();
        match self.scan.peek_after_end() {
            Ok(bytes_after) => Ok(EndPeek { newest, bytes_after }),
            Err(error) if is_not_found(&error) => Ok(EndPeek { newest, bytes_after: None }),
            Err(error) => Err(error),
        }
    }
}

/// The highest segment id, and the first bytes after the last record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EndPeek {
    newest: Option<SegmentId>,
    bytes_after: Option<(Offset, Vec<u8>)>,
}
