//! Which record it is, where its number alone does not tell.

use crate::read::cursor::Record;
use seawall_format::content_crc;
use seawall_format::{Layout, Lsn};

/// Which record of a log it is.
///
/// A number is not enough for that: [`truncate_after`](crate::Log::truncate_after) gives records
/// up, and later ones get their numbers. Within one log ([`Log::id`](crate::Log::id)) two records
/// with the same `RecordId` are the same record. It stays the same in a copy of the log, and when
/// the record is repaired, salvaged, or written to another segment by a recovery; `convert` makes
/// new records.
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
    /// Its number.
    pub lsn: Lsn,
    /// Microseconds since 1970 when its batch was written first; 0 if that is not known.
    pub time_us: u64,
    /// CRC-32C of its payload; in the readable layout, of the payload's canonical form.
    pub crc: u32,
}

impl RecordId {
    /// That of a record in a log with this layout.
    #[must_use]
    pub fn of(record: &Record<'_>, layout: Layout) -> Self {
        let Record { lsn, time_us, payload, .. } = *record;
        Self { lsn, time_us, crc: content_crc(payload, layout) }
    }
}
