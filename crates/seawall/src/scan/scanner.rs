//! Scans the live segments in order. After damage the scanner resynchronizes at the next valid
//! batch. Recovery, readers and `verify` share this scanner.

mod decode;
mod resync;

use crate::base::error::{Corruption, Damage, Error, Lost, Result, missing_segment};
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::directory::file_place;
use crate::files::read_buffer::Buffer;
use crate::files::segment::Segment;
use crate::files::segment_reader::SegmentReader;
use crate::scan::catalog::{Catalog, ChainedSegment, KeysLost, MissingTail};
use crate::scan::intact::{AtomicSet, Salvaged};
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE};
use seawall_format::scan::{Body, Cause, Limit, Scanner, Start, Step, Window};
use seawall_format::{Closed, Layout, Live, Lsn, Manifest, Offset, SegmentId, next_lsn, tail};
use std::collections::VecDeque;
use std::ops::Range;

/// Read size when the scan looks for a single record, which is usually this close.
const READ_NEAR: u64 = 64 << 10;

/// One result of the scan.
#[derive(Debug)]
pub(crate) enum ScanItem {
    /// A valid batch, or a complete atomic set of lines presented as a batch. Its frames are a
    /// range of [`LogScanner::bytes`].
    Batch(ScannedBatch),
    /// Damage, and the intact frames inside it, as ranges of [`LogScanner::bytes`].
    Damage(Vec<Damage>, Vec<Salvaged>),
    /// The end of the chain.
    End(ScanEnd),
}

/// A valid batch.
#[derive(Debug)]
pub(crate) struct ScannedBatch {
    pub(crate) header: BatchHeader,
    pub(crate) body: Range<usize>,
    /// The last of its records within the scan limit.
    pub(crate) last: Lsn,
    /// Offset of its first byte in the segment.
    pub(crate) start: Offset,
    /// Offset after its last byte.
    pub(crate) end: Offset,
    /// `Unknown` if the set may have begun in lines that are lost.
    pub(crate) set: AtomicSet,
    /// Whether it is encrypted and its keys are not known: it holds records, and `body` none.
    pub(crate) is_locked: bool,
}

impl ScannedBatch {
    /// The number of its records after `known` that a repair gave up.
    pub(crate) fn given_up_after(&self, known: Option<Lsn>) -> u64 {
        let before = self.header.first.previous().max(known).map_or(0, Lsn::get);
        if self.header.is_void() { self.last.get().saturating_sub(before) } else { 0 }
    }
}

/// How the scan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// V: the last record found.
    pub(crate) last: Option<Lsn>,
    /// W: the highest record confirmed anywhere; `None` also if the newest segment is missing.
    pub(crate) confirmed: Option<Lsn>,
    /// The bytes after the last batch of the newest segment.
    pub(crate) tail: Option<TailFound>,
    /// Damage that no record reveals: a shortened newest file, a lost manifest, lost keys that no
    /// record needs yet.
    pub(crate) damage: Vec<Damage>,
}

impl ScanEnd {
    /// The segments in which the end of the scan may be damage.
    pub(crate) fn doubtful(&self) -> Vec<Option<SegmentId>> {
        let tail = self.tail.iter().filter(|tail| tail.row != tail::Row::Clean);
        let tail = tail.map(|tail| Some(tail.segment));
        self.damage.iter().map(|damage| damage.segment).chain(tail).collect()
    }

    /// The last record that recovery never has to rewrite. If the newest segment is missing,
    /// recovery has nothing to rewrite.
    pub(crate) fn sure(&self) -> Option<Lsn> {
        if self.tail.is_some() { self.confirmed } else { self.last }
    }
}

/// The bytes after the last batch of the newest segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TailFound {
    pub(crate) segment: SegmentId,
    pub(crate) offset: Offset,
    pub(crate) chain: u64,
    pub(crate) row: tail::Row,
    /// Number of bytes up to the last one that is not zero.
    pub(crate) length: u64,
    /// Whether the file contains exactly what the writer wrote; a text file may have been edited.
    pub(crate) is_exact: bool,
    /// Name of the file.
    pub(crate) file: String,
}

/// How a scan treats compressed and encrypted batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoding {
    /// They stay as they are stored.
    AsStored,
    /// They are decoded. Without the keys, an encrypted one is an error.
    Always,
    /// They are decoded, except for encrypted ones without the keys.
    IfUnlocked,
}

