//! Dumps a program's whole state from time to time, and restores it from a dump and the records
//! after it. See docs/format.md, section 13.

pub(crate) mod error;
mod folder;

use crate::snapshot::error::{PassedOver, Reason, SnapshotError};

use crate::dump;
use crate::dump::Owner;
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

/// The directory with the dumps of a program's state, before the state is restored.
///
/// The state can be any serde type. It is encoded as `MessagePack` with field names, so fields can
/// be reordered, and new ones added with `#[serde(default)]`. A dump and the log's records after it
/// give the current state. So restoring reads only the tail of the log, and older records can be
/// pruned. Two dumps are kept, in case one is damaged.
///
/// Put the dumps in a directory *next to* the log's directory, not inside it: a log that lost its
/// manifest is not opened if its directory contains a foreign directory. A directory of dumps
/// serves one log. Only the process that has the log open may use it; only the [`Snapshotter`] may
/// write checkpoints; and the end of the log is truncated only with
/// [`truncate_after`](Snapshots::truncate_after). `docs/format.md`, section 13, defines when a dump
/// is valid and the order of writes.
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
///     let lsn = log.append(&event)?; // log first, then apply
///     apply(&mut accounts, event)?;
///     if lsn.get() % 2 == 0 {
///         snapshotter.take(&log, lsn, &accounts)?;
///         snapshotter.prune(&log)?; // removes records that the older dump does not need
///     }
/// }
/// drop(log); // the machine crashes here
///
/// let log: Log<(String, i64)> = Log::open(&log_path)?;
/// let dumps = Snapshots::<Accounts>::open(&dumps_path, "accounts", 1)?;
/// let (_, restored) = dumps.restore(&log, |state, _, event| apply(state, event))?;
/// assert_eq!(restored.state, accounts);
/// assert_eq!(restored.replayed, 1); // one of three records
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Snapshots<S> {
    folder: Folder,
    read_back: bool,
    state: PhantomData<fn() -> S>,
}

/// Takes dumps of a state restored by [`Snapshots::restore`].
#[derive(Debug)]
pub struct Snapshotter<S> {
    folder: Folder,
    read_back: bool,
    /// The id of the log that the state was restored from.
    log: LogId,
    /// The newest valid dump, and the first record needed by the dump before it.
    newest: Option<Lsn>,
    needed: Option<Lsn>,
    is_unfinished: bool,
    state: PhantomData<fn(&S)>,
}

/// A restored state.
#[derive(Debug)]
#[non_exhaustive]
pub struct Restored<S> {
    /// The state, as of the log's last record.
    pub state: S,
    /// The LSN of the dump used; `None` if the state comes from the log alone.
    pub dump: Option<Lsn>,
    /// The last record of the log. The state includes it.
    pub last: Option<Lsn>,
    /// The number of records after the dump that were applied.
    pub replayed: u64,
    /// The number of LSNs after the dump whose records a repair discarded.
    pub given_up: u64,
    /// Newer dumps that were not used, with the reasons. Report them to the operator.
    pub passed_over: Vec<PassedOver>,
}

impl<S: Serialize + DeserializeOwned> Snapshots<S> {
    /// Opens the directory of dumps at `path`, and creates it if it is missing.
    ///
    /// `name` identifies the type of the state, in at most 64 bytes. `schema` is the number of its
    /// version. A dump with another name or schema is refused.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::HoldsALog`], [`SnapshotError::InvalidOption`], [`SnapshotError::Io`].
    pub fn open(path: impl AsRef<Path>, name: &str, schema: u32) -> Result<Self> {
        // First, so that a refused name leaves no directory behind.
        folder::kind_of(name, schema)?;
        Self::open_in(folder::open_or_create(path.as_ref())?, name, schema)
    }

    /// Opens a directory of dumps on another kind of storage.
    ///
    /// # Errors
    ///
    /// As [`Snapshots::open`].
    pub fn open_in(storage: Arc<dyn Storage>, name: &str, schema: u32) -> Result<Self> {
        let folder = Folder::new(storage, folder::kind_of(name, schema)?)?;
        Ok(Self { folder, read_back: true, state: PhantomData })
    }

    /// Sets whether each dump is read back and decoded before it is published. The default is
    /// `true`. This takes the memory of a second state, and detects a state that encodes but does
    /// not decode before records are pruned.
    #[must_use]
    pub fn read_back(mut self, read: bool) -> Self {
        self.read_back = read;
        self
    }

    /// Truncates the log as [`Log::truncate_after`] does, after removing the dumps that hold later
    /// records. If the log was already truncated without this call, so that the newest dump is
    /// [ahead](SnapshotError::Ahead) of it, pass the log's last record.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingLeft`] if no state could be restored afterwards: nothing has
    /// changed. The errors of [`restore`](Snapshots::restore) for the remaining dump;
    /// [`SnapshotError::Log`].
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

