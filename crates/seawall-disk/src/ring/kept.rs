//! The memory of a ring, laid out so that another process can read it after this one was killed.
//!
//! Little-endian; CRC-32C checksums bound to the state directory, the server's start and the place.
//!
//! ```text
//! header, at 0, alone in its block of 4096
//! byte  size  field
//!    0     8  magic        "SWKEPT01"
//!    8     8  state        random number of the state directory
//!   16     8  serve        number of the server's start in that directory
//!   24     8  home size    bytes
//!   32     4  buffers
//!   36     4  buffer size  bytes
//!   40     4  checksum     of bytes 0..40
//!   48     8  active       when the home was last written, in microseconds since 1970
//!
//! entries, from 4096 on: one for each buffer, then one for an overwrite; each has two copies
//!    0     8  sequence     of two valid copies the one with the higher sequence counts
//!    8     8  number       of the run; 0: there is none
//!   16     8  offset       of its bytes in the home
//!   24     8  size         bytes
//!   32     4  checksum     of bytes 0..32
//!   64                     the other copy, then the next entry at 128
//!
//! buffers, from the next multiple of 4096 on; then one of the same size for an overwrite
//! ```
//!
//! A process can be killed between any two stores. So bytes are stored before the entry that
//! mentions them, and an entry is replaced by overwriting the copy that does not count. Bytes of a
//! run are overwritten in three steps: the new bytes are stored in the last buffer, the entry of
//! the overwrite is set, and the bytes are copied to the run. A reader that finds that entry copies
//! them again, so no sector is half new.

use super::buffer::{Buffer, place};
use crate::dump::{long, short};
use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use seawall_format::{Epoch, LogId, Offset, Salt};
use seawall_io::{Memory, MemoryPart};
use std::fmt;

const MAGIC: &[u8; 8] = b"SWKEPT01";
const HEADER_SIZE: usize = 40;
const ACTIVE_AT: usize = 48;
const COPY_SIZE: usize = 64;
const ENTRY_SIZE: usize = 2 * COPY_SIZE;
/// The bytes of a copy before its checksum.
const COVERED_SIZE: usize = 32;
/// The most buffers of a ring: the memory of one with more cannot be read back.
pub const BUFFERS_MAX: usize = 1024;

/// Identifies the owner of a ring's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// A random number that identifies the state directory.
    pub state: u64,
    /// Counts the starts of servers in that directory.
    pub serve: u64,
    /// The size of the disk in bytes.
    pub home_size: u64,
}

impl Identity {
    fn salt(&self) -> Salt {
        Salt::new(LogId(self.state), Epoch(self.serve))
    }
}

/// The size in bytes of the memory of a ring with `buffers` buffers of `buffer_size` bytes.
///
/// # Examples
///
/// ```
/// assert_eq!(seawall_disk::kept_size(6, 512 * 1024), 4096 + 4096 + 7 * (512 * 1024 + 4096));
/// ```
#[must_use]
pub fn kept_size(buffers: usize, buffer_size: usize) -> usize {
    part_sizes(buffers, buffer_size).iter().sum()
}

fn part_sizes(buffers: usize, buffer_size: usize) -> Vec<usize> {
    let entries = ((buffers + 1) * ENTRY_SIZE).next_multiple_of(BLOCK_SIZE);
    let mut sizes = vec![BLOCK_SIZE, entries];
    sizes.extend(std::iter::repeat_n(Buffer::room(buffer_size), buffers + 1));
    sizes
}

/// The contents of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the run; 0: there is none.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) size: usize,
}

/// The memory of a ring apart from its buffers.
#[derive(Debug)]
pub(crate) struct Index {
    header: MemoryPart,
    entries: MemoryPart,
    salt: Salt,
    /// The sequence of the copy that counts, for each entry.
    sequences: Vec<u64>,
    staging: Buffer,
}

