//! The walk over the live chain: reads segments in order, shows them to the scanner, and finds its
//! feet behind damage. Recovery, readers and `verify` all walk this way.

use crate::directory::{Beyond, Link, Segment, Survey, hole};
use crate::{Corruption, Damage, Error, Lost, Lsn, Offset, Result, SegmentId};
use seawall_format::batch::{BatchHeader, HEADER_SIZE};
use seawall_format::scan::{self, Cause, Limit, Scanner, Step, Window};
use seawall_format::{Live, frame, next_lsn, tail};
use seawall_io::File;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// What one read takes: fits the second-level cache.
const READ_SIZE: u64 = 256 << 10;

/// One thing found on the walk.
#[derive(Debug)]
pub(crate) enum Event {
    /// A valid batch; its frames are a range of [`Walk::bytes`].
    Batch(Found),
    /// Damage; the intact frames of the place are ranges of [`Walk::bytes`].
    Damage(Vec<Damage>, Vec<Salvaged>),
    /// The end of the chain.
    End(End),
}

/// A valid batch.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) header: BatchHeader,
    pub(crate) body: Range<usize>,
    /// The last of its records that counts.
    pub(crate) last: Lsn,
    /// Where it ends in its segment.
    pub(crate) end: Offset,
}

/// An intact record of a damaged place.
#[derive(Clone, Debug)]
pub(crate) struct Salvaged {
    pub(crate) lsn: Lsn,
    pub(crate) payload: Range<usize>,
    pub(crate) goes_on: bool,
}

/// How the walk ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// V, the last record found.
    pub(crate) last: Option<Lsn>,
    /// W, the highest record confirmed anywhere; `None` also where the chain has no open end.
    pub(crate) confirmed: Option<Lsn>,
    /// Behind the last batch of the newest segment: where, and what lies there.
    pub(crate) tail: Option<TailFound>,
    /// What is missing though no record shows it: the end of the newest file, the manifest.
    pub(crate) damage: Vec<Damage>,
}

/// What lies behind the last batch of the newest segment.
#[derive(Clone, Debug)]
pub(crate) struct TailFound {
    pub(crate) segment: SegmentId,
    pub(crate) offset: Offset,
    pub(crate) chain: u64,
    pub(crate) row: tail::Row,
    /// Bytes up to the last that is not zero.
    pub(crate) bytes: Vec<u8>,
}

/// The walk over a chain.
#[derive(Debug)]
pub(crate) struct Walk {
    links: VecDeque<Link>,
    beyond: Option<Beyond>,
    closed: Option<seawall_format::Closed>,
    manifest_lost: bool,
    current: Option<(Link, Scanner)>,
    /// The open file of the current segment.
    file: Option<Arc<dyn File>>,
    window: Offset,
    bytes: Vec<u8>,
    /// The last record found.
    last: Option<Lsn>,
    /// The chain value of its batch, where it was seen.
    chain: Option<u64>,
    /// The highest record that a batch on the way confirmed.
    confirmed: Option<Lsn>,
}

impl Walk {
    /// A walk from the first record of the chain that a survey found; from the segment that holds
    /// `from`, if that is given.
    pub(crate) fn new(survey: &Survey, from: Option<Lsn>) -> Self {
        let mut links: VecDeque<_> = survey.chain.iter().cloned().collect();
        while links.get(1).is_some_and(|next| Some(next.segment.header.base) <= from) {
            links.pop_front();
        }
        let base = links.front().map(|link| link.segment.header.base);
        let oldest = survey.manifest.as_ref().map(|manifest| manifest.oldest_base);
        let first = base.or(oldest);
        Self {
            beyond: survey.beyond,
            closed: survey.manifest.as_ref().and_then(|manifest| manifest.closed),
            manifest_lost: survey.manifest_lost,
            ..Self::over(links, first.and_then(Lsn::previous))
        }
    }

    /// A walk over one segment alone.
    pub(crate) fn of_segment(link: &Link) -> Self {
        let link = Link { gap: None, ..link.clone() };
        let last = link.segment.header.base.previous();
        Self::over(VecDeque::from([link]), last)
    }

