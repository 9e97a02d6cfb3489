//! Flights that one write can write.

use super::Flight;
use crate::layout::{BLOCK_SIZE, to_u64, to_usize};
use seawall_io::AlignedMemory;

/// The most bytes of adjacent runs that are written in one piece.
const JOINED_MAX: usize = 1 << 20;

/// The number of flights at the front that one write can write.
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
