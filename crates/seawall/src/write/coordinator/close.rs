//! Closing the log, and dropping it in a forked child.

use crate::base::error::Result;
use crate::base::sync::current;
use crate::write::coordinator::Coordinator;
use crate::write::group_commit::WaitFor;
use crate::write::preallocation::state::Request;
use crate::write::truncation::removal::SegmentRemoval;
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
        let flushed = self.flush_all(WaitFor::Durable);
        let mut state = self.lock();
        // The owner of a ticket may be leading. A leader always returns the writer or panics. A
        // write in flight must not reach the disk after another process has the lock.
        while (state.commit.check().is_ok()
            && (state.writer.is_none() || !state.in_flight.is_empty()))
            || state.in_flight.is_writing()
        {
            state = self.wait_for_writer(state);
        }
        let parity_flushes = Self::take_parity_flushes(&mut state);
        let removals = std::mem::take(&mut state.preallocation.removals);
        // A poisoned log writes nothing more. Repeating a failed manifest write would start with
        // the one slot that is still valid.
        let flushed = flushed.and_then(|_| state.commit.check());
        let closed = match self.lease_first(state) {
            Ok(locked) => {
                let mut writer = locked.unlock();
                writer.take_preallocated(prepared);
                writer.parity_flushes.splice(..0, parity_flushes);
                match flushed {
                    Ok(()) => {
                        removals.into_iter().for_each(SegmentRemoval::run_in_background);
                        self.deferred_delete.drain();
                        writer.close()
                    }
                    Err(error) => {
                        writer.release();
                        Err(error)
                    }
                }
            }
            Err(state) => {
                drop(state);
                flushed
            }
        };
        let mut state = self.lock();
        state.draining -= 1;
        state.commit.close();
        self.wake_all(state);
        closed
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
