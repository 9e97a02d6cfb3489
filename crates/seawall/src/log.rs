//! The public handle of a log: open, append, read, truncate, close.

#[cfg(feature = "encryption")]
mod keys;

use crate::base::codec::{Codec, MessagePack, Stored};
use crate::base::error::log_path::NamesLog;
use crate::base::error::{Error, Result};
use crate::base::options::Options;
use crate::base::retention::RetentionState;
use crate::base::sync::{AtomicU32, Ordering};
use crate::files::directory::open_or_create;
use crate::files::live::LiveSource;
use crate::files::local_writer::LocalWriter;
use crate::files::unlock::Unlocker;
use crate::read::cursor::Cursor;
use crate::read::entries::Records;
use crate::read::follower::{Follower, NewRecords};
use crate::read::lookup::{FoundRecord, Lookup};
use crate::read::record_id::RecordId;
use crate::recover::open::create::check_new;
use crate::recover::report::Recovery;
use crate::write::coordinator::Coordinator;
use crate::write::group_commit::{Position, WaitFor};
use crate::write::record_set::{InlineRecord, RecordSet, Target};
use seawall_format::{LogId, Lsn};
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
/// Only one handle can write to a log. The handle is `Send` and `Sync`, and threads that append
/// concurrently share device syncs. Dropping it closes the log like [`close`](Log::close), but
/// ignores errors. For records that are bytes use `Log<[u8], Raw>` ([`Raw`](crate::Raw)): serde
/// stores a `Vec<u8>` as an array of numbers.
///
/// In a child created by `fork`, every call that would read, write or wait returns
/// [`Error::Forked`], and dropping the handle writes nothing.
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
    /// The schema number of new records: the highest in the log.
    schema: u32,
    target: Target,
    /// 1 once [`close`](Log::close) was called.
    closed: AtomicU32,
    record: PhantomData<fn(&T) -> C>,
}

