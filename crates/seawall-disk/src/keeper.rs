//! A small process that holds the memory of a ring, so that the memory outlives its server.
//!
//! The keeper never reads that memory. Clients send one byte per request to a unix socket:
//!
//! ```text
//! request         answer
//! p + descriptor  k       keep this memory, in place of an earlier one
//! g               m + descriptor, or n if there is none
//! d               k       drop the memory
//! q               k       drop the memory, and end
//! c               a byte  what confines the keeper
//! ```
//!
//! The end of a connection changes nothing. Only one server at a time uses a state directory.

use seawall_host::{connect_within, peer, receive_descriptor, send_descriptor, wait_for_any};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// The maximum number of connections; a further one closes the oldest.
const CLIENTS_MAX: usize = 8;
/// How often the keeper checks whether it can still be reached.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds memory until a client sends `q`, or until `is_reachable`, called at least every five
/// seconds, returns `false`. After `q`, returns the connection of that client, which waits until it
/// is closed. `confined` is the answer to `c`.
///
/// # Errors
///
/// The system's error when waiting or accepting.
pub fn keep(
    listener: &UnixListener,
    confined: u8,
    is_reachable: impl Fn() -> bool,
) -> io::Result<Option<UnixStream>> {
    listener.set_nonblocking(true)?;
    let mut clients: Vec<UnixStream> = Vec::new();
    let mut held = None;
    while is_reachable() {
        let mut inputs: Vec<BorrowedFd<'_>> = vec![listener.as_fd()];
        inputs.extend(clients.iter().map(AsFd::as_fd));
        let is_ready = wait_for_any(&inputs, LOOK_EVERY)?;
        let (is_new, is_ready) = is_ready.split_first().unwrap_or((&false, &[]));
        let asked = std::mem::take(&mut clients).into_iter().zip(is_ready);
        for (client, is_ready) in asked {
            match is_ready.then(|| answer(&client, confined, &mut held)) {
                None | Some(Ok(Next::Stay)) => clients.push(client),
                Some(Ok(Next::End)) => return Ok(Some(client)),
                Some(Ok(Next::Close) | Err(_)) => {}
            }
        }
        if *is_new && let Ok((client, _)) = listener.accept() {
            client.set_nonblocking(true)?;
            if clients.len() >= CLIENTS_MAX {
                clients.remove(0);
            }
            clients.push(client);
        }
    }
    Ok(None)
}

/// What happens to a connection.
enum Next {
    Stay,
    Close,
    End,
}

fn answer(client: &UnixStream, confined: u8, held: &mut Option<OwnedFd>) -> io::Result<Next> {
    let Some((request, descriptor)) = receive_descriptor(client)? else { return Ok(Next::Close) };
    match (request, descriptor) {
        (b'p', Some(descriptor)) => *held = Some(descriptor),
        (b'g', None) => {
            let answer = if held.is_some() { b'm' } else { b'n' };
            send_descriptor(client, answer, held.as_ref().map(AsFd::as_fd))?;
            return Ok(Next::Stay);
        }
        (b'c', None) => {
            send_descriptor(client, confined, None)?;
            return Ok(Next::Stay);
        }
        (b'd' | b'q', None) => *held = None,
        _ => return Ok(Next::Close),
    }
    send_descriptor(client, b'k', None)?;
    Ok(if request == b'q' { Next::End } else { Next::Stay })
}

/// A connection to a keeper.
///
/// # Examples
///
/// ```
/// use seawall_disk::keeper::{Keeper, keep};
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixListener;
///
/// let path = std::env::temp_dir().join(format!("seawall-doc-keeper-{}", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// let keeps = std::thread::spawn(move || keep(&listener, 7, || true).map(drop));
/// let mut keeper = Keeper::connect(&path)?;
/// assert!(keeper.get()?.is_none());
/// keeper.put(std::io::stdin().as_fd())?;
/// drop(keeper);
/// assert!(Keeper::connect(&path)?.get()?.is_some());
/// assert_eq!(Keeper::connect(&path)?.confined()?, 7);
/// Keeper::connect(&path)?.quit()?;
/// keeps.join().expect("it does not panic")?;
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Keeper {
    stream: UnixStream,
}

impl Keeper {
    /// Connects to the keeper at this socket.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::ConnectionRefused`] if none runs;
    /// [`io::ErrorKind::TimedOut`] if it accepts no connection for five seconds; otherwise the
    /// system's error.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = connect_within(path, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Returns the memory that the keeper holds; `None` if it holds none.
    ///
    /// # Errors
    ///
    /// The keeper has ended or does not answer, or the process is not a keeper.
    pub fn get(&mut self) -> io::Result<Option<OwnedFd>> {
        match self.ask(b'g', None)? {
            (b'm', Some(descriptor)) => Ok(Some(descriptor)),
            (b'n', None) => Ok(None),
            _ => Err(no_keeper()),
        }
    }

    /// Returns the byte `confined` that the keeper's process passed to [`keep`].
    ///
    /// # Errors
    ///
    /// As [`get`](Keeper::get). A keeper of an earlier version closes the connection.
    pub fn confined(&mut self) -> io::Result<u8> {
        match self.ask(b'c', None)? {
            (confined, None) => Ok(confined),
            _ => Err(no_keeper()),
        }
    }

    /// Returns the process id and the user id of the keeper.
    ///
    /// # Errors
    ///
    /// As [`get`](Keeper::get).
    pub fn process(&self) -> io::Result<(u32, u32)> {
        peer(&self.stream)
    }

    /// Gives the keeper memory to hold, in place of any earlier memory.
    ///
    /// # Errors
    ///
    /// As [`get`](Keeper::get).
    pub fn put(&mut self, memory: BorrowedFd<'_>) -> io::Result<()> {
        self.tell(b'p', Some(memory))
    }

    /// Makes the keeper drop the memory.
    ///
    /// # Errors
    ///
    /// As [`get`](Keeper::get).
    pub fn drop_memory(&mut self) -> io::Result<()> {
        self.tell(b'd', None)
    }

    /// Makes the keeper drop the memory and end. Waits until it has ended.
    ///
    /// # Errors
    ///
    /// As [`get`](Keeper::get).
    pub fn quit(mut self) -> io::Result<()> {
        self.tell(b'q', None)?;
        if self.has_ended(PATIENCE) { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Waits until the keeper ends, or for `time`. Returns whether it has ended.
    #[must_use]
    pub fn has_ended(&self, time: Duration) -> bool {
        // The keeper sends nothing unasked, so only its end makes the socket readable.
        !matches!(wait_for_any(&[self.stream.as_fd()], time).as_deref(), Ok([false]))
    }

    fn tell(&mut self, request: u8, memory: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match self.ask(request, memory)? {
            (b'k', None) => Ok(()),
            _ => Err(no_keeper()),
        }
    }

    fn ask(
        &mut self,
        request: u8,
        memory: Option<BorrowedFd<'_>>,
    ) -> io::Result<(u8, Option<OwnedFd>)> {
        send_descriptor(&self.stream, request, memory)?;
        let answer = receive_descriptor(&self.stream)?;
        answer.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the keeper has ended"))
    }
}

fn no_keeper() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no keeper of a virtual disk answers there")
}
