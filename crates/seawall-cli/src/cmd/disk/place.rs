//! The state directory of a virtual disk: its dump area, its settings, and the lock that one
//! process at a time holds.
//!
//! What is in the area belongs to one image. The settings name it, and are durable before a dump
//! can be: so a dump of another image is never written home into this one.

use super::image::Device;
use crate::human::typed;
use crate::report::{Exit, Failure};
use seawall_disk::{Files, Inspected, Options, Recovered, inspect};
use seawall_io::{Access, Entropy, File, Lock, PosixStorage, Storage, SystemEntropy};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where bytes are dumped, unless the device has room for that.
const AREA: &str = "area";
/// Which image it is for, as JSON.
const SETTINGS: &str = "disk.json";
/// The socket of whoever serves it.
pub(super) const CONTROL: &str = "control";
const LOCK: &str = "lock";
/// More bytes than settings ever have.
const SETTINGS_MAX: u64 = 4096;
const SCHEMA: &str = "seawall.disk.settings/1";

/// A directory that this process alone works with.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    storage: PosixStorage,
    _lock: Box<dyn Lock>,
}

impl Place {
    /// The directory of a disk, made if there is none.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let storage = match PosixStorage::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => PosixStorage::create(path),
            other => other,
        };
        let storage = storage.map_err(|error| failed(path, &error))?;
        // Nothing is made in a directory that is none of ours.
        require(path, &storage)?;
        let busy = || {
            let next = format!("seawall disk status --state {}; or end that one", typed(path));
            Failure::new(Exit::Busy, "another process serves this disk")
                .at(path.display())
                .next(next)
        };
        let lock = storage.lock(LOCK).map_err(|error| failed(path, &error))?;
        Ok(Self { path: path.to_owned(), storage, _lock: lock.ok_or_else(busy)? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the area one for this image and this ring; what an emergency dumped of this very image
    /// is home then, and of another one is left where it is.
    pub(super) fn claim(
        &self,
        device: &Device,
        options: &Options,
    ) -> Result<(Files, Option<Recovered>), Failure> {
        let cannot = |error| failed(&self.path, &error);
        let settings = self.settings().map_err(cannot)?;
        let area = match &device.area {
            Some(area) => Some(area.clone()),
            None => self.find(AREA).map_err(cannot)?,
        };
        let Some(area) = area else {
            if settings.is_some() {
                return Err(self.no_area());
            }
            return Ok((self.prepare(device, options).map_err(cannot)?, None));
        };
        let size = device.home.len().map_err(cannot)?;
        let files = Files { home: device.home.clone(), area };
        let Some(Inspected { label, has_dump }) = inspect(&*files.area).map_err(cannot)? else {
            // The settings are written behind the label.
            if settings.is_some() {
                return Err(self.no_area());
            }
            return Ok((self.prepare(device, options).map_err(cannot)?, None));
        };
        let is_its = settings.as_ref().is_some_and(|settings| settings.may_be_for(device));
        if has_dump && !(is_its && label.home_size == size) {
            return Err(self.foreign_dump());
        }
        let recovered = if has_dump { files.recover().map_err(cannot)? } else { None };
        let sizes = (label.home_size, label.area_size);
        let is_noted = settings.is_some_and(|settings| settings.image == device.identity);
        if is_noted && sizes == (size, options.area_size()) {
            return Ok((files, recovered));
        }
        Ok((self.prepare(device, options).map_err(cannot)?, recovered))
    }

    /// Makes the area anew, and then notes whose it is: no dump is in it as long as that is open.
    fn prepare(&self, device: &Device, options: &Options) -> io::Result<Files> {
        let home = device.home.clone();
        let random = SystemEntropy.random()?;
        let files = match &device.area {
            Some(area) => Files { home, area: area.clone() },
            None => Files { home, area: self.create(AREA)? },
        };
        files.prepare(random, options)?;
        if device.area.is_none() {
            self.name(AREA)?;
        }
        let settings = self.create(SETTINGS)?;
        let value = json!({ "schema": SCHEMA, "image": device.identity });
        settings.write_at(format!("{value}\n").as_bytes(), 0)?;
        settings.sync()?;
        self.name(SETTINGS)?;
        Ok(files)
    }

    /// An empty file that is not named yet.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // What an attempt before this one left; the lock says that it has ended.
        let _ = self.storage.remove(&new(name));
        self.storage.create(&new(name))
    }

    fn name(&self, name: &str) -> io::Result<()> {
        self.storage.rename(&new(name), name)?;
        self.storage.sync_dir()
    }

    fn settings(&self) -> io::Result<Option<Settings>> {
        let Some(file) = self.find(SETTINGS)? else { return Ok(None) };
        let text = read(&*file, SETTINGS_MAX)?;
        let invalid = || {
            let why = format!("{SETTINGS} does not say which image this is for");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let value: Value = serde_json::from_slice(&text).map_err(|_| invalid())?;
        Settings::of(&value).map(Some).ok_or_else(invalid)
    }

    fn find(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        match self.storage.open(name, Access::ReadWrite) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the socket of a server that has ended.
    pub(super) fn remove_control(&self) {
        // There is none as a rule, and what cannot be removed cannot be listened at either.
        let _ = self.storage.remove(CONTROL);
    }

    fn no_area(&self) -> Failure {
        let what = "the area for dumps is missing, or empty: what was dumped is gone with it";
        let next = "bring it back, or remove the directory if nothing was dumped";
        Failure::new(Exit::Format, what).at(self.path.display()).next(next)
    }

    fn foreign_dump(&self) -> Failure {
        let what = "what an emergency dumped waits here, and is of another image";
        let next = "serve that image; or, if it is gone for good, remove this directory";
        Failure::new(Exit::Conflict, what).at(self.path.display()).next(next)
    }
}

/// What the directory is for.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    /// The image's identity; that of none fits all.
    image: Option<String>,
}

impl Settings {
    fn of(value: &Value) -> Option<Self> {
        if value.get("schema")? != SCHEMA {
            return None;
        }
        match value.get("image") {
            None | Some(Value::Null) => Some(Self { image: None }),
            Some(image) => Some(Self { image: Some(image.as_str()?.to_owned()) }),
        }
    }

    fn may_be_for(&self, device: &Device) -> bool {
        self.image.is_none() || self.image == device.identity
    }
}

/// Refuses a directory that is for something else.
fn require(path: &Path, storage: &PosixStorage) -> Result<(), Failure> {
    let cannot = |error| failed(path, &error);
    let ours = [AREA, SETTINGS, LOCK, &new(AREA), &new(SETTINGS)].map(str::to_owned);
    let names = storage.list().map_err(cannot)?;
    let others = storage.list_others().map_err(cannot)?;
    let is_foreign = |name: &&String| *name != CONTROL && !ours.contains(name);
    if names.iter().any(|name| name == SETTINGS) {
        return Ok(());
    }
    match names.iter().chain(&others).find(is_foreign) {
        None => Ok(()),
        Some(name) => {
            let what = format!("no directory of a virtual disk: it has `{name}`");
            let next = "give one that is empty, or that is not there yet";
            Err(Failure::new(Exit::Conflict, what).at(path.display()).next(next))
        }
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

pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    let (exit, what, next) = match error.kind() {
        io::ErrorKind::NotADirectory => {
            let next = "give a directory, or the name of one to be made";
            (Exit::Format, "this is no directory".to_owned(), next)
        }
        io::ErrorKind::InvalidData => {
            let what = format!("no state of a virtual disk: {error}");
            (Exit::Format, what, "keep a copy of it and of the image; then give another --state")
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
