//! The two files of a disk: an area is made, looked into, and what it holds is brought home.

use crate::dump::{Dump, Label, find};
use crate::layout::{SECTOR_SIZE, ZEROS, to_u64, to_usize};
use crate::options::Options;
use seawall_io::File;
use std::io;
use std::sync::Arc;

/// Where a disk's bytes are at home, and where they are dumped.
#[derive(Clone, Debug)]
pub struct Files {
    /// All of the disk; its length is the disk's.
    pub home: Arc<dyn File>,
    /// The area: see [`area_size`](crate::area_size).
    pub area: Arc<dyn File>,
}

/// What was found and done when a disk was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The dump of an emergency that was written home.
    pub generation: u64,
    /// Its runs.
    pub runs: usize,
    /// Runs that the dump had lost: it was torn, and what they held is gone.
    pub lost: u32,
}

impl Files {
    /// Makes an area for a disk of this home: its label, and room for a full ring. What was in it
    /// is gone. A file that is too short grows; a device has to be long enough.
    ///
    /// # Errors
    ///
    /// Whatever the device says.
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

    /// Writes home what an emergency dumped, durably; none if there is nothing.
    ///
    /// Whether anything newer was written home since is for the caller to know. `before` is called
    /// before each run is written.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the area is none, or of a home of another size. Whatever
    /// the device or `before` says; then another call begins again.
    pub fn recover(
        &self,
        before: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Option<Recovered>> {
        let mut label = read_label(self, self.home.len()?)?;
        bring_home(self, &mut label, before)
    }
}

/// What an area says of itself, whatever home it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Its label.
    pub label: Label,
    /// The dump that waits in it: it is not home yet.
    pub dump: Option<Dump>,
}

/// Looks into an area, and changes nothing; none if it was never prepared.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] if something else is there, or the label has changed. Whatever
/// the device says.
pub fn inspect(area: &dyn File) -> io::Result<Option<Inspected>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut sector = [0; SECTOR_SIZE];
    let read = area.read_at(&mut sector, 0)?;
    if sector.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let label = Label::decode(sector.get(..read).unwrap_or_default())
        .map_err(|error| invalid(error.to_string()))?;
    let bytes = read_area(area, &label)?;
    Ok(Some(Inspected { label, dump: find(&label, &bytes) }))
}

pub(crate) fn read_label(files: &Files, home_size: u64) -> io::Result<Label> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut sector = [0; SECTOR_SIZE];
    let read = files.area.read_at(&mut sector, 0)?;
    let label = Label::decode(sector.get(..read).unwrap_or_default())
        .map_err(|error| invalid(error.to_string()))?;
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

/// All of an area, and no more than there is: what a label says of it is not believed.
fn read_area(area: &dyn File, label: &Label) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(label.area_size.min(area.len()?))];
    let read = area.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Writes home what an emergency dumped, and notes that it is there.
pub(crate) fn bring_home(
    files: &Files,
    label: &mut Label,
    before: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Option<Recovered>> {
    let area = read_area(&*files.area, label)?;
    let Some(dump) = find(label, &area) else { return Ok(None) };
    for extent in &dump.extents {
        before()?;
        let bytes = area.get(extent.bytes.clone()).unwrap_or_default();
        files.home.write_at(bytes, extent.offset)?;
    }
    files.home.sync()?;
    label.used = dump.generation;
    files.area.write_at(&label.encode(), 0)?;
    files.area.sync()?;
    let (generation, runs, lost) = (dump.generation, dump.extents.len(), dump.lost);
    Ok(Some(Recovered { generation, runs, lost }))
}
