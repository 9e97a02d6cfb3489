//! A cursor over a log's records: lends them one after the other, and finds its place again where
//! the writer moved on under it.

use crate::base::error::{Damage, Error, Result, is_of_device};
use crate::base::watermark::DurableWatermark;
use crate::files::directory::{is_gone, list, segment_ids};
use crate::files::live::{Word, read_word};
use crate::files::overlay::Patch;
use crate::read::healing::{Heal, survey_mended, survey_now};
use crate::scan::catalog::Survey;
use crate::scan::durable_end;
use crate::scan::durable_end::{Behind, Refused};
use crate::scan::intact::{AtomicSet, Salvaged};
use crate::scan::scanner::{Event, Found, Walk};
use seawall_format::scan::Limit;
use seawall_format::{Live, Lsn, Offset, SegmentId, frame, next_lsn};
use seawall_io::Storage;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// How often a reader starts over because the writer moved on under it, before it believes its
/// eyes.
const ATTEMPTS: u32 = 8;

/// One record, borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number.
    pub lsn: Lsn,
    /// Its bytes.
    pub payload: &'a [u8],
    /// Microseconds since 1970 when its batch was written; 0 if that is not known.
    pub time_us: u64,
    /// Whether the atomic set goes on with the next record.
    pub goes_on: bool,
    /// Whether the records of its atomic set are all there: not always, behind damage.
    pub set: AtomicSet,
    /// The schema number that the log had when it was appended.
    pub schema: u32,
}

/// Lends one record after the other.
#[derive(Debug)]
pub struct Cursor {
    storage: Arc<dyn Storage>,
    /// What the writer said when the walk began; `None` without one.
    word: Option<Word>,
    /// The writer, if it is in this process: `word` is its word then.
    writer: Option<Arc<dyn DurableWatermark>>,
    /// The directory, as it was when the walk began.
    survey: Survey,
    walk: Walk,
    bound: Bound,
    next: Lsn,
    /// Where the records begin that another cursor reads.
    until: Option<Lsn>,
    /// The segment where the record before that was read.
    read_in: Option<SegmentId>,
    skip_damaged: bool,
    attempts: u32,
    /// What parity put right on the way.
    heal: Heal,
    batch: Option<Place>,
    queue: VecDeque<Queued>,
    finished: bool,
    /// The segment that could not be synced, if one could not.
    refused: Option<Refused>,
    /// What a follower saw behind the end when it looked last.
    glimpse: Option<Glimpse>,
}

/// How far the walk goes in the newest segment.
#[derive(Debug)]
enum Bound {
    /// As far as a running writer says, or to what is missing behind.
    Given,
    /// To this record, which is known to be durable. What lies behind was not looked at.
    Known(Option<Lsn>),
    /// To the end that this look found.
    Seen(Box<Behind>),
}

/// A walk from record `from` on; refused if that was pruned, or if the records before it, which
/// were read in segment `read_in`, were cut off since and others have their numbers, or if nobody
/// can tell, as all that was made since and held them was pruned.
fn walk_from(found: &Survey, (from, read_in): (Lsn, Option<SegmentId>)) -> Result<Walk> {
    let oldest = found.manifest.as_ref().map(|manifest| manifest.oldest_base);
    let pred = found.chain.first().and_then(|link| link.segment.header.pred);
    let is_new = read_in.is_some_and(|read_in| pred.is_some_and(|pred| pred.id > read_in));
    let is_gone = |oldest: &Lsn| from < *oldest || (from == *oldest && is_new);
    if let Some(oldest) = oldest.filter(is_gone) {
        return Err(Error::Pruned { oldest });
    }
    // A segment made since begins before this place: what it was made with it carried, and what
    // was not carried was cut.
    let headers = found.chain.iter().map(|link| &link.segment.header);
    let mut cuts = headers.filter(|header| {
        let is_new = read_in.is_some_and(|read_in| header.id > read_in);
        is_new && header.base < from && header.carried < from.previous()
    });
    match cuts.next() {
        Some(cut) => Err(Error::Rewound { next: next_lsn(cut.carried) }),
        None => Ok(Walk::new(found, Some(from))),
    }
}

