//! The directory of a virtual disk: its files, and the lock that one process at a time holds.

use crate::human::typed;
use crate::report::{Exit, Failure};
use seawall_disk::{Disk, Files, Options, Recovered, Supply};
use seawall_io::{Access, Entropy, File, Lock, PosixStorage, Storage, SystemClock, SystemEntropy};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All bytes of the disk. It gets this name last, so that a disk is whole or none.
const HOME: &str = "home";
/// Where they are dumped.
const AREA: &str = "area";
/// The buffers, as JSON.
const SETTINGS: &str = "disk.json";
/// The socket of whoever serves it.
pub(super) const CONTROL: &str = "control";
const LOCK: &str = "lock";
/// More bytes than settings ever have.
const SETTINGS_MAX: u64 = 4096;

/// The buffers of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rings {
    pub(super) buffers: u64,
    pub(super) buffer_size: u64,
}

/// A directory that this process alone works with.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    storage: PosixStorage,
    _lock: Box<dyn Lock>,
}

impl Place {
    /// A directory for a new disk, made if there is none.
    pub(super) fn for_new(path: &Path) -> Result<Self, Failure> {
        let storage = match PosixStorage::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => PosixStorage::create(path),
            other => other,
        };
        Self::lock(path, storage.map_err(|error| failed(path, &error))?)
    }

    /// The directory of a disk.
    pub(super) fn of_disk(path: &Path) -> Result<Self, Failure> {
        let storage = PosixStorage::open(path).map_err(|error| failed(path, &error))?;
        // Nothing is made in a directory that is none of ours.
        require(path, &storage)?;
        Self::lock(path, storage)
    }

    fn lock(path: &Path, storage: PosixStorage) -> Result<Self, Failure> {
        let busy = || {
            Failure::new(Exit::Busy, "another process serves this disk, or makes it")
                .at(path.display())
                .next(format!("seawall disk status {}; or wait until it has ended", typed(path)))
        };
        let lock = storage.lock(LOCK).map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), storage, _lock: lock.ok_or_else(busy)? })
    }

    /// Makes the files of a disk; the bytes of its area.
    pub(super) fn make(&self, size: u64, rings: Rings) -> Result<u64, Failure> {
        for name in [HOME, AREA, SETTINGS] {
            if self.has(name)? {
                let what = format!("there is a file `{name}` already");
                return Err(Failure::new(Exit::Conflict, what)
                    .at(self.path.display())
                    .next("give a directory without one; what an interrupted make left may go"));
            }
        }
        let made = self.make_files(size, rings);
        if made.is_err() {
            for name in [HOME, AREA, SETTINGS] {
                // What cannot be removed is told of by the next attempt.
                let _ = self.storage.remove(&new(name)).or_else(|_| self.storage.remove(name));
            }
        }
        made.map_err(|error| failed(&self.path, &error))
    }

    fn make_files(&self, size: u64, rings: Rings) -> io::Result<u64> {
        let create = |name| {
            // What an attempt before this one left; the lock says that it has ended.
            let _ = self.storage.remove(&new(name));
            self.storage.create(&new(name))
        };
        let files = Files { home: create(HOME)?, area: create(AREA)? };
        files.home.fill_with_zeros(size)?;
        files.home.sync()?;
        files.prepare(SystemEntropy.random()?, &rings.options())?;
        let settings = create(SETTINGS)?;
        settings.write_at(rings.settings().as_bytes(), 0)?;
        settings.sync()?;
        for name in [SETTINGS, AREA, HOME] {
            self.storage.rename(&new(name), name)?;
            self.storage.sync_dir()?;
        }
        files.area.len()
    }

    /// Opens the disk; an emergency's dump is home then.
    pub(super) fn open(
        &self,
        supply: Supply,
        clock: Arc<SystemClock>,
    ) -> Result<(Disk, Option<Recovered>), Failure> {
        let opened = || {
            let open = |name| self.storage.open(name, Access::ReadWrite);
            let files = Files { home: open(HOME)?, area: open(AREA)? };
            let options = Options { supply, ..self.rings()?.options() };
            Disk::open(files, &options, clock)
        };
        opened().map_err(|error| failed(&self.path, &error))
    }

    /// The buffers; those of a disk without settings are the usual ones.
    fn rings(&self) -> io::Result<Rings> {
        let file = match self.storage.open(SETTINGS, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Rings::default()),
            other => other?,
        };
        let invalid = || {
            let why = format!("{SETTINGS} does not say what buffers the disk has");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let text = read(&*file, SETTINGS_MAX)?;
        let value: Value = serde_json::from_slice(&text).map_err(|_| invalid())?;
        Rings::of(&value).ok_or_else(invalid)
    }

    /// Removes the socket of a server that has ended.
    pub(super) fn remove_control(&self) {
        // There is none as a rule, and what cannot be removed cannot be listened at either.
        let _ = self.storage.remove(CONTROL);
    }

    fn has(&self, name: &str) -> Result<bool, Failure> {
        exists(&self.storage, name).map_err(|error| failed(&self.path, &error))
    }
}

