//! The server: a mount, and the threads that answer its requests.

use super::folder::Folder;
use super::gate::Gate;
use super::mount::{Mount, Place, Shape, open_device};
use super::requests::OneFile;
use crate::disk::Disk;
use crate::volume::Volume;
use fuser::{BackgroundSession, Config, Filesystem, Session, SessionACL};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Requests answered at a time. A waiting flush must not delay a read.
const THREADS: usize = 8;

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// No program had the file open.
    Free,
    /// A program had the file open and gets errors from now on. All acknowledged bytes are on the
    /// device.
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
    /// Answers requests; it ends when the mount is gone.
    session: Option<BackgroundSession>,
    mount: Mount,
}

impl Server {
    /// Checks whether this process can serve a disk through FUSE. Call it before creating a disk.
    ///
    /// # Errors
    ///
    /// The process is not root, or /dev/fuse is missing.
    pub fn check() -> io::Result<()> {
        open_device()?;
        if rustix::process::geteuid().is_root() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "mounting requires root"))
        }
    }

    /// Shows the disk as the file `path`. The path must be free, an empty file, or left by a killed
    /// server.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if another server uses the path;
    /// [`io::ErrorKind::AlreadyExists`] if something else exists there;
    /// [`io::ErrorKind::PermissionDenied`] without the right to mount.
    pub fn start(disk: Arc<Disk>, path: &Path) -> io::Result<Self> {
        let gate = Arc::new(Gate::default());
        let file = OneFile::new(disk.clone(), gate.clone());
        Self::serve(file, (disk, gate), Place::take(path, Shape::File)?)
    }

    /// Shows the disk's [volume](Volume) as the folder `path`. The path must be free, an empty
    /// folder, or left by a killed server.
    ///
    /// # Errors
    ///
    /// As [`Server::start`] and [`Volume::open`].
    pub fn start_folder(disk: Arc<Disk>, path: &Path) -> io::Result<Self> {
        let tree = Volume::open(disk.clone())?.tree();
        let gate = Arc::new(Gate::default());
        let folder = Folder::new(tree, gate.clone());
        Self::serve(folder, (disk, gate), Place::take(path, Shape::Folder)?)
    }

    fn serve(
        files: impl Filesystem,
        (disk, gate): (Arc<Disk>, Arc<Gate>),
        place: Place,
    ) -> io::Result<Self> {
        let (device, mount) = place.mount()?;
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        // The kernel checks a file's mode when a program opens it. Later requests may come from any
        // kernel thread, on behalf of any user.
        let session = Session::from_fd(files, device, SessionACL::All, config)?;
        Ok(Self { disk, gate, session: Some(session.spawn()?), mount })
    }

    /// The absolute path of the file or folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Returns whether requests are still answered: the file may have been unmounted by hand.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// The number of open file handles.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.gate.opened()
    }

    /// Drains the disk and removes the file.
    ///
    /// If a program has the file open, its requests are refused before the disk is drained for the
    /// last time.
    ///
    /// # Errors
    ///
    /// As [`Disk::drain`]; the file is removed nevertheless.
    pub fn stop(mut self) -> io::Result<Parting> {
        let parting = self.end()?;
        self.disk.drain()?;
        Ok(parting)
    }

    fn end(&mut self) -> io::Result<Parting> {
        let Some(session) = self.session.take() else { return Ok(Parting::Free) };
        // Drain most bytes while requests are still answered. An error here occurs again below.
        let _ = self.disk.drain();
        let parting = if self.mount.unmount().is_ok() {
            Parting::Free
        } else {
            self.gate.close();
            let _ = self.disk.drain();
            self.mount.hang_up()?;
            Parting::HungUp
        };
        // The session's threads end with the mount. An error of one of them no longer matters.
        let _ = session.join();
        Ok(parting)
    }
}

impl Drop for Server {
    /// Like [`Server::stop`], but errors of draining are not reported.
    fn drop(&mut self) {
        // If this fails, the next server removes the mount, as after a kill.
        let _ = self.end();
    }
}
