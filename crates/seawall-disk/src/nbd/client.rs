//! An export of another NBD server, as a file.

use super::protocol::REQUEST_MAX;
use super::socket::Stream;
use super::uri::Uri;
use super::wire::{self, Fields, answer, can, command, flag, hello, info, option};
use super::wire::{put_u16, put_u32, put_u64};
use crate::layout::{ZEROS, to_u64};
use seawall_io::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The most time that a server may take for one step of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most time for a request; after that the server is considered dead.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most answers to the one option that is sent, and the most bytes of each.
const ANSWERS_MAX: usize = 64;
const ANSWER_MAX: u32 = 64 * 1024;

/// An export of an NBD server as a file.
///
/// Its length is the size of the export and does not change. Requests wait for their replies, one
/// at a time on each of at most two connections. If the server allows several connections, reads
/// use one and changes the other, so that no read waits for a flush.
///
/// It does not reconnect. Once a connection is lost, because the server ended, broke the protocol,
/// or took longer than a minute, every call fails: unflushed bytes may be lost then, and only the
/// program that wrote them can know what to do.
///
/// # Examples
///
/// ```
/// use seawall_disk::device::{Cost, Device};
/// use seawall_disk::nbd::{Client, Limits, Listen, Server, Uri};
/// use seawall_io::{File, Storage, SystemClock};
/// use seawall_testkit::MemStorage;
/// use std::sync::Arc;
///
/// let file = MemStorage::new().create("home")?;
/// file.set_len(8192)?;
/// let device = Device::new(vec![file.clone()], Cost::default(), Arc::new(SystemClock::new()))?;
/// let home = Arc::new(Arc::new(device).region(0));
/// let socket = std::env::temp_dir().join(format!("client-{}", std::process::id()));
/// let server = Server::start(home, &Listen::Unix(socket.clone()), "home", Limits::default())?;
///
/// let client = Client::connect(&Uri::new("home", &socket))?;
/// client.write_at(b"kept", 4000)?;
/// client.sync()?;
/// let mut durable = [0; 4];
/// file.read_at(&mut durable, 4000)?;
/// assert_eq!(&durable, b"kept");
/// server.stop()?;
/// assert!(client.sync().is_err());
/// # std::fs::remove_file(socket.with_extension("lock")).ok();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    uri: Uri,
    told: Told,
    /// The connection for reads.
    reads: Mutex<Link>,
    /// The connection for everything else, if there are two.
    changes: Option<Mutex<Link>>,
    /// Why the connection was lost.
    lost: OnceLock<String>,
}

/// The server's description of an export.
#[derive(Clone, Copy, Debug)]
struct Told {
    size: u64,
    flags: u16,
    request_max: u32,
}

/// One connection.
#[derive(Debug)]
struct Link {
    stream: Stream,
    handle: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    flags: u16,
    command: u16,
    offset: u64,
    length: u32,
}

impl Client {
    /// Connects to a server and chooses the export.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] and [`io::ErrorKind::ConnectionRefused`] if no server listens
    /// there; [`io::ErrorKind::Unsupported`] for an export that cannot be flushed, is read-only, or
    /// accepts only requests of whole blocks; [`io::ErrorKind::InvalidData`] for a peer that is not
    /// an NBD server; the server's error if it has no export of this name.
    pub fn connect(uri: &Uri) -> io::Result<Self> {
        let (reads, told) = Link::connect(uri).map_err(|error| explain(uri, &error))?;
        told.check().map_err(|error| explain(uri, &error))?;
        let changes = if told.flags & can::MULTI_CONN == 0 {
            None
        } else {
            let (link, _) = Link::connect(uri).map_err(|error| explain(uri, &error))?;
            Some(Mutex::new(link))
        };
        let (reads, lost) = (Mutex::new(reads), OnceLock::new());
        Ok(Self { uri: uri.clone(), told, reads, changes, lost })
    }

    /// Sends a request and receives its reply. Without a valid reply all connections count as lost.
    fn exchange(&self, request: Request, payload: &[u8], data: &mut [u8]) -> io::Result<()> {
        let link = match &self.changes {
            Some(changes) if request.command != command::READ => changes,
            _ => &self.reads,
        };
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = self.lost.get() {
            return Err(self.gone(why));
        }
        match link.exchange(request, payload, data) {
            Ok(0) => Ok(()),
            Ok(number) => Err(self.refused(number)),
            Err(error) => {
                let _ = self.lost.set(says(&error));
                Err(self.gone(&says(&error)))
            }
        }
    }

    fn gone(&self, why: &str) -> io::Error {
        let what = format!(
            "the connection to {} was lost: {why}; start its server again, and then this one",
            self.uri
        );
        io::Error::new(io::ErrorKind::NotConnected, what)
    }

