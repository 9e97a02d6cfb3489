//! The log as its users see it: open, append, read, close.

use crate::base::codec::{Codec, MessagePack, Stored};
use crate::base::error::{Error, Result};
use crate::base::local_writer::LocalWriter;
use crate::base::options::Options;
use crate::base::retention::RetentionState;
use crate::files::directory::open_or_create;
use crate::files::live::Watermark;
use crate::read::cursor::Cursor;
use crate::read::entries::Records;
use crate::read::follower::{Follower, NewRecords};
use crate::read::lookup::{FoundRecord, Lookup};
use crate::read::record_id::RecordId;
use crate::recover::report::Recovery;
use crate::write::coordinator::Coordinator;
use crate::write::group_commit::{Position, WaitFor};
use crate::write::record_set::{InlineRecord, RecordSet};
use seawall_format::{Layout, LogId, Lsn};
use seawall_io::Storage;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A write-ahead log of records of type `T`.
///
/// One handle writes; it is `Send` and `Sync`, and threads that append at the same time share the
/// device's syncs. Dropping it closes it as [`close`](Log::close) does, and reports no errors. For
/// records that are bytes use `Log<[u8], Raw>` ([`Raw`](crate::Raw)): serde stores a `Vec<u8>` as
/// an array of numbers.
/// In a child made by `fork` each call that would read, write or wait is [`Error::Forked`], and
/// dropping it writes nothing.
///
/// # Examples
///
/// ```
/// use seawall::Log;
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-log-{}", std::process::id()));
/// let log: Log<String> = Log::open(&folder)?; // creates or opens; recovery happens here
/// let lsn = log.append(&"transfer 10 from A to B".to_owned())?; // returns when durable
/// drop(log);
///
/// let log: Log<String> = Log::open(&folder)?;
/// assert_eq!(log.recovery().last, Some(lsn));
/// for entry in log.read_from(log.replay_start())? {
///     let (lsn, event) = entry?;
///     println!("{lsn}: {event}");
/// }
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Log<T: ?Sized, C = MessagePack> {
    coordinator: Arc<Coordinator>,
    recovery: Recovery,
    lookup: Lookup,
    /// The schema number of what is appended: the highest there is.
    schema: u32,
    layout: Layout,
    is_closed: bool,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C: Codec<T>> Log<T, C> {
    /// Opens the log in the directory `path`, or creates it, as [`Options::new`] says.
    ///
    /// Whatever a crash left is judged here: [`recovery`](Log::recovery) tells.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another handle writes this log; [`Error::Damaged`] if records that
    /// were durable are missing (reading around the damage still works, with
    /// [`LogReader`](crate::LogReader)); [`Error::NotALog`], [`Error::Unsupported`] and
    /// [`Error::Mismatch`] if this is not a log of such records: another codec or type name, a
    /// higher schema number; [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    pub(crate) fn open_with(options: &Options, storage: Arc<dyn Storage>) -> Result<Self> {
        let requested = options.record_type::<T, C>()?;
        let schema = requested.schema;
        let (mut writer, mut recovery, level) =
            crate::recover::open::open(options, storage, requested)?;
        if recovery.damage.is_empty() {
            writer.retain()?;
        } else {
            // While something is damaged nothing goes but by hand.
            writer.retained = RetentionState::new(None);
        }
        let layout = writer.manifest.content.layout;
        let oldest = writer.manifest.content.oldest_base;
        recovery.first = recovery.first.map(|first| first.max(oldest));
        recovery.first = recovery.first.filter(|first| Some(*first) <= recovery.last);
        // What was found at open is W, not `Confirmed`, unless this open wrote it anew (R9): and
        // every open does, as the close of the manifest or as the base of a new segment.
        let coordinator = Arc::new(Coordinator::new(options, writer, recovery.last, level));
        let lookup = Lookup::new(coordinator.storage.clone());
        let record = PhantomData;
        Ok(Self { coordinator, recovery, lookup, schema, layout, is_closed: false, record })
    }

    /// Appends a record and returns its number once it is durable, as the log's level says.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] and [`Error::Encode`] leave the log as it was. [`Error::Poisoned`]
    /// ends it: whether this record survived is known only after reopening.
    pub fn append(&self, record: &T) -> Result<Lsn> {
        let place = self.enqueue(record, self.coordinator.goal().is_some())?;
        self.wait_for_level(place)
    }

    /// Appends records as one atomic set and returns the numbers of the first and the last:
    /// after a crash all of them are there, or none.
    ///
    /// # Errors
    ///
    /// As [`append`](Log::append); the whole set must fit in one batch of 8 MiB, and a set of no
    /// records is [`Error::InvalidOption`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-set-{}", std::process::id()));
    /// let log: seawall::Log<u32> = seawall::Log::open(&folder)?;
    /// let numbers = log.append_batch([&10, &20, &30])?;
    /// assert_eq!((numbers.start().get(), numbers.end().get()), (1, 3));
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_batch<'a>(
        &self,
        records: impl IntoIterator<Item = &'a T>,
    ) -> Result<RangeInclusive<Lsn>>
    where
        T: 'a,
    {
        let (place, others) = RecordSet::with_empty(|set| {
            records.into_iter().try_for_each(|record| set.push::<T, C>(record))?;
            let Some(others) = set.count().checked_sub(1) else {
                return Err(Error::InvalidOption { why: "a set of no records".to_owned() });
            };
            Ok((self.coordinator.enqueue(set, self.coordinator.goal().is_some())?, others))
        })?;
        let last = self.wait_for_level(place)?;
        let others = u64::try_from(others).expect("fits in 64 bits");
        let first = Lsn::new(last.get() - others).expect("a set is numbered from 1");
        Ok(first..=last)
    }

    /// Appends a record without waiting until it is durable.
    ///
    /// The call blocks its thread while the open batch is full: with 2 MiB, or the bytes of
    /// [`Options::buffered`], in memory behind a batch under way, it waits for the device. It also
    /// blocks for the file of the next segment, where that was not made ahead, and beside
    /// [`checkpoint`](Log::checkpoint) and truncations. In an async program, bound how much is
    /// submitted and not awaited, or call it where blocking is allowed (`spawn_blocking` in tokio).
    ///
    /// The record has its number and its place in the order at once. The ticket waits, or is
    /// awaited on any runtime; dropped, the record is written all the same, within the bounds of
    /// [`Level::Buffered`](crate::Level).
    ///
    /// # Errors
    ///
    /// As [`append`](Log::append).
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-sub-{}", std::process::id()));
    /// let log: seawall::Log<u32> = seawall::Log::open(&folder)?;
    /// let (one, two) = (log.submit(&1)?, log.submit(&2)?);
    /// assert_eq!(two.wait()?.get(), 2); // durable, and so is everything before
    /// assert_eq!(one.wait()?.get(), 1);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn submit(&self, record: &T) -> Result<Ticket> {
        let place = self.enqueue(record, false)?;
        let waits_for = self.coordinator.goal().map(|goal| (self.coordinator.clone(), goal));
        Ok(Ticket { place, waits_for, number: None })
    }

    /// The durable records from `from` on, as of now: in order, verified, one at a time.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. Damage is an error of the iterator, where it is, and so is
    /// [`Error::Rewound`] if records that it delivered are cut off meanwhile.
    pub fn read_from(&self, from: Lsn) -> Result<Records<T, C>> {
        let cursor = Cursor::beside_writer(&self.local_writer(), from)?;
        Ok(Records::new(cursor, self.schema))
    }

    /// The record with this number, verified; `None` if that is behind the last durable one.
    ///
    /// A record that is intact is found whatever became of its neighbours. The log remembers where
    /// batches stand, one place for each 64 KiB of the segments that it was asked for last: the
    /// first record of a segment costs a walk there, the next one near it a short one. Any number
    /// of threads may ask at once, and appends do not wait for them.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if it was truncated away before the log's first record; [`Error::Damaged`]
    /// if it is lost, with a range that names it: in a sound log too, where a repair gave it up
    /// ([`Corruption::GivenUp`](crate::damage::Corruption)); [`Error::Decode`] if it is no record
    /// of this type; [`Error::Io`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-get-{}", std::process::id()));
    /// let log: seawall::Log<u32> = seawall::Log::open(&folder)?;
    /// let lsn = log.append(&7)?;
    /// assert_eq!(log.get(lsn)?, Some(7));
    /// assert_eq!(log.get(lsn.next())?, None);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, lsn: Lsn) -> Result<Option<C::Item>> {
        let found = self.lookup.get(lsn, || Ok(Some(Watermark::own(self.coordinator.live()))))?;
        let decode = |FoundRecord { schema, payload, .. }: FoundRecord| {
            Stored { lsn, schema, payload: &payload }.decode::<T, C>(self.schema)
        };
        found.map(decode).transpose()
    }

    /// The durable records from `from` on, and those that are yet to come.
    ///
    /// `from` is the number of a record that was appended or submitted, or the next one. Where that
    /// is not durable yet, the follower waits for it.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Log::read_from), and [`Error::BeyondEnd`] if `from` comes later than the
    /// next record: a program that kept this position has seen records which this log does not
    /// have.
    pub fn follow(&self, from: Lsn) -> Result<Follower<T, C>> {
        self.coordinator.check_position(from)?;
        let new_records = NewRecords::InProcess(self.local_writer());
        Ok(Follower::new(new_records, self.read_from(from)?))
    }

    fn local_writer(&self) -> Arc<dyn LocalWriter> {
        self.coordinator.clone()
    }

    /// Takes a record into the open batch; `has_waiter` if its caller waits for it.
    fn enqueue(&self, record: &T, has_waiter: bool) -> Result<Position> {
        if let Some(mut inline) = C::payload_of(record).and_then(InlineRecord::new) {
            return self.coordinator.enqueue(&mut inline, has_waiter);
        }
        RecordSet::with_empty(|set| {
            set.push::<T, C>(record)?;
            self.coordinator.enqueue(set, has_waiter)
        })
    }

    fn wait_for_level(&self, place: Position) -> Result<Lsn> {
        match self.coordinator.goal() {
            Some(goal) => self.coordinator.wait_until(place, goal),
            None => Ok(place.lsn),
        }
    }
}

