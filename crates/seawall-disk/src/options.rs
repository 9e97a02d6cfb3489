//! How a disk is set up.

use crate::budget::Supply;
use crate::dump::area_size;
use crate::layout::{BLOCK_SIZE, to_u64};
use std::time::Duration;

/// How a disk is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Buffers of the ring. `RapiLog` has six.
    pub buffers: usize,
    /// Bytes of each. `RapiLog` has 512 KiB.
    pub buffer_size: usize,
    /// What feeds the machine.
    pub supply: Supply,
}

impl Options {
    /// Bytes of an area for this ring: whole blocks.
    #[must_use]
    pub fn area_size(&self) -> u64 {
        to_u64(area_size(self.buffers, self.buffer_size)).next_multiple_of(to_u64(BLOCK_SIZE))
    }
}

impl Default for Options {
    /// As `RapiLog`: 6 x 512 KiB; 10 ms of hold-up, and nobody who says that the source is well.
    fn default() -> Self {
        let hold_up = Duration::from_millis(10);
        let supply = Supply { hold_up, detection: Duration::from_millis(1), is_healthy: false };
        Self { buffers: 6, buffer_size: 512 * 1024, supply }
    }
}
