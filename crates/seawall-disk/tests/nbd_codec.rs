//! The NBD protocol without sockets: correct sessions are compared with an array of bytes, and
//! thousands of malformed ones must do no harm beyond their own connection.
//!
//! `SEAWALL_NBD_CASES=1000000 cargo test --release -p seawall-disk --test all nbd_codec` tries that
//! many.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::big_endian_bytes,
    clippy::print_stderr,
    reason = "a test reports failure by panicking, and NBD is big-endian"
)]

use seawall_disk::nbd::{Code, Export, Job, NEED_MAX, REPLY_MAX, Session, Step};
use seawall_testkit::Dice;

const SIZE: u64 = 3 << 20;

/// Drives a session as the server does, with input that arrives in pieces of random size.
struct Driver {
    session: Session,
    /// Everything the client sends.
    stream: Vec<u8>,
    /// Bytes of it that have arrived, and bytes that were consumed.
    come: usize,
    used: usize,
    /// Everything the server sent.
    said: Vec<u8>,
    /// The most bytes that the session requested at once.
    asked: usize,
    /// The most bytes that one step sent.
    answered: usize,
    steps: usize,
}

impl Driver {
    fn new(stream: Vec<u8>) -> Self {
        let mut said = Vec::new();
        let session = Session::new(Export::new("log", SIZE).unwrap(), &mut said);
        Self { session, stream, come: 0, used: 0, said, asked: 0, answered: 0, steps: 0 }
    }

    /// Runs until the stream or the connection ends. Checks that each step makes progress and
    /// requests no more than it may, whatever the client sends.
    fn run(&mut self, dice: &mut Dice, mut work: impl FnMut(Work<'_>) -> Result<(), Code>) {
        loop {
            self.steps += 1;
            let before = self.said.len();
            let input = &self.stream[self.used..self.come];
            let step = self.session.step(input, &mut self.said);
            match step {
                Step::Need(size) => {
                    assert!(size > input.len(), "it asks for what it has");
                    assert!(size <= NEED_MAX, "it asks for {size}");
                    self.asked = self.asked.max(size);
                    if self.used + size > self.stream.len() {
                        return;
                    }
                    let more = usize::try_from(dice.below(200)).unwrap();
                    self.come = (self.used + size + more).min(self.stream.len());
                }
                Step::Used(size) => {
                    assert!(size <= input.len(), "it uses what it has not");
                    self.used += size;
                }
                Step::Do(job) => {
                    let (offset, size) = match job {
                        Job::Write { offset, size }
                        | Job::Read { offset, size }
                        | Job::Zero { offset, size } => (offset, size),
                        Job::Flush => (0, 1),
                    };
                    assert!(size > 0 && size <= NEED_MAX, "{job:?}");
                    assert!(offset + u64::try_from(size).unwrap() <= SIZE, "{job:?}");
                    let mut payload = &input[..0];
                    if let Job::Write { size, .. } = job {
                        payload = &input[..size];
                        self.used += size;
                    }
                    let mut data = Vec::new();
                    let outcome = work(Work { job, payload, data: &mut data });
                    self.session.finished(outcome, &mut self.said);
                    self.answered = self.answered.max(self.said.len() - before);
                    self.said.extend_from_slice(&data);
                    continue;
                }
                Step::End => {
                    assert_eq!(self.session.step(b"", &mut self.said), Step::End);
                    return;
                }
            }
            self.answered = self.answered.max(self.said.len() - before);
        }
    }
}

/// A job, its payload, and the data to send after its reply.
struct Work<'a> {
    job: Job,
    payload: &'a [u8],
    data: &'a mut Vec<u8>,
}