impl<T: ?Sized, C: Codec<T>> Log<T, C> {
    /// Opens the log in the directory `path`, or creates it, with the defaults of [`Options::new`].
    ///
    /// Opening recovers from a crash; [`recovery`](Log::recovery) reports what was found.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if another handle writes this log; [`Error::Damaged`] if durable records are
    /// missing (a [`LogReader`](crate::LogReader) can still read around the damage);
    /// [`Error::NotALog`] and [`Error::Unsupported`] if the directory holds something else;
    /// [`Error::Mismatch`] if the log has another codec or type name, or a higher schema number;
    /// [`Error::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Options::new().open(path)
    }

    fn open_with(options: &Options, storage: Arc<dyn Storage>) -> Result<Self> {
        let requested = options.record_type::<T, C>()?;
        let schema = requested.schema;
        let unlocker = Arc::new(Unlocker::of(options)?);
        let (mut writer, mut recovery, level) =
            crate::recover::open::open(options, storage, requested, &unlocker)?;
        if recovery.damage.is_empty() {
            writer.retain()?;
        } else {
            // In a damaged log, nothing is removed automatically.
            writer.retained = RetentionState::new(None);
        }
        let (layout, batch_max) = (writer.manifest.content.layout, writer.overhead().plain_max());
        let target = Target { layout, batch_max };
        let oldest = writer.manifest.content.oldest_base;
        recovery.first = recovery.first.map(|first| first.max(oldest));
        recovery.first = recovery.first.filter(|first| Some(*first) <= recovery.last);
        // Every record found counts as confirmed: this open wrote the evidence itself, as the clean
        // close in the manifest or as the base of a new segment (R9).
        let coordinator =
            Arc::new(Coordinator::new(options, writer, (recovery.last, level), unlocker));
        let lookup = Lookup::new(coordinator.files.clone());
        let (closed, record) = (AtomicU32::new(0), PhantomData);
        Ok(Self { coordinator, recovery, lookup, schema, target, closed, record })
    }

    /// Appends a record and returns its LSN once the record is as durable as the log's level
    /// requires.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] and [`Error::Encode`] leave the log unchanged. After
    /// [`Error::Poisoned`], reopen the log to learn whether this record survived.
    pub fn append(&self, record: &T) -> Result<Lsn> {
        let place = self.enqueue(record, self.coordinator.goal().is_some())?;
        self.wait_for_level(place)
    }

    /// Appends records as one atomic set and returns the first and last LSN. After a crash either
    /// all of them exist or none.
    ///
    /// # Errors
    ///
    /// As [`append`](Log::append). The whole set must fit in one batch of 8 MiB; an empty set is
    /// [`Error::InvalidOption`].
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
        let (place, others) = RecordSet::with_empty(self.target, |set| {
            records.into_iter().try_for_each(|record| set.push::<T, C>(record))?;
            let Some(others) = set.count().checked_sub(1) else {
                let why = "an atomic set needs at least one record".to_owned();
                return Err(Error::InvalidOption { log: None, why });
            };
            Ok((self.coordinator.enqueue(set, self.coordinator.goal().is_some())?, others))
        })
        .of_log(self.storage())?;
        let last = self.wait_for_level(place)?;
        let others = u64::try_from(others).expect("fits in 64 bits");
        let first = Lsn::new(last.get() - others).expect("LSNs start at 1");
        Ok(first..=last)
    }

    /// Appends a record without waiting until it is durable.
    ///
    /// The record gets its LSN and its place in the order immediately. The ticket can be waited for
    /// or awaited on any runtime. If it is dropped, the record is still written, within the limits
    /// of [`Level::Buffered`](crate::Level).
    ///
    /// The call blocks while the open batch is full, with 2 MiB (a stream: 768 KiB) or the bytes of
    /// [`Options::buffered`], until the device has written the batch before it. The call also
    /// blocks while a segment file that was not preallocated is created, and during
    /// [`checkpoint`](Log::checkpoint) and truncations. In an async program use
    /// [`try_submit`](Log::try_submit), or call this where blocking is allowed (`spawn_blocking` in
    /// tokio). If the system cannot start a thread for the log, the call writes the record itself.
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
    #[inline]
    pub fn submit(&self, record: &T) -> Result<Ticket> {
        Ok(self.ticket(self.enqueue(record, false)?))
    }

    /// Appends a record like [`submit`](Log::submit), but returns an error where `submit` would
    /// block. For use on the threads of an async runtime.
    ///
    /// The call does no I/O and waits for none. After [`Error::WouldBlock`], a thread of the log
    /// writes the full batch or makes space for the record: await an earlier ticket or pause, then
    /// retry. Very rarely the error only means that another thread had the log's lock.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`]; also [`Error::DiskFull`], if the device had no space for an earlier
    /// record that got `WouldBlock`. In both cases retry. [`Error::Io`] if the system cannot start
    /// a thread that writes the record. Otherwise as [`append`](Log::append). Each leaves the log
    /// unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Error, Log, Ticket};
    /// use std::collections::VecDeque;
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-try-{}", std::process::id()));
    /// let log: Log<String> = Log::open(&folder)?;
    /// let mut tickets = VecDeque::<Ticket>::new();
    /// for number in 0..100 {
    ///     let record = format!("{number}: {}", "x".repeat(100_000));
    ///     let ticket = loop {
    ///         match log.try_submit(&record) {
    ///             Err(Error::WouldBlock { .. }) => match tickets.pop_front() {
    ///                 // In a task: `earlier.await?`, and a pause of the runtime without a ticket.
    ///                 Some(earlier) => drop(earlier.wait()?),
    ///                 None => std::thread::yield_now(),
    ///             },
    ///             done => break done?,
    ///         }
    ///     };
    ///     tickets.push_back(ticket);
    /// }
    /// assert_eq!(log.flush()?.map(|last| last.get()), Some(100));
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_submit(&self, record: &T) -> Result<Ticket> {
        let place = match self.inline(record) {
            Some(mut inline) => self.coordinator.try_enqueue(&mut inline),
            None => RecordSet::with_empty(self.target, |set| {
                set.push::<T, C>(record)?;
                self.coordinator.try_enqueue(set)
            }),
        };
        Ok(self.ticket(place.of_log(self.storage())?))
    }

    #[inline]
    fn ticket(&self, place: Position) -> Ticket {
        let goal = self.coordinator.goal_at(place);
        let waits_for = goal.map(|goal| (self.coordinator.clone(), goal));
        Ticket { place, waits_for, number: None }
    }

    /// Reads the durable records from `from` on, as of now, in order and verified.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]. The iterator returns damage, and a record that it cannot decode, as an error
    /// at its place, and [`Error::Rewound`] if records that it returned are truncated meanwhile.
    /// After an error it ends.
    pub fn read_from(&self, from: Lsn) -> Result<Records<T, C>> {
        Ok(Records::new(self.cursor(from)?, self.schema))
    }

    /// Like [`read_from`](Self::read_from), but lends each record's bytes instead of decoding them.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Self::read_from).
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall::{Log, Lsn, Raw};
    ///
    /// # let folder = std::env::temp_dir().join(format!("seawall-doc-lnd-{}", std::process::id()));
    /// let log: Log<[u8], Raw> = Log::open(&folder)?;
    /// log.append(b"seven")?;
    /// let mut cursor = log.cursor(Lsn::FIRST)?;
    /// while let Some(record) = cursor.next_record()? {
    ///     assert_eq!(record.payload, b"seven");
    /// }
    /// # drop(log); std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cursor(&self, from: Lsn) -> Result<Cursor> {
        Cursor::beside_writer(&self.local_writer(), from).of_log(self.storage())
    }

    /// Reads and verifies the record at `lsn`; `None` after the last durable one.
    ///
    /// An intact record is found even if its neighbours are damaged. The log caches one batch
    /// offset per 64 KiB of recently used segments: the first lookup in a segment scans it, a later
    /// one nearby is short. Any number of threads can look up records, without delaying appends.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if the record was truncated at the start of the log; [`Error::Damaged`]
    /// with its range if it is lost, also in a repaired log that gave it up
    /// ([`Corruption::GivenUp`](crate::damage::Corruption)); [`Error::Decode`] if it is not a
    /// record of this type; [`Error::Io`].
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
        let found = self.lookup.get(lsn, LiveSource::InProcess(&self.local_writer()));
        let decode = |FoundRecord { schema, payload, .. }: FoundRecord| {
            Stored { lsn, schema, payload: &payload }.decode::<T, C>(self.schema)
        };
        found.and_then(|found| found.map(decode).transpose()).of_log(self.storage())
    }

    /// Follows the log: the durable records from `from` on, then new ones.
    ///
    /// `from` is the LSN of a record that was appended or submitted, or the next one. If that
    /// record is not durable yet, the follower waits for it.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Log::read_from), and [`Error::BeyondEnd`] if `from` is after the next
    /// record: the program that kept this position has seen records that this log does not have.
    pub fn follow(&self, from: Lsn) -> Result<Follower<T, C>> {
        let new_records = NewRecords::InProcess(self.local_writer());
        let truncations = new_records.truncations();
        self.coordinator.check_position(from).of_log(self.storage())?;
        Ok(Follower::new(new_records, self.read_from(from)?, truncations))
    }

    /// Enqueues a record; `has_waiter` if the caller waits for it.
    #[inline]
    fn enqueue(&self, record: &T, has_waiter: bool) -> Result<Position> {
        let place = match self.inline(record) {
            Some(mut inline) => self.coordinator.enqueue(&mut inline, has_waiter),
            None => RecordSet::with_empty(self.target, |set| {
                set.push::<T, C>(record)?;
                self.coordinator.enqueue(set, has_waiter)
            }),
        };
        place.of_log(self.storage())
    }

    #[inline]
    fn inline<'a>(&self, record: &'a T) -> Option<InlineRecord<'a>> {
        InlineRecord::new(C::payload_of(record)?, self.target)
    }

    fn wait_for_level(&self, place: Position) -> Result<Lsn> {
        match self.coordinator.goal_at(place) {
            Some(goal) => self.coordinator.wait_until(place, goal).of_log(self.storage()),
            None => Ok(place.lsn),
        }
    }
}