impl Index {
    /// Lays out new memory, which must have the [size](kept_size) of this ring.
    pub(crate) fn format(
        memory: Memory,
        identity: &Identity,
        (buffers, buffer_size): (usize, usize),
    ) -> (Self, Vec<Buffer>) {
        let mut parts = memory.split(&part_sizes(buffers, buffer_size)).into_iter();
        let mut next = || parts.next().expect("one part for each size");
        let (header, entries) = (next(), next());
        let slots = (0..buffers).map(|_| Buffer::new(next())).collect();
        let (salt, staging) = (identity.salt(), Buffer::new(next()));
        let sequences = vec![0; buffers + 1];
        let mut index = Self { header, entries, salt, sequences, staging };
        for entry in 0..=buffers {
            index.set(entry, &Entry::default());
        }
        let number = |size| u32::try_from(size).unwrap_or(u32::MAX);
        index.header.store(0, &encode_header(identity, number(buffers), number(buffer_size)));
        (index, slots)
    }

    /// Notes when the home is written.
    pub(crate) fn set_active(&mut self, time_us: u64) {
        self.header.store(ACTIVE_AT, &time_us.to_le_bytes());
    }

    /// Replaces the entry of a buffer.
    pub(crate) fn set(&mut self, at: usize, entry: &Entry) {
        let Some(sequence) = self.sequences.get_mut(at) else { return };
        *sequence += 1;
        let to = copy_at(at, *sequence);
        let fields = [*sequence, entry.number, entry.offset, to_u64(entry.size)];
        let mut copy = [0; COVERED_SIZE + 4];
        let (covered, checksum) = copy.split_at_mut(COVERED_SIZE);
        covered.copy_from_slice(fields.map(u64::to_le_bytes).as_flattened());
        checksum.copy_from_slice(&checksum_of(self.salt, to, covered).to_le_bytes());
        self.entries.store(to, &copy);
    }

    /// Stores the new bytes of a run in the last buffer, so that a reader can finish the overwrite.
    pub(crate) fn begin_overwrite(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        self.staging.put(0, bytes);
        self.set(self.sequences.len() - 1, &Entry { number, offset, size: bytes.len() });
    }

    /// Clears the entry of the overwrite: all of its bytes have been copied.
    pub(crate) fn end_overwrite(&mut self) {
        self.set(self.sequences.len() - 1, &Entry::default());
    }
}

/// The place of the copy with this sequence.
fn copy_at(entry: usize, sequence: u64) -> usize {
    entry * ENTRY_SIZE + to_usize(sequence % 2) * COPY_SIZE
}

fn checksum_of(salt: Salt, place: usize, covered: &[u8]) -> u32 {
    salt.checksum(Offset(to_u64(BLOCK_SIZE + place)), covered)
}

fn encode_header(identity: &Identity, buffers: u32, buffer_size: u32) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    let fields = [identity.state, identity.serve, identity.home_size];
    header.extend(fields.map(u64::to_le_bytes).as_flattened());
    header.extend([buffers, buffer_size].map(u32::to_le_bytes).as_flattened());
    header.extend(identity.salt().checksum(Offset(0), &header).to_le_bytes());
    header
}

/// Why memory cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptError {
    /// It is not the memory of a ring.
    NotKept,
    /// The header or an entry has changed.
    Damaged,
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotKept => "it is not the memory of a virtual disk",
            Self::Damaged => "the memory of the virtual disk does not match its checksums",
        })
    }
}

impl std::error::Error for KeptError {}

/// The memory of a ring whose process has ended.
#[derive(Debug)]
pub struct Kept {
    /// The owner of the memory.
    pub identity: Identity,
    /// When the home was last written, in microseconds since 1970.
    pub active_us: u64,
    /// The number of runs whose entries have changed: their bytes are lost. So are those of an
    /// overwrite that cannot be finished.
    pub lost: u32,
    /// The valid runs in the order of their numbers.
    runs: Vec<(Entry, Buffer)>,
}

