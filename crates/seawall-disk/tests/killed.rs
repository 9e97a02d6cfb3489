//! A process that uses a ring in shared memory is killed at random moments. What the ring and the
//! home hold together is each write that had returned, with each sector either old or new.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where it stands")]
#![allow(clippy::disallowed_methods, reason = "the files are outside the disk")]

use seawall_disk::{Flight, Identity, Kept, Ring, kept_size};
use seawall_io::Memory;
use seawall_testkit::Dice;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

const SECTOR: usize = 512;
const SECTORS: usize = 128;
const SIZES: (usize, usize) = (3, 8192);
const IDENTITY: Identity = Identity { state: 7, serve: 3, home_size: (SECTOR * SECTORS) as u64 };
/// Descriptors in the parent, and the seed.
const CHILD: &str = "SEAWALL_KILLED_CHILD";

/// A write of whole sectors that all hold its number.
fn write(seed: u64, number: u64) -> (usize, usize) {
    let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
    // Often the end of the last write again, as logs do.
    let first = if dice.one_in(3) { dice.index(SECTORS) } else { dice.index(12) };
    (first, (1 + dice.index(8)).min(SECTORS - first))
}

fn bytes(number: u64, sectors: usize) -> Vec<u8> {
    number.to_le_bytes().repeat(sectors * SECTOR / 8)
}

fn land(ring: &mut Ring, home: &File, flight: Flight) {
    home.write_all_at(flight.bytes(), flight.offset()).unwrap();
    ring.landed(flight);
}

/// The process that is killed: writes until then.
#[test]
fn child() {
    let Ok(given) = std::env::var(CHILD) else { return };
    let [ring, done, home, seed] = given.split(' ').collect::<Vec<_>>()[..] else { panic!() };
    let open = |path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let home = open(home);
    let ring = Memory::attach(open(ring), 1 << 20).unwrap();
    let mut done = Memory::attach(open(done), 4096).unwrap().split(&[8]);
    let mut ring = Ring::in_memory(ring, &IDENTITY, SIZES);
    let seed = seed.parse().unwrap();
    let mut dice = Dice::new(seed);
    let mut flights = Vec::new();
    for number in 1.. {
        let (first, count) = write(seed, number);
        let (offset, bytes) = ((first * SECTOR) as u64, bytes(number, count));
        while ring.write(offset, &bytes, Duration::ZERO).is_err() {
            flights.extend(ring.take(Duration::ZERO, true));
            land(&mut ring, &home, flights.remove(0));
        }
        done[0].store(0, &number.to_le_bytes());
        if dice.one_in(4) {
            flights.extend(ring.take(Duration::ZERO, dice.one_in(2)));
        }
        if dice.one_in(6) && !flights.is_empty() {
            let flight = flights.remove(dice.index(flights.len()));
            land(&mut ring, &home, flight);
        }
    }
}

fn path_of(descriptor: &impl AsRawFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd())
}

/// Kills a writer and compares what is left. Returns the number of writes that had returned.
fn kill_one(home: &Path, seed: u64) -> u64 {
    let (_, ring) = Memory::shared("ring", kept_size(SIZES.0, SIZES.1)).unwrap();
    let (done_here, done) = Memory::shared("done", 4096).unwrap();
    std::fs::write(home, vec![0; SECTOR * SECTORS]).unwrap();
    let given = [&path_of(&ring), &path_of(&done), home.to_str().unwrap(), &seed.to_string()];
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact"])
        .env(CHILD, given.map(str::to_owned).join(" "))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let progress = || u64::from_le_bytes(done_here.bytes()[..8].try_into().unwrap());
    while progress() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the child failed");
        thread::yield_now();
    }
    thread::sleep(Duration::from_micros(Dice::new(seed).below(300)));
    child.kill().unwrap();
    child.wait().unwrap();

    let returned = progress();
    let kept = Kept::read(Memory::attach(&ring, 1 << 20).unwrap()).unwrap();
    assert_eq!((kept.identity, kept.lost), (IDENTITY, 0));
    let mut found = std::fs::read(home).unwrap();
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
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("home-{}", std::process::id()));
    let kills = std::env::var("SEAWALL_KILLS").map_or(1000, |kills| kills.parse().unwrap());
    let writes: u64 = (0..kills).map(|seed| kill_one(&home, seed)).sum();
    std::fs::remove_file(home).unwrap();
    assert!(writes > kills * 10, "{writes} writes in {kills} runs");
}
