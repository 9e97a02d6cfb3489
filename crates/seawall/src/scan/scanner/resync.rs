//! Handles a place without a valid batch: decides between the end of the log and damage, reports
//! the damage with its intact records, and resynchronizes at the next valid batch.

use crate::base::error::{Corruption, Damage, Lost, Result};
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::parity_file::knows_more;
use crate::files::read_buffer::Buffer;
use crate::files::segment::Segment;
use crate::files::segment_reader::SegmentReader;
use crate::scan::intact::{Contents, ExpectedFrames, RangeEnd, trace_misplaced_bytes};
use crate::scan::scanner::decode::key_error;
use crate::scan::scanner::{Decoding, LogScanner, ScanEnd, ScanItem, Stop, TailFound, opened};
use seawall_format::batch::{BatchHeader, HEADER_SIZE, Life};
use seawall_format::before::Before;
use seawall_format::scan::{Cause, EndScan, HeaderSearch, Limit, Scanner};
use seawall_format::{ChangedPart, Closed, Lsn, Offset, changed_part, next_lsn, tail, text};

/// A damaged range longer than this many maximum batches is not searched for frames: it must span
/// many batches, of which only the first could be salvaged.
const SALVAGED_BATCHES_MAX: u64 = 3;

impl LogScanner {
    /// Returns the end of the log or the damage at this place. `None` asks the caller to scan
    /// again: a first bad read may be transient.
    pub(super) fn stopped(&mut self, stop: Stop) -> Result<Option<ScanItem>> {
        if let Some((link, scanner)) = &mut self.current
            && let Before::Unknown = scanner.before()
        {
            scanner.set_before(link.segment.before());
        }
        let (link, scanner) = self.current.as_ref().expect("a scanner stopped");
        let (at, next) = (scanner.valid_end(), scanner.next_lsn());
        let is_newest = link.limit == Limit::Open;
        let from = scanner.search_start(stop.cause);
        let part = scanner.part().and_then(|part| part.confirmed);
        let source = opened(&mut self.source, &link.segment, self.skip_io_errors)?;
        let rest = search(source, scanner, from, is_newest)?;
        let after = at.0..rest.used.0.max(source.end()?);
        // After a clean close nothing was written here.
        let closed = Closed { last: next.previous(), segment: link.segment.header.reference() };
        let closed_here = self.end == Some(closed);
        let mut is_hidden =
            source.had_io_error(&after) || (!closed_here && source.is_unknown(&after));
        let (confirmed, mut min_end) = match link.limit {
            Limit::At(last) => (None, last),
            Limit::Open => {
                let confirmed = self.confirmed(&link.segment, rest.confirmed.max(part))?;
                (confirmed, confirmed.max(self.min_end))
            }
        };
        if is_newest && Some(next) > min_end {
            let is_known = knows_more(&link.segment, at);
            let is_cut = is_known && scanner.is_exact();
            is_hidden |= is_cut;
            if !is_hidden {
                return self.end_of_newest(&rest, (confirmed, is_known)).map(Some);
            }
            // Either unreadable bytes may hold a record, or parity covers records that are gone:
            // both are damage and not the end of the log.
            min_end = Some(next);
        }
        if self.read_again != Some((link.segment.header.id, at)) {
            self.read_again = Some((link.segment.header.id, at));
            self.invalidate_buffer();
            return Ok(None);
        }
        self.damage(stop, &rest, (min_end, is_hidden)).map(Some)
    }

    /// W: the highest record confirmed by anything in the newest segment or by the clean close.
    fn confirmed(&self, segment: &Segment, after: Option<Lsn>) -> Result<Option<Lsn>> {
        let header = &segment.header;
        let marks = segment.marks()?.into_iter().map(|mark| mark.confirmed);
        let closed = self.closed.filter(|closed| closed.segment == header.reference());
        let closed = closed.and_then(|closed| closed.last);
        // The newest segment has a seal only if the next one was named ahead and has not begun.
        let sealed = segment.seal()?.and_then(|seal| seal.last);
        let others =
            [header.carried, header.base.previous(), closed, sealed, self.confirmed, after];
        Ok(marks.chain(others).max().flatten())
    }

