//! Options of a disk.

use crate::budget::Supply;
use crate::dump::area_size;
use crate::layout::{BLOCK_SIZE, to_u64};
use std::time::Duration;

/// Options of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of buffers in the ring, and so of places on the device that can share a flush. At
    /// most [`BUFFERS_MAX`](crate::BUFFERS_MAX) if another process reads the ring after a kill.
    pub buffers: usize,
    /// The size of each buffer in bytes.
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
