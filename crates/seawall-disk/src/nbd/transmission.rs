//! The phase after the handshake: one request after another, split into jobs that fit in memory.

use super::protocol::{Job, NEED_MAX, REQUEST_MAX, Step};
use super::wire::{self, Code, Fields, chunk, command, flag, put_u16, put_u32, put_u64};
use crate::layout::BLOCK_SIZE;

/// The size of a request without its payload, in bytes.
const HEAD: usize = 28;

const _: () = assert!(NEED_MAX.is_multiple_of(BLOCK_SIZE), "pieces end at blocks");
const _: () = assert!(NEED_MAX >= 64 * 1024, "reads of 64 KiB are never cut");

/// The state of a connection after the handshake.
#[derive(Debug)]
pub(crate) struct Transmission {
    size: u64,
    is_structured: bool,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    /// The request continues when there is input.
    Open(Task),
    /// The request continues when the job is done.
    Busy(Task, Job),
    /// The payload of a failed write has not arrived completely.
    Refused(Failed, u32),
    Ended,
}

/// A valid request and the part of it that is left.
#[derive(Clone, Copy, Debug)]
struct Task {
    kind: Kind,
    handle: u64,
    offset: u64,
    left: u32,
    /// Whether a flush must come before the reply.
    is_fua: bool,
    /// Whether a part of the reply was written.
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
    Trim,
    Zero,
}

/// A request that failed.
#[derive(Clone, Copy, Debug)]
struct Failed {
    is_read: bool,
    handle: u64,
    code: Code,
}

/// A request as received.
#[derive(Clone, Copy, Debug)]
struct Request {
    flags: u16,
    command: u16,
    handle: u64,
    offset: u64,
    length: u32,
}