impl Kept {
    /// Reads the memory, and finishes an interrupted overwrite.
    ///
    /// # Errors
    ///
    /// The memory holds something else, or its header was changed.
    pub fn read(memory: Memory) -> Result<Self, KeptError> {
        let bytes = memory.bytes();
        let (identity, buffers, buffer_size) = decode_header(bytes)?;
        let active_us = long(bytes, ACTIVE_AT).ok_or(KeptError::NotKept)?;
        let all_buffers = buffer_size.checked_mul(buffers);
        let is_fit = (1..=BUFFERS_MAX).contains(&buffers)
            && all_buffers.is_some_and(|size| size <= bytes.len())
            && kept_size(buffers, buffer_size) == bytes.len();
        let entries = bytes.get(BLOCK_SIZE..).filter(|_| is_fit).ok_or(KeptError::Damaged)?;
        let found = |at| read_entry(entries, at, &identity, buffer_size);
        let overwrite = found(buffers);
        let found: Vec<_> = (0..buffers).map(found).collect();
        let mut parts = memory.split(&part_sizes(buffers, buffer_size)).into_iter().skip(2);
        let lost = u32::from(overwrite.is_none());
        let mut kept = Self { identity, active_us, lost, runs: Vec::new() };
        for (entry, part) in found.into_iter().zip(&mut parts) {
            match entry {
                Some(entry) if entry.number == 0 => {}
                Some(entry) => kept.runs.push((entry, Buffer::new(part))),
                None => kept.lost += 1,
            }
        }
        kept.runs.sort_by_key(|(entry, _)| entry.number);
        if let (Some(overwrite), Some(staging)) = (overwrite, parts.next()) {
            kept.finish(&overwrite, &Buffer::new(staging));
        }
        Ok(kept)
    }

    /// The runs as (number, offset, bytes), oldest first.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64, &[u8])> + Clone {
        self.runs.iter().map(|(run, buffer)| {
            let bytes = buffer.get(place(run.offset, run.offset), run.size);
            (run.number, run.offset, bytes)
        })
    }

    /// Returns whether there were no runs to save, not even lost ones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.lost == 0
    }

    /// The number of bytes that were not on the device.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.runs.iter().map(|(run, _)| run.size).sum()
    }

    fn finish(&mut self, overwrite: &Entry, staging: &Buffer) {
        let is_it = |(run, _): &&mut (Entry, Buffer)| {
            let is_inside = run.offset <= overwrite.offset && overwrite.end() <= run.end();
            run.number == overwrite.number && is_inside
        };
        if let Some((run, buffer)) = self.runs.iter_mut().find(is_it) {
            buffer.put(place(run.offset, overwrite.offset), staging.get(0, overwrite.size));
        }
    }
}

impl Entry {
    fn end(&self) -> u64 {
        self.offset.saturating_add(to_u64(self.size))
    }
}

fn decode_header(bytes: &[u8]) -> Result<(Identity, usize, usize), KeptError> {
    let header = bytes.get(..HEADER_SIZE).filter(|header| header.starts_with(MAGIC));
    let header = header.ok_or(KeptError::NotKept)?;
    let field = |at| long(header, at).ok_or(KeptError::NotKept);
    let identity = Identity { state: field(8)?, serve: field(16)?, home_size: field(24)? };
    if short(bytes, HEADER_SIZE) != Some(identity.salt().checksum(Offset(0), header)) {
        return Err(KeptError::Damaged);
    }
    let count = |at| short(header, at).and_then(|count| usize::try_from(count).ok());
    let sizes = count(32).zip(count(36)).ok_or(KeptError::NotKept)?;
    Ok((identity, sizes.0, sizes.1))
}