    /// Restores the state: starts from the newest valid dump, or from the default state if there is
    /// none, and calls `apply` once for each later record, in order.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::NothingLeft`] if no dump is valid and the log's first records were pruned;
    /// [`SnapshotError::OtherLog`] if a dump belongs to another log; [`SnapshotError::Ahead`] if a
    /// dump holds more than the log; [`SnapshotError::Mismatch`], [`SnapshotError::Unsupported`]
    /// and [`SnapshotError::Decode`] if the newest dump is not of this type;
    /// [`SnapshotError::Apply`] for the first record that `apply` refused; [`SnapshotError::Log`];
    /// [`SnapshotError::Io`].
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
        // Other threads may append meanwhile, and a repair may have discarded the log's last
        // records.
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

    /// Loads the newest valid dump of these.
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

/// Sets the checkpoint that the older of two dumps needs. Returns the first record needed after it.
fn mark_base<T: ?Sized, C>(base: Option<Lsn>, log: &Log<T, C>) -> Result<Lsn> {
    loop {
        // The program may have truncated the log beyond the base.
        let oldest = log.oldest();
        let needed = base.map_or(oldest, |base| base.next().max(oldest));
        // Of the two checkpoints in the log, the older must be after the base. Usually it is.
        // Writing it again would discard the previous dump's checkpoint before the new dump has
        // one.
        if log.replay_start() == needed && oldest != needed {
            return Ok(needed);
        }
        match log.checkpoint(needed) {
            Ok(()) => return Ok(needed),
            // Retention removed these records meanwhile.
            Err(seawall::Error::Pruned { .. }) if log.oldest() > needed => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns whether a dump of this LSN is valid for this log: format.md, section 13.3, rules 3 to 7.
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

/// Returns the owner fields for a dump of this LSN of this log.
fn owner_at<T: ?Sized, C>(log: &Log<T, C>, lsn: Lsn) -> Result<Owner> {
    let record = match log.record_id(lsn) {
        Ok(record) => record,
        // The state no longer needs the damaged record.
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
    /// Dumps `state`, which includes exactly the records up to `lsn`. Returns the size of the dump
    /// in bytes, or 0 if a dump of this LSN exists. The dump is durable when this returns.
    ///
    /// Confirms the records up to `lsn` first. Other threads may append meanwhile. A program that
    /// cannot keep its state unchanged for that long can clone it and dump the clone on another
    /// thread.
    ///
    /// # Errors
    ///
    /// Nothing has changed after [`SnapshotError::Encode`], after most cases of
    /// [`SnapshotError::Io`], and after [`SnapshotError::Ahead`], when the log ends before `lsn`.
    /// If an error occurs after the dump was renamed, all later calls return
    /// [`SnapshotError::Unfinished`]. See also [`SnapshotError::Behind`],
    /// [`SnapshotError::Disowned`], [`SnapshotError::Log`].
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

    /// Removes the records that the older of the two dumps does not need, in whole segments, and
    /// returns the first remaining record. Removes nothing before there are two dumps.
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

    /// Continues with a new state type, after the program has converted the state to it. Later
    /// dumps have this name and schema.
    ///
    /// Until two such dumps exist, [`restore`](Snapshots::restore) fails if the newest dump is
    /// damaged. The error names the older type, which the previous version of the program can still
    /// read.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::InvalidOption`], [`SnapshotError::Io`].
    pub fn converted<N>(self, name: &str, schema: u32) -> Result<Snapshotter<N>> {
        let Self { folder, read_back, log, newest, needed, is_unfinished, .. } = self;
        let folder = Folder::new(folder.storage, folder::kind_of(name, schema)?)?;
        let state = PhantomData;
        Ok(Snapshotter { folder, read_back, log, newest, needed, is_unfinished, state })
    }

    /// Checks that the records up to `lsn` are durable in the log, and that the newest dump belongs
    /// to it.
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
        if lsn.next() < log.oldest() {
            // The dump would be passed over at the next start. The log refuses its checkpoint.
            log.checkpoint(lsn.next())?;
        }
        match self.newest {
            Some(dump) if dump.next() > log.replay_start() => Err(SnapshotError::Disowned { dump }),
            Some(newest) if newest > lsn => Err(SnapshotError::Behind { lsn, newest }),
            _ => Ok(()),
        }
    }

    /// Renames the written dump and makes it valid: format.md, section 13.4, steps 3 to 5.
    fn publish<T: ?Sized, C>(&mut self, log: &Log<T, C>, lsn: Lsn) -> Result<()> {
        let base = self.newest;
        let others = self.folder.dumps()?;
        self.folder.name(lsn)?;
        // These dumps are not valid now, but the new checkpoint would make them valid.
        let uncounted = others.iter().filter(|dump| Some(**dump) > base && **dump != lsn);
        uncounted.copied().try_for_each(|dump| self.folder.remove(dump))?;
        self.folder.sync()?;
        let needed = mark_base(base, log)?;
        log.checkpoint(lsn.next())?;
        // Not synced: a dump that reappears after a crash is removed after the next dump.
        let old = others.iter().filter(|dump| Some(**dump) < base);
        old.copied().try_for_each(|dump| self.folder.remove(dump))?;
        (self.newest, self.needed) = (Some(lsn), Some(needed));
        Ok(())
    }
}
