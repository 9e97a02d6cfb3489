//! The table of a volume: which files there are, and where their bytes are. It does no I/O.
//!
//! Little-endian; checksums are CRC-32C bound to the volume and the place.
//!
//! ```text
//! superblock, at 0, one sector
//! byte  size  field
//!    0     8  magic        "SWVOLM01"
//!    8     8  volume       64 random bits
//!   16     8  disk size    bytes
//!   24     4  checksum     of bytes 0..24
//!
//! entries, from 4096 on, one sector each; a sector of zeros has none
//!    0     8  sequence     of two entries with one name the higher one counts
//!    8     8  length       of the file, in bytes
//!   16     2  name size    bytes
//!   18     2  slots        their number
//!   20   100  name         a path with "/" between its parts; that of a folder ends with "/"
//!  120     2  mode         permission bits
//!  122     2  zero
//!  124     4  user         number of the owner
//!  128     4  group        number of the owner's group
//!  132     8  changed      microseconds since 1970
//!  140   4*n  slots        where the file's bytes are, see below
//!  508     4  checksum     of bytes 0..508
//!
//! chunks, from the first multiple of their size after the entries on
//! ```
//!
//! A slot is the number of a chunk, from 1 on, or 0: a hole, which reads as zeros. A slot with the
//! top bit is a count of further chunks: those after the last chunk of the slot before, or holes
//! after a hole.
//!
//! The entry "/" has the attributes of the root. A sector is written whole or not at all, so an
//! entry is old or new. A chunk gets another owner only after a flush, so two entries never name
//! the same chunk.

use crate::dump::{long, short};
use crate::layout::{BLOCK_SIZE, SECTOR_SIZE, to_u64, to_usize};
use seawall_format::{LogId, Offset, Salt};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"SWVOLM01";
const SUPERBLOCK_SIZE: usize = 24;
const NAME_AT: usize = 20;
/// The longest path in bytes.
pub(super) const NAME_MAX: usize = 100;
const ATTRIBUTES_AT: usize = NAME_AT + NAME_MAX;
const SLOTS_AT: usize = ATTRIBUTES_AT + 20;
const CHECKSUM_AT: usize = SECTOR_SIZE - 4;
const SLOTS_MAX: usize = (CHECKSUM_AT - SLOTS_AT) / 4;
/// The bit of a slot that counts chunks.
const MORE: u32 = 1 << 31;
/// The number of files and folders in a volume.
const ENTRIES: usize = 1024;
/// The size of superblock and entries in bytes.
pub(super) const TABLE_SIZE: usize = BLOCK_SIZE + ENTRIES * SECTOR_SIZE;
/// The smallest and the largest size of a chunk.
const CHUNK_SIZES: (u64, u64) = (64 * 1024, 1024 * 1024);
const _: () = assert!(SLOTS_MAX * 1024 * 1024 > 64 << 20, "a segment fits, however scattered");

/// The attributes of a file besides its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The permission bits.
    pub(crate) mode: u16,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Microseconds since 1970.
    pub(crate) changed_us: u64,
}

/// One file or folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// The place of its entry in the table.
    pub(super) entry: usize,
    pub(super) sequence: u64,
    /// `None` once its name was removed.
    pub(super) name: Option<String>,
    /// Further names, which are not on the disk.
    pub(super) links: Vec<String>,
    pub(super) attributes: Attributes,
    pub(super) length: u64,
    pub(super) chunks: Vec<u32>,
    /// Open handles.
    pub(super) handles: usize,
}

/// The files of a volume.
#[derive(Debug)]
pub(super) struct Table {
    salt: Salt,
    chunk_size: u64,
    /// For each chunk, from number 1 on, whether it is free.
    free: Vec<bool>,
    entries: Vec<bool>,
    nodes: HashMap<u64, Node>,
    pub(super) names: BTreeMap<String, u64>,
    newest: u64,
    next_node: u64,
}

