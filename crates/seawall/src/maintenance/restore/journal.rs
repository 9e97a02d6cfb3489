//! The journal of a repair: a file in the log's quarantine, written before anything is changed. It
//! keeps the original bytes for people, and lets the next repair complete an interrupted one.
//!
//! ```text
//! byte  size  field     value
//!    0     8  magic     "SEAWALLQ"
//!    8     4  version   1
//!   12     4  checksum  of what follows, to byte 40
//!   16     8  log id
//!   24     8  count     how many patches follow
//!   32     8  length    of the whole file
//!   40        patches, one after the other:
//!    0     4  checksum  of the rest of the patch
//!    4     2  name      length of the file name
//!    6     2  by        1 parity, 2 replica
//!    8     8  offset    in that file
//!   16     4  old       number of original bytes
//!   20     4  new       number of new bytes
//!   24        name, old, new
//! ```
//!
//! Numbers are little-endian. Checksums are CRC32C, bound to the log id and the position in the
//! journal, as those of the log are (format.md section 2). A journal is pending if it is valid as a
//! whole and its name ends with `.journal`: then bytes may have been changed. The journal is
//! renamed after the repair is complete, or if it no longer matches the log.

use crate::base::env::Env;
use crate::base::error::{Error, Result};
use crate::base::num::to_u64;
use crate::files::directory::{
    KEYS, KEYS_MAX, MANIFEST, MANIFEST_MAX, QUARANTINE, is_of_log, open_if_exists,
};
use crate::files::overlay::{Overlay, Patch, RepairSource, part};
use crate::files::segment_reader::read_around;
use crate::maintenance::restore::apply;
use crate::maintenance::verify::look_around;
use seawall_format::keys::WrappedKeys;
use seawall_format::{LogId, Manifest, Offset, Salt};
use seawall_io::{Access, File, Storage};
use std::io;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"SEAWALLQ";
const VERSION: u32 = 1;
const HEAD_SIZE: usize = 40;
const PATCH_HEAD_SIZE: usize = 24;
/// The largest part of a patch that is stored as one entry.
const PATCH_MAX: u64 = 8 << 20;

const OPEN: &str = "-mend.journal";
const DONE: &str = "-mend.done";
const VOID: &str = "-mend.void";

/// A journal on the device.
pub(super) struct Journal {
    folder: Arc<dyn Storage>,
    name: String,
}

/// The size of a journal for these patches.
pub(super) fn size(patches: &[Patch]) -> u64 {
    let one =
        |patch: &Patch| PATCH_HEAD_SIZE + patch.file.len() + patch.old.len() + patch.new.len();
    if patches.is_empty() { 0 } else { to_u64(HEAD_SIZE + patches.iter().map(one).sum::<usize>()) }
}

impl Journal {
    /// Writes and syncs the journal, including its directory entry.
    pub(super) fn write(env: &Env, log: LogId, patches: &[Patch]) -> Result<Self> {
        let folder = quarantine(env)?;
        let name = format!("{:020}{OPEN}", env.clock.wall_us());
        let written = fill(&*folder, &name, (log, patches));
        if written.is_err() {
            // Nothing has been changed yet, and an incomplete journal is useless.
            let _ = folder.remove(&name);
        }
        written.map_err(Error::io_in(format!("write {QUARANTINE}/{name}; nothing was changed")))?;
        Ok(Self { folder, name })
    }

    /// The path of the journal, relative to the log's directory.
    pub(super) fn place(&self) -> String {
        // The name after the repair is complete.
        format!("{QUARANTINE}/{}", self.name.replace(OPEN, DONE))
    }

    /// Marks the repair as complete. The journal stays, because it has the original bytes.
    pub(super) fn done(self) -> Result<()> {
        self.ends_as(DONE)
    }

    fn ends_as(self, suffix: &str) -> Result<()> {
        let to = self.name.replace(OPEN, suffix);
        let renamed = self.folder.rename(&self.name, &to);
        let renamed = renamed.and_then(|()| self.folder.sync_dir());
        renamed.map_err(Error::io(format!("rename {QUARANTINE}/{}", self.name)))
    }
}

