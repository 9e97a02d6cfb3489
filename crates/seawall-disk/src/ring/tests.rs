//! Tests of the ring: no written byte is lost or replaced by an older one.

use super::*;
use seawall_testkit::{Dice, each_seed};

const DISK: usize = 64 * 1024;
const NOW: Duration = Duration::ZERO;

#[derive(Clone, Debug)]
enum Act {
    Write { at: usize, size: usize, with: u8 },
    Take { haste: Haste },
    Land(usize),
    Fail(usize),
    Cut { kept: Vec<bool> },
}

fn act(dice: &mut Dice) -> Act {
    match dice.below(16) {
        // Some are longer than a buffer.
        0..3 => {
            let size_max = if dice.one_in(2) { 8999 } else { DISK };
            let size = 1 + dice.index(size_max);
            Act::Write { at: dice.index(DISK).min(DISK - size), size, with: dice.byte() }
        }
        // Writes the same few places repeatedly, as a log does.
        3..9 => {
            let (at, size) = (dice.index(40) * 512, 1 + dice.index(1199));
            Act::Write { at, size, with: dice.byte() }
        }
        9..12 => Act::Take { haste: if dice.one_in(2) { Haste::All } else { Haste::Blocks } },
        12..14 => Act::Land(dice.index(usize::MAX)),
        14 => Act::Fail(dice.index(usize::MAX)),
        _ => Act::Cut { kept: dice.many(64, |dice| dice.one_in(2)) },
    }
}

/// Writes the sectors of `flight` that `kept` selects to the device.
fn land_some(device: &mut [u8], flight: &Flight, kept: &[bool]) {
    let at = to_usize(flight.offset());
    for (n, (to, from)) in device[at..].iter_mut().zip(flight.bytes()).enumerate() {
        if kept[((at + n) / 512) % kept.len()] {
            *to = *from;
        }
    }
}

/// Overwrites bytes of the device at `offset` with the newer ones in the ring.
fn overwrite(ring: &Ring, offset: u64, bytes: &mut [u8]) {
    for (at, part) in ring.parts(offset, bytes.len()) {
        bytes[at..][..part.len()].copy_from_slice(part);
    }
}

/// Performs `acts` in their order and checks three things: reads return the newest bytes; a power
/// cut with a dump of the ring loses nothing; and when everything has landed, the device holds it.
fn nothing_is_lost(acts: Vec<Act>, (buffers, size): (usize, usize)) {
    let mut ring = Ring::new(buffers, size * 4096);
    let (mut truth, mut device) = (vec![0; DISK], vec![0; DISK]);
    let mut flights: Vec<Flight> = Vec::new();
    for act in acts {
        match act {
            Act::Write { at, size, with } => {
                let bytes = vec![with; size];
                let has_room = ring.has_room(to_u64(at), size);
                let taken = ring.write(to_u64(at), &bytes, NOW);
                assert_eq!(taken.is_ok(), has_room);
                if taken.is_ok() {
                    truth[at..at + size].copy_from_slice(&bytes);
                }
            }
            Act::Take { haste } => flights.extend(ring.take(NOW, haste)),
            Act::Land(which) if !flights.is_empty() => {
                let flight = flights.swap_remove(which % flights.len());
                land_some(&mut device, &flight, &[true]);
                ring.landed(flight);
            }
            Act::Fail(which) if !flights.is_empty() => {
                let flight = flights.swap_remove(which % flights.len());
                ring.failed(flight);
            }
            Act::Land(_) | Act::Fail(_) => {}
            Act::Cut { kept } => {
                let mut left = device.clone();
                for flight in &flights {
                    land_some(&mut left, flight, &kept);
                }
                for (_, offset, bytes) in ring.runs_by_age() {
                    left[to_usize(offset)..][..bytes.len()].copy_from_slice(bytes);
                }
                assert_eq!(&left, &truth);
            }
        }
        let mut read = device.clone();
        overwrite(&ring, 0, &mut read);
        assert!(read == truth, "a read");
        let mut part = device[1000..30_000].to_vec();
        overwrite(&ring, 1000, &mut part);
        assert!(part == truth[1000..30_000], "a read of a part");
        assert!(ring.dirty() <= buffers * size * 4096);
    }
    for flight in flights {
        ring.failed(flight);
    }
    while let Some(flight) = ring.take(NOW, Haste::All) {
        land_some(&mut device, &flight, &[true]);
        ring.landed(flight);
    }
    assert_eq!(ring.dirty(), 0);
    assert!(device == truth, "at the end");
}

#[test]
fn newest_bytes_are_read_dumped_and_written_last() {
    each_seed(400, |dice| {
        let sizes = (1 + dice.index(6), 1 + dice.index(4));
        let acts = 1 + dice.index(119);
        nothing_is_lost(dice.many(acts, act), sizes);
    });
}

