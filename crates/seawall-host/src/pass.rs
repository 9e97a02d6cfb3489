//! Messages of one byte between processes, with or without a descriptor, and the peer's identity.

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Connects to a unix socket. Where the system permits it, waits no longer than `time` for a
/// program that listens but does not accept.
///
/// # Errors
///
/// [`io::ErrorKind::TimedOut`] after that time; [`io::ErrorKind::InvalidInput`] for a path that is
/// too long for a socket; otherwise the system's error.
pub fn connect_within(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a socket")
    })?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A connection waits as long as a write may.
    set_socket_timeout(&socket, Timeout::Send, Some(time))?;
    match retry_on_intr(|| connect(&socket, &address)) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::INPROGRESS) => return Err(io::ErrorKind::TimedOut.into()),
        Err(error) => return Err(error.into()),
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Sends one byte. The receiver gets its own copy of `descriptor`.
///
/// # Errors
///
/// The system's error, such as [`io::ErrorKind::BrokenPipe`] if the other end is closed.
///
/// # Examples
///
/// ```
/// use seawall_host::{receive_descriptor, send_descriptor};
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixStream;
///
/// let (sender, receiver) = UnixStream::pair()?;
/// send_descriptor(&sender, b'1', Some(sender.as_fd()))?;
/// let (byte, descriptor) = receive_descriptor(&receiver)?.expect("the other end is open");
/// assert_eq!((byte, descriptor.is_some()), (b'1', true));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn send_descriptor(
    stream: &UnixStream,
    byte: u8,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let descriptors: Vec<_> = descriptor.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let bytes = [byte];
    let flags = SendFlags::NOSIGNAL;
    retry_on_intr(|| sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, flags))?;
    Ok(())
}

/// Waits for one byte, and returns the descriptor that came with it; `None` at the end.
///
/// # Errors
///
/// The system's error.
pub fn receive_descriptor(stream: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut bytes = [0];
    // Further descriptors would be closed by the system.
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        recvmsg(stream.as_fd(), &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last().or(descriptor);
        }
    }
    Ok((received.bytes > 0).then_some((bytes[0], descriptor)))
}

/// Returns the process id and the user id of the peer, as of when it connected or listened.
///
/// # Errors
///
/// [`io::ErrorKind::Unsupported`] where the system does not report them; otherwise its error.
#[cfg(target_os = "linux")]
pub fn peer(stream: &UnixStream) -> io::Result<(u32, u32)> {
    let found = rustix::net::sockopt::socket_peercred(stream)?;
    let process = u32::try_from(found.pid.as_raw_nonzero().get()).map_err(io::Error::other)?;
    Ok((process, found.uid.as_raw()))
}

/// This system does not report the peer.
#[cfg(not(target_os = "linux"))]
pub fn peer(_: &UnixStream) -> io::Result<(u32, u32)> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    /// Longer than a connection is allowed to take.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    #[cfg(target_os = "linux")]
    fn connection_to_a_program_that_does_not_accept_has_a_time_limit() {
        let path = std::env::temp_dir().join(format!("seawall-full-{}", std::process::id()));
        let address = SocketAddrUnix::new(&path).unwrap();
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let listener = listener.unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let (sender, tried) = channel();
        let its = path.clone();
        // One connection waits to be accepted, and there is no room for another.
        thread::spawn(move || {
            let connect = || connect_within(&its, Duration::from_millis(1));
            sender.send([connect(), connect()]).unwrap();
        });
        let tried = tried.recv_timeout(PATIENCE).expect("it waits for ever");
        let [first, second] = tried;
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(first.unwrap().write_timeout().unwrap(), None);
        rustix::fs::unlink(&path).unwrap();
        let long = "x".repeat(200);
        let errors = [path.as_path(), Path::new(&long)]
            .map(|path| connect_within(path, PATIENCE).unwrap_err().kind());
        assert_eq!(errors, [io::ErrorKind::NotFound, io::ErrorKind::InvalidInput]);
    }
}