fn quarantine(env: &Env) -> Result<Arc<dyn Storage>> {
    env.storage.folder(QUARANTINE).map_err(Error::io(format!("make {QUARANTINE}")))
}

fn fill(folder: &dyn Storage, name: &str, (log, patches): (LogId, &[Patch])) -> io::Result<()> {
    let salt = Salt::of_log(log);
    let split: Vec<_> = patches.iter().flat_map(split).collect();
    let file = folder.create(name)?;
    let mut at = to_u64(HEAD_SIZE);
    for patch in &split {
        let bytes = encode(patch, &salt, at)?;
        file.write_at(&bytes, at)?;
        at += to_u64(bytes.len());
    }
    let head = [log.0, to_u64(split.len()), at].map(u64::to_le_bytes).concat();
    let checksum = salt.checksum(Offset(0), &head);
    let parts = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &checksum.to_le_bytes(), &head];
    file.write_at(&parts.concat(), 0)?;
    file.sync()?;
    folder.sync_dir()
}

/// Splits a patch into parts of at most `PATCH_MAX`.
fn split(patch: &Patch) -> Vec<Patch> {
    let starts = (patch.offset..patch.end()).step_by(usize::try_from(PATCH_MAX).expect("8 MiB"));
    let end = |start: u64| (start + PATCH_MAX).min(patch.end());
    starts.filter_map(|start| part(patch, start..end(start))).collect()
}

fn encode(patch: &Patch, salt: &Salt, at: u64) -> io::Result<Vec<u8>> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let name = u16::try_from(patch.file.len()).map_err(too_large)?;
    let by: u16 = match patch.by {
        RepairSource::Parity => 1,
        RepairSource::Replica => 2,
    };
    let [old, new] = [&patch.old, &patch.new].map(|bytes| u32::try_from(bytes.len()));
    let (old, new) = (old.map_err(too_large)?, new.map_err(too_large)?);
    let mut bytes = vec![0; 4];
    bytes.extend(name.to_le_bytes());
    bytes.extend(by.to_le_bytes());
    bytes.extend(patch.offset.to_le_bytes());
    bytes.extend(old.to_le_bytes());
    bytes.extend(new.to_le_bytes());
    bytes.extend(patch.file.as_bytes());
    bytes.extend(&patch.old);
    bytes.extend(&patch.new);
    let checksum = salt.checksum(Offset(at), bytes.get(4..).unwrap_or_default());
    bytes.splice(..4, checksum.to_le_bytes());
    Ok(bytes)
}

/// Reads the patches of a journal of this log; `None` if it is not valid.
fn read(file: &dyn File, log: LogId) -> io::Result<Option<Vec<Patch>>> {
    let length = file.len()?;
    let Some(head) = read_exactly(file, 0, HEAD_SIZE, length)? else { return Ok(None) };
    let salt = Salt::of_log(log);
    let number = |at: usize| number(&head, at, 8);
    let is_right = head.starts_with(&MAGIC)
        && self::number(&head, 8, 4) == u64::from(VERSION)
        && self::number(&head, 12, 4)
            == u64::from(salt.checksum(Offset(0), head.get(16..).unwrap_or_default()))
        && (number(16), number(32)) == (log.0, length);
    let (mut patches, mut at) = (vec![], to_u64(HEAD_SIZE));
    while is_right && at < length {
        let Some((patch, end)) = decode(file, at, (length, &salt))? else { return Ok(None) };
        patches.push(patch);
        at = end;
    }
    Ok((is_right && number(24) == to_u64(patches.len())).then_some(patches))
}

