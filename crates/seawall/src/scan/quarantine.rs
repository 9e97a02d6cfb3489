//! Bytes that leave a log, cut off its tail or with a repair, are kept for people, within bounds.

use crate::base::env::Env;
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::directory::QUARANTINE;
use crate::scan::scanner::TailFound;
use seawall_format::Offset;
use seawall_io::{Access, File, Storage};
use std::io;
use std::ops::Range;

/// How many bytes of cut tails are kept, newest first.
const MAX: u64 = 64 << 20;

/// Keeps the bytes that recovery cuts off; the oldest such files go first when there are many.
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

/// How the names of cut tails end.
const TAIL_SUFFIX: &str = ".bytes";

/// Keeps a file of a segment that a repair takes out of the log: for as long as a person wants it.
pub(crate) fn keep_file(env: &Env, file: &str) -> io::Result<String> {
    let folder = env.storage.folder(QUARANTINE)?;
    let source = env.storage.open(file, Access::Read)?;
    let name = format!("{:020}-{file}", env.clock.wall_us());
    copy(&*source, Offset(0)..Offset(source.len()?), &*folder, &name)?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
}

/// Copies a part of a file, durably but for its name, or nothing.
fn copy(
    source: &dyn File,
    range: Range<Offset>,
    folder: &dyn Storage,
    name: &str,
) -> io::Result<()> {
    let copied = fill(source, range, &*folder.create(name)?);
    if copied.is_err() {
        // Half a copy is none, and takes room where there may be too little.
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
