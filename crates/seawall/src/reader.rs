//! Reading: lazily, in order, verified; beside a running writer too. A reader never changes a file.

use crate::asked;
use crate::codec::Stored;
use crate::core::Core;
use crate::damage::{AtomicSet, Salvaged};
use crate::directory::{is_gone, open_existing};
use crate::follow::{Follower, Source};
use crate::live::read_live;
use crate::lookup::Lookup;
use crate::survey::survey;
use crate::walk::{Event, Found, Walk};
use crate::{Codec, CodecId, Damage, Error, Lsn, MessagePack, Options, Raw, Result, SegmentId};
use seawall_format::{Live, RecordType, frame, next_lsn};
use seawall_io::{Storage, SystemClock};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How often a reader starts over because the writer moved on under it, before it believes its
/// eyes.
const ATTEMPTS: u32 = 8;

/// A log opened for reading, without its lock: any number, beside one writer.
///
/// A reader goes no further than the last writer of this boot said is durable, also when that
/// writer was killed: what lies behind may be gone after a power cut, and the next open decides on
/// it. On a log that had no writer since the machine started, it goes to the end of the valid
/// records.
///
/// # Examples
///
/// ```
/// use seawall::{Log, LogReader, Lsn};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-read-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// log.append(&7)?;
/// let reader: LogReader<u32> = LogReader::open(&folder)?;
/// let found: Vec<_> = reader.read_from(Lsn::FIRST)?.collect::<Result<_, _>>()?;
/// assert_eq!(found, [(Lsn::FIRST, 7)]);
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LogReader<T: ?Sized, C = MessagePack> {
    storage: Arc<dyn Storage>,
    record_type: RecordType,
    /// The highest schema number that can be read.
    schema: u32,
    skip_damaged: bool,
    lookup: Lookup,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C: Codec<T>> LogReader<T, C> {
    /// Opens the log in the directory `path` for reading.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::NotALog`], [`Error::Unsupported`]; [`Error::Mismatch`] if it is not
    /// a log of such records: another codec or type name, a higher schema number. A reader that is
    /// overtaken by a writer with a higher one gets that error when it comes to its records.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(open_existing(path.as_ref())?)
    }

    /// Opens the log that another kind of storage holds.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`].
    pub fn open_in(storage: Arc<dyn Storage>) -> Result<Self> {
        Self::open_with(&Options::new(), storage)
    }

    pub(crate) fn open_with(options: &Options, storage: Arc<dyn Storage>) -> Result<Self> {
        let asked = options.record_type::<T, C>()?;
        let reader = Self::open_unchecked(storage, asked.clone())?;
        asked::check(&reader.record_type, &asked)?;
        Ok(reader)
    }

    fn open_unchecked(storage: Arc<dyn Storage>, asked: RecordType) -> Result<Self> {
        let found = survey(&storage, read_live(&*storage)?.as_ref())?;
        let manifest = found.manifest.map(|manifest| manifest.record_type);
        let header = found.chain.last().map(|link| link.segment.header.record_type.clone());
        let schema = asked.schema;
        // A log without either has no record to decode.
        let record_type = manifest.or(header).unwrap_or(asked);
        let lookup = Lookup::new(storage.clone());
        let (skip_damaged, record) = (false, PhantomData);
        Ok(Self { storage, record_type, schema, skip_damaged, lookup, record })
    }

    /// Whether to go on behind damage, and what the device cannot read, after an error that names
    /// it: what is delivered then is intact, but not all there was. [`Record::set`] tells which
    /// records are parts of a broken atomic set.
    #[must_use]
    pub fn skip_damaged(mut self, skip: bool) -> Self {
        self.skip_damaged = skip;
        self
    }

    /// The first record that was not given up by [`truncate_before`](crate::Log::truncate_before),
    /// or would be if there were any.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], [`Error::NotALog`].
    pub fn oldest(&self) -> Result<Lsn> {
        let found = survey(&self.storage, read_live(&*self.storage)?.as_ref())?;
        let base = found.chain.first().map(|link| link.segment.header.base);
        let stated = found.manifest.map(|manifest| manifest.oldest_base);
        Ok(stated.or(base).unwrap_or(Lsn::FIRST))
    }

    /// The records from `from` on.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if `from` was truncated away. [`Error::Io`], [`Error::NotALog`]. Damage
    /// is an error of the iterator, where it is, and so is [`Error::Rewound`] if records that it
    /// delivered are cut off meanwhile.
    pub fn read_from(&self, from: Lsn) -> Result<Entries<T, C>> {
        Ok(Entries::new(self.cursor(from)?, self.schema))
    }

    /// The record with this number, verified; `None` if that is behind the last record that a
    /// reader may see. It is as [`Log::get`](crate::Log::get), and asks how far the log is durable
    /// each time.
    ///
    /// # Errors
    ///
    /// As [`Log::get`](crate::Log::get).
    pub fn get(&self, lsn: Lsn) -> Result<Option<C::Item>> {
        let found = self.lookup.get(lsn, || read_live(&*self.storage))?;
        let decode = |(schema, payload): (u32, Vec<u8>)| {
            Stored { lsn, schema, payload: &payload }.decode::<T, C>(self.schema)
        };
        found.map(decode).transpose()
    }

    /// The records from `from` on, and those that are yet to come, as they become durable.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from).
    pub fn follow(&self, from: Lsn) -> Result<Follower<T, C>> {
        let clock = Arc::new(SystemClock::new());
        let source = Source::Elsewhere(self.storage.clone(), clock);
        Ok(Follower::new(source, self.read_from(from)?))
    }

    /// The same as [`read_from`](Self::read_from), lending each record's bytes instead of decoding.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from).
    pub fn cursor(&self, from: Lsn) -> Result<Cursor> {
        let storage = self.storage.clone();
        Cursor::new(storage, from, self.skip_damaged)
    }
}