/// The copy of an entry that counts; `None` if neither is valid.
fn read_entry(entries: &[u8], at: usize, identity: &Identity, buffer_size: usize) -> Option<Entry> {
    let copies = [copy_at(at, 0), copy_at(at, 1)].into_iter().filter_map(|place| {
        let covered = entries.get(place..place + COVERED_SIZE)?;
        let is_valid =
            short(entries, place + COVERED_SIZE)? == checksum_of(identity.salt(), place, covered);
        let size = usize::try_from(long(covered, 24)?).ok()?;
        let entry = Entry { number: long(covered, 8)?, offset: long(covered, 16)?, size };
        is_valid.then_some((long(covered, 0)?, entry))
    });
    let (_, entry) = copies.max_by_key(|(sequence, _)| *sequence)?;
    let end = entry.offset.checked_add(to_u64(entry.size))?;
    (entry.size <= buffer_size && end <= identity.home_size).then_some(entry)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::ring::Ring;
    use seawall_testkit::{Dice, each_seed};
    use std::time::Duration;

    const SIZES: (usize, usize) = (2, 8192);
    const IDENTITY: Identity = Identity { state: 7, serve: 3, home_size: 1 << 20 };

    /// The memory of a ring with two runs.
    fn used() -> Vec<u8> {
        let size = kept_size(SIZES.0, SIZES.1);
        let mut ring = Ring::in_memory(Memory::private(size), &IDENTITY, SIZES);
        ring.write(5000, &[1; 600], Duration::ZERO).unwrap();
        ring.write(90_000, &[2; 600], Duration::ZERO).unwrap();
        ring.write(5100, &[3; 50], Duration::ZERO).unwrap();
        let Index { header, entries, staging, .. } = &ring.index;
        let slots = ring.slots.iter().map(|slot| &*slot.buffer);
        let buffers = slots.chain([staging]).map(|buffer| buffer.get(0, Buffer::room(SIZES.1)));
        let parts = [header.bytes(), entries.bytes()].into_iter().chain(buffers);
        parts.flatten().copied().collect()
    }

    fn read(bytes: &[u8]) -> Result<Kept, KeptError> {
        let (memory, descriptor) = Memory::shared("seawall-test", bytes.len()).unwrap();
        memory.split(&[bytes.len()]).remove(0).store(0, bytes);
        Kept::read(Memory::attach(descriptor, 1 << 20).unwrap())
    }

    fn runs(kept: &Kept) -> Vec<(u64, u64, Vec<u8>)> {
        kept.runs().map(|(number, offset, bytes)| (number, offset, bytes.to_vec())).collect()
    }

    #[test]
    fn what_a_ring_holds_is_read_back() {
        let kept = read(&used()).unwrap();
        assert_eq!((kept.identity, kept.lost, kept.dirty()), (IDENTITY, 0, 1200));
        let mut first = vec![1; 600];
        first[100..150].fill(3);
        assert_eq!(runs(&kept), [(1, 5000, first), (2, 90_000, vec![2; 600])]);
    }

    #[test]
    fn changed_header_is_refused_and_a_changed_entry_is_counted() {
        let sound = used();
        for at in 0..HEADER_SIZE + 4 {
            let mut changed = sound.clone();
            changed[at] ^= 0x10;
            let error = read(&changed).unwrap_err();
            assert_eq!(error == KeptError::NotKept, at < 8, "byte {at}: {error}");
        }
        for at in [0, 8, 16, 24, 32].map(|field| BLOCK_SIZE + field) {
            // Changes both copies of the first entry.
            let mut changed = sound.clone();
            changed[at] ^= 0x10;
            changed[at + COPY_SIZE] ^= 0x10;
            let kept = read(&changed).unwrap();
            assert_eq!((kept.lost, kept.runs().count()), (1, 1), "byte {at}");
            // The last entry has no run, and may have had an unfinished overwrite.
            let mut changed = sound.clone();
            changed[at + SIZES.0 * ENTRY_SIZE] ^= 0x10;
            changed[at + SIZES.0 * ENTRY_SIZE + COPY_SIZE] ^= 0x10;
            let kept = read(&changed).unwrap();
            assert_eq!((kept.lost, kept.runs().count()), (1, 2), "byte {at}");
        }
        for size in [1, HEADER_SIZE, BLOCK_SIZE, sound.len() - 1] {
            assert!(read(&sound[..size]).is_err(), "{size} bytes");
        }
    }

    #[test]
    fn arbitrary_memory_does_not_panic() {
        let sound = used();
        each_seed(300, |dice: &mut Dice| {
            let mut changed = sound.clone();
            for _ in 0..=dice.index(20) {
                let at = if dice.one_in(2) { dice.index(BLOCK_SIZE + 600) } else { dice.index(64) };
                changed[at] = dice.byte();
            }
            let buffers = u32::try_from(dice.below(80)).unwrap();
            if dice.one_in(2) {
                let header =
                    encode_header(&IDENTITY, buffers, u32::try_from(dice.below(1 << 32)).unwrap());
                changed[..header.len()].copy_from_slice(&header);
            }
            if let Ok(kept) = read(&changed) {
                assert!(kept.dirty() <= 2 * SIZES.1);
            }
        });
    }
}
