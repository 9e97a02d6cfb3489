//! The two files of a disk: preparing an area, inspecting it, and writing its dump home.

use crate::dump::{Dump, Label, Stamp, compose, find, invalid};
use crate::layout::{BLOCK_SIZE, SECTOR_SIZE, ZEROS, to_u64, to_usize};
use crate::options::Options;
use crate::ring::kept::Kept;
use seawall_io::{AlignedMemory, File};
use std::io;
use std::sync::Arc;

/// The files of a disk: its home and its area.
#[derive(Clone, Debug)]
pub struct Files {
    /// The home: all bytes of the disk. Its length is the size of the disk.
    pub home: Arc<dyn File>,
    /// The area for dumps: see [`area_size`](crate::area_size).
    pub area: Arc<dyn File>,
}

/// What was recovered when a disk was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The generation of the dump that was written home.
    pub generation: u64,
    /// The number of runs that were written home.
    pub runs: usize,
    /// The number of runs that were torn: their bytes are lost.
    pub lost: u32,
}

impl Files {
    /// Prepares an area for this home: writes its label and reserves space for a full ring. Earlier
    /// contents are lost. A file that is too short is extended; a device must be long enough.
    ///
    /// # Errors
    ///
    /// The device's error.
    pub fn prepare(&self, disk: u64, options: &Options) -> io::Result<()> {
        let size = options.area_size();
        if self.area.len()? < size {
            self.area.set_len(0)?;
            self.area.fill_with_zeros(size)?;
        } else {
            let mut at = 0;
            while at < size {
                let piece = ZEROS.get(..to_usize(size - at)).unwrap_or(&ZEROS);
                self.area.write_at(piece, at)?;
                at += to_u64(piece.len());
            }
        }
        let label = Label { disk, home_size: self.home.len()?, area_size: size, used: 0 };
        self.area.write_at(&label.encode(), 0)?;
        self.area.sync()
    }

    /// Writes the runs in a killed process's memory to the area as a dump, durably. Returns whether
    /// there are any.
    ///
    /// If the area already holds a complete dump, that was made from the same memory and stays. The
    /// caller must know that no other process has used the disk since.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the area or the memory belongs to a home of another size.
    /// Otherwise the device's error; the next call starts over.
    pub fn dump_kept(&self, kept: &Kept) -> io::Result<bool> {
        let label = read_label(self, self.home.len()?)?;
        if kept.identity.home_size != label.home_size {
            return Err(invalid("the memory is that of a disk of another size"));
        }
        let dump = find(&label, &read_area(&*self.area, &label)?);
        if kept.dirty() == 0 || dump.as_ref().is_some_and(|dump| dump.lost == 0) {
            return Ok(!kept.is_empty());
        }
        let newest = dump.map_or(label.used, |dump| dump.generation);
        let stamp = Stamp { generation: newest + 1, time_us: kept.active_us, lost: kept.lost };
        let mut memory = AlignedMemory::default();
        let memory = memory.first(label.room());
        let bytes = compose(&label, &stamp, kept.runs(), memory);
        let bytes = bytes.ok_or_else(|| invalid("the area is too small for the memory"))?;
        let whole = bytes.next_multiple_of(BLOCK_SIZE).min(memory.len());
        self.area.write_synced(memory.get(..whole).unwrap_or_default(), to_u64(BLOCK_SIZE))?;
        Ok(true)
    }

    /// Writes the dump home, durably; `None` if there is none.
    ///
    /// The caller must know whether the home was written since. `before` is called before each run
    /// is written.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the area has no valid label or belongs to a home of
    /// another size. Otherwise the error of the device or of `before`; the next call starts over.
    pub fn recover(
        &self,
        before: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Option<Recovered>> {
        let mut label = read_label(self, self.home.len()?)?;
        bring_home(self, &mut label, before)
    }
}

/// The contents of an area, not checked against a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The label of the area.
    pub label: Label,
    /// The dump that has not been written home.
    pub dump: Option<Dump>,
}

/// Inspects an area without changing it; `None` if it was never prepared.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if the file holds something else, or a damaged label. Otherwise
/// the device's error.
pub fn inspect(area: &dyn File) -> io::Result<Option<Inspected>> {
    let mut sector = [0; SECTOR_SIZE];
    let read = area.read_at(&mut sector, 0)?;
    if sector.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let label = Label::decode(sector.get(..read).unwrap_or_default()).map_err(invalid)?;
    let bytes = read_area(area, &label)?;
    Ok(Some(Inspected { label, dump: find(&label, &bytes) }))
}

pub(crate) fn read_label(files: &Files, home_size: u64) -> io::Result<Label> {
    let mut sector = [0; SECTOR_SIZE];
    let read = files.area.read_at(&mut sector, 0)?;
    let label = Label::decode(sector.get(..read).unwrap_or_default()).map_err(invalid)?;
    if label.home_size != home_size {
        let had = label.home_size;
        return Err(invalid(format!("the area is that of a disk of {had} bytes, not {home_size}")));
    }
    let length = files.area.len()?;
    if length < label.area_size {
        let should = label.area_size;
        return Err(invalid(format!("the area has {length} bytes, and should have {should}")));
    }
    Ok(label)
}

/// Reads the whole area, limited by the file's length because the label may be wrong.
fn read_area(area: &dyn File, label: &Label) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(label.area_size.min(area.len()?))];
    let read = area.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Writes the dump home and records that in the label. Syncs both even without a dump: a killed
/// process may have left unsynced bytes in the home, which a flush would take for durable, and an
/// unsynced label that says that its dump was used.
pub(crate) fn bring_home(
    files: &Files,
    label: &mut Label,
    before: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Option<Recovered>> {
    let area = read_area(&*files.area, label)?;
    let dump = find(label, &area);
    for extent in dump.iter().flat_map(|dump| &dump.extents) {
        before()?;
        let bytes = area.get(extent.bytes.clone()).unwrap_or_default();
        files.home.write_at(bytes, extent.offset)?;
    }
    files.home.sync()?;
    label.used = dump.as_ref().map_or(label.used, |dump| dump.generation);
    // Written even if it has not changed: a sync that failed may have left it in memory only.
    files.area.write_at(&label.encode(), 0)?;
    files.area.sync()?;
    Ok(dump.map(|Dump { generation, extents, lost, .. }| {
        let runs = extents.len();
        Recovered { generation, runs, lost }
    }))
}
