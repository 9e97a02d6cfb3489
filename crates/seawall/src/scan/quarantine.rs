//! Keeps a copy of bytes that recovery or repair removes from a log, so that a person can inspect
//! them; the total is bounded.

use crate::base::env::Env;
#[cfg(feature = "encryption")]
use crate::base::error::{Error, Result};
use crate::base::num::{READ_SIZE, to_u64};
#[cfg(feature = "encryption")]
use crate::files::directory::KEYS;
use crate::files::directory::{QUARANTINE, open_if_exists};
use crate::files::segment_reader::read_around;
use crate::scan::scanner::TailFound;
use seawall_format::Offset;
use seawall_io::{Access, File, Storage};
use std::io;
use std::ops::Range;

/// Maximum bytes of removed tails to keep, newest first.
const MAX: u64 = 64 << 20;

/// Copies the tail that recovery removes, then deletes the oldest copies beyond the limit. The copy
/// of an interrupted attempt is used again, or deleted if it is a part of this one.
pub(crate) fn keep(env: &Env, tail: &TailFound) -> io::Result<String> {
    let folder = env.storage.folder(QUARANTINE)?;
    let source = env.storage.open(&tail.file, Access::Read)?;
    let range = tail.offset..tail.offset.plus(tail.length);
    let of = format!("-segment-{}-offset-{}{TAIL_SUFFIX}", tail.segment, tail.offset.0);
    let kept = folder.list()?;
    let attempts: Vec<_> = kept.iter().filter(|name| name.ends_with(&of)).cloned().collect();
    let new = format!("{:020}{of}", env.clock.wall_us());
    let copies = (attempts.iter().cloned(), new);
    let name = copy_once((&*source, read), range.clone(), &*folder, copies)?;
    // Copies that stay only take space.
    let attempts = attempts.iter().filter(|other| **other != name);
    let _ = remove_parts((&*source, range), &*folder, attempts);
    let others = kept.into_iter().filter(|other| *other != name);
    let _ = evict(&*folder, others, MAX.saturating_sub(tail.length));
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Removes the copies that an interrupted attempt left incomplete.
fn remove_parts<'a>(
    (source, range): (&dyn File, Range<Offset>),
    folder: &dyn Storage,
    copies: impl Iterator<Item = &'a String>,
) -> io::Result<()> {
    for name in copies {
        let copy = folder.open(name, Access::Read)?;
        let end = range.end.min(range.start.plus(copy.len()?));
        if is_equal((source, read), range.start..end, &*copy)? {
            folder.remove(name)?;
        }
    }
    Ok(())
}

/// Removes the oldest tails among `names` until the others fit into `room` bytes.
fn evict(
    folder: &dyn Storage,
    names: impl DoubleEndedIterator<Item = String>,
    mut room: u64,
) -> io::Result<()> {
    for name in names.rev().filter(|name| name.ends_with(TAIL_SUFFIX)) {
        let Some(file) = open_if_exists(folder, &name).map_err(io::Error::other)? else { continue };
        let size = file.len()?;
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => folder.remove(&name)?,
        }
    }
    Ok(())
}

/// Suffix of the names of removed tails.
const TAIL_SUFFIX: &str = ".bytes";

