//! Keeps a copy of bytes that recovery or repair removes from a log, so that a person can inspect
//! them; the total is bounded.

use crate::base::env::Env;
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::directory::QUARANTINE;
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
    copy(&*source, tail.offset..tail.offset.plus(tail.length), &*folder, &name)?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Suffix of the names of removed tails.
const TAIL_SUFFIX: &str = ".bytes";

/// Copies a segment file that repair removes. Such copies are never deleted automatically.
pub(crate) fn keep_file(env: &Env, file: &str) -> io::Result<String> {
    let folder = env.storage.folder(QUARANTINE)?;
    let source = env.storage.open(file, Access::Read)?;
    let name = format!("{:020}-{file}", env.clock.wall_us());
    copy(&*source, Offset(0)..Offset(source.len()?), &*folder, &name)?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Copies a range of a file and syncs it; the directory entry is not synced. Leaves no file on
/// failure.
fn copy(
    source: &dyn File,
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

fn fill(source: &dyn File, range: Range<Offset>, file: &dyn File) -> io::Result<()> {
    let mut at = range.start.0;
    while at < range.end.0 {
        let size = usize::try_from((range.end.0 - at).min(READ_SIZE)).expect("a window");
        let mut bytes = vec![0; size];
        let read = source.read_at(&mut bytes, at)?;
        if read == 0 {
            break;
        }
        file.write_at(bytes.get(..read).unwrap_or_default(), at - range.start.0)?;
        at += to_u64(read);
    }
    file.sync()
}