    /// The end of the newest segment. `is_known`: parity covers records after this end.
    fn end_of_newest(
        &mut self,
        rest: &HeaderSearch,
        (confirmed, is_known): (Option<Lsn>, bool),
    ) -> Result<ScanItem> {
        let (link, scanner) = self.current.take().expect("a scanner stopped");
        if self.missing_tail.is_some() {
            self.links.clear();
            return Ok(self.end_of_chain());
        }
        let (offset, chain) = (scanner.offset(), scanner.chain());
        let source = opened(&mut self.source, &link.segment, self.skip_io_errors)?;
        let length = rest.used.0 - offset.0;
        let (segment, file) = (link.segment.header.id, link.segment.name());
        let (row, is_exact) = classify_end(source, &scanner, rest.used)?;
        // An edited text file may end early, which is not damage. But parity covers more, so
        // records may be lost together with the line break before them.
        let row = if is_known { tail::Row::Otherwise } else { self.end_row.unwrap_or(row) };
        let tail = Some(TailFound { segment, offset, chain, row, length, is_exact, file });
        let lost = Some(Lost { from: next_lsn(self.last), to: None });
        let damage = self.cut_short(&link.segment).into_iter().chain(self.lost_manifest(lost));
        let damage = damage.chain(self.lost_keys_to_come()).collect();
        Ok(ScanItem::End(ScanEnd { last: self.last, confirmed, tail, damage }))
    }

    /// Damage for a newest file shorter than its header says: the missing part may have held
    /// records.
    fn cut_short(&self, newest: &Segment) -> Option<Damage> {
        let bytes = Some(newest.bytes_missing()).filter(|bytes| *bytes > 0)?;
        let closed = Closed { last: self.last, segment: newest.header.reference() };
        let all_there = self.end == Some(closed);
        Some(Damage {
            segment: Some(newest.header.id),
            offset: Offset(newest.length),
            bytes,
            lost: (!all_there).then(|| Lost { from: next_lsn(self.last), to: None }),
            ..Damage::new(Corruption::CutShort)
        })
    }

    pub(super) fn lost_manifest(&self, lost: Option<Lost>) -> Option<Damage> {
        let damage = Damage { lost, ..Damage::new(Corruption::Manifest) };
        self.manifest_lost.then_some(damage)
    }

    /// Reports the damage at the current position with its intact records, and resynchronizes after
    /// it.
    fn damage(
        &mut self,
        stop: Stop,
        rest: &HeaderSearch,
        (min_end, is_hidden): (Option<Lsn>, bool),
    ) -> Result<ScanItem> {
        let (link, scanner) = self.current.as_mut().expect("a scanner stopped");
        let (here, limit, life) = (link.segment.clone(), link.limit, *scanner.life());
        let first = scanner.next_lsn();
        let (at, part) = (scanner.valid_end(), scanner.frames_of_part());
        let mut ends_here = false;
        let place = if let (Cause::Body, Some(header)) = (stop.cause, stop.header) {
            scanner.pass(&header);
            self.chain = Some(header.chain_value());
            Position { size: header.size(), last: Some(header.last()), end: RangeEnd::Known }
        } else if let Some((offset, header)) = rest.next {
            self.set_start_lost = scanner.may_miss_start_of(&header);
            // A header past the limit shows where the damage ends, but the chain does not continue
            // there.
            let chain = scanner.chain_before(&header);
            self.chain = chain.filter(|_| !limit.excludes(header.first));
            scanner.resume_at(offset, &header);
            Position { size: offset.0 - at.0, last: header.first.previous(), end: RangeEnd::Known }
        } else {
            ends_here = true;
            self.chain = None;
            let size = scanner.lost_bytes(rest.used, here.length);
            Position { size, last: min_end, end: range_end(limit, is_hidden) }
        };
        let source = opened(&mut self.source, &here, self.skip_io_errors)?;
        if part.is_none() {
            let room = u64::from(life.batch_max) * SALVAGED_BATCHES_MAX;
            self.buffer = source.read(at, if place.size <= room { place.size } else { 0 })?.into();
            self.window = at;
        }
        self.synthesized_batch = part;
        let counts_to = counts_to(limit, place.last);
        let is_limit = limit == Limit::At(counts_to);
        let (last, end, time_us) = (place.last, place.end, stop.time_us());
        let expected = ExpectedFrames { first, last, counts_to, is_limit, end, time_us };
        let bytes = self.synthesized_batch.as_deref().unwrap_or_else(|| self.buffer.bytes());
        let contents = Contents::of(stop.header, (bytes, at), &life);
        let salvaged = expected.salvage(bytes, (at, &life), (contents, &here));
        let (salvaged, memory) = salvaged.map_err(|error| key_error(&here, error))?;
        let needs_key = !salvaged.is_empty() && life.is_encrypted && here.keys.is_none();
        if needs_key && self.decoding == Decoding::Always {
            return Err(self.no_keys());
        }
        let mut named = Damage {
            segment: Some(here.header.id),
            offset: at,
            bytes: place.size,
            ..Damage::new(stop.corruption())
        };
        let hidden_to = if end == RangeEnd::Hidden { source.end()? } else { 0 };
        let passed = at.0..hidden_to.max(at.0 + place.size.max(1));
        if source.had_io_error(&passed) || source.is_unknown(&passed) {
            named.cause = Corruption::Unreadable;
        } else if self.synthesized_batch.is_none()
            && let Some((cause, origin)) = trace_misplaced_bytes(&here, &self.segments, at, bytes)
        {
            (named.cause, named.origin) = (cause, Some(origin));
        }
        if let [Lost { from, to }] = expected.lost(&salvaged).as_slice()
            && Some(*from) == *to
        {
            let place = (bytes, at, place.size);
            named.changed = changed_at(source, (named.cause, stop.header), place, &life)?;
        }
        if memory.is_some() {
            self.synthesized_batch = memory;
        }
        let damages = expected.each_lost(&named, &salvaged);
        self.last = self.last.max(counts_to);
        if ends_here {
            self.current = None;
        }
        Ok(ScanItem::Damage(damages, salvaged))
    }
}

