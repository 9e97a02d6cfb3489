//! Implements the storage traits for the device in memory.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::item::NodeId;
use super::{Device, MemStorage, Run};
use seawall_io::{Access, File, Lock, Recycled, Storage, check_name, explain};

impl MemStorage {
    fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.place())
    }

    /// Wraps a node as an open file. `run` belongs to this device, which is locked.
    fn wrap(&self, run: &mut Run, name: &str, (node, access): (NodeId, Access)) -> Arc<dyn File> {
        if access == Access::Read {
            run.read.push(node);
        }
        Arc::new(MemFile { directory: self.clone(), name: name.to_owned(), node, access })
    }
}

impl Storage for MemStorage {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut device = self.device();
        device.powered()?;
        match device.world.find(&self.full(name)) {
            Ok(node) => Ok(self.wrap(&mut device.run, name, (node, access))),
            Err(error) => Err(explain("open", &self.label(name), error)),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut device = self.device();
        device.step()?;
        match device.world.create(&self.full(name)) {
            Ok(node) => Ok(self.wrap(&mut device.run, name, (node, Access::ReadWrite))),
            Err(error) => Err(explain("create", &self.label(name), error)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut device = self.device();
        device.step()?;
        device
            .world
            .rename(&self.full(from), &self.full(to))
            .map_err(|error| explain("rename", &self.label(&format!("{from} to {to}")), error))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut device = self.device();
        device.step()?;
        device
            .world
            .rename_new(&self.full(from), &self.full(to))
            .map_err(|error| explain("rename", &self.label(&format!("{from} to {to}")), error))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut device = self.device();
        device.step()?;
        device
            .world
            .remove(&self.full(name))
            .map(drop)
            .map_err(|error| explain("remove", &self.label(name), error))
    }

    fn retire(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        check_name(name)?;
        let mut device = self.device();
        device.step()?;
        let removed = device.world.remove(&self.full(name));
        let node = removed.map_err(|error| explain("remove", &self.label(name), error))?;
        let is_abandoned = !device.run.read.contains(&node);
        Ok(is_abandoned.then(|| self.wrap(&mut device.run, name, (node, Access::ReadWrite))))
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        check_name(name)?;
        check_name(spare)?;
        let mut device = self.device();
        device.step()?;
        let recycled = device.world.rename_new(&self.full(name), &self.full(spare));
        let explained =
            |error| explain("recycle", &self.label(&format!("{name} as {spare}")), error);
        let node = recycled.and_then(|()| device.world.find(&self.full(spare)));
        let file = (node.map_err(explained)?, Access::ReadWrite);
        let is_abandoned = !device.run.read.contains(&file.0);
        if is_abandoned && !device.world.copies_on_write() {
            return Ok(Recycled::Renamed(self.wrap(&mut device.run, spare, file)));
        }
        device.world.remove(&self.full(spare)).map_err(explained)?;
        Ok(Recycled::Removed(is_abandoned.then(|| self.wrap(&mut device.run, name, file))))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let device = self.device();
        device.powered()?;
        Ok(device.world.names_in(&self.prefix))
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut device = self.device();
        device.step()?;
        device
            .sync(|item| item.is_name_in(&self.prefix))
            .map_err(|error| explain("sync", &self.place(), error))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        check_name(name)?;
        let full = self.full(name);
        let mut device = self.device();
        device.powered()?;
        if device.run.locks.contains(&self.prefix) {
            return Ok(None);
        }
        match device.world.find(&full) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                device.world.place_raw(&full, Vec::new());
            }
            Err(error) => return Err(explain("lock", &self.label(name), error)),
            Ok(_) => {}
        }
        let node = device.world.find(&full)?;
        device.run.locks.insert(self.prefix.clone());
        Ok(Some(Box::new(MemLock { directory: self.clone(), name: name.to_owned(), node })))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        let device = self.device();
        device.powered()?;
        Ok(device.run.locks.contains(&self.prefix))
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        check_name(name)?;
        let full = self.full(name);
        let mut device = self.device();
        device.powered()?;
        if device.world.find(&full).is_err() {
            device.world.place_raw(&full, Vec::new());
        }
        if !device.run.locks.insert(full.clone()) {
            return Ok(None);
        }
        Ok(Some(Box::new(MemFileLock { directory: self.clone(), full })))
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        check_name(name)?;
        let device = self.device();
        device.powered()?;
        Ok(device.run.locks.contains(&self.full(name)))
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        check_name(name)?;
        let full = self.full(name);
        let mut device = self.device();
        device.powered()?;
        if !device.world.has_folder(&full) {
            device.step()?;
            device
                .world
                .add_folder(&full)
                .map_err(|error| explain("create", &self.label(name), error))?;
        }
        Ok(Arc::new(Self { device: Arc::clone(&self.device), prefix: format!("{full}/") }))
    }

    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        check_name(name)?;
        let device = self.device();
        device.powered()?;
        let is_there = device.world.has_folder(&self.full(name));
        drop(device);
        is_there.then(|| self.folder(name)).transpose()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        Some(self.device().world.boot_id())
    }

    fn place(&self) -> String {
        format!("memory/{}", self.prefix).trim_end_matches('/').to_owned()
    }
}

