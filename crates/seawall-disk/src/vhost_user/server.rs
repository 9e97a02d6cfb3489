//! The server: a socket, and one virtual machine after another.

use super::backend::{Backend, Memory};
use super::config::SERIAL_SIZE;
use crate::nbd::locked_path::LockedPath;
use crate::nbd::socket::take;
use crate::nbd::target::Target;
use seawall_io::{Clock, SystemClock};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use vhost::vhost_user::Listener;
use vhost_user_backend::{Error, ShutdownHandle, VhostUserDaemon};
use vm_memory::GuestMemoryMmap;

/// How long the server waits when it cannot accept a connection: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a disk to virtual machines until it is stopped or dropped.
///
/// # Examples
///
/// ```
/// use seawall_disk::vhost_user::Server;
/// use seawall_disk::{Disk, Files, Options};
/// use seawall_io::{Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::sync::Arc;
///
/// let storage = MemStorage::new();
/// let files = Files { home: storage.create("home")?, area: storage.create("area")? };
/// files.home.fill_with_zeros(1 << 20)?;
/// files.prepare(1, &Options::default())?;
/// let (disk, _) = Disk::open(files, &Options::default(), Arc::new(SystemClock::new()))?;
///
/// // For QEMU: -chardev socket,id=log,path=PATH,reconnect=1 -device vhost-user-blk-pci,chardev=log
/// let path = std::env::temp_dir().join(format!("seawall-guest-{}", std::process::id()));
/// let server = Server::start(Arc::new(disk), &path, "log")?;
/// assert_eq!(server.connections(), 0);
/// server.stop()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    place: LockedPath,
    /// Used to stop the listening socket.
    handle: UnixStream,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Arc<dyn Target>,
    serial: [u8; SERIAL_SIZE],
    clock: SystemClock,
    is_stopping: AtomicBool,
    peer: Mutex<Option<Peer>>,
}

/// The virtual machine that is connected.
struct Peer {
    backend: Arc<Backend>,
    connection: ShutdownHandle,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl Peer {
    /// Closes the connection after the request in progress: the virtual machine takes as complete
    /// only the requests that are complete when it finds the connection closed.
    fn leave(&self) {
        self.backend.close();
        self.connection.shutdown();
    }
}

impl Server {
    /// Starts to listen at a path, and to serve. The guest sees the first 20 bytes of `serial` as
    /// the disk's serial number.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a server listens there; [`io::ErrorKind::AlreadyExists`] if
    /// the path exists and is not a socket.
    pub fn start(
        target: Arc<impl Target + 'static>,
        path: &Path,
        serial: &str,
    ) -> io::Result<Self> {
        let place = take(path)?;
        let listener = UnixListener::bind(path)?;
        let handle = UnixStream::from(OwnedFd::from(listener.try_clone()?));
        let mut its_serial = [0; SERIAL_SIZE];
        its_serial.iter_mut().zip(serial.bytes()).for_each(|(to, from)| *to = from);
        let shared = Arc::new(Shared {
            target,
            serial: its_serial,
            clock: SystemClock::new(),
            is_stopping: AtomicBool::new(false),
            peer: Mutex::new(None),
        });
        let its = shared.clone();
        let named = thread::Builder::new().name("seawall-guests".to_owned());
        let acceptor = named.spawn(move || its.accept(listener))?;
        Ok(Self { shared, place, handle, acceptor: Some(acceptor) })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// The number of connected virtual machines: one or none.
    #[must_use]
    pub fn connections(&self) -> usize {
        usize::from(self.shared.peer().is_some())
    }

    /// Finishes the requests in progress, closes the connection, and [drains](Target::drain) the
    /// disk. Other requests stay in the memory of the guest, for the next server.
    ///
    /// # Errors
    ///
    /// As [`Target::drain`].
    pub fn stop(mut self) -> io::Result<()> {
        self.end();
        self.shared.target.drain()
    }

    fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Ends a waiting accept and all later ones.
        let _ = self.handle.shutdown(Shutdown::Both);
        if let Some(peer) = &*self.shared.peer() {
            peer.leave();
        }
        // The thread returns nothing, and it reported a panic itself.
        let _ = acceptor.join();
        // If this fails, the next server removes the socket, as after a kill.
        let _ = self.place.remove();
    }
}

impl Drop for Server {
    /// Like [`Server::stop`], but the disk is not drained.
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn peer(&self) -> MutexGuard<'_, Option<Peer>> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn accept(&self, listener: UnixListener) {
        let mut listener = Listener::from(listener);
        while !self.is_stopping() {
            if self.serve(&mut listener).is_err() && !self.is_stopping() {
                self.clock.sleep(PAUSE);
            }
        }
    }

    /// Serves one virtual machine from its connection to its end.
    fn serve(&self, listener: &mut Listener) -> Result<(), Error> {
        let memory = Memory::new(GuestMemoryMmap::new());
        let backend = Arc::new(Backend::new(self.target.clone(), self.serial, memory.clone()));
        let name = "seawall-guest".to_owned();
        let mut daemon = VhostUserDaemon::new(name, backend.clone(), memory)?;
        daemon.start(listener)?;
        if let Some(connection) = daemon.shutdown_handle() {
            let peer = Peer { backend: backend.clone(), connection };
            let mut place = self.peer();
            if self.is_stopping() {
                peer.leave();
            }
            *place = Some(peer);
        }
        // However the connection ended, there is no one to report it to.
        let _ = daemon.wait();
        backend.close();
        // The threads of the queues end before another connection may use the same memory.
        drop(daemon);
        *self.peer() = None;
        Ok(())
    }
}