fn request((flags, command): (u16, u16), handle: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut head = vec![0x25, 0x60, 0x95, 0x13];
    head.extend_from_slice(&flags.to_be_bytes());
    head.extend_from_slice(&command.to_be_bytes());
    head.extend_from_slice(&handle.to_be_bytes());
    head.extend_from_slice(&offset.to_be_bytes());
    head.extend_from_slice(&length.to_be_bytes());
    head
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [&b"IHAVEOPT"[..], &option.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

fn handshake(dice: &mut Dice) -> (Vec<u8>, bool) {
    let mut stream = vec![0, 0, 0, 3];
    let is_structured = dice.one_in(2);
    for _ in 0..dice.below(3) {
        let asked = match dice.below(4) {
            0 => option(3, b""),
            1 => option(6, b"\0\0\0\x03log\0\x02\0\x01\0\x03"),
            2 => option(10, &vec![0; usize::try_from(dice.below(300)).unwrap()]),
            _ => option(7, b"\0\0\0\x04none\0\0"),
        };
        stream.extend_from_slice(&asked);
    }
    if is_structured {
        stream.extend_from_slice(&option(8, b""));
    }
    let chosen = if dice.one_in(2) { option(7, b"\0\0\0\0\0\0") } else { option(1, b"log") };
    stream.extend_from_slice(&chosen);
    (stream, is_structured)
}

/// A random range of the disk, often at an edge and sometimes beyond the end.
fn place(dice: &mut Dice) -> (u64, u32) {
    let length = match dice.below(10) {
        0 => 0,
        1 => 4096,
        2 => 1 + dice.below(2 << 20),
        _ => 1 + dice.below(64),
    };
    let offset = match dice.below(4) {
        0 => dice.below(64),
        1 => (SIZE + 10).saturating_sub(dice.below(length + 20)),
        2 => 4096 * dice.below(SIZE / 4096),
        _ => dice.below(SIZE),
    };
    (offset, length.try_into().unwrap())
}

/// The reply that a request must get, according to an array of bytes.
enum Expected {
    Error(u64, u32),
    Done(u64),
    Read(u64, u64, Vec<u8>),
}

/// Random valid requests, some beyond the end, and their expected replies.
fn requests(dice: &mut Dice, disk: &mut [u8], stream: &mut Vec<u8>) -> Vec<Expected> {
    let mut expected = Vec::new();
    for handle in 0..=dice.below(12) {
        let (offset, length) = place(dice);
        let range =
            usize::try_from(offset).unwrap()..usize::try_from(offset + u64::from(length)).unwrap();
        let fits = range.end <= disk.len();
        let fua = u16::from(dice.one_in(3));
        match dice.below(5) {
            0 => {
                stream.extend_from_slice(&request((0, 0), handle, offset, length));
                expected.push(match disk.get(range) {
                    Some(bytes) => Expected::Read(handle, offset, bytes.to_vec()),
                    None => Expected::Error(handle, 22),
                });
            }
            1 => {
                let payload: Vec<u8> = (0..length).map(|at| (at % 250) as u8 + 1).collect();
                stream.extend_from_slice(&request((fua, 1), handle, offset, length));
                stream.extend_from_slice(&payload);
                expected.push(if fits {
                    Expected::Done(handle)
                } else {
                    Expected::Error(handle, 28)
                });
                if fits {
                    disk[range].copy_from_slice(&payload);
                }
            }
            2 => {
                stream.extend_from_slice(&request((fua, 6), handle, offset, length));
                expected.push(if fits {
                    Expected::Done(handle)
                } else {
                    Expected::Error(handle, 28)
                });
                if fits {
                    disk[range].fill(0);
                }
            }
            3 => {
                stream.extend_from_slice(&request((0, 9), handle, offset, length));
                expected.push(Expected::Error(handle, 22));
            }
            _ => {
                stream.extend_from_slice(&request((0, 3), handle, 0, 0));
                expected.push(Expected::Done(handle));
            }
        }
    }
    expected
}

/// Applies a job to an array of bytes.
fn apply(disk: &mut [u8], work: Work<'_>) {
    let Work { job, payload, data } = work;
    let range =
        |offset, size| usize::try_from(offset).unwrap()..usize::try_from(offset).unwrap() + size;
    match job {
        Job::Write { offset, size } => disk[range(offset, size)].copy_from_slice(payload),
        Job::Read { offset, size } => data.extend_from_slice(&disk[range(offset, size)]),
        Job::Zero { offset, size } => disk[range(offset, size)].fill(0),
        Job::Flush => {}
    }
}

/// Compares the next reply and returns the bytes after it.
fn compare<'a>(said: &'a [u8], expected: &Expected, is_structured: bool) -> &'a [u8] {
    let simple = |handle: u64, error: u32| {
        [&[0x67, 0x44, 0x66, 0x98][..], &error.to_be_bytes(), &handle.to_be_bytes()].concat()
    };
    let strip = |should: Vec<u8>| said.strip_prefix(&should[..]).expect("another reply");
    match expected {
        Expected::Done(handle) => strip(simple(*handle, 0)),
        Expected::Read(handle, _, bytes) if !is_structured => {
            strip([simple(*handle, 0), bytes.clone()].concat())
        }
        Expected::Read(handle, offset, bytes) => {
            let mut said = said;
            let mut read = Vec::new();
            loop {
                let (head, rest) = said.split_at(20);
                let length = u32::from_be_bytes(head[16..].try_into().unwrap());
                let (data, rest) = rest.split_at(length.try_into().unwrap());
                assert_eq!(
                    (&head[..4], &head[8..16]),
                    (&[0x66, 0x8e, 0x33, 0xef][..], &handle.to_be_bytes()[..])
                );
                if length > 0 {
                    let at = offset + u64::try_from(read.len()).unwrap();
                    assert_eq!((&head[6..8], &data[..8]), (&[0, 1][..], &at.to_be_bytes()[..]));
                    read.extend_from_slice(&data[8..]);
                }
                said = rest;
                if head[5] == 1 {
                    assert!(read == *bytes, "other bytes");
                    return said;
                }
            }
        }
        Expected::Error(handle, error) => match said.first() {
            // A failed read is answered by an error chunk.
            Some(0x66) => {
                let mut should = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1];
                should.extend_from_slice(&handle.to_be_bytes());
                should.extend_from_slice(&[0, 0, 0, 6]);
                should.extend_from_slice(&error.to_be_bytes());
                should.extend_from_slice(&[0, 0]);
                strip(should)
            }
            _ => strip(simple(*handle, *error)),
        },
    }
}