impl Rings {
    fn options(self) -> Options {
        // Both are bounded where they come from.
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (buffers, buffer_size) = (count(self.buffers), count(self.buffer_size));
        Options { buffers, buffer_size, ..Options::default() }
    }

    fn settings(self) -> String {
        let Self { buffers, buffer_size } = self;
        let value = json!({
            "schema": "seawall.disk.settings/1",
            "buffers": buffers,
            "buffer_bytes": buffer_size,
        });
        format!("{value}\n")
    }

    fn of(value: &Value) -> Option<Self> {
        if value.get("schema")? != "seawall.disk.settings/1" {
            return None;
        }
        let number = |name, max| {
            let number = value.get(name)?.as_u64()?;
            (1..=max).contains(&number).then_some(number)
        };
        let buffer_size = number("buffer_bytes", 64 << 20)?;
        let rings = Self { buffers: number("buffers", 64)?, buffer_size };
        buffer_size.is_multiple_of(4096).then_some(rings)
    }
}

impl Default for Rings {
    fn default() -> Self {
        Self { buffers: 6, buffer_size: 512 * 1024 }
    }
}

/// Refuses a directory that has no disk.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let storage = PosixStorage::open(path).map_err(|error| failed(path, &error))?;
    require(path, &storage)
}

fn require(path: &Path, storage: &PosixStorage) -> Result<(), Failure> {
    for name in [HOME, AREA] {
        if !exists(storage, name).map_err(|error| failed(path, &error))? {
            let what = format!("no virtual disk: there is no file `{name}`");
            return Err(Failure::new(Exit::Format, what)
                .at(path.display())
                .next(format!("seawall disk make {} --size SIZE makes one", typed(path))));
        }
    }
    Ok(())
}

fn exists(storage: &PosixStorage, name: &str) -> io::Result<bool> {
    match storage.open(name, Access::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn new(name: &str) -> String {
    format!("{name}.new")
}

fn read(file: &dyn File, max: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.len()?.min(max)).unwrap_or_default();
    let mut text = vec![0; size];
    let read = file.read_at(&mut text, 0)?;
    text.truncate(read);
    Ok(text)
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let (exit, what, next) = match error.kind() {
        io::ErrorKind::NotFound => {
            (Exit::Failed, "there is nothing here".to_owned(), "check the path")
        }
        io::ErrorKind::NotADirectory => {
            (Exit::Format, "this is no directory".to_owned(), "give the directory of a disk")
        }
        io::ErrorKind::InvalidData => {
            let what = format!("no virtual disk that can be served: {error}");
            (Exit::Format, what, "keep a copy as it is, then make a disk elsewhere")
        }
        io::ErrorKind::StorageFull => {
            (Exit::Failed, error.to_string(), "make room, or give another place")
        }
        _ => {
            let next = "check the place, its permissions and its device, then try again";
            (Exit::Failed, error.to_string(), next)
        }
    };
    Failure::new(exit, what).at(path.display()).next(next)
}