impl<T: ?Sized, C> Log<T, C> {
    /// The log's identity: 64 random bits, drawn when it was created. Copies and salvaged logs have
    /// the same; a log that [`truncate_after`](Log::truncate_after) emptied keeps it.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.coordinator.live().log
    }

    /// Which record has this number now; `None` behind the last durable one. See [`RecordId`].
    ///
    /// # Errors
    ///
    /// As [`get`](Log::get), except for [`Error::Decode`].
    pub fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>> {
        let found = self.lookup.get(lsn, || Ok(Some(Watermark::own(self.coordinator.live()))))?;
        Ok(found.map(|found| found.id(lsn, self.layout)))
    }

    /// What opening found, and what it did about it.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The last durable record.
    #[must_use]
    pub fn durable(&self) -> Option<Lsn> {
        self.coordinator.durable()
    }

    /// The first record that was not given up, or the next one in a log without records.
    #[must_use]
    pub fn oldest(&self) -> Lsn {
        self.coordinator.bounds().0
    }

    /// Where a program that brings back its state begins to read: the newest checkpoint, or the
    /// oldest record if there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Lsn};
    ///
    /// # let name = format!("seawall-doc-start-{}", std::process::id());
    /// # let folder = std::env::temp_dir().join(name);
    /// let log: Log<u32> = Log::open(&folder)?;
    /// assert_eq!(log.replay_start(), Lsn::FIRST);
    /// log.append(&1)?;
    /// let image = log.append(&100)?; // all that went before, in one record
    /// log.checkpoint(image)?;
    /// drop(log);
    ///
    /// let log: Log<u32> = Log::open(&folder)?;
    /// let found: Vec<_> = log.read_from(log.replay_start())?.collect::<Result<_, _>>()?;
    /// assert_eq!(found, [(image, 100)]);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replay_start(&self) -> Lsn {
        let (oldest, checkpoint) = self.coordinator.bounds();
        checkpoint.unwrap_or(oldest)
    }

    /// What `append` waits for.
    #[must_use]
    pub fn level(&self) -> seawall_format::Level {
        self.coordinator.level
    }

    /// Returns once every record appended so far is durable, with the last of them.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`].
    pub fn flush(&self) -> Result<Option<Lsn>> {
        self.coordinator.wait_for_all(WaitFor::Durable)
    }

    /// Returns once every record appended so far is confirmed: durable, with durable evidence of
    /// that far enough away, so that one fault cannot make it look like a torn write.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`].
    pub fn confirm(&self) -> Result<Option<Lsn>> {
        self.coordinator.wait_for_all(WaitFor::Confirmed)
    }

    /// Notes that nothing before `lsn` is needed any more, durably; the checkpoint before is kept
    /// too. Opening then judges record bodies from there on only; what stands before can be given
    /// up with [`truncate_before`](Log::truncate_before), and is by [`Options::retention`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the log ends before `lsn`; [`Error::Poisoned`] if the device
    /// fails.
    pub fn checkpoint(&self, lsn: Lsn) -> Result<()> {
        self.coordinator.with_exclusive_writer(|writer, _| writer.checkpoint(lsn))
    }

    /// Removes the segments whose records all stand before `lsn`; returns the first record left.
    /// Durable when it returns.
    ///
    /// Whole segments go, so some records before `lsn` may stay.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`] if the device fails.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Lsn> {
        self.coordinator.with_exclusive_writer(|writer, _| writer.truncate_before(lsn))
    }

    /// Gives up every record behind `last`; the next one gets the number behind it. `None` gives up
    /// every record that is left, and the next one gets the number of the [`oldest`](Log::oldest).
    /// Durable when it returns: what was cut off never comes back.
    ///
    /// Checkpoints behind the cut are lowered to it. A call that waits for a record while it is cut
    /// off returns its number: it was durable before.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if the record behind `last` was truncated away with the log's beginning;
    /// [`Error::Io`] if readers in other processes cannot be stopped, as `live` cannot be written:
    /// nothing was truncated. [`Error::Poisoned`] if the device fails later.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-cut-{}", std::process::id()));
    /// let log: seawall::Log<u32> = seawall::Log::open(&folder)?;
    /// let kept = log.append(&1)?;
    /// log.append(&2)?;
    /// log.truncate_after(Some(kept))?;
    /// assert_eq!(log.append(&3)?.get(), 2);
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn truncate_after(&self, last: Option<Lsn>) -> Result<()> {
        self.coordinator.with_exclusive_writer(|writer, commit| {
            // One that was refused leaves the log as it was: it goes on.
            let truncated = writer.truncate_after(last);
            // Where nothing was cut, nothing was written that confirms what is there; and a cut
            // whose last step failed has come to pass.
            if writer.last < commit.durable() {
                commit.truncate(writer.last);
                self.coordinator.note_truncation();
            }
            truncated
        })?
    }

    /// What this handle has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = self.coordinator.counts();
        Stats {
            batches: counts.batches,
            records: counts.records,
            bytes: counts.bytes,
            rolls: counts.rolls,
            marks: counts.marks,
            failovers: counts.failovers,
            live_failures: counts.live_failures,
            pruned: counts.pruned,
            parity_stripes: counts.parity_stripes,
            parity_failures: counts.parity_failures,
        }
    }

    /// Writes what was appended, notes a clean close, and gives the log up.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`] and [`Error::Io`]; the next open will look at the log as after a crash.
    pub fn close(mut self) -> Result<()> {
        self.is_closed = true;
        self.coordinator.close()
    }
}

