//! Statistics of a handle, by number, so that there can be more.

use crate::fault::Fault;
use crate::guard;
use crate::log::Log;
use crate::pointer::{In, Out};
use crate::status::Status;

/// A statistic of a handle since it was opened.
#[repr(i32)]
#[derive(Clone, Copy, Debug)]
pub enum Stat {
    /// Batches written, with one device write and one sync each.
    Batches = 0,
    /// Records in them.
    Records = 1,
    /// Bytes that these records take in the files.
    Bytes = 2,
    /// Ordinary rotations to a new segment.
    Rotations = 3,
    /// Marks written.
    Marks = 4,
    /// Failed writes and syncs that the log survived in a new segment.
    Failovers = 5,
    /// Segments removed at the start of the log.
    Pruned = 6,
    /// Segments created in files of removed segments.
    Reused = 7,
    /// Stripes of records with parity.
    ParityStripes = 8,
    /// Segments whose parity is incomplete because of an error.
    ParityFailures = 9,
}

/// Gets the statistic `stat`, a seawall_stat. SEAWALL_STATUS_USAGE if the library has no such one.
#[unsafe(no_mangle)]
pub extern "C" fn seawall_log_stat(log: In<Log>, stat: i32, value: Out<u64>) -> Status {
    guard::bare(|| {
        let stats = log.handle("log")?.bytes().stats();
        value.put(match stat {
            0 => stats.batches,
            1 => stats.records,
            2 => stats.bytes,
            3 => stats.rolls,
            4 => stats.marks,
            5 => stats.failovers,
            6 => stats.pruned,
            7 => stats.reused,
            8 => stats.parity_stripes,
            9 => stats.parity_failures,
            other => return Err(Fault::argument(format!("{other} is not a statistic"))),
        });
        Ok(())
    })
}
