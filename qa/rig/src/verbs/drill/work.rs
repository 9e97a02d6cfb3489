//! The clients of a drill: they write numbered, checksummed blocks and flush. After a cut, the
//! blocks are read back and checked.

use seawall_io::{Entropy, File, SeededEntropy};
use seawall_measure::human::to_u64;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub(super) const BLOCK: u64 = 4096;
const SECTOR: usize = 512;
/// Blocks of one client: 2 MiB.
const SHARE: u64 = 512;
/// Bytes of the disk: room for more clients than a drill may have.
pub(super) const SIZE: u64 = 8 * SHARE * BLOCK;
/// The longest write, in blocks.
const WRITE_MAX: u64 = 8;
const MAGIC: u64 = u64::from_le_bytes(*b"SWDRILL1");

/// The lowest version that each block must have, because a flush of it returned.
pub(super) type Promised = BTreeMap<u64, u64>;

/// A client of a drill.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    /// The client's number; no other client writes its blocks.
    pub(super) number: u16,
    /// Versions written by this client are above this.
    pub(super) above: u64,
    pub(super) seed: u64,
}

impl Client {
    /// Writes and flushes until `stop` is set or the disk fails. Passes the versions that each
    /// successful flush acknowledged to `tell`.
    ///
    /// # Errors
    ///
    /// An error of the disk or of `tell`.
    pub(super) fn work(
        self,
        disk: &dyn File,
        stop: &AtomicBool,
        mut tell: impl FnMut(&Promised) -> io::Result<()>,
    ) -> io::Result<()> {
        let dice = SeededEntropy::new(self.seed ^ (self.above << 8) ^ u64::from(self.number));
        let (first, mut version, mut next) = (u64::from(self.number) * SHARE, self.above, 0);
        let mut unflushed = Promised::new();
        while !stop.load(Ordering::Relaxed) {
            let lot = dice.random()?;
            // Usually after the last write, like a log; one write in four goes somewhere else.
            let at = if lot.is_multiple_of(4) { (lot >> 8) % SHARE } else { next };
            let blocks = (1 + (lot >> 32) % WRITE_MAX).min(SHARE - at);
            next = (at + blocks) % SHARE;
            let mut bytes = Vec::new();
            for block in first + at..first + at + blocks {
                version += 1;
                put_block(&mut bytes, block, version);
                unflushed.insert(block, version);
            }
            disk.write_at(&bytes, (first + at) * BLOCK)?;
            if (lot >> 48).is_multiple_of(3) {
                disk.sync()?;
                tell(&unflushed)?;
                unflushed.clear();
            }
        }
        Ok(())
    }
}

/// Lets each client work on its connection while `act` runs. Returns the blocks acknowledged to the
/// clients, and the result of `act`.
pub(super) fn beside_clients<D: File, T>(
    clients: &[(Client, D)],
    act: impl FnOnce() -> T,
) -> (Promised, T) {
    let (promised, stop) = (Mutex::new(Promised::new()), AtomicBool::new(false));
    let tell = |flushed: &Promised| {
        promised.lock().unwrap_or_else(PoisonError::into_inner).extend(flushed);
        Ok(())
    };
    let acted = thread::scope(|scope| {
        for (client, disk) in clients {
            let (stop, tell) = (&stop, &tell);
            // A power cut ends the client with an error.
            scope.spawn(move || client.work(disk, stop, tell).is_ok());
        }
        let acted = act();
        stop.store(true, Ordering::Relaxed);
        acted
    });
    (promised.into_inner().unwrap_or_else(PoisonError::into_inner), acted)
}

/// Appends a block. Each sector has the magic, its position, its version, repeated filler made of
/// these two, and a checksum.
fn put_block(bytes: &mut Vec<u8>, block: u64, version: u64) {
    let sectors = BLOCK / to_u64(SECTOR);
    for sector in block * sectors..(block + 1) * sectors {
        let begins = bytes.len();
        bytes.extend([MAGIC, sector, version].map(u64::to_le_bytes).as_flattened());
        while bytes.len() - begins < SECTOR - 8 {
            bytes.extend((version ^ sector).to_le_bytes());
        }
        let sum = crc32fast::hash(bytes.get(begins..).unwrap_or_default());
        bytes.extend(u64::from(sum).to_le_bytes());
    }
}

/// Returns the version of a sector, or 0 if it was never written; `None` if it is damaged.
fn version_of(sector: u64, bytes: &[u8]) -> Option<u64> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let (content, sum) = bytes.split_last_chunk::<8>()?;
    let (fields, _) = content.as_chunks::<8>();
    let [magic, place, version, ..] = fields else { return None };
    let is_whole = u64::from_le_bytes(*sum) == u64::from(crc32fast::hash(content));
    let is_its = (u64::from_le_bytes(*magic), u64::from_le_bytes(*place)) == (MAGIC, sector);
    (is_whole && is_its).then(|| u64::from_le_bytes(*version))
}