/// What a handle has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Batches written, one device write and one barrier each.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes that these records take in the segments' files: batches, or lines of text.
    pub bytes: u64,
    /// Ordinary rolls to a new segment.
    pub rolls: u64,
    /// Marks written.
    pub marks: u64,
    /// Failed writes and syncs that the log survived in a new segment.
    pub failovers: u64,
    /// Times that the file `live` could not be written. Readers in other processes then sync what
    /// they show, and miss nothing.
    pub live_failures: u64,
    /// Segments given up at the old end, by [`Log::truncate_before`] and by
    /// [`Options::retention`].
    pub pruned: u64,
    /// Stripes of records that got their parity; see [`Options::parity`].
    pub parity_stripes: u64,
    /// Segments whose parity could not be written to its end, which costs no record: the next open
    /// makes what is missing of the newest ones, [`protect`](crate::Maintenance::build_parity) of
    /// all.
    pub parity_failures: u64,
}

impl<T: ?Sized, C> Drop for Log<T, C> {
    fn drop(&mut self) {
        if !self.is_closed {
            // Nobody is left to hear of it; what was acknowledged is durable already.
            let _ = self.coordinator.close();
        }
    }
}

impl<T: ?Sized, C> fmt::Debug for Log<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, durable) = (self.coordinator.storage.place(), self.durable());
        f.debug_struct("Log")
            .field("place", &place)
            .field("durable", &durable)
            .finish_non_exhaustive()
    }
}

