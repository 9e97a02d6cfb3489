//! Changes that are in the cache and not on the disk, and their effects.

use std::collections::BTreeMap;
use std::ops::Range;

/// A file's place in the device's list of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) usize);

/// A change that is in the cache and not on the disk.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// `image` is the content of the sector right after the write, up to the end of the file.
    Sector {
        node: NodeId,
        number: usize,
        image: Vec<u8>,
    },
    Length {
        node: NodeId,
        length: usize,
    },
    Directory {
        node: NodeId,
        change: Change,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Link { name: String },
    Rename { from: String, to: String },
    Unlink { name: String },
}

impl Item {
    pub(super) fn node(&self) -> NodeId {
        match self {
            Self::Sector { node, .. }
            | Self::Length { node, .. }
            | Self::Directory { node, .. } => *node,
        }
    }

    /// Returns whether this item is content or length of `node`.
    pub(super) fn is_of_file(&self, node: NodeId) -> bool {
        self.node() == node && !matches!(self, Self::Directory { .. })
    }

    /// Returns whether this item is the length of `node`, or one of these sectors.
    pub(super) fn is_in(&self, id: NodeId, sectors: &Range<u64>) -> bool {
        match self {
            Self::Sector { node, number, .. } => {
                *node == id && u64::try_from(*number).is_ok_and(|number| sectors.contains(&number))
            }
            Self::Length { node, .. } => *node == id,
            Self::Directory { .. } => false,
        }
    }

    /// Applies the item to the content of its file on a disk with sectors of `size` bytes.
    pub(super) fn land_on(&self, disk: &mut Vec<u8>, size: usize) {
        match self {
            Self::Sector { number, image, .. } => {
                let (start, end) = (number * size, number * size + image.len());
                disk.resize(disk.len().max(end), 0);
                disk.get_mut(start..end)
                    .expect("the file was extended above")
                    .copy_from_slice(image);
            }
            Self::Length { length, .. } => disk.resize(*length, 0),
            Self::Directory { .. } => {}
        }
    }

    /// Returns whether this item is a name in the directory `prefix`.
    pub(super) fn is_name_in(&self, prefix: &str) -> bool {
        match self {
            Self::Directory { change, .. } => is_directly_in(change.result(), prefix),
            Self::Sector { .. } | Self::Length { .. } => false,
        }
    }

    /// Returns whether this item changes the sector `number`, which ends at `end`.
    pub(super) fn touches(&self, id: NodeId, number: usize, end: usize) -> bool {
        match self {
            Self::Sector { node, number: other, .. } => *node == id && *other == number,
            Self::Length { node, length } => *node == id && *length < end,
            Self::Directory { .. } => false,
        }
    }
}

impl Change {
    /// Returns the name that is created or removed.
    pub(super) fn result(&self) -> &str {
        match self {
            Self::Link { name } | Self::Unlink { name } => name,
            Self::Rename { to, .. } => to,
        }
    }

    /// Changes `names`, except if the name now belongs to another file or to none.
    pub(super) fn apply(&self, names: &mut BTreeMap<String, NodeId>, node: NodeId) {
        match self {
            Self::Link { name } => {
                names.insert(name.clone(), node);
            }
            Self::Rename { from, to } => {
                if names.get(from) == Some(&node) {
                    names.remove(from);
                    names.insert(to.clone(), node);
                }
            }
            Self::Unlink { name } => {
                if names.get(name) == Some(&node) {
                    names.remove(name);
                }
            }
        }
    }
}

fn is_directly_in(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('/'))
}
