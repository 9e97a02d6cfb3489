//! A separate file system on a file, whose device can go away and come back.

use crate::process::{Failure, run};
use crate::verbs::clean::FILE;
use crate::verbs::detach::shutdown::shut_down;
use rustix::fs::{Mode, OFlags, open, syncfs};
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Size of the volume: room for the logs of a cycle and their copies.
const SIZE: u64 = 256 << 20;

/// An ext4 on a loop device; unmounted and detached when dropped.
#[derive(Debug)]
pub(crate) struct Volume {
    mounted: PathBuf,
    block: Option<String>,
}

impl Volume {
    /// Creates a volume in this folder, mounted.
    pub(crate) fn make(dir: &Path) -> Result<Self, Failure> {
        let (image, mounted) = (dir.join(FILE), dir.join("mounted"));
        fs::create_dir(&mounted)?;
        fs::File::create_new(&image)?.set_len(SIZE)?;
        let block = run(&["losetup", "--find", "--show", &image.display().to_string()])?;
        let volume = Self { mounted, block: Some(block.clone()) };
        run(&["mkfs.ext4", "-q", &block])?;
        volume.mount(&block)?;
        Ok(volume)
    }

    fn mount(&self, block: &str) -> Result<(), Failure> {
        run(&["mount", "-t", "ext4", block, &self.mounted.display().to_string()]).map(drop)
    }

    /// The mount point.
    pub(crate) fn mounted(&self) -> &Path {
        &self.mounted
    }

    /// Syncs the whole file system, as the system does by itself in time.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let folder = open(&self.mounted, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(syncfs(folder)?)
    }

    /// Removes the device: unsynced data is lost, and all calls fail from now on.
    pub(crate) fn pull(&self) -> io::Result<()> {
        shut_down(&self.mounted)
    }

    /// Mounts the volume again, so that nothing is read from the system's cache of the old mount.
    pub(crate) fn come_back(&self) -> Result<(), Failure> {
        let block = self.block.clone().ok_or("the volume has no device")?;
        unmount(&self.mounted, UnmountFlags::empty())?;
        self.mount(&block)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Anything left is found by the run's folder and removed together with it.
        let _ = unmount(&self.mounted, UnmountFlags::DETACH);
        let _ = self.block.take().map(|block| run(&["losetup", "--detach", &block]));
    }
}
