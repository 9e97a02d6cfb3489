//! Frees the space of removed segments in small steps.
//!
//! Freeing 64 MiB at once can stall the next sync by 10 ms. So the preallocator thread truncates
//! removed files step by step. Without that thread, or when the device is full, they are freed at
//! once.

use crate::base::sync::{Mutex, MutexGuard};
use seawall_io::File;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

/// Each step frees this many bytes times the number of waiting files. Segments are small under the
/// interleaving scheduler.
const PIECE: u64 = if cfg!(seawall_scheduled) { 1 << 10 } else { 256 << 10 };

/// Number of files that may wait: each takes a file descriptor of the process. Others are freed at
/// once, which delays the next sync.
const FILES_MAX: usize = 64;

/// Removed files whose space is not freed yet, oldest first.
#[derive(Debug)]
pub(crate) struct DeferredDelete {
    /// Whether a thread calls `truncate_step`.
    has_background_thread: bool,
    /// Serializes truncation, which may be slow, without blocking `add`.
    delete_lock: Mutex<()>,
    files: Mutex<VecDeque<PendingDelete>>,
}

/// A removed file and its remaining length.
#[derive(Debug)]
struct PendingDelete {
    file: Arc<dyn File>,
    length: u64,
}

impl DeferredDelete {
    pub(crate) fn new(has_background_thread: bool) -> Self {
        Self { has_background_thread, delete_lock: Mutex::default(), files: Mutex::default() }
    }

    /// Adds a file whose directory entry was removed. If there is no room, it is freed at once.
    pub(crate) fn add(&self, file: Arc<dyn File>) {
        // A short file, or one of unknown length, is freed at once when it is dropped.
        let length = file.len().unwrap_or(0);
        if self.room() > 0 && length > PIECE {
            self.lock().push_back(PendingDelete { file, length });
        }
    }

    /// Number of files that may be added.
    pub(crate) fn room(&self) -> usize {
        let max = if self.has_background_thread { FILES_MAX } else { 0 };
        max.saturating_sub(self.lock().len())
    }

    /// Whether no file is waiting. A file being truncated does not count.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Frees a piece of the oldest file. The piece grows with the number of waiting files.
    pub(crate) fn truncate_step(&self) {
        let _guard = self.lock_deletes();
        let mut files = self.lock();
        let count = u64::try_from(files.len()).expect("fits in 64 bits");
        let Some(PendingDelete { file, length }) = files.pop_front() else { return };
        drop(files);
        let length = length.saturating_sub(PIECE * count);
        if file.set_len(length).is_ok() && length > 0 {
            self.lock().push_front(PendingDelete { file, length });
        }
    }

    /// Frees all waiting files. Returns whether there were any.
    pub(crate) fn drain(&self) -> bool {
        let _guard = self.lock_deletes();
        let files = std::mem::take(&mut *self.lock());
        !files.is_empty()
    }

    fn lock_deletes(&self) -> MutexGuard<'_, ()> {
        self.delete_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<PendingDelete>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::{Access, Storage};
    use seawall_testkit::MemStorage;

    /// Adds files of `pieces` pieces to a `DeferredDelete`. Returns it, and a function that returns
    /// the current length of each file in pieces.
    fn held(
        has_background_thread: bool,
        pieces: &[u64],
    ) -> (DeferredDelete, impl Fn() -> Vec<u64>) {
        let (storage, deferred_delete) =
            (MemStorage::new(), DeferredDelete::new(has_background_thread));
        let name = |number: usize| number.to_string();
        for (number, pieces) in pieces.iter().enumerate() {
            let file = storage.create(&name(number)).expect("a free name");
            file.set_len(pieces * PIECE).expect("the device has room");
            deferred_delete.add(file);
        }
        let count = pieces.len();
        let length = move |number| {
            let file = storage.open(&name(number), Access::Read).expect("the file exists");
            file.len().expect("its length is known") / PIECE
        };
        (deferred_delete, move || (0..count).map(&length).collect())
    }

    #[test]
    fn files_are_freed_in_steps_and_faster_when_several_wait() {
        let (deferred_delete, lengths) = held(true, &[4]);
        for left in [3, 2, 1, 0] {
            assert!(!deferred_delete.is_empty());
            deferred_delete.truncate_step();
            assert_eq!(lengths(), [left]);
        }
        assert!(deferred_delete.is_empty());
        deferred_delete.truncate_step();
        let (deferred_delete, lengths) = held(true, &[4, 4, 4]);
        for left in [[1, 4, 4], [0, 4, 4], [0, 2, 4], [0, 0, 4], [0, 0, 3]] {
            deferred_delete.truncate_step();
            assert_eq!(lengths(), left);
        }
        assert!(deferred_delete.drain() && deferred_delete.is_empty());
    }

    #[test]
    fn short_files_and_files_without_a_background_thread_are_not_deferred() {
        assert!(held(true, &[0, 1]).0.is_empty());
        assert!(held(false, &[4]).0.is_empty());
    }
}
