//! A volume as a file system sees it: files and folders by number, inside one another.
//!
//! - Only empty folders can be renamed: each entry has its path, and one sector is written at a
//!   time.
//! - The time of the last change is set when size, name or attributes change, not by each write.
//!   There are no other times, no extended attributes and no symbolic links.

use super::file::VolumeFile;
use super::shared::{Shared, State};
use super::table::{Attributes, NAME_MAX, Node, Table};
use crate::layout::to_u64;
use seawall_io::{Access, File};
use std::io;
use std::sync::Arc;

/// The number of the root, which has no name.
pub(crate) const ROOT: u64 = 0;
/// The name of the entry with the root's attributes.
const ROOT_NAME: &str = "/";
/// More than the names that one file can have.
const NAMES_MAX: u64 = 16;

/// The files of a volume by number. A number is not used again before the next start.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(super) shared: Arc<Shared>,
}

/// A file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) is_folder: bool,
    pub(crate) length: u64,
    /// Bytes that it uses on the disk.
    pub(crate) space: u64,
    /// The number of its names.
    pub(crate) names: usize,
    pub(crate) attributes: Attributes,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) id: u64,
    pub(crate) is_folder: bool,
    pub(crate) name: String,
    /// The position in a listing. Later ones are higher, whatever is removed or renamed meanwhile.
    pub(crate) place: u64,
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u16>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) changed_us: Option<u64>,
}

/// Free and total space, in bytes; free and total entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) bytes: [u64; 2],
    pub(crate) entries: [u64; 2],
}

impl Tree {
    /// The file or folder of this number.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if it was removed.
    pub(crate) fn entry(&self, id: u64) -> io::Result<Entry> {
        entry(&self.shared.read().table, id)
    }

    /// The file or folder of this name in a folder.
    pub(crate) fn look_up(&self, parent: u64, name: &str) -> io::Result<Entry> {
        let state = self.shared.read();
        let (id, _) = find(&state.table, &path_of(&state.table, parent, name)?)?;
        entry(&state.table, id)
    }

    /// The names in a folder whose places are higher than `after`, by place.
    pub(crate) fn children(&self, folder: u64, after: u64) -> io::Result<Vec<Child>> {
        let state = self.shared.read();
        let table = &state.table;
        let path = folder_path(table, folder)?;
        let inside = table.names.range(path.to_owned()..);
        let inside = inside.map_while(|(name, id)| Some((name.strip_prefix(path)?, *id)));
        let mut children: Vec<Child> =
            inside.filter_map(|(name, id)| child(table, path, name, id)).collect();
        children.retain(|child| child.place > after);
        children.sort_by_key(|child| child.place);
        Ok(children)
    }

    /// Makes an empty file.
    pub(crate) fn make_file(
        &self,
        parent: u64,
        name: &str,
        attributes: Attributes,
    ) -> io::Result<Entry> {
        self.make((parent, name), "", attributes)
    }

    /// Makes a folder.
    pub(crate) fn make_folder(
        &self,
        parent: u64,
        name: &str,
        attributes: Attributes,
    ) -> io::Result<Entry> {
        self.make((parent, name), "/", attributes)
    }

