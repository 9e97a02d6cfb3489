//! The NBD server, tested byte by byte: correct requests, wrong ones, several clients, and broken
//! connections.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::big_endian_bytes,
    reason = "a test reports failure by panicking, and NBD is big-endian"
)]

mod client;

use crate::common::{Call, Folder, guarded};
use client::*;
use seawall_disk::nbd::{Limits, Listen, Server};
use seawall_disk::{Disk, Files, Options, Supply};
use seawall_io::{Access, PosixStorage, Storage, SystemClock};
use seawall_testkit::MemStorage;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const SIZE: u64 = 4 << 20;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ESHUTDOWN: u32 = 108;

/// The power source is not healthy, so each flush waits for the device.
const SMALL: Options = Options {
    buffers: 4,
    buffer_size: 64 * 1024,
    supply: Supply { hold_up: Duration::ZERO, detection: Duration::ZERO, is_healthy: false },
};

fn made() -> MemStorage {
    crate::common::made(SIZE, &SMALL)
}

fn files(device: &MemStorage) -> Files {
    let open = |name| device.open(name, Access::ReadWrite).unwrap();
    Files { home: open("home"), area: open("area") }
}

fn opened(files: Files) -> Arc<Disk> {
    Arc::new(Disk::open(files, &SMALL, Arc::new(SystemClock::new())).unwrap().0)
}

fn served(disk: Arc<Disk>) -> Server {
    Server::start(disk, &Listen::Loopback(0), "log", Limits::default()).unwrap()
}

fn server() -> Server {
    served(opened(files(&made())))
}

/// Bytes that differ by position.
fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|at| seed.wrapping_add((at % 251).try_into().unwrap())).collect()
}

