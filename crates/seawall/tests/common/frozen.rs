//! Read-only media: whatever would change something panics.

use std::io;
use std::sync::Arc;

use seawall_io::{Access, File, Lock, Storage};

/// Storage that can only be read.
#[derive(Debug, Clone)]
pub struct Frozen(Arc<dyn Storage>);

impl Frozen {
    pub fn new(inner: impl Storage + 'static) -> Self {
        Self(Arc::new(inner))
    }
}

#[track_caller]
fn refuse(what: &str) -> ! {
    panic!("a reader wants to {what}");
}

impl Storage for Frozen {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        match access {
            Access::Read => Ok(Arc::new(FrozenFile(self.0.open(name, access)?))),
            Access::ReadWrite => refuse(&format!("open {name} for writing")),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        refuse(&format!("create {name}"));
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        refuse(&format!("rename {from} to {to}"));
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        refuse(&format!("remove {name}"));
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        refuse("sync the directory");
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        refuse(&format!("lock {name}"));
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.0.is_locked(name)
    }

    fn folder(&self, name: &str) -> io::Result<Arc<dyn Storage>> {
        refuse(&format!("make the folder {name}"));
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.0.boot_id()
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

#[derive(Debug)]
struct FrozenFile(Arc<dyn File>);

impl File for FrozenFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        refuse("write");
    }

    fn sync(&self) -> io::Result<()> {
        refuse("sync a file");
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refuse("change a length");
    }

    fn fill_with_zeros(&self, _: u64) -> io::Result<()> {
        refuse("fill a file");
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        refuse("allocate");
    }
}