/// The same up to what is known to be durable.
fn known_walk(
    found: &Survey,
    word: Option<&Word>,
    place: (Lsn, Option<SegmentId>),
) -> Result<(Walk, Bound)> {
    let walk = walk_from(found, place)?;
    if durable_end::open_end(found).is_none() {
        return Ok((walk, Bound::Given));
    }
    let known = durable_end::known(found, word)?;
    Ok((walk.up_to(Limit::At(known)), Bound::Known(known)))
}

/// Where each of up to `count` cursors begins that read from `from` on: segments are told by their
/// first record, and their size in bytes.
fn evenly(from: Lsn, count: usize, segments: &[(Lsn, u64)]) -> Vec<Lsn> {
    let first = segments.iter().rposition(|(base, _)| *base <= from).unwrap_or(0);
    let segments = segments.get(first..).unwrap_or_default();
    let total: u64 = segments.iter().map(|(_, size)| size).sum();
    let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
    let share = total.div_ceil(count).max(1);
    let (mut starts, mut last, mut passed) = (vec![from], from, 0);
    for (base, size) in segments {
        let due = share.saturating_mul(u64::try_from(starts.len()).expect("fits in 64 bits"));
        // One that lies across the border goes to the side where most of it is.
        if passed + size / 2 >= due && *base > last {
            starts.push(*base);
            last = *base;
        }
        passed += size;
    }
    starts
}

/// Where the cursor is in a batch.
#[derive(Debug)]
struct Place {
    body: Range<usize>,
    position: usize,
    lsn: Lsn,
    last: Lsn,
    time_us: u64,
    set: AtomicSet,
}

impl Place {
    #[inline]
    fn is_at_record(&self) -> bool {
        self.lsn <= self.last
    }

    /// The record here, in the walk's bytes; then the place is that of the next one.
    ///
    /// # Panics
    ///
    /// If there is none, or the batch was not found sound.
    #[inline]
    fn lend<'a>(&mut self, bytes: &'a [u8], schema: u32) -> Record<'a> {
        let body = bytes.get(self.body.clone()).expect("the walk holds its batch");
        let frame = frame::read(body, self.position, self.lsn);
        let (frame, behind) = frame.expect("frames fill a sound batch");
        (self.position, self.lsn) = (behind, self.lsn.next());
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

/// What [`Cursor::find`] found.
enum Next {
    /// The next record is in the batch that was entered.
    InBatch,
    /// One of the intact records of a damaged place.
    Salvaged(Salvaged),
    End,
}

impl Cursor {
    pub(crate) fn new(storage: Arc<dyn Storage>, from: Lsn, skip_damaged: bool) -> Result<Self> {
        let mut heal = Heal::default();
        let (word, survey, view) = survey_now(&storage, &mut heal)?;
        let mut found = Self::start(view.unwrap_or(storage), (word, survey, heal), from)?;
        found.skip_damaged = skip_damaged;
        found.walk = found.walk.around_unreadable(skip_damaged);
        Ok(found)
    }

    pub(crate) fn beside_writer(core: &Arc<dyn DurableWatermark>, from: Lsn) -> Result<Self> {
        core.check_process()?;
        let mut attempt = 1;
        loop {
            let (storage, word) = (core.storage().clone(), Word::own(core.live()));
            let mut heal = Heal::default();
            match survey_mended(&storage, Some(&word), &mut heal) {
                // The segment that the writer named was pruned. It names another when its turn
                // ends.
                Err(error) if is_gone(&error) && attempt < ATTEMPTS => {
                    attempt += 1;
                    let _ = core.clone().pass_between_batches();
                }
                found => {
                    let (survey, view) = found?;
                    let looked = (Some(word), survey, heal);
                    let started = Self::start(view.unwrap_or(storage), looked, from)?;
                    return Ok(Self { writer: Some(core.clone()), ..started });
                }
            }
        }
    }

    fn start(
        storage: Arc<dyn Storage>,
        (word, survey, heal): (Option<Word>, Survey, Heal),
        from: Lsn,
    ) -> Result<Self> {
        let (walk, bound) = known_walk(&survey, word.as_ref(), (from, None))?;
        Ok(Self {
            storage,
            word,
            writer: None,
            survey,
            walk,
            bound,
            next: from,
            until: None,
            read_in: None,
            skip_damaged: false,
            attempts: 0,
            heal,
            batch: None,
            queue: VecDeque::new(),
            finished: false,
            refused: None,
            glimpse: None,
        })
    }