impl<T: ?Sized, C> Log<T, C> {
    /// The log's id: 64 random bits, chosen when it was created. Backups and salvaged logs keep the
    /// id, and so does a log that [`truncate_after`](Log::truncate_after) emptied.
    #[must_use]
    pub fn id(&self) -> LogId {
        self.coordinator.id
    }

    /// The identity of the record that has this LSN now; `None` after the last durable one. See
    /// [`RecordId`].
    ///
    /// # Errors
    ///
    /// As [`get`](Log::get), except for [`Error::Decode`].
    pub fn record_id(&self, lsn: Lsn) -> Result<Option<RecordId>> {
        let found = self.lookup.get(lsn, LiveSource::InProcess(&self.local_writer()));
        Ok(found.of_log(self.storage())?.map(|found| found.id(lsn, self.target.layout)))
    }

    fn storage(&self) -> &dyn Storage {
        &*self.coordinator.files
    }

    /// The storage that the log was opened in.
    #[cfg(feature = "json")]
    pub(crate) fn shared_storage(&self) -> Arc<dyn Storage> {
        self.coordinator.files.storage.clone()
    }

    fn local_writer(&self) -> Arc<dyn LocalWriter> {
        self.coordinator.clone()
    }

    /// The report of the recovery at open.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The last durable record.
    #[must_use]
    pub fn durable(&self) -> Option<Lsn> {
        self.coordinator.durable()
    }

