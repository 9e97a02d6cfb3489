//! One connection as a state machine: bytes of the client in, replies and jobs out.

use super::handshake::{Handshake, Heard};
use super::protocol::{EXPORTS_MAX, Export, Step};
use super::transmission::Transmission;
use super::wire::Code;
use std::sync::Arc;

/// The server's side of the protocol, without I/O.
///
/// # Examples
///
/// A client that asks for the only export there is, and reads a byte of it.
///
/// ```
/// use seawall_disk::nbd::{Export, Job, Session, Step};
///
/// let mut replies = Vec::new();
/// let mut session = Session::new(Export::new("log", 4096)?, &mut replies);
/// assert!(replies.starts_with(b"NBDMAGICIHAVEOPT"));
///
/// assert_eq!(session.step(b"", &mut replies), Step::Need(4));
/// assert_eq!(session.step(&[0, 0, 0, 3], &mut replies), Step::Used(4));
/// let by_name = b"IHAVEOPT\0\0\0\x01\0\0\0\x03log";
/// assert_eq!(session.step(by_name, &mut replies), Step::Used(19));
///
/// let mut read = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
/// read.extend_from_slice(b"a handle");
/// read.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1]);
/// replies.clear();
/// assert_eq!(session.step(&read, &mut replies), Step::Used(28));
/// let job = Job::Read { offset: 7, size: 1 };
/// assert_eq!(session.step(b"", &mut replies), Step::Do(job));
/// session.finished(Ok(()), &mut replies);
/// assert_eq!(replies, b"\x67\x44\x66\x98\0\0\0\0a handle"); // and then the byte
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    exports: Arc<[Export]>,
    /// The index of the export that the client has chosen.
    chosen: usize,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
    Ended,
}

impl Session {
    /// Starts a session and writes the server's greeting to `replies`. A client that sends no name
    /// gets the first export.
    ///
    /// # Panics
    ///
    /// If there is no export, or more than [`EXPORTS_MAX`].
    #[must_use]
    pub fn new(exports: impl Into<Arc<[Export]>>, replies: &mut Vec<u8>) -> Self {
        let exports = exports.into();
        assert!((1..=EXPORTS_MAX).contains(&exports.len()), "one to {EXPORTS_MAX} exports");
        Self { exports, chosen: 0, phase: Phase::Handshake(Handshake::new(replies)) }
    }

    /// The index of the export that the client has chosen; 0 before that.
    #[must_use]
    pub fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns whether the client has not chosen an export yet.
    #[must_use]
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Returns whether no request is in progress.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.is_idle(),
            Phase::Handshake(_) | Phase::Ended => true,
        }
    }

    /// Takes the next step with the input that was received and not consumed.
    ///
    /// # Panics
    ///
    /// If the last step returned a job that has not [finished](Session::finished).
    pub fn step(&mut self, input: &[u8], replies: &mut Vec<u8>) -> Step {
        let step = match &mut self.phase {
            Phase::Handshake(handshake) => match handshake.hear(input, &self.exports, replies) {
                Heard::Step(step) => step,
                Heard::Chosen { which, used, is_structured } => {
                    self.chosen = which;
                    let size = self.exports.get(which).map_or(0, Export::size);
                    let transmission = Transmission::new(size, is_structured);
                    self.phase = Phase::Transmission(transmission);
                    Step::Used(used)
                }
            },
            Phase::Transmission(transmission) => transmission.step(input, replies),
            Phase::Ended => Step::End,
        };
        if step == Step::End {
            self.phase = Phase::Ended;
        }
        step
    }

    /// Reports the result of the job that the last step returned.
    ///
    /// # Panics
    ///
    /// If the last step returned no job.
    pub fn finished(&mut self, outcome: Result<(), Code>, replies: &mut Vec<u8>) {
        let Phase::Transmission(transmission) = &mut self.phase else {
            panic!("only requests have jobs");
        };
        transmission.finished(outcome, replies);
    }
}
