//! The thread that seals a segment while the leader writes the first batch of the next one. It
//! starts at the first such rotation, because starting one each time would take longer than the
//! seal.

use crate::base::error::{Error, Result};
use crate::base::event_count::EventCount;
use crate::base::sync::{AtomicU32, Builder, Mutex, MutexGuard, Ordering, yield_now};
use crate::write::rotation::SealWrite;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

/// How often the leader yields before it sleeps, for some 50 us: the seal is nearly as fast as the
/// batch. At real-time priority a yield does not let the kernel's threads run, which complete the
/// sync.
const YIELDS_MAX: u32 = if cfg!(seawall_scheduled) { 1 } else { 100 };

/// A running thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SealThread(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<Work>,
    /// Not 0 once the thread is to end.
    is_stopped: AtomicU32,
    wanted: EventCount,
    done: EventCount,
}

#[derive(Debug, Default)]
struct Work {
    seal: Option<SealWrite>,
    outcome: Option<Result<()>>,
}

/// A seal that the thread writes. Dropping this waits for it, too.
#[derive(Debug)]
pub(crate) struct SealInFlight {
    thread: Arc<SealThread>,
    is_finished: bool,
}

impl SealThread {
    /// Starts the thread. `None` if the system refuses to.
    pub(crate) fn start() -> Option<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let builder = Builder::new().name("seawall-seal".to_owned());
        builder.spawn(move || of_thread.run()).ok()?;
        Some(Arc::new(Self(shared)))
    }

    /// Hands over a seal. There is only one at a time.
    pub(crate) fn begin(self: &Arc<Self>, seal: SealWrite) -> SealInFlight {
        self.0.lock().seal = Some(seal);
        self.0.wanted.notify_one();
        SealInFlight { thread: self.clone(), is_finished: false }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let seen = self.wanted.epoch();
            if self.is_stopped.load(Ordering::Acquire) != 0 {
                return;
            }
            let seal = self.lock().seal.take();
            let Some(seal) = seal else {
                self.wanted.wait(seen);
                continue;
            };
            let sealed = catch_unwind(AssertUnwindSafe(|| seal.write().and_then(|()| seal.sync())));
            let panicked = || Error::io("seal a segment")(io::Error::other("the thread panicked"));
            self.lock().outcome = Some(sealed.unwrap_or_else(|_| Err(panicked())));
            self.done.notify_all();
        }
    }
}

impl SealInFlight {
    /// Waits until the seal is durable or has failed.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        self.is_finished = true;
        let shared = &self.thread.0;
        let mut yields = 0;
        loop {
            let seen = shared.done.epoch();
            if let Some(outcome) = shared.lock().outcome.take() {
                return outcome;
            }
            if yields < YIELDS_MAX {
                yields += 1;
                yield_now();
            } else {
                shared.done.wait(seen);
            }
        }
    }
}

impl Drop for SealInFlight {
    fn drop(&mut self) {
        if !self.is_finished {
            // The leader panicked. The next process must not find this one writing.
            let _ = self.wait();
        }
    }
}

impl Drop for SealThread {
    fn drop(&mut self) {
        // Not joined: it does nothing any more, and in a forked child it does not exist.
        self.0.is_stopped.store(1, Ordering::Release);
        self.0.wanted.notify_all();
    }
}
