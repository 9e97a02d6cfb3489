//! A program's whole state in a dump, paired with the log: taken now and then, brought back with
//! the records behind it. docs/format.md, section 13.

pub(crate) mod error;
mod folder;

use crate::snapshot::error::{PassedOver, Reason, SnapshotError};

use crate::dump;
use crate::dump::{Kind, Owner};
use crate::snapshot::folder::{Folder, NotLoaded};
use seawall::format::LogId;
use seawall::{Codec, Log, Lsn};
use seawall_format::next_lsn;
use seawall_io::Storage;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

type Result<T> = std::result::Result<T, SnapshotError>;

/// Where the dumps of a program's state lie, before the state is brought back.
///
/// The state is anything that serde can turn into bytes and back; it is dumped as `MessagePack` by
/// field names, so fields may be reordered, and new ones added with `#[serde(default)]`. A dump and
/// the log's records behind it make the state of now: bringing it back costs its tail only, and
/// what stands before may be given up. Two dumps are kept, so that one may be damaged.
///
/// The dumps have a directory of their own, *beside* that of the log and for one log only: a log
/// whose manifest is lost is not opened if its directory holds somebody else's folder. Dumps belong
/// to whoever holds the log's handle; its checkpoints, too, are noted by the [`Snapshotter`] alone,
/// and its end is cut by [`truncate_after`](Snapshots::truncate_after).
/// What makes a dump count, and the order in which one is written: `docs/format.md`, section 13.
///
/// # Examples
///
/// ```
/// use seawall::Log;
/// use seawall_replay::Snapshots;
/// use std::collections::BTreeMap;
///
/// type Accounts = BTreeMap<String, i64>;
///
/// fn apply(accounts: &mut Accounts, (name, cents): (String, i64)) -> Result<(), String> {
///     *accounts.entry(name).or_default() += cents;
///     Ok(())
/// }
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-snap-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// # let (log_path, dumps_path) = (folder.join("bank.wal"), folder.join("bank.dumps"));
/// let log: Log<(String, i64)> = Log::open(&log_path)?;
/// let dumps = Snapshots::<Accounts>::open(&dumps_path, "accounts", 1)?;
/// let (mut snapshotter, restored) = dumps.restore(&log, |state, _, event| apply(state, event))?;
/// let mut accounts = restored.state;
///
/// for event in [("ada".to_owned(), 300), ("bob".to_owned(), 900), ("ada".to_owned(), -100)] {
///     let lsn = log.append(&event)?; // first the log, then the state
///     apply(&mut accounts, event)?;
///     if lsn.get() % 2 == 0 {
///         snapshotter.take(&log, lsn, &accounts)?;
///         snapshotter.prune(&log)?; // gives up what the older dump does not need
///     }
/// }
/// drop(log); // and here the machine stopped
///
/// let log: Log<(String, i64)> = Log::open(&log_path)?;
/// let dumps = Snapshots::<Accounts>::open(&dumps_path, "accounts", 1)?;
/// let (_, restored) = dumps.restore(&log, |state, _, event| apply(state, event))?;
/// assert_eq!(restored.state, accounts);
/// assert_eq!(restored.replayed, 1); // of three records
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Snapshots<S> {
    folder: Folder,
    read_back: bool,
    state: PhantomData<fn() -> S>,
}

/// Takes dumps of a state that was brought back by [`Snapshots::restore`].
#[derive(Debug)]
pub struct Snapshotter<S> {
    folder: Folder,
    read_back: bool,
    /// The log that the state was restored from.
    log: LogId,
    /// The newest dump that counts, and the first record that the one before it needs.
    newest: Option<Lsn>,
    needed: Option<Lsn>,
    is_unfinished: bool,
    state: PhantomData<fn(&S)>,
}

/// A state that was brought back.
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored<S> {
    /// The state, as of the log's last record.
    pub state: S,
    /// Up to which record the dump holds that it comes from; `None` if from the log alone.
    pub dump: Option<Lsn>,
    /// The last record of the log, which the state holds.
    pub last: Option<Lsn>,
    /// How many records behind the dump were read and applied.
    pub replayed: u64,
    /// How many numbers behind the dump no record has any more: a repair gave them up.
    pub given_up: u64,
    /// Newer dumps that were not used, and why: to be shown to a person.
    pub passed_over: Vec<PassedOver>,
}

