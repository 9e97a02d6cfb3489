//! The file `live`, through which the writer tells readers in other processes which segment is the
//! newest and up to which record it is durable. format.md section 5.

use crate::base::env::Env;
use crate::base::error::{Error, Result, is_read_error};
use crate::files::directory::{LIVE, read_small};
use crate::files::local_writer::LocalWriter;
use seawall_format::{Live, LogId, Lsn, SegmentRef};
use seawall_io::{Access, File, Lock, Storage};
use std::io;
use std::sync::Arc;

/// Size of the file in bytes.
const SIZE: usize = 64;

/// Stored where the boot id is unknown.
pub(crate) const NO_BOOT: [u8; 16] = [0; 16];

/// How often a half-written `live` is read. Consistent reads cannot help here: they rely on this
/// file.
const ATTEMPTS: u32 = 8;

/// A watermark: the newest segment, and the last durable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermark {
    pub(crate) live: Live,
    pub(crate) by: WatermarkSource,
}

/// Which writer published a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatermarkSource {
    /// The writer in this process.
    Own,
    /// A running writer in another process.
    Running,
    /// A writer that has exited. Its watermark was true and may be old: later records may exist.
    Gone,
}

impl Watermark {
    pub(crate) fn own(live: Live) -> Self {
        Self { live, by: WatermarkSource::Own }
    }

    /// The same watermark for a caller that does not follow its writer: it is only a lower bound.
    pub(crate) fn of_the_past(self) -> Self {
        Self { by: WatermarkSource::Gone, ..self }
    }

    /// Whether the writer is still running.
    pub(crate) fn is_running(&self) -> bool {
        self.by != WatermarkSource::Gone
    }
}

/// Where a reader learns what the writer published.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LiveSource<'a> {
    /// The writer in this process.
    InProcess(&'a Arc<dyn LocalWriter>),
    /// The file `live`.
    File(&'a dyn Storage),
}

impl LiveSource<'_> {
    /// The current watermark. While a writer in this process writes a batch, the directory may
    /// already be newer than the watermark.
    pub(crate) fn now(self) -> Result<Option<Watermark>> {
        match self {
            Self::InProcess(writer) => {
                writer.check_process()?;
                Ok(Some(Watermark::own(writer.live())))
            }
            Self::File(storage) => read_watermark(storage),
        }
    }

    /// The current watermark. A writer in this process answers between two batches, when it neither
    /// prunes nor truncates.
    pub(crate) fn settled(self) -> Result<Option<Watermark>> {
        // The file needs no wait: it names a new segment before an older one is pruned.
        if let Self::InProcess(writer) = self {
            // An error means that the log is closed or poisoned, so nothing changes any more.
            let _ = writer.clone().wait_for_turn();
        }
        self.now()
    }
}

/// Reads `live`. A running writer holds a lock on the file. Without a lock the watermark counts
/// only if it was written since the machine booted.
pub(crate) fn read_watermark(storage: &dyn Storage) -> Result<Option<Watermark>> {
    // Check the lock first: the content read afterwards is from that writer or a later one.
    let is_locked =
        storage.is_file_locked(LIVE).map_err(Error::io(format!("check the lock of {LIVE}")))?;
    let Some(live) = read_whole_live(storage)? else { return Ok(None) };
    let boot_id = storage.boot_id();
    let is_known = live.boot_id != NO_BOOT && boot_id.is_some();
    let is_of_now = if is_known { Some(live.boot_id) == boot_id } else { is_locked };
    let by = if is_locked { WatermarkSource::Running } else { WatermarkSource::Gone };
    Ok(is_of_now.then_some(Watermark { live, by }))
}

