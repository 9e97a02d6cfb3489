//! What `live` says to readers: which segment the writer writes, and how far it is durable.
//! format.md section 5.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::files::directory::{LIVE, read_small};
use seawall_format::{Live, LogId, Lsn, SegmentRef};
use seawall_io::{Access, File, Lock, Storage};
use std::io;
use std::sync::Arc;

/// Bytes of the file.
const SIZE: usize = 64;

/// In the place of a boot id, where it is not known.
pub(crate) const NO_BOOT: [u8; 16] = [0; 16];

/// How often `live` is read again because the writer wrote it meanwhile.
const ATTEMPTS: u32 = 8;

/// What a writer says: which segment is the newest, and up to which record it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermark {
    pub(crate) live: Live,
    pub(crate) by: WatermarkSource,
}

/// Whose word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatermarkSource {
    /// That of the writer in this process.
    Own,
    /// That of a running writer in another one.
    Running,
    /// That of a writer that is gone. It was true, and may be old: it says of no record that it is
    /// not there.
    Gone,
}

impl Watermark {
    pub(crate) fn own(live: Live) -> Self {
        Self { live, by: WatermarkSource::Own }
    }

    /// Whether it is of now.
    pub(crate) fn is_running(&self) -> bool {
        self.by != WatermarkSource::Gone
    }
}

/// What `live` says. A running writer has it locked; without a lock it counts if it is of this run
/// of the machine.
pub(crate) fn read_watermark(storage: &dyn Storage) -> Result<Option<Watermark>> {
    // Looked at first: what is read then is of that writer, or of a later one.
    let is_locked = storage.is_file_locked(LIVE).map_err(Error::io(format!("look at {LIVE}")))?;
    let Some(live) = read_whole_live(storage)? else { return Ok(None) };
    let boot_id = storage.boot_id();
    let is_known = live.boot_id != NO_BOOT && boot_id.is_some();
    let is_of_now = if is_known { Some(live.boot_id) == boot_id } else { is_locked };
    let by = if is_locked { WatermarkSource::Running } else { WatermarkSource::Gone };
    Ok(is_of_now.then_some(Watermark { live, by }))
}

/// A look at `live` while it is written may see a part of that: such a one is taken again, as
/// without a word a reader has to sync what it shows.
fn read_whole_live(storage: &dyn Storage) -> Result<Option<Live>> {
    for _ in 0..ATTEMPTS {
        let bytes = read_small(storage, LIVE, SIZE)?.unwrap_or_default();
        let found = Live::decode(&bytes);
        if found.is_some() || bytes.is_empty() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The writer's side of it: what it tells readers of other processes. It makes the file and locks
/// it, so that what an earlier writer left is never taken for its word.
#[derive(Debug)]
pub(crate) struct LiveFile {
    boot_id: [u8; 16],
    /// Made when there is something to say; where that fails, made again.
    file: Option<(Arc<dyn File>, Box<dyn Lock>)>,
}

/// Which segment holds the last durable record, and which record that is.
type Published = (SegmentRef, Option<Lsn>);

impl LiveFile {
    pub(crate) fn new(storage: &dyn Storage) -> Self {
        Self { boot_id: storage.boot_id().unwrap_or(NO_BOOT), file: None }
    }

    /// Says up to which record the log is durable.
    ///
    /// # Errors
    ///
    /// `Io`: nothing is said. Readers sync what they show.
    pub(crate) fn publish(&mut self, env: &Env, log: LogId, told: Published) -> Result<()> {
        let (boot_id, (segment, durable)) = (self.boot_id, told);
        let live = Live { log, boot_id, segment, durable, time_us: env.clock.wall_us() };
        let storage = &*env.storage;
        if self.write(storage, &live).is_ok() {
            return Ok(());
        }
        // Part of it may be written. Another file may take it; without its lock this one is not
        // believed.
        self.file = None;
        let told = self.write(storage, &live);
        told.inspect_err(|_| {
            self.file = None;
            let _ = remove(storage);
        })
        .map_err(Error::io(format!("write {LIVE}, which tells readers what is durable")))
    }

    /// Says that the log ends with that record, before numbers behind it are given to others.
    ///
    /// # Errors
    ///
    /// `Io`: what `live` said before can be neither changed nor removed.
    pub(crate) fn stop(&mut self, env: &Env, log: LogId, told: Published) -> Result<()> {
        self.publish(env, log, told).or_else(|_| retract(&*env.storage))
    }

    fn write(&mut self, storage: &dyn Storage, live: &Live) -> io::Result<()> {
        let (file, _) = match &self.file {
            Some(file) => file,
            None => self.file.insert(make(storage)?),
        };
        file.write_at(&live.encode(), 0)
    }
}

/// A new file, locked before it says something.
fn make(storage: &dyn Storage) -> io::Result<(Arc<dyn File>, Box<dyn Lock>)> {
    remove(storage)?;
    let lock = storage.lock_file(LIVE)?.ok_or(io::ErrorKind::WouldBlock)?;
    Ok((storage.open(LIVE, Access::ReadWrite)?, lock))
}

/// Removes what an earlier writer told its readers: what is told from now on is of this one.
///
/// # Errors
///
/// `Io`: it can be neither removed nor made unreadable.
pub(crate) fn retract(storage: &dyn Storage) -> Result<()> {
    let removed = remove(storage).or_else(|error| match storage.open(LIVE, Access::ReadWrite) {
        Ok(file) => file.write_at(&[0; SIZE], 0),
        Err(_) => Err(error),
    });
    removed.map_err(Error::io(format!("remove {LIVE}, which an earlier writer left")))
}

fn remove(storage: &dyn Storage) -> io::Result<()> {
    match storage.remove(LIVE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The same before an open gives numbers behind `last` to other records. Where it fails, and what
/// was told holds whatever follows, that is a warning.
///
/// # Errors
///
/// `Io`: what was told would be wrong.
pub(crate) fn retract_beyond(storage: &dyn Storage, last: Option<Lsn>) -> Result<Option<String>> {
    let Err(error) = retract(storage) else { return Ok(None) };
    let told = read_whole_live(storage).ok().flatten();
    if told.is_some_and(|told| told.durable > last) {
        Err(error)
    } else {
        Ok(Some(error.to_string()))
    }
}
