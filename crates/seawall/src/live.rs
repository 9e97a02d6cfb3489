//! What `live` says to readers: which segment the writer writes, and how far it is durable.
//! FORMAT.md section 5.

use crate::directory::{
    LIVE, MANIFEST, MANIFEST_MAX, is_in_use, list, open_or_make, read_small, segment_ids,
};
use crate::roll::Machine;
use crate::{Error, Lsn, Result};
use seawall_format::{Live, LogId, Manifest, SegmentRef};
use seawall_io::{File, Storage};
use std::sync::{Arc, OnceLock};

/// In the place of a boot id: the word of the writer in this process, which is never stale.
pub(crate) const OWN_WORD: [u8; 16] = [0; 16];

/// How often `live` is read again because the writer wrote it meanwhile.
const ATTEMPTS: u32 = 8;

/// What `live` says, if it speaks of this boot.
///
/// The writer may not have been able to write it (R16): then the clean close, which is evidence,
/// says more once nobody has the log open.
pub(crate) fn read_live(storage: &dyn Storage) -> Result<Option<Live>> {
    let found = read_whole_live(storage)?;
    let Some(live) = found.filter(|live| Some(live.boot_id) == storage.boot_id()) else {
        return Ok(None);
    };
    if is_in_use(storage)? {
        return Ok(Some(live));
    }
    let slots = read_slots(storage)?;
    if !slots.is_empty() && slots.iter().all(|slot| slot.log != live.log) {
        // It came here from another log.
        return Ok(None);
    }
    let own = slots.into_iter().filter(|slot| slot.log == live.log);
    let newest = own.max_by_key(|slot| slot.sequence);
    let Some(closed) = newest.and_then(|slot| slot.closed) else { return Ok(Some(live)) };
    let is_later = (closed.segment.id, closed.last) > (live.segment.id, live.durable);
    // One that confirms less contradicts it: `live` never says more than is left (R10).
    let says_more = is_later && closed.last >= live.durable;
    // It says nothing of a writer that came later. Its own segment may be lost.
    if !says_more || segment_ids(&list(storage)?).max() > Some(closed.segment.id) {
        return Ok(Some(live));
    }
    Ok(Some(Live { segment: closed.segment, durable: closed.last, ..live }))
}

/// A look at `live` while it is written may see a part of that: such a one is taken again, as
/// without a word a reader would go further than the writer is.
fn read_whole_live(storage: &dyn Storage) -> Result<Option<Live>> {
    for _ in 0..ATTEMPTS {
        let bytes = read_small(storage, LIVE, 64)?.unwrap_or_default();
        let found = Live::decode(&bytes);
        if found.is_some() || bytes.is_empty() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The slots of the manifest that can be read.
fn read_slots(storage: &dyn Storage) -> Result<Vec<Manifest>> {
    let bytes = read_small(storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
    Ok(Manifest::decode_file(&bytes).into_iter().flatten().collect())
}

/// The writer's side of it: what it tells readers of other processes.
#[derive(Debug)]
pub(crate) struct LiveFile {
    /// `None` where the system does not say which run of the machine this is: nobody is told then.
    boot_id: Option<[u8; 16]>,
    /// Opened when there is something to say; where that fails, tried again.
    file: OnceLock<Arc<dyn File>>,
}

/// Which segment holds the last durable record, and which record that is.
type Word = (SegmentRef, Option<Lsn>);

impl LiveFile {
    pub(crate) fn new(storage: &dyn Storage) -> Self {
        Self { boot_id: storage.boot_id(), file: OnceLock::new() }
    }

    /// Says up to which record the log is durable; a failure is no error: readers then lag behind.
    pub(crate) fn tell(&self, machine: &Machine, log: LogId, word: Word) {
        let _ = self.boot_id.map(|boot_id| self.write(machine, (log, boot_id), word));
    }

    /// Says that readers are to go no further, before numbers behind that record are given anew.
    ///
    /// # Errors
    ///
    /// `Io`: they go by what they were told before.
    pub(crate) fn stop(&self, machine: &Machine, log: LogId, word: Word) -> Result<()> {
        let boot_id = match self.boot_id {
            Some(boot_id) => Some(boot_id),
            // What stands there may be of this run all the same.
            None => read_whole_live(&*machine.storage)?.map(|live| live.boot_id),
        };
        boot_id.map_or(Ok(()), |boot_id| self.write(machine, (log, boot_id), word))
    }

    fn write(
        &self,
        machine: &Machine,
        (log, boot_id): (LogId, [u8; 16]),
        (segment, durable): Word,
    ) -> Result<()> {
        let time_us = machine.clock.wall_us();
        let live = Live { log, boot_id, segment, durable, time_us };
        let file = if let Some(file) = self.file.get() {
            file
        } else {
            let file = open_or_make(&*machine.storage, LIVE)?;
            self.file.get_or_init(|| file)
        };
        file.write_at(&live.encode(), 0)
            .map_err(|error| Error::io_in("tell readers where to stop")(error))
    }
}

/// Stops readers at that record, if `live` leads them further. One that cannot be read leads
/// nobody, nor does one of an earlier run of the machine.
pub(crate) fn stop_readers_at(machine: &Machine, log: LogId, word: Word) -> Result<()> {
    let live = read_whole_live(&*machine.storage).ok().flatten();
    let file = LiveFile::new(&*machine.storage);
    // Without a boot id it may be of this run.
    let is_heard = |live: &Live| file.boot_id.is_none_or(|boot_id| boot_id == live.boot_id);
    let leads_further = live.is_some_and(|live| is_heard(&live) && live.durable > word.1);
    if leads_further { file.stop(machine, log, word) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Log, Options, Raw};
    use seawall_format::Closed;
    use seawall_io::{Access, MemStorage, Storage};

    /// Left: a manifest that was forged, as `live` never says more than is left (R10).
    #[test]
    fn a_close_that_confirms_less_than_live_is_not_taken_instead_of_it() {
        let storage = MemStorage::new();
        let log: Log<[u8], Raw> = Options::new().open_in(Arc::new(storage.clone())).unwrap();
        log.append_batch([&b"a"[..], b"b", b"c"]).unwrap();
        log.close().unwrap();
        let live = read_live(&storage).unwrap().unwrap();
        assert_eq!(live.durable, Lsn::new(3));
        let manifest = storage.open(MANIFEST, Access::ReadWrite).unwrap();
        for (confirmed, durable) in [(2, 3), (3, 3), (4, 4)] {
            let segment = SegmentRef { id: live.segment.id.next().unwrap(), ..live.segment };
            for slot in read_slots(&storage).unwrap() {
                let closed = Some(Closed { last: Lsn::new(confirmed), segment });
                let forged = Manifest { closed, ..slot };
                manifest.write_at(&forged.encode(), forged.offset().0).unwrap();
            }
            let found = read_live(&storage).unwrap().unwrap();
            assert_eq!(found.durable, Lsn::new(durable), "a close that confirms {confirmed}");
        }
    }
}