/// The content at `offset` after a power cut and a reopen.
fn left(device: &MemStorage, offset: u64, size: usize) -> Vec<u8> {
    let disk = opened(files(&device.power_cut(|_| false)));
    let mut bytes = vec![0; size];
    disk.read(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn export_name_is_answered_with_or_without_zeros() {
    let server = server();
    for (flags, zeros) in [(1, 124), (3, 0), (0, 124)] {
        let mut client = Client::new(&server);
        client.send(&[0, 0, 0, flags]);
        client.option(EXPORT_NAME, b"log");
        // Size; flags: has flags, flush, FUA, trim, write zeroes, multiple connections.
        let expected = [&SIZE.to_be_bytes()[..], &[0x01, 0x6d], &vec![0; zeros]].concat();
        assert_eq!(client.bytes(expected.len()), expected);
        assert_eq!(client.read(0, 3), Ok(vec![0; 3]));
    }
}

#[test]
fn info_and_go_report_size_flags_block_sizes_and_name() {
    let server = server();
    let mut client = Client::new(&server);
    client.send(&[0, 0, 0, 3]);
    for (option, data) in [(INFO, &b"\0\0\0\x03log\0\0"[..]), (GO, b"\0\0\0\0\0\x02\0\x03\0\x01")] {
        client.option(option, data);
        let export = [&[0, 0][..], &SIZE.to_be_bytes(), &[0x01, 0x6d]].concat();
        assert_eq!(client.answer(), (option, 3, export));
        let sizes = b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0".to_vec();
        assert_eq!(client.answer(), (option, 3, sizes));
        if option == GO {
            assert_eq!(client.answer(), (option, 3, b"\0\x01log".to_vec()));
        }
        assert_eq!(client.answer(), (option, ACK, vec![]));
    }
    assert_eq!(client.read(0, 3), Ok(vec![0; 3]));
}

#[test]
fn structured_replies_enable_unfragmented_reads() {
    let server = server();
    let mut client = Client::new(&server);
    client.send(&[0, 0, 0, 3]);
    client.option(STRUCTURED, b"");
    assert_eq!(client.answer().1, ACK);
    client.option(INFO, b"\0\0\0\0\0\0");
    assert_eq!(client.answer().2[10..], [0x01, 0xed]);
}

#[test]
fn invalid_options_are_refused_and_the_next_is_processed() {
    let server = server();
    let mut client = Client::new(&server);
    client.send(&[0, 0, 0, 3]);
    let long = vec![7; 100_000];
    let refused: [(u32, &[u8], u32); 12] = [
        (5, b"", 1),                           // TLS
        (10, b"a context", 1),                 // metadata
        (4_000_000_000, &long, 1),             // unknown option
        (LIST, b"what?", 3),                   // must have no data
        (STRUCTURED, b"!", 3),                 // must have no data either
        (INFO, b"", 3),                        // without a name
        (INFO, b"\0\0\0\x04log", 3),           // name longer than the data
        (INFO, b"\xff\xff\xff\xfflog\0\0", 3), // name far longer than the data
        (INFO, b"\0\0\0\x03log\0\x02\0\0", 3), // fewer kinds than announced
        (GO, b"\0\0\0\x03log\0\0?", 3),        // extra bytes at the end
        (GO, b"\0\0\0\x03nol\0\0", 6),         // another name
        (GO, &long, 9),                        // too long
    ];
    for (option, data, error) in refused {
        client.option(option, data);
        assert_eq!(client.answer(), (option, ERROR + error, vec![]), "{option}");
    }
    client.option(LIST, b"");
    assert_eq!(client.answer(), (LIST, 2, b"\0\0\0\x03log".to_vec()));
    assert_eq!(client.answer(), (LIST, ACK, vec![]));
    client.option(ABORT, b"");
    assert_eq!(client.answer(), (ABORT, ACK, vec![]));
    assert!(client.is_hung_up_on());
}

#[test]
fn invalid_handshake_ends_the_connection() {
    let server = server();
    let greetings: [&[u8]; 5] = [
        &[0, 0, 0, 4],
        &[0x80, 0, 0, 3],
        b"\0\0\0\x03IHAVEOPD\0\0\0\x03\0\0\0\0",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x03nol",
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff",
    ];
    for greeting in greetings {
        let mut client = Client::new(&server);
        client.send(greeting);
        assert!(client.is_hung_up_on(), "{greeting:?}");
    }
}

#[test]
fn slow_handshake_ends_the_connection() {
    let limits = Limits { handshake: Duration::from_millis(500), ..Limits::default() };
    let disk = opened(files(&made()));
    let server = Server::start(disk, &Listen::Loopback(0), "log", limits).unwrap();
    let mut chosen = Client::simple(&server);
    let mut silent = Client::new(&server);
    let mut busy = Client::new(&server);
    busy.send(&[0, 0, 0, 3]);
    // Asking for the list again and again does not extend the time limit.
    while busy.ask_for_the_list() {}
    assert!(silent.is_hung_up_on());
    assert_eq!(chosen.read(0, 1), Ok(vec![0]));
}

#[test]
fn bytes_are_read_back_at_any_offset_over_nbd() {
    let server = server();
    for mut client in [Client::simple(&server), Client::structured(&server)] {
        let mut expected = pattern(1, 300_000);
        assert_eq!(client.write(0, 0, &expected), 0);
        let pieces = [(1, 1), (4095, 2), (4096, 4096), (511, 70_001), (299_999, 1), (7, 0)];
        for (seed, (offset, size)) in (2..).zip(pieces) {
            let bytes = pattern(seed, size);
            assert_eq!(client.write(0, offset.try_into().unwrap(), &bytes), 0);
            expected[offset..offset + size].copy_from_slice(&bytes);
        }
        assert_eq!(client.read(0, 300_000), Ok(expected.clone()));
        for (offset, size) in pieces {
            let read = client.read(offset.try_into().unwrap(), size.try_into().unwrap());
            assert_eq!(read, Ok(expected[offset..offset + size].to_vec()));
        }
    }
}

#[test]
fn long_transfers_are_split_into_pieces() {
    let server = server();
    for mut client in [Client::simple(&server), Client::structured(&server)] {
        let bytes = pattern(3, 3_000_001);
        assert_eq!(client.write(FUA, 1003, &bytes), 0);
        assert_eq!(client.read(1003, 3_000_001), Ok(bytes));
    }
    let mut client = Client::structured(&server);
    // With DF, the reply is a single chunk or an error.
    client.request((DF, READ), 1003, 3_000_001);
    let error = [&EOVERFLOW.to_be_bytes()[..], &[0, 0]].concat();
    assert_eq!(client.chunk(), (1, 0x8001, error));
    client.request((DF, READ), 4095, 65536);
    let (flags, kind, data) = client.chunk();
    assert_eq!((flags, kind, data.len()), (1, 1, 65544));
}

#[test]
fn connections_see_the_writes_of_each_other() {
    let server = server();
    let mut clients: Vec<Client> = (0..4).map(|_| Client::structured(&server)).collect();
    for writer in 0..4_u8 {
        let offset = u64::from(writer) * 1000;
        let bytes = pattern(writer, 1000);
        assert_eq!(clients[usize::from(writer)].write(0, offset, &bytes), 0);
        for reader in &mut clients {
            assert_eq!(reader.read(offset, 1000), Ok(bytes.clone()));
        }
    }
    assert_eq!(server.connections(), 4);
}

#[test]
fn flush_covers_writes_of_other_connections() {
    let device = made();
    let server = served(opened(files(&device)));
    let (mut writer, mut other) = (Client::simple(&server), Client::simple(&server));
    assert_eq!(writer.write(0, 100, &[7; 100]), 0);
    assert_eq!(other.act((0, FLUSH), 0, 0), 0);
    assert_eq!(left(&device, 100, 100), [7; 100]);
}

#[test]
fn fua_write_is_durable_when_acknowledged() {
    let device = made();
    let server = served(opened(files(&device)));
    for mut client in [Client::simple(&server), Client::structured(&server)] {
        for value in [7, 8, 9] {
            assert_eq!(client.write(FUA, 100, &[value; 100]), 0);
            assert_eq!(left(&device, 100, 100), [value; 100]);
        }
        assert_eq!(client.act((FUA, ZERO), 150, 20), 0);
        assert_eq!(left(&device, 149, 22), [&[9][..], &[0; 20], &[9]].concat());
        assert_eq!(client.write(0, 0, &[5]), 0);
        assert_eq!(client.act((FUA, TRIM), 8192, 4096), 0);
        assert_eq!(left(&device, 0, 1), [5]);
    }
}

#[test]
fn zeroing_writes_zeros_and_trim_does_not() {
    let server = server();
    let mut client = Client::simple(&server);
    let mut expected = pattern(9, 2_500_000);
    assert_eq!(client.write(0, 0, &expected), 0);
    for (flags, from, size) in [(0, 1, 1), (2, 5000, 9000), (0, 100_001, 2_200_001), (0, 9, 0)] {
        assert_eq!(client.act((flags, ZERO), from.try_into().unwrap(), size), 0);
        expected[from..from + usize::try_from(size).unwrap()].fill(0);
        assert_eq!(client.act((0, TRIM), 0, 100), 0);
        assert_eq!(client.read(0, 2_500_000), Ok(expected.clone()));
    }
}

#[test]
fn request_beyond_the_end_is_refused_and_changes_nothing() {
    let server = server();
    for mut client in [Client::simple(&server), Client::structured(&server)] {
        for (offset, size) in [(SIZE - 99, 100), (SIZE, 1), (u64::MAX, 1), (u64::MAX - 99, 100)] {
            assert_eq!(client.write(0, offset, &vec![7; size]), ENOSPC);
            let length = size.try_into().unwrap();
            assert_eq!(client.read(offset, length), Err(EINVAL));
            assert_eq!(client.act((0, ZERO), offset, length), ENOSPC);
            assert_eq!(client.act((0, TRIM), offset, length), EINVAL);
        }
        assert_eq!(client.read(SIZE - 100, 100), Ok(vec![0; 100]));
        assert_eq!(client.act((0, FLUSH), 0, 0), 0);
    }
}

#[test]
fn oversized_read_is_refused_and_an_oversized_write_ends_the_connection() {
    let server = server();
    for length in [(32 << 20) + 1, u32::MAX] {
        let mut client = Client::structured(&server);
        assert_eq!(client.read(0, length), Err(EINVAL));
        assert_eq!(client.read(0, 100), Ok(vec![0; 100]));
        // The server does not wait for the payload, which never comes.
        client.request((0, WRITE), 0, length);
        client.fall_silent();
        assert_eq!(client.reply(), EINVAL);
        assert!(client.is_hung_up_on());
    }
}

#[test]
fn unknown_commands_are_refused_and_the_next_is_processed() {
    let server = server();
    let mut client = Client::simple(&server);
    for what in [(0, 5), (0, 7), (0, 99), (0, 65535), (4, WRITE), (16, ZERO), (2, TRIM)] {
        let length = if what.1 == WRITE { 0 } else { 10 };
        assert_eq!(client.act(what, 0, length), EINVAL, "{what:?}");
    }
    assert_eq!(client.write(DF, 0, &[7; 1000]), EINVAL);
    client.request((DF, READ), 0, 1);
    assert_eq!(client.reply(), EINVAL);
    assert_eq!(client.act((0, FLUSH), 1, 0), EINVAL);
    assert_eq!(client.act((0, FLUSH), 0, 1), EINVAL);
    assert_eq!(client.read(0, 2), Ok(vec![0; 2]));
    client.request((0, DISC), 0, 0);
    assert!(client.is_hung_up_on());
}

#[test]
fn invalid_request_ends_only_its_connection() {
    let server = server();
    let mut other = Client::simple(&server);
    let mut client = Client::simple(&server);
    let mut head = request((0, FLUSH), 1, 0, 0);
    head[3] ^= 1;
    client.send(&head);
    assert!(client.is_hung_up_on());
    assert_eq!(other.act((0, FLUSH), 0, 0), 0);
}

#[test]
fn requests_may_arrive_in_pieces_or_together() {
    let server = server();
    let mut client = Client::simple(&server);
    let whole = [request((0, WRITE), 101, 5, 3), b"abc".to_vec()].concat();
    for byte in whole {
        client.send(&[byte]);
    }
    assert_eq!(client.bytes(16)[4..8], [0; 4]);
    let many: Vec<u8> = (0..1000)
        .flat_map(|handle| {
            let bytes: [u8; 2] = u16::try_from(handle).unwrap().to_be_bytes();
            [request((0, WRITE), handle, 2 * handle, 2), bytes.to_vec()].concat()
        })
        .collect();
    client.send(&many);
    for handle in 0..1000_u64 {
        let reply = client.bytes(16);
        assert_eq!((&reply[4..8], &reply[8..]), (&[0; 4][..], &handle.to_be_bytes()[..]));
    }
    let expected: Vec<u8> = (0..1000_u16).flat_map(u16::to_be_bytes).collect();
    assert_eq!(client.read(0, 2000), Ok(expected));
}

#[test]
fn client_that_dies_during_a_write_leaves_old_or_new_blocks() {
    let server = server();
    let mut watcher = Client::simple(&server);
    let old = vec![1; 3 << 20];
    assert_eq!(watcher.write(0, 0, &old), 0);
    // A write of at most one piece is applied as a whole or, as here, not at all.
    let mut client = Client::simple(&server);
    client.request((0, WRITE), 8192, 65536);
    client.send(&vec![2; 65535]);
    client.fall_silent();
    assert!(client.is_hung_up_on());
    assert_eq!(watcher.read(0, 3 << 20), Ok(old));
    // Of a longer write, the pieces that arrived as a whole are applied.
    let mut client = Client::simple(&server);
    client.request((0, WRITE), 100, 2 << 20);
    client.send(&vec![2; (1 << 20) + 70_000]);
    client.fall_silent();
    assert!(client.is_hung_up_on());
    let bytes = watcher.read(0, 3 << 20).unwrap();
    let (new, behind) = bytes[100..].split_at((1 << 20) - 100);
    assert_eq!(bytes[..100], [1; 100]);
    assert!(new.iter().all(|byte| *byte == 2) && behind.iter().all(|byte| *byte == 1));
    // An incomplete request header has no effect.
    let mut client = Client::simple(&server);
    client.send(&request((0, ZERO), 1, 0, 4096)[..27]);
    client.fall_silent();
    assert!(client.is_hung_up_on());
    assert_eq!(watcher.read(0, 1), Ok(vec![1]));
}

/// A gate that holds up flushes while it is shut.
#[derive(Debug, Default)]
struct Gate {
    /// Whether the gate is shut, and how many flushes wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        self.state.lock().unwrap().0 = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.0).unwrap();
        state.1 -= 1;
    }

    fn wait_for_somebody(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.1 == 0).unwrap());
    }
}

