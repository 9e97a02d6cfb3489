//! The directory of dumps: file names, and writing and reading one dump. See format.md, sections
//! 13.1 and 13.2.

use crate::dump;
use crate::dump::writing::NotWritten;
use crate::dump::{CHUNK, HEADER_SIZE, Header, Kind, NAME_MAX, Owner, Refused};
use crate::snapshot::error::{Reason, SnapshotError};
use seawall::Lsn;
use seawall::format::SegmentId;
use seawall_format::Epoch;
use seawall_io::{Access, Clock, Entropy, File, PosixStorage, Storage, SystemClock, SystemEntropy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use std::sync::Arc;

type Result<T> = std::result::Result<T, SnapshotError>;

/// A directory of dumps of one kind.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) kind: Kind,
}

/// Why a dump was not loaded.
#[derive(Debug)]
pub(super) enum NotLoaded {
    /// An older dump may be used instead.
    Passed(Reason),
    /// Restoring fails.
    Refused(SnapshotError),
}

/// The file name of a dump while it is being written.
const NEW: &str = "new.dump.tmp";

const SUFFIX: &str = ".dump";

/// The kind of dumps with this name and schema, unless the name is too long.
pub(super) fn kind_of(name: &str, schema: u32) -> Result<Kind> {
    if name.len() > NAME_MAX {
        let why = format!("type name of {} bytes exceeds the maximum of {NAME_MAX}", name.len());
        return Err(SnapshotError::InvalidOption { why });
    }
    Ok(Kind { name: name.to_owned(), schema })
}

impl Folder {
    pub(super) fn new(storage: Arc<dyn Storage>, kind: Kind) -> Result<Self> {
        let folder = Self { storage, kind };
        let is_of_a_log =
            |name: &String| name == "manifest" || SegmentId::from_any_name(name).is_some();
        if folder.names()?.iter().any(is_of_a_log) {
            return Err(SnapshotError::HoldsALog { place: folder.storage.place() });
        }
        Ok(folder)
    }

    /// Returns the LSNs of the dumps, in order.
    pub(super) fn dumps(&self) -> Result<Vec<Lsn>> {
        let mut dumps: Vec<Lsn> = self.names()?.iter().filter_map(|name| lsn_of(name)).collect();
        dumps.sort_unstable();
        Ok(dumps)
    }

