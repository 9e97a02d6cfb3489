//! A vhost-user disk for a virtual machine, whose side the tests play: correctly, wrongly, and
//! again after a crash.

#![cfg(all(feature = "vhost-user", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking, and knows its data"
)]

#[path = "../common/mod.rs"]
mod common;
mod guest;

use common::Folder;
use guest::*;
use seawall_disk::nbd::Target;
use seawall_disk::vhost_user::Server;
use seawall_testkit::{Dice, each_seed};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Large enough for a request that is too long. Most of it is never touched.
const SIZE: usize = 64 << 20;
const SECTORS: u32 = 1 << 17;
/// How long to wait to see that nothing happens.
const QUIET: Duration = Duration::from_millis(150);

/// A call that the disk received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read(u64, usize),
    Write(u64, usize),
    Flush,
}

/// A disk in memory whose flushes wait while it is held.
#[derive(Debug, Default)]
struct Memory {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    calls: Vec<Call>,
    is_held: bool,
    is_drained: bool,
}

impl Memory {
    fn new() -> Arc<Self> {
        let state = State { bytes: vec![0; SIZE], ..State::default() };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Holds up flushes until the returned guard is dropped, even if the test fails.
    fn hold(&self) -> Held<'_> {
        self.state.lock().unwrap().is_held = true;
        Held(self)
    }

    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    fn bytes(&self, at: usize, size: usize) -> Vec<u8> {
        self.state.lock().unwrap().bytes[at..at + size].to_vec()
    }

    fn wait_for(&self, call: Call) {
        wait_until(|| self.state.lock().unwrap().calls.contains(&call));
    }
}

struct Held<'a>(&'a Memory);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().is_held = false;
        self.0.changed.notify_all();
    }
}