    fn refused(&self, number: u32) -> io::Error {
        use io::ErrorKind as Kind;
        let (kind, what) = match number {
            1 => (Kind::ReadOnlyFilesystem, "it is read-only"),
            5 => (Kind::Other, "its device failed"),
            12 => (Kind::OutOfMemory, "it is out of memory"),
            22 => (Kind::InvalidInput, "it rejects the request as invalid"),
            28 => (Kind::StorageFull, "it has no space left"),
            95 => (Kind::Unsupported, "it does not support the request"),
            108 => (Kind::Other, "it is shutting down"),
            _ => (Kind::Other, "it failed"),
        };
        io::Error::new(kind, format!("{}: {what} (error {number} of NBD)", self.uri))
    }

    fn check(&self, offset: u64, size: usize) -> io::Result<()> {
        match offset.checked_add(to_u64(size)) {
            Some(end) if end <= self.told.size => Ok(()),
            _ => {
                let all = self.told.size;
                let why = format!(
                    "{size} bytes at offset {offset} go beyond the end of {} ({all} bytes)",
                    self.uri
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    fn piece(&self) -> usize {
        usize::try_from(self.told.request_max).expect("it was bounded when it came")
    }

    fn write(&self, flags: u16, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check(offset, bytes.len())?;
        let mut at = offset;
        for piece in bytes.chunks(self.piece()) {
            let length = length_of(piece.len());
            let request = Request { flags, command: command::WRITE, offset: at, length };
            self.exchange(request, piece, &mut [])?;
            at += to_u64(piece.len());
        }
        Ok(())
    }
}

impl File for Client {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = usize::try_from(self.told.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let size = buffer.len().min(there);
        let mut at = offset;
        for piece in buffer.split_at_mut(size).0.chunks_mut(self.piece()) {
            let length = length_of(piece.len());
            let request = Request { flags: 0, command: command::READ, offset: at, length };
            self.exchange(request, &[], piece)?;
            at += to_u64(piece.len());
        }
        Ok(size)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write(0, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let request = Request { flags: 0, command: command::FLUSH, offset: 0, length: 0 };
        self.exchange(request, &[], &mut [])
    }

    fn write_synced(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.told.flags & can::FUA != 0 && bytes.len() <= self.piece() {
            return self.write(flag::FUA, bytes, offset);
        }
        self.write(0, bytes, offset)?;
        self.sync()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.told.size)
    }

    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length == self.told.size {
            return Ok(());
        }
        let why = format!("{} has {} bytes, and that cannot change", self.uri, self.told.size);
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Zeroes the first `length` bytes; the rest stays unchanged.
    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.check(length, 0)?;
        let can_zero = self.told.flags & can::WRITE_ZEROES != 0;
        let most = if can_zero { u64::from(self.told.request_max) } else { to_u64(ZEROS.len()) };
        let mut at = 0;
        while at < length {
            let size = usize::try_from(most.min(length - at)).expect("it is no more than 32 MiB");
            if can_zero {
                let (flags, length) = (flag::NO_HOLE, length_of(size));
                let request = Request { flags, command: command::WRITE_ZEROES, offset: at, length };
                self.exchange(request, &[], &mut [])?;
            } else {
                self.write(0, ZEROS.get(..size).unwrap_or(&ZEROS), at)?;
            }
            at += to_u64(size);
        }
        Ok(())
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.fill_with_zeros(length)
    }
}

impl Told {
    /// Checks that the export can be used.
    fn check(self) -> io::Result<()> {
        let unsupported = |why| Err(io::Error::new(io::ErrorKind::Unsupported, why));
        if self.flags & can::HAS_FLAGS == 0 || self.flags & can::FLUSH == 0 {
            return unsupported(
                "it does not support flushes, so nothing on it would ever be durable",
            );
        }
        if self.flags & can::READ_ONLY != 0 {
            return unsupported("it is read-only");
        }
        Ok(())
    }
}

impl Link {
    fn connect(uri: &Uri) -> io::Result<(Self, Told)> {
        let stream = Stream::Unix(UnixStream::connect(uri.socket())?);
        stream.set_read_timeout(Some(HANDSHAKE))?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let mut link = Self { stream, handle: 0 };
        link.greet()?;
        let told = link.choose(uri.name())?;
        link.stream.set_read_timeout(Some(PATIENCE))?;
        link.stream.set_write_timeout(Some(PATIENCE))?;
        Ok((link, told))
    }

    fn greet(&mut self) -> io::Result<()> {
        let greeting = self.array::<18>()?;
        let mut fields = Fields(&greeting);
        if (fields.u64(), fields.u64()) != (Some(wire::GREETING), Some(wire::OPTION)) {
            return Err(nonsense("its greeting is not that of an NBD server"));
        }
        let flags = fields.u16().unwrap_or_default();
        if flags & hello::FIXED_NEWSTYLE == 0 {
            return Err(nonsense("it supports only an NBD version that is too old"));
        }
        let mut out = Vec::new();
        put_u32(&mut out, u32::from(flags & (hello::FIXED_NEWSTYLE | hello::NO_ZEROES)));
        self.stream.send(&out, &[])
    }

    /// Chooses an export by its name and returns its description.
    fn choose(&mut self, name: &str) -> io::Result<Told> {
        let name = name.as_bytes();
        let (length, mut out) = (length_of(name.len()), Vec::new());
        put_u64(&mut out, wire::OPTION);
        put_u32(&mut out, option::GO);
        put_u32(&mut out, length.saturating_add(8));
        put_u32(&mut out, length);
        out.extend_from_slice(name);
        put_u16(&mut out, 1);
        // A client that asks for the block sizes promises to respect them.
        put_u16(&mut out, info::BLOCK_SIZE);
        self.stream.send(&out, &[])?;
        let (mut disk, mut request_max) = (None, REQUEST_MAX);
        for _ in 0..ANSWERS_MAX {
            let (kind, data) = self.answer()?;
            match kind {
                answer::ACK => {
                    let none = || nonsense("it did not report the size of the disk");
                    let (size, flags) = disk.ok_or_else(none)?;
                    return Ok(Told { size, flags, request_max });
                }
                answer::INFO => {
                    let mut fields = Fields(&data);
                    match fields.u16() {
                        Some(info::EXPORT) => disk = fields.u64().zip(fields.u16()),
                        Some(info::BLOCK_SIZE) => request_max = limit(&mut fields)?,
                        _ => {}
                    }
                }
                error => return Err(refusal(error, &data)),
            }
        }
        Err(nonsense("it sent too many answers"))
    }

    /// Receives the next answer to the option: its kind and its data.
    fn answer(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let head = self.array::<20>()?;
        let mut fields = Fields(&head);
        let is_answer =
            (fields.u64(), fields.u32()) == (Some(wire::OPTION_REPLY), Some(option::GO));
        let (Some(kind), Some(length), true) = (fields.u32(), fields.u32(), is_answer) else {
            return Err(nonsense("its answer does not match the request"));
        };
        if length > ANSWER_MAX {
            return Err(nonsense("its answer is too long"));
        }
        let mut data = vec![0; usize::try_from(length).unwrap_or_default()];
        self.fill(&mut data)?;
        Ok((kind, data))
    }

    /// Sends a request and returns the error number in the reply: 0 for success, with `data`
    /// filled.
    fn exchange(&mut self, request: Request, payload: &[u8], data: &mut [u8]) -> io::Result<u32> {
        self.handle = self.handle.wrapping_add(1);
        let mut head = Vec::with_capacity(28);
        put_u32(&mut head, wire::REQUEST);
        put_u16(&mut head, request.flags);
        put_u16(&mut head, request.command);
        put_u64(&mut head, self.handle);
        put_u64(&mut head, request.offset);
        put_u32(&mut head, request.length);
        self.stream.send(&head, payload)?;
        let reply = self.array::<16>()?;
        let mut fields = Fields(&reply);
        let (magic, error, handle) = (fields.u32(), fields.u32(), fields.u64());
        let (Some(wire::SIMPLE_REPLY), Some(error)) = (magic, error) else {
            return Err(nonsense("its reply does not begin as a reply must"));
        };
        if handle != Some(self.handle) {
            return Err(nonsense("it replied to a request that was not sent"));
        }
        if error == 0 {
            self.fill(data)?;
        }
        Ok(error)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.stream.receive(bytes.get_mut(done..).unwrap_or_default())? {
                0 => {
                    let why = "the server closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                received => done += received,
            }
        }
        Ok(())
    }
}

/// Returns the longest request that a server accepts, or an error if it accepts only whole blocks.
fn limit(fields: &mut Fields<'_>) -> io::Result<u32> {
    let (smallest, _, largest) = (fields.u32(), fields.u32(), fields.u32());
    let (Some(smallest), Some(largest)) = (smallest, largest) else {
        return Err(nonsense("it did not report its block sizes"));
    };
    if smallest > 1 {
        let why = format!("it accepts only whole blocks of {smallest} bytes");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    if largest == 0 {
        return Err(nonsense("it accepts no request of any length"));
    }
    Ok(largest.min(REQUEST_MAX))
}

/// The error for an answer that refuses the export.
fn refusal(kind: u32, data: &[u8]) -> io::Error {
    let text: String =
        String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).take(200).collect();
    let said = if text.is_empty() { String::new() } else { format!(": {text}") };
    match kind {
        answer::UNKNOWN => {
            let why = format!("the server has no disk of this name{said}");
            io::Error::new(io::ErrorKind::NotFound, why)
        }
        answer::UNSUPPORTED => {
            let why = format!("the server supports only an NBD version that is too old{said}");
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        other => io::Error::other(format!("the server refuses (answer {other:#x} of NBD){said}")),
    }
}

fn nonsense(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn says(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no reply for {} seconds", PATIENCE.as_secs())
        }
        _ => error.to_string(),
    }
}

fn explain(uri: &Uri, error: &io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            let why = format!("{uri}: no answer for {} seconds", HANDSHAKE.as_secs());
            return io::Error::new(io::ErrorKind::TimedOut, why);
        }
        io::ErrorKind::ConnectionRefused => "no server listens there any more".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("{uri}: {what}"))
}

fn length_of(size: usize) -> u32 {
    u32::try_from(size).expect("names and pieces are short")
}