fn gated(device: &MemStorage) -> (Server, Arc<Disk>, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let Files { home, area } = files(device);
    let own = gate.clone();
    let home = guarded(home, move |call| {
        if call == Call::Sync {
            own.pass();
        }
    });
    let disk = opened(Files { home, area });
    (served(disk.clone()), disk, gate)
}

#[test]
fn slow_device_request_blocks_no_other_connection() {
    let (server, _, gate) = gated(&made());
    let (mut waiting, mut full) = (Client::simple(&server), Client::simple(&server));
    let mut other = Client::structured(&server);
    gate.set_shut(true);
    assert_eq!(waiting.write(0, 0, &[7; 4096]), 0);
    waiting.request((0, FLUSH), 0, 0);
    gate.wait_for_somebody();
    // More than the ring holds.
    full.request((0, WRITE), 1 << 20, 1 << 20);
    full.send(&vec![8; 1 << 20]);
    for _ in 0..10 {
        assert_eq!(other.read(0, 4096), Ok(vec![7; 4096]));
    }
    gate.set_shut(false);
    assert_eq!((waiting.reply(), full.reply()), (0, 0));
    assert_eq!(other.read(1 << 20, 1 << 20), Ok(vec![8; 1 << 20]));
}

#[test]
fn stopped_server_drains_acknowledged_data() {
    let device = made();
    let server = served(opened(files(&device)));
    let mut client = Client::simple(&server);
    assert_eq!(client.write(0, 9000, &[8; 10]), 0);
    server.stop().unwrap();
    assert!(client.is_hung_up_on());
    assert_eq!(left(&device, 9000, 10), [8; 10]);
}