/// What is known about the end of damage up to the end of a segment.
fn range_end(limit: Limit, is_hidden: bool) -> RangeEnd {
    match limit {
        Limit::Open if is_hidden => RangeEnd::Hidden,
        Limit::Open => RangeEnd::Open,
        Limit::At(_) => RangeEnd::Known,
    }
}

/// The part of the one damaged record in a range that has changed: of a batch whose `header` is
/// intact, or of a line.
fn changed_at(
    source: &mut SegmentReader,
    (cause, header): (Corruption, Option<BatchHeader>),
    (batch, at, size): (&[u8], Offset, u64),
    life: &Life,
) -> Result<Option<ChangedPart>> {
    Ok(match (cause, header, batch.get(HEADER_SIZE..)) {
        (Corruption::Body, Some(header), Some(body)) => changed_part(body, (&header, at), life),
        (Corruption::Line, ..) if size <= text::CHANGED_LINE_MAX => {
            text::changed_part(&source.read(at, size)?, &life.salt)
        }
        _ => None,
    })
}

/// The last record of the damage that is within `limit`.
fn counts_to(limit: Limit, last: Option<Lsn>) -> Option<Lsn> {
    match limit {
        Limit::At(limit) => last.min(limit),
        Limit::Open => last,
    }
}

/// Searches from where `scanner` stopped up to the next batch, or to the end if `whole`.
fn search(
    source: &mut SegmentReader,
    scanner: &Scanner,
    from: Offset,
    whole: bool,
) -> Result<HeaderSearch> {
    let mut rest = HeaderSearch::new(scanner, from, source.end()?);
    let mut buffer = Buffer::default();
    while let Some(at) = rest.next_window() {
        buffer.clear();
        source.read_append((at, HeaderSearch::window(scanner, READ_SIZE)), &mut buffer)?;
        let bytes = buffer.bytes();
        if bytes.is_empty() {
            break;
        }
        let may_skip = rest.look(scanner, at, bytes);
        if rest.next.is_some() && !whole {
            break;
        }
        if may_skip {
            let after = at.plus(to_u64(bytes.len()));
            rest.skip_hole(source.next_written(after)?);
        }
    }
    Ok(rest)
}

/// Classifies the bytes from where `scanner` stopped to `used`. Also returns whether the file
/// contains exactly what the writer wrote.
fn classify_end(
    source: &mut SegmentReader,
    scanner: &Scanner,
    used: Offset,
) -> Result<(tail::Row, bool)> {
    let mut end = EndScan::new(scanner, used);
    while let Some((at, size)) = end.next_read(READ_SIZE) {
        let bytes = source.read(at, size)?;
        let may_skip = end.look(&bytes);
        if bytes.is_empty() {
            break;
        }
        if may_skip {
            end.skip_hole(source.next_written(end.offset())?);
        }
    }
    Ok(end.row())
}

/// Extent of the damage, and the last record that it held.
struct Position {
    size: u64,
    last: Option<Lsn>,
    end: RangeEnd,
}
