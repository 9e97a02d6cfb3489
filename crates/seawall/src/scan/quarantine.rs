//! Keeps a copy of bytes that recovery or repair removes from a log, so that a person can inspect
//! them; the total is bounded.

use crate::base::env::Env;
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::directory::QUARANTINE;
use crate::files::segment_reader::read_around;
use crate::scan::scanner::TailFound;
use seawall_format::Offset;
use seawall_io::{Access, File, Storage};
use std::io;
use std::ops::Range;

/// Maximum bytes of removed tails to keep, newest first.
const MAX: u64 = 64 << 20;

/// Copies the tail that recovery removes; deletes the oldest copies beyond the limit.
pub(crate) fn keep(env: &Env, tail: &TailFound) -> io::Result<String> {
    let folder = env.storage.folder(QUARANTINE)?;
    let mut kept = folder.list()?;
    let mut room = MAX.saturating_sub(tail.length);
    while let Some(name) = kept.pop() {
        if !name.ends_with(TAIL_SUFFIX) {
            continue;
        }
        let size = folder.open(&name, Access::Read)?.len()?;
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => folder.remove(&name)?,
        }
    }
    let time = env.clock.wall_us();
    let name = format!("{time:020}-segment-{}-offset-{}{TAIL_SUFFIX}", tail.segment, tail.offset.0);
    let source = env.storage.open(&tail.file, Access::Read)?;
    let range = tail.offset..tail.offset.plus(tail.length);
    copy((&*source, read), range, &*folder, &name)?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Suffix of the names of removed tails.
const TAIL_SUFFIX: &str = ".bytes";

/// Copies a segment file that repair removes, with zeros for what the device cannot read. Such
/// copies are never deleted automatically.
pub(crate) fn keep_file(env: &Env, file: &str) -> io::Result<String> {
    let folder = env.storage.folder(QUARANTINE)?;
    let source = env.storage.open(file, Access::Read)?;
    let name = format!("{:020}-{file}", env.clock.wall_us());
    copy((&*source, read_skipping), Offset(0)..Offset(source.len()?), &*folder, &name)?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
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