    /// Removes an unfinished dump.
    pub(super) fn clean(&self) -> Result<()> {
        match self.storage.remove(NEW) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SnapshotError::io(format!("remove {NEW}"))(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a dump under its temporary name and syncs it. Returns its size. `check` reads it
    /// back.
    pub(super) fn write<S: Serialize>(
        &self,
        (lsn, owner): (Lsn, Owner),
        state: &S,
        check: impl FnOnce(&dyn File) -> std::result::Result<(), Refused>,
    ) -> Result<u64> {
        self.clean()?;
        let written = self.fill((lsn, owner), state, check);
        if written.is_err() {
            // The unfinished file may fill the device. If removing it fails, the next dump removes
            // it.
            let _ = self.clean();
        }
        written
    }

    fn fill<S: Serialize>(
        &self,
        (lsn, owner): (Lsn, Owner),
        state: &S,
        check: impl FnOnce(&dyn File) -> std::result::Result<(), Refused>,
    ) -> Result<u64> {
        let doing = |what: &str| SnapshotError::io(format!("{what} {NEW}"));
        let header = self.header(lsn, owner)?;
        let file = self.storage.create(NEW).map_err(doing("create"))?;
        match dump::writing::write(&*file, header, state) {
            Ok(_) => {}
            Err(NotWritten::Io(error)) => return Err(doing("write")(error)),
            Err(NotWritten::Encode(why)) => return Err(SnapshotError::Encode { why }),
        }
        file.sync().map_err(doing("sync"))?;
        check(&*file).map_err(|refused| SnapshotError::Encode {
            why: format!("the written dump cannot be read back: {refused}"),
        })?;
        file.len().map_err(doing("measure"))
    }

    fn header(&self, lsn: Lsn, owner: Owner) -> Result<Header> {
        let epoch = SystemEntropy.random().map_err(SnapshotError::io("draw an epoch"))?;
        Ok(Header {
            owner: Some(owner),
            chunk: CHUNK,
            epoch: Epoch(epoch.max(1)),
            lsn,
            length: 0,
            time_us: SystemClock::new().wall_us(),
            kind: self.kind.clone(),
        })
    }

    /// Renames the written dump to its final name. Durable after [`sync`](Self::sync).
    pub(super) fn name(&self, lsn: Lsn) -> Result<()> {
        let name = name_of(lsn);
        self.storage.rename(NEW, &name).map_err(SnapshotError::io(format!("name {name}")))
    }

    pub(super) fn remove(&self, lsn: Lsn) -> Result<()> {
        let name = name_of(lsn);
        self.storage.remove(&name).map_err(SnapshotError::io(format!("remove {name}")))
    }

    pub(super) fn sync(&self) -> Result<()> {
        let synced = self.storage.sync_dir();
        synced.map_err(SnapshotError::io(format!("sync {}", self.storage.place())))
    }

    /// Loads the state of a dump, if the dump is intact, of this kind, and `counts` returns true.
    pub(super) fn load<S: DeserializeOwned>(
        &self,
        lsn: Lsn,
        counts: impl FnOnce(Option<Owner>) -> std::result::Result<(), NotLoaded>,
    ) -> std::result::Result<S, NotLoaded> {
        let opened = self.storage.open(&name_of(lsn), Access::Read);
        let file = opened.map_err(|error| NotLoaded::Passed(Reason::Unread(error)))?;
        let read = dump::reading::read(&*file, |header| {
            self.check(lsn, header)?;
            counts(header.owner).map_err(Stopped::Not)
        });
        read.map_err(|stopped| match stopped {
            Stopped::Not(not) => not,
            Stopped::Bytes(refused) => not_loaded(lsn, refused),
        })
    }

    fn check(&self, dump: Lsn, header: &Header) -> std::result::Result<(), Stopped> {
        if header.lsn != dump {
            let why = format!("its header belongs to LSN {}", header.lsn);
            return Err(Stopped::Bytes(Refused::Damaged(why)));
        }
        let Kind { name, schema } = &header.kind;
        let differs = |what, has: String, asked: String| {
            Stopped::Not(NotLoaded::Refused(SnapshotError::Mismatch { dump, what, has, asked }))
        };
        if *name != self.kind.name {
            return Err(differs("type name", name.clone(), self.kind.name.clone()));
        }
        if *schema != self.kind.schema {
            return Err(differs("schema", schema.to_string(), self.kind.schema.to_string()));
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let place = self.storage.place();
        self.storage.list().map_err(SnapshotError::io(format!("list {place}")))
    }
}

/// Why reading a dump stopped.
enum Stopped {
    Bytes(Refused),
    Not(NotLoaded),
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        Self::Bytes(refused)
    }
}

fn not_loaded(dump: Lsn, refused: Refused) -> NotLoaded {
    match refused {
        Refused::Unread(error) => NotLoaded::Passed(Reason::Unread(error)),
        Refused::Damaged(why) => NotLoaded::Passed(Reason::Damaged { why }),
        Refused::Unknown(found) => NotLoaded::Refused(SnapshotError::Unsupported { dump, found }),
        Refused::Undecoded(why) => NotLoaded::Refused(SnapshotError::Decode { dump, why }),
    }
}

/// Opens the directory at `path`, and creates it if it is missing.
pub(super) fn open_or_create(path: &Path) -> Result<Arc<dyn Storage>> {
    let doing = |what: &str| SnapshotError::io(format!("{what} {}", path.display()));
    match PosixStorage::open(path) {
        Ok(storage) => {
            if storage.list().map_err(doing("list"))?.is_empty() {
                // An earlier process may have crashed after creating the directory and before
                // syncing its parent.
                storage.sync_parent().map_err(doing("sync the parent of"))?;
            }
            Ok(Arc::new(storage))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Arc::new(PosixStorage::create(path).map_err(doing("create"))?))
        }
        Err(error) => Err(doing("open")(error)),
    }
}

fn name_of(lsn: Lsn) -> String {
    format!("{:020}{SUFFIX}", lsn.get())
}

/// Returns the LSN in a file name; `None` unless it is a name that this code writes.
fn lsn_of(name: &str) -> Option<Lsn> {
    let lsn = Lsn::new(name.strip_suffix(SUFFIX)?.parse().ok()?)?;
    (name_of(lsn) == name).then_some(lsn)
}

const _: () = assert!(HEADER_SIZE.is_multiple_of(8), "chunks are aligned to 8 bytes");
