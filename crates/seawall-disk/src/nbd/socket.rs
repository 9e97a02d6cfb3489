//! The sockets of a server: a Unix socket, or TCP on the loopback address only.

use super::locked_path::LockedPath;
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// At this path. Every process that may enter its directory and write the socket may write the
    /// disk. A file next to the socket, with `.lock` added to its name, shows whether the server is
    /// running.
    Unix(PathBuf),
    /// At this TCP port of 127.0.0.1; 0 chooses a free port. Every user of this machine may write
    /// the disk then.
    Loopback(u16),
}

/// The address at which a server listens. It is displayed as a URI for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// An address of this machine.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
            Self::Tcp(address) => write!(f, "nbd://{address}"),
        }
    }
}

impl Address {
    /// Connects and disconnects, so that a waiting accept returns.
    pub(super) fn knock(&self) {
        // The listener may be gone already.
        let _ = match self {
            Self::Unix(path) => UnixStream::connect(path).map(drop),
            Self::Tcp(address) => TcpStream::connect(address).map(drop),
        };
    }
}

/// A socket that waits for connections.
#[derive(Debug)]
pub(super) enum Listener {
    Unix { listener: UnixListener, place: LockedPath },
    Tcp(TcpListener),
}

/// One connection.
#[derive(Debug)]
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Listener {
    pub(super) fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Unix(path) => {
                let place = take(path)?;
                Ok(Self::Unix { listener: UnixListener::bind(path)?, place })
            }
            Listen::Loopback(port) => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map(Self::Tcp)
            }
        }
    }

    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix { place, .. } => Ok(Address::Unix(place.path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix { listener, .. } => Ok(Stream::Unix(listener.accept()?.0)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // A reply must not wait for the next one.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// A handle whose [`Stream::shutdown`] ends a waiting [`accept`](Listener::accept) and all
    /// later ones; Linux supports this for listening sockets.
    pub(super) fn handle(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Unix { listener, .. } => {
                Stream::Unix(OwnedFd::from(listener.try_clone()?).into())
            }
            Self::Tcp(listener) => Stream::Tcp(OwnedFd::from(listener.try_clone()?).into()),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { place, .. } = self {
            // If this fails, the next server removes the socket, as after a kill.
            let _ = place.remove();
        }
    }
}

/// Frees a path for a socket, unless a running server or another file is there.
pub(crate) fn take(path: &Path) -> io::Result<LockedPath> {
    let in_use = || {
        let why = format!("another server already listens at {}", path.display());
        io::Error::new(io::ErrorKind::AddrInUse, why)
    };
    let place = LockedPath::take(path, ".lock")?.ok_or_else(in_use)?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(metadata) if metadata.file_type().is_socket() => {
            // A server that does not use the lock may be listening.
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Ok(_) | Err(_) => return Err(in_use()),
            }
            place.remove()?;
        }
        Ok(_) => {
            let why = format!("{} exists and is not a socket; give another path", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
    }
    Ok(place)
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) {
        // This fails if the connection has ended already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    pub(super) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(timeout),
            Self::Tcp(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Receives the available bytes and returns their number; 0 at the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let received = match self {
                Self::Unix(stream) => stream.read(buffer),
                Self::Tcp(stream) => stream.read(buffer),
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Sends `head` and then `data`, with one call if possible.
    pub(super) fn send(&mut self, head: &[u8], data: &[u8]) -> io::Result<()> {
        let both = [IoSlice::new(head), IoSlice::new(data)];
        let stream: &mut dyn Write = match self {
            Self::Unix(stream) => stream,
            Self::Tcp(stream) => stream,
        };
        let sent = match stream.write_vectored(&both) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        stream.write_all(head.get(sent..).unwrap_or_default())?;
        let sent = sent.saturating_sub(head.len());
        stream.write_all(data.get(sent..).unwrap_or_default())
    }
}
