//! Identity of a record, even if its LSN was reused.

use crate::read::cursor::Record;
use seawall_format::content_crc;
use seawall_format::{Layout, Lsn};

/// Identifies a record of a log.
///
/// An LSN does not: [`truncate_after`](crate::Log::truncate_after) removes records, and later ones
/// reuse their LSNs. Within one log ([`Log::id`](crate::Log::id)) two records with the same
/// `RecordId` are the same record. The id stays the same in a copy of the log, and when the record
/// is repaired, salvaged, or moved to another segment by a recovery; `convert` makes new records.
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-which-{}", std::process::id()));
/// let log: seawall::Log<u32> = seawall::Log::open(&folder)?;
/// log.append(&1)?;
/// let second = log.append(&2)?;
/// let before = log.record_id(second)?;
/// log.truncate_after(second.previous())?;
/// assert_eq!(log.append(&3)?, second); // the number is used again
/// assert_ne!(log.record_id(second)?, before);
/// # drop(log); std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordId {
    /// The record's LSN.
    pub lsn: Lsn,
    /// Microseconds since 1970 when its batch was first written; 0 if unknown.
    pub time_us: u64,
    /// CRC-32C of the payload; in the readable layout, of its canonical form.
    pub crc: u32,
}

impl RecordId {
    /// The id of `record` in a log with this layout.
    #[must_use]
    pub fn of(record: &Record<'_>, layout: Layout) -> Self {
        let Record { lsn, time_us, payload, .. } = *record;
        Self { lsn, time_us, crc: content_crc(payload, layout) }
    }
}
