//! Makes the file of a removed segment ready to become a new one (format.md section 8, ADR 16).
//!
//! Before a byte of the file changes, a table with a checksum for each of its sectors is durable.
//! After a power cut, recovery compares the file with the table to find which sectors the new
//! segment wrote.

use crate::base::env::Env;
use crate::base::num::to_u64;
use crate::base::spare_files::SpareFile;
use crate::write::preallocation::file::{PreallocatedFile, PreallocatedSegment};
use seawall_format::before::{SectorSums, TableOf};
use seawall_format::{Epoch, Manifest, STORED_MAX, SegmentHeader, SegmentId, SegmentRef};
use seawall_io::AlignedMemory;
use std::io;

/// Bytes read between two pauses.
const CHUNK: u64 = if cfg!(seawall_scheduled) { 4 << 10 } else { 1 << 20 };

/// Makes `spare` the file of segment `id`, for which it draws an epoch. `continue_after` is called
/// with the bytes done so far; it may pause, or stop by returning false.
///
/// # Errors
///
/// The spare file is unreadable, is not what it was, or its table could not be written. The file is
/// removed then, and also when stopped.
pub(crate) fn prepare(
    env: &Env,
    mut spare: SpareFile,
    id: SegmentId,
    mut continue_after: impl FnMut(u64) -> bool,
) -> io::Result<Option<PreallocatedSegment>> {
    let mut made = None;
    let known = spare.file.sync().and_then(|()| match spare.sums.take() {
        Some(sums) => check_header(&spare).map(|()| Some(sums)),
        None => sums_of(&spare, &mut continue_after),
    });
    let prepared = known.and_then(|sums| {
        let Some(sums) = sums else { return Ok(None) };
        let life = SegmentRef { id, epoch: Epoch(env.entropy.random()?) };
        made = Some(id.before_name());
        write_table(env, &TableOf { segment: life, ..TableOf::segment(&spare.header) }, &sums)?;
        // Clear the marks, the seal and the gap before the records.
        let start = usize::try_from(spare.header.data_start()).expect("a few blocks");
        spare.file.write_at(&vec![0; start], 0)?;
        spare.file.sync()?;
        Ok(Some((life, sums)))
    });
    match prepared {
        Ok(Some((life, sums))) => {
            let SpareFile { name, file, header, .. } = spare;
            let file = PreallocatedFile { name, file, size: header.size };
            Ok(Some(PreallocatedSegment::reused(file, life, sums)))
        }
        stopped => {
            if let Some(table) = made {
                let _ = env.storage.remove(&table);
            }
            spare.discard(&*env.storage);
            stopped.map(|_| None)
        }
    }
}

/// The checksums of the content of the spare file; `None` if stopped.
///
/// After a failed sync of an earlier process, the cache can show what the disk does not hold. The
/// table would then be wrong after a crash or after a power cut, so such a file is refused.
fn sums_of(
    spare: &SpareFile,
    continue_after: &mut impl FnMut(u64) -> bool,
) -> io::Result<Option<SectorSums>> {
    check_header(spare)?;
    let SpareFile { file, header, .. } = spare;
    let start = header.data_start();
    let (mut sums, mut at) = (SectorSums::from_offset(start), 0);
    let (mut on_disk, mut in_cache) = (AlignedMemory::default(), vec![]);
    while at < header.size {
        // The first piece ends where the records begin.
        let size = if at < start { start } else { CHUNK.min(header.size - at) };
        let size = usize::try_from(size).expect("a piece of a file");
        let disk = on_disk.first(size);
        read_whole(|room| file.read_uncached(room, at), disk)?;
        in_cache.resize(size, 0);
        read_whole(|room| file.read_at(room, at), &mut in_cache)?;
        if *disk != *in_cache {
            return Err(io::Error::other("the cache shows other bytes than the disk holds"));
        }
        if at >= start {
            sums.extend(disk);
        }
        at += to_u64(size);
        if !continue_after(at) {
            return Ok(None);
        }
    }
    Ok(Some(sums))
}

/// Refuses a file that was replaced under the segment's name.
fn check_header(spare: &SpareFile) -> io::Result<()> {
    let mut bytes = [0; STORED_MAX];
    read_whole(|room| spare.file.read_at(room, 0), &mut bytes)?;
    match SegmentHeader::decode(&bytes) {
        Ok(header) if header == spare.header.as_written() => Ok(()),
        _ => Err(io::Error::other("the spare file has another header")),
    }
}

fn read_whole(
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    room: &mut [u8],
) -> io::Result<()> {
    let size = room.len();
    if read(room)? == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes the table of a segment. The table, its name and the name of the spare file are durable
/// when this returns.
fn write_table(env: &Env, of: &TableOf, sums: &SectorSums) -> io::Result<()> {
    let file = env.storage.create(&of.segment.id.before_name())?;
    file.write_at(&sums.encode(of), 0)?;
    file.sync()?;
    env.sync_dir()
}

impl PreallocatedSegment {
    /// Prepares a reused file for segment `id`, if its table is for another id: an operation
    /// between two batches has created the segment with that id.
    ///
    /// # Errors
    ///
    /// The new table could not be written. The old one is gone.
    pub(crate) fn rebind(&mut self, env: &Env, log: &Manifest, id: SegmentId) -> io::Result<()> {
        let (Some(life), Some(sums)) = (&mut self.life, &self.sums) else { return Ok(()) };
        if life.id == id {
            return Ok(());
        }
        // First, because the new table may need its space.
        env.storage.remove(&life.id.before_name())?;
        life.id = id;
        let (start, size) = (log.geometry.data_start(), self.head.size);
        write_table(env, &TableOf { log: log.log, segment: *life, start, size }, sums)
    }
}
