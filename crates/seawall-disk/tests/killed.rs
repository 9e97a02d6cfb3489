//! Kills a process that uses a ring in shared memory at random moments. Afterwards the ring and the
//! image together must hold every write that had returned, with each sector either old or new.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use seawall_disk::{Flight, Haste, Identity, Kept, Ring, kept_size};
use seawall_host::{receive_descriptor, send_descriptor};
use seawall_io::{Clock, Memory, MemoryPart, SystemClock};
use seawall_testkit::Dice;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const SECTOR: usize = 512;
const SECTORS: usize = 128;
const SIZES: (usize, usize) = (3, 32_768);
const IDENTITY: Identity = Identity { state: 7, serve: 3, home_size: (SECTOR * SECTORS) as u64 };
/// The environment variable with the seed. The shared memory is passed over standard input.
const CHILD: &str = "SEAWALL_KILLED_CHILD";

/// The sectors of write `number`; each of them is filled with that number.
fn write(seed: u64, number: u64) -> (usize, usize) {
    let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
    // Often in the same few sectors, so that writes overlap, as when a log rewrites its end.
    let first = if dice.one_in(3) { dice.index(SECTORS) } else { dice.index(12) };
    let count = if dice.one_in(2) { dice.index(8) } else { dice.index(64) };
    (first, (1 + count).min(SECTORS - first))
}

fn bytes(number: u64, sectors: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(sectors * SECTOR / 8)
}

fn land(ring: &mut Ring, home: &mut MemoryPart, flight: Flight) {
    home.store(usize::try_from(flight.offset()).unwrap(), flight.bytes());
    ring.landed(flight);
}

/// The child process: writes until it is killed.
#[test]
fn child() {
    let Ok(seed) = std::env::var(CHILD) else { return };
    let parent = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().unwrap());
    let receive = || {
        let (_, descriptor) = receive_descriptor(&parent).unwrap().unwrap();
        Memory::attach(descriptor.unwrap(), 1 << 20).unwrap()
    };
    let (ring, mut done, mut home) = (receive(), part(receive()), part(receive()));
    let mut ring = Ring::in_memory(ring, &IDENTITY, SIZES);
    let seed = seed.parse().unwrap();
    let mut dice = Dice::new(seed);
    let mut flights = Vec::new();
    for number in 1.. {
        let (first, count) = write(seed, number);
        let (offset, bytes) = ((first * SECTOR) as u64, bytes(number, count));
        while ring.write(offset, &bytes, Duration::ZERO).is_err() {
            flights.extend(ring.take(Duration::ZERO, Haste::All));
            land(&mut ring, &mut home, flights.remove(0));
        }
        done.store(0, &number.to_le_bytes());
        if dice.one_in(4) {
            let haste = if dice.one_in(2) { Haste::All } else { Haste::Blocks };
            flights.extend(ring.take(Duration::ZERO, haste));
        }
        if dice.one_in(6) && !flights.is_empty() {
            let flight = flights.remove(dice.index(flights.len()));
            land(&mut ring, &mut home, flight);
        }
    }
}

fn part(memory: Memory) -> MemoryPart {
    let size = memory.size();
    memory.split(&[size]).remove(0)
}

fn shared(size: usize) -> (MemoryPart, OwnedFd) {
    let (memory, descriptor) = Memory::shared("seawall-test", size).unwrap();
    (part(memory), descriptor)
}

/// Kills a writer and checks what it left. Returns the number of writes that had returned.
fn kill_one(seed: u64) -> u64 {
    let (ring_size, home_size) = (kept_size(SIZES.0, SIZES.1), SECTOR * SECTORS);
    let [ring, done, home] = [ring_size, 8, home_size].map(shared);
    let (to_child, from_parent) = UnixStream::pair().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact"])
        .env(CHILD, seed.to_string())
        .stdin(OwnedFd::from(from_parent))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for (_, descriptor) in [&ring, &done, &home] {
        send_descriptor(&to_child, b'm', Some(descriptor.as_fd())).unwrap();
    }
    let progress = || u64::from_le_bytes(done.0.bytes().try_into().unwrap());
    while progress() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the child failed");
        thread::yield_now();
    }
    SystemClock::new().sleep(Duration::from_micros(Dice::new(seed).below(300)));
    child.kill().unwrap();
    child.wait().unwrap();

    let returned = progress();
    let kept = Kept::read(Memory::attach(&ring.1, 1 << 20).unwrap()).unwrap();
    assert_eq!((kept.identity, kept.lost), (IDENTITY, 0));
    let mut found = home.0.bytes().to_vec();
    for (_, offset, bytes) in kept.runs() {
        let at = usize::try_from(offset).unwrap();
        found[at..at + bytes.len()].copy_from_slice(bytes);
    }
    let mut newest = [0; SECTORS];
    for number in 1..=returned {
        let (first, count) = write(seed, number);
        newest[first..first + count].fill(number);
    }
    let (first, count) = write(seed, returned + 1);
    for (n, (sector, newest)) in found.chunks(SECTOR).zip(newest).enumerate() {
        let is_under_way = (first..first + count).contains(&n) && sector == bytes(returned + 1, 1);
        let is_right = is_under_way || sector == bytes(newest, 1);
        let has = u64::from_le_bytes(sector[..8].try_into().unwrap());
        assert!(is_right, "seed {seed}, sector {n}: {has}, not {newest} of {returned}");
    }
    returned
}

#[test]
fn killed_writer_loses_nothing_and_tears_no_sector() {
    let kills = std::env::var("SEAWALL_KILLS").map_or(300, |kills| kills.parse().unwrap());
    let writes: u64 = (0..kills).map(kill_one).sum();
    assert!(writes > kills * 10, "{writes} writes in {kills} runs");
}
