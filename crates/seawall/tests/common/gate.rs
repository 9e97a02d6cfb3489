//! A device that stops at a gate: a test sees who waits there, and lets them through.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use seawall_io::{Access, File, Lock, Storage};

/// Storage whose syncs of files wait while the gate is shut.
#[derive(Debug, Clone)]
pub struct Gated {
    inner: Arc<dyn Storage>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// How many may pass though it is shut.
    passes: u64,
    waiting: u64,
}

impl Gate {
    pub fn shut(&self) {
        self.state.lock().unwrap().shut = true;
    }

    pub fn open(&self) {
        self.state.lock().unwrap().shut = false;
        self.changed.notify_all();
    }

    /// Lets one sync through a gate that stays shut.
    pub fn pass_one(&self) {
        self.state.lock().unwrap().passes += 1;
        self.changed.notify_all();
    }

    /// Returns once somebody waits at the gate.
    pub fn wait_for_somebody(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    /// Whether somebody waits who was not let through yet.
    pub fn is_waited_at(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.waiting > 0 && state.passes == 0
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        let mut state =
            self.changed.wait_while(state, |state| state.shut && state.passes == 0).unwrap();
        state.waiting -= 1;
        if state.shut {
            state.passes -= 1;
        }
    }
}

impl Gated {
    pub fn new(inner: impl Storage + 'static) -> (Self, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (Self { inner: Arc::new(inner), gate: Arc::clone(&gate) }, gate)
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(GatedFile { inner: file, gate: Arc::clone(&self.gate) })
    }
}

impl Storage for Gated {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.inner.open(name, access).map(|file| self.wrap(file))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.inner.create(name).map(|file| self.wrap(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_locked(name)
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        self.inner.folder(name)
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }

    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.inner.fill_with_zeros(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.inner.allocate(length)
    }
}