fn decode(
    file: &dyn File,
    at: u64,
    (length, salt): (u64, &Salt),
) -> io::Result<Option<(Patch, u64)>> {
    let Some(head) = read_exactly(file, at, PATCH_HEAD_SIZE, length)? else { return Ok(None) };
    let size = |field, size| usize::try_from(number(&head, field, size)).unwrap_or(usize::MAX);
    let (name, old, new) = (size(4, 2), size(16, 4), size(20, 4));
    let rest = name.saturating_add(old).saturating_add(new);
    let from = at + to_u64(PATCH_HEAD_SIZE);
    let Some(rest) = read_exactly(file, from, rest, length)? else { return Ok(None) };
    let whole = [head.as_slice(), &rest].concat();
    let checksum = salt.checksum(Offset(at), whole.get(4..).unwrap_or_default());
    let (name, bytes) = rest.split_at(name);
    let (old, new) = bytes.split_at(old);
    let by = match number(&head, 6, 2) {
        1 => RepairSource::Parity,
        2 => RepairSource::Replica,
        _ => return Ok(None),
    };
    let Ok(file) = String::from_utf8(name.to_vec()) else { return Ok(None) };
    if number(&head, 0, 4) != u64::from(checksum) || !is_of_log(&file) {
        return Ok(None);
    }
    let (offset, old, new) = (number(&head, 8, 8), old.to_vec(), new.to_vec());
    let end = at + to_u64(whole.len());
    Ok(Some((Patch { file, offset, old, new, by }, end)))
}

/// Reads exactly `size` bytes; `None` if the file is shorter.
fn read_exactly(file: &dyn File, at: u64, size: usize, length: u64) -> io::Result<Option<Vec<u8>>> {
    if to_u64(size) > length.saturating_sub(at) {
        return Ok(None);
    }
    let mut bytes = vec![0; size];
    let read = file.read_at(&mut bytes, at)?;
    Ok((read == size).then_some(bytes))
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let mut whole = [0; 8];
    let field = bytes.get(at..at + size).unwrap_or_default();
    whole.iter_mut().zip(field).for_each(|(target, byte)| *target = *byte);
    u64::from_le_bytes(whole)
}

/// The newest incomplete journal, and its name.
fn newest(folder: &dyn Storage, log: LogId) -> Result<Option<(String, Vec<Patch>)>> {
    let names = folder.list().map_err(Error::io(format!("list {QUARANTINE}")))?;
    for name in names.into_iter().rev().filter(|name| name.ends_with(OPEN)) {
        let file = folder.open(&name, Access::Read);
        let patches = file.and_then(|file| read(&*file, log));
        let patches = patches.map_err(Error::io(format!("read {QUARANTINE}/{name}")))?;
        if let Some(patches) = patches {
            return Ok(Some((name, patches)));
        }
    }
    Ok(None)
}

/// The journal of an interrupted repair, if there is one.
pub(super) fn unfinished(log: &Arc<dyn Storage>, id: Option<LogId>) -> Result<Option<String>> {
    let folder = log.folder_if_any(QUARANTINE);
    let folder = folder.map_err(Error::io(format!("open {QUARANTINE}")))?;
    let Some((folder, id)) = folder.zip(id) else { return Ok(None) };
    Ok(newest(&*folder, id)?.map(|(name, _)| format!("{QUARANTINE}/{name}")))
}

/// A repair that a crash or an I/O error interrupted.
pub(super) struct Pending {
    journal: Journal,
    /// The patches to apply; empty if the journal no longer matches the log.
    pub(super) patches: Vec<Patch>,
}

/// Finds an interrupted repair.
pub(super) fn pending(log: &Arc<dyn Storage>, id: Option<LogId>) -> Result<Option<Pending>> {
    let folder = log.folder_if_any(QUARANTINE);
    let folder = folder.map_err(Error::io(format!("open {QUARANTINE}")))?;
    let Some((folder, id)) = folder.zip(id) else { return Ok(None) };
    let Some((name, mut patches)) = newest(&*folder, id)? else { return Ok(None) };
    for file in [MANIFEST, KEYS] {
        if changes_readable_slot(log, &patches, file)? {
            patches.retain(|patch| patch.file != file);
        }
    }
    if !still_fits(log, &patches)? {
        patches.clear();
    }
    Ok(Some(Pending { journal: Journal { folder, name }, patches }))
}