impl Transmission {
    pub(crate) fn new(size: u64, is_structured: bool) -> Self {
        Self { size, is_structured, state: State::Idle }
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Ended)
    }

    pub(crate) fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
        match self.state {
            State::Idle => self.begin(input, out),
            State::Open(task) => self.go_on(task, input.len(), out),
            State::Busy(..) => panic!("the job before has not finished"),
            State::Refused(failed, left) => {
                let here = u32::try_from(input.len()).unwrap_or(u32::MAX).min(left);
                if here == 0 {
                    return Step::Need(1);
                }
                self.refuse(failed, left - here, out);
                Step::Used(usize::try_from(here).unwrap_or(input.len()))
            }
            State::Ended => Step::End,
        }
    }

    pub(crate) fn finished(&mut self, outcome: Result<(), Code>, out: &mut Vec<u8>) {
        let State::Busy(mut task, job) = self.state else { panic!("there is no job") };
        let size = match job {
            Job::Write { size, .. } | Job::Read { size, .. } | Job::Zero { size, .. } => size,
            Job::Flush => 0,
        };
        let size = u32::try_from(size).expect("a job is no longer than its request");
        if let (Err(_), Kind::Read, true, false) =
            (outcome, task.kind, task.has_begun, self.is_structured)
        {
            // Success was already reported and then an error occurred: the only way to report it is
            // to disconnect.
            self.state = State::Ended;
            return;
        }
        if let Err(code) = outcome {
            let is_write = matches!(job, Job::Write { .. });
            let left = if is_write { task.left - size } else { 0 };
            let is_read = task.kind == Kind::Read;
            self.refuse(Failed { is_read, handle: task.handle, code }, left, out);
            return;
        }
        if let Job::Read { offset, .. } = job {
            self.begin_data(&task, (offset, size), out);
            task.has_begun = true;
        }
        task.offset = task.offset.saturating_add(u64::from(size));
        task.left -= size;
        task.is_fua &= job != Job::Flush;
        self.state = State::Open(task);
        if task.kind == Kind::Read && task.left == 0 {
            // The last piece of data was the end of the reply.
            self.state = State::Idle;
        }
    }

    fn begin(&mut self, input: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(head) = input.get(..HEAD) else { return Step::Need(HEAD) };
        let Some(request) = parse(head) else { return Step::End };
        let kind = match request.command {
            command::READ => Ok(Kind::Read),
            command::WRITE => Ok(Kind::Write),
            command::FLUSH => Ok(Kind::Flush),
            command::TRIM => Ok(Kind::Trim),
            command::WRITE_ZEROES => Ok(Kind::Zero),
            command::DISC => return Step::End,
            _ => Err(Code::Invalid),
        };
        match kind.and_then(|kind| self.check(kind, &request).map(|()| kind)) {
            Ok(kind) => {
                let Request { handle, offset, length: left, .. } = request;
                let asks = kind != Kind::Read && request.flags & flag::FUA != 0;
                let is_fua = asks || kind == Kind::Flush;
                let left = if kind == Kind::Trim { 0 } else { left };
                let has_begun = false;
                self.state = State::Open(Task { kind, handle, offset, left, is_fua, has_begun });
            }
            Err(code) if request.command == command::WRITE && request.length > REQUEST_MAX => {
                // Reading gigabytes only to drop them would take the connection's thread too long.
                simple(out, request.handle, Err(code));
                self.state = State::Ended;
            }
            Err(code) => {
                // Only writes have a payload.
                let left = if request.command == command::WRITE { request.length } else { 0 };
                let is_read = request.command == command::READ;
                self.refuse(Failed { is_read, handle: request.handle, code }, left, out);
            }
        }
        Step::Used(HEAD)
    }

    /// Returns whether a request may be executed.
    fn check(&self, kind: Kind, request: &Request) -> Result<(), Code> {
        let Request { flags, offset, length, .. } = *request;
        let known = match kind {
            Kind::Read if self.is_structured => flag::FUA | flag::DF,
            Kind::Read | Kind::Write | Kind::Flush | Kind::Trim => flag::FUA,
            Kind::Zero => flag::FUA | flag::NO_HOLE,
        };
        if flags & !known != 0 || (kind == Kind::Flush && (offset, length) != (0, 0)) {
            return Err(Code::Invalid);
        }
        if matches!(kind, Kind::Read | Kind::Write) && length > REQUEST_MAX {
            return Err(Code::Invalid);
        }
        if offset.checked_add(u64::from(length)).is_none_or(|end| end > self.size) {
            let grows = matches!(kind, Kind::Write | Kind::Zero);
            return Err(if grows { Code::NoSpace } else { Code::Invalid });
        }
        if flags & flag::DF != 0 && u64::from(length) > u64::from(piece_at(offset)) {
            return Err(Code::TooLong);
        }
        Ok(())
    }

    /// Returns the next job of a request, or writes the reply.
    fn go_on(&mut self, task: Task, available: usize, out: &mut Vec<u8>) -> Step {
        let Task { kind, offset, .. } = task;
        let size = task.left.min(piece_at(offset));
        let size = usize::try_from(size).expect("a piece fits in memory");
        let job = match kind {
            Kind::Write if available < size => return Step::Need(size),
            Kind::Write if size > 0 => Job::Write { offset, size },
            Kind::Read if size > 0 => Job::Read { offset, size },
            Kind::Zero if size > 0 => Job::Zero { offset, size },
            _ if task.is_fua => Job::Flush,
            _ => {
                self.state = State::Idle;
                if kind == Kind::Read && self.is_structured {
                    // A read of no bytes has no data that could end the reply.
                    structured(out, (chunk::DONE, chunk::NONE), task.handle, 0);
                } else {
                    simple(out, task.handle, Ok(()));
                }
                return Step::Used(0);
            }
        };
        self.state = State::Busy(task, job);
        Step::Do(job)
    }

    /// Writes the header of a piece of data that was read, if it has one.
    fn begin_data(&self, task: &Task, (offset, size): (u64, u32), out: &mut Vec<u8>) {
        if self.is_structured {
            let flags = if task.left == size { chunk::DONE } else { 0 };
            structured(out, (flags, chunk::OFFSET_DATA), task.handle, 8 + size);
            put_u64(out, offset);
        } else if !task.has_begun {
            simple(out, task.handle, Ok(()));
        }
    }

    /// Reports a failed request once the rest of its payload has arrived.
    fn refuse(&mut self, failed: Failed, left: u32, out: &mut Vec<u8>) {
        if left > 0 {
            self.state = State::Refused(failed, left);
            return;
        }
        self.state = State::Idle;
        let Failed { is_read, handle, code } = failed;
        if is_read && self.is_structured {
            structured(out, (chunk::DONE, chunk::ERROR), handle, 6);
            put_u32(out, code.number());
            put_u16(out, 0);
        } else {
            simple(out, handle, Err(code));
        }
    }
}

/// Decodes a request; `None` if the bytes are not one.
fn parse(head: &[u8]) -> Option<Request> {
    let mut fields = Fields(head);
    let magic = fields.u32()?;
    let (flags, command) = (fields.u16()?, fields.u16()?);
    let (handle, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
    (magic == wire::REQUEST).then_some(Request { flags, command, handle, offset, length })
}

/// The most bytes of one job, so that it ends at a block boundary.
fn piece_at(offset: u64) -> u32 {
    const BLOCK: u64 = 4096;
    const _: () = assert!(BLOCK_SIZE == 4096, "BLOCK says the same");
    let past = u32::try_from(offset % BLOCK).expect("a block is small");
    u32::try_from(NEED_MAX).expect("a piece is small") - past
}

fn simple(out: &mut Vec<u8>, handle: u64, outcome: Result<(), Code>) {
    put_u32(out, wire::SIMPLE_REPLY);
    put_u32(out, outcome.map_or_else(Code::number, |()| 0));
    put_u64(out, handle);
}

fn structured(out: &mut Vec<u8>, (flags, kind): (u16, u16), handle: u64, length: u32) {
    put_u32(out, wire::CHUNK);
    put_u16(out, flags);
    put_u16(out, kind);
    put_u64(out, handle);
    put_u32(out, length);
}