/// The state of the disk after a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Acknowledged blocks, all of which were checked.
    pub(super) checked: u64,
    /// Acknowledged blocks that hold an older version, or are damaged.
    pub(super) lost: u64,
    /// Blocks with a sector that no client wrote.
    pub(super) damaged: u64,
    /// Blocks whose sectors have several versions: correct after a cut, if none is too old.
    pub(super) mixed: u64,
}

/// Reads the whole disk. Lost blocks are removed from `promised`, so each counts only once.
///
/// # Errors
///
/// The disk cannot be read.
pub(super) fn look(disk: &dyn File, promised: &mut Promised) -> io::Result<Found> {
    let mut found = Found { checked: to_u64(promised.len()), ..Found::default() };
    let mut bytes = vec![0; 1 << 20];
    let mut block = 0;
    while block * BLOCK < SIZE {
        let read = disk.read_at(&mut bytes, block * BLOCK)?;
        let whole = bytes.get(..read).unwrap_or_default();
        if read < bytes.len() {
            return Err(io::Error::other(format!("the disk ends after block {block}")));
        }
        for bytes in whole.chunks(usize::try_from(BLOCK).unwrap_or(SECTOR)) {
            look_at(block, bytes, promised, &mut found);
            block += 1;
        }
    }
    Ok(found)
}

fn look_at(block: u64, bytes: &[u8], promised: &mut Promised, found: &mut Found) {
    let sectors = block * (BLOCK / to_u64(SECTOR))..;
    let versions = sectors.zip(bytes.chunks(SECTOR)).map(|(at, bytes)| version_of(at, bytes));
    let versions: Option<Vec<u64>> = versions.collect();
    let oldest = versions.as_ref().and_then(|versions| versions.iter().min().copied());
    found.damaged += u64::from(versions.is_none());
    let is_mixed = |versions: &Vec<u64>| versions.iter().any(|version| Some(*version) != oldest);
    found.mixed += u64::from(versions.as_ref().is_some_and(is_mixed));
    if promised.get(&block).is_some_and(|version| oldest.is_none_or(|oldest| oldest < *version)) {
        found.lost += 1;
        promised.remove(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::Storage;
    use seawall_testkit::MemStorage;

    fn disk() -> std::sync::Arc<dyn File> {
        let file = MemStorage::new().create("disk").unwrap();
        file.set_len(SIZE).unwrap();
        file
    }

    fn write(disk: &dyn File, block: u64, version: u64) {
        let mut bytes = Vec::new();
        put_block(&mut bytes, block, version);
        disk.write_at(&bytes, block * BLOCK).unwrap();
    }

    #[test]
    fn what_is_older_than_promised_is_lost_once_and_what_is_newer_is_not() {
        let disk = disk();
        (0..4).for_each(|block| write(&*disk, block, 5));
        let mut promised = Promised::from([(0, 5), (1, 4), (2, 6), (4, 1)]);
        let found = look(&*disk, &mut promised).unwrap();
        assert_eq!(found, Found { checked: 4, lost: 2, damaged: 0, mixed: 0 });
        assert_eq!(promised, Promised::from([(0, 5), (1, 4)]));
    }

    #[test]
    fn one_older_sector_loses_its_block_and_a_strange_one_is_damage() {
        let disk = disk();
        (0..3).for_each(|block| write(&*disk, block, 5));
        let mut older = Vec::new();
        put_block(&mut older, 1, 4);
        disk.write_at(&older[512..1024], BLOCK + 512).unwrap();
        // A sector of another position, and one with a flipped bit.
        disk.write_at(&older[..512], 0).unwrap();
        disk.write_at(&[1], 2 * BLOCK + 100).unwrap();
        let mut promised = Promised::from([(0, 5), (1, 5), (2, 5)]);
        let found = look(&*disk, &mut promised).unwrap();
        assert_eq!(found, Found { checked: 3, lost: 3, damaged: 2, mixed: 1 });
    }

    #[test]
    fn a_client_promises_what_it_has_flushed_in_its_own_share() {
        let disk = disk();
        let (stop, mut promised, mut flushes) = (AtomicBool::new(false), Promised::new(), 0);
        let client = Client { number: 2, above: 100, seed: 1 };
        let told = |flushed: &Promised| {
            promised.extend(flushed);
            flushes += 1;
            stop.store(flushes == 50, Ordering::Relaxed);
            Ok(())
        };
        client.work(&*disk, &stop, told).unwrap();
        assert!(promised.keys().all(|block| (1024..1536).contains(block)));
        assert!(promised.values().all(|version| *version > 100));
        let found = look(&*disk, &mut promised).unwrap();
        assert_eq!((found.lost, found.damaged), (0, 0));
        assert!(found.checked > 50, "{found:?}");
    }
}
