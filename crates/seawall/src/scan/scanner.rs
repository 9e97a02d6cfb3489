//! The walk over the live chain: reads segments in order, shows them to the scanner, and finds its
//! feet behind damage. Recovery, readers and `verify` all walk this way.

mod resync;

use crate::base::error::{Corruption, Damage, Error, Lost, Result, missing_segment};
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::directory::file_place;
use crate::files::read_buffer::Buffer;
use crate::files::segment::Segment;
use crate::files::segment_reader::SegmentReader;
use crate::scan::catalog::{Catalog, ChainedSegment, MissingTail};
use crate::scan::intact::{AtomicSet, Salvaged};
use seawall_format::batch::{BatchHeader, HEADER_SIZE};
use seawall_format::scan::{Body, Cause, Limit, Scanner, Start, Step, Window};
use seawall_format::{Layout, Live, Lsn, Offset, SegmentId, next_lsn, tail};
use std::collections::VecDeque;
use std::ops::Range;

/// What one read takes on the way to one record: as far as it mostly is.
const READ_NEAR: u64 = 64 << 10;

/// One thing found on the walk.
#[derive(Debug)]
pub(crate) enum ScanItem {
    /// A valid batch, or a valid set of lines as one; its frames are a range of
    /// [`LogScanner::bytes`].
    Batch(ScannedBatch),
    /// Damage; the intact frames of the place are ranges of [`LogScanner::bytes`].
    Damage(Vec<Damage>, Vec<Salvaged>),
    /// The end of the chain.
    ScanEnd(ScanEnd),
}

/// A valid batch.
#[derive(Debug)]
pub(crate) struct ScannedBatch {
    pub(crate) header: BatchHeader,
    pub(crate) body: Range<usize>,
    /// The last of its records that counts.
    pub(crate) last: Lsn,
    /// Where it begins in its segment.
    pub(crate) start: Offset,
    /// Where it ends there.
    pub(crate) end: Offset,
    /// Whether it may have begun earlier, in lines that are lost.
    pub(crate) set: AtomicSet,
}

/// How the walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// V, the last record found.
    pub(crate) last: Option<Lsn>,
    /// W, the highest record confirmed anywhere; `None` also where the chain has no open end.
    pub(crate) confirmed: Option<Lsn>,
    /// Behind the last batch of the newest segment: where, and what lies there.
    pub(crate) tail: Option<TailFound>,
    /// What is missing though no record shows it: the end of the newest file, the manifest.
    pub(crate) damage: Vec<Damage>,
}

impl ScanEnd {
    /// The segments where something may be damaged that a look ends with.
    pub(crate) fn doubtful(&self) -> Vec<Option<SegmentId>> {
        let tail = self.tail.iter().filter(|tail| tail.row != tail::Row::Clean);
        let tail = tail.map(|tail| Some(tail.segment));
        self.damage.iter().map(|damage| damage.segment).chain(tail).collect()
    }

    /// Up to where nothing needs to be written anew. Where the chain has no open end, nothing was
    /// found that could be.
    pub(crate) fn sure(&self) -> Option<Lsn> {
        if self.tail.is_some() { self.confirmed } else { self.last }
    }
}

/// What lies behind the last batch of the newest segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TailFound {
    pub(crate) segment: SegmentId,
    pub(crate) offset: Offset,
    pub(crate) chain: u64,
    pub(crate) row: tail::Row,
    /// How many bytes there are up to the last that is not zero.
    pub(crate) length: u64,
    /// Whether the file is what the writer wrote, and nothing else: a text may have been edited.
    pub(crate) is_exact: bool,
    /// The name of the file.
    pub(crate) file: String,
}

/// The walk over a chain.
#[derive(Debug)]
pub(crate) struct LogScanner {
    links: VecDeque<ChainedSegment>,
    missing_tail: Option<MissingTail>,
    closed: Option<seawall_format::Closed>,
    manifest_lost: bool,
    current: Option<(ChainedSegment, Scanner)>,
    /// The schema number of the segment where it is or was last.
    schema: u32,
    /// The bytes of the current segment.
    source: Option<SegmentReader>,
    /// Whether to go on where the device cannot read.
    skip_io_errors: bool,
    /// All segments that bytes in the wrong place may have come from.
    segments: Vec<Segment>,
    window: Offset,
    buffer: Buffer,
    /// What the last event means, if that is lines: a batch that says the same.
    synthesized_batch: Option<Vec<u8>>,
    /// The place that looked like damage and is read a second time, or was.
    read_again: Option<(SegmentId, Offset)>,
    /// The set that comes next may have begun in what is lost.
    set_start_lost: bool,
    /// What one read takes.
    read_size: u64,
    /// The last record found.
    last: Option<Lsn>,
    /// The chain value of its batch, where it was seen.
    chain: Option<u64>,
    /// The highest record that a batch on the way confirmed.
    confirmed: Option<Lsn>,
}

