//! The table of a reused file: a checksum for each sector of records, as the previous segment in
//! the file left it.

use crate::disk::{Name, World, BLOCK, SECTOR};
use crate::format::*;
use crate::inspect::Segment;
use crate::rules::Rules;

/// Returns a checksum for each sector from `data` on.
pub fn sums(file: &[u8], data: usize) -> Vec<u32> {
    file.get(data..).unwrap_or(&[]).chunks_exact(SECTOR).map(|s| digest(7, s) as u32).collect()
}

/// Encodes the table of a file's content before the segment with this id and epoch.
pub fn encode(id: u16, epoch: u16, sums: &[u32]) -> Vec<u8> {
    let mut body: Vec<u8> =
        [id, epoch, sums.len() as u16, 0].iter().flat_map(|v| v.to_le_bytes()).collect();
    body.extend(sums.iter().flat_map(|s| s.to_le_bytes()));
    body.resize(body.len().next_multiple_of(8), 0);
    [digest(6, &body).to_le_bytes().to_vec(), body].concat()
}

/// Returns the table of a reused segment, if it exists and is valid.
pub fn of(w: &World, h: &Header) -> Option<Vec<u32>> {
    let table = w.names.get(&Name::Before(h.id))?;
    decode(&w.files[*table].cache, h)
}

fn decode(file: &[u8], h: &Header) -> Option<Vec<u32>> {
    let count = h.size as usize;
    let body = file.get(8..16 + (4 * count).next_multiple_of(8))?;
    let is_of_this_life =
        (half(body, 0), half(body, 2), half(body, 4) as usize) == (h.id, h.epoch, count);
    if word(file, 0) != digest(6, body) || !is_of_this_life {
        return None;
    }
    let sum = |at: &[u8]| u32::from_le_bytes(at.try_into().expect("four bytes"));
    Some(body[8..8 + 4 * count].chunks_exact(4).map(sum).collect())
}

/// The content of a file before the current segment.
enum Before {
    Zeros,
    Sums(Vec<u32>),
    /// Planted bug: every sector counts as unchanged.
    Anything,
    Unknown,
}

/// Which sectors after the end P of the valid batches were not written since the segment began.
pub struct Untouched<'a> {
    file: &'a [u8],
    before: Before,
    data: usize,
    p: usize,
    zeros_to: usize,
}

impl<'a> Untouched<'a> {
    pub fn after(w: &'a World, seg: &Segment, p: usize, r: &Rules, layout: Layout) -> Self {
        let h = seg.header;
        let before = match of(w, &h) {
            _ if !h.reused || !r.compare_with_table => Before::Zeros,
            Some(sums) => Before::Sums(sums),
            None if !r.doubt_without_table => Before::Anything,
            None => Before::Unknown,
        };
        let zeros_to = if r.zero_in_block { p.next_multiple_of(BLOCK) } else { usize::MAX };
        let file = &w.files[seg.file].cache;
        Untouched { file, before, data: data_start(layout, r.gap), p, zeros_to }
    }

    /// Returns whether one sector is untouched. Where only zeros are, bytes before P and from `end`
    /// on are ignored.
    fn is(&self, sector: usize, end: usize) -> bool {
        let (from, to) = (sector * SECTOR, (sector + 1) * SECTOR);
        let is_zero = || zero(self.file, from.max(self.p), to.min(end));
        match &self.before {
            Before::Zeros => is_zero(),
            Before::Anything => true,
            Before::Unknown => false,
            Before::Sums(sums) => {
                let now = self.file.get(from..to).map(|s| digest(7, s) as u32);
                let before = sums.get(sector.wrapping_sub(self.data / SECTOR));
                (now.is_some() && now.as_ref() == before) || (from < self.zeros_to && is_zero())
            }
        }
    }

    /// Returns whether each sector of a range is untouched.
    pub fn all(&self, from: usize, to: usize) -> bool {
        (from / SECTOR..to.div_ceil(SECTOR)).all(|s| self.is(s, to))
    }

    /// Returns whether some sector of a range is untouched, looking no further than `end`.
    pub fn any(&self, from: usize, to: usize, end: usize) -> bool {
        (from / SECTOR..to.div_ceil(SECTOR)).any(|s| self.is(s, end))
    }
}