    /// The first record of the log; the next LSN if the log is empty.
    #[must_use]
    pub fn oldest(&self) -> Lsn {
        self.coordinator.bounds().0
    }

    /// The LSN at which replay starts: the newest checkpoint, or the oldest record without one.
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
        // Earlier versions stored checkpoints below the oldest record, too.
        checkpoint.map_or(oldest, |lsn| lsn.max(oldest))
    }

    /// The level at which `append` acknowledges a record.
    #[must_use]
    pub fn level(&self) -> seawall_format::Level {
        self.coordinator.level
    }

    /// Waits until every record appended so far is durable; returns the last of them.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`].
    pub fn flush(&self) -> Result<Option<Lsn>> {
        self.coordinator.wait_for_all(WaitFor::Durable).of_log(self.storage())
    }

    /// Waits until every record appended so far is confirmed: durable, with durable evidence in
    /// another place, so that a single fault cannot make it look like a torn write.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`].
    pub fn confirm(&self) -> Result<Option<Lsn>> {
        self.coordinator.wait_for_all(WaitFor::Confirmed).of_log(self.storage())
    }

    /// Sets a checkpoint durably: replay needs no record before `lsn`. The previous checkpoint is
    /// kept, too.
    ///
    /// Opening then verifies record contents only from the checkpoint on.
    /// [`truncate_before`](Log::truncate_before) and [`Options::retention`] can remove earlier
    /// segments.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if the log ends before `lsn`; [`Error::Pruned`] if `lsn` was
    /// truncated at the start of the log; [`Error::Poisoned`] if the device fails.
    pub fn checkpoint(&self, lsn: Lsn) -> Result<()> {
        let done = self
            .coordinator
            .with_removal(|writer, _| writer.checkpoint(lsn).map(|removal| ((), removal)));
        done.of_log(self.storage())
    }

    /// Removes the segments that hold only records before `lsn`, durably; returns the first record
    /// left. Whole segments are removed, so some records before `lsn` may stay.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`] if the device fails.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Lsn> {
        let first = self.coordinator.with_removal(|writer, _| writer.truncate_before(lsn));
        first.of_log(self.storage())
    }

    /// Removes every record after `last`, durably; the next record reuses the LSN after it. With
    /// `None`, removes all records; the next one gets the LSN of the [`oldest`](Log::oldest).
    ///
    /// Removed records never come back. Later checkpoints are lowered to the new end. A call that
    /// is waiting for a removed record returns its LSN: the record was durable before.
    ///
    /// # Errors
    ///
    /// [`Error::Pruned`] if the record after `last` was truncated at the start of the log;
    /// [`Error::Damaged`] if `last` lies in a damaged place, or was lost together with the next
    /// record: give up the lost records as well, or keep them all; [`Error::DiskFull`] if there is
    /// no space for a new segment; and [`Error::Io`] if a file cannot be read, or `live` cannot be
    /// written so that readers in other processes cannot be stopped. Then nothing was truncated.
    /// [`Error::Poisoned`] if the device fails later.
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
        let truncated = self.coordinator.with_removal(|writer, commit| {
            // A refused truncation leaves the log unchanged, and does not poison it.
            let truncated = writer.truncate_after(last);
            // If nothing was removed, nothing was confirmed either. If only the last step failed,
            // the truncation took effect.
            if writer.last < commit.durable() {
                commit.truncate(writer.last);
                self.coordinator.note_truncation();
            }
            Ok(match truncated? {
                Ok(removal) => (Ok(()), removal),
                Err(refused) => (Err(refused), None),
            })
        });
        truncated.of_log(self.storage())?.of_log(self.storage())
    }

    /// Statistics of this handle.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let counts = self.coordinator.counts();
        Stats {
            batches: counts.batches,
            records: counts.records,
            bytes: counts.bytes,
            compressed: counts.compressed,
            plain_bytes: counts.plain_bytes,
            rolls: counts.rolls,
            marks: counts.marks,
            failovers: counts.failovers,
            live_failures: counts.live_failures,
            pruned: counts.pruned,
            reused: counts.reused,
            named_ahead: counts.named_ahead,
            overlapped: counts.overlapped,
            parity_stripes: counts.parity_stripes,
            parity_failures: counts.parity_failures,
        }
    }

    /// Writes everything appended, records the clean close, and releases the log.
    ///
    /// # Errors
    ///
    /// [`Error::Poisoned`] and [`Error::Io`]; the next open then recovers as after a crash.
    pub fn close(self) -> Result<()> {
        self.close_shared()
    }

    /// Closes the log like [`close`](Log::close) for all threads that share the handle, for the C
    /// interface. Calls that write or wait return [`Error::Closed`] from then on, also a second
    /// close; a record is in the log if its append returned its LSN.
    ///
    /// # Errors
    ///
    /// As [`close`](Log::close), and [`Error::Closed`].
    #[doc(hidden)]
    pub fn close_shared(&self) -> Result<()> {
        let closed = match self.closed.swap(1, Ordering::AcqRel) {
            0 => self.coordinator.close(),
            _ => Err(Error::Closed { log: None }),
        };
        closed.of_log(self.storage())
    }
}

