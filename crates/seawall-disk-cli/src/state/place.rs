//! The state directory of a virtual disk: its dump area, its settings, and a lock that one process
//! at a time can hold.

use super::image::Device;
use super::settings::{Mark, Settings};
use seawall_disk::{Dump, Files, Inspected, Options, inspect};
use seawall_host::{connect_within, open_if_any, read_start, replace_file};
use seawall_io::{Access, Entropy, File, Lock, PosixStorage, Storage, SystemEntropy};
use seawall_output::report::{Exit, Failure};
use seawall_output::text::typed;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The file for dumps, unless the device has its own area.
const AREA: &str = "area";
/// The file for settings, as JSON.
const SETTINGS: &str = "disk.json";
/// The socket of the server.
pub(crate) const CONTROL: &str = "control";
/// The socket of the keeper.
pub(crate) const KEEPER: &str = "keeper";
const KEEPER_LOCK: &str = "keeper.lock";
const LOCK: &str = "lock";
/// How long a keeper may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum size of the settings in bytes.
const SETTINGS_MAX: u64 = 4096;

/// A state directory, locked by this process.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    storage: PosixStorage,
    /// Held while the settings are replaced: two threads would use the same temporary file.
    notes: Mutex<()>,
    _lock: Box<dyn Lock>,
}

impl Place {
    /// Opens the directory, or creates it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let storage = open(path)?;
        let busy = || {
            let next = format!("seawall disk status --state {}; or stop that process", typed(path));
            Failure::new(Exit::Busy, "another process serves this disk")
                .at(path.display())
                .next(next)
        };
        let lock = storage.lock(LOCK).map_err(|error| failed(path, &error))?;
        let (path, notes) = (path.to_owned(), Mutex::default());
        Ok(Self { path, storage, notes, _lock: lock.ok_or_else(busy)? })
    }

    /// Opens or creates the directory for a keeper, and returns the keeper's lock.
    pub(crate) fn open_for_keeper(path: &Path) -> Result<(PosixStorage, Box<dyn Lock>), Failure> {
        let storage = open(path)?;
        let busy = || {
            let failure = Failure::new(Exit::Busy, "another keeper uses this directory");
            failure.at(path.display()).next("use that one; it serves one disk after the other")
        };
        let lock = storage.lock_file(KEEPER_LOCK).map_err(|error| failed(path, &error))?;
        let lock = lock.ok_or_else(busy)?;
        // If the lock's file was removed, the lock does not exclude another keeper.
        match connect_within(&path.join(KEEPER), PATIENCE) {
            Ok(_) => return Err(busy()),
            // It hangs, and may hold memory.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(busy()),
            Err(_) => {}
        }
        // A keeper that has ended may have left its socket.
        let _ = storage.remove(KEEPER);
        Ok((storage, lock))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty dump area, replacing the present one.
    pub(crate) fn prepare(&self, device: &Device, options: &Options) -> io::Result<Files> {
        let random = SystemEntropy.random()?;
        let area = if let Some(area) = &device.area {
            area.clone()
        } else {
            // An earlier attempt may have left a file. We hold the lock, so that process has ended.
            let _ = self.storage.remove(&new(AREA));
            self.storage.create(&new(AREA))?
        };
        let files = Files { home: device.home.clone(), area };
        files.prepare(random, options)?;
        if device.area.is_none() {
            self.storage.rename(&new(AREA), AREA)?;
            self.storage.sync_dir()?;
        }
        Ok(files)
    }

    /// Opens the dump area, if it exists, and inspects what is in it.
    pub(crate) fn area(&self, device: &Device) -> io::Result<Option<(Arc<dyn File>, Inspected)>> {
        let area = match &device.area {
            Some(area) => Some(area.clone()),
            None => open_if_any(&self.storage, AREA, Access::ReadWrite)?,
        };
        let Some(area) = area else { return Ok(None) };
        Ok(inspect(&*area)?.map(|found| (area, found)))
    }

    pub(crate) fn settings(&self) -> io::Result<Option<Settings>> {
        settings(&self.storage)
    }

    /// Replaces the settings durably.
    pub(crate) fn note(&self, settings: &Settings) -> io::Result<()> {
        let _notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        self.replace(settings)
    }

    /// Records whether flushes may return early from now on. If so, a start that finds neither a
    /// dump nor the memory reports a loss. If not, everything acknowledged is on the image.
    pub(crate) fn note_armed(&self, is_armed: bool) -> io::Result<()> {
        self.change(|settings| settings.is_armed = is_armed)
    }

    /// Records that a loss was reported.
    pub(crate) fn note_reported(&self) -> io::Result<()> {
        self.change(|settings| settings.has_lost = false)
    }

    /// Changes the settings durably, if there are any.
    fn change(&self, change: impl FnOnce(&mut Settings)) -> io::Result<()> {
        let _notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(old) = self.settings()? else { return Ok(()) };
        let mut settings = old.clone();
        change(&mut settings);
        if settings == old { Ok(()) } else { self.replace(&settings) }
    }

    /// Replaces the settings durably. The caller holds the lock.
    fn replace(&self, settings: &Settings) -> io::Result<()> {
        self.replace_durably(SETTINGS, &settings.encode())
    }

    /// A crash leaves the temporary file. This directory belongs to the disk, so the next
    /// replacement removes it.
    fn replace_durably(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let _ = self.storage.remove(&new(name));
        replace_file(&self.storage, (name, &new(name)), bytes)?;
        self.storage.sync_dir()
    }

    /// Keeps a copy of the dump under its own name.
    pub(crate) fn keep(&self, area: &dyn File, dump: &Dump) -> io::Result<()> {
        let name = format!("{AREA}.discarded-{}", dump.generation);
        self.replace_durably(&name, &read_start(area, u64::MAX)?)
    }

    /// Keeps a copy of memory that is discarded.
    pub(crate) fn keep_memory(&self, memory: &[u8]) -> io::Result<()> {
        let names = self.storage.list()?;
        let unused = |n: &u32| !names.contains(&format!("memory.discarded-{n}"));
        let number = (1..=u32::MAX).find(unused).unwrap_or_default();
        self.replace_durably(&format!("memory.discarded-{number}"), memory)
    }

    /// Removes the socket of a server that has ended.
    pub(crate) fn remove_control(&self) {
        // Usually there is no socket, and if removal fails, listening fails too.
        let _ = self.storage.remove(CONTROL);
    }
}