impl LogReader<[u8], Raw> {
    /// Opens a log of any codec, type and schema, to read the bytes of its records.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open`], but for what the records are.
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_any_in(open_existing(path.as_ref())?)
    }

    /// Opens the log of any codec, type and schema that another kind of storage holds.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open_any`].
    pub fn open_any_in(storage: Arc<dyn Storage>) -> Result<Self> {
        let any = RecordType { schema: u32::MAX, ..RecordType::of(CodecId::Raw) };
        Self::open_unchecked(storage, any)
    }
}

impl<T: ?Sized, C> LogReader<T, C> {
    /// What the payloads are.
    #[must_use]
    pub fn codec(&self) -> CodecId {
        self.record_type.codec
    }

    /// What the records are called; empty if nobody ever said.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.record_type.name
    }

    /// The highest schema number of the log's records, as it was opened; older ones have their own,
    /// see [`Record::schema`].
    #[must_use]
    pub fn schema(&self) -> u32 {
        self.record_type.schema
    }
}

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
    live: Option<Live>,
    /// The writer, if it is in this process: `live` is its word then.
    writer: Option<Arc<Core>>,
    walk: Walk,
    next: Lsn,
    /// The segment where the record before that was read.
    read_in: Option<SegmentId>,
    skip_damaged: bool,
    attempts: u32,
    batch: Option<Place>,
    queue: VecDeque<Queued>,
    finished: bool,
}

