//! The queues of a guest: takes its requests one after another and completes them in that order.

use super::chain::Chain;
use super::config::{self, FEATURES, QUEUE_SIZE, QUEUES_MAX, SERIAL_SIZE};
use super::request::Device;
use crate::nbd::target::Target;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost_user_backend::{VhostUserBackend, VringMutex, VringT};
use virtio_queue::{QueueOwnedT, QueueT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

/// The memory of the guest.
pub(super) type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// One connection of a virtual machine.
#[derive(Debug)]
pub(super) struct Backend {
    target: Arc<dyn Target>,
    serial: [u8; SERIAL_SIZE],
    memory: Memory,
    /// Whether the guest sends flushes; not known before it has accepted features.
    has_flushes: AtomicBool,
    is_closed: AtomicBool,
    /// Held for reading during each request.
    gate: RwLock<()>,
    queues: Vec<Queue>,
}

/// The state of a queue besides its ring.
#[derive(Debug, Default)]
struct Queue {
    has_begun: AtomicBool,
    /// Empty until it is needed.
    buffer: Mutex<Vec<u8>>,
}

/// Whether there may be more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Done,
    Empty,
    Stopped,
}

impl Backend {
    pub(super) fn new(target: Arc<dyn Target>, serial: [u8; SERIAL_SIZE], memory: Memory) -> Self {
        let queues = (0..QUEUES_MAX).map(|_| Queue::default()).collect();
        let (has_flushes, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { target, serial, memory, has_flushes, is_closed, gate: RwLock::default(), queues }
    }

    /// Returns when no request is in progress; later ones stay in the memory of the guest.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        drop(self.gate.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Executes all requests that wait in a queue.
    fn serve(&self, queue: &Queue, vring: &VringMutex) {
        let mut was_empty = false;
        loop {
            match self.serve_next(queue, vring) {
                Next::Done => was_empty = false,
                // Look again: a request may have come before the guest was asked to announce new
                // ones. A broken ring seems to have requests, too; it is left at the second look.
                Next::Empty if !was_empty && vring.enable_notification().unwrap_or(false) => {
                    was_empty = true;
                }
                Next::Empty | Next::Stopped => return,
            }
        }
    }

    fn serve_next(&self, queue: &Queue, vring: &VringMutex) -> Next {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut vring = vring.get_mut();
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        if is_closed || !vring.is_enabled() || !vring.get_queue().ready() {
            return Next::Stopped;
        }
        let is_first = !queue.has_begun.swap(true, Ordering::Relaxed);
        if is_first {
            // What a server before this one has completed is complete, whatever the other side
            // remembers; and the guest may not have been told.
            let completed = vring.get_queue().next_used();
            vring.get_queue_mut().set_next_avail(completed);
            let _ = vring.signal_used_queue();
        }
        let memory = self.memory.memory();
        let Ok(mut waiting) = vring.get_queue_mut().iter(memory.clone()) else {
            return Next::Stopped;
        };
        let Some(descriptors) = waiting.next() else { return Next::Empty };
        let head = descriptors.head_index();
        let chain = Chain::of(descriptors, &memory);
        let mut buffer = queue.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut device = Device {
            target: &*self.target,
            serial: &self.serial,
            is_write_through: !self.has_flushes.load(Ordering::Relaxed),
            memory: &memory,
            buffer: &mut buffer,
        };
        // A request without a place for its status ends, too: later requests keep their order.
        let changed = chain.map_or(0, |chain| device.execute(chain));
        if vring.add_used(head, changed).is_err() {
            return Next::Stopped;
        }
        if vring.needs_notification().unwrap_or(true) {
            // A guest that is gone needs no signal.
            let _ = vring.signal_used_queue();
        }
        Next::Done
    }
}

impl VhostUserBackend for Backend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        QUEUES_MAX
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        FEATURES
    }

    fn acked_features(&self, features: u64) {
        self.has_flushes.store(config::has_flushes(features), Ordering::Relaxed);
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::CONFIG
    }

    fn set_event_idx(&self, _: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        config::read(self.target.size(), offset, size)
    }

    fn set_config(&self, _: u32, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn update_memory(&self, _: Memory) -> io::Result<()> {
        // Nothing to do: this is the same object as `self.memory`.
        Ok(())
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        (0..QUEUES_MAX).map(|queue| 1 << queue).collect()
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        let queue = usize::try_from(queue).ok().and_then(|queue| self.queues.get(queue));
        if let Some(queue) = queue {
            queue.has_begun.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn handle_event(
        &self,
        _: u16,
        _: EventSet,
        vrings: &[VringMutex],
        thread: usize,
    ) -> io::Result<()> {
        // Each queue has a thread. An error would end that thread, and a guest that never resets
        // the device would hang.
        if let (Some(queue), Some(vring)) = (self.queues.get(thread), vrings.first()) {
            self.serve(queue, vring);
        }
        Ok(())
    }
}
