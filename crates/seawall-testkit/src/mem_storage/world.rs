//! The device's content: files in cache and on disk, names in both, and the pending items.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use rustix::io::Errno;

use super::item::{Change, Item, NodeId};
use super::pending::{CrashOutcome, Pending, What};

/// Everything that outlives the process.
#[derive(Clone, Debug)]
pub(super) struct World {
    sector: usize,
    nodes: Vec<Node>,
    names: BTreeMap<String, NodeId>,
    durable_names: BTreeMap<String, NodeId>,
    folders: BTreeSet<String>,
    queue: Vec<Item>,
    limit: u64,
    /// Whether an unsynced overwrite needs additional space.
    copies_on_write: bool,
    /// Whether space beyond the end of a file can be reserved.
    reserves: bool,
    boot: u128,
}

/// A file, independent of its name. Never removed, so that open handles outlive the name.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The current or last name.
    name: String,
    cache: Arc<Vec<u8>>,
    disk: Arc<Vec<u8>>,
    /// The reserved length. The file may be shorter.
    reserved: usize,
    /// Bytes that cannot be read.
    unreadable: std::ops::Range<usize>,
    /// Whether writes fail.
    refuses_writes: bool,
}

/// The default size limit, in bytes. Prevents a wrong offset from taking all memory.
const LIMIT_DEFAULT: u64 = 4 << 30;

impl World {
    pub(super) fn sector_size(&self) -> usize {
        self.sector
    }

    pub(super) fn new(sector: usize) -> Self {
        Self {
            sector,
            nodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            folders: BTreeSet::new(),
            queue: Vec::new(),
            limit: LIMIT_DEFAULT,
            copies_on_write: false,
            reserves: true,
            boot: 1,
        }
    }

    pub(super) fn boot_id(&self) -> [u8; 16] {
        self.boot.to_le_bytes()
    }

    pub(super) fn limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    pub(super) fn copy_on_write(&mut self) {
        self.copies_on_write = true;
    }

    pub(super) fn copies_on_write(&self) -> bool {
        self.copies_on_write
    }

    pub(super) fn reserve_nothing(&mut self) {
        self.reserves = false;
    }

    // Names.

    /// Returns the file `name`. Refuses directories.
    pub(super) fn find(&self, name: &str) -> io::Result<NodeId> {
        if self.folders.contains(name) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        self.names.get(name).copied().ok_or_else(|| Errno::NOENT.into())
    }

