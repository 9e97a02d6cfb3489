//! Changes of a file's name, and its further names, as link(2) makes them.
//!
//! Only the newest name is on the disk, in the file's entry: the older ones end with the process.
//! So a program that moves a file by linking it and removing the old name finds it moved after a
//! crash between the two.

use super::shared::Shared;
use super::table::{Node, Table};
use std::io;

/// The most further names of a file.
#[cfg(all(feature = "fuse", target_os = "linux"))]
const LINKS_MAX: usize = 8;

impl Table {
    /// Updates the index of names: removes the names of `old`, and adds the node's current ones.
    fn index(&mut self, id: u64, old: &Node) {
        for name in names_of(old) {
            if self.find(name) == Some(id) {
                self.names.remove(name);
            }
        }
        let new = self.node(id).map(|node| names_of(node).cloned().collect::<Vec<_>>());
        self.names.extend(new.into_iter().flatten().map(|name| (name, id)));
    }
}

fn names_of(node: &Node) -> impl Iterator<Item = &String> {
    node.name.iter().chain(&node.links)
}

impl Shared {
    /// Writes a node whose names have changed.
    fn put_names(&self, table: &mut Table, id: u64, mut node: Node) -> io::Result<()> {
        let old = table.node(id)?.clone();
        if node.name == old.name {
            table.set(Some(id), node);
        } else {
            node.sequence = table.next_sequence();
            self.put(table, Some(id), node)?;
        }
        table.index(id, &old);
        Ok(())
    }

    /// Adds a name.
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    pub(super) fn link(&self, table: &mut Table, id: u64, path: String) -> io::Result<()> {
        let mut node = table.node(id)?.clone();
        if node.links.len() >= LINKS_MAX {
            return Err(io::ErrorKind::TooManyLinks.into());
        }
        let older = node.name.replace(path).ok_or(io::ErrorKind::NotFound)?;
        node.links.push(older);
        self.put_names(table, id, node)
    }

    /// Replaces one of a node's names, and takes the new name from the node that had it.
    pub(super) fn move_name(
        &self,
        table: &mut Table,
        id: u64,
        (from, to): (&str, String),
    ) -> io::Result<()> {
        let replaced = table.find(&to).filter(|other| *other != id);
        let mut node = table.node(id)?.clone();
        let newest = node.name.replace(to.clone()).filter(|name| name != from);
        node.links.retain(|name| name != from);
        node.links.extend(newest);
        self.put_names(table, id, node)?;
        let Some(other) = replaced else { return Ok(()) };
        // Otherwise a power cut could remove the old file and undo the renaming.
        self.disk.flush()?;
        self.remove_name(table, other, &to)
    }

    /// Removes one of a node's names. Removing the last one removes the file.
    pub(super) fn remove_name(&self, table: &mut Table, id: u64, path: &str) -> io::Result<()> {
        let mut node = table.node(id)?.clone();
        if node.links.is_empty() {
            return self.unlink(table, id);
        }
        if node.name.as_deref() == Some(path) {
            node.name = node.links.pop();
        } else {
            node.links.retain(|name| name != path);
        }
        self.put_names(table, id, node)
    }
}