impl Pending {
    /// Completes the repair. Returns the path of its journal.
    ///
    /// This is safe even if the log was opened in between. Each patched byte has its old or its new
    /// value, and no other byte was touched. So intact batches, marks and seals stayed intact.
    /// Segment headers and file lengths, which reveal missing bytes, change only after those bytes
    /// are synced ([`apply`]). So the open saw either damage or a repaired log. Bytes that it
    /// wrote since match neither value of a patch, and then nothing is changed. A slot of the
    /// manifest or of the keys that the open wrote again may match both, so a slot that can be read
    /// is left as it is.
    pub(super) fn complete(self, env: &Env) -> Result<Option<String>> {
        apply::clear(env)?;
        if self.patches.is_empty() {
            self.journal.ends_as(VOID)?;
            return Ok(None);
        }
        // Write all patches again: after a failed sync, a later successful one proves nothing.
        apply::patches(env, &self.patches)?;
        apply::manifest(env, &self.patches)?;
        let place = self.journal.place();
        self.journal.done()?;
        Ok(Some(place))
    }
}

/// Whether the patches would change a slot of `file` that can be read.
fn changes_readable_slot(log: &Arc<dyn Storage>, patches: &[Patch], file: &str) -> Result<bool> {
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(log.clone(), patches));
    let (now, then) = (slots(log, file)?, slots(&view, file)?);
    Ok(now.iter().zip(&then).any(|(now, then)| now.is_some() && now != then))
}

/// The slots of the manifest or of the keys as they are stored, with authenticator and mark of a
/// clean close; `None` where one cannot be read.
fn slots(log: &Arc<dyn Storage>, file: &str) -> Result<[Option<Vec<u8>>; 2]> {
    let Some(open) = open_if_exists(&**log, file)? else { return Ok([None, None]) };
    let (bytes, _) = read_around(&*open, 0, to_u64(MANIFEST_MAX.max(KEYS_MAX)))?;
    Ok(if file == KEYS {
        WrappedKeys::decode_file(&bytes).map(|slot| Some(slot.ok()?.encode().1))
    } else {
        Manifest::decode_file(&bytes).map(|slot| Some(slot.ok()?.stored().to_vec()))
    })
}

/// Whether the log is as the interrupted repair left it, and better once the repair is complete.
fn still_fits(log: &Arc<dyn Storage>, patches: &[Patch]) -> Result<bool> {
    let mut is_done = true;
    for patch in patches {
        let now = match log.open(&patch.file, Access::Read) {
            Ok(file) => read_around(&*file, patch.offset, to_u64(patch.new.len()))?.0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
            Err(error) => return Err(Error::io(format!("open {}", patch.file))(error)),
        };
        let is_known = |(at, byte): (usize, &u8)| {
            patch.new.get(at) == Some(byte) || patch.old.get(at) == Some(byte)
        };
        if !now.iter().enumerate().all(is_known) || now.len() < patch.old.len() {
            return Ok(false);
        }
        is_done &= now == patch.new;
    }
    if is_done {
        return Ok(true);
    }
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(log.clone(), patches));
    let (now, then) = (look_around(log)?, look_around(&view)?);
    let rank = |found: &crate::maintenance::verify::Verification| {
        (found.records, usize::MAX - found.damage.len())
    };
    Ok(rank(&then) >= rank(&now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::codec::Raw;
    use crate::base::options::Options;
    use seawall_testkit::MemStorage;

    #[test]
    fn mark_of_a_clean_close_belongs_to_a_readable_slot() {
        let device: Arc<dyn Storage> = Arc::new(MemStorage::new());
        let options = Options::new().preallocate(false).segment_size(1 << 20);
        let log = options.open_in::<[u8], Raw>(device.clone()).expect("an empty device");
        log.close().expect("nothing fails");
        let file = device.open(MANIFEST, Access::Read).expect("the log has one");
        let (bytes, _) = read_around(&*file, 0, to_u64(MANIFEST_MAX)).expect("nothing fails");
        for slot in Manifest::decode_file(&bytes).into_iter().flatten() {
            assert!(slot.is_closed);
            let (place, bytes) = (slot.closing_place(), (vec![0; 8], vec![0; 8]));
            let patch = Patch::new(MANIFEST, place.start, bytes, RepairSource::Replica);
            assert!(changes_readable_slot(&device, &[patch], MANIFEST).expect("nothing fails"));
        }
    }
}