/// Copies a file that repair removes, with zeros for what the device cannot read. Such
/// copies are never deleted automatically. The copy of an interrupted attempt is used again.
pub(crate) fn keep_file(env: &Env, file: &str) -> io::Result<String> {
    let source = env.storage.open(file, Access::Read)?;
    let folder = env.storage.folder(QUARANTINE)?;
    let is_copy = |name: &String| name.split_once('-').is_some_and(|(_, of)| of == file);
    let copies = folder.list()?.into_iter().filter(is_copy);
    let new = format!("{:020}-{file}", env.clock.wall_us());
    let range = Offset(0)..Offset(source.len()?);
    let name = copy_once((&*source, read_skipping), range, &*folder, (copies, new))?;
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Returns the name of the first of `copies` with these bytes of `source`, or else of a new copy,
/// which is named `new`; durably.
fn copy_once(
    (source, read): (&dyn File, Read),
    range: Range<Offset>,
    folder: &dyn Storage,
    (copies, new): (impl Iterator<Item = String>, String),
) -> io::Result<String> {
    for name in copies {
        let copy = folder.open(&name, Access::ReadWrite)?;
        if is_equal((source, read), range.clone(), &*copy)? {
            // A killed process may have written the copy without a sync.
            copy.sync()?;
            folder.sync_dir()?;
            return Ok(name);
        }
    }
    copy((source, read), range, folder, &new)?;
    if let Err(error) = folder.sync_dir() {
        // The next attempt must not use it: a second sync can succeed although the name is lost.
        let _ = folder.remove(&new);
        return Err(error);
    }
    Ok(new)
}

/// Whether `copy` has exactly the bytes in this range of `source`, as `read` returns them.
fn is_equal(
    (source, read_source): (&dyn File, Read),
    range: Range<Offset>,
    copy: &dyn File,
) -> io::Result<bool> {
    let length = range.end.0 - range.start.0;
    if copy.len()? != length {
        return Ok(false);
    }
    let mut at = 0;
    while at < length {
        let size = usize::try_from(READ_SIZE.min(length - at)).expect("a window");
        let bytes = read_source(source, range.start.0 + at, size)?;
        if bytes.is_empty() || read(copy, at, bytes.len())? != bytes {
            return Ok(false);
        }
        at += to_u64(bytes.len());
    }
    Ok(true)
}

/// Removes copies of files that were not changed after all.
pub(crate) fn discard(env: &Env, copies: &[String]) {
    let Ok(folder) = env.storage.folder(QUARANTINE) else { return };
    for name in copies.iter().filter_map(|place| place.strip_prefix(QUARANTINE)) {
        // A copy that stays only takes space.
        let _ = folder.remove(name.trim_start_matches('/'));
    }
}

/// Copies the file `keys` before the keys of another log replace it: a log whose other files are
/// elsewhere may need it, if no interrupted attempt left it. Returns the place of the copy.
#[cfg(feature = "encryption")]
pub(crate) fn keep_keys(env: &Env) -> Result<Option<String>> {
    match keep_file(env, KEYS) {
        Ok(place) => Ok(Some(place)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("copy {KEYS} to {QUARANTINE}"))(error)),
    }
}

/// Copies a range of a file and syncs it; the directory entry is not synced. Leaves no file on
/// failure.
fn copy(
    source: (&dyn File, Read),
    range: Range<Offset>,
    folder: &dyn Storage,
    name: &str,
) -> io::Result<()> {
    let copied = fill(source, range, &*folder.create(name)?);
    if copied.is_err() {
        // A partial copy is useless, and the disk may be full.
        let _ = folder.remove(name);
    }
    copied
}

fn fill(
    (source, read): (&dyn File, Read),
    range: Range<Offset>,
    file: &dyn File,
) -> io::Result<()> {
    let mut at = range.start.0;
    while at < range.end.0 {
        let size = usize::try_from((range.end.0 - at).min(READ_SIZE)).expect("a window");
        let bytes = read(source, at, size)?;
        if bytes.is_empty() {
            break;
        }
        file.write_at(&bytes, at - range.start.0)?;
        at += to_u64(bytes.len());
    }
    file.sync()
}

/// Reads up to `size` bytes at an offset; fewer at the end of the file.
type Read = fn(&dyn File, u64, usize) -> io::Result<Vec<u8>>;

fn read(file: &dyn File, at: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let read = file.read_at(&mut bytes, at)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn read_skipping(file: &dyn File, at: u64, size: usize) -> io::Result<Vec<u8>> {
    let (bytes, _) = read_around(file, at, to_u64(size)).map_err(io::Error::other)?;
    Ok(bytes)
}
