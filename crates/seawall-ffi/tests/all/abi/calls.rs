//! Runs a sequence of calls that input bytes describe, many of them with arguments that no correct
//! program passes: each returns a status, and the logs stay intact. The fuzz target `abi` is this
//! file.

use seawall_ffi::error::Error;
use seawall_ffi::status::Status;
use seawall_ffi::{append, log, maintenance, options, read, reader, report, stats, ticket};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most calls in a sequence.
const CALLS_MAX: usize = 200;
/// Bytes to pass as data: more than a record may have.
const DATA: usize = 9 << 20;

/// Counts callbacks.
extern "C" fn done(context: *mut c_void, _: Status, lsn: u64, _: *const Error) {
    assert!(lsn > 0);
    // SAFETY: the counter of a program, which outlives its logs.
    let counter = unsafe { &*context.cast::<AtomicU64>() };
    counter.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn survived(_: *mut c_void, _: *const std::ffi::c_char, _: u64) {}

/// Laid out like `seawall_slice`.
#[repr(C)]
struct Slice(*mut c_void, usize);

/// The types of handles.
#[derive(Clone, Copy)]
enum Kind {
    Options,
    Log,
    Reader,
    Cursor,
    Follower,
    Ticket,
    Buffer,
}

const KINDS: [Kind; 7] = [
    Kind::Options,
    Kind::Log,
    Kind::Reader,
    Kind::Cursor,
    Kind::Follower,
    Kind::Ticket,
    Kind::Buffer,
];

/// The state of a C program: the arguments it passes and the handles it holds.
struct Program<'a> {
    input: &'a [u8],
    /// Two handles of each kind, or null.
    handles: [[*mut c_void; 2]; KINDS.len()],
    /// The first path is that of a log, the second one may be too, and the last one is a file.
    paths: Vec<CString>,
    folder: PathBuf,
    number: u64,
    record: [u64; 8],
    /// Zeros to pass in place of a handle.
    zeros: [u64; 32],
    error: *mut Error,
    copies: u32,
    /// Callbacks that were requested.
    callbacks: u64,
    /// Callbacks that ran.
    done: Box<AtomicU64>,
}

/// Runs the calls that `input` describes, in new folders.
pub(crate) fn run(input: &[u8]) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let folder = folder.join(format!("seawall-abi-{}-{run}", std::process::id()));
    std::fs::create_dir(&folder).expect("no other run has this name");
    let mut file = std::fs::OpenOptions::new();
    file.write(true).create_new(true).open(folder.join("file")).expect("it is new");
    let mut program = Program::new(input, &folder);
    for _ in 0..CALLS_MAX {
        if program.input.is_empty() {
            break;
        }
        program.call();
    }
    program.end();
    assert_eq!(program.done.load(Ordering::Relaxed), program.callbacks, "callbacks");
    std::fs::remove_dir_all(folder).expect("it can be removed");
}

/// Converts a pointer to the argument type `P`, a pointer with checks or a plain one.
fn given<P, T>(pointer: *mut T) -> P {
    const { assert!(size_of::<P>() == size_of::<*mut c_void>()) };
    // SAFETY: the pointers with checks are transparent, and C passes plain ones in their place.
    unsafe { std::mem::transmute_copy(&pointer) }
}

/// A misaligned pointer to `place`.
fn misaligned<T>(place: &mut T) -> *mut c_void {
    std::ptr::from_mut(place).cast::<c_void>().wrapping_byte_add(1)
}

