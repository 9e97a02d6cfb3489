//! The number of bytes written to the block device below a folder.

use crate::host_info::{HostInfo, read_text};
use std::path::{Path, PathBuf};

/// The sector size in bytes of the system's counts, whatever sectors the device has.
const SECTOR: u64 = 512;
/// The index of the sectors written among the fields of a block device's `stat` file.
const SECTORS_WRITTEN: usize = 6;

/// A block device. Its counts include the writes of all programs.
#[derive(Debug)]
pub struct BlockDevice {
    counts: PathBuf,
}

impl BlockDevice {
    /// The device of the file system of the folder `path`; `None` if that is not one block device.
    ///
    /// # Examples
    ///
    /// ```
    /// use seawall_host::BlockDevice;
    ///
    /// let device = BlockDevice::below(&std::env::temp_dir());
    /// let _ = device.and_then(|device| device.written());
    /// ```
    #[must_use]
    pub fn below(path: &Path) -> Option<Self> {
        let device = HostInfo::of(path).ok()?.mount?.device;
        let found = Self { counts: PathBuf::from(format!("/sys/dev/block/{device}/stat")) };
        found.sectors().map(|_| found)
    }

    /// Writes out the system's caches, then returns the bytes written since the system started.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::fs::sync();
        self.sectors()?.checked_mul(SECTOR)
    }

    fn sectors(&self) -> Option<u64> {
        let text = read_text(&self.counts)?;
        text.split_whitespace().nth(SECTORS_WRITTEN)?.parse().ok()
    }
}