impl Target for Memory {
    fn size(&self) -> u64 {
        u64::try_from(SIZE).unwrap()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(Call::Read(offset, bytes.len()));
        let at = usize::try_from(offset).unwrap();
        bytes.copy_from_slice(&state.bytes[at..at + bytes.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(Call::Write(offset, bytes.len()));
        let at = usize::try_from(offset).unwrap();
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(Call::Flush);
        drop(self.changed.wait_while(state, |state| state.is_held).unwrap());
        Ok(())
    }

    fn drain(&self) -> io::Result<()> {
        self.state.lock().unwrap().is_drained = true;
        Ok(())
    }
}

impl Folder {
    fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    fn serve(&self, disk: &Arc<Memory>) -> Server {
        Server::start(disk.clone(), &self.socket(), "a serial number that is long").unwrap()
    }
}

/// Bytes that differ from sector to sector.
fn pattern(seed: u8, size: usize) -> Vec<u8> {
    let word = |index: usize| u8::try_from((index / 512 + index) % 251).unwrap();
    (0..size).map(|index| word(index).wrapping_add(seed)).collect()
}

#[test]
fn guest_reads_what_it_wrote() {
    let (folder, disk) = (Folder::new("guest-reads"), Memory::new());
    let server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    assert_eq!(guest.write(8, &pattern(1, 8192)), 0);
    assert_eq!(guest.flush(), 0);
    assert_eq!(disk.calls(), [Call::Write(4096, 8192), Call::Flush]);
    assert_eq!(guest.read(8, 8192), pattern(1, 8192));
    assert_eq!(disk.calls(), [Call::Read(4096, 8192)]);
    assert_eq!(server.connections(), 1);
    server.stop().unwrap();
    assert!(disk.state.lock().unwrap().is_drained);
    assert_eq!(disk.bytes(4096, 8192), pattern(1, 8192));
    assert!(!folder.socket().exists());
}

#[test]
fn request_may_have_any_framing() {
    let (folder, disk) = (Folder::new("guest-framing"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    // The header in two parts; data in parts that are not whole sectors, one of them empty.
    guest.put_header(WRITE, 1);
    guest.put(DATA, &pattern(7, 1024));
    guest.submit(&[
        (HEADER, 5, 0),
        (HEADER + 5, 11, 0),
        (DATA, 100, 0),
        (DATA, 0, 0),
        (DATA + 100, 924, 0),
        (STATUS, 1, WRITABLE),
    ]);
    assert_eq!((guest.complete(), disk.bytes(512, 1024)), (0, pattern(7, 1024)));
    // An indirect table, with the data and the status in one segment.
    guest.put_header(READ, 1);
    guest.chain(INDIRECT, 0, &[(HEADER, 16, 0), (DATA + 5000, 1025, WRITABLE)]);
    guest.put(DATA + 5000, &[9; 1025]);
    guest.submit(&[(INDIRECT, 32, TABLE)]);
    guest.complete();
    let expected = [pattern(7, 1024), vec![0]].concat();
    assert_eq!(guest.bytes(DATA + 5000, 1025), expected);
}

#[test]
fn long_write_is_split_at_block_boundaries() {
    let (folder, disk) = (Folder::new("guest-long"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    let bytes = pattern(3, 3 << 20);
    assert_eq!(guest.write(1, &bytes), 0);
    let pieces = [(512, 1_048_064), (1_048_576, 1_048_576), (2_097_152, 1_049_088 - 512)];
    let mut expected: Vec<Call> = pieces.map(|(at, size)| Call::Write(at, size)).into();
    expected.push(Call::Write(3_145_728, 512));
    assert_eq!(disk.calls(), expected);
    assert_eq!(guest.read(1, 3 << 20), bytes);
}

#[test]
fn zeroes_serial_number_and_configuration() {
    let (folder, disk) = (Folder::new("guest-others"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    assert_eq!(guest.write(0, &[7; 4096]), 0);
    let mut zero = |sectors: u32, flags: u32, sector: u64| {
        guest.put_header(ZERO, 0);
        guest.put(DATA, &sector.to_le_bytes());
        guest.put(DATA + 8, &[sectors.to_le_bytes(), flags.to_le_bytes()].concat());
        guest.submit(&[(HEADER, 16, 0), (DATA, 16, 0), (STATUS, 1, WRITABLE)]);
        guest.complete()
    };
    assert_eq!(
        [zero(2, 1, 1), zero(1, 2, 0), zero(8193, 0, 0), zero(2, 0, u64::from(SECTORS) - 1)],
        [0, 2, 1, 1]
    );
    let expected = [vec![7; 512], vec![0; 1024], vec![7; 2560]].concat();
    assert_eq!(disk.bytes(0, 4096), expected);

    guest.put_header(SERIAL, 0);
    guest.submit(&[(HEADER, 16, 0), (DATA, 20, WRITABLE), (STATUS, 1, WRITABLE)]);
    assert_eq!(guest.complete(), 0);
    assert_eq!(guest.bytes(DATA, 20), b"a serial number that");

    let config = guest.config(60);
    let field = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().unwrap());
    assert_eq!(
        [field(0), field(4), field(8), field(12), field(20)],
        [SECTORS, 0, 1 << 18, 126, 512]
    );
    assert_eq!([field(48), field(52)], [8192, 1]);
}

/// What is wrong, the kind of the request, its sector, its chain, and the expected status, if the
/// chain has a place for one.
type Wrong = (&'static str, u32, u64, Vec<Segment>, Option<u8>);

fn wrong_chains() -> Vec<Wrong> {
    let status = (STATUS, 1, WRITABLE);
    let header = (HEADER, 16, 0);
    let with = |data: Segment| vec![header, data, status];
    let last = u64::from(SECTORS) - 1;
    let mut many = vec![header];
    many.extend([(DATA, 512 << 10, 0); 125]);
    many.push(status);
    vec![
        ("data beyond the memory", WRITE, 0, with((MEMORY - 512, 1024, 0)), Some(1)),
        ("data at the end of all addresses", WRITE, 0, with((u64::MAX - 511, 512, 0)), Some(1)),
        ("space beyond the memory", READ, 0, with((MEMORY, 512, WRITABLE)), Some(1)),
        ("length of 4 GiB", WRITE, 0, with((DATA, u32::MAX - 511, 0)), Some(1)),
        ("space of 4 GiB", READ, 0, with((DATA, u32::MAX - 511, WRITABLE)), Some(1)),
        ("header beyond the memory", WRITE, 0, vec![(MEMORY, 16, 0), status], Some(1)),
        ("short header", WRITE, 0, vec![(HEADER, 15, 0), status], Some(1)),
        ("no header", WRITE, 0, vec![status], Some(1)),
        ("half a sector", WRITE, 0, with((DATA, 256, 0)), Some(1)),
        ("half a sector of space", READ, 0, with((DATA, 256, WRITABLE)), Some(1)),
        ("write beyond the end", WRITE, last, with((DATA, 1024, 0)), Some(1)),
        ("read beyond the end", READ, last, with((DATA, 1024, WRITABLE)), Some(1)),
        ("sector that is too high", WRITE, u64::MAX, with((DATA, 512, 0)), Some(1)),
        ("end that is too high", WRITE, u64::MAX / 512, with((DATA, 512, 0)), Some(1)),
        ("space before data", WRITE, 0, vec![(STATUS - 8, 8, WRITABLE), header, status], Some(1)),
        ("63 MiB in one request", WRITE, 0, many, Some(1)),
        ("short range of zeros", ZERO, 0, with((DATA, 8, 0)), Some(1)),
        ("unknown kind", 77, 0, with((DATA, 512, 0)), Some(2)),
        ("no status", WRITE, 0, vec![header, (DATA, 512, 0)], None),
        ("empty status", WRITE, 0, vec![header, (STATUS, 0, WRITABLE)], None),
        ("status beyond the memory", WRITE, 0, vec![header, (MEMORY, 1, WRITABLE)], None),
        ("more than 4 GiB", WRITE, 0, vec![header, (DATA, u32::MAX, 0), status], None),
        ("table of tables", WRITE, 0, vec![(INDIRECT, 16, TABLE)], None),
        ("table beyond the memory", WRITE, 0, vec![(MEMORY, 48, TABLE)], None),
        ("table of one and a half", WRITE, 0, vec![(INDIRECT, 24, TABLE)], None),
        ("table of many", WRITE, 0, vec![(INDIRECT + 16, 200 * 16, TABLE)], None),
    ]
}

#[test]
fn wrong_chains_fail_and_change_nothing() {
    let (folder, disk) = (Folder::new("guest-wrong"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    // A table in a table, and a table with too many segments.
    machine.put_descriptor((INDIRECT, 0), (INDIRECT, 16, TABLE), 0);
    let mut many = vec![(HEADER, 16, 0)];
    many.extend([(DATA, 512, 0); 198]);
    many.push((STATUS, 1, WRITABLE));
    machine.chain(INDIRECT + 16, 0, &many);
    let mut guest = machine.connect(&folder.socket(), 0);
    for (what, kind, sector, segments, expected) in wrong_chains() {
        guest.put_header(kind, sector);
        guest.submit(&segments);
        let status = guest.complete();
        assert_eq!(status, expected.unwrap_or(0xEE), "{what}");
        let told = u32::from(expected.is_some());
        assert_eq!(guest.used_length(guest.made), told, "{what}");
        assert_eq!(disk.calls(), [], "{what}");
    }
    assert_eq!(guest.write(0, &[1; 512]), 0);
}

#[test]
fn endless_chain_ends() {
    let (folder, disk) = (Folder::new("guest-endless"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    guest.put_header(WRITE, 0);
    guest.put_chain(0, &[(HEADER, 16, 0), (DATA, 512, 0), (STATUS, 1, WRITABLE | NEXT)]);
    for next in [2, 1, 0] {
        guest.put_descriptor((0x1000, 2), (STATUS, 1, WRITABLE | NEXT), next);
        guest.submit_head(0);
        assert_eq!((guest.complete(), guest.used_length(guest.made)), (0xEE, 0), "{next}");
    }
    assert_eq!(disk.calls(), []);
    assert_eq!(guest.write(0, &[1; 512]), 0);
}

/// A random descriptor, as a malicious or broken guest may write it.
fn any_descriptor(dice: &mut Dice) -> (Segment, u16) {
    // No address in the rings, which a read could overwrite.
    let places = [HEADER, STATUS, DATA, INDIRECT, MEMORY - 8, MEMORY, u64::MAX - 8];
    let sizes = [0, 1, 16, 20, 64, 512, 4096, 1 << 20, u32::MAX];
    let flags = [0, NEXT, NEXT, NEXT | WRITABLE, WRITABLE, TABLE, NEXT | TABLE, 0xffff];
    let place = *dice.pick(&places).unwrap() + u64::from(dice.one_in(4)) * 3;
    let segment = (place, *dice.pick(&sizes).unwrap(), *dice.pick(&flags).unwrap());
    (segment, u16::try_from(dice.below(10)).unwrap())
}

#[test]
fn random_requests_all_end_and_the_next_one_works() {
    let (folder, disk) = (Folder::new("guest-random"), Memory::new());
    let _server = folder.serve(&disk);
    each_seed(64, |dice| {
        let mut machine = Machine::new(&folder.0);
        let mut guest = machine.connect(&folder.socket(), dice.below(2) * EVENT_INDEX);
        for _ in 0..32 {
            let kind = *dice.pick(&[READ, WRITE, FLUSH, SERIAL, ZERO, 11]).unwrap();
            let sector = *dice.pick(&[0, 1, u64::from(SECTORS) - 1, u64::MAX]).unwrap();
            guest.put_header(kind, sector);
            for index in 0..16 {
                let (segment, next) = any_descriptor(dice);
                let table = if index < 8 { 0x1000 } else { INDIRECT };
                guest.put_descriptor((table, index % 8), segment, next);
            }
            guest.submit_head(u16::try_from(dice.below(8)).unwrap());
            guest.complete();
        }
        assert_eq!(guest.write(3, &[5; 512]), 0);
        assert_eq!(guest.read(3, 512), [5; 512]);
    });
}

#[test]
fn broken_ring_stops_and_the_next_connection_works() {
    let (folder, disk) = (Folder::new("guest-ring"), Memory::new());
    let _server = folder.serve(&disk);
    for broken in ["index", "head"] {
        let mut machine = Machine::new(&folder.0);
        let mut guest = machine.connect(&folder.socket(), 0);
        assert_eq!(guest.write(0, &[1; 512]), 0, "{broken}");
        match broken {
            // More requests than the queue holds.
            "index" => guest.set_available(QUEUE + 100),
            _ => guest.submit_head(QUEUE + 1),
        }
        for _ in 0..3 {
            guest.kick();
            pause(QUIET / 3);
        }
        assert_eq!(guest.used(), 1, "{broken}");
    }
    let mut machine = Machine::new(&folder.0);
    assert_eq!(machine.connect(&folder.socket(), 0).write(0, &[2; 512]), 0);
}

#[test]
fn write_of_a_guest_without_flushes_waits_for_one() {
    let (folder, disk) = (Folder::new("guest-through"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), KNOWS_FLUSH);
    let held = disk.hold();
    guest.submit_write(0, &[1; 512]);
    disk.wait_for(Call::Flush);
    pause(QUIET);
    assert_eq!(guest.used(), 0);
    drop(held);
    assert_eq!(guest.complete(), 0);
    assert_eq!(disk.calls(), [Call::Write(0, 512), Call::Flush]);
    guest.put_header(ZERO, 0);
    guest.put(DATA, &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    guest.submit(&[(HEADER, 16, 0), (DATA, 16, 0), (STATUS, 1, WRITABLE)]);
    assert_eq!(guest.complete(), 0);
    assert_eq!(disk.calls(), [Call::Write(0, 512), Call::Flush]);
}

#[test]
fn flush_ends_when_the_disk_has_flushed() {
    let (folder, disk) = (Folder::new("guest-flush"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    let held = disk.hold();
    assert_eq!(guest.write(0, &[1; 512]), 0);
    guest.submit_flush();
    disk.wait_for(Call::Flush);
    pause(QUIET);
    assert_eq!((guest.used(), guest.status()), (1, 0xEE));
    drop(held);
    assert_eq!(guest.complete(), 0);
}

#[test]
fn waiting_flush_delays_no_other_queue() {
    let (folder, disk) = (Folder::new("guest-queues"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    let held = disk.hold();
    guest.submit_flush();
    disk.wait_for(Call::Flush);
    guest.put_header(READ, 0);
    let read = [(HEADER, 16, 0), (DATA, 512, WRITABLE), (STATUS + 1, 1, WRITABLE)];
    guest.complete_in_second_queue(&read);
    assert_eq!(guest.used(), 0);
    drop(held);
    assert_eq!(guest.complete(), 0);
}

#[test]
fn next_server_executes_what_is_not_complete_and_nothing_else() {
    let (folder, disk) = (Folder::new("guest-next"), Memory::new());
    let _server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    // A killed server had completed the first of three writes; the guest reports none as complete.
    machine.put_header(WRITE, 0);
    for (head, byte) in [(0, 1), (3, 2), (6, 3)] {
        let data = DATA + u64::from(head) * 0x1000;
        machine.put(data, &[byte; 512]);
        machine.put_chain(head, &[(HEADER, 16, 0), (data, 512, 0), (STATUS, 1, WRITABLE)]);
        machine.make_available(head);
    }
    machine.set_used(1);
    let guest = machine.connect_at(&folder.socket(), 0, 0);
    assert_eq!(guest.complete(), 0);
    assert_eq!(disk.calls(), [Call::Write(0, 512); 2]);
    assert_eq!(disk.bytes(0, 512), [3; 512]);
    assert_eq!(guest.stop_ring(), 3);
}

#[test]
fn next_server_tells_the_guest_what_the_last_one_did_not() {
    let (folder, disk) = (Folder::new("guest-told"), Memory::new());
    let _server = folder.serve(&disk);
    for without in [0, EVENT_INDEX] {
        let mut machine = Machine::new(&folder.0);
        machine.made = 1;
        machine.set_available(1);
        machine.set_used(1);
        machine.connect_at(&folder.socket(), without, 1).wait_for_call();
    }
}

#[test]
fn interrupts_come_for_each_request() {
    let (folder, disk) = (Folder::new("guest-interrupts"), Memory::new());
    let _server = folder.serve(&disk);
    for without in [0, EVENT_INDEX] {
        let mut machine = Machine::new(&folder.0);
        let mut guest = machine.connect(&folder.socket(), without);
        guest.wait_for_call();
        for made in 0..10_u16 {
            // The guest asks for an interrupt at the next completion.
            guest.put(0x2000 + 4 + u64::from(QUEUE) * 2, &made.to_le_bytes());
            guest.submit_flush();
            guest.wait_for_call();
            assert_eq!(guest.used(), made + 1);
        }
    }
}

#[test]
fn stopped_server_ends_what_has_begun_and_leaves_the_rest_to_the_next() {
    let (folder, disk) = (Folder::new("guest-stop"), Memory::new());
    let server = folder.serve(&disk);
    let mut machine = Machine::new(&folder.0);
    let mut guest = machine.connect(&folder.socket(), 0);
    let held = disk.hold();
    guest.submit_flush();
    disk.wait_for(Call::Flush);
    guest.put_chain(8, &[(HEADER, 16, 0), (STATUS, 1, WRITABLE)]);
    guest.submit_head(8);
    let stopped = thread::spawn(move || server.stop());
    pause(QUIET);
    assert!(!stopped.is_finished());
    drop(held);
    stopped.join().unwrap().unwrap();
    assert_eq!((guest.used(), disk.calls().len()), (1, 1));
    drop(guest);
    let _server = folder.serve(&disk);
    let guest = machine.connect_at(&folder.socket(), 0, 1);
    assert_eq!((guest.complete(), disk.calls().len()), (0, 1));
}

#[test]
fn machine_that_goes_away_makes_room_for_the_next() {
    let (folder, disk) = (Folder::new("guest-gone"), Memory::new());
    let server = folder.serve(&disk);
    for _ in 0..5 {
        let mut machine = Machine::new(&folder.0);
        assert_eq!(machine.connect(&folder.socket(), 0).write(0, &[1; 512]), 0);
    }
    let taken = Server::start(disk, &folder.socket(), "").unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    drop(server);
}