    /// Returns all names that start with `prefix`, without the prefix.
    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        self.names_after(prefix).map(str::to_owned).collect()
    }

    /// Returns the names of the files directly in the directory `prefix`, without the prefix.
    pub(super) fn names_in(&self, prefix: &str) -> Vec<String> {
        self.names_after(prefix).filter(|name| !name.contains('/')).map(str::to_owned).collect()
    }

    fn names_after<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.names.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        names.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<NodeId> {
        if self.names.contains_key(name) || self.folders.contains(name) {
            return Err(Errno::EXIST.into());
        }
        let node = self.add(name, Vec::new());
        self.change_name(node, Change::Link { name: name.to_owned() });
        Ok(node)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let node = self.find(from)?;
        if self.folders.contains(to) {
            return Err(Errno::ISDIR.into());
        }
        to.clone_into(&mut self.node_mut(node).name);
        self.change_name(node, Change::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    pub(super) fn rename_new(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.find(from)?;
        if self.names.contains_key(to) || self.folders.contains(to) {
            return Err(Errno::EXIST.into());
        }
        self.rename(from, to)
    }

    /// Returns whether the file has a name in the cache.
    pub(super) fn has_name(&self, node: NodeId) -> bool {
        self.names.get(&self.node(node).name) == Some(&node)
    }

    /// Removes a name and returns its file.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<NodeId> {
        if self.folders.contains(name) {
            return Err(Errno::ISDIR.into());
        }
        let node = self.find(name)?;
        self.change_name(node, Change::Unlink { name: name.to_owned() });
        Ok(node)
    }

    fn change_name(&mut self, node: NodeId, change: Change) {
        change.apply(&mut self.names, node);
        self.queue.push(Item::Directory { node, change });
    }

    /// Returns whether the directory exists.
    pub(super) fn has_folder(&self, name: &str) -> bool {
        self.folders.contains(name)
    }

    pub(super) fn add_folder(&mut self, name: &str) -> io::Result<()> {
        if self.names.contains_key(name) {
            return Err(Errno::NOTDIR.into());
        }
        self.folders.insert(name.to_owned());
        Ok(())
    }

    // Bytes.

    pub(super) fn length(&self, node: NodeId) -> usize {
        self.node(node).cache.len()
    }

    pub(super) fn read(&self, node: NodeId, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(&self.node(node).cache, node, (buffer, offset))
    }

    /// Reads the content that the disk will have after all pending items of the file. The system
    /// knows the file's length, and reads zeros after the end of the file on the disk.
    pub(super) fn read_disk(
        &self,
        node: NodeId,
        buffer: &mut [u8],
        offset: u64,
    ) -> io::Result<usize> {
        let mut disk = self.settled_disk(node);
        if disk.len() != self.length(node) {
            Arc::make_mut(&mut disk).resize(self.length(node), 0);
        }
        self.read_from(&disk, node, (buffer, offset))
    }

    fn read_from(
        &self,
        bytes: &[u8],
        node: NodeId,
        (buffer, offset): (&mut [u8], u64),
    ) -> io::Result<usize> {
        let node = self.node(node);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        if start < node.unreadable.end && node.unreadable.start < end {
            return Err(Errno::IO.into());
        }
        let rest = bytes.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        let (target, source) = (buffer.get_mut(..count), rest.get(..count));
        if let (Some(target), Some(source)) = (target, source) {
            target.copy_from_slice(source);
        }
        Ok(count)
    }

    pub(super) fn write(&mut self, node: NodeId, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.node(node).refuses_writes {
            return Err(Errno::IO.into());
        }
        let start = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let end = start.checked_add(bytes.len()).ok_or(Errno::FBIG)?;
        let old = self.length(node);
        // Without room for the copy, reserved space does not help an overwrite.
        let taken = if self.copies_on_write { old } else { self.taken(node) };
        let growth = end.saturating_sub(taken) + self.copied(node, start..end.min(old));
        if growth > 0 {
            self.admit(growth)?;
        }
        let cache = Arc::make_mut(&mut self.node_mut(node).cache);
        cache.resize(old.max(end), 0);
        cache.get_mut(start..end).expect("the cache was extended above").copy_from_slice(bytes);
        for number in start / self.sector..end.div_ceil(self.sector) {
            self.pend_sector(node, number);
        }
        if end > old {
            self.queue.push(Item::Length { node, length: end });
        }
        Ok(())
    }

    pub(super) fn set_length(&mut self, node: NodeId, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| Errno::FBIG)?;
        let old = self.length(node);
        if length <= old {
            self.node_mut(node).reserved = 0;
        }
        if length == old {
            return Ok(());
        }
        let growth = length.saturating_sub(self.taken(node));
        if growth > 0 {
            self.admit(growth)?;
        }
        Arc::make_mut(&mut self.node_mut(node).cache).resize(length, 0);
        self.queue.push(Item::Length { node, length });
        Ok(())
    }

    pub(super) fn reserve(&mut self, node: NodeId, length: u64) -> io::Result<bool> {
        if !self.reserves {
            return Ok(false);
        }
        let length = usize::try_from(length).map_err(|_| Errno::FBIG)?;
        let growth = length.saturating_sub(self.taken(node));
        if growth > 0 {
            let admitted = self.admit(growth);
            self.node_mut(node).reserved = if admitted.is_ok() { length } else { 0 };
            admitted?;
        }
        Ok(true)
    }

    /// Returns the space taken by a file, in bytes.
    fn taken(&self, node: NodeId) -> usize {
        self.length(node).max(self.node(node).reserved)
    }

    /// Returns the space taken by all files, in bytes.
    pub(super) fn used(&self) -> usize {
        self.names.values().map(|node| self.taken(*node)).sum()
    }

    /// Returns the additional space needed to overwrite these bytes. Pending sectors already have a
    /// new place.
    fn copied(&self, id: NodeId, bytes: std::ops::Range<usize>) -> usize {
        if !self.copies_on_write || bytes.is_empty() {
            return 0;
        }
        let sectors = bytes.start / self.sector..bytes.end.div_ceil(self.sector);
        let is_pending = |number: &usize| self.pending_sectors().contains(&(id.0, *number));
        sectors.filter(|number| !is_pending(number)).count() * self.sector
    }

    /// Returns the sectors that were written and not synced.
    fn pending_sectors(&self) -> BTreeSet<(usize, usize)> {
        let sector = |item: &Item| match item {
            Item::Sector { node, number, .. } => Some((node.0, *number)),
            Item::Length { .. } | Item::Directory { .. } => None,
        };
        self.queue.iter().filter_map(sector).collect()
    }

    /// Refuses growth beyond the limit.
    fn admit(&self, growth: usize) -> io::Result<()> {
        let mut used = self.used();
        if self.copies_on_write {
            // The old place of an overwritten sector is free only when the new one is durable.
            let is_overwrite = |&(node, number): &(usize, usize)| {
                self.node(NodeId(node)).disk.len() > number * self.sector
            };
            used += self.pending_sectors().into_iter().filter(is_overwrite).count() * self.sector;
        }
        let wanted = used.checked_add(growth).and_then(|sum| u64::try_from(sum).ok());
        match wanted {
            Some(wanted) if wanted <= self.limit => Ok(()),
            _ => Err(Errno::NOSPC.into()),
        }
    }

    fn pend_sector(&mut self, id: NodeId, number: usize) {
        let start = number * self.sector;
        let node = self.node(id);
        let end = (start + self.sector).min(node.cache.len());
        let image = node.cache.get(start..end).expect("a written sector is inside the file");
        let unchanged = node.disk.get(start..end) == Some(image);
        // An earlier pending item may change the disk first, so even an equal sector is queued.
        if !unchanged || self.queue.iter().any(|item| item.touches(id, number, end)) {
            let image = image.to_vec();
            self.queue.push(Item::Sector { node: id, number, image });
        }
    }

    // Pending items.

    pub(super) fn pending(&self) -> Vec<Pending> {
        self.queue.iter().map(|item| self.describe(item)).collect()
    }

    fn describe(&self, item: &Item) -> Pending {
        let number = |number: usize| u64::try_from(number).expect("lengths fit in 64 bits");
        let what = match item {
            Item::Sector { number: sector, .. } => What::Sector(number(*sector)),
            Item::Length { length, .. } => What::Length(number(*length)),
            Item::Directory { .. } => What::Directory,
        };
        Pending { file: self.node(item.node()).name.clone(), what }
    }

    /// Takes the items that `mine` accepts from the queue and applies them to the disk as `fate`
    /// decides.
    pub(super) fn settle(
        &mut self,
        mine: impl Fn(&Item) -> bool,
        fate: &mut dyn FnMut(&Pending) -> CrashOutcome,
    ) {
        let queue = std::mem::take(&mut self.queue);
        let (mine, others) = queue.into_iter().partition(|item| mine(item));
        self.queue = others;
        let mine: Vec<Item> = mine;
        let mut garbled = BTreeSet::new();
        for item in mine {
            match (fate(&self.describe(&item)), item) {
                (CrashOutcome::Whole, item) => self.land(item),
                (CrashOutcome::Garbled(block), Item::Sector { node, number, .. }) => {
                    garbled.insert((node, number * self.sector / block * block, block));
                }
                (torn, Item::Sector { node, number, image }) => {
                    self.tear(torn, (node, number), image);
                }
                (_, Item::Length { .. } | Item::Directory { .. }) => {}
            }
        }
        for (node, start, block) in garbled {
            let disk = Arc::make_mut(&mut self.node_mut(node).disk);
            let end = (start + block).min(disk.len());
            for byte in disk.get_mut(start..end).unwrap_or_default() {
                *byte ^= 0xA5;
            }
        }
    }

    /// Writes a part of a sector's image, or the image over another sector.
    fn tear(&mut self, how: CrashOutcome, (node, number): (NodeId, usize), image: Vec<u8>) {
        let start = number * self.sector;
        let old = self.node(node).disk.get(start..).unwrap_or_default();
        let mut torn: Vec<u8> = old.iter().copied().take(image.len()).collect();
        torn.resize(image.len(), 0);
        match how {
            CrashOutcome::Lost | CrashOutcome::Garbled(_) => return,
            CrashOutcome::Astray { file, sector } => {
                return self.land_astray(&file, sector, &image);
            }
            CrashOutcome::First(count) => {
                torn.iter_mut().zip(image).take(count).for_each(|(old, new)| *old = new);
            }
            CrashOutcome::Behind(count) => {
                torn.iter_mut().zip(image).skip(count).for_each(|(old, new)| *old = new);
            }
            CrashOutcome::Whole => torn = image,
        }
        self.land(Item::Sector { node, number, image: torn });
    }

    fn land_astray(&mut self, file: &str, sector: u64, image: &[u8]) {
        let Some(node) = self.durable_names.get(file).copied() else { return };
        let start = usize::try_from(sector).unwrap_or(usize::MAX).saturating_mul(self.sector);
        let disk = Arc::make_mut(&mut self.node_mut(node).disk);
        for (old, new) in disk.get_mut(start..).unwrap_or_default().iter_mut().zip(image) {
            *old = *new;
        }
    }

    fn land(&mut self, item: Item) {
        let sector = self.sector;
        match item {
            Item::Directory { node, change } => change.apply(&mut self.durable_names, node),
            item => item.land_on(Arc::make_mut(&mut self.node_mut(item.node()).disk), sector),
        }
    }

    /// Resets the cache to the content of the disk, after a crash. Nothing may be pending.
    pub(super) fn restart(&mut self) {
        assert!(self.queue.is_empty(), "every pending item has landed or is lost");
        self.names = self.durable_names.clone();
        let mut lost = std::mem::take(&mut self.nodes);
        self.nodes.resize(lost.len(), Node::default());
        for (name, NodeId(index)) in &self.names {
            let old = lost.get_mut(*index).map(std::mem::take).unwrap_or_default();
            let new = Node { name: name.clone(), cache: Arc::clone(&old.disk), ..old };
            *self.nodes.get_mut(*index).expect("the number of nodes is the same") = new;
        }
    }

    /// Starts a new boot.
    pub(super) fn reboot(&mut self) {
        self.boot += 1;
    }

    // Direct changes by tests.

    pub(super) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.names.get(name).map(|node| self.node(*node).cache.to_vec())
    }

    pub(super) fn spoil(&mut self, name: &str, bytes: std::ops::Range<usize>) {
        let node = self.existing(name);
        self.node_mut(node).unreadable = bytes;
    }

    pub(super) fn refuse_writes(&mut self, name: &str, refused: bool) {
        let node = self.existing(name);
        self.node_mut(node).refuses_writes = refused;
    }

    pub(super) fn replace(&mut self, name: &str, bytes: Vec<u8>) {
        let id = self.existing(name);
        self.queue.retain(|item| item.node() != id || matches!(item, Item::Directory { .. }));
        let node = self.node_mut(id);
        node.disk = Arc::new(bytes);
        node.cache = Arc::clone(&node.disk);
    }

    pub(super) fn edit_disk(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let node = self.existing(name);
        change(Arc::make_mut(&mut self.node_mut(node).disk));
    }

    /// Sets the cache to the content that the disk will have after all pending items.
    pub(super) fn evict(&mut self) {
        for index in 0..self.nodes.len() {
            let disk = self.settled_disk(NodeId(index));
            self.node_mut(NodeId(index)).cache = disk;
        }
    }

    /// Returns the content that the disk will have after all pending items of a file.
    fn settled_disk(&self, id: NodeId) -> Arc<Vec<u8>> {
        let mut disk = Arc::clone(&self.node(id).disk);
        for item in self.queue.iter().filter(|item| item.is_of_file(id)) {
            item.land_on(Arc::make_mut(&mut disk), self.sector);
        }
        disk
    }

    pub(super) fn remove_raw(&mut self, name: &str) {
        self.existing(name);
        self.forget(name);
    }

    /// Creates a durable file, and replaces a file of this name.
    pub(super) fn place_raw(&mut self, name: &str, bytes: Vec<u8>) {
        self.forget(name);
        let node = self.add(name, bytes);
        self.names.insert(name.to_owned(), node);
        self.durable_names.insert(name.to_owned(), node);
    }

    fn forget(&mut self, name: &str) {
        self.names.remove(name);
        self.durable_names.remove(name);
        self.queue.retain(
            |item| !matches!(item, Item::Directory { change, .. } if change.result() == name),
        );
    }

    fn existing(&self, name: &str) -> NodeId {
        *self.names.get(name).unwrap_or_else(|| panic!("no such file: {name}"))
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) -> NodeId {
        let disk = Arc::new(bytes);
        let cache = Arc::clone(&disk);
        self.nodes.push(Node { name: name.to_owned(), cache, disk, ..Node::default() });
        NodeId(self.nodes.len() - 1)
    }

    fn node(&self, NodeId(index): NodeId) -> &Node {
        self.nodes.get(index).expect("nodes are never removed")
    }

    fn node_mut(&mut self, NodeId(index): NodeId) -> &mut Node {
        self.nodes.get_mut(index).expect("nodes are never removed")
    }
}
