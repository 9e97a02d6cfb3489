//! Searches a segment for the next batch header or line after a place that is not valid, one window
//! at a time.

use crate::binary::batch::{BatchHeader, HEADER_SIZE};
use crate::binary::scan::headers;
use crate::binary::step::Window;
use crate::fields::sizes::SECTOR;
use crate::files::before::Before;
use crate::ids::{Lsn, Offset, to_u64};
use crate::scan::scanner::{Cursor, Scanner};
use crate::tail;
use crate::text::line_set as lines;

/// State and result of a search.
#[derive(Clone, Copy, Debug)]
pub struct HeaderSearch {
    /// The highest record that a header after the start confirms.
    pub confirmed: Option<Lsn>,
    /// Offset after the last byte that a write reached: in a new file, after the last nonzero byte.
    pub used: Offset,
    /// The next batch header that can belong to this log.
    pub next: Option<(Offset, BatchHeader)>,
    /// A header before this offset is not the next one.
    from: Offset,
    /// Where the next window begins.
    at: Offset,
    /// In a text: whether a line begins at `at`.
    at_line: bool,
    /// End of the part of the file that can hold records.
    end: u64,
}

impl HeaderSearch {
    /// Starts a search in a file whose records end before `end`.
    #[must_use]
    pub fn new(scanner: &Scanner, from: Offset, end: u64) -> Self {
        let used = scanner.valid_end();
        let (at, at_line) = match scanner.cursor {
            Cursor::Binary(_) => (start_of(scanner, used), false),
            // Begins one byte early, to see whether a line begins here.
            Cursor::Text(_) => (Offset(used.0.saturating_sub(1)), used.0 == 0),
        };
        Self { confirmed: None, used, next: None, from, at, at_line, end }
    }

    /// Bytes per window, at least `read_size`.
    #[must_use]
    pub fn window(scanner: &Scanner, read_size: u64) -> u64 {
        match scanner.cursor {
            Cursor::Binary(_) => read_size,
            // The longest line and the start of the next.
            Cursor::Text(_) => read_size.max(lines::line_max(scanner.life()) + 64),
        }
    }

    /// Where the next window begins; `None` if the search is complete.
    #[must_use]
    pub fn next_window(&self) -> Option<Offset> {
        (self.at.0 < self.end).then_some(self.at)
    }

    /// Searches the window `bytes` at offset `at`. Returns whether the zeros after it may be
    /// skipped with [`skip_hole`](Self::skip_hole).
    pub fn look(&mut self, scanner: &Scanner, at: Offset, bytes: &[u8]) -> bool {
        match scanner.cursor {
            Cursor::Binary(_) => self.look_for_batches(scanner, at, bytes),
            Cursor::Text(_) => self.look_for_lines(scanner, at, bytes),
        }
        // A sparse text file may be as long as the file system allows.
        matches!(scanner.cursor, Cursor::Text(_)) && tail::is_zero(bytes)
    }

    fn look_for_batches(&mut self, scanner: &Scanner, at: Offset, bytes: &[u8]) {
        let from = at.max(scanner.valid_end());
        for (offset, header) in headers(Window { start: at, bytes }, from, scanner.life()) {
            self.confirmed = self.confirmed.max(header.confirmed());
            let follows = offset >= self.from && header.first >= scanner.next_lsn();
            if follows && self.next.is_none() {
                self.next = Some((offset, header));
            }
        }
        if let Some(end) = touched_to(scanner, at, bytes) {
            self.used = self.used.max(end);
        }
        // Keep a header that continues in the next window.
        let unit = if let Before::Zeros = scanner.before() { 8 } else { SECTOR };
        let whole = bytes.len().saturating_sub(HEADER_SIZE - 8) / unit * unit;
        self.at = at.plus(to_u64(if whole == 0 { bytes.len() } else { whole }));
    }

    /// Skips zeros of a text file up to `next`: no line begins there.
    pub fn skip_hole(&mut self, next: Option<Offset>) {
        // Begins one byte early: the zero shows that no line begins at `next` either.
        let next = next.map_or(self.end, |next| next.0.saturating_sub(1));
        self.at = self.at.max(Offset(next.min(self.end)));
    }

    /// Checks each line using only its own bytes, so that no byte is checked twice.
    fn look_for_lines(&mut self, scanner: &Scanner, at: Offset, bytes: &[u8]) {
        let is_last = at.plus(to_u64(bytes.len())).0 >= self.end;
        let mut starts = lines::starts(bytes, self.at_line).peekable();
        // A line may continue in the next window.
        let mut seen = bytes.len();
        while let Some(start) = starts.next() {
            let stop = starts.peek().copied().unwrap_or(bytes.len());
            if starts.peek().is_none() && !is_last && start > 1 {
                seen = start;
                break;
            }
            let line = bytes.get(start..stop).unwrap_or_default();
            let Some(header) = lines::header_at(line, scanner.life()) else { continue };
            self.confirmed = self.confirmed.max(header.confirmed());
            let offset = at.plus(to_u64(start));
            // The scanner has already refused this line with the expected LSN: an atomic set cannot
            // continue with it, or an earlier read of it differed.
            let goes_on = offset > scanner.offset() || header.first > scanner.next_lsn();
            let follows = offset >= self.from && header.first >= scanner.next_lsn();
            if follows && goes_on && self.next.is_none() {
                self.next = Some((offset, header));
            }
        }
        let used = bytes.get(..seen).unwrap_or_default();
        if let Some(last) = used.iter().rposition(|byte| !tail::is_blank(*byte)) {
            self.used = self.used.max(at.plus(to_u64(last) + 1));
        }
        // Keep the line break and a line start that the window splits.
        let overlap = if is_last { 0 } else { seen.min(lines::START_SIZE + 1) };
        let step = if seen < bytes.len() { seen - 1 } else { seen - overlap };
        self.at = if is_last { Offset(self.end) } else { at.plus(to_u64(step.max(1))) };
        self.at_line = false;
    }
}