#[test]
fn server_behaves_like_an_array_of_bytes() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let (mut stream, is_structured) = handshake(&mut dice);
        let mut disk = vec![0; usize::try_from(SIZE).unwrap()];
        let mut ours = disk.clone();
        // The handshake replies are checked by another test.
        let mut shaken = Driver::new(stream.clone());
        shaken.run(&mut dice, |_| Ok(()));
        assert!(!shaken.session.is_in_handshake());
        let expected = requests(&mut dice, &mut ours, &mut stream);
        let mut driver = Driver::new(stream);
        driver.run(&mut dice, |work| {
            apply(&mut disk, work);
            Ok(())
        });
        assert_eq!(driver.used, driver.stream.len(), "seed {seed}");
        let mut said = &driver.said[shaken.said.len()..];
        for expected in &expected {
            said = compare(said, expected, is_structured);
        }
        assert_eq!(said, b"", "seed {seed}");
        assert!(disk == ours, "seed {seed}");
    }
}

/// A session with short payloads, sometimes with random mutations.
fn mutated(dice: &mut Dice) -> Vec<u8> {
    let (mut stream, _) = handshake(dice);
    for handle in 0..dice.below(24) {
        let (offset, mut length) = place(dice);
        let command = match dice.below(30) {
            0 => dice.below(10),
            1 if dice.one_in(4) => 2,
            _ => dice.pick(&[0, 1, 1, 3, 4, 6]).copied().unwrap(),
        };
        let flags = dice.pick(&[0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 4, 16]).copied().unwrap();
        let is_cut_short = command == 1 && length > 8192 && dice.one_in(4);
        if command == 1 && length > 8192 && !is_cut_short {
            length = 8192;
        }
        let (offset, length) = if command == 3 { (0, 0) } else { (offset, length) };
        stream.extend_from_slice(&request(
            (flags, command.try_into().unwrap()),
            handle,
            offset,
            length,
        ));
        if command == 1 {
            let come = usize::try_from(length).unwrap().min(8192);
            stream.resize(stream.len() + come, 7);
        }
        if is_cut_short {
            break;
        }
    }
    if dice.one_in(5) {
        return stream;
    }
    for _ in 0..=dice.below(3) {
        let at = usize::try_from(dice.below(stream.len() as u64 + 1)).unwrap();
        match dice.below(6) {
            0 => stream.truncate(at),
            1 => stream.insert(at, dice.any().to_le_bytes()[0]),
            2 if at < stream.len() => drop(stream.remove(at)),
            3 => {
                // Overwrite four bytes, perhaps a length, with a number that may be at a limit.
                let number = dice.pick(&[0, 1, 8192, 8193, 32 << 20, u32::MAX]).copied().unwrap();
                let end = stream.len().min(at + 4);
                let size = end.saturating_sub(at);
                stream[at.min(end)..end].copy_from_slice(&number.to_be_bytes()[..size]);
            }
            4 => {
                let again = stream[at..].to_vec();
                stream.extend_from_slice(&again);
            }
            _ if at < stream.len() => stream[at] ^= 1 << dice.below(8),
            _ => {}
        }
    }
    stream
}

/// Random bytes, possibly after part of a handshake or all of it.
fn noise(dice: &mut Dice) -> Vec<u8> {
    let mut stream = match dice.below(3) {
        0 => Vec::new(),
        1 => vec![0, 0, 0, 3],
        _ => handshake(dice).0,
    };
    for _ in 0..dice.below(300) {
        stream.push(dice.any().to_le_bytes()[0]);
        if dice.one_in(20) {
            stream.extend_from_slice(&[0x25, 0x60, 0x95, 0x13, 0, 0, 0]);
        }
        if dice.one_in(20) {
            stream.extend_from_slice(b"IHAVEOPT\0\0\0");
        }
    }
    stream
}