/// Whether it is certain that no dump is waiting in the directory of this mark.
pub(crate) fn is_surely_empty(mark: &Mark) -> bool {
    let look = || -> io::Result<bool> {
        let storage = PosixStorage::open(&mark.dir)?;
        let settings = settings(&storage)?;
        let is_it =
            |settings: Settings| settings.state == Some(mark.state) && settings.serve >= mark.serve;
        let area = open_if_any(&storage, AREA, Access::Read)?;
        let found = area.map_or(Ok(None), |area| inspect(&*area))?;
        let is_empty = found.is_some_and(|found| found.dump.is_none());
        Ok(settings.is_some_and(is_it) && is_empty)
    };
    look().unwrap_or_default()
}

fn settings(storage: &PosixStorage) -> io::Result<Option<Settings>> {
    let Some(file) = open_if_any(storage, SETTINGS, Access::Read)? else { return Ok(None) };
    let invalid = || {
        let why = format!("{SETTINGS} does not say which image this is for");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    Settings::decode(&read_start(&*file, SETTINGS_MAX)?).map(Some).ok_or_else(invalid)
}

/// Opens the directory, or creates it.
fn open(path: &Path) -> Result<PosixStorage, Failure> {
    let storage = match PosixStorage::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => PosixStorage::create(path),
        other => other,
    };
    let storage = storage.map_err(|error| failed(path, &error))?;
    // Nothing is created in a directory that contains other files.
    require(path, &storage)?;
    Ok(storage)
}

/// Refuses a directory with other content.
fn require(path: &Path, storage: &PosixStorage) -> Result<(), Failure> {
    let cannot = |error| failed(path, &error);
    let ours = [AREA, SETTINGS, LOCK, KEEPER_LOCK, &new(AREA), &new(SETTINGS)].map(str::to_owned);
    let names = storage.list().map_err(cannot)?;
    let others = storage.list_others().map_err(cannot)?;
    let is_foreign =
        |name: &&String| ![CONTROL, KEEPER].contains(&name.as_str()) && !ours.contains(name);
    if names.iter().any(|name| name == SETTINGS) {
        return Ok(());
    }
    match names.iter().chain(&others).find(is_foreign) {
        None => Ok(()),
        Some(name) => {
            let what = format!("not the state directory of a virtual disk: it contains `{name}`");
            let next = "give a directory that is empty or does not exist";
            Err(Failure::new(Exit::Conflict, what).at(path.display()).next(next))
        }
    }
}

fn new(name: &str) -> String {
    format!("{name}.new")
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    let (exit, what, next) = match error.kind() {
        io::ErrorKind::NotADirectory => {
            let next = "give a directory, or a path that does not exist";
            (Exit::Format, "not a directory".to_owned(), next)
        }
        io::ErrorKind::InvalidData => {
            let what = format!("invalid state of a virtual disk: {error}");
            (Exit::Format, what, "keep a copy of it and of the image; then give another --state")
        }
        io::ErrorKind::StorageFull => {
            (Exit::Failed, error.to_string(), "free some space, or give another path")
        }
        _ => {
            let next = "check the path, its permissions and its device, then try again";
            (Exit::Failed, error.to_string(), next)
        }
    };
    Failure::new(exit, what).at(path.display()).next(next)
}
