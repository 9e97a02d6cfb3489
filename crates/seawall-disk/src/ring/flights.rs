//! Flights that a single write to the device can cover.

use super::Flight;
use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use seawall_io::AlignedMemory;

/// The most bytes of adjacent runs that are written in one piece.
const JOINED_MAX: usize = 1 << 20;

/// The number of flights at the front that a single write to the device can cover.
pub(crate) fn adjacent(flights: &[Flight]) -> usize {
    let mut size = 0;
    let fit = flights.iter().zip(flights.iter().skip(1)).take_while(|(flight, next)| {
        size += flight.bytes().len();
        flight.end() == next.offset() && size + next.bytes().len() <= JOINED_MAX
    });
    1 + fit.count()
}

/// The bytes of adjacent flights in one piece, aligned in memory as on the device.
pub(crate) fn join<'a>(flights: &'a [Flight], memory: &'a mut AlignedMemory) -> &'a [u8] {
    if let [only] = flights {
        return only.bytes();
    }
    let offset = flights.first().map_or(0, Flight::offset);
    let start = to_usize(offset % to_u64(BLOCK_SIZE));
    let size: usize = flights.iter().map(|flight| flight.bytes().len()).sum();
    let (_, all) = memory.first(start + size).split_at_mut(start);
    let mut rest = &mut *all;
    for flight in flights {
        let (here, behind) = rest.split_at_mut(flight.bytes().len());
        here.copy_from_slice(flight.bytes());
        rest = behind;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Haste, Ring};
    use std::time::Duration;

    fn flights(ring: &mut Ring) -> Vec<Flight> {
        std::iter::from_fn(|| ring.take(Duration::ZERO, Haste::All)).collect()
    }

    #[test]
    fn adjacent_flights_become_one_piece_that_is_aligned_as_the_device() {
        let mut ring = Ring::new(4, 4096);
        let bytes: Vec<u8> = (0..=255).cycle().take(8000).collect();
        ring.write(4096 + 512, &bytes, Duration::ZERO).unwrap();
        ring.write(64 * 1024, &[1; 100], Duration::ZERO).unwrap();
        let flights = flights(&mut ring);
        assert_eq!((flights.len(), adjacent(&flights)), (3, 2), "the last one is apart");
        let mut memory = AlignedMemory::default();
        let joined = join(&flights[..2], &mut memory);
        assert_eq!(joined, bytes);
        assert_eq!(joined.as_ptr().addr() % BLOCK_SIZE, 512);
    }

    #[test]
    fn pieces_are_limited() {
        let size = JOINED_MAX / 4;
        let mut ring = Ring::new(6, size);
        ring.write(0, &vec![1; 6 * size], Duration::ZERO).unwrap();
        let flights = flights(&mut ring);
        assert_eq!((adjacent(&flights), adjacent(&flights[4..])), (4, 2));
    }
}