/// A record on its way to the device.
///
/// A future that may be awaited on any runtime: polling does no I/O, a thread of the log does.
#[derive(Debug)]
#[must_use = "a ticket that nobody waits for says nothing of its record"]
pub struct Ticket {
    place: Position,
    /// What there is to wait for, and where.
    waits_for: Option<(Arc<Coordinator>, WaitFor)>,
    /// Its number among the tickets that left a waker.
    number: Option<u64>,
}

impl Clone for Ticket {
    fn clone(&self) -> Self {
        Self { place: self.place, waits_for: self.waits_for.clone(), number: None }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let (Some((coordinator, _)), Some(number)) = (&self.waits_for, self.number) {
            coordinator.forget(self.place, number);
        }
    }
}

impl Ticket {
    /// The record's number.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.place.lsn
    }

    /// Waits as [`Log::append`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`]; [`Error::Closed`] if the log was closed before the record was written.
    pub fn wait(self) -> Result<Lsn> {
        match &self.waits_for {
            Some((coordinator, goal)) => coordinator.wait(self.place, *goal),
            None => Ok(self.place.lsn),
        }
    }
}

impl Future for Ticket {
    type Output = Result<Lsn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Lsn>> {
        let Self { place, waits_for, number } = &mut *self;
        let Some((coordinator, goal)) = waits_for else {
            return Poll::Ready(Ok(place.lsn));
        };
        let Some(found) = coordinator.poll((*place, *goal), number, context.waker()) else {
            return Poll::Pending;
        };
        // What it left, if it is still there, goes with its batch.
        *number = None;
        Poll::Ready(found)
    }
}

impl Options {
    /// Opens the log in the directory `path`, or creates it.
    ///
    /// # Errors
    ///
    /// As [`Log::open`].
    pub fn open<T: ?Sized, C: Codec<T>>(&self, path: impl AsRef<Path>) -> Result<Log<T, C>> {
        let storage = open_or_create(path.as_ref(), self.create)?;
        self.open_in(storage)
    }

    /// Opens the log that another kind of storage holds, or creates it there.
    ///
    /// # Errors
    ///
    /// As [`Log::open`].
    pub fn open_in<T: ?Sized, C: Codec<T>>(&self, storage: Arc<dyn Storage>) -> Result<Log<T, C>> {
        Log::open_with(self, storage)
    }
}

#[cfg(test)]
mod tests;