/// Reads `live`, again if the writer was in the middle of a write: without a watermark the reader
/// would have to sync the segment itself.
fn read_whole_live(storage: &dyn Storage) -> Result<Option<Live>> {
    for _ in 0..ATTEMPTS {
        // What the device refuses to read tells nothing, as a torn file does not.
        let bytes = match read_small(storage, LIVE, SIZE) {
            Err(error) if is_read_error(&error) => return Ok(None),
            read => read?.unwrap_or_default(),
        };
        let found = Live::decode(&bytes);
        if found.is_some() || bytes.is_empty() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The writer's handle to `live`. The writer creates and locks a file of its own, so readers never
/// mistake an earlier writer's watermark for this one's.
#[derive(Debug)]
pub(crate) struct LiveFile {
    boot_id: [u8; 16],
    /// Created at the first `publish`, and again after a failed write.
    file: Option<(Arc<dyn File>, Box<dyn Lock>)>,
}

/// The newest segment, and the last durable record.
type Published = (SegmentRef, Option<Lsn>);

impl LiveFile {
    pub(crate) fn new(storage: &dyn Storage) -> Self {
        Self { boot_id: storage.boot_id().unwrap_or(NO_BOOT), file: None }
    }

    /// Publishes the last durable record.
    ///
    /// # Errors
    ///
    /// `Io`: nothing is published. Readers then sync what they return.
    pub(crate) fn publish(&mut self, env: &Env, log: LogId, published: Published) -> Result<()> {
        let (boot_id, (segment, durable)) = (self.boot_id, published);
        let live = Live { log, boot_id, segment, durable, time_us: env.clock.wall_us() };
        let storage = &*env.storage;
        if self.write(storage, &live).is_ok() {
            return Ok(());
        }
        // The file may be half written. Readers do not trust it without its lock, so a new file
        // takes its place.
        self.file = None;
        let done = self.write(storage, &live);
        done.inspect_err(|_| {
            self.file = None;
            let _ = remove(storage);
        })
        .map_err(Error::io(format!("write {LIVE}, which publishes the durable LSN")))
    }

    /// Publishes that the log ends with this record, before the LSNs after it are reused.
    ///
    /// # Errors
    ///
    /// `Io`: the earlier watermark can be neither changed nor removed.
    pub(crate) fn stop(&mut self, env: &Env, log: LogId, published: Published) -> Result<()> {
        self.publish(env, log, published).or_else(|_| retract(&*env.storage))
    }

    fn write(&mut self, storage: &dyn Storage, live: &Live) -> io::Result<()> {
        let (file, _) = match &self.file {
            Some(file) => file,
            None => self.file.insert(make(storage)?),
        };
        file.write_at(&live.encode(), 0)
    }
}

/// Creates the file, locked before its first write.
fn make(storage: &dyn Storage) -> io::Result<(Arc<dyn File>, Box<dyn Lock>)> {
    remove(storage)?;
    let lock = storage.lock_file(LIVE)?.ok_or(io::ErrorKind::WouldBlock)?;
    Ok((storage.open(LIVE, Access::ReadWrite)?, lock))
}

/// Removes the watermark of an earlier writer.
///
/// # Errors
///
/// `Io`: the file can be neither removed nor overwritten.
pub(crate) fn retract(storage: &dyn Storage) -> Result<()> {
    let removed = remove(storage).or_else(|error| match storage.open(LIVE, Access::ReadWrite) {
        Ok(file) => file.write_at(&[0; SIZE], 0),
        Err(_) => Err(error),
    });
    removed.map_err(Error::io(format!("remove {LIVE} of an earlier writer")))
}

fn remove(storage: &dyn Storage) -> io::Result<()> {
    match storage.remove(LIVE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Like [`retract`], before an open reuses the LSNs after `last`. Keeps a watermark that remains
/// true: it may be the only evidence of a lost end, until the open has made a segment after it.
///
/// # Errors
///
/// `Io`: the file can be neither removed nor overwritten.
pub(crate) fn retract_beyond(storage: &dyn Storage, last: Option<Lsn>) -> Result<()> {
    let published = read_whole_live(storage).ok().flatten();
    let remains_true = published.is_some_and(|published| published.durable <= last);
    if remains_true { Ok(()) } else { retract(storage) }
}