impl LogScanner {
    /// A walk from the first record of the chain that a survey found; from the segment that holds
    /// `from`, if that is given.
    pub(crate) fn new(catalog: &Catalog, from: Option<Lsn>) -> Self {
        let mut links: VecDeque<_> = catalog.chain.iter().cloned().collect();
        while links.get(1).is_some_and(|next| Some(next.segment.header.base) <= from) {
            links.pop_front();
        }
        let segments = catalog.chain.iter().map(|link| link.segment.clone()).collect();
        let base = links.front().map(|link| link.segment.header.base);
        let oldest = catalog.manifest.as_ref().map(|manifest| manifest.oldest_base);
        let first = base.or(oldest);
        Self {
            missing_tail: catalog.missing_tail,
            closed: catalog.manifest.as_ref().and_then(|manifest| manifest.closed),
            manifest_lost: catalog.manifest_lost,
            segments,
            ..Self::over(links, first.and_then(Lsn::previous))
        }
    }

    /// A walk over one segment alone.
    pub(crate) fn of_segment(link: &ChainedSegment) -> Self {
        let link = ChainedSegment { gap: None, ..link.clone() };
        let last = link.segment.header.base.previous();
        Self::over(VecDeque::from([link]), last)
    }

    /// Goes on where the device cannot read, with what can be told of such a place.
    pub(crate) fn skip_io_errors(mut self, skip_io_errors: bool) -> Self {
        self.skip_io_errors = skip_io_errors;
        self
    }

    /// Takes this record for one that the log acknowledged: a log that ends before it is damaged.
    pub(crate) fn with_min_end(mut self, last: Option<Lsn>) -> Self {
        self.confirmed = self.confirmed.max(last);
        self
    }

    /// A walk over one segment of a survey's chain, from `start` on if that is known; if it is the
    /// last one, with what the survey knows of the end.
    pub(crate) fn within(catalog: &Catalog, link: &ChainedSegment, start: Option<Start>) -> Self {
        let id = link.segment.header.id;
        let is_last = catalog.chain.last().is_some_and(|last| last.segment.header.id == id);
        let link = ChainedSegment { gap: None, ..link.clone() };
        let mut scanner = Scanner::new(&link.segment.header, link.segment.length, link.limit);
        if let Some(start) = start {
            scanner.begin_at(start);
        }
        let mut scan = Self::over(VecDeque::new(), scanner.next_lsn().previous());
        scan.segments = vec![link.segment.clone()];
        scan.schema = link.segment.header.record_type.schema;
        (scan.current, scan.read_size) = (Some((link, scanner)), READ_NEAR);
        if is_last {
            scan.missing_tail = catalog.missing_tail;
            scan.closed = catalog.manifest.as_ref().and_then(|manifest| manifest.closed);
            scan.manifest_lost = catalog.manifest_lost;
        }
        scan
    }

    fn over(links: VecDeque<ChainedSegment>, last: Option<Lsn>) -> Self {
        let segments = links.iter().map(|link| link.segment.clone()).collect();
        Self {
            links,
            segments,
            skip_io_errors: false,
            last,
            missing_tail: None,
            closed: None,
            manifest_lost: false,
            current: None,
            schema: 0,
            source: None,
            window: Offset(0),
            buffer: Buffer::default(),
            synthesized_batch: None,
            read_again: None,
            set_start_lost: false,
            read_size: READ_SIZE,
            chain: None,
            confirmed: None,
        }
    }