#[test]
fn stopped_server_completes_requests_in_progress() {
    let (server, disk, gate) = gated(&made());
    let (mut waiting, mut idle) = (Client::simple(&server), Client::simple(&server));
    let mut cut_short = Client::simple(&server);
    assert_eq!(idle.act((0, TRIM), 0, 0), 0);
    gate.set_shut(true);
    waiting.request((FUA, WRITE), 0, 4096);
    waiting.send(&[7; 4096]);
    cut_short.request((0, WRITE), 0, 4096);
    // Wait until the server has the write, which then waits for the device.
    while disk.status().counts.writes == 0 {
        thread::yield_now();
    }
    let stopped = thread::spawn(move || server.stop());
    assert!(idle.is_hung_up_on());
    assert!(cut_short.is_hung_up_on());
    gate.set_shut(false);
    assert_eq!(waiting.reply(), 0);
    assert!(waiting.is_hung_up_on());
    stopped.join().unwrap().unwrap();
}

#[test]
fn long_zeroing_is_aborted_when_the_server_stops() {
    let (server, disk, gate) = gated(&made());
    let (mut zeroing, mut idle) = (Client::simple(&server), Client::simple(&server));
    gate.set_shut(true);
    zeroing.request((0, ZERO), 0, 4 << 20);
    while disk.status().counts.writes == 0 {
        thread::yield_now();
    }
    let stopped = thread::spawn(move || server.stop());
    assert!(idle.is_hung_up_on());
    gate.set_shut(false);
    assert_eq!(zeroing.reply(), ESHUTDOWN);
    assert!(zeroing.is_hung_up_on());
    stopped.join().unwrap().unwrap();
}