impl<S: Serialize + DeserializeOwned> Snapshots<S> {
    /// Opens the directory of dumps at `path`, or makes it. `name` is what the state is called, 64
    /// bytes at most, and `schema` the number of its form: a dump that has others is refused.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::HoldsALog`], [`SnapshotError::InvalidOption`], [`SnapshotError::Io`].
    pub fn open(path: impl AsRef<Path>, name: &str, schema: u32) -> Result<Self> {
        Self::open_in(folder::open_or_create(path.as_ref())?, name, schema)
    }

    /// Opens a directory of dumps that another kind of storage holds.
    ///
    /// # Errors
    ///
    /// As [`Snapshots::open`].
    pub fn open_in(storage: Arc<dyn Storage>, name: &str, schema: u32) -> Result<Self> {
        let folder = Folder::new(storage, Kind { name: name.to_owned(), schema })?;
        Ok(Self { folder, read_back: true, state: PhantomData })
    }

    /// Whether a dump is read back and decoded before it gets its name, as it is unless told
    /// otherwise. It takes the memory of a second state for a moment, and finds a state that can be
    /// written and not be read before the log is pruned on the strength of it.
    #[must_use]
    pub fn read_back(mut self, read: bool) -> Self {
        self.read_back = read;
        self
    }

    /// Cuts the log as [`Log::truncate_after`] does, and before that removes the dumps that hold
    /// more than is left. Where the log was cut already, and its newest dump is
    /// [ahead](SnapshotError::Ahead) of it, the log's last record makes them fit again.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingLeft`] if no state could be brought back then: nothing was changed.
    /// As [`restore`](Snapshots::restore) for the dump that is left; [`SnapshotError::Log`].
    pub fn truncate_after<T: ?Sized, C>(&self, log: &Log<T, C>, last: Option<Lsn>) -> Result<()>
    where
        S: Default,
    {
        let mut dumps = self.folder.dumps()?;
        let kept = dumps.partition_point(|dump| Some(*dump) <= last);
        let gone = dumps.split_off(kept);
        self.newest(log, dumps)?;
        gone.into_iter().try_for_each(|dump| self.folder.remove(dump))?;
        self.folder.sync()?;
        Ok(log.truncate_after(last)?)
    }

    /// Brings back the state: that of the newest dump that counts, or the default where there is
    /// none, and what `apply` makes of it with each record behind, once each and in order.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingLeft`] if no dump counts and the log's first records are gone;
    /// [`SnapshotError::OtherLog`] if a dump is one of another log;
    /// [`SnapshotError::Ahead`] if a dump holds more than the log; [`SnapshotError::Mismatch`],
    /// [`SnapshotError::Unsupported`] and [`SnapshotError::Decode`] if the newest one is not of
    /// this state; [`SnapshotError::Apply`] with the first record that `apply` refused;
    /// [`SnapshotError::Log`]; [`SnapshotError::Io`].
    pub fn restore<T: ?Sized, C: Codec<T>>(
        self,
        log: &Log<T, C>,
        mut apply: impl FnMut(&mut S, Lsn, C::Item) -> std::result::Result<(), String>,
    ) -> Result<(Snapshotter<S>, Restored<S>)>
    where
        S: Default,
    {
        self.folder.clean()?;
        log.flush()?;
        let mut restored = self.newest(log, self.folder.dumps()?)?;
        let mut next = restored.dump.map_or(Lsn::FIRST, Lsn::next);
        if Some(next) <= restored.last {
            for entry in log.read_from(next)? {
                let (lsn, record) = entry?;
                let applied = apply(&mut restored.state, lsn, record);
                applied.map_err(|why| SnapshotError::Apply { lsn, why })?;
                restored.replayed += 1;
                restored.given_up += lsn.get() - next.get();
                next = lsn.next();
            }
        }
        // Appends may go on beside this; and the log may end with records that a repair gave up.
        restored.last = restored.last.max(next.previous());
        restored.given_up += next_lsn(restored.last).get() - next.get();
        let Self { folder, read_back, .. } = self;
        let newest = restored.dump;
        let snapshotter = Snapshotter {
            folder,
            read_back,
            log: log.id(),
            newest,
            needed: None,
            is_unfinished: false,
            state: PhantomData,
        };
        Ok((snapshotter, restored))
    }