impl<'a> Program<'a> {
    fn new(input: &'a [u8], folder: &Path) -> Self {
        let path = |name: &str| {
            let path = folder.join(name).into_os_string().into_encoded_bytes();
            CString::new(path).expect("no zero")
        };
        let mut program = Self {
            input,
            handles: [[null_mut(); 2]; KINDS.len()],
            paths: ["log", "log-2", "missing/log", "file"].map(path).into(),
            folder: folder.to_owned(),
            number: 0,
            record: [0; 8],
            zeros: [0; 32],
            error: null_mut(),
            copies: 0,
            callbacks: 0,
            done: Box::default(),
        };
        // Opens a log first: most sequences would never open one.
        let path = program.paths[0].as_ptr();
        let place = given(&raw mut program.handles[Kind::Log as usize][0]);
        let opened = log::seawall_log_open(
            given(path.cast_mut()),
            given(null_mut::<()>()),
            place,
            given(null_mut::<()>()),
        );
        assert!(matches!(opened, Status::Ok));
        program
    }

    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.input.split_first() else { return 0 };
        self.input = rest;
        *byte
    }

    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    fn once_in(&mut self, times: u8) -> bool {
        self.below(times) == 1
    }

    /// A number, often an extreme one.
    fn number(&mut self) -> u64 {
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => u64::from(self.byte()) << 8,
            _ => u64::from(self.below(12)),
        }
    }

    fn small(&mut self) -> i32 {
        i32::from(self.below(8)) - 1
    }

    /// A handle, mostly of this kind.
    fn handle(&mut self, kind: Kind) -> *mut c_void {
        match self.below(16) {
            0 => null_mut(),
            1 => misaligned(&mut self.zeros),
            2 => self.zeros.as_mut_ptr().cast(),
            3 => {
                let other = usize::from(self.below(7));
                self.handles[other][0]
            }
            other => self.handles[kind as usize][usize::from(other % 2)],
        }
    }

    /// A pointer to store a number at, sometimes invalid.
    fn place(&mut self) -> *mut c_void {
        match self.below(8) {
            0 => null_mut(),
            1 => misaligned(&mut self.number),
            _ => (&raw mut self.number).cast(),
        }
    }

    /// A pointer to store a record at, sometimes invalid.
    fn record(&mut self) -> *mut c_void {
        const { assert!(size_of::<read::Record>() <= 64) };
        match self.below(8) {
            0 => null_mut(),
            1 => misaligned(&mut self.record),
            _ => self.record.as_mut_ptr().cast(),
        }
    }

    /// A pointer to bytes and their length, or a length that no memory has.
    fn data(&mut self) -> (*mut c_void, usize) {
        static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
        let data = BYTES.get_or_init(|| vec![b'x'; DATA]).as_ptr().cast_mut().cast::<c_void>();
        match self.below(16) {
            0 => (null_mut(), 0),
            1 => (null_mut(), 7),
            2 => (data, usize::MAX),
            3 => (data, isize::MIN.unsigned_abs()),
            4 => (data, DATA),
            5 => (data, 100_000),
            6 => (data, 0),
            size => (data.wrapping_byte_add(1), usize::from(size) * 9),
        }
    }

    fn path(&mut self) -> *mut c_void {
        match self.below(8) {
            0 => null_mut(),
            path => self.paths[usize::from(path) % self.paths.len()].as_ptr().cast_mut().cast(),
        }
    }

    /// A pointer to store the error at, sometimes invalid. `finish` checks the error.
    fn error(&mut self) -> *mut c_void {
        self.error = null_mut();
        match self.below(16) {
            0 => null_mut(),
            1 => misaligned(&mut self.record),
            _ => (&raw mut self.error).cast(),
        }
    }

    /// Creates a handle with `call`, which gets a pointer to store it at, and keeps it.
    fn make(&mut self, kind: Kind, call: impl FnOnce(&mut Self, *mut c_void) -> Status) {
        let slot = usize::from(self.below(2));
        let mut made: *mut c_void = null_mut();
        let place = match self.below(8) {
            0 => null_mut(),
            1 => misaligned(&mut self.zeros),
            _ => (&raw mut made).cast(),
        };
        let status = call(self, place);
        assert!(matches!(status, Status::Ok) || made.is_null());
        self.finish(status);
        if !made.is_null() {
            self.free(kind, slot);
            self.handles[kind as usize][slot] = made;
        }
    }

    /// Checks the outcome of a call.
    fn finish(&mut self, status: Status) {
        let is_failure = !matches!(status, Status::Ok | Status::None);
        assert!(!matches!(status, Status::Bug), "{}", self.message());
        if !self.error.is_null() {
            assert!(is_failure && !self.message().is_empty());
            seawall_ffi::seawall_error_free(given(self.error));
            self.error = null_mut();
        }
    }

    fn message(&self) -> String {
        if self.error.is_null() {
            return "no error object".to_owned();
        }
        // SAFETY: the library made it, and it was not freed.
        let message = unsafe { (*self.error).message };
        // SAFETY: it ends with a zero and lives as long as the object.
        unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned()
    }

    fn free(&mut self, kind: Kind, slot: usize) {
        let handle = std::mem::replace(&mut self.handles[kind as usize][slot], null_mut());
        match kind {
            Kind::Options => options::seawall_options_free(given(handle)),
            Kind::Log => log::seawall_log_free(given(handle)),
            Kind::Reader => reader::seawall_reader_free(given(handle)),
            Kind::Cursor => read::seawall_cursor_free(given(handle)),
            Kind::Follower => read::seawall_follower_free(given(handle)),
            Kind::Ticket => ticket::seawall_ticket_free(given(handle)),
            Kind::Buffer => read::seawall_buffer_free(given(handle)),
        }
    }

    fn call(&mut self) {
        match self.below(16) {
            0 => self.change_options(),
            1 | 2 => self.open(),
            3..=5 => self.append(),
            6 => self.wait(),
            7 | 8 => self.read(),
            9 | 10 => self.next(),
            11 => self.shorten(),
            12 => self.maintain(),
            13 => self.ask(),
            14 => self.free_one(),
            _ => self.free_wrongly(),
        }
    }

    fn change_options(&mut self) {
        use options::{
            seawall_options_set_buffered, seawall_options_set_codec,
            seawall_options_set_compression, seawall_options_set_create,
            seawall_options_set_encryption, seawall_options_set_fill_blocks,
            seawall_options_set_key_file, seawall_options_set_layout, seawall_options_set_level,
            seawall_options_set_mode, seawall_options_set_on_failover, seawall_options_set_parity,
            seawall_options_set_reuse, seawall_options_set_schema,
            seawall_options_set_segment_size, seawall_options_set_skip_damaged,
            seawall_options_set_sync_every, seawall_options_set_type_name,
        };
        let options = self.handle(Kind::Options);
        let (small, number) = (self.small(), self.number());
        let half = |number: u64| u16::try_from(number % 65_536).expect("below 65536");
        let status = match self.below(18) {
            0 => seawall_options_set_create(given(options), small),
            1 => seawall_options_set_level(given(options), small),
            2 => {
                let size = usize::try_from(self.number()).expect("64 bits");
                seawall_options_set_buffered(given(options), number, size)
            }
            3 => seawall_options_set_segment_size(given(options), number),
            4 => seawall_options_set_parity(given(options), half(number), half(self.number())),
            5 => seawall_options_set_reuse(given(options), small),
            6 => seawall_options_set_layout(given(options), small),
            7 => seawall_options_set_compression(given(options), small),
            8 => seawall_options_set_codec(given(options), small),
            9 => {
                let name = self.path();
                seawall_options_set_type_name(given(options), given(name))
            }
            10 => {
                let schema = u32::from(half(number));
                seawall_options_set_schema(given(options), schema)
            }
            11 => seawall_options_set_mode(given(options), small),
            12 => seawall_options_set_skip_damaged(given(options), small),
            // With a missing key file, or without a key, every open would be refused.
            13 => seawall_options_set_key_file(given(options), given(null_mut::<c_void>())),
            14 => {
                let padding = u32::from(half(number)) | 3;
                seawall_options_set_encryption(given(options), padding)
            }
            15 => seawall_options_set_sync_every(given(options), number),
            16 => seawall_options_set_fill_blocks(given(options), small),
            _ => {
                let callback = Some(survived as extern "C" fn(_, _, _));
                seawall_options_set_on_failover(given(options), callback, null_mut())
            }
        };
        self.finish(status);
    }

    fn open(&mut self) {
        let slot = usize::from(self.below(2));
        match self.below(6) {
            0 => {
                self.free(Kind::Options, slot);
                let made = options::seawall_options_new();
                self.handles[Kind::Options as usize][slot] = made.cast();
            }
            1 => {
                self.free(Kind::Buffer, slot);
                self.handles[Kind::Buffer as usize][slot] = read::seawall_buffer_new().cast();
            }
            2 => self.make(Kind::Reader, |program, place| {
                let (path, options) = (program.path(), program.handle(Kind::Options));
                let error = given(program.error());
                reader::seawall_reader_open(given(path), given(options), given(place), error)
            }),
            3 => {
                let (log, error) = (self.handle(Kind::Log), given(self.error()));
                let status = log::seawall_log_close(given(log), error);
                self.finish(status);
            }
            _ => self.make(Kind::Log, |program, place| {
                let (path, options) = (program.path(), program.handle(Kind::Options));
                let error = given(program.error());
                log::seawall_log_open(given(path), given(options), given(place), error)
            }),
        }
    }

    fn append(&mut self) {
        let (log, (data, size)) = (self.handle(Kind::Log), self.data());
        let (place, error) = (given(self.place()), given(self.error()));
        match self.below(6) {
            0 => {
                let (other, other_size) = self.data();
                let slices = [Slice(data, size), Slice(other, other_size), Slice(data, 1)];
                let slices = slices.as_ptr().cast_mut();
                let counts = [0, 1, 2, 3, usize::MAX, isize::MIN.unsigned_abs() / 16];
                let count = counts[usize::from(self.below(6))];
                let slices = if self.once_in(8) { null_mut() } else { slices };
                let last = given(self.place());
                let status = append::seawall_log_append_batch(
                    given(log),
                    given(slices),
                    count,
                    place,
                    last,
                    error,
                );
                self.finish(status);
            }
            1 | 2 => {
                let status =
                    append::seawall_log_append(given(log), given(data), size, place, error);
                self.finish(status);
            }
            3 => self.make(Kind::Ticket, |_, ticket| {
                append::seawall_log_try_submit(
                    given(log),
                    given(data),
                    size,
                    place,
                    given(ticket),
                    error,
                )
            }),
            _ => self.make(Kind::Ticket, |_, ticket| {
                append::seawall_log_submit(
                    given(log),
                    given(data),
                    size,
                    place,
                    given(ticket),
                    error,
                )
            }),
        }
    }

    fn wait(&mut self) {
        let (waits, error) = (self.handle(Kind::Ticket), given(self.error()));
        let status = match self.below(5) {
            0 => ticket::seawall_ticket_wait(given(waits), error),
            1 => ticket::seawall_ticket_poll(given(waits), error),
            2 => {
                let call: ticket::DoneCallback = if self.once_in(4) { None } else { Some(done) };
                let counter = std::ptr::from_ref(&*self.done).cast_mut().cast();
                let status = ticket::seawall_ticket_on_done(given(waits), call, counter, error);
                self.callbacks += u64::from(matches!(status, Status::Ok));
                status
            }
            3 => {
                // None of these is a descriptor that does not block.
                let descriptor = [-1, i32::MIN, i32::MAX, 1000][usize::from(self.below(4))];
                ticket::seawall_ticket_signal(given(waits), descriptor, error)
            }
            _ => {
                let _ = ticket::seawall_ticket_lsn(given(waits));
                return;
            }
        };
        self.finish(status);
    }

    fn read(&mut self) {
        let (from, error) = (self.number(), given(self.error()));
        let (log, reader) = (self.handle(Kind::Log), self.handle(Kind::Reader));
        match self.below(8) {
            0 => self.make(Kind::Cursor, |_, place| {
                read::seawall_log_read(given(log), from, given(place), error)
            }),
            1 => self.make(Kind::Follower, |_, place| {
                read::seawall_log_follow(given(log), from, given(place), error)
            }),
            2 => self.make(Kind::Cursor, |_, place| {
                reader::seawall_reader_read(given(reader), from, given(place), error)
            }),
            3 => self.make(Kind::Follower, |_, place| {
                reader::seawall_reader_follow(given(reader), from, given(place), error)
            }),
            4 | 5 => {
                let buffer = self.handle(Kind::Buffer);
                let status = if self.once_in(2) {
                    read::seawall_log_get(given(log), from, given(buffer), error)
                } else {
                    reader::seawall_reader_get(given(reader), from, given(buffer), error)
                };
                self.finish(status);
            }
            6 => {
                let place = given(self.place());
                let status = reader::seawall_reader_oldest(given(reader), place, error);
                self.finish(status);
            }
            _ => {
                let place = given(self.place());
                let status = reader::seawall_reader_replay_start(given(reader), place, error);
                self.finish(status);
            }
        }
    }

    fn next(&mut self) {
        let (cursor, follower) = (self.handle(Kind::Cursor), self.handle(Kind::Follower));
        let (record, buffer) = (self.record(), self.handle(Kind::Buffer));
        let error = given(self.error());
        let timeout_ms = u64::from(self.below(2));
        let status = match self.below(4) {
            0 => read::seawall_cursor_next(given(cursor), given(record), error),
            1 => {
                let (buffer, record) = (given(buffer), given(record));
                read::seawall_cursor_next_copy(given(cursor), buffer, record, error)
            }
            2 => {
                let record = given(record);
                read::seawall_follower_next(given(follower), timeout_ms, record, error)
            }
            _ => {
                let (follower, buffer, record) = (given(follower), given(buffer), given(record));
                read::seawall_follower_next_copy(follower, timeout_ms, buffer, record, error)
            }
        };
        self.finish(status);
    }

    fn shorten(&mut self) {
        let (log, number) = (self.handle(Kind::Log), self.number());
        let (place, error) = (given(self.place()), given(self.error()));
        let status = match self.below(6) {
            0 | 1 => log::seawall_log_flush(given(log), place, error),
            2 => log::seawall_log_confirm(given(log), place, error),
            3 => log::seawall_log_checkpoint(given(log), number, error),
            4 => log::seawall_log_truncate_before(given(log), number, place, error),
            _ => log::seawall_log_truncate_after(given(log), number, error),
        };
        self.finish(status);
    }

    fn maintain(&mut self) {
        let (path, error) = (self.path(), given(self.error()));
        let mut report: *mut c_void = null_mut();
        let place = if self.once_in(8) { null_mut() } else { (&raw mut report).cast::<c_void>() };
        let status = match self.below(3) {
            0 => {
                self.copies += 1;
                let target = self.folder.join(format!("copy-{}", self.copies)).into_os_string();
                let target = CString::new(target.into_encoded_bytes()).expect("no zero");
                let target =
                    if self.once_in(4) { self.path() } else { target.as_ptr().cast_mut().cast() };
                let last = given(self.place());
                maintenance::seawall_back_up(given(path), given(target), last, error)
            }
            1 => {
                let replica = self.path();
                maintenance::seawall_repair(given(path), given(replica), given(place), error)
            }
            _ => report::seawall_verify(given(path), given(place), error),
        };
        report::seawall_verification_free(given(report));
        self.finish(status);
    }

    fn ask(&mut self) {
        let log = self.handle(Kind::Log);
        let (follower, buffer) = (self.handle(Kind::Follower), self.handle(Kind::Buffer));
        let _ = log::seawall_log_durable(given(log));
        let _ = log::seawall_log_oldest(given(log));
        let _ = log::seawall_log_replay_start(given(log));
        let _ = log::seawall_log_recovery(given(log));
        let _ = read::seawall_follower_position(given(follower));
        let size = read::seawall_buffer_size(given(buffer));
        assert!(size == 0 || !read::seawall_buffer_data(given(buffer)).is_null());
        let (stat, place) = (i32::from(self.below(16)) - 2, given(self.place()));
        let status = stats::seawall_log_stat(given(log), stat, place);
        self.finish(status);
    }

    fn free_one(&mut self) {
        let kind = KINDS[usize::from(self.below(7))];
        let slot = usize::from(self.below(2));
        self.free(kind, slot);
    }

    /// Calls the free functions with a handle of another kind, or none. Nothing may be freed.
    fn free_wrongly(&mut self) {
        let buffer = self.handles[Kind::Buffer as usize][0];
        let wrong =
            [null_mut(), misaligned(&mut self.zeros), self.zeros.as_mut_ptr().cast(), buffer];
        let wrong = wrong[usize::from(self.below(4))];
        log::seawall_log_free(given(wrong));
        reader::seawall_reader_free(given(wrong));
        read::seawall_cursor_free(given(wrong));
        read::seawall_follower_free(given(wrong));
        ticket::seawall_ticket_free(given(wrong));
        options::seawall_options_free(given(wrong));
        let none = if self.once_in(2) { null_mut() } else { misaligned(&mut self.zeros) };
        report::seawall_verification_free(given(none));
        seawall_ffi::seawall_error_free(given(none));
    }

    /// Frees all handles, logs first or last, and verifies what is left.
    fn end(&mut self) {
        let turn = usize::from(self.below(7));
        for number in 0..KINDS.len() {
            let kind = KINDS[(number + turn) % KINDS.len()];
            self.free(kind, 0);
            self.free(kind, 1);
        }
        let mut found: *mut report::Verification = null_mut();
        let path = self.paths[0].as_ptr().cast_mut();
        let error = given((&raw mut self.error).cast::<c_void>());
        let status = report::seawall_verify(given(path), given(&raw mut found), error);
        assert!(matches!(status, Status::Ok), "{}", self.message());
        // SAFETY: the library made it, and it was not freed.
        let verdict = unsafe { &(*found).verdict };
        assert!(matches!(verdict, report::Verdict::Clean), "{verdict:?}");
        report::seawall_verification_free(given(found));
    }
}