/// Where the search for batches begins: in a reused file, at the start of a sector.
fn start_of(scanner: &Scanner, end: Offset) -> Offset {
    if let Before::Zeros = scanner.before() { end } else { tail::sector_start(end) }
}

/// Offset after the last byte in the window `bytes` at offset `at` that a write reached.
fn touched_to(scanner: &Scanner, at: Offset, bytes: &[u8]) -> Option<Offset> {
    let before = scanner.before();
    if let Before::Zeros = before {
        return Some(at.plus(to_u64(length_without_zeros(bytes)?)));
    }
    let (end, block) = (scanner.valid_end().0, u64::from(scanner.life().block));
    let places = (end, end.next_multiple_of(block));
    let count = bytes.len().div_ceil(SECTOR);
    (0..count).rev().find_map(|number| {
        let sector = bytes.get(number * SECTOR..)?;
        let sector = sector.get(..SECTOR).unwrap_or(sector);
        let start = at.plus(to_u64(number * SECTOR));
        let is_untouched = before.is_untouched((start.0, sector), places);
        (!is_untouched).then(|| start.plus(to_u64(sector.len())))
    })
}

/// The length of `bytes` without the zeros at their end; `None` if all are zero.
fn length_without_zeros(bytes: &[u8]) -> Option<usize> {
    // Sector by sector, which is faster than byte by byte.
    let (sectors, rest) = bytes.as_chunks::<SECTOR>();
    let last = |part: &[u8]| part.iter().rposition(|byte| *byte != 0);
    if let Some(last) = last(rest) {
        return Some(sectors.as_flattened().len() + last + 1);
    }
    let number = sectors.iter().rposition(|sector| !tail::is_zero(sector))?;
    let last = last(sectors.get(number)?)?;
    Some(number * SECTOR + last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::batch::{BodyKind, Life, Spec, finish};
    use crate::binary::frame;
    use crate::binary::step::Limit;
    use crate::files::segment::SegmentHeader;
    use crate::ids::{Epoch, LogId, SegmentId};
    use crate::types::{CodecId, Compression, Geometry, Layout, RecordType};

    fn header() -> SegmentHeader {
        SegmentHeader {
            geometry: Geometry::DEFAULT,
            log: LogId(3),
            authenticator: None,
            id: SegmentId::FIRST,
            epoch: Epoch(9),
            base: Lsn::FIRST,
            carried: None,
            size: 1 << 20,
            pred: None,
            pred_chain: 0,
            layout: Layout::Binary,
            is_reused: false,
            named_ahead: false,
            in_flight_max: 1,
            compression_max: Compression::None,
            record_type: RecordType::of(CodecId::Raw),
            time_us: 0,
        }
    }

    /// Searches for the only batch among zeros, in windows of `size` bytes.
    fn found_in_windows_of(size: usize) -> HeaderSearch {
        let header = header();
        let scanner = Scanner::new(&header, header.size, Limit::Open);
        let start = scanner.offset();
        let mut bytes = vec![0; 4096];
        let at = start.plus(1000);
        let mut batch = vec![0; HEADER_SIZE];
        frame::push_unbound(&mut batch, b"seven", false);
        let (first, confirmed) = (Lsn::new(7).unwrap(), Lsn::new(5));
        let spec =
            Spec { first, count: 1, kind: BodyKind::Frames, confirmed, chain: 0, time_us: 0 };
        finish(&mut batch, spec, at, &Life::of(&header));
        bytes[1000..1000 + batch.len()].copy_from_slice(&batch);
        let mut rest = HeaderSearch::new(&scanner, start.plus(8), start.0 + 4096);
        while let Some(at) = rest.next_window() {
            let from = usize::try_from(at.0 - start.0).unwrap();
            rest.look(&scanner, at, &bytes[from..(from + size).min(4096)]);
        }
        rest
    }

    #[test]
    fn last_byte_that_is_not_zero_is_found_wherever_it_is() {
        for size in [0, 1, 511, 512, 513, 1500, 1536] {
            assert_eq!(length_without_zeros(&vec![0; size]), None, "{size}");
            for at in 0..size {
                let mut bytes = vec![0; size];
                bytes[..=at].fill(7);
                assert_eq!(length_without_zeros(&bytes), Some(at + 1), "{at} of {size}");
                bytes[..at].fill(0);
                assert_eq!(length_without_zeros(&bytes), Some(at + 1), "{at} of {size}, alone");
            }
        }
    }

    #[test]
    fn header_across_two_windows_is_found() {
        for size in (48..2048).step_by(8) {
            let rest = found_in_windows_of(size);
            let (offset, header) = rest.next.expect("the batch is there");
            assert_eq!(
                (offset.0 % 4096, header.first.get()),
                ((4 * 4096 + 65_536 + 1000) % 4096, 7)
            );
            assert_eq!(rest.confirmed, Lsn::new(5), "windows of {size}");
            assert_eq!(rest.used.0, offset.0 + 48 + 8 + 5, "windows of {size}");
        }
    }
}