    fn make(
        &self,
        (parent, name): (u64, &str),
        end: &str,
        attributes: Attributes,
    ) -> io::Result<Entry> {
        let mut state = self.shared.write();
        let table = &mut state.table;
        let path = path_of(table, parent, name)?;
        if find(table, &path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = Node { attributes, ..table.new_node(format!("{path}{end}"))? };
        let id = self.shared.put(table, None, node)?;
        entry(table, id)
    }

    /// Opens a file, which keeps its bytes until the handle is dropped, even if its name is
    /// removed.
    pub(crate) fn open(&self, id: u64) -> io::Result<Arc<dyn File>> {
        let mut state = self.shared.write();
        if entry(&state.table, id)?.is_folder {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if let Some(node) = state.table.node_mut(id) {
            node.handles += 1;
        }
        Ok(Arc::new(VolumeFile { shared: self.shared.clone(), id, access: Access::ReadWrite }))
    }

    /// Changes attributes.
    pub(crate) fn change(&self, id: u64, change: &Change) -> io::Result<Entry> {
        let mut state = self.shared.write();
        let table = &mut state.table;
        let mut attributes = entry(table, id)?.attributes;
        attributes.mode = change.mode.unwrap_or(attributes.mode);
        attributes.user = change.user.unwrap_or(attributes.user);
        attributes.group = change.group.unwrap_or(attributes.group);
        attributes.changed_us = change.changed_us.unwrap_or(attributes.changed_us);
        let id_of = if id == ROOT { table.find(ROOT_NAME) } else { Some(id) };
        let node = match id_of {
            Some(id) => table.node(id)?.clone(),
            None => table.new_node(ROOT_NAME.to_owned())?,
        };
        let node = Node { attributes, sequence: table.next_sequence(), ..node };
        self.shared.put(table, id_of, node)?;
        entry(table, id)
    }

    /// Adds a name to a file.
    pub(crate) fn link(&self, id: u64, parent: u64, name: &str) -> io::Result<Entry> {
        let mut state = self.shared.write();
        let table = &mut state.table;
        let path = path_of(table, parent, name)?;
        if entry(table, id)?.is_folder {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if find(table, &path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.shared.link(table, id, path)?;
        entry(table, id)
    }

    /// Removes a name of a file.
    pub(crate) fn remove_file(&self, parent: u64, name: &str) -> io::Result<()> {
        let mut state = self.shared.write();
        let path = path_of(&state.table, parent, name)?;
        match find(&state.table, &path)? {
            (_, true) => Err(io::ErrorKind::IsADirectory.into()),
            (id, false) => self.shared.remove_name(&mut state.table, id, &path),
        }
    }

    /// Removes an empty folder.
    pub(crate) fn remove_folder(&self, parent: u64, name: &str) -> io::Result<()> {
        let mut state = self.shared.write();
        let path = path_of(&state.table, parent, name)?;
        match find(&state.table, &path)? {
            (_, false) => Err(io::ErrorKind::NotADirectory.into()),
            (_, true) if has_contents(&state.table, &path) => {
                Err(io::ErrorKind::DirectoryNotEmpty.into())
            }
            (id, true) => self.shared.unlink(&mut state.table, id),
        }
    }

    /// Renames a file or an empty folder, and replaces the one that has the new name.
    pub(crate) fn rename(&self, from: (u64, &str), to: (u64, &str)) -> io::Result<()> {
        self.rename_in(&mut self.shared.write(), from, to)
    }

    /// Renames if the new name is free.
    pub(crate) fn rename_new(&self, from: (u64, &str), to: (u64, &str)) -> io::Result<()> {
        let mut state = self.shared.write();
        if find(&state.table, &path_of(&state.table, to.0, to.1)?).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.rename_in(&mut state, from, to)
    }

    fn rename_in(&self, state: &mut State, from: (u64, &str), to: (u64, &str)) -> io::Result<()> {
        let table = &mut state.table;
        let (from, to) = (path_of(table, from.0, from.1)?, path_of(table, to.0, to.1)?);
        let (id, is_folder) = find(table, &from)?;
        match find(table, &to) {
            Ok((other, _)) if other == id => return Ok(()),
            Ok((_, true)) if !is_folder => return Err(io::ErrorKind::IsADirectory.into()),
            Ok((_, false)) if is_folder => return Err(io::ErrorKind::NotADirectory.into()),
            Ok((_, true)) if has_contents(table, &to) => {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if !is_folder {
            return self.shared.move_name(table, id, (&from, to));
        }
        if has_contents(table, &from) {
            // After this error mv(1) moves the files one by one.
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.shared.move_name(table, id, (&format!("{from}/"), format!("{to}/")))
    }

    /// Writes zeros to the parts of a range that use space.
    pub(crate) fn zero(&self, id: u64, (from, to): (u64, u64)) -> io::Result<()> {
        let state = self.shared.read();
        let node = state.table.node(id)?;
        let end = to_u64(node.chunks.len()) * state.table.chunk_size();
        self.shared.fill(&state.table, node, (from, to.min(end)))
    }

    /// Allocates space for a range of a file, and extends the file to at least `length`.
    pub(crate) fn extend(&self, id: u64, range: (u64, u64), length: u64) -> io::Result<()> {
        self.shared.extend(id, range, length)
    }

    /// Returns when all changes so far are safe.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.shared.disk.flush()
    }

    pub(crate) fn space(&self) -> Space {
        let table = &self.shared.read().table;
        let bytes = table.space().map(|chunks| to_u64(chunks) * table.chunk_size());
        Space { bytes, entries: table.entries().map(to_u64) }
    }
}

/// The path of a folder: empty, or with "/" at its end.
fn folder_path(table: &Table, id: u64) -> io::Result<&str> {
    if id == ROOT {
        return Ok("");
    }
    let name = table.node(id)?.name.as_deref().ok_or(io::ErrorKind::NotFound)?;
    if name.ends_with('/') { Ok(name) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// The path of a name in a folder, without "/" at its end.
fn path_of(table: &Table, parent: u64, name: &str) -> io::Result<String> {
    let path = format!("{}{name}", folder_path(table, parent)?);
    if name.is_empty() || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // One byte is left for the "/" of a folder.
    if path.len() < NAME_MAX { Ok(path) } else { Err(io::ErrorKind::InvalidFilename.into()) }
}

/// The number of a path, and whether it is a folder.
fn find(table: &Table, path: &str) -> io::Result<(u64, bool)> {
    let folder = || table.find(&format!("{path}/")).map(|id| (id, true));
    let found = table.find(path).map(|id| (id, false)).or_else(folder);
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn has_contents(table: &Table, path: &str) -> bool {
    let folder = format!("{path}/");
    let inside = table.names.range(folder.clone()..).map(|(name, _)| name);
    inside.take_while(|name| name.starts_with(&folder)).any(|name| *name != folder)
}

fn entry(table: &Table, id: u64) -> io::Result<Entry> {
    let node = match id {
        ROOT => table.find(ROOT_NAME).map(|id| table.node(id)).transpose()?,
        _ => Some(table.node(id)?),
    };
    let Some(node) = node else {
        // Until it is changed, the owner is user 0 and others may enter the folder.
        let attributes = Attributes { mode: 0o755, ..Attributes::default() };
        return Ok(Entry { id, is_folder: true, length: 0, space: 0, names: 1, attributes });
    };
    let name = node.name.as_deref();
    let used = node.chunks.iter().filter(|chunk| **chunk != 0).count();
    Ok(Entry {
        id,
        is_folder: name.is_some_and(|name| name.ends_with('/')),
        length: node.length,
        space: to_u64(used) * table.chunk_size(),
        names: name.iter().len() + node.links.len(),
        attributes: node.attributes,
    })
}

/// Returns the child at a path `inside` a folder; `None` for the folder itself and deeper paths.
fn child(table: &Table, folder: &str, inside: &str, id: u64) -> Option<Child> {
    let name = inside.strip_suffix('/').unwrap_or(inside);
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let links = table.node(id).map(|node| node.links.as_slice()).unwrap_or_default();
    let path = |link: &String| link.strip_prefix(folder) == Some(inside);
    let number = links.iter().position(path).map_or(0, |index| to_u64(index) + 1);
    let place = id * NAMES_MAX + number;
    Some(Child { id, is_folder: inside.ends_with('/'), name: name.to_owned(), place })
}
