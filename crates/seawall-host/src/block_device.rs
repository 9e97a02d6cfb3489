//! The bytes that the block device below a folder wrote.

use crate::host_info::{HostInfo, read_text};
use std::path::{Path, PathBuf};

/// Bytes in a sector of the system's counts, whatever the device's sectors are.
const SECTOR: u64 = 512;
/// The field with the sectors written in the `stat` of a block device.
const SECTORS_WRITTEN: usize = 6;

/// A block device. Its counts include what all programs write.
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

    /// Bytes written since the system started, after writing out what is still in its caches.
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