    fn over(links: VecDeque<Link>, last: Option<Lsn>) -> Self {
        Self {
            links,
            last,
            beyond: None,
            closed: None,
            manifest_lost: false,
            current: None,
            file: None,
            window: Offset(0),
            bytes: vec![],
            chain: None,
            confirmed: None,
        }
    }

    /// The bytes that the ranges of the last event mean.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The next thing on the way.
    pub(crate) fn step(&mut self) -> Result<Event> {
        loop {
            let Some((link, scanner)) = &mut self.current else {
                match self.enter_next() {
                    Some(event) => return Ok(event),
                    None => continue,
                }
            };
            match scanner.step(Window { start: self.window, bytes: &self.bytes }) {
                Step::Need { offset, length } => {
                    let file = opened(&mut self.file, &link.segment)?;
                    self.bytes = link.segment.read_in(&*file, offset, length.max(READ_SIZE))?;
                    self.window = offset;
                    if to_u64(self.bytes.len()) < length {
                        let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                        return Err(Error::io(format!("read {}", link.segment.name()))(cut));
                    }
                }
                Step::Batch(batch) => {
                    let body = batch.offset.0 - self.window.0 + to_u64(HEADER_SIZE);
                    let start = usize::try_from(body).expect("a place in the window");
                    let body = start..start + batch.body.len();
                    let header = batch.header;
                    let last = match link.limit {
                        Limit::At(Some(limit)) => header.last().min(limit),
                        _ => header.last(),
                    };
                    (self.last, self.chain) = (Some(last), Some(header.chain_value()));
                    self.confirmed = self.confirmed.max(header.confirmed());
                    let end = batch.offset.plus(header.size());
                    return Ok(Event::Batch(Found { header, body, last, end }));
                }
                Step::Finished if self.links.is_empty() && self.beyond.is_none() => {
                    return Ok(self.end_of_chain());
                }
                Step::Finished => self.current = None,
                Step::Stopped(cause, header) => return self.stopped(cause, header),
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
        self.bytes.clear();
        true
    }

    /// Goes to the next segment, or to the end.
    fn enter_next(&mut self) -> Option<Event> {
        let Some(mut link) = self.links.pop_front() else {
            return Some(self.end_of_chain());
        };
        if let Some((_, damage)) = link.gap.take() {
            let base = link.segment.header.base;
            // Below a hole nothing is known of the chain.
            (self.last, self.chain) = (base.previous(), None);
            self.links.push_front(link);
            return Some(Event::Damage(vec![damage], vec![]));
        }
        let header = &link.segment.header;
        let known = self.chain.filter(|_| header.pred_chain != 0 && header.base > Lsn::FIRST);
        let broken = known.is_some_and(|chain| chain != header.pred_chain);
        let scanner = Scanner::new(header, link.segment.length, link.limit);
        let at = header.base.previous();
        let damage = at.filter(|_| broken).map(|at| {
            let lost = Some(Lost { from: at, to: Some(at) });
            hole(header.id, Corruption::Order, lost)
        });
        (self.window, self.current, self.file) = (Offset(0), Some((link, scanner)), None);
        self.bytes.clear();
        damage.map(|damage| Event::Damage(vec![damage], vec![]))
    }

    fn end_of_chain(&mut self) -> Event {
        if let Some(beyond) = self.beyond.take() {
            let lost = Some(Lost { from: next_lsn(self.last), to: None });
            return Event::Damage(vec![hole(beyond.segment, beyond.cause, lost)], vec![]);
        }
        let damage = self.lost_manifest(None).into_iter().collect();
        Event::End(End { last: self.last, confirmed: None, tail: None, damage })
    }

    /// No valid batch stands here: the end of the newest segment, or damage.
    fn stopped(&mut self, cause: Cause, header: Option<BatchHeader>) -> Result<Event> {
        let (link, scanner) = self.current.as_ref().expect("a scanner stopped");
        let (at, next) = (scanner.offset(), scanner.next_lsn());
        let file = opened(&mut self.file, &link.segment)?;
        let behind = link.segment.header.size.saturating_sub(at.0);
        self.bytes = link.segment.read_in(&*file, at, behind)?;
        self.window = at;
        let rest = Window { start: at, bytes: &self.bytes };
        let is_newest = link.limit == Limit::Open;
        let promised = match link.limit {
            Limit::At(last) => last,
            Limit::Open => self.confirmed(&link.segment, rest, scanner)?,
        };
        if is_newest && Some(next) > promised {
            return Ok(self.end_of_newest(promised));
        }
        Ok(self.damage(Stop { cause, header }, promised))
    }

    /// W: the highest record that anything in the newest segment, or the clean close, confirms.
    fn confirmed(
        &self,
        segment: &Segment,
        rest: Window<'_>,
        scanner: &Scanner,
    ) -> Result<Option<Lsn>> {
        let header = &segment.header;
        let marks = segment.marks()?.into_iter().map(|mark| mark.confirmed);
        let batches =
            scan::headers(rest, rest.start, scanner.life()).map(|(_, batch)| batch.confirmed());
        let closed = self.closed.filter(|closed| closed.segment == header.reference());
        let closed = closed.and_then(|closed| closed.last);
        let others = [header.carried, header.base.previous(), closed, self.confirmed];
        Ok(marks.chain(batches).chain(others).max().flatten())
    }

    fn end_of_newest(&mut self, confirmed: Option<Lsn>) -> Event {
        let (link, scanner) = self.current.take().expect("a scanner stopped");
        let (offset, chain) = (scanner.offset(), scanner.chain());
        let found = tail::Tail { bytes: &self.bytes, offset, next: scanner.next_lsn(), chain };
        let row = tail::classify(&found, scanner.life());
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let bytes = self.bytes.get(..used).unwrap_or_default().to_vec();
        let segment = link.segment.header.id;
        if self.beyond.is_some() {
            self.links.clear();
            return self.end_of_chain();
        }
        let tail = Some(TailFound { segment, offset, chain, row, bytes });
        let lost = Some(Lost { from: next_lsn(self.last), to: None });
        let damage = self.cut_short(&link.segment).into_iter().chain(self.lost_manifest(lost));
        let damage = damage.collect();
        Event::End(End { last: self.last, confirmed, tail, damage })
    }

    /// A newest file that is not as long as its header says: the rest may have held records.
    fn cut_short(&self, newest: &Segment) -> Option<Damage> {
        let bytes = newest.header.size.checked_sub(newest.length).filter(|bytes| *bytes > 0)?;
        let all_there = self.closed.is_some_and(|closed| {
            closed.last == self.last && closed.segment == newest.header.reference()
        });
        Some(Damage {
            segment: Some(newest.header.id),
            offset: Offset(newest.length),
            bytes,
            lost: (!all_there).then(|| Lost { from: next_lsn(self.last), to: None }),
            cause: Corruption::CutShort,
        })
    }

    fn lost_manifest(&self, lost: Option<Lost>) -> Option<Damage> {
        let cause = Corruption::Manifest;
        let damage = Damage { segment: None, offset: Offset(0), bytes: 0, lost, cause };
        self.manifest_lost.then_some(damage)
    }

    /// Names the damage where the scanner stands, keeps what is intact, and goes on behind it.
    fn damage(&mut self, stop: Stop, promised: Option<Lsn>) -> Event {
        let (link, scanner) = self.current.as_mut().expect("a scanner stopped");
        let (segment, salt) = (link.segment.header.id, scanner.life().salt);
        let (at, next, limit) = (scanner.offset(), scanner.next_lsn(), link.limit);
        let mut ends_here = false;
        let place = if let (Cause::Body, Some(header)) = (stop.cause, stop.header) {
            scanner.pass(&header);
            self.chain = Some(header.chain_value());
            Place { size: header.size(), last: Some(header.last()), open: false }
        } else if let Some((offset, header)) = stop.found_behind(&self.bytes, scanner) {
            scanner.resume_at(offset, &header);
            // A batch that no longer counts tells where the damage ends, not what follows.
            self.chain = Some(header.chain).filter(|_| !limit.excludes(header.first));
            Place { size: offset.0 - at.0, last: header.first.previous(), open: false }
        } else {
            ends_here = true;
            self.chain = None;
            let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            let size = to_u64(used.next_multiple_of(8).min(self.bytes.len()));
            Place { size, last: promised, open: limit == Limit::Open }
        };
        let last = match limit {
            Limit::At(limit) => place.last.min(limit),
            Limit::Open => place.last,
        };
        let size = usize::try_from(place.size).expect("in the file").min(self.bytes.len());
        let body = self.bytes.get(HEADER_SIZE..size).unwrap_or_default();
        let whole_last = place.last.filter(|last| *last >= next);
        let intact = whole_last.map_or(vec![], |last| frame::salvage(body, next, last, &salt));
        let salvaged: Vec<_> = intact
            .into_iter()
            .filter(|(_, frame)| Some(frame.lsn) <= last)
            .map(|(position, frame)| Salvaged::new(position, &frame))
            .collect();
        let place_of = |lost| Damage {
            segment: Some(segment),
            offset: at,
            bytes: place.size,
            lost,
            cause: stop.corruption(),
        };
        let mut damages: Vec<_> = lost_runs(&salvaged, next, last, place.open)
            .into_iter()
            .map(|lost| place_of(Some(lost)))
            .collect();
        if damages.is_empty() {
            damages.push(place_of(None));
        }
        self.last = self.last.max(last);
        if ends_here {
            self.current = None;
        }
        Event::Damage(damages, salvaged)
    }
}

/// The open file of a segment, opened once.
fn opened(file: &mut Option<Arc<dyn File>>, segment: &Segment) -> Result<Arc<dyn File>> {
    if let Some(file) = file {
        return Ok(file.clone());
    }
    Ok(file.insert(segment.open()?).clone())
}

/// Where a scanner stopped, and what it saw there.
#[derive(Clone, Copy)]
struct Stop {
    cause: Cause,
    header: Option<BatchHeader>,
}

/// The bytes that cannot be trusted, and the last record that they held.
struct Place {
    size: u64,
    last: Option<Lsn>,
    /// Whether more records may have followed than anybody can say.
    open: bool,
}

impl Stop {
    /// The next batch header further on that can belong to this log.
    fn found_behind(&self, bytes: &[u8], scanner: &Scanner) -> Option<(Offset, BatchHeader)> {
        let (at, next) = (scanner.offset(), scanner.next_lsn());
        let from = if self.cause == Cause::Order { at } else { at.plus(8) };
        scan::headers(Window { start: at, bytes }, from, scanner.life())
            .find(|(_, header)| header.first >= next)
    }

    fn corruption(&self) -> Corruption {
        match self.cause {
            Cause::Body => Corruption::Body,
            Cause::Order => Corruption::Order,
            Cause::Extent => Corruption::CutShort,
            _ => Corruption::Header,
        }
    }
}

impl Salvaged {
    fn new(position: usize, frame: &frame::Frame<'_>) -> Self {
        let start = HEADER_SIZE + position + frame::HEADER_SIZE;
        let payload = start..start + frame.payload.len();
        Self { lsn: frame.lsn, payload, goes_on: frame.goes_on }
    }
}

/// The runs of records from `next` to `last` that were not salvaged.
fn lost_runs(salvaged: &[Salvaged], next: Lsn, last: Option<Lsn>, open: bool) -> Vec<Lost> {
    let (mut runs, mut from) = (vec![], next);
    for found in salvaged {
        if let Some(to) = found.lsn.previous().filter(|to| *to >= from) {
            runs.push(Lost { from, to: Some(to) });
        }
        from = found.lsn.next();
    }
    if Some(from) <= last {
        runs.push(Lost { from, to: last.filter(|_| !open) });
    }
    runs
}

fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}
