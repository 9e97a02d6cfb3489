//! Builds parity for existing segments and reports how much is covered.

use crate::base::error::{Error, Result};
use crate::files::directory::{LOCK, open_existing};
use crate::parity::backfill::{ends, make, needs, soundness};
use crate::scan::load::load_catalog;
use seawall_format::SegmentId;
use seawall_format::parity::Scheme;
use seawall_io::{Access, Storage};
use std::path::Path;
use std::sync::Arc;

/// What parity stands beside a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protection {
    /// What the log was told to keep beside its segments.
    pub scheme: Option<Scheme>,
    /// Bytes of records, in all segments.
    pub bytes: u64,
    /// How many of them have durable parity that can be used.
    pub covered: u64,
    /// The size of the files with parity, in bytes.
    pub parity_bytes: u64,
    /// Segments of which some bytes have none: the one that is written among them, now and then,
    /// and after a crash the newest, until the log is opened.
    pub open: Vec<SegmentId>,
    /// How many bytes at the end of the newest one can have none yet: nothing says that they are
    /// durable. Whoever opens the log for append makes them so.
    pub unsure: u64,
}

/// Says what parity stands beside the log in the directory `path`.
///
/// # Errors
///
/// [`Error::Io`], [`Error::NotALog`], [`Error::Unsupported`].
///
/// # Examples
///
/// ```
/// use seawall::{Log, Options, Parity, protection};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-prot-{}", std::process::id()));
/// let log: Log<u32> = Options::new().parity(Some(Parity::DEFAULT)).open(&folder)?;
/// log.append(&7)?;
/// log.close()?;
/// let found = protection(&folder)?;
/// assert_eq!((found.scheme, found.covered), (Some(Parity::DEFAULT), found.bytes));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn protection(path: impl AsRef<Path>) -> Result<Protection> {
    protection_in(&open_existing(path.as_ref())?)
}

/// Says what parity stands beside a log that another kind of storage holds.
///
/// # Errors
///
/// As [`protection`].
pub fn protection_in(storage: &Arc<dyn Storage>) -> Result<Protection> {
    let catalog = load_catalog(storage, None)?;
    let mut found = Protection {
        scheme: catalog.manifest.as_ref().and_then(|manifest| manifest.parity),
        ..Protection::default()
    };
    for link in &catalog.chain {
        let header = &link.segment.header;
        let (from, (sure, end)) = (header.data_start(), ends(storage, &catalog, link)?);
        let (is_sound, sound) = soundness(storage, header);
        let parity = storage.open(&header.id.parity_name(), Access::Read);
        found.parity_bytes += parity.and_then(|parity| parity.len()).unwrap_or(0);
        found.bytes += end - from;
        found.unsure += end - sure;
        if from == end {
            // There is nothing that could have some.
        } else if is_sound && !needs(storage, header, end) {
            found.covered += end - from;
        } else {
            found.covered += sound.unwrap_or(from).min(end) - from;
            found.open.push(header.id);
        }
    }
    Ok(found)
}

/// Makes the parity that the log in the directory `path` lacks: beside the segments that were
/// written without, where a crash left some of it out, or where it is damaged itself. Says what
/// stands beside it then.
///
/// It is computed from the records as they are; verify them first. What a crash left at the end
/// that may not be durable has none before the log was opened for append:
/// [`unsure`](Protection::unsure).
///
/// # Errors
///
/// [`Error::Busy`] if a writer has the log open; [`Error::Io`], of the kind
/// [`InvalidData`](io::ErrorKind::InvalidData) where parity that is there knows the records
/// otherwise, which is kept; [`Error::NotALog`], [`Error::Unsupported`].
///
/// # Examples
///
/// ```
/// use seawall::{Log, Parity, protect};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-mkpar-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// log.append(&7)?;
/// log.close()?;
/// let made = protect(&folder, Parity::DEFAULT)?;
/// assert!(made.open.is_empty());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn protect(path: impl AsRef<Path>, scheme: Scheme) -> Result<Protection> {
    protect_in(&open_existing(path.as_ref())?, scheme)
}

/// Makes the parity that a log lacks which another kind of storage holds.
///
/// # Errors
///
/// As [`protect`].
pub fn protect_in(storage: &Arc<dyn Storage>, scheme: Scheme) -> Result<Protection> {
    load_catalog(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let _lock = locked.ok_or_else(|| Error::Busy { place: storage.place() })?;
    // What is no log was refused before a lock was made in it; a writer may have been here since.
    let found = load_catalog(storage, None)?;
    for link in &found.chain {
        let (header, end) = (&link.segment.header, ends(storage, &found, link)?.0);
        let (is_sound, sound) = soundness(storage, header);
        if end > header.data_start() && (!is_sound || needs(storage, header, end)) {
            let failed = Error::io(format!("make {}", header.id.parity_name()));
            make(storage, (header, scheme), (sound, end)).map_err(failed)?;
        }
    }
    storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    protection_in(storage)
}