/// A scan over a chain of segments.
#[derive(Debug)]
pub(crate) struct LogScanner {
    links: VecDeque<ChainedSegment>,
    missing_tail: Option<MissingTail>,
    closed: Option<Closed>,
    /// The clean close, if nothing was appended since.
    end: Option<Closed>,
    manifest_lost: bool,
    /// The records whose keys are lost.
    keys_lost: Option<KeysLost>,
    /// The row for the end of the log, if the catalog says that the end is ambiguous.
    end_row: Option<tail::Row>,
    current: Option<(ChainedSegment, Scanner)>,
    /// Schema number of the current segment, or of the last one.
    schema: u32,
    /// The open file of the current segment.
    source: Option<SegmentReader>,
    /// Whether to continue after blocks that the device cannot read.
    skip_io_errors: bool,
    /// All segments of the chain, to find where misplaced bytes come from.
    segments: Vec<Segment>,
    window: Offset,
    buffer: Buffer,
    /// The current item as a batch, if the file stores it as lines or compressed. For damage, the
    /// damaged bytes and the frames of the chunks in them.
    synthesized_batch: Option<Vec<u8>>,
    decoding: Decoding,
    /// Memory for the next batch to decode.
    decoding_memory: Vec<u8>,
    /// The last place that was read again because it looked like damage.
    read_again: Option<(SegmentId, Offset)>,
    /// Whether the next atomic set may have begun in the damage before it.
    set_start_lost: bool,
    /// Bytes per read.
    read_size: u64,
    /// The last record found.
    last: Option<Lsn>,
    /// Chain value of the batch that holds `last`; `None` after a gap.
    chain: Option<u64>,
    /// The highest record that a scanned batch confirms.
    confirmed: Option<Lsn>,
    /// The last record known to be acknowledged, from `live` or the caller.
    min_end: Option<Lsn>,
}

impl LogScanner {
    /// Scans the chain of `catalog` from its first record, or from the segment that holds `from`.
    pub(crate) fn new(catalog: &Catalog, from: Option<Lsn>) -> Self {
        let mut links: VecDeque<_> = catalog.chain.iter().cloned().collect();
        while links.get(1).is_some_and(|next| Some(next.segment.header.base) <= from) {
            links.pop_front();
        }
        let segments = catalog.chain.iter().map(|link| link.segment.clone()).collect();
        let base = links.front().map(|link| link.segment.header.base);
        let oldest = catalog.manifest().map(|manifest| manifest.oldest_base);
        let first = base.or(oldest);
        Self {
            missing_tail: catalog.missing_tail(),
            closed: catalog.manifest().and_then(|manifest| manifest.closed),
            end: catalog.manifest().and_then(Manifest::end),
            manifest_lost: catalog.manifest_is_lost(),
            keys_lost: catalog.keys_lost,
            end_row: catalog.end_row(),
            min_end: catalog.published,
            segments,
            ..Self::over(links, first.and_then(Lsn::previous))
        }
    }

    /// Scans one segment only.
    pub(crate) fn of_segment(link: &ChainedSegment) -> Self {
        let link = ChainedSegment { gap: None, ..link.clone() };
        let last = link.segment.header.base.previous();
        Self::over(VecDeque::from([link]), last)
    }

    /// Sets whether to continue after blocks that the device cannot read.
    pub(crate) fn skip_io_errors(mut self, skip_io_errors: bool) -> Self {
        self.skip_io_errors = skip_io_errors;
        self
    }

    /// Skips the records of encrypted batches if the keys of their segment are not known.
    pub(crate) fn allow_locked(mut self) -> Self {
        self.decoding = Decoding::IfUnlocked;
        self
    }

    /// Leaves batches as they are stored, for a caller that needs no records: the range of a
    /// compressed or encrypted batch holds no frames.
    pub(crate) fn without_decoding(mut self) -> Self {
        self.decoding = Decoding::AsStored;
        self
    }

    /// Sets a record that the log acknowledged: a log that ends before it is damaged.
    pub(crate) fn with_min_end(mut self, last: Option<Lsn>) -> Self {
        self.min_end = self.min_end.max(last);
        self
    }

    /// Checks that the first segment follows the last batch of `before`, as if this scan had read
    /// that batch, if the segment begins after it.
    pub(crate) fn following(mut self, before: &Self) -> Self {
        let scanner = before.current.as_ref().map(|(_, scanner)| scanner);
        // A limit may have split the batch.
        let is_whole = scanner.is_none_or(|scanner| scanner.next_lsn().previous() == before.last);
        if is_whole && before.last.is_some() && self.last == before.last {
            self.chain = before.chain;
        }
        self
    }

