//! The server: one thread that accepts, and one for each connection.

use super::protocol::{EXPORTS_MAX, Export, Job, NEED_MAX, REPLY_MAX, Step};
use super::session::Session;
use super::socket::{Address, Listen, Listener, Stream};
use super::target::Target;
use super::wire::Code;
use seawall_io::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Input space beyond the largest piece, for requests that arrive with it.
const SPARE: usize = 64 * 1024;
/// How long the server waits when it cannot accept a connection: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at a time; further ones are closed.
    pub connections: usize,
    /// How long a client may take in all to choose an export.
    pub handshake: Duration,
    /// How long a stopping server waits for its clients to receive their last replies.
    pub farewell: Duration,
}

impl Default for Limits {
    /// 16 connections, each with a little more than 2 MiB of memory; 10 s for the handshake; 5 s
    /// for the last replies.
    fn default() -> Self {
        let (handshake, farewell) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { connections: 16, handshake, farewell }
    }
}

/// Serves one or more disks until it is stopped or dropped.
///
/// # Examples
///
/// ```
/// use seawall_disk::nbd::{Limits, Listen, Server};
/// use seawall_disk::{Disk, Files, Options};
/// use seawall_io::{Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::io::Read;
/// use std::net::TcpStream;
/// use std::sync::Arc;
///
/// let storage = MemStorage::new();
/// let files = Files { home: storage.create("home")?, area: storage.create("area")? };
/// files.home.fill_with_zeros(1 << 20)?;
/// files.prepare(1, &Options::default())?;
/// let (disk, _) = Disk::open(files, &Options::default(), Arc::new(SystemClock::new()))?;
///
/// let server = Server::start(Arc::new(disk), &Listen::Loopback(0), "log", Limits::default())?;
/// let uri = server.address().to_string(); // for nbdinfo, qemu-img, nbd-client...
/// let mut client = TcpStream::connect(uri.strip_prefix("nbd://").unwrap_or_default())?;
/// let mut greeting = [0; 16];
/// client.read_exact(&mut greeting)?;
/// assert_eq!(&greeting, b"NBDMAGICIHAVEOPT");
/// server.stop()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    /// Used to stop the listening socket.
    handle: Stream,
    acceptor: Option<JoinHandle<()>>,
}

/// A socket that listens. Clients that connect wait until a [`Server`] accepts them.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
}

impl Bound {
    /// Binds a socket and listens.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a server listens there; [`io::ErrorKind::AlreadyExists`] if
    /// the path exists and is not a socket; otherwise the system's error.
    pub fn new(listen: &Listen) -> io::Result<Self> {
        Listener::bind(listen).map(|listener| Self { listener })
    }
}

#[derive(Debug)]
struct Shared {
    /// One for each export.
    targets: Vec<Arc<dyn Target>>,
    exports: Arc<[Export]>,
    limits: Limits,
    clock: SystemClock,
    is_stopping: AtomicBool,
    peers: Mutex<Peers>,
    /// Signalled when a client has disconnected.
    left: Condvar,
}

fn exports(disks: &[(&str, Arc<dyn Target>)]) -> io::Result<Arc<[Export]>> {
    let exports = disks.iter().map(|(name, disk)| Export::new(name, disk.size()));
    Ok(exports.collect::<io::Result<Vec<Export>>>()?.into())
}

#[derive(Debug, Default)]
struct Peers {
    /// The sockets of the connections by number, used to close them.
    streams: BTreeMap<u64, Stream>,
    threads: Vec<JoinHandle<()>>,
    /// The number of the newest connection.
    newest: u64,
}

impl Server {
    /// Starts to listen and to serve clients.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a server listens there; [`io::ErrorKind::AlreadyExists`] if
    /// the path exists and is not a socket; [`io::ErrorKind::InvalidInput`] for a name that NBD
    /// cannot carry.
    pub fn start(
        disk: Arc<impl Target + 'static>,
        listen: &Listen,
        name: &str,
        limits: Limits,
    ) -> io::Result<Self> {
        Self::start_all(&[(name, disk)], listen, limits)
    }