#[test]
fn client_that_reads_no_replies_does_not_block_the_stop() {
    let limits = Limits { farewell: Duration::from_millis(50), ..Limits::default() };
    let disk = opened(files(&made()));
    let server = Server::start(disk, &Listen::Loopback(0), "log", limits).unwrap();
    let mut client = Client::simple(&server);
    // More than the system buffers for a client that does not read.
    for _ in 0..30 {
        client.request((0, READ), 0, 4 << 20);
    }
    client.bytes(1);
    server.stop().unwrap();
    let mut rest = Vec::new();
    let _ = io::Read::read_to_end(&mut client.stream, &mut rest);
    assert!(rest.len() < 30 << 22, "all of it was sent");
}

#[test]
fn device_that_fails_for_good_is_an_io_error_and_still_readable() {
    let device = made();
    let server = served(opened(files(&device)));
    let mut client = Client::structured(&server);
    assert_eq!(client.write(0, 0, &[7; 100]), 0);
    for nth in 0..100 {
        device.fail_sync(nth, |_| false);
    }
    assert_eq!(client.act((0, FLUSH), 0, 0), 5);
    assert_eq!(client.write(0, 0, &[8; 100]), 5);
    assert_eq!(client.act((0, ZERO), 0, 100), 5);
    assert_eq!(client.write(FUA, 0, &vec![9; 3_000_000]), 5);
    assert_eq!(client.read(0, 100), Ok(vec![7; 100]));
    server.stop().unwrap_err();
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let disk = opened(files(&made()));
    let server = Server::start(disk, &Listen::Loopback(0), "log", limits).unwrap();
    let mut first = Client::simple(&server);
    let second = Client::simple(&server);
    assert!(hears_nothing(&server));
    drop(second);
    while server.connections() == 2 {
        thread::yield_now();
    }
    let mut third = Client::simple(&server);
    assert_eq!(third.write(0, 0, &[7]), 0);
    assert_eq!(first.read(0, 1), Ok(vec![7]));
}

