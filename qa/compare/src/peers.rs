//! Seawall and all its peers, one file for each, in the order of the tables.

mod commitlog;
mod fjall;
mod hiqlite;
mod logdb;
mod okaywal;
mod open_wal;
mod plain;
mod raft_engine;
mod raft_log;
mod redb;
mod seawall;
mod sqlite;
mod wal_db;
mod walogs;
mod walrus;

use crate::peer::Kind;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log that the others are compared with.
pub(crate) const OURS: &Kind = &seawall::KIND;

/// The logs and stores that Seawall is compared with.
pub(crate) const PEERS: &[&Kind] = &[
    &okaywal::KIND,
    &raft_engine::KIND,
    &raft_engine::PREFILLED,
    &walrus::KIND,
    &commitlog::KIND,
    &wal_db::KIND,
    &open_wal::KIND,
    &walogs::KIND,
    &logdb::KIND,
    &raft_log::KIND,
    &hiqlite::KIND,
    &fjall::KIND,
    &redb::KIND,
    &sqlite::KIND,
    &plain::GROWING,
    &plain::WRITTEN,
];

/// The logs for the damage test: they store a record once, and its bytes can be found in a file.
pub(crate) const DAMAGED: &[&Kind] = &[
    &okaywal::KIND,
    &raft_engine::KIND,
    &walrus::KIND,
    &commitlog::KIND,
    &wal_db::KIND,
    &wal_db::STRICT,
    &open_wal::KIND,
    &walogs::KIND,
    &logdb::KIND,
    &raft_log::KIND,
    &hiqlite::KIND,
    &fjall::KIND,
];

/// Locks a mutex. Ignores poisoning, because a panic of the holder leaves no broken state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Check, Order, Payloads};
    use crate::peer::{Discipline, Done, Level, Place};
    use seawall_measure::scratch::Scratch;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const THREADS: usize = 8;
    const RECORDS: usize = 400;
    const SIZE: usize = 100;

    #[test]
    fn what_each_acknowledged_by_eight_threads_comes_back_once_and_unchanged() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-peers").unwrap();
        std::env::set_current_dir(scratch.path()).unwrap();
        for kind in std::iter::once(&OURS).chain(PEERS) {
            for (name, level) in [("synced", Level::Synced), ("buffered", Level::Buffered)] {
                if level == Level::Buffered && kind.lack(Discipline::Buffered).is_some() {
                    continue;
                }
                let folder = scratch.path().join(format!("{}-{name}", kind.name));
                let kept = RECORDS + THREADS;
                let place = Place { folder: &folder, level, threads: THREADS, size: SIZE, kept };
                let done = written(kind, &place).and_then(|()| read(kind, &place));
                assert_eq!(done.map_err(|e| e.to_string()), Ok(()), "{}, {name}", kind.name);
            }
        }
    }

    fn written(kind: &Kind, place: &Place<'_>) -> Done {
        let peer = (kind.open)(place)?;
        let records = Payloads::new(SIZE).first(place.kept);
        let (single, set) = records.split_at(RECORDS);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| -> Done {
            let (peer, next) = (&*peer, &next);
            let thread = |thread| {
                scope.spawn(move || -> Done {
                    while let Some(record) = single.get(next.fetch_add(1, Ordering::Relaxed)) {
                        peer.append(thread, record)?;
                    }
                    Ok(())
                })
            };
            let threads: Vec<_> = (0..THREADS).map(thread).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        peer.append_set(&set.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        peer.settle()?;
        peer.close()
    }

    /// Reads everything twice, because reading must not change the log.
    fn read(kind: &Kind, place: &Place<'_>) -> Done {
        let mut reader = (kind.reader)(place)?;
        for _ in 0..2 {
            let mut check = Check::new(place.kept, SIZE, Order::Any);
            check.begin(reader.rewind()?, None);
            reader.read(&mut check)?;
            check.end()?;
        }
        Ok(())
    }
}
