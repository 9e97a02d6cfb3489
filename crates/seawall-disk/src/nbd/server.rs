//! The server: a thread that accepts, and one for each connection.

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

/// Input beyond the largest piece: the requests that come with it.
const SPARE: usize = 64 * 1024;
/// How long it waits when no connection can be accepted: descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; whoever comes when they are there is hung up on.
    pub connections: usize,
    /// How long a client may take to choose an export, all in all.
    pub handshake: Duration,
    /// How long a server that ends waits for its clients to take their last replies.
    pub farewell: Duration,
}

impl Default for Limits {
    /// 16 connections, of which each takes a little more than 2 MiB of memory; 10 s; 5 s.
    fn default() -> Self {
        let (handshake, farewell) = (Duration::from_secs(10), Duration::from_secs(5));
        Self { connections: 16, handshake, farewell }
    }
}

/// Serves a disk, or a few, until it is stopped or dropped.
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
    /// The socket that listens, to end that.
    handle: Stream,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// As many as exports.
    targets: Vec<Arc<dyn Target>>,
    exports: Arc<[Export]>,
    limits: Limits,
    clock: SystemClock,
    is_stopping: AtomicBool,
    peers: Mutex<Peers>,
    /// A peer has left.
    left: Condvar,
}

#[derive(Debug, Default)]
struct Peers {
    /// To hang up on them.
    streams: BTreeMap<u64, Stream>,
    threads: Vec<JoinHandle<()>>,
    /// The number of the newest.
    newest: u64,
}

impl Server {
    /// Listens, and serves whoever comes.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if a server listens there; [`io::ErrorKind::AlreadyExists`] if
    /// something that is no socket has the path; [`io::ErrorKind::InvalidInput`] for a name that
    /// NBD cannot carry.
    pub fn start(
        disk: Arc<impl Target + 'static>,
        listen: &Listen,
        name: &str,
        limits: Limits,
    ) -> io::Result<Self> {
        Self::start_all(&[(name, disk)], listen, limits)
    }

    /// The same with several disks, each by its name; who gives none gets the first.
    ///
    /// # Errors
    ///
    /// As [`start`](Server::start); [`io::ErrorKind::InvalidInput`] for none at all, and for more
    /// than [`EXPORTS_MAX`].
    pub fn start_all(
        disks: &[(&str, Arc<dyn Target>)],
        listen: &Listen,
        limits: Limits,
    ) -> io::Result<Self> {
        if !(1..=EXPORTS_MAX).contains(&disks.len()) {
            let why = format!("a server has 1 to {EXPORTS_MAX} exports, not {}", disks.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let exports = disks.iter().map(|(name, disk)| Export::new(name, disk.size()));
        let exports = exports.collect::<io::Result<Vec<Export>>>()?.into();
        let targets = disks.iter().map(|(_, disk)| disk.clone()).collect();
        let listener = Listener::bind(listen)?;
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.peers().streams.len()
    }

    /// Accepts no more, ends what is under way, hangs up, and [drains](Target::drain) its disks.
    ///
    /// A request whose bytes have not all come is not done. A client that does not take its
    /// replies is waited for as the [limits](Limits) say, and the device as long as it takes.
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
        // It returns nothing, and its panics are its own; so it is below.
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
    /// As [`Server::stop`], but the disk is not drained.
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

    /// Gives a connection a thread, if there is one left.
    fn admit(self: &Arc<Self>, stream: Stream) -> io::Result<()> {
        let mut peers = self.peers();
        peers.threads.retain(|thread| !thread.is_finished());
        if peers.streams.len() >= self.limits.connections || self.is_stopping() {
            return Ok(());
        }
        peers.newest += 1;
        let number = peers.newest;
        peers.streams.insert(number, stream.try_clone()?);
        // A seat that is left takes the lock itself, be it for want of a thread.
        drop(peers);
        let seat = Seat { shared: self.clone(), number };
        let named = thread::Builder::new().name("seawall-nbd-peer".to_owned());
        let thread = named.spawn(move || {
            // However the connection ended: there is nobody to tell.
            let _ = Connection::new(&seat.shared, stream).and_then(Connection::serve);
        })?;
        self.peers().threads.push(thread);
        Ok(())
    }
}

/// The place of a connection among those that there may be; free again when this is dropped.
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

/// A session with its socket, its disk, and all the memory that it will ever have.
#[derive(Debug)]
struct Connection<'a> {
    shared: &'a Shared,
    stream: Stream,
    session: Session,
    input: Input,
    replies: Vec<u8>,
    /// What was read of the disk.
    data: Vec<u8>,
    /// When the handshake must be over; nothing behind it.
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

    /// Until one of the two hangs up.
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
                // A client may be silent for as long as it likes, or stand still.
                self.deadline = None;
                self.stream.set_read_timeout(None)?;
                self.stream.set_write_timeout(None)?;
            }
        }
    }

    /// The replies, and so much of what was read.
    fn send(&mut self, size: usize) -> io::Result<()> {
        if !self.replies.is_empty() || size > 0 {
            let data = self.data.get(..size).expect("no job reads more");
            self.stream.send(&self.replies, data)?;
            self.replies.clear();
        }
        Ok(())
    }

    /// Waits until there are so many bytes of input. False: they will not come.
    fn receive(&mut self, size: usize) -> io::Result<bool> {
        while self.input.bytes().len() < size {
            if self.shared.is_stopping() {
                return Ok(false);
            }
            if let Some(deadline) = self.deadline {
                let left = deadline.saturating_sub(self.shared.clock.now());
                // None would mean to wait for ever.
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
                let payload = self.input.bytes().get(..size).expect("the session asked for them");
                let done = disk.write(offset, payload);
                self.input.drop_first(size);
                done
            }
            Job::Read { offset, size } => {
                read = size;
                disk.read(offset, self.data.get_mut(..size).expect("no job reads more"))
            }
            Job::Zero { .. } if self.shared.is_stopping() => {
                // There may be minutes of it left.
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

/// What has come and is not done with: a buffer of a fixed size.
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

    /// Where the next bytes go, with room for `size` in all.
    fn room(&mut self, size: usize) -> &mut [u8] {
        assert!(size <= NEED_MAX, "a session asks for no more");
        if self.from + size > self.buffer.len() {
            self.buffer.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        self.buffer.get_mut(self.to..).expect("it ends in the buffer")
    }

    /// So many bytes were put there.
    fn came(&mut self, size: usize) {
        self.to += size;
        assert!(self.to <= self.buffer.len(), "no more than there was room for");
    }

    fn drop_first(&mut self, size: usize) {
        assert!(size <= self.to - self.from, "nobody uses what has not come");
        self.from += size;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
    }
}