/// Whether a new connection is closed without a greeting.
fn hears_nothing(server: &Server) -> bool {
    let address = server.address().to_string();
    let stream = std::net::TcpStream::connect(address.strip_prefix("nbd://").unwrap()).unwrap();
    let mut heard = Vec::new();
    // The connection may end with or without an error.
    let _ = io::Read::read_to_end(&mut &stream, &mut heard);
    heard.is_empty()
}

#[test]
fn only_the_socket_of_a_dead_server_is_replaced() {
    let folder = Folder::new("nbd-socket");
    let storage = PosixStorage::open(&folder.0).unwrap();
    let path = folder.0.join("s");
    let start = || {
        let disk = opened(files(&made()));
        Server::start(disk, &Listen::Unix(path.clone()), "log", Limits::default())
    };
    drop(UnixListener::bind(&path).unwrap());
    let server = start().unwrap();
    UnixStream::connect(&path).unwrap();
    let error = start().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let expected = format!("another server already listens at {}", path.display());
    assert_eq!(error.to_string(), expected);
    assert!(server.address().to_string().ends_with("/s"), "{}", server.address());
    server.stop().unwrap();
    assert_eq!(storage.list().unwrap(), ["s.lock"]);

    // A server that does not use our lock file.
    let foreign = UnixListener::bind(&path).unwrap();
    assert_eq!(start().unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(foreign);
    start().unwrap().stop().unwrap();

    storage.create("s").unwrap().write_at(b"a letter", 0).unwrap();
    assert_eq!(start().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(storage.open("s", Access::Read).unwrap().len().unwrap(), 8);
}

#[test]
fn export_names_too_long_for_nbd_are_refused() {
    for name in ["a\0b", &"a".repeat(4097)] {
        let disk = opened(files(&made()));
        let error = Server::start(disk, &Listen::Loopback(0), name, Limits::default());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