/// A walk from record `from` on; refused if that was pruned, or if the records before it, which
/// were read in segment `read_in`, were cut off since and others have their numbers.
fn walk_from(
    storage: &Arc<dyn Storage>,
    live: Option<&Live>,
    (from, read_in): (Lsn, Option<SegmentId>),
) -> Result<Walk> {
    let found = survey(storage, live)?;
    let oldest = found.manifest.as_ref().map(|manifest| manifest.oldest_base);
    if let Some(oldest) = oldest.filter(|oldest| from < *oldest) {
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
        None => Ok(Walk::new(&found, Some(from))),
    }
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

#[derive(Debug)]
enum Queued {
    Record(Salvaged),
    Damage(Damage),
    End,
}

/// What [`Cursor::find`] found: a record in the walk's bytes.
struct Here {
    lsn: Lsn,
    payload: Range<usize>,
    time_us: u64,
    goes_on: bool,
    set: AtomicSet,
}

impl Cursor {
    fn new(storage: Arc<dyn Storage>, from: Lsn, skip_damaged: bool) -> Result<Self> {
        let live = read_live(&*storage)?;
        let mut found = Self::start(storage, live, from)?;
        found.skip_damaged = skip_damaged;
        found.walk = found.walk.around_unreadable(skip_damaged);
        Ok(found)
    }

    pub(crate) fn beside_writer(core: &Arc<Core>, from: Lsn) -> Result<Self> {
        core.process.check()?;
        let mut found = Self::start(core.storage.clone(), Some(core.live()), from)?;
        found.writer = Some(core.clone());
        Ok(found)
    }

    fn start(storage: Arc<dyn Storage>, live: Option<Live>, from: Lsn) -> Result<Self> {
        let walk = walk_from(&storage, live.as_ref(), (from, None))?;
        Ok(Self {
            storage,
            live,
            writer: None,
            walk,
            next: from,
            read_in: None,
            skip_damaged: false,
            attempts: 0,
            batch: None,
            queue: VecDeque::new(),
            finished: false,
        })
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`] names records that are lost; the cursor ends there, or goes on behind
    /// if it was told to skip damage. [`Error::Io`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        let found = self.find();
        if found.is_err() && !self.skip_damaged {
            self.finished = true;
        }
        let Some(here) = found? else { return Ok(None) };
        (self.next, self.read_in) = (here.lsn.next(), self.walk.segment());
        let payload = self.walk.bytes().get(here.payload).expect("the walk holds its batch");
        let Here { lsn, time_us, goes_on, set, .. } = here;
        let schema = self.walk.schema();
        Ok(Some(Record { lsn, payload, time_us, goes_on, set, schema }))
    }

    fn find(&mut self) -> Result<Option<Here>> {
        while !self.finished {
            if let Some(here) = self.next_in_batch() {
                return Ok(Some(here));
            }
            match self.queue.pop_front() {
                Some(Queued::Damage(damage)) => return Err(Error::Damaged(Box::new(damage))),
                Some(Queued::Record(Salvaged { lsn, payload, goes_on, set })) => {
                    if lsn >= self.next {
                        return Ok(Some(Here { lsn, payload, time_us: 0, goes_on, set }));
                    }
                    continue;
                }
                Some(Queued::End) => {
                    self.finished = true;
                    continue;
                }
                None => {}
            }
            match self.walk.step() {
                Ok(Event::Batch(found)) => self.enter(&found),
                Ok(Event::Damage(damages, salvaged)) => self.meet(damages, salvaged)?,
                Ok(Event::End(end)) => {
                    self.queue.extend(end.damage.into_iter().map(Queued::Damage));
                    self.queue.push_back(Queued::End);
                }
                Err(error) => self.lose_file(error)?,
            }
        }
        Ok(None)
    }

    fn enter(&mut self, found: &Found) {
        if found.header.is_void && found.last >= self.next {
            // Nobody will ever read them: who waits for what comes next waits for what follows.
            (self.next, self.read_in) = (found.last.next(), self.walk.segment());
        } else if found.last >= self.next {
            self.batch = Some(Place {
                body: found.body.clone(),
                position: 0,
                lsn: found.header.first,
                last: found.last,
                time_us: found.header.time_us,
                set: found.set,
            });
        }
    }

    fn next_in_batch(&mut self) -> Option<Here> {
        while let Some(place) = &mut self.batch {
            let body = self.walk.bytes().get(place.body.clone());
            let found = body.and_then(|body| frame::read(body, place.position, place.lsn));
            let Some((record, behind)) = found.filter(|_| place.lsn <= place.last) else {
                self.batch = None;
                break;
            };
            let start = place.body.start + place.position + frame::HEADER_SIZE;
            let (lsn, goes_on) = (record.lsn, record.goes_on);
            let payload = start..start + record.payload.len();
            (place.position, place.lsn) = (behind, place.lsn.next());
            if lsn >= self.next {
                let (time_us, set) = (place.time_us, place.set);
                return Some(Here { lsn, payload, time_us, goes_on, set });
            }
        }
        None
    }

    /// A file that vanished was pruned: the walk starts over, or says that its place is gone.
    fn lose_file(&mut self, error: Error) -> Result<()> {
        if !is_gone(&error) || self.attempts == ATTEMPTS {
            self.finished = true;
            return Err(error);
        }
        self.attempts += 1;
        let live = self.word()?;
        let started = self.start_over(live);
        self.finished = started.is_err();
        started
    }

    /// A new walk from where this one is.
    fn start_over(&mut self, live: Option<Live>) -> Result<()> {
        let walk = walk_from(&self.storage, live.as_ref(), (self.next, self.read_in))?;
        (self.walk, self.live) = (walk.around_unreadable(self.skip_damaged), live);
        Ok(())
    }

    /// What the writer says now; one in this process is asked between two batches, when no cut is
    /// under way.
    fn word(&self) -> Result<Option<Live>> {
        let Some(core) = &self.writer else { return read_live(&*self.storage) };
        // A log that is closed or poisoned is cut no more.
        let _ = core.between_batches(|_, _| Ok(()));
        Ok(Some(core.live()))
    }

    /// Damage, unless the writer moved on meanwhile: then the walk starts over where it was (R16).
    fn meet(&mut self, damages: Vec<Damage>, salvaged: Vec<Salvaged>) -> Result<()> {
        let live = self.word()?;
        if live != self.live && self.attempts < ATTEMPTS {
            self.attempts += 1;
            return self.start_over(live);
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
    /// What the writer said last.
    pub(crate) fn live(&self) -> Option<Live> {
        self.live
    }

    /// The record that comes next.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.next
    }

    /// Goes on behind what was the end, as far as the writer's word `live` goes now.
    ///
    /// # Errors
    ///
    /// [`Error::Rewound`] if records that were read are gone.
    pub(crate) fn go_on(&mut self, live: Option<Live>) -> Result<()> {
        if live.is_some() && live == self.live {
            return Ok(());
        }
        if let Some(live) = &live {
            let next = next_lsn(live.durable);
            if next < self.next {
                return Err(Error::Rewound { next });
            }
        }
        (self.finished, self.attempts) = (false, 0);
        self.queue.clear();
        if live.as_ref().is_some_and(|live| self.walk.extend(live)) {
            self.live = live;
            return Ok(());
        }
        self.start_over(live)
    }
}

/// The records of a log, decoded: each `Ok((lsn, record))`, or the error where reading ends.
#[derive(Debug)]
pub struct Entries<T: ?Sized, C = MessagePack> {
    cursor: Cursor,
    /// The highest schema number that can be read.
    schema: u32,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C: Codec<T>> Entries<T, C> {
    pub(crate) fn new(cursor: Cursor, schema: u32) -> Self {
        Self { cursor, schema, record: PhantomData }
    }
}

impl<T: ?Sized, C> Entries<T, C> {
    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
}

impl<T: ?Sized, C: Codec<T>> Iterator for Entries<T, C> {
    type Item = Result<(Lsn, C::Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.cursor.next_record().transpose()?;
        Some(record.and_then(|record| {
            let Record { lsn, schema, payload, .. } = record;
            Ok((lsn, Stored { lsn, schema, payload }.decode::<T, C>(self.schema)?))
        }))
    }
}