    /// Cursors that share the records from `from` on, in their order: up to `count` of them, cut
    /// where segments begin, so that the bytes are shared evenly.
    pub(crate) fn side_by_side(
        storage: &Arc<dyn Storage>,
        from: Lsn,
        (count, skip_damaged): (usize, bool),
    ) -> Result<Vec<Self>> {
        let (_, found, _) = survey_now(storage, &mut Heal::default())?;
        let bases = found.chain.iter().map(|link| {
            let header = &link.segment.header;
            (header.base, link.segment.length.saturating_sub(header.data_start()))
        });
        let starts = evenly(from, count, &bases.collect::<Vec<_>>());
        let ends = starts.iter().skip(1).copied().map(Some).chain([None]);
        let cursor = |(start, until): (&Lsn, Option<Lsn>)| {
            let cursor = Self::new(storage.clone(), *start, skip_damaged)?;
            Ok(Self { until, ..cursor })
        };
        starts.iter().zip(ends).map(cursor).collect()
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] names records that are lost; the cursor ends there, or goes on behind
    /// if it was told to skip damage. [`Error::Io`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        if !self.batch.as_ref().is_some_and(Place::is_at_record) {
            match self.find()? {
                Next::InBatch => {}
                Next::Salvaged(found) => return Ok(Some(self.lend(found))),
                Next::End => return Ok(None),
            }
        }
        let place = self.batch.as_mut().expect("the cursor is in a batch");
        let record = place.lend(self.walk.bytes(), self.walk.schema());
        self.next = place.lsn;
        Ok(Some(record))
    }

    /// A record out of a damaged batch.
    fn lend(&mut self, Salvaged { lsn, payload, goes_on, set }: Salvaged) -> Record<'_> {
        (self.next, self.read_in) = (lsn.next(), self.walk.segment());
        let payload = self.walk.bytes().get(payload).expect("the walk holds its batch");
        Record { lsn, payload, time_us: 0, goes_on, set, schema: self.walk.schema() }
    }

    /// What comes behind the batch: out of the way of all the records in one.
    #[cold]
    fn find(&mut self) -> Result<Next> {
        let found = self.find_behind();
        if found.is_err() && !self.skip_damaged {
            self.finished = true;
        }
        found
    }

    fn find_behind(&mut self) -> Result<Next> {
        self.batch = None;
        while !self.finished {
            match self.queue.pop_front() {
                Some(Queued::Damage(damage)) => {
                    self.finished = damage.lost.is_some_and(|lost| self.is_beyond(lost.from));
                    if self.finished {
                        break;
                    }
                    return Err(Error::Damaged(Box::new(damage)));
                }
                Some(Queued::Record(found)) => {
                    self.finished = self.is_beyond(found.lsn);
                    if found.lsn >= self.next && !self.finished {
                        return Ok(Next::Salvaged(found));
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
                Ok(Event::Batch(found)) if self.enter(&found) => return Ok(Next::InBatch),
                Ok(Event::Batch(_)) => {}
                Ok(Event::Damage(damages, salvaged)) => self.meet(damages, salvaged)?,
                Ok(Event::End(end)) => {
                    let again = !end.damage.is_empty() && self.looks_again()?;
                    if !again && !self.heals(end.doubtful())? {
                        self.queue.extend(end.damage.into_iter().map(Queued::Damage));
                        self.queue.push_back(Queued::End);
                    }
                }
                Err(error) if is_of_device(&error) && self.heals([self.walk.segment()])? => {}
                Err(error) => self.lose_file(error)?,
            }
        }
        Ok(Next::End)
    }

    /// The next step of the walk, which goes on behind what is known to be durable when it was
    /// looked at what is there.
    fn step(&mut self) -> Result<Event> {
        loop {
            let event = self.walk.step()?;
            match (&event, &mut self.bound) {
                (Event::Batch(_), _) | (_, Bound::Given) => return Ok(event),
                (Event::Damage(..), _) if !self.walk.is_in_newest() => return Ok(event),
                (Event::Damage(..), Bound::Seen(_)) => return Ok(event),
                (_, Bound::Known(known)) => {
                    let known = *known;
                    self.look_behind(matches!(event, Event::End(_)), known)?;
                }
                (Event::End(_), Bound::Seen(seen)) => {
                    return match seen.refusal() {
                        Some(refusal) => Err(refusal),
                        None => Ok(Event::End(seen.end.clone())),
                    };
                }
            }
        }
    }

    /// Looks at what follows the record that is known to be durable, the last one of a walk that is
    /// `at_end` or has met damage before; the walk then goes as far as it may.
    fn look_behind(&mut self, at_end: bool, known: Option<Lsn>) -> Result<()> {
        let walk = self.walk.behind().filter(|_| at_end);
        let walk = match (walk, durable_end::open_end(&self.survey)) {
            (Some(walk), _) => walk,
            (None, Some(newest)) => {
                Walk::within(&self.survey, newest, None).around_unreadable(self.skip_damaged)
            }
            (None, None) => Walk::new(&self.survey, None),
        };
        let mut seen = durable_end::look_behind(&self.survey, walk, known)?;
        seen.make_durable(&self.survey, &mut self.refused)?;
        let limit = seen.limit();
        if !at_end || limit == Limit::Open || !self.walk.raise(limit) {
            let walk = walk_from(&self.survey, (self.next, self.read_in))?;
            self.walk = walk.around_unreadable(self.skip_damaged).up_to(limit).promised(known);
        }
        self.bound = Bound::Seen(Box::new(seen));
        Ok(())
    }

    /// Whether that is for the next cursor.
    fn is_beyond(&self, lsn: Lsn) -> bool {
        self.until.is_some_and(|until| lsn >= until)
    }

    /// Goes into the batch, if it holds a record for this cursor.
    fn enter(&mut self, found: &Found) -> bool {
        let (lsn, last) = (found.header.first, found.last);
        // The next cursor begins with a segment, and so with a batch.
        self.finished = self.is_beyond(lsn);
        if last < self.next || self.finished {
            return false;
        }
        self.read_in = self.walk.segment();
        if found.header.is_void {
            // Nobody will ever read them: who waits for what comes next waits for what follows.
            self.next = last.next();
            return false;
        }
        let (body, position) = (found.body.clone(), 0);
        let (time_us, set) = (found.header.time_us, found.set);
        let mut place = Place { body, position, lsn, last, time_us, set };
        while place.lsn < self.next {
            place.lend(self.walk.bytes(), self.walk.schema());
        }
        self.batch = Some(place);
        true
    }

    /// A file that vanished was pruned: the walk starts over, or says that its place is gone.
    fn lose_file(&mut self, mut error: Error) -> Result<()> {
        while is_gone(&error) && self.attempts < ATTEMPTS {
            self.attempts += 1;
            let word = self.word_now();
            match word.and_then(|word| self.start_over(word)) {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
        self.finished = true;
        Err(error)
    }

    /// A new walk from where this one is.
    fn start_over(&mut self, word: Option<Word>) -> Result<()> {
        let (found, view) = survey_mended(&self.storage, word.as_ref(), &mut self.heal)?;
        if let Some(view) = view {
            self.storage = view;
        }
        let place = (self.next, self.read_in);
        let (walk, bound) = known_walk(&found, word.as_ref(), place)?;
        (self.walk, self.word) = (walk.around_unreadable(self.skip_damaged), word);
        (self.survey, self.bound) = (found, bound);
        Ok(())
    }

    /// What the writer says now; one in this process is asked between two batches, when no cut is
    /// under way.
    fn word_now(&self) -> Result<Option<Word>> {
        let Some(core) = &self.writer else { return read_word(&*self.storage) };
        // A log that is closed or poisoned is cut no more.
        let _ = core.clone().pass_between_batches();
        Ok(Some(Word::own(core.live())))
    }

    /// Before damage is believed: whether the writer moved on meanwhile, and the walk starts over
    /// where it was (R16). A writer elsewhere may be unable to say so, and is not believed at once.
    fn looks_again(&mut self) -> Result<bool> {
        let word = self.word_now()?;
        let is_told = word.is_some_and(|word| word.is_running());
        let is_first = !is_told && self.attempts == 0;
        let again = (word != self.word || is_first) && self.attempts < ATTEMPTS;
        if again {
            self.attempts += 1;
            self.start_over(word)?;
        }
        Ok(again)
    }

    /// Whether parity gives back what is damaged in these segments: then the walk starts over where
    /// it was, in a log that is sound there.
    fn heals(&mut self, damaged: impl IntoIterator<Item = Option<SegmentId>>) -> Result<bool> {
        let Some(view) = self.heal.view(&self.storage, damaged)? else { return Ok(false) };
        self.storage = view;
        self.start_over(self.word)?;
        Ok(true)
    }

    /// Whether parity's view shows damage of which the device knows no more: then the walk starts
    /// over where it was, in the log as it is.
    fn is_over(&mut self, damages: &mut [Damage]) -> Result<bool> {
        let still_there = |all, one| self.heal.is_still_there(one) && all;
        let is_over = !damages.iter_mut().fold(true, still_there) && self.attempts < ATTEMPTS;
        if is_over {
            self.attempts += 1;
            self.storage = self.heal.let_go().unwrap_or_else(|| self.storage.clone());
            self.start_over(self.word)?;
        }
        Ok(is_over)
    }

    fn meet(&mut self, mut damages: Vec<Damage>, salvaged: Vec<Salvaged>) -> Result<()> {
        if self.looks_again()?
            || self.heals(damages.iter().map(|damage| damage.segment))?
            || self.is_over(&mut damages)?
        {
            return Ok(());
        }
        let mut salvaged: VecDeque<_> = salvaged.into();
        for damage in damages {
            if let Some(lost) = damage.lost {
                if lost.to.is_some_and(|to| to < self.next) {
                    continue;
                }
                let before = salvaged.partition_point(|found| found.lsn < lost.from);
                self.queue.extend(salvaged.drain(..before).map(Queued::Record));
            }
            self.queue.push_back(Queued::Damage(damage));
        }
        self.queue.extend(salvaged.into_iter().map(Queued::Record));
        Ok(())
    }
}

impl Cursor {
    /// What was damaged so far and put right from parity, for this cursor: the log itself is as it
    /// was, and waits for a [`repair`](crate::cut_tail).
    ///
    /// Behind a torn end there may be a place among them where no record counts any more;
    /// [`verify`](crate::verify) leaves such a place out.
    #[must_use]
    pub fn mended(&self) -> &[Patch] {
        &self.heal.patches
    }

    /// What the writer in this process said last.
    pub(crate) fn live(&self) -> Option<Live> {
        self.word.map(|word| word.live)
    }

    /// The record that comes next.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// Goes on where an error ended the walk: the log may have changed since.
    ///
    /// # Errors
    ///
    /// As [`Log::read_from`](crate::Log::read_from).
    pub(crate) fn try_again(&mut self) -> Result<()> {
        (self.attempts, self.batch) = (0, None);
        self.queue.clear();
        let word = self.word_now()?;
        self.check_rewound(word.as_ref())?;
        self.start_over(word)?;
        self.finished = false;
        Ok(())
    }

    /// Refuses to go on where the log ends before this cursor's place now; not where the writer in
    /// this process has given that number to a record which is not durable yet. A cut goes on in a
    /// segment of its own: in the same one, a writer elsewhere may only know of less than was read.
    fn check_rewound(&self, word: Option<&Word>) -> Result<()> {
        let Some(Word { live, .. }) = word.filter(|word| word.is_running()) else { return Ok(()) };
        let next = next_lsn(live.durable);
        let newest = self.survey.chain.last().map(|link| link.segment.header.id);
        let is_cut = match &self.writer {
            Some(core) => core.check_position(self.next).is_err(),
            None => newest.is_none_or(|newest| newest < live.segment.id),
        };
        if next < self.next && is_cut { Err(Error::Rewound { next }) } else { Ok(()) }
    }

    /// Refuses the position `from` if the log ends before it. This cursor reads from the record
    /// before that on, and has read nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::BeyondEnd`], [`Error::Io`].
    pub(crate) fn check_reaches(&mut self, from: Lsn) -> Result<()> {
        match self.next_record() {
            Ok(Some(_)) | Err(Error::Damaged(_) | Error::Pruned { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(None) => {
                let next = next_lsn(self.walk.last());
                if next < from { Err(Error::BeyondEnd { from, next }) } else { Ok(()) }
            }
        }
    }

    /// Goes on behind what was the end, as far as the word of the writer in this process goes now.
    ///
    /// # Errors
    ///
    /// [`Error::Rewound`] if records that were read are gone.
    pub(crate) fn go_on(&mut self, live: Live) -> Result<()> {
        let word = Some(Word::own(live));
        if word == self.word {
            return Ok(());
        }
        self.check_rewound(word.as_ref())?;
        (self.finished, self.attempts) = (false, 0);
        self.queue.clear();
        if self.walk.extend(&live) {
            self.word = word;
            return Ok(());
        }
        self.start_over(word).or_else(|error| self.lose_file(error))
    }

    /// Goes on behind what was the end, if there is something new: a writer elsewhere says so, or
    /// the log shows it. Whether there is.
    ///
    /// # Errors
    ///
    /// As [`go_on`](Self::go_on).
    pub(crate) fn look_on(&mut self, word: Option<Word>) -> Result<bool> {
        let is_same = word == self.word;
        let running = word.filter(Word::is_running);
        if is_same && running.is_some() {
            return Ok(false);
        }
        self.check_rewound(word.as_ref())?;
        let mut is_in_place = false;
        if running.is_none() {
            let glimpse = self.glimpse()?;
            if is_same && self.glimpse.as_ref() == Some(&glimpse) {
                return Ok(false);
            }
            let newest = self.survey.chain.last().map(|link| link.segment.header.id);
            is_in_place = glimpse.newest == newest && glimpse.behind.is_some();
            self.glimpse = Some(glimpse);
        }
        (self.finished, self.attempts) = (false, 0);
        self.queue.clear();
        if running.is_some_and(|word| self.walk.extend(&word.live)) {
            (self.word, self.bound) = (word, Bound::Given);
        } else if is_in_place && matches!(self.bound, Bound::Seen(_)) {
            (self.word, self.bound) = (word, Bound::Known(self.walk.last()));
        } else {
            match self.start_over(word) {
                // What the writer named was pruned since.
                Err(error) if is_gone(&error) && running.is_some() => return Ok(false),
                started => started?,
            }
        }
        Ok(true)
    }

    /// What changes where a log goes on, as far as a small look can tell.
    fn glimpse(&self) -> Result<Glimpse> {
        let newest = segment_ids(&list(&*self.storage)?).max();
        match self.walk.glimpse() {
            Ok(behind) => Ok(Glimpse { newest, behind }),
            Err(error) if is_gone(&error) => Ok(Glimpse { newest, behind: None }),
            Err(error) => Err(error),
        }
    }
}

/// The highest segment, and the first bytes behind the last record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glimpse {
    newest: Option<SegmentId>,
    behind: Option<(Offset, Vec<u8>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(from: u64, count: usize, segments: &[(u64, u64)]) -> Vec<u64> {
        let lsn = |number| Lsn::new(number).expect("not 0");
        let segments: Vec<_> = segments.iter().map(|(base, size)| (lsn(*base), *size)).collect();
        evenly(lsn(from), count, &segments).into_iter().map(Lsn::get).collect()
    }

    #[test]
    fn cursors_begin_where_segments_do_and_share_the_bytes() {
        let same = [(1, 64), (11, 64), (21, 64), (31, 64)];
        assert_eq!(starts(1, 2, &same), [1, 21]);
        assert_eq!(starts(1, 4, &same), [1, 11, 21, 31]);
        assert_eq!(starts(1, 9, &same), [1, 11, 21, 31], "no more than segments");
        assert_eq!(starts(1, 0, &same), [1], "one at least");
        assert_eq!(starts(15, 2, &same), [15, 21], "from within one");
        assert_eq!(starts(40, 2, &same), [40], "from the last");
        assert_eq!(starts(1, 2, &[(1, 1), (2, 2), (4, 4), (8, 8)]), [1, 8]);
        assert_eq!(starts(1, 2, &[(1, 8), (8, 0), (8, 8)]), [1, 8], "one of them is empty");
        assert_eq!(starts(1, 2, &[]), [1], "nothing is there");
    }
}
