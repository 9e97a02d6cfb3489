//! Options of a disk.

use crate::budget::Supply;
use crate::dump::{area_size, invalid};
use crate::layout::{BLOCK_SIZE, to_u64};
use crate::ring::kept::BUFFERS_MAX;
use std::io;
use std::time::Duration;

/// Options of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of buffers in the ring, and so of places on the device that can share a flush:
    /// from 1 to [`BUFFERS_MAX`].
    pub buffers: usize,
    /// The size of each buffer in bytes: at least [`BLOCK_SIZE`], and less than 4 GiB.
    pub buffer_size: usize,
    /// The power source.
    pub supply: Supply,
}

impl Options {
    /// The size in bytes of an area for this ring, in whole blocks.
    #[must_use]
    pub fn area_size(&self) -> u64 {
        to_u64(area_size(self.buffers, self.buffer_size)).next_multiple_of(to_u64(BLOCK_SIZE))
    }

    /// Returns an error if the ring cannot be read back from its memory, or if its dump does not
    /// fit into an area of `area` bytes.
    pub(crate) fn check(&self, area: u64) -> io::Result<()> {
        let (buffers, size) = (self.buffers, self.buffer_size);
        let is_size = size >= BLOCK_SIZE && u32::try_from(size).is_ok();
        if !is_size || !(1..=BUFFERS_MAX).contains(&buffers) {
            return Err(invalid(format!("no ring has {buffers} buffers of {size} bytes")));
        }
        match to_u64(area_size(buffers, size)) {
            needed if needed <= area => Ok(()),
            more => Err(invalid(format!("the area has {area} bytes, and this ring needs {more}"))),
        }
    }
}

impl Default for Options {
    /// 480 buffers of 16 KiB, whose dump fits into 8 MiB (`RapiLog` has 6 of 512 KiB); 10 ms of
    /// hold-up time; and a power source that no monitor reports as healthy.
    fn default() -> Self {
        let hold_up = Duration::from_millis(10);
        let supply = Supply { hold_up, detection: Duration::from_millis(1), is_healthy: false };
        Self { buffers: 480, buffer_size: 16 * 1024, supply }
    }
}