/// The superblock of a new volume.
pub(super) fn superblock(volume: u64, disk_size: u64) -> [u8; SECTOR_SIZE] {
    let mut sector = [0; SECTOR_SIZE];
    let fields = [volume, disk_size].map(u64::to_le_bytes);
    let mut head: Vec<u8> = MAGIC.iter().chain(fields.as_flattened()).copied().collect();
    head.extend(Salt::of_log(LogId(volume)).checksum(Offset(0), &head).to_le_bytes());
    sector.iter_mut().zip(head).for_each(|(to, from)| *to = from);
    sector
}

/// Returns whether a disk has never been used.
pub(super) fn is_unused(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

impl Table {
    /// Reads the table. Also returns the entries to clear, which newer ones have replaced.
    pub(super) fn read(bytes: &[u8], disk_size: u64) -> io::Result<(Self, Vec<usize>)> {
        let superblock = bytes.get(..SUPERBLOCK_SIZE).unwrap_or_default();
        let volume = long(superblock, 8).filter(|_| superblock.starts_with(MAGIC));
        let volume = volume.ok_or_else(|| invalid("the disk holds something else".to_owned()))?;
        let salt = Salt::of_log(LogId(volume));
        let checksum = short(bytes, SUPERBLOCK_SIZE);
        if checksum != Some(salt.checksum(Offset(0), superblock)) {
            return Err(invalid("the volume's first sector is damaged".to_owned()));
        }
        if long(superblock, 16) != Some(disk_size) {
            return Err(invalid("the volume was made for a disk of another size".to_owned()));
        }
        let mut table = Self::empty(salt, disk_size)?;
        let mut replaced = Vec::new();
        let sectors = bytes.get(BLOCK_SIZE..).unwrap_or_default().chunks(SECTOR_SIZE);
        for (entry, sector) in sectors.take(ENTRIES).enumerate() {
            if is_unused(sector) {
                continue;
            }
            let damaged = || invalid(format!("entry {entry} of the volume is damaged"));
            let node = table.decode(entry, sector).ok_or_else(damaged)?;
            table.newest = table.newest.max(node.sequence);
            replaced.extend(table.add_newer(node));
        }
        for node in table.nodes.values() {
            for chunk in node.chunks.iter().filter(|chunk| **chunk != 0) {
                let slot = table.free.get_mut(index_of(*chunk));
                let is_taken = |free: &mut bool| !std::mem::replace(free, false);
                if slot.is_none_or(is_taken) {
                    return Err(invalid(format!("chunk {chunk} of the volume has no one owner")));
                }
            }
        }
        Ok((table, replaced))
    }

    fn empty(salt: Salt, disk_size: u64) -> io::Result<Self> {
        let chunk_size = (disk_size / 128).next_power_of_two().clamp(CHUNK_SIZES.0, CHUNK_SIZES.1);
        let before = to_u64(TABLE_SIZE).div_ceil(chunk_size);
        let chunks = (disk_size / chunk_size).saturating_sub(before);
        if chunks == 0 {
            let least = (before + 1) * chunk_size;
            return Err(invalid(format!("a volume needs a disk of at least {least} bytes")));
        }
        let chunks = to_usize(chunks.min(u64::from(MORE - 1)));
        Ok(Self {
            salt,
            chunk_size,
            free: vec![true; chunks],
            entries: vec![false; ENTRIES],
            nodes: HashMap::new(),
            names: BTreeMap::new(),
            newest: 0,
            next_node: 1,
        })
    }

    /// Adds an entry that was read; returns the older one of the same name.
    fn add_newer(&mut self, node: Node) -> Option<usize> {
        let name = node.name.clone()?;
        let known = self.names.get(&name).copied();
        let older = known.and_then(|id| self.nodes.get(&id).map(|known| (id, known.sequence)));
        match older {
            Some((_, sequence)) if sequence > node.sequence => Some(node.entry),
            Some((id, _)) => {
                let replaced = self.nodes.remove(&id).map(|older| older.entry);
                self.insert(node);
                replaced
            }
            None => {
                self.insert(node);
                None
            }
        }
    }

    fn insert(&mut self, node: Node) -> u64 {
        let id = self.next_node;
        self.next_node += 1;
        if let Some(taken) = self.entries.get_mut(node.entry) {
            *taken = true;
        }
        if let Some(name) = &node.name {
            self.names.insert(name.clone(), id);
        }
        self.nodes.insert(id, node);
        id
    }

    /// Encodes the entry of a node. Returns its offset on the disk, and its bytes.
    pub(super) fn encode(&self, node: &Node) -> io::Result<(u64, [u8; SECTOR_SIZE])> {
        let place = place_of(node.entry);
        let mut sector = [0; SECTOR_SIZE];
        let name = node.name.as_deref().unwrap_or_default().as_bytes();
        let slots = slots_of(&node.chunks);
        let sizes = u16::try_from(name.len()).ok().zip(u16::try_from(slots.len()).ok());
        let (Some(sizes), true) = (sizes, name.len() <= NAME_MAX) else {
            let why = format!("a name of {} bytes exceeds the maximum of {NAME_MAX}", name.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        if slots.len() > SLOTS_MAX {
            let why = "the free space of the volume is too scattered for this file";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        let mut bytes = [node.sequence, node.length].map(u64::to_le_bytes).as_flattened().to_vec();
        bytes.extend([sizes.0, sizes.1].map(u16::to_le_bytes).as_flattened());
        bytes.extend(name);
        bytes.resize(ATTRIBUTES_AT, 0);
        let Attributes { mode, user, group, changed_us } = node.attributes;
        bytes.extend([mode, 0].map(u16::to_le_bytes).as_flattened());
        bytes.extend([user, group].map(u32::to_le_bytes).as_flattened());
        bytes.extend(changed_us.to_le_bytes());
        bytes.extend(slots.iter().flat_map(|slot| slot.to_le_bytes()));
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend(self.salt.checksum(Offset(place), &bytes).to_le_bytes());
        sector.copy_from_slice(&bytes);
        Ok((place, sector))
    }

    fn decode(&self, entry: usize, sector: &[u8]) -> Option<Node> {
        let (covered, checksum) = sector.split_at_checked(CHECKSUM_AT)?;
        if short(checksum, 0)? != self.salt.checksum(Offset(place_of(entry)), covered) {
            return None;
        }
        let two = |at: usize| covered.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
        let (name_size, slots) = (usize::from(two(16)?), usize::from(two(18)?));
        if name_size > NAME_MAX || slots > SLOTS_MAX {
            return None;
        }
        let name = covered.get(NAME_AT..NAME_AT + name_size)?;
        let slots = (0..slots).map(|n| short(covered, SLOTS_AT + 4 * n));
        Some(Node {
            entry,
            sequence: long(covered, 0)?,
            name: Some(String::from_utf8(name.to_vec()).ok()?),
            links: Vec::new(),
            attributes: Attributes {
                mode: two(ATTRIBUTES_AT)?,
                user: short(covered, ATTRIBUTES_AT + 4)?,
                group: short(covered, ATTRIBUTES_AT + 8)?,
                changed_us: long(covered, ATTRIBUTES_AT + 12)?,
            },
            length: long(covered, 8)?,
            chunks: chunks_in(&slots.collect::<Option<Vec<_>>>()?, self.free.len())?,
            handles: 0,
        })
    }

    /// Returns an empty node of this name, with a free entry.
    pub(super) fn new_node(&mut self, name: String) -> io::Result<Node> {
        let entry = self.entries.iter().position(|taken| !taken).ok_or_else(|| {
            let why = format!("the volume has no room for more than {ENTRIES} files");
            io::Error::new(io::ErrorKind::StorageFull, why)
        })?;
        let mode = if name.ends_with('/') { 0o700 } else { 0o600 };
        let attributes = Attributes { mode, ..Attributes::default() };
        let sequence = self.next_sequence();
        Ok(Node { entry, sequence, name: Some(name), attributes, ..Node::default() })
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// Records a new or changed node that was already written to the disk.
    pub(super) fn set(&mut self, id: Option<u64>, node: Node) -> u64 {
        let Some(id) = id else { return self.insert(node) };
        if let Some(old) = self.nodes.get(&id).and_then(|old| old.name.clone())
            && node.name.as_ref() != Some(&old)
            && self.names.get(&old) == Some(&id)
        {
            self.names.remove(&old);
        }
        if let Some(name) = &node.name {
            self.names.insert(name.clone(), id);
        }
        self.nodes.insert(id, node);
        id
    }

    /// Forgets a node without a name and without handles: its entry and chunks become free.
    pub(super) fn forget_unused(&mut self, id: u64) {
        let is_unused = |node: &Node| node.name.is_none() && node.handles == 0;
        let Some(node) = self.nodes.get(&id).filter(|node| is_unused(node)).cloned() else {
            return;
        };
        self.nodes.remove(&id);
        if let Some(taken) = self.entries.get_mut(node.entry) {
            *taken = false;
        }
        self.release(&node.chunks);
    }

    pub(super) fn node(&self, id: u64) -> io::Result<&Node> {
        self.nodes.get(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn node_mut(&mut self, id: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// The node of this path.
    pub(super) fn find(&self, path: &str) -> Option<u64> {
        self.names.get(path).copied()
    }

    /// The names of the files in a folder, whose path ends with "/" unless it is empty.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let inside = self.names.keys().filter_map(|path| path.strip_prefix(folder));
        inside.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect()
    }

    /// Allocates `count` chunks or none: in few runs, and directly after the chunk `before` if
    /// those are free.
    pub(super) fn allocate(&mut self, count: usize, before: Option<u32>) -> io::Result<Vec<u32>> {
        let mut runs = self.free_runs();
        let free: usize = runs.iter().map(Range::len).sum();
        if free < count {
            let missing = to_u64(count - free).saturating_mul(self.chunk_size);
            let why = format!("the volume lacks {missing} bytes");
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        // Prefers the shortest run that is long enough, or else the longest.
        let fit = |size| if size < count { usize::MAX - size } else { size };
        let next = before.map(|before| index_of(before) + 1);
        runs.sort_by_key(|run| (Some(run.start) != next, fit(run.len())));
        let chunks: Vec<u32> =
            runs.into_iter().flatten().take(count).filter_map(chunk_at).collect();
        for chunk in &chunks {
            if let Some(free) = self.free.get_mut(index_of(*chunk)) {
                *free = false;
            }
        }
        Ok(chunks)
    }

    /// The runs of free chunks, as ranges of indexes.
    fn free_runs(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, _) in self.free.iter().enumerate().filter(|(_, is_free)| **is_free) {
            match runs.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }

    /// Makes chunks free.
    pub(super) fn release(&mut self, chunks: &[u32]) {
        for chunk in chunks.iter().filter(|chunk| **chunk != 0) {
            if let Some(free) = self.free.get_mut(index_of(*chunk)) {
                *free = true;
            }
        }
    }

    /// The number of free chunks, and of all.
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    pub(super) fn space(&self) -> [usize; 2] {
        [self.free.iter().filter(|free| **free).count(), self.free.len()]
    }

    /// The number of free entries, and of all.
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    pub(super) fn entries(&self) -> [usize; 2] {
        [self.entries.iter().filter(|taken| !**taken).count(), ENTRIES]
    }

    pub(super) fn chunk_size(&self) -> u64 {
        self.chunk_size
    }

    /// The number of chunks of a file of this length.
    pub(super) fn chunks_of(&self, length: u64) -> io::Result<usize> {
        let chunks = to_usize(length.div_ceil(self.chunk_size));
        if chunks <= self.free.len() {
            return Ok(chunks);
        }
        let most = to_u64(self.free.len()) * self.chunk_size;
        let why = format!("a file of this volume has at most {most} bytes");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
    }

    /// Where on the disk a chunk begins.
    pub(super) fn start_of(&self, chunk: u32) -> u64 {
        let before = to_u64(TABLE_SIZE).div_ceil(self.chunk_size);
        (before + u64::from(chunk) - 1) * self.chunk_size
    }
}

/// Where on the disk an entry is.
pub(super) fn place_of(entry: usize) -> u64 {
    to_u64(BLOCK_SIZE + entry * SECTOR_SIZE)
}

fn index_of(chunk: u32) -> usize {
    to_usize(u64::from(chunk)).wrapping_sub(1)
}

fn chunk_at(index: usize) -> Option<u32> {
    u32::try_from(index + 1).ok()
}

/// The slots of an entry for these chunks.
fn slots_of(chunks: &[u32]) -> Vec<u32> {
    let mut slots: Vec<u32> = Vec::new();
    let mut before = None;
    for chunk in chunks {
        let continues = before.is_some_and(|before| *chunk == after(before, 1));
        match slots.last_mut() {
            Some(slot) if continues && *slot & MORE != 0 => *slot += 1,
            _ if continues => slots.push(MORE | 1),
            _ => slots.push(*chunk),
        }
        before = Some(*chunk);
    }
    slots
}

/// The chunks of an entry with these slots; `None` if they are more than `most`.
fn chunks_in(slots: &[u32], most: usize) -> Option<Vec<u32>> {
    let mut chunks: Vec<u32> = Vec::new();
    for slot in slots {
        if slot & MORE == 0 {
            chunks.push(*slot);
        } else {
            let before = *chunks.last()?;
            let more = slot & !MORE;
            if to_usize(u64::from(more)) > most.saturating_sub(chunks.len()) {
                return None;
            }
            chunks.extend((1..=more).map(|number| after(before, number)));
        }
    }
    (chunks.len() <= most).then_some(chunks)
}

/// The chunk that is `number` chunks after this one; all chunks after a hole are holes.
fn after(chunk: u32, number: u32) -> u32 {
    if chunk == 0 { 0 } else { chunk.saturating_add(number) }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_testkit::each_seed;

    #[test]
    fn slots_say_which_chunks() {
        let all = |chunks: &[u32]| chunks_in(&slots_of(chunks), chunks.len());
        for (chunks, slots) in [
            (vec![], vec![]),
            (vec![5, 6, 7, 9], vec![5, MORE | 2, 9]),
            (vec![0, 0, 0, 1, 0], vec![0, MORE | 2, 1, 0]),
            (vec![3, 2, 1], vec![3, 2, 1]),
        ] {
            assert_eq!(slots_of(&chunks), slots);
            assert_eq!(all(&chunks), Some(chunks));
        }
        each_seed(200, |dice| {
            let count = dice.index(40);
            let chunks: Vec<u32> =
                (0..count).map(|_| u32::try_from(dice.index(4)).unwrap_or_default()).collect();
            assert_eq!(all(&chunks), Some(chunks));
        });
    }

    #[test]
    fn forged_slots_are_refused() {
        for slots in [vec![MORE | 1], vec![1, MORE | 9], vec![0, u32::MAX], vec![1, u32::MAX]] {
            assert_eq!(chunks_in(&slots, 9), None, "{slots:?}");
        }
        assert_eq!(chunks_in(&[1; 10], 9), None);
        // Chunks outside the volume are refused later, when their owners are looked up.
        assert_eq!(chunks_in(&[MORE - 1, MORE | 2], 9).map(|chunks| chunks.len()), Some(3));
    }
}
