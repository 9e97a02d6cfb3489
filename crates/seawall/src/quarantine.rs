//! The bytes that recovery cuts off the tail are kept for people, within bounds.

use crate::directory::QUARANTINE;
use crate::roll::Machine;
use crate::walk::TailFound;
use seawall_io::Access;
use std::io;

/// How many bytes are kept, newest first.
const MAX: u64 = 64 << 20;

/// Keeps the bytes that recovery cuts off; the oldest such files go first when there are many.
pub(crate) fn keep(machine: &Machine, tail: &TailFound) -> io::Result<String> {
    let folder = machine.storage.folder(QUARANTINE)?;
    let mut kept = folder.list()?;
    let mut room = MAX.saturating_sub(u64::try_from(tail.bytes.len()).unwrap_or(0));
    while let Some(name) = kept.pop() {
        let size = folder.open(&name, Access::Read)?.len()?;
        match room.checked_sub(size) {
            Some(rest) => room = rest,
            None => folder.remove(&name)?,
        }
    }
    let time = machine.clock.wall_us();
    let name = format!("{time:020}-segment-{}-offset-{}.bytes", tail.segment, tail.offset.0);
    let file = folder.create(&name)?;
    file.write_at(&tail.bytes, 0)?;
    file.sync()?;
    folder.sync_dir()?;
    Ok(format!("{QUARANTINE}/{name}"))
}