    /// The state of the newest of these dumps that counts.
    fn newest<T: ?Sized, C>(&self, log: &Log<T, C>, mut dumps: Vec<Lsn>) -> Result<Restored<S>>
    where
        S: Default,
    {
        let (oldest, last) = (log.oldest(), log.durable());
        let mut passed_over = vec![];
        while let Some(dump) = dumps.pop() {
            match self.folder.load(dump, |owner| counts(dump, owner, log)) {
                Ok(state) => {
                    let dump = Some(dump);
                    return Ok(Restored { state, dump, ..Restored::of_nothing(last, passed_over) });
                }
                Err(NotLoaded::Passed(reason)) => passed_over.push(PassedOver { dump, reason }),
                Err(NotLoaded::Refused(error)) => return Err(error),
            }
        }
        if oldest > Lsn::FIRST {
            return Err(SnapshotError::NothingLeft { oldest, passed_over });
        }
        Ok(Restored::of_nothing(last, passed_over))
    }
}

/// Whether a dump at this LSN counts beside this log: format.md, section 13.3, rules 3 to 7.
fn counts<T: ?Sized, C>(
    dump: Lsn,
    owner: Option<Owner>,
    log: &Log<T, C>,
) -> std::result::Result<(), NotLoaded> {
    if let Some(Owner { log: of, .. }) = owner.filter(|owner| owner.log != log.id()) {
        let error = SnapshotError::OtherLog { dump, of, log: log.id() };
        return Err(NotLoaded::Refused(error));
    }
    let (oldest, last, checkpoint) = (log.oldest(), log.durable(), log.replay_start());
    if Some(dump) > last {
        return Err(NotLoaded::Refused(SnapshotError::Ahead { dump, last }));
    }
    if dump.next() > checkpoint {
        return Err(NotLoaded::Passed(Reason::Unmarked { checkpoint }));
    }
    if dump.next() < oldest {
        return Err(NotLoaded::Passed(Reason::Pruned { oldest }));
    }
    let Some(owner) = owner.filter(|_| dump >= oldest) else { return Ok(()) };
    let record = match owner_at(log, dump) {
        Ok(owner) => owner,
        Err(error) => return Err(NotLoaded::Refused(error)),
    };
    if owner.is_known() && record.is_known() && owner != record {
        return Err(NotLoaded::Passed(Reason::OtherHistory));
    }
    Ok(())
}