    /// Like [`start`](Server::start) with several disks, each by its name. A client that sends no
    /// name gets the first.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start); [`io::ErrorKind::InvalidInput`] for no disk, and for more than
    /// [`EXPORTS_MAX`].
    pub fn start_all(
        disks: &[(&str, Arc<dyn Target>)],
        listen: &Listen,
        limits: Limits,
    ) -> io::Result<Self> {
        if !(1..=EXPORTS_MAX).contains(&disks.len()) {
            let why = format!("a server has 1 to {EXPORTS_MAX} exports, not {}", disks.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // A wrong name must be found before the socket is created.
        let exports = exports(disks)?;
        Self::serve(disks, exports, (Bound::new(listen)?, limits))
    }

    /// Like [`start`](Server::start), at a socket that is bound already.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] for a name that NBD cannot carry.
    pub fn start_at(
        bound: Bound,
        disk: Arc<impl Target + 'static>,
        name: &str,
        limits: Limits,
    ) -> io::Result<Self> {
        let disks: [(&str, Arc<dyn Target>); 1] = [(name, disk)];
        Self::serve(&disks, exports(&disks)?, (bound, limits))
    }

    fn serve(
        disks: &[(&str, Arc<dyn Target>)],
        exports: Arc<[Export]>,
        (Bound { listener }, limits): (Bound, Limits),
    ) -> io::Result<Self> {
        let targets = disks.iter().map(|(_, disk)| disk.clone()).collect();
        let (address, handle) = (listener.address()?, listener.handle()?);
        let shared = Arc::new(Shared {
            targets,
            exports,
            limits,
            clock: SystemClock::new(),
            is_stopping: AtomicBool::new(false),
            peers: Mutex::default(),
            left: Condvar::new(),
        });
        let its = shared.clone();
        let named = thread::Builder::new().name("seawall-nbd".to_owned());
        let acceptor = named.spawn(move || its.accept(&listener))?;
        Ok(Self { shared, address, handle, acceptor: Some(acceptor) })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The number of connected clients.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.peers().streams.len()
    }

    /// Stops accepting, finishes requests in progress, closes the connections, and
    /// [drains](Target::drain) the disks.
    ///
    /// A request that has not arrived completely is not executed. The [limits](Limits) say how long
    /// the server waits for a client to receive its replies; it waits for the device without a
    /// limit.
    ///
    /// # Errors
    ///
    /// As [`Target::drain`].
    pub fn stop(mut self) -> io::Result<()> {
        self.end();
        self.shared.targets.iter().try_for_each(|disk| disk.drain())
    }

    fn end(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.handle.shutdown(Shutdown::Both);
        if cfg!(not(target_os = "linux")) {
            self.address.knock();
        }
        // The thread returns nothing, and it reported a panic itself. The same holds below.
        let _ = acceptor.join();
        self.shared.hang_up(Shutdown::Read);
        let mut peers = self.shared.peers();
        let began = self.shared.clock.now();
        while !peers.streams.is_empty() {
            let waited = self.shared.clock.now().saturating_sub(began);
            let rest = self.shared.limits.farewell.saturating_sub(waited);
            if rest.is_zero() {
                break;
            }
            let woken = self.shared.left.wait_timeout(peers, rest);
            (peers, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let threads = std::mem::take(&mut peers.threads);
        drop(peers);
        self.shared.hang_up(Shutdown::Both);
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    /// Like [`Server::stop`], but the disks are not drained.
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn hang_up(&self, how: Shutdown) {
        self.peers().streams.values().for_each(|stream| stream.shutdown(how));
    }

    fn accept(self: Arc<Self>, listener: &Listener) {
        while !self.is_stopping() {
            let admitted = listener.accept().and_then(|stream| self.admit(stream));
            if admitted.is_err() && !self.is_stopping() {
                self.clock.sleep(PAUSE);
            }
        }
    }

    /// Starts a thread for a connection, if the limit allows one more.
    fn admit(self: &Arc<Self>, stream: Stream) -> io::Result<()> {
        let mut peers = self.peers();
        peers.threads.retain(|thread| !thread.is_finished());
        if peers.streams.len() >= self.limits.connections || self.is_stopping() {
            return Ok(());
        }
        peers.newest += 1;
        let number = peers.newest;
        peers.streams.insert(number, stream.try_clone()?);
        // Release the lock: dropping a seat takes it, also when no thread could be started.
        drop(peers);
        let seat = Seat { shared: self.clone(), number };
        let named = thread::Builder::new().name("seawall-nbd-peer".to_owned());
        let thread = named.spawn(move || {
            // However the connection ended, there is no one to report it to.
            let _ = Connection::new(&seat.shared, stream).and_then(Connection::serve);
        })?;
        self.peers().threads.push(thread);
        Ok(())
    }
}

/// The right to one connection; dropping it frees the place.
#[derive(Debug)]
struct Seat {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(stream) = self.shared.peers().streams.remove(&self.number) {
            stream.shutdown(Shutdown::Both);
        }
        self.shared.left.notify_all();
    }
}

/// A session with its socket, its disk, and all the memory that it will ever use.
#[derive(Debug)]
struct Connection<'a> {
    shared: &'a Shared,
    stream: Stream,
    session: Session,
    input: Input,
    replies: Vec<u8>,
    /// Bytes read from the disk.
    data: Vec<u8>,
    /// When the handshake must be complete; `None` after it.
    deadline: Option<Duration>,
}

impl<'a> Connection<'a> {
    fn new(shared: &'a Shared, stream: Stream) -> io::Result<Self> {
        let limit = shared.limits.handshake;
        stream.set_write_timeout(Some(limit))?;
        let mut replies = Vec::with_capacity(REPLY_MAX);
        let session = Session::new(shared.exports.clone(), &mut replies);
        let deadline = Some(shared.clock.now().saturating_add(limit));
        let (input, data) = (Input::new(), vec![0; NEED_MAX]);
        Ok(Self { shared, stream, session, input, replies, data, deadline })
    }

    /// Serves until one side closes the connection.
    fn serve(mut self) -> io::Result<()> {
        loop {
            self.send(0)?;
            if self.shared.is_stopping() && self.session.is_idle() {
                return Ok(());
            }
            match self.session.step(self.input.bytes(), &mut self.replies) {
                Step::Need(size) => {
                    if !self.receive(size)? {
                        return Ok(());
                    }
                }
                Step::Used(size) => self.input.drop_first(size),
                Step::Do(job) => self.work(job)?,
                Step::End => return self.send(0),
            }
            if self.deadline.is_some() && !self.session.is_in_handshake() {
                // After the handshake a client may stay silent as long as it likes.
                self.deadline = None;
                self.stream.set_read_timeout(None)?;
                self.stream.set_write_timeout(None)?;
            }
        }
    }

    /// Sends the replies and then the first `size` bytes that were read.
    fn send(&mut self, size: usize) -> io::Result<()> {
        if !self.replies.is_empty() || size > 0 {
            let data = self.data.get(..size).expect("no job reads more");
            self.stream.send(&self.replies, data)?;
            self.replies.clear();
        }
        Ok(())
    }

    /// Waits for at least `size` bytes of input. Returns `false` if the connection or the server
    /// ends, or the handshake takes too long.
    fn receive(&mut self, size: usize) -> io::Result<bool> {
        while self.input.bytes().len() < size {
            if self.shared.is_stopping() {
                return Ok(false);
            }
            if let Some(deadline) = self.deadline {
                let left = deadline.saturating_sub(self.shared.clock.now());
                // A timeout of zero would mean to wait forever.
                self.stream.set_read_timeout(Some(left.max(Duration::from_nanos(1))))?;
                if left.is_zero() {
                    return Ok(false);
                }
            }
            let received = self.stream.receive(self.input.room(size))?;
            self.input.came(received);
            if received == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn work(&mut self, job: Job) -> io::Result<()> {
        let disk = self.shared.targets.get(self.session.chosen()).expect("one for each export");
        let mut read = 0;
        let done = match job {
            Job::Write { offset, size } => {
                let payload = self.input.bytes().get(..size).expect("the session required them");
                let done = disk.write(offset, payload);
                self.input.drop_first(size);
                done
            }
            Job::Read { offset, size } => {
                read = size;
                disk.read(offset, self.data.get_mut(..size).expect("no job reads more"))
            }
            Job::Zero { .. } if self.shared.is_stopping() => {
                // Zeroing the rest could take minutes.
                self.session.finished(Err(Code::Shutdown), &mut self.replies);
                return Ok(());
            }
            Job::Zero { offset, size } => disk.zero(offset, size),
            Job::Flush => disk.flush(),
        };
        let outcome = done.as_ref().map(|&()| ()).map_err(Code::from);
        self.session.finished(outcome, &mut self.replies);
        let size = if outcome.is_ok() { read } else { 0 };
        self.send(size)
    }
}

/// Input that was received and not consumed, in a buffer of a fixed size.
#[derive(Debug)]
struct Input {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl Input {
    fn new() -> Self {
        Self { buffer: vec![0; NEED_MAX + SPARE], from: 0, to: 0 }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.from..self.to).expect("it holds what it counts")
    }

    /// Returns the space for further input, with room for at least `size` bytes in all.
    fn room(&mut self, size: usize) -> &mut [u8] {
        assert!(size <= NEED_MAX, "a session asks for no more");
        if self.from + size > self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        self.buffer.get_mut(self.to..).expect("it ends in the buffer")
    }

    /// Records that `size` bytes were received.
    fn came(&mut self, size: usize) {
        self.to += size;
        assert!(self.to <= self.buffer.len(), "no more than there was room for");
    }

    fn drop_first(&mut self, size: usize) {
        assert!(size <= self.to - self.from, "only received bytes are consumed");
        self.from += size;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }
}
