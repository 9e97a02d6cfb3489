//! Enqueueing without waiting: a record that finds no room is refused, and the flusher makes room
//! for the next try.

use crate::base::error::{Error, Result};
use crate::base::sync::MutexGuard;
use crate::write::coordinator::lease::LockedLease;
use crate::write::coordinator::{Coordinator, State};
use crate::write::group_commit::{Enqueued, Position};
use crate::write::record_set::EncodedRecords;
use std::hint::spin_loop;
use std::sync::{Arc, TryLockError};

/// Other calls hold the lock for about a microsecond, exclusive users as long as they write. After
/// this many attempts the holder is assumed to be an exclusive user.
const LOCK_ATTEMPTS_MAX: u32 = if cfg!(seawall_scheduled) { 2 } else { 200 };

impl Coordinator {
    /// Like [`enqueue`](Self::enqueue) without a waiter, but never does I/O or waits for another
    /// thread that does.
    ///
    /// # Errors
    ///
    /// [`Error::WouldBlock`] instead of waiting; [`Error::Io`] if the system starts no thread to
    /// write the record.
    pub(crate) fn try_enqueue(self: &Arc<Self>, set: &mut impl EncodedRecords) -> Result<Position> {
        self.fork_guard.check()?;
        let mut state = self.try_lock().ok_or(Error::WouldBlock { log: None })?;
        state.check_hook()?;
        state.commit.check()?;
        if let Some(failure) = state.room_request.failure.take() {
            return Err(failure);
        }
        if state.draining > 0 {
            return Err(Error::WouldBlock { log: None });
        }
        // Nothing else writes the record if no call waits for it.
        self.require_flusher(&mut state)?;
        match state.commit.enqueue(set)? {
            Enqueued::In(position) => {
                self.schedule_flush(&mut state);
                return Ok(position);
            }
            Enqueued::BatchFull => state.commit.schedule_flush_at_once(|| self.clock.now()),
            Enqueued::NoRoom(size) => {
                state.room_request.size = state.room_request.size.max(Some(size));
            }
        }
        self.wake_background(&mut state);
        Err(Error::WouldBlock { log: None })
    }

    /// Makes the space that refused calls have requested. The next such call returns the error.
    pub(crate) fn make_requested_room(&self, mut locked: LockedLease<'_>, size: u64) {
        locked.state.room_request.size = None;
        if let Err(failure) = locked.make_room(size) {
            self.lock().room_request.failure = Some(failure);
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        for _ in 0..LOCK_ATTEMPTS_MAX {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        None
    }
}
