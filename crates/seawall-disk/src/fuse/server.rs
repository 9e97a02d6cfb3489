//! The server: a mount, and the threads that answer what comes by it.

use super::mount::{Mount, Place, open_device};
use super::requests::{Gate, OneFile};
use crate::disk::Disk;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Requests that are answered at a time: a flush that waits is not to hold up a read.
const THREADS: usize = 8;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Nobody had the file open.
    Free,
    /// Somebody had, and gets errors from now on; all that was acknowledged is on the device.
    HungUp,
}

/// Shows a disk as a file until it is stopped or dropped.
///
/// # Examples
///
/// ```no_run
/// use seawall_disk::fuse::{Parting, Server};
/// use seawall_disk::{Disk, Files, Options};
/// use seawall_io::{Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::{path::Path, sync::Arc};
///
/// let storage = MemStorage::new();
/// let files = Files { home: storage.create("home")?, area: storage.create("area")? };
/// files.home.fill_with_zeros(1 << 20)?;
/// files.prepare(1, &Options::default())?;
/// let (disk, _) = Disk::open(files, &Options::default(), Arc::new(SystemClock::new()))?;
///
/// // As root: a file of 1 MiB, for losetup or any program.
/// let server = Server::start(Arc::new(disk), Path::new("/run/log.img"))?;
/// assert_eq!(server.path().metadata()?.len(), 1 << 20);
/// assert_eq!(server.stop()?, Parting::Free);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    disk: Arc<Disk>,
    gate: Arc<Gate>,
    /// What answers; it ends when the mount is gone.
    session: Option<BackgroundSession>,
    mount: Mount,
}

impl Server {
    /// Whether a disk can be shown on this machine by this process: to be asked before one is made.
    ///
    /// # Errors
    ///
    /// It takes root, and /dev/fuse.
    pub fn check() -> io::Result<()> {
        open_device()?;
        if rustix::process::geteuid().is_root() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "it takes root to mount"))
        }
    }

    /// Shows the disk at this path: there must be nothing, or an empty file, or what a server left
    /// there that was killed.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a server has its disk there;
    /// [`io::ErrorKind::AlreadyExists`] if something else is there;
    /// [`io::ErrorKind::PermissionDenied`] without the right to mount.
    pub fn start(disk: Arc<Disk>, path: &Path) -> io::Result<Self> {
        let (device, mount) = Place::take(path)?.mount()?;
        let gate = Arc::new(Gate::default());
        let file = OneFile::new(disk.clone(), gate.clone());
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        // Who may open the file is the system's to decide, by its mode; what comes by it later may
        // come from any thread of the system, in the name of any user.
        let session = Session::from_fd(file, device, SessionACL::All, config)?;
        Ok(Self { disk, gate, session: Some(session.spawn()?), mount })
    }

    /// Where the file is, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Whether requests are still answered: somebody may have unmounted the file by hand.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// How often the file is open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.gate.opened()
    }

    /// Drains the disk, and takes the file away.
    ///
    /// If somebody has it open, nothing more is acknowledged before the disk is drained.
    ///
    /// # Errors
    ///
    /// As [`Disk::drain`]; the file is gone all the same.
    pub fn stop(mut self) -> io::Result<Parting> {
        let parting = self.end()?;
        self.disk.drain()?;
        Ok(parting)
    }

    fn end(&mut self) -> io::Result<Parting> {
        let Some(session) = self.session.take() else { return Ok(Parting::Free) };
        // Most of it now, while the file still answers. What fails here fails again below.
        let _ = self.disk.drain();
        let parting = if self.mount.unmount().is_ok() {
            Parting::Free
        } else {
            self.gate.close();
            let _ = self.disk.drain();
            self.mount.hang_up()?;
            Parting::HungUp
        };
        // Its threads end as the mount has. What one of them failed with is nobody's any more.
        let _ = session.join();
        Ok(parting)
    }
}

impl Drop for Server {
    /// As [`Server::stop`], but nobody hears of what could not be drained.
    fn drop(&mut self) {
        // What stays is found to be of a dead server by the next one.
        let _ = self.end();
    }
}