/// Regression test: this sequence failed once.
#[test]
fn bytes_written_twice_keep_the_last_write() {
    let write = |at, size, with| Act::Write { at, size, with };
    let take = |haste| Act::Take { haste };
    let first = [(10_201, 1), (9827, 1), (0, 1), (123, 1209), (0, 1), (0, 1), (0, 1)];
    let mut acts = first.map(|(at, size)| write(at, size, 0)).to_vec();
    let takes = [Haste::All, Haste::All, Haste::Blocks].map(take);
    acts.extend(takes.into_iter().chain([write(0, 1, 1), write(0, 1, 1)]));
    nothing_is_lost(acts, (5, 1));
}

#[test]
fn sequential_writes_form_one_run() {
    let mut ring = Ring::new(6, 512 * 1024);
    for n in 0..64u64 {
        ring.write(n * 8192, &[1; 8192], NOW).unwrap();
        // The last page is written again, as databases do.
        ring.write(n * 8192, &[2; 8192], NOW).unwrap();
    }
    let flight = ring.take(NOW, Haste::Blocks).unwrap();
    assert_eq!((flight.offset(), flight.bytes().len()), (0, 512 * 1024));
    assert!(ring.take(NOW, Haste::All).is_none());
}

#[test]
fn old_runs_go_first_and_small_ones_within_a_second() {
    let mut ring = Ring::new(6, 64 * 1024);
    ring.write(0, &[1; 100], NOW).unwrap();
    ring.write(200_000, &[1; 9000], NOW).unwrap();
    ring.write(100_000, &[1; 5000], NOW).unwrap();
    let take = |ring: &mut Ring, now| ring.take(now, Haste::Blocks).map(|flight| flight.offset());
    assert_eq!(take(&mut ring, NOW), Some(200_000));
    assert_eq!(take(&mut ring, NOW), Some(100_000));
    assert_eq!(take(&mut ring, Duration::from_millis(999)), None);
    assert_eq!(take(&mut ring, Duration::from_secs(1)), Some(0));
}

#[test]
fn runs_of_a_block_linger_until_half_of_the_buffers_are_used() {
    let mut ring = Ring::new(6, 64 * 1024);
    ring.write(0, &[1; 8192], NOW).unwrap();
    assert!(ring.take(NOW, Haste::Calm).is_none());
    assert_eq!(ring.due(Haste::Calm), Some(2 * LINGER));
    assert_eq!(ring.due(Haste::Blocks), Some(NOW));
    let later = LINGER - Duration::from_nanos(1);
    ring.write(64 * 1024, &[1; 8192], later).unwrap();
    let due = [0, 64 * 1024].map(Some);
    let taken = due.map(|_| ring.take(2 * LINGER, Haste::Calm).map(|flight| flight.offset()));
    assert_eq!(taken, due, "those of one turn are due together");

    // A full buffer waits to share a flush with the next ones.
    ring.write(1 << 20, &vec![1; 64 * 1024], NOW).unwrap();
    assert!(ring.take(NOW, Haste::Calm).is_none());

    ring.write(2 << 20, &[1; 4096], NOW).unwrap();
    assert_eq!(ring.take(NOW, Haste::Calm).map(|flight| flight.offset()), Some(1 << 20));
    assert_eq!(ring.take(NOW, Haste::Calm).map(|flight| flight.offset()), Some(2 << 20));
}

#[test]
fn newer_bytes_stay_newer_after_a_failed_run() {
    let mut ring = Ring::new(6, 64 * 1024);
    ring.write(0, &[1; 4096], NOW).unwrap();
    let first = ring.take(NOW, Haste::Blocks).unwrap();
    ring.write(4096, &[2; 4096], NOW).unwrap();
    let second = ring.take(NOW, Haste::Blocks).unwrap();
    ring.failed(first);
    // The first run ends here and could be extended, but a newer run in flight has these bytes.
    ring.write(4096, &[3; 100], NOW).unwrap();
    let mut read = [0; 8192];
    overwrite(&ring, 0, &mut read);
    assert_eq!((read[4095], read[4096], read[4196]), (1, 3, 2));
    ring.landed(second);
    overwrite(&ring, 0, &mut read);
    assert_eq!((read[4095], read[4096]), (1, 3));
}

#[test]
fn full_ring_refuses_new_bytes_but_accepts_overwrites() {
    let mut ring = Ring::new(2, 4096);
    ring.write(0, &[1; 8192], NOW).unwrap();
    assert_eq!(ring.write(8192, &[1; 1], NOW), Err(Full));
    assert_eq!(ring.write(8000, &[2; 500], NOW), Err(Full));
    ring.write(4000, &[3; 500], NOW).unwrap();
    let mut read = vec![0; 8192];
    overwrite(&ring, 0, &mut read);
    assert_eq!((read[3999], read[4000], read[4499], read[4500], read[8000]), (1, 3, 3, 1, 1));
    assert_eq!(ring.write(u64::MAX, &[1; 2], NOW), Err(Full));
}

#[test]
fn device_blocks_are_memory_blocks() {
    let mut ring = Ring::new(1, 64 * 1024);
    ring.write(4096 * 5 + 100, &[1; 9000], NOW).unwrap();
    let flight = ring.take(NOW, Haste::Blocks).unwrap();
    assert_eq!(flight.bytes().as_ptr().addr() % BLOCK_SIZE, 100);
}
