//! A device where something happens just before the nth look at it, or the nth file made there: a
//! race, each time the same.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::{Arc, Mutex};

use seawall_io::{Access, File, Lock, Storage};

/// Storage, and what happens beside.
#[derive(Debug, Clone)]
pub struct Hooked {
    inner: Arc<dyn Storage>,
    hook: Arc<Hook>,
}

#[derive(Default)]
pub struct Hook(Mutex<State>);

#[derive(Default)]
struct State {
    looks: u64,
    planned: Option<(u64, Act)>,
}

type Act = Box<dyn FnOnce() + Send>;

impl Hook {
    /// `act` happens before look `at` from now, counted from 0.
    pub fn plan(&self, at: u64, act: impl FnOnce() + Send + 'static) {
        let mut state = self.0.lock().unwrap();
        state.planned = Some((state.looks + at, Box::new(act)));
    }

    /// Whether what was planned has not happened.
    pub fn is_waiting(&self) -> bool {
        self.0.lock().unwrap().planned.is_some()
    }

    fn look(&self) {
        let mut state = self.0.lock().unwrap();
        let looks = state.looks;
        let due = state.planned.take_if(|(at, _)| *at == looks);
        state.looks += 1;
        drop(state);
        if let Some((_, act)) = due {
            act();
        }
    }
}

impl Hooked {
    /// `act` happens before look `at`, counted from 0.
    pub fn new(
        inner: impl Storage + 'static,
        at: u64,
        act: impl FnOnce() + Send + 'static,
    ) -> (Self, Arc<Hook>) {
        let hook = Arc::new(Hook::default());
        hook.plan(at, act);
        (Self { inner: Arc::new(inner), hook: hook.clone() }, hook)
    }
}

impl Storage for Hooked {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.hook.look();
        let inner = self.inner.open(name, access)?;
        Ok(Arc::new(HookedFile { inner, hook: self.hook.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.hook.look();
        self.inner.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.hook.look();
        self.inner.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.inner.lock(name)
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.hook.look();
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
struct HookedFile {
    inner: Arc<dyn File>,
    hook: Arc<Hook>,
}

impl File for HookedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.hook.look();
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> io::Result<u64> {
        self.hook.look();
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

impl Debug for Hook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}