#[test]
fn arbitrary_stream_neither_panics_nor_hangs_nor_allocates() {
    let cases = std::env::var("SEAWALL_NBD_CASES").map_or(20_000, |cases| cases.parse().unwrap());
    let (mut asked, mut answered, mut ended, mut jobs) = (0, 0, 0_u64, 0_u64);
    for seed in 0..cases {
        let mut dice = Dice::new(seed);
        let stream = if dice.one_in(3) { noise(&mut dice) } else { mutated(&mut dice) };
        let mut driver = Driver::new(stream);
        let mut failing = Dice::new(!seed);
        driver.run(&mut dice, |_| {
            jobs += 1;
            if failing.one_in(10) { Err(Code::Device) } else { Ok(()) }
        });
        // A request takes at most a few pieces and a reply, with one step each.
        assert!(driver.steps <= 20 + driver.stream.len(), "seed {seed}: {} steps", driver.steps);
        assert!(driver.answered <= REPLY_MAX, "seed {seed}");
        asked = asked.max(driver.asked);
        answered = answered.max(driver.answered);
        ended += u64::from(driver.session.step(b"", &mut Vec::new()) == Step::End);
    }
    eprintln!("{cases} streams: {jobs} jobs, {ended} ended by the server");
    eprintln!("bytes at most: {asked} asked for at once, {answered} answered by one step");
    assert_eq!(asked, NEED_MAX, "the bound is reached, and not passed");
    assert!(ended > cases / 20 && jobs > cases, "{ended} ended, {jobs} jobs");
}

#[test]
fn read_that_fails_halfway_is_reported_or_ends_the_connection() {
    for is_structured in [false, true] {
        let mut stream = vec![0, 0, 0, 3];
        if is_structured {
            stream.extend_from_slice(&option(8, b""));
        }
        stream.extend_from_slice(&option(1, b"log"));
        stream.extend_from_slice(&request((0, 0), 7, 0, 2 << 20));
        stream.extend_from_slice(&request((0, 3), 8, 0, 0));
        let mut driver = Driver::new(stream);
        let mut flushes = 0;
        driver.run(&mut Dice::new(1), |work| match work.job {
            Job::Read { offset, .. } if offset > 0 => Err(Code::Device),
            Job::Flush => {
                flushes += 1;
                Ok(())
            }
            _ => Ok(()),
        });
        let is_over = driver.session.step(b"", &mut Vec::new()) == Step::End;
        assert_eq!((flushes, is_over), (u32::from(is_structured), !is_structured));
    }
}

#[test]
fn write_that_fails_halfway_is_skipped_to_its_end() {
    let mut stream = vec![0, 0, 0, 3];
    stream.extend_from_slice(&option(1, b"log"));
    let before = stream.len();
    stream.extend_from_slice(&request((1, 1), 7, 0, (2 << 20) + 5));
    stream.resize(before + 28 + (2 << 20) + 5, 0x25);
    stream.extend_from_slice(&request((0, 3), 8, 0, 0));
    let mut driver = Driver::new(stream);
    let mut done = Vec::new();
    driver.run(&mut Dice::new(1), |work| {
        done.push(work.job);
        if let Job::Write { offset: 1.., .. } = work.job { Err(Code::NoSpace) } else { Ok(()) }
    });
    let piece = |offset: usize| Job::Write { offset: offset as u64, size: NEED_MAX };
    assert_eq!(done, [piece(0), piece(NEED_MAX), Job::Flush]);
    let replies = [
        &[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 7][..],
        &[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8],
    ];
    assert!(driver.said.ends_with(&replies.concat()));
}

#[test]
fn fua_flushes_between_the_last_piece_and_the_reply() {
    let mut stream = vec![0, 0, 0, 3];
    stream.extend_from_slice(&option(1, b"log"));
    for command in [1, 4, 6] {
        stream.extend_from_slice(&request((1, command), 7, 0, 3));
        if command == 1 {
            stream.extend_from_slice(b"abc");
        }
    }
    let mut driver = Driver::new(stream);
    let mut done = Vec::new();
    driver.run(&mut Dice::new(1), |work| {
        done.push(work.job);
        Ok(())
    });
    let (write, zero) = (Job::Write { offset: 0, size: 3 }, Job::Zero { offset: 0, size: 3 });
    assert_eq!(done, [write, Job::Flush, Job::Flush, zero, Job::Flush]);
}