/// Statistics of a handle since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Batches written, with one device write and one sync each.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes that these records take in the files of the segments: batches, or lines of text.
    pub bytes: u64,
    /// Batches that were compressed; see [`Options::compression`].
    pub compressed: u64,
    /// What `bytes` would be without compression.
    pub plain_bytes: u64,
    /// Ordinary rotations to a new segment.
    pub rolls: u64,
    /// Marks written.
    pub marks: u64,
    /// Failed writes and syncs that the log survived in a new segment.
    pub failovers: u64,
    /// Failed writes of the file `live`. Readers in other processes then sync what they show, and
    /// miss nothing.
    pub live_failures: u64,
    /// Segments removed at the start of the log, by [`Log::truncate_before`] and by
    /// [`Options::retention`].
    pub pruned: u64,
    /// Segments created in files of removed segments; see [`Options::reuse`].
    pub reused: u64,
    /// Rotations to a segment that had its name already; see [`Options::name_ahead`].
    pub named_ahead: u64,
    /// Batches whose write began while another one was in flight; see
    /// [`Options::writes_in_flight`].
    pub overlapped: u64,
    /// Stripes of records with parity; see [`Options::parity`].
    pub parity_stripes: u64,
    /// Segments whose parity is incomplete because of an error. No record is lost: the next open
    /// completes the newest ones, [`build_parity`](crate::Maintenance::build_parity) all.
    pub parity_failures: u64,
}

impl<T: ?Sized, C> Drop for Log<T, C> {
    fn drop(&mut self) {
        // Drop cannot report an error; acknowledged records are durable already.
        let _ = self.close_shared();
    }
}

impl<T: ?Sized, C> fmt::Debug for Log<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (place, durable) = (self.coordinator.files.place(), self.durable());
        f.debug_struct("Log")
            .field("place", &place)
            .field("durable", &durable)
            .finish_non_exhaustive()
    }
}

/// A submitted record.
///
/// The ticket is a future for any runtime. Polling does no I/O: a thread of the log does it.
#[derive(Debug)]
#[must_use = "an unawaited ticket does not report whether its record became durable"]
pub struct Ticket {
    place: Position,
    /// The goal, and the coordinator to wait at; `None` if there is nothing to wait for.
    waits_for: Option<(Arc<Coordinator>, WaitFor)>,
    /// The ticket's number, once it has registered a waker.
    number: Option<u64>,
}

impl Clone for Ticket {
    fn clone(&self) -> Self {
        Self { place: self.place, waits_for: self.waits_for.clone(), number: None }
    }
}

impl Drop for Ticket {
    #[inline]
    fn drop(&mut self) {
        if let (Some((coordinator, _)), Some(number)) = (&self.waits_for, self.number) {
            coordinator.forget(self.place, number);
        }
    }
}

impl Ticket {
    /// The record's LSN.
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
            Some((coordinator, goal)) => {
                coordinator.wait(self.place, *goal).of_log(&*coordinator.files)
            }
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
        // If the waker is still registered, it is removed with its batch.
        *number = None;
        Poll::Ready(found.of_log(&*coordinator.files))
    }
}

impl Options {
    /// Opens the log in the directory `path`, or creates it.
    ///
    /// # Errors
    ///
    /// As [`Log::open`].
    pub fn open<T: ?Sized, C: Codec<T>>(&self, path: impl AsRef<Path>) -> Result<Log<T, C>> {
        let path = path.as_ref();
        let check = || check_new(self, self.record_type::<T, C>()?);
        self.open_in(open_or_create(path, self.create, check).of_log_at(path)?)
    }

    /// Opens or creates the log in a custom storage.
    ///
    /// # Errors
    ///
    /// As [`Log::open`].
    pub fn open_in<T: ?Sized, C: Codec<T>>(&self, storage: Arc<dyn Storage>) -> Result<Log<T, C>> {
        let log = storage.clone();
        Log::open_with(self, storage).of_log(&*log)
    }
}

#[cfg(test)]
mod tests;
