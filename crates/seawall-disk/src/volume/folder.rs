//! A folder of a volume, and its locks.

use super::file::VolumeFile;
use super::shared::{Shared, State};
use super::table::Table;
use seawall_io::{Access, File, Lock, Recycled, Storage, check_name};
use std::io;
use std::sync::Arc;

/// A folder of a volume.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) shared: Arc<Shared>,
    /// Empty, or ends with "/".
    pub(super) path: String,
}

impl Folder {
    fn path_of(&self, name: &str) -> io::Result<String> {
        check_name(name)?;
        Ok(format!("{}{name}", self.path))
    }

    /// Returns the file of this name; the error `otherwise` if it is a folder.
    fn file(&self, table: &Table, name: &str, otherwise: io::ErrorKind) -> io::Result<u64> {
        let path = self.path_of(name)?;
        match table.find(&path) {
            Some(id) => Ok(id),
            None if table.find(&format!("{path}/")).is_some() => Err(otherwise.into()),
            None => Err(io::Error::new(io::ErrorKind::NotFound, format!("no such file: {path}"))),
        }
    }

    fn is_taken(table: &Table, path: &str) -> bool {
        table.find(path).is_some() || table.find(&format!("{path}/")).is_some()
    }

    fn handle(&self, table: &mut Table, id: u64, access: Access) -> Arc<dyn File> {
        if let Some(node) = table.node_mut(id) {
            node.handles += 1;
        }
        Arc::new(VolumeFile { shared: self.shared.clone(), id, access })
    }

    fn make(&self, table: &mut Table, path: String) -> io::Result<u64> {
        let node = table.new_node(path)?;
        self.shared.put(table, None, node)
    }

    fn rename_from(&self, from: &str, to: &str, replaces: bool) -> io::Result<()> {
        let (path, to) = (self.path_of(from)?, self.path_of(to)?);
        let mut state = self.shared.write();
        let table = &mut state.table;
        let id = self.file(table, from, io::ErrorKind::InvalidInput)?;
        if table.find(&format!("{to}/")).is_some() && replaces {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if Self::is_taken(table, &to) && !replaces {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if table.find(&to) == Some(id) {
            return Ok(());
        }
        self.shared.move_name(table, id, (&path, to))
    }
}

impl Storage for Folder {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut state = self.shared.write();
        let id = self.file(&state.table, name, io::ErrorKind::InvalidInput)?;
        Ok(self.handle(&mut state.table, id, access))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.path_of(name)?;
        let mut state = self.shared.write();
        if Self::is_taken(&state.table, &path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.make(&mut state.table, path)?;
        Ok(self.handle(&mut state.table, id, Access::ReadWrite))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_from(from, to, true)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename_from(from, to, false)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.shared.write();
        let id = self.file(&state.table, name, io::ErrorKind::IsADirectory)?;
        self.shared.remove_name(&mut state.table, id, &self.path_of(name)?)
    }

    fn recycle(&self, name: &str, spare: &str) -> io::Result<Recycled> {
        let (path, to) = (self.path_of(name)?, self.path_of(spare)?);
        let mut state = self.shared.write();
        let table = &mut state.table;
        let id = self.file(table, name, io::ErrorKind::InvalidInput)?;
        if Self::is_taken(table, &to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if table.node(id)?.handles > 0 {
            self.shared.remove_name(table, id, &path)?;
            return Ok(Recycled::Removed(None));
        }
        self.shared.move_name(table, id, (&path, to))?;
        Ok(Recycled::Renamed(self.handle(table, id, Access::ReadWrite)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.shared.read().table.list(&self.path))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.disk.flush()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let path = self.path_of(name)?;
        let mut state = self.shared.write();
        if state.folders.contains_key(&self.path) {
            return Ok(None);
        }
        self.lock_node(&mut state, path, Some(&self.path))
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.path_of(name)?;
        let is_locked = self.shared.read().folders.contains_key(&self.path);
        Ok(is_locked || self.is_file_locked(name)?)
    }

    fn lock_file(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let path = self.path_of(name)?;
        self.lock_node(&mut self.shared.write(), path, None)
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        let path = self.path_of(name)?;
        let state = self.shared.read();
        Ok(state.table.find(&path).is_some_and(|id| state.files.contains_key(&id)))
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        let path = self.path_of(name)?;
        let mut state = self.shared.write();
        if state.table.find(&path).is_some() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let folder = format!("{path}/");
        if state.table.find(&folder).is_none() {
            self.make(&mut state.table, folder.clone())?;
            self.shared.disk.flush()?;
        }
        Ok(Arc::new(Self { shared: self.shared.clone(), path: folder }))
    }

    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        let path = self.path_of(name)?;
        let is_there = Self::is_taken(&self.shared.read().table, &path);
        if is_there { self.folder(name).map(Some) } else { Ok(None) }
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        // Unflushed bytes can be lost when this process ends, without a new boot.
        None
    }

    fn place(&self) -> String {
        format!("volume:/{}", self.path.trim_end_matches('/'))
    }
}

impl Folder {
    fn lock_node(
        &self,
        state: &mut State,
        path: String,
        folder: Option<&str>,
    ) -> io::Result<Option<Box<dyn Lock>>> {
        let id = match state.table.find(&path) {
            Some(id) => id,
            None => self.make(&mut state.table, path.clone())?,
        };
        if state.files.contains_key(&id) {
            return Ok(None);
        }
        state.locks += 1;
        state.files.insert(id, state.locks);
        if let Some(folder) = folder {
            state.folders.insert(folder.to_owned(), state.locks);
        }
        let shared = self.shared.clone();
        Ok(Some(Box::new(Held { shared, number: state.locks, id, path })))
    }
}

/// A lock on a file, and on its folder if that was requested.
#[derive(Debug)]
struct Held {
    shared: Arc<Shared>,
    number: u64,
    id: u64,
    path: String,
}

impl Lock for Held {
    fn check(&self) -> io::Result<()> {
        let what = match self.shared.read().table.find(&self.path) {
            Some(id) if id == self.id => return Ok(()),
            Some(_) => "replaced",
            None => "removed",
        };
        Err(io::Error::other(format!("volume:/{} was {what}", self.path)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.shared.write();
        state.files.retain(|_, number| *number != self.number);
        state.folders.retain(|_, number| *number != self.number);
    }
}