struct MemFile {
    directory: MemStorage,
    /// The file's name when it was opened.
    name: String,
    node: NodeId,
    access: Access,
}

impl MemFile {
    fn failed(&self, act: &'static str, error: io::Error) -> io::Error {
        explain(act, &self.directory.label(&self.name), error)
    }

    /// Performs a change of the file, if the handle permits writing.
    fn change<T>(
        &self,
        act: &'static str,
        change: impl FnOnce(&mut Device) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut device = self.directory.device();
        device.step()?;
        let allowed = match self.access {
            Access::ReadWrite => Ok(()),
            Access::Read => Err(Errno::BADF.into()),
        };
        allowed
            .and_then(|()| change(&mut device))
            .map_err(|error: io::Error| self.failed(act, error))
    }
}

impl File for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let device = self.directory.device();
        device.powered()?;
        device.world.read(self.node, buffer, offset).map_err(|error| self.failed("read", error))
    }

    fn read_uncached(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let device = self.directory.device();
        device.powered()?;
        device
            .world
            .read_disk(self.node, buffer, offset)
            .map_err(|error| self.failed("read", error))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change("write", |device| device.world.write(self.node, bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        let mut device = self.directory.device();
        device.step()?;
        device.sync(|item| item.is_of_file(self.node)).map_err(|error| self.failed("sync", error))
    }

    fn direct_alignment(&self) -> Option<usize> {
        Some(self.directory.device().world.sector_size())
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        let mut device = self.directory.device();
        device.step()?;
        let sector = u64::try_from(device.world.sector_size()).expect("fits in 64 bits");
        let end = offset + u64::try_from(bytes.len()).expect("fits in 64 bits");
        let written = offset / sector..end.div_ceil(sector);
        device
            .sync(|item| item.is_in(self.node, &written))
            .map_err(|error| self.failed("write", error))
    }

    fn len(&self) -> io::Result<u64> {
        let device = self.directory.device();
        device.powered()?;
        Ok(u64::try_from(device.world.length(self.node)).expect("lengths fit in 64 bits"))
    }

    fn has_name(&self) -> io::Result<bool> {
        let device = self.directory.device();
        device.powered()?;
        Ok(device.world.has_name(self.node))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change("change the length of", |device| device.world.set_length(self.node, length))
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.change("allocate", |device| device.world.set_length(self.node, length))
    }

    fn reserve_space(&self, length: u64) -> io::Result<bool> {
        self.change("reserve space for", |device| device.world.reserve(self.node, length))
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.change("zero-fill", |device| {
            if device.world.length(self.node) > 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is not empty"));
            }
            device.world.set_length(self.node, length)
        })
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        if self.access == Access::Read {
            let read = &mut self.directory.device().run.read;
            let place = read.iter().position(|node| *node == self.node);
            place.map(|place| read.swap_remove(place));
        }
    }
}

impl Debug for MemFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFile").field("name", &self.name).finish_non_exhaustive()
    }
}

struct MemLock {
    directory: MemStorage,
    name: String,
    node: NodeId,
}

impl Lock for MemLock {
    fn check(&self) -> io::Result<()> {
        let Self { directory, name, node } = self;
        let device = directory.device();
        device.powered()?;
        let found = device.world.find(&directory.full(name)).ok();
        if found == Some(*node) {
            return Ok(());
        }
        let how = if found.is_some() { "replaced" } else { "removed" };
        Err(io::Error::other(format!("{}/{name} was {how}", directory.place())))
    }
}

/// The lock of a file, by its full name. The name of a directory's lock ends in a slash or is
/// empty.
#[derive(Debug)]
struct MemFileLock {
    directory: MemStorage,
    full: String,
}

impl Lock for MemFileLock {
    fn check(&self) -> io::Result<()> {
        self.directory.device().powered()
    }
}

impl Drop for MemFileLock {
    fn drop(&mut self) {
        self.directory.device().run.locks.remove(&self.full);
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.directory.device().run.locks.remove(&self.directory.prefix);
    }
}

impl Debug for MemLock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemLock").field("name", &self.name).finish_non_exhaustive()
    }
}