/// What a dump at this LSN of this log says of its owner.
fn owner_at<T: ?Sized, C>(log: &Log<T, C>, lsn: Lsn) -> Result<Owner> {
    let record = match log.record_id(lsn) {
        Ok(record) => record,
        // The state does not need it any more.
        Err(seawall::Error::Damaged { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let (time_us, crc) = record.map_or((0, 0), |record| (record.time_us, record.crc));
    Ok(Owner { log: log.id(), time_us, crc })
}

impl<S: Default> Restored<S> {
    fn of_nothing(last: Option<Lsn>, passed_over: Vec<PassedOver>) -> Self {
        let state = S::default();
        Self { state, dump: None, last, replayed: 0, given_up: 0, passed_over }
    }
}

impl<S: Serialize + DeserializeOwned> Snapshotter<S> {
    /// Dumps `state`, which holds the records up to `lsn` and no other, and returns the size of the
    /// dump in bytes; 0 if there is one of this LSN already. Durable when it returns.
    ///
    /// The records up to `lsn` are confirmed first. Appends may go on meanwhile; a program that
    /// cannot hold its state still for so long clones it, and dumps the clone on another thread.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Encode`] and most of [`SnapshotError::Io`] leave everything as it was, and
    /// so does [`SnapshotError::Ahead`], where the log ends before `lsn`. After an error behind the
    /// naming of the dump every further call is [`SnapshotError::Unfinished`]. See also
    /// [`SnapshotError::Behind`], [`SnapshotError::Disowned`], [`SnapshotError::Log`].
    pub fn take<T: ?Sized, C>(&mut self, log: &Log<T, C>, lsn: Lsn, state: &S) -> Result<u64> {
        self.check(log, lsn)?;
        if self.newest == Some(lsn) {
            return Ok(0);
        }
        let (read_back, owner) = (self.read_back, owner_at(log, lsn)?);
        let size = self.folder.write((lsn, owner), state, |file| {
            if read_back { dump::reading::read::<S, _>(file, |_| Ok(())).map(drop) } else { Ok(()) }
        })?;
        self.is_unfinished = true;
        self.publish(log, lsn)?;
        self.is_unfinished = false;
        Ok(size)
    }

    /// Gives up the records that the older of the two dumps does not need, in whole segments, and
    /// returns the first that is left. Before two dumps were taken nothing goes.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Log`].
    pub fn prune<T: ?Sized, C>(&self, log: &Log<T, C>) -> Result<Lsn> {
        match self.needed {
            Some(needed) => Ok(log.truncate_before(needed)?),
            None => Ok(log.oldest()),
        }
    }

    /// Goes on with another form of the state, into which the program has converted it; the dumps
    /// to come have this name and schema number. Until two of them were taken, a damaged newest one
    /// makes [`restore`](Snapshots::restore) an error that names the older form: the program of
    /// then can still read it.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::InvalidOption`], [`SnapshotError::Io`].
    pub fn converted<N>(self, name: &str, schema: u32) -> Result<Snapshotter<N>> {
        let Self { folder, read_back, log, newest, needed, is_unfinished, .. } = self;
        let folder = Folder::new(folder.storage, Kind { name: name.to_owned(), schema })?;
        let state = PhantomData;
        Ok(Snapshotter { folder, read_back, log, newest, needed, is_unfinished, state })
    }

    /// Whether the log has the records up to `lsn`, for good, and vouches for the newest dump.
    fn check<T: ?Sized, C>(&self, log: &Log<T, C>, lsn: Lsn) -> Result<()> {
        if self.is_unfinished {
            return Err(SnapshotError::Unfinished);
        }
        if log.id() != self.log {
            return Err(SnapshotError::OtherLog { dump: lsn, of: self.log, log: log.id() });
        }
        // A dump that holds more than the log would be refused at the next start.
        log.confirm()?;
        let last = log.durable();
        if Some(lsn) > last {
            return Err(SnapshotError::Ahead { dump: lsn, last });
        }
        match self.newest {
            Some(dump) if dump.next() > log.replay_start() => Err(SnapshotError::Disowned { dump }),
            Some(newest) if newest > lsn => Err(SnapshotError::Behind { lsn, newest }),
            _ => Ok(()),
        }
    }

    /// Names the dump that was written, and lets it count: format.md, section 13.4, steps 3 to 5.
    fn publish<T: ?Sized, C>(&mut self, log: &Log<T, C>, lsn: Lsn) -> Result<()> {
        let base = self.newest;
        let others = self.folder.dumps()?;
        self.folder.name(lsn)?;
        // Those did not count, and with the checkpoint that follows they would.
        let uncounted = others.iter().filter(|dump| Some(**dump) > base && **dump != lsn);
        uncounted.copied().try_for_each(|dump| self.folder.remove(dump))?;
        self.folder.sync()?;
        let needed = base.map_or(log.oldest(), Lsn::next);
        // Of the two that the log keeps the older one must stand behind the base. As a rule it
        // will; noted again it would push out that of the dump before, while the new one has none.
        if log.replay_start() != needed || log.oldest() == needed {
            log.checkpoint(needed)?;
        }
        log.checkpoint(lsn.next())?;
        // Not synced: one that comes back is removed after the next dump.
        let old = others.iter().filter(|dump| Some(**dump) < base);
        old.copied().try_for_each(|dump| self.folder.remove(dump))?;
        (self.newest, self.needed) = (Some(lsn), Some(needed));
        Ok(())
    }
}
