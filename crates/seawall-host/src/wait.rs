//! Waiting for input, a signal, or a closed output.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The event that ended a wait. If several happened, the last of them in this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The input has bytes, has ended, or has an error.
    Input,
    /// The reader of the output closed it.
    OutputClosed,
    /// The descriptor for signals has bytes.
    Signal,
}

/// Waits until `input` or `signal` can be read, or the reader of `output` closes it.
///
/// Only pipes and sockets report a closed reader; an `output` that is a file or a terminal never
/// does.
///
/// # Errors
///
/// The system's error.
///
/// # Examples
///
/// ```
/// use seawall_host::{Woken, wait_for_input};
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixStream;
///
/// let (input, _other) = UnixStream::pair()?;
/// let (signal, _notify) = UnixStream::pair()?;
/// let (reader, output) = std::io::pipe()?;
/// drop(reader);
/// let woken = wait_for_input(input.as_fd(), signal.as_fd(), Some(output.as_fd()))?;
/// assert_eq!(woken, Woken::OutputClosed);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_for_input(
    input: BorrowedFd<'_>,
    signal: BorrowedFd<'_>,
    output: Option<BorrowedFd<'_>>,
) -> io::Result<Woken> {
    // Errors of the output are reported even though no event is requested.
    let output = output.map(|output| PollFd::from_borrowed_fd(output, PollFlags::empty()));
    let inputs = [input, signal].map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN));
    let mut all: Vec<_> = inputs.into_iter().chain(output).collect();
    loop {
        retry_on_intr(|| poll(&mut all, None))?;
        let happened = |place: usize, flags: PollFlags| {
            all.get(place).is_some_and(|one| one.revents().intersects(flags))
        };
        if happened(1, PollFlags::all()) {
            return Ok(Woken::Signal);
        }
        if happened(2, PollFlags::ERR | PollFlags::HUP) {
            return Ok(Woken::OutputClosed);
        }
        if happened(0, PollFlags::all()) {
            return Ok(Woken::Input);
        }
    }
}

/// The size of a write that does not block once [`wait_for_output`] has returned `true`.
pub const PIECE_MAX: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Waits until `output` takes [`PIECE_MAX`] bytes, has lost its reader, or has an error. Returns
/// `false` if `signal` can be read and the output is not ready within `patience` after that.
///
/// # Errors
///
/// The system's error.
pub fn wait_for_output(
    output: BorrowedFd<'_>,
    signal: BorrowedFd<'_>,
    patience: Duration,
) -> io::Result<bool> {
    let mut both = [
        PollFd::from_borrowed_fd(output, PollFlags::OUT),
        PollFd::from_borrowed_fd(signal, PollFlags::IN),
    ];
    retry_on_intr(|| poll(&mut both, None))?;
    let [mut output, _] = both;
    if output.revents().is_empty() {
        let patience = patience.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        retry_on_intr(|| poll(std::slice::from_mut(&mut output), Some(&patience)))?;
    }
    Ok(!output.revents().is_empty())
}

/// Returns whether the reader of `output` has closed it. Only pipes and sockets report that.
///
/// # Errors
///
/// The system's error.
///
/// # Examples
///
/// ```
/// use seawall_host::has_lost_reader;
/// use std::os::fd::AsFd;
///
/// let (reader, output) = std::io::pipe()?;
/// assert!(!has_lost_reader(output.as_fd())?);
/// drop(reader);
/// assert!(has_lost_reader(output.as_fd())?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn has_lost_reader(output: BorrowedFd<'_>) -> io::Result<bool> {
    // Errors are reported even though no event is requested.
    let mut output = PollFd::from_borrowed_fd(output, PollFlags::empty());
    let now = Duration::ZERO.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    retry_on_intr(|| poll(std::slice::from_mut(&mut output), Some(&now)))?;
    Ok(output.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// Waits until any of `inputs` can be read, has ended, or has an error. Returns for each input
/// whether that is so; `false` for all if `time` passed first.
///
/// # Errors
///
/// The system's error.
pub fn wait_for_any(inputs: &[BorrowedFd<'_>], time: Duration) -> io::Result<Vec<bool>> {
    let inputs = inputs.iter().map(|input| PollFd::from_borrowed_fd(*input, PollFlags::IN));
    let mut polled: Vec<_> = inputs.collect();
    let time = time.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}