    /// Scans one segment of the chain, from `start` if given. In the last segment the scan judges
    /// the end as a scan of the whole chain does.
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
        scan.keys_lost = catalog.keys_lost.filter(|lost| is_last || *lost != KeysLost::ToCome);
        if is_last {
            scan.missing_tail = catalog.missing_tail();
            scan.closed = catalog.manifest().and_then(|manifest| manifest.closed);
            scan.end = catalog.manifest().and_then(Manifest::end);
            scan.manifest_lost = catalog.manifest_is_lost();
            scan.end_row = catalog.end_row();
            scan.min_end = catalog.published;
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
            end: None,
            manifest_lost: false,
            keys_lost: None,
            end_row: None,
            current: None,
            schema: 0,
            source: None,
            window: Offset(0),
            buffer: Buffer::default(),
            synthesized_batch: None,
            decoding: Decoding::Always,
            decoding_memory: vec![],
            read_again: None,
            set_start_lost: false,
            read_size: READ_SIZE,
            chain: None,
            confirmed: None,
            min_end: None,
        }
    }

    /// The bytes that the ranges of the last item refer to.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.synthesized_batch.as_deref().unwrap_or_else(|| self.buffer.bytes())
    }

    /// The bytes of a batch as they are in the file.
    pub(crate) fn raw(&self, found: &ScannedBatch) -> &[u8] {
        let window = Window { start: self.window, bytes: self.buffer.bytes() };
        let bytes = window.range(found.start, found.end.0 - found.start.0);
        bytes.expect("the scan has just read it")
    }

    /// The current segment.
    #[inline]
    pub(crate) fn segment(&self) -> Option<SegmentId> {
        self.current.as_ref().map(|(link, _)| link.segment.header.id)
    }

    /// Schema number of the records of the last item.
    #[inline]
    pub(crate) fn schema(&self) -> u32 {
        self.schema
    }

    /// The current segment and offset.
    pub(crate) fn place(&self) -> Option<(SegmentId, Offset)> {
        self.current.as_ref().map(|(link, scanner)| (link.segment.header.id, scanner.offset()))
    }

    /// The last record found so far, or the one before the first.
    pub(crate) fn last(&self) -> Option<Lsn> {
        self.last
    }

    /// Returns the next batch, the next damage, or the end.
    pub(crate) fn step(&mut self) -> Result<ScanItem> {
        loop {
            let Some((link, scanner)) = &mut self.current else {
                match self.enter_next() {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            };
            if let Some(memory) = self.synthesized_batch.take() {
                let is_binary = scanner.layout() == Layout::Binary;
                if is_binary { self.decoding_memory = memory } else { scanner.reuse(memory) }
            }
            match scanner.step(Window { start: self.window, bytes: self.buffer.bytes() }) {
                Step::Need { offset, length: least } => {
                    let source = opened(&mut self.source, &link.segment, self.skip_io_errors)?;
                    let length = least.max(self.read_size);
                    // Keep what the buffer already has: of a long batch only the end is missing.
                    match offset.0.checked_sub(self.window.0).map(usize::try_from) {
                        Some(Ok(before)) => self.buffer.drop_first(before),
                        _ => self.buffer.clear(),
                    }
                    self.window = offset;
                    let held = read_ahead(source, scanner, &mut self.buffer, (offset, length))?;
                    let may_end = held < length && scanner.ends_at(offset.plus(held));
                    if held < least && !may_end {
                        let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                        return Err(Error::io(format!("read {}", link.segment.name()))(short));
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
                    let is_locked = false;
                    let mut found = ScannedBatch { header, body, last, start, end, set, is_locked };
                    let is_plain = matches!(header.kind, BodyKind::Frames | BodyKind::Void);
                    let damage = if is_plain { None } else { self.decode(&mut found)? };
                    return Ok(damage.unwrap_or(ScanItem::Batch(found)));
                }
                Step::Finished if self.links.is_empty() && self.missing_tail.is_none() => {
                    return Ok(self.end_of_chain());
                }
                Step::Finished => self.current = None,
                Step::Refused(refused) => {
                    let place = file_place(&**link.segment.storage(), &link.segment.name());
                    return Err(Error::refused(place)(refused));
                }
                Step::Stopped(cause, header) => {
                    if let Some(event) = self.stopped(Stop { cause, header })? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Continues in the newest segment, where more records became durable. Returns `false` if there
    /// is a newer segment or the scan is in another one.
    pub(crate) fn extend(&mut self, live: &Live) -> bool {
        let Some((link, scanner)) = &mut self.current else { return false };
        if link.segment.header.reference() != live.segment || !self.links.is_empty() {
            return false;
        }
        link.limit = Limit::At(live.durable);
        scanner.set_limit(link.limit);
        // The bytes read ahead may predate the records that are durable now.
        self.invalidate_buffer();
        true
    }

    /// Raises the limit in the newest segment to `limit`. Returns `false` if the scan is in another
    /// segment, or if the old limit split a batch.
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

    /// Whether the current segment is the last one of the chain.
    pub(crate) fn is_in_newest(&self) -> bool {
        self.links.is_empty()
    }

    /// A scan from the current position in the newest segment to the last valid record, without a
    /// limit.
    pub(crate) fn beyond_end(&self) -> Option<Self> {
        let (link, scanner) = self.current.as_ref().filter(|_| self.is_in_newest())?;
        let (mut link, mut scanner) = (link.clone(), scanner.clone());
        link.limit = Limit::Open;
        scanner.set_limit(Limit::Open);
        let mut scan = Self::over(VecDeque::new(), scanner.next_lsn().previous());
        scan.segments.clone_from(&self.segments);
        (scan.skip_io_errors, scan.read_size) = (self.skip_io_errors, READ_NEAR);
        scan.decoding = self.decoding;
        (scan.closed, scan.end, scan.end_row) = (self.closed, self.end, self.end_row);
        (scan.manifest_lost, scan.keys_lost) = (self.manifest_lost, self.keys_lost);
        (scan.chain, scan.confirmed, scan.min_end) = (self.chain, self.confirmed, self.min_end);
        scan.current = Some((link, scanner));
        scan.invalidate_buffer();
        Some(scan)
    }

    /// A few bytes at the current position, and their offset; shows whether the file changed there.
    pub(crate) fn peek_after_end(&self) -> Result<Option<(Offset, Vec<u8>)>> {
        let Some((link, scanner)) = &self.current else { return Ok(None) };
        let at = scanner.valid_end();
        Ok(Some((at, link.segment.read(at, to_u64(HEADER_SIZE))?)))
    }

    /// Sets the limit in the newest segment.
    pub(crate) fn up_to(mut self, limit: Limit) -> Self {
        if let Some(newest) = self.links.back_mut() {
            newest.limit = limit;
        }
        self
    }

    /// Drops the bytes read ahead from the current segment.
    fn invalidate_buffer(&mut self) {
        self.buffer.clear();
        if let Some((_, scanner)) = &mut self.current {
            scanner.forget_end();
        }
    }

    /// Enters the next segment. Returns an item for a gap before it, or at the end of the chain.
    fn enter_next(&mut self) -> Option<ScanItem> {
        let Some(mut link) = self.links.pop_front() else {
            return Some(self.end_of_chain());
        };
        if let Some((_, damage)) = link.gap.take() {
            let base = link.segment.header.base;
            // The chain value after a gap is unknown.
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
        let damage = self.lost_manifest(None).into_iter().chain(self.lost_keys_to_come());
        let damage = damage.collect();
        ScanItem::End(ScanEnd { last: self.last, confirmed: None, tail: None, damage })
    }
}

/// Why the scanner stopped, and the header it saw there.
#[derive(Clone, Copy)]
struct Stop {
    cause: Cause,
    header: Option<BatchHeader>,
}

impl Stop {
    /// The time of the batch that is damaged, if its header is intact; otherwise 0.
    fn time_us(&self) -> u64 {
        let intact = self.header.filter(|_| matches!(self.cause, Cause::Body));
        intact.map_or(0, |header| header.time_us)
    }

    fn corruption(&self) -> Corruption {
        match self.cause {
            Cause::Line => Corruption::Line,
            Cause::Body => Corruption::Body,
            Cause::Order => Corruption::Order,
            Cause::Extent => Corruption::CutShort,
            _ => Corruption::Header,
        }
    }
}

/// Extends `buffer`, which starts at `offset`, to `length` bytes or the end of the file. Each piece
/// is checksummed while it is in the CPU cache. Returns the new length of the buffer.
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

/// Returns the reader of `segment`, opening it on first use.
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
