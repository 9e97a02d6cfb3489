//! Closing the log, and dropping it in a forked child.

use crate::base::error::Result;
use crate::base::sync::current;
use crate::write::coordinator::Coordinator;
use crate::write::coordinator::callbacks::Callbacks;
use crate::write::coordinator::lease::LockedLease;
use crate::write::preallocation::file::PreallocatedSegment;
use crate::write::preallocation::state::Request;
use crate::write::truncation::removal::SegmentRemoval;
use crate::write::writer::run_once::RunOnce;
use std::sync::Arc;

impl Coordinator {
    /// Closes the log: writes all enqueued records, records the clean close, releases the file
    /// lock. Other threads may append meanwhile: their records are written, or refused.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if let Err(error) = self.fork_guard.check() {
            self.release_in_child();
            return Err(error);
        }
        self.stop_threads();
        self.deferred_delete.drain();
        let (prepared, requested) = {
            let mut state = self.lock();
            (state.preallocation.made.take(), state.preallocation.wanted.take())
        };
        if let Some(Request { env, reuse: Some((spare, _)), .. }) = requested {
            spare.discard(&*env.storage);
        }
        // From here on no record enters a batch: one that did would be lost although its append
        // had returned. Threads that wait to append get the error below.
        self.lock().draining += 1;
        let mut callbacks = Callbacks::none(self);
        let closed = match self.lease_exclusively(&mut callbacks) {
            Ok(locked) => close_writer(locked, prepared),
            Err(error) => {
                self.release_writer();
                Err(error)
            }
        };
        let mut state = self.lock();
        state.draining -= 1;
        state.commit.close();
        callbacks.add(self.wake_all(state));
        // Last: the user's code must not wait for room that this thread is to make.
        callbacks.run();
        closed
    }

    /// Releases the files of a poisoned log. It writes nothing more: repeating a failed manifest
    /// write would start with the one slot that is still valid.
    fn release_writer(self: &Arc<Self>) {
        let truncations = std::mem::take(&mut self.lock().removals);
        finish_truncations(&truncations);
        let mut state = self.lock();
        // A write in flight must not reach the disk after another process has the lock. The thread
        // that has the writer may not have noticed the failure.
        while state.in_flight.is_writing() || state.writer.is_none() {
            state = self.wait_for_writer(state);
        }
        // They hold files, too.
        drop(Self::take_parity_flushes(&mut state));
        state.preallocation.removals.clear();
        if let Ok(locked) = self.lease_first(state) {
            locked.unlock().release();
        }
    }

    /// Stops the flusher and the preallocator.
    fn stop_threads(&self) {
        let threads = {
            let mut state = self.lock();
            state.stopping = true;
            self.flusher_work.notify_all();
            self.preallocator_work.notify_all();
            let flushers = std::mem::take(&mut state.background);
            flushers.into_iter().chain(state.preallocation.thread.take()).collect::<Vec<_>>()
        };
        for thread in threads {
            // A waker may drop the log on the flusher thread itself, which cannot join itself.
            if thread.thread().id() != current().id() {
                let _ = thread.join();
            }
        }
    }

    /// Closes a forked child's copies of the open files: its copy of the file lock would keep other
    /// processes out. Nothing is written, and the parent keeps its own.
    fn release_in_child(&self) {
        // If a thread of the parent held the mutex or the writer at the fork, the copies stay open
        // until this process exits.
        if let Ok(mut state) = self.state.try_lock() {
            drop(state.writer.take());
        }
    }
}

/// Does the work that was queued for the preallocator, and closes the writer.
fn close_writer(
    mut locked: LockedLease<'_>,
    preallocated: Option<PreallocatedSegment>,
) -> Result<()> {
    let parity_flushes = Coordinator::take_parity_flushes(&mut locked.state);
    let removals = std::mem::take(&mut locked.state.preallocation.removals);
    let truncations = std::mem::take(&mut locked.state.removals);
    let mut writer = locked.unlock();
    writer.take_preallocated(preallocated);
    writer.parity_flushes.splice(..0, parity_flushes);
    removals.into_iter().for_each(SegmentRemoval::run_in_background);
    finish_truncations(&truncations);
    writer.env.deferred_delete.drain();
    writer.close()
}

/// Waits until the files of truncations are removed. Their callers return errors.
fn finish_truncations(removals: &[RunOnce]) {
    for removal in removals {
        let _ = removal.finish();
    }
}
