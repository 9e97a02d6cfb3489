//! Messages of one byte between processes, with or without a descriptor, and the peer's identity.

use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

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
