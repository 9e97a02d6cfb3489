//! SIGINT, SIGTERM and SIGHUP while `append` waits for input.

use seawall_host::{Woken, wait_for_any, wait_for_input, wait_for_output};
use seawall_measure::scratch::ending_signals;
use signal_hook::{flag, low_level::pipe};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How long after a signal the reader of standard output may make no progress.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long after the end of the input a signal can arrive that ended the input.
const AFTER_END: Duration = Duration::from_millis(100);

/// Why waiting for input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There is input, or its end.
    Input,
    /// A signal arrived.
    Signal(i32),
    /// The reader of standard output closed the pipe.
    OutputClosed,
}

/// Waits for standard input or a signal. The first signal is recorded; a second one ends the
/// process immediately.
pub(crate) struct Waiter {
    woken: UnixStream,
    signal: Arc<AtomicUsize>,
    /// Whether to watch the reader of standard output.
    with_output: bool,
}

impl Waiter {
    pub(crate) fn new(with_output: bool) -> io::Result<Self> {
        let (woken, notify) = UnixStream::pair()?;
        let signal = Arc::new(AtomicUsize::new(0));
        let is_second = Arc::new(AtomicBool::new(false));
        for number in ending_signals() {
            // The order matters: the first signal finds the flag unset, and sets it.
            flag::register_conditional_default(number, is_second.clone())?;
            flag::register(number, is_second.clone())?;
            let value = usize::try_from(number).map_err(io::Error::other)?;
            flag::register_usize(number, signal.clone(), value)?;
            pipe::register(number, notify.try_clone()?)?;
        }
        Ok(Self { woken, signal, with_output })
    }

    /// Waits for input, a signal, or a closed output.
    pub(crate) fn wait(&self) -> io::Result<Wake> {
        let (input, output) = (io::stdin(), io::stdout());
        let output = self.with_output.then(|| output.as_fd());
        Ok(match wait_for_input(input.as_fd(), self.woken.as_fd(), output)? {
            Woken::Input => Wake::Input,
            Woken::OutputClosed => Wake::OutputClosed,
            Woken::Signal => Wake::Signal(self.signal()?),
        })
    }

    /// Waits until a piece of output can be written. Returns the signal that arrived if the output
    /// still has no reader then.
    pub(crate) fn wait_for_output(&self) -> io::Result<Option<i32>> {
        let output = io::stdout();
        let is_ready = wait_for_output(output.as_fd(), self.woken.as_fd(), PATIENCE)?;
        if is_ready { Ok(None) } else { self.signal().map(Some) }
    }

    /// Returns the signal that arrived before the end of the input, or shortly after it. Ctrl-C
    /// also ends the program that writes the input, which can be seen here before the signal.
    pub(crate) fn signal_at_end(&self) -> io::Result<Option<i32>> {
        // A wait that a signal interrupts ends early, too: the number tells.
        wait_for_any(&[self.woken.as_fd()], AFTER_END)?;
        Ok(Some(self.signal()?).filter(|number| *number != 0))
    }

    fn signal(&self) -> io::Result<i32> {
        i32::try_from(self.signal.load(Ordering::SeqCst)).map_err(io::Error::other)
    }
}
