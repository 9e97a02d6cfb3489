//! The NBD client as a file: against our own server with a simulated device, and against servers
//! that break the protocol.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]
#![allow(clippy::big_endian_bytes, reason = "NBD's numbers are big-endian")]

use crate::common::Folder;
use seawall_disk::device::{Cost, Device};
use seawall_disk::nbd::{Client, EXPORTS_MAX, Limits, Listen, Server, Target, Uri};
use seawall_disk::{Disk, Files, Options, Supply};
use seawall_io::{Clock, File, Storage, SystemClock};
use seawall_testkit::Dice;
use seawall_testkit::MemStorage;
use std::io::{self, ErrorKind as Kind, Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SIZE: u64 = 4 << 20;

/// A folder for sockets, removed on drop.
fn folder(name: &str) -> Folder {
    Folder::new(&format!("client-{name}"))
}

impl Folder {
    fn uri(&self, name: &str) -> Uri {
        Uri::new(name, &self.0.join("socket"))
    }
}

/// A simulated device with the exports `home` and `area`, and the durable content of both.
struct Served {
    folder: Folder,
    server: Server,
    device: Arc<Device>,
    durable: MemStorage,
}

fn served(name: &str, clock: Arc<dyn Clock>) -> Served {
    let (folder, durable) = (folder(name), MemStorage::new());
    let make = |name| {
        let file = durable.create(name).unwrap();
        file.set_len(SIZE).unwrap();
        file
    };
    let cost = Cost { delay: Duration::from_millis(2), bandwidth: 0 };
    let device = Arc::new(Device::new(vec![make("home"), make("area")], cost, clock).unwrap());
    let exports: [(&str, Arc<dyn Target>); 2] =
        [("home", Arc::new(device.region(0))), ("area", Arc::new(device.region(1)))];
    let listen = Listen::Unix(folder.0.join("socket"));
    let server = Server::start_all(&exports, &listen, Limits::default()).unwrap();
    Served { folder, server, device, durable }
}

fn system() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

#[test]
fn bytes_are_read_back_at_any_offset() {
    let served = served("bytes", system());
    let client = Client::connect(&served.folder.uri("home")).unwrap();
    let mut model = vec![0; usize::try_from(SIZE).unwrap()];
    let mut dice = Dice::new(7);
    for turn in 0..300_u64 {
        let offset = dice.below(SIZE);
        let most = [1, 511, 4096, 70_000][usize::try_from(turn % 4).unwrap()];
        let size = (1 + dice.below(most)).min(SIZE - offset);
        let (from, size) = (usize::try_from(offset).unwrap(), usize::try_from(size).unwrap());
        if dice.one_in(2) {
            let bytes = vec![u8::try_from(turn % 251).unwrap() + 1; size];
            match turn % 3 {
                0 => client.write_synced(&bytes, offset).unwrap(),
                _ => client.write_at(&bytes, offset).unwrap(),
            }
            model[from..from + size].copy_from_slice(&bytes);
        } else {
            let mut bytes = vec![0; size];
            assert_eq!(client.read_at(&mut bytes, offset).unwrap(), size);
            assert!(bytes == model[from..from + size], "turn {turn}");
        }
    }
    client.sync().unwrap();
    assert!(served.durable.bytes("home").unwrap() == model);
}

#[test]
fn disk_has_a_fixed_length() {
    let served = served("ends", system());
    let client = Client::connect(&served.folder.uri("area")).unwrap();
    assert_eq!(client.len().unwrap(), SIZE);
    let mut bytes = [9; 10];
    assert_eq!(client.read_at(&mut bytes, SIZE - 3).unwrap(), 3);
    assert_eq!(client.read_at(&mut bytes, u64::MAX).unwrap(), 0);
    for offset in [SIZE - 9, u64::MAX] {
        let error = client.write_at(&bytes, offset).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
    client.set_len(SIZE).unwrap();
    assert_eq!(client.set_len(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    client.write_at(&[7; 9000], 0).unwrap();
    client.fill_with_zeros(8192).unwrap();
    client.sync().unwrap();
    assert_eq!(served.durable.bytes("area").unwrap()[8190..8194], [0, 0, 7, 7]);
}

#[test]
fn exports_are_chosen_by_name_and_share_one_flush() {
    let served = served("exports", system());
    let connect = |name| Client::connect(&served.folder.uri(name));
    let (home, area, first) =
        (connect("home").unwrap(), connect("area").unwrap(), connect("").unwrap());
    home.write_at(&[1; 600], 100).unwrap();
    area.write_at(&[2; 600], 100).unwrap();
    let mut read = [0; 1];
    first.read_at(&mut read, 100).unwrap();
    assert_eq!(read, [1], "no name means the first");
    assert_eq!(served.durable.bytes("home").unwrap()[100], 0);
    area.sync().unwrap();
    assert_eq!(served.durable.bytes("home").unwrap()[100], 1);
    assert_eq!(served.durable.bytes("area").unwrap()[100], 2);
    let error = connect("log").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("no disk of this name"), "{error}");
    let four = vec![("x", Arc::new(served.device.region(0)) as Arc<dyn Target>); EXPORTS_MAX + 1];
    for exports in [&four[..], &[]] {
        let refused = Server::start_all(exports, &Listen::Loopback(0), Limits::default());
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn only_fua_writes_are_durable_without_a_flush() {
    let served = served("fua", system());
    let client = Client::connect(&served.folder.uri("home")).unwrap();
    client.write_synced(&[1; 4096], 0).unwrap();
    assert_eq!(served.durable.bytes("home").unwrap()[..4096], [1; 4096]);
    client.write_at(&[2; 4096], 0).unwrap();
    assert_eq!(served.durable.bytes("home").unwrap()[..4096], [1; 4096]);
}

/// A clock whose `sleep` blocks until `open` is called, to hold up flushes of the device.
#[derive(Debug, Default)]
struct Gate {
    sleepers: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Gate {
    fn wait_for_a_sleeper(&self) {
        let sleepers = self.sleepers.lock().unwrap();
        drop(self.changed.wait_while(sleepers, |sleepers| sleepers.0 == 0).unwrap());
    }

    fn open(&self) {
        self.sleepers.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Clock for Gate {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep(&self, _: Duration) {
        let mut sleepers = self.sleepers.lock().unwrap();
        sleepers.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(sleepers, |sleepers| !sleepers.1).unwrap());
    }
}

#[test]
fn no_read_waits_for_a_flush() {
    let gate = Arc::new(Gate::default());
    let served = served("beside", gate.clone());
    let client = Client::connect(&served.folder.uri("home")).unwrap();
    client.write_at(&[1; 512], 0).unwrap();
    thread::scope(|scope| {
        let flush = scope.spawn(|| client.sync());
        gate.wait_for_a_sleeper();
        let mut read = [0; 1];
        client.read_at(&mut read, 0).unwrap();
        assert_eq!(read, [1]);
        gate.open();
        flush.join().unwrap().unwrap();
    });
}

#[test]
fn every_call_fails_after_a_lost_connection() {
    let served = served("lost", system());
    let client = Client::connect(&served.folder.uri("home")).unwrap();
    client.write_at(&[1; 512], 0).unwrap();
    served.server.stop().unwrap();
    let error = client.sync().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    assert!(error.to_string().contains("start its server again"), "{error}");
    // The client does not reconnect to a new server at the same address.
    let home: Arc<dyn Target> = Arc::new(served.device.region(0));
    let listen = Listen::Unix(served.folder.0.join("socket"));
    let _again = Server::start_all(&[("home", home)], &listen, Limits::default()).unwrap();
    let calls: [&dyn Fn() -> io::Result<()>; 4] = [
        &|| client.sync(),
        &|| client.read_at(&mut [0], 0).map(drop),
        &|| client.write_at(&[1], 0),
        &|| client.write_synced(&[1], 0),
    ];
    for call in calls {
        assert_eq!(call().unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
    Client::connect(&served.folder.uri("home")).unwrap().sync().unwrap();
}

#[test]
fn device_without_power_is_an_error() {
    let served = served("power", system());
    let client = Client::connect(&served.folder.uri("home")).unwrap();
    client.write_at(&[1; 512], 0).unwrap();
    served.device.cut(1).unwrap();
    let error = client.sync().unwrap_err();
    assert!(error.to_string().contains("its device failed"), "{error}");
}

#[test]
fn virtual_disk_over_nbd_loses_nothing_at_an_announced_power_cut() {
    let served = served("disk", system());
    let client = |name| Arc::new(Client::connect(&served.folder.uri(name)).unwrap());
    let hold_up = Duration::from_secs(100);
    let supply = Supply { hold_up, detection: Duration::ZERO, is_healthy: true };
    // A dump fits into the area.
    let options = Options { buffers: 240, supply, ..Options::default() };
    let files = Files { home: client("home"), area: client("area") };
    // The area is a device and cannot grow, so its label is prepared in memory.
    let memory = MemStorage::new();
    let label = Files { home: files.home.clone(), area: memory.create("area").unwrap() };
    label.prepare(7, &options).unwrap();
    files.area.write_synced(&memory.bytes("area").unwrap(), 0).unwrap();

    let (disk, _) = Disk::open(files.clone(), &options, system()).unwrap();
    disk.calibrate().unwrap();
    for turn in 0..200_u64 {
        disk.write(turn * 8192, &(turn + 1).to_le_bytes().repeat(512)).unwrap();
        disk.flush().unwrap();
    }
    disk.emergency().unwrap();
    served.device.cut(3).unwrap();
    drop(disk);

    let open = |name| served.durable.open(name, seawall_io::Access::ReadWrite).unwrap();
    let files = Files { home: open("home"), area: open("area") };
    let (disk, _) = Disk::open(files, &options, system()).unwrap();
    for turn in 0..200_u64 {
        let mut bytes = [0; 4096];
        disk.read(turn * 8192, &mut bytes).unwrap();
        assert!(bytes[..] == (turn + 1).to_le_bytes().repeat(512)[..], "write {turn}");
    }
}

/// A server that follows a script and then disconnects. Each step reads a number of bytes and sends
/// an answer.
fn scripted(folder: &Folder, script: Vec<(usize, Vec<u8>)>) -> JoinHandle<()> {
    let listener = UnixListener::bind(folder.uri("").socket()).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for (hears, says) in script {
            let mut heard = vec![0; hears];
            if stream.read_exact(&mut heard).and_then(|()| stream.write_all(&says)).is_err() {
                return;
            }
        }
    })
}

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";

/// A reply to `GO`.
fn answer(kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let head = [0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec(), 7_u32.to_be_bytes().to_vec()];
    let rest = [kind.to_be_bytes().to_vec(), length.to_be_bytes().to_vec(), data.to_vec()];
    [head.concat(), rest.concat()].concat()
}

/// A disk of 8192 bytes that can be flushed.
fn disk(flags: u16) -> Vec<u8> {
    let data = [&[0, 0][..], &8192_u64.to_be_bytes(), &flags.to_be_bytes()].concat();
    [answer(3, &data), answer(1, b"")].concat()
}

/// The size of the flags and the request for the unnamed export.
const CHOICE: usize = 4 + 16 + 8;

fn refused(name: &str, says: &[&[u8]]) -> io::Error {
    let folder = folder(name);
    let hears = [0, CHOICE];
    let script = hears.iter().zip(says).map(|(hears, says)| (*hears, says.to_vec())).collect();
    let server = scripted(&folder, script);
    let error = Client::connect(&folder.uri("")).unwrap_err();
    server.join().unwrap();
    error
}

#[test]
fn unusable_export_is_refused() {
    let blocks = |smallest: u32, largest: u32| {
        let sizes = [smallest, 4096, largest].map(u32::to_be_bytes).concat();
        [answer(3, &[&[0, 3][..], &sizes].concat()), disk(5)].concat()
    };
    let huge = [&answer(3, b"")[..16], &u32::MAX.to_be_bytes()].concat();
    let other = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &[0; 12]].concat();
    let cases: [(&[&[u8]], &str); 13] = [
        (&[b"HTTP/1.1 400 Bad Request"], "its greeting is not"),
        (&[b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53\0\0"], "its greeting is not"),
        (&[b"NBDMAGICIHAVEOPT\0\0"], "too old"),
        (&[b"NBD"], "closed the connection"),
        (&[GREETING, &answer(0x8000_0006, b"no \x07such")], "no disk of this name: no such"),
        (&[GREETING, &answer(0x8000_0001, b"")], "too old"),
        (&[GREETING, &answer(0x8000_0002, b"go away")], "refuses (answer 0x80000002 of NBD): go"),
        (&[GREETING, &answer(1, b"")], "the size of the disk"),
        (&[GREETING, &huge], "its answer is too long"),
        (&[GREETING, &other], "does not match the request"),
        (&[GREETING, &disk(1)], "does not support flushes"),
        (&[GREETING, &disk(7)], "read-only"),
        (&[GREETING, &blocks(512, 1 << 20)], "whole blocks of 512 bytes"),
    ];
    for (index, (says, expected)) in cases.into_iter().enumerate() {
        let error = refused(&format!("refused-{index}"), says).to_string();
        assert!(error.starts_with("nbd+unix:///?socket=/") && error.contains(expected), "{error}");
    }
    let endless = answer(3, b"\0\x09").repeat(100);
    assert!(refused("endless", &[GREETING, &endless]).to_string().contains("too many answers"));
    let none = refused("none", &[GREETING, &blocks(1, 0)]);
    assert!(none.to_string().contains("no request of any length"), "{none}");
    let folder = folder("nobody");
    let nobody = Client::connect(&folder.uri("")).unwrap_err();
    assert_eq!(nobody.kind(), io::ErrorKind::NotFound);
}

#[test]
fn invalid_reply_ends_the_connection_but_an_error_does_not() {
    let reply = |error: u32, handle: u64| {
        let numbers = [0x6744_6698_u32.to_be_bytes(), error.to_be_bytes()].concat();
        [&numbers[..], &handle.to_be_bytes()].concat()
    };
    let greeted = || vec![(0, GREETING.to_vec()), (CHOICE, disk(5))];
    let cases = [
        (reply(0, 9), "not sent"),
        (b"a reply of sixteen".to_vec(), "does not begin as a reply"),
        (reply(0, 1)[..9].to_vec(), "closed the connection"),
    ];
    for (index, (says, expected)) in cases.into_iter().enumerate() {
        let folder = folder(&format!("reply-{index}"));
        let server = scripted(&folder, [greeted(), vec![(28, says)]].concat());
        let client = Client::connect(&folder.uri("")).unwrap();
        let error = client.sync().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        assert!(error.to_string().contains(expected), "{error}");
        server.join().unwrap();
        assert_eq!(client.sync().unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
    let folder = folder("errors");
    let numbers = [1, 5, 12, 22, 28, 95, 108, 4711];
    let replies = (1..).zip(numbers).map(|(handle, number)| (28, reply(number, handle)));
    let _server = scripted(&folder, [greeted(), replies.collect()].concat());
    let client = Client::connect(&folder.uri("")).unwrap();
    for (kind, number) in [
        Kind::ReadOnlyFilesystem,
        Kind::Other,
        Kind::OutOfMemory,
        Kind::InvalidInput,
        Kind::StorageFull,
        Kind::Unsupported,
        Kind::Other,
        Kind::Other,
    ]
    .into_iter()
    .zip(numbers)
    {
        let error = client.sync().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&format!("(error {number} of NBD)")), "{error}");
    }
}

#[test]
fn displayed_uri_is_parsed_back_and_others_are_refused() {
    for (name, socket) in [("log", "/run/s"), ("", "s"), ("a/b?c&d%", "/a b/\u{fc}\n")] {
        let uri = Uri::new(name, socket.as_ref());
        assert_eq!(uri.to_string().parse::<Uri>().unwrap(), uri);
    }
    for wrong in [
        "",
        "nbd:///log",
        "nbd+unix:///log",
        "nbd+unix:///log?socket=",
        "nbd+unix:///log?socket=%0",
        "nbd+unix:///log?socket=%zz",
        "nbd+unix:///log?socket=a%00b",
        "nbd+unix:///%ff?socket=a",
        "nbd+unix://host/log?socket=a",
    ] {
        let error = wrong.parse::<Uri>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{wrong}");
    }
}
