//! Files on a virtual disk, for a log in the same process: a commit costs a copy in memory while
//! the disk is armed.
//!
//! Failures lose the same bytes as on the disk itself: see `docs/disk.md`. The files can be read
//! only through the volume.

mod file;
mod folder;
mod links;
mod shared;
mod table;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod tree;

use crate::disk::Disk;
use crate::layout::{SECTOR_SIZE, to_usize};
use folder::Folder;
use seawall_io::{Entropy, Storage, SystemEntropy};
use shared::Shared;
use std::io;
use std::sync::Arc;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub(crate) use table::Attributes;
use table::{TABLE_SIZE, Table, is_unused, place_of, superblock};
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub(crate) use tree::{Change, Entry, ROOT, Tree};

/// Folders and files on a [`Disk`].
///
/// [`Volume::root`] is its directory. Each log has its own [folder](Storage::folder). All logs
/// share the disk and its power budget.
///
/// # Examples
///
/// ```
/// use seawall_disk::{Disk, Files, Options, Volume};
/// use seawall_io::{File, Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::sync::Arc;
///
/// let device = MemStorage::new();
/// let files = Files { home: device.create("home")?, area: device.create("area")? };
/// files.home.fill_with_zeros(8 << 20)?;
/// files.prepare(7, &Options::default())?;
/// let (disk, _) = Disk::open(files, &Options::default(), Arc::new(SystemClock::new()))?;
///
/// let volume = Volume::open(Arc::new(disk))?;
/// let folder = volume.root().folder("orders.wal")?;
/// folder.create("notes")?.write_synced(b"kept", 0)?;
/// assert_eq!(folder.list()?, ["notes"]);
/// volume.disk().drain()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Volume {
    shared: Arc<Shared>,
}

impl Volume {
    /// Opens the volume of a disk; makes one if the disk has never been used.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if the disk holds something else, is too small, or its table
    /// is damaged. Otherwise the disk's error.
    pub fn open(disk: Arc<Disk>) -> io::Result<Self> {
        let mut bytes = vec![0; TABLE_SIZE.min(to_usize(disk.size()))];
        disk.read(0, &mut bytes)?;
        if is_unused(&bytes) {
            let sector = superblock(SystemEntropy.random()?, disk.size());
            disk.write(0, &sector)?;
            bytes.iter_mut().zip(sector).for_each(|(to, from)| *to = from);
        }
        let (table, replaced) = Table::read(&bytes, disk.size())?;
        for entry in replaced {
            disk.write(place_of(entry), &[0; SECTOR_SIZE])?;
        }
        disk.flush()?;
        Ok(Self { shared: Arc::new(Shared::new(disk, table)) })
    }

    /// The directory of the volume.
    #[must_use]
    pub fn root(&self) -> Arc<dyn Storage> {
        Arc::new(Folder { shared: self.shared.clone(), path: String::new() })
    }

    /// The files as a file system sees them.
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    pub(crate) fn tree(&self) -> Tree {
        Tree { shared: self.shared.clone() }
    }

    /// The disk. [Drain](Disk::drain) it before the process ends.
    #[must_use]
    pub fn disk(&self) -> &Disk {
        &self.shared.disk
    }
}