    /// The bytes that the ranges of the last event mean.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.synthesized_batch.as_deref().unwrap_or_else(|| self.buffer.bytes())
    }

    /// A batch as it stands in its file.
    pub(crate) fn raw(&self, found: &ScannedBatch) -> &[u8] {
        let window = Window { start: self.window, bytes: self.buffer.bytes() };
        let bytes = window.range(found.start, found.end.0 - found.start.0);
        bytes.expect("the scan has just read it")
    }

    /// The segment where the walk is.
    #[inline]
    pub(crate) fn segment(&self) -> Option<SegmentId> {
        self.current.as_ref().map(|(link, _)| link.segment.header.id)
    }

    /// The schema number of the records of the last event.
    #[inline]
    pub(crate) fn schema(&self) -> u32 {
        self.schema
    }

    /// How far the walk has come.
    pub(crate) fn place(&self) -> Option<(SegmentId, Offset)> {
        self.current.as_ref().map(|(link, scanner)| (link.segment.header.id, scanner.offset()))
    }

    /// The last record found so far, or the one before the first.
    pub(crate) fn last(&self) -> Option<Lsn> {
        self.last
    }

    /// The next thing on the way.
    pub(crate) fn step(&mut self) -> Result<ScanItem> {
        loop {
            let Some((link, scanner)) = &mut self.current else {
                match self.enter_next() {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            };
            if let Some(synthesized_batch) = self.synthesized_batch.take() {
                scanner.reuse(synthesized_batch);
            }
            match scanner.step(Window { start: self.window, bytes: self.buffer.bytes() }) {
                Step::Need { offset, length: least } => {
                    let source = opened(&mut self.source, &link.segment, self.skip_io_errors)?;
                    let length = least.max(self.read_size);
                    // What was read of it stays: of a long batch that is all but its end.
                    match offset.0.checked_sub(self.window.0).map(usize::try_from) {
                        Some(Ok(before)) => self.buffer.drop_first(before),
                        _ => self.buffer.clear(),
                    }
                    self.window = offset;
                    let held = read_ahead(source, scanner, &mut self.buffer, (offset, length))?;
                    let is_short = held < length;
                    if is_short && scanner.layout() == Layout::Text {
                        scanner.ends_at(offset.plus(held));
                    } else if held < least {
                        let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                        return Err(Error::io(format!("read {}", link.segment.name()))(cut));
                    }
                }
                Step::Batch(batch) => {
                    let header = batch.header;
                    let (start, end) = (batch.offset, batch.end);
                    let (body, synthesized_batch) = match batch.body {
                        Body::InPlace(body) => {
                            let at = start.0 - self.window.0 + to_u64(HEADER_SIZE);
                            let at = usize::try_from(at).expect("a place in the window");
                            (at..at + body.len(), None)
                        }
                        Body::Made(bytes) => (HEADER_SIZE..bytes.len(), Some(bytes)),
                    };
                    self.synthesized_batch = synthesized_batch;
                    let set_start_lost = std::mem::take(&mut self.set_start_lost);
                    let set = if set_start_lost { AtomicSet::Unknown } else { AtomicSet::Whole };
                    let last = match link.limit {
                        Limit::At(Some(limit)) => header.last().min(limit),
                        _ => header.last(),
                    };
                    (self.last, self.chain) = (Some(last), Some(header.chain_value()));
                    self.confirmed = self.confirmed.max(header.confirmed());
                    let found = ScannedBatch { header, body, last, start, end, set };
                    return Ok(ScanItem::Batch(found));
                }
                Step::Finished if self.links.is_empty() && self.missing_tail.is_none() => {
                    return Ok(self.end_of_chain());
                }
                Step::Finished => self.current = None,
                Step::Refused(refused) => {
                    let place = file_place(&**link.segment.storage(), &link.segment.name());
                    return Err(Error::Unsupported { place, refused });
                }
                Step::Stopped(cause, header) => {
                    if let Some(event) = self.stopped(Stop { cause, header })? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// More became durable in the newest segment, where this walk has come to its end: it can go
    /// on. Not so if there is a newer segment, or the walk is elsewhere.
    pub(crate) fn extend(&mut self, live: &Live) -> bool {
        let Some((link, scanner)) = &mut self.current else { return false };
        if link.segment.header.reference() != live.segment || !self.links.is_empty() {
            return false;
        }
        link.limit = Limit::At(live.durable);
        scanner.set_limit(link.limit);
        // What was read ahead was read before it was durable.
        self.invalidate_buffer();
        true
    }

    /// From now on the records of the newest segment up to `limit` count, where this walk is at
    /// its end. `false` if it is elsewhere, or left a part of a batch out.
    pub(crate) fn raise(&mut self, limit: Limit) -> bool {
        let is_here = self.is_in_newest();
        let Some((link, scanner)) = self.current.as_mut().filter(|_| is_here) else {
            return false;
        };
        if scanner.next_lsn().previous() != self.last {
            return false;
        }
        link.limit = limit;
        scanner.set_limit(limit);
        self.invalidate_buffer();
        true
    }

    /// Whether no segment follows on the one where this walk is, or was.
    pub(crate) fn is_in_newest(&self) -> bool {
        self.links.is_empty()
    }

    /// A walk from the place where this one came to its end in the newest segment, to the end of
    /// what is valid there.
    pub(crate) fn behind(&self) -> Option<Self> {
        let (link, scanner) = self.current.as_ref().filter(|_| self.is_in_newest())?;
        let (mut link, mut scanner) = (link.clone(), scanner.clone());
        link.limit = Limit::Open;
        scanner.set_limit(Limit::Open);
        let mut scan = Self::over(VecDeque::new(), scanner.next_lsn().previous());
        scan.segments.clone_from(&self.segments);
        (scan.skip_io_errors, scan.read_size) = (self.skip_io_errors, READ_NEAR);
        (scan.closed, scan.manifest_lost) = (self.closed, self.manifest_lost);
        (scan.chain, scan.confirmed) = (self.chain, self.confirmed);
        scan.current = Some((link, scanner));
        scan.invalidate_buffer();
        Some(scan)
    }

    /// A few bytes from the place where this walk is at its end, and which place that is.
    pub(crate) fn peek_after_end(&self) -> Result<Option<(Offset, Vec<u8>)>> {
        let Some((link, scanner)) = &self.current else { return Ok(None) };
        let at = scanner.part().map_or(scanner.offset(), |part| part.end);
        Ok(Some((at, link.segment.read(at, to_u64(HEADER_SIZE))?)))
    }

    /// The same walk, which goes up to `limit` in the newest segment.
    pub(crate) fn up_to(mut self, limit: Limit) -> Self {
        if let Some(newest) = self.links.back_mut() {
            newest.limit = limit;
        }
        self
    }

    /// Forgets what was read of the segment where the walk is.
    fn invalidate_buffer(&mut self) {
        self.buffer.clear();
        if let Some((_, scanner)) = &mut self.current {
            scanner.forget_end();
        }
    }

    /// Goes to the next segment, or to the end.
    fn enter_next(&mut self) -> Option<ScanItem> {
        let Some(mut link) = self.links.pop_front() else {
            return Some(self.end_of_chain());
        };
        if let Some((_, damage)) = link.gap.take() {
            let base = link.segment.header.base;
            // Below a hole nothing is known of the chain.
            (self.last, self.chain) = (base.previous(), None);
            self.links.push_front(link);
            return Some(ScanItem::Damage(vec![damage], vec![]));
        }
        let header = &link.segment.header;
        self.schema = header.record_type.schema;
        let known = self.chain.filter(|_| header.pred_chain != 0 && header.base > Lsn::FIRST);
        let broken = known.is_some_and(|chain| chain != header.pred_chain);
        let scanner = Scanner::new(header, link.segment.length, link.limit);
        let at = header.base.previous();
        let damage = at.filter(|_| broken).map(|at| {
            let lost = Some(Lost { from: at, to: Some(at) });
            missing_segment(header.id, Corruption::Order, lost)
        });
        (self.window, self.current, self.source) = (Offset(0), Some((link, scanner)), None);
        (self.set_start_lost, self.synthesized_batch) = (false, None);
        self.buffer.clear();
        damage.map(|damage| ScanItem::Damage(vec![damage], vec![]))
    }

    fn end_of_chain(&mut self) -> ScanItem {
        if let Some(missing_tail) = self.missing_tail.take() {
            let lost = Some(Lost { from: next_lsn(self.last), to: None });
            let missing_segment = missing_segment(missing_tail.segment, missing_tail.cause, lost);
            return ScanItem::Damage(
                vec![Damage { origin: missing_tail.origin, ..missing_segment }],
                vec![],
            );
        }
        let damage = self.lost_manifest(None).into_iter().collect();
        ScanItem::ScanEnd(ScanEnd { last: self.last, confirmed: None, tail: None, damage })
    }
}

/// Where a scanner stopped, and what it saw there.
#[derive(Clone, Copy)]
struct Stop {
    cause: Cause,
    header: Option<BatchHeader>,
}

impl Stop {
    fn corruption(&self, is_text: bool) -> Corruption {
        match self.cause {
            Cause::Header if is_text => Corruption::Line,
            Cause::Body => Corruption::Body,
            Cause::Order => Corruption::Order,
            Cause::Extent => Corruption::CutShort,
            _ => Corruption::Header,
        }
    }
}

/// Reads on behind what `buffer` has from `offset` on, until that is `length` bytes or the file
/// ends, in pieces that the scanner looks at while they are at hand. How many it has then.
fn read_ahead(
    source: &mut SegmentReader,
    scanner: &mut Scanner,
    buffer: &mut Buffer,
    (offset, length): (Offset, u64),
) -> Result<u64> {
    let mut held = to_u64(buffer.bytes().len());
    while held < length {
        let piece = READ_SIZE.min(length - held);
        source.read_append((offset.plus(held), piece), buffer)?;
        let window = Window { start: offset, bytes: buffer.bytes() };
        scanner.look_ahead(window);
        let now = to_u64(window.bytes.len());
        if now < held + piece {
            return Ok(now);
        }
        held = now;
    }
    Ok(held)
}

/// The open segment, opened once.
fn opened<'a>(
    source: &'a mut Option<SegmentReader>,
    segment: &Segment,
    skip_io_errors: bool,
) -> Result<&'a mut SegmentReader> {
    match source {
        Some(source) => Ok(source),
        None => Ok(source.insert(SegmentReader::open(segment, skip_io_errors)?)),
    }
}
