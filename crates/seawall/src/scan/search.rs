//! Searches a segment for the next batch header or line after a place that is not valid, one window
//! at a time.

use crate::base::error::Result;
use crate::base::num::{READ_SIZE, to_u64};
use crate::files::segment_reader::SegmentReader;
use seawall_format::batch::{BatchHeader, HEADER_SIZE};
use seawall_format::scan::{Scanner, Window, headers};
use seawall_format::{Layout, Lsn, Offset, lines, tail};

/// State and result of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderSearch {
    /// The highest record that a header after the start confirms.
    pub(crate) confirmed: Option<Lsn>,
    /// Offset after the last byte that is not zero.
    pub(crate) used: Offset,
    /// The next batch header that can belong to this log.
    pub(crate) next: Option<(Offset, BatchHeader)>,
    /// A header before this offset is not the next one.
    from: Offset,
    /// Where the next window begins.
    at: Offset,
    /// Whether a line begins at `at`.
    at_line: bool,
    /// End of the part of the file that can hold records.
    end: u64,
}

impl HeaderSearch {
    /// Starts a search in a file whose records end before `end`.
    pub(crate) fn new(scanner: &Scanner, from: Offset, end: u64) -> Self {
        let (at, used) =
            (scanner.offset(), scanner.part().map_or(scanner.offset(), |part| part.end));
        match scanner.layout() {
            // Begins one byte early, to see whether a line begins here.
            Layout::Text => {
                let (at, at_line) = (Offset(used.0.saturating_sub(1)), used.0 == 0);
                Self { confirmed: None, used, next: None, from, at, at_line, end }
            }
            _ => Self { confirmed: None, used: at, next: None, from, at, at_line: false, end },
        }
    }

    /// Bytes per window.
    pub(crate) fn window(scanner: &Scanner) -> u64 {
        match scanner.layout() {
            // The longest line and the start of the next.
            Layout::Text => READ_SIZE.max(lines::line_max(scanner.life()) + 64),
            _ => READ_SIZE,
        }
    }

    /// Where the next window begins; `None` if the search is complete.
    pub(crate) fn next_window(&self) -> Option<Offset> {
        (self.at.0 < self.end).then_some(self.at)
    }

    /// Searches the window `bytes` at offset `at`.
    pub(crate) fn scan_window(&mut self, scanner: &Scanner, at: Offset, bytes: &[u8]) {
        if scanner.layout() == Layout::Text {
            return self.scan_lines(scanner, at, bytes);
        }
        for (offset, header) in headers(Window { start: at, bytes }, at, scanner.life()) {
            self.confirmed = self.confirmed.max(header.confirmed());
            let follows = offset >= self.from && header.first >= scanner.next_lsn();
            if follows && self.next.is_none() {
                self.next = Some((offset, header));
            }
        }
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            self.used = at.plus(to_u64(last) + 1);
        }
        // Keep a header that continues in the next window.
        let whole = bytes.len().saturating_sub(HEADER_SIZE - 8) / 8 * 8;
        self.at = at.plus(to_u64(if whole == 0 { bytes.len() } else { whole }));
    }

    /// Skips zeros of a text file up to `next`: no line begins there.
    pub(crate) fn skip_hole(&mut self, next: Option<Offset>) {
        // Begins one byte early: the zero shows that no line begins at `next` either.
        let next = next.map_or(self.end, |next| next.0.saturating_sub(1));
        self.at = self.at.max(Offset(next.min(self.end)));
    }

    /// Checks each line using only its own bytes, so that no byte is checked twice.
    fn scan_lines(&mut self, scanner: &Scanner, at: Offset, bytes: &[u8]) {
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

/// Searches from where `scanner` stopped up to the next batch, or to the end if `whole`.
pub(crate) fn search(
    source: &mut SegmentReader,
    scanner: &Scanner,
    from: Offset,
    whole: bool,
) -> Result<HeaderSearch> {
    let mut rest = HeaderSearch::new(scanner, from, source.end()?);
    while let Some(at) = rest.next_window() {
        let bytes = source.read(at, HeaderSearch::window(scanner))?;
        if bytes.is_empty() {
            break;
        }
        rest.scan_window(scanner, at, &bytes);
        if rest.next.is_some() && !whole {
            break;
        }
        // A sparse text file may be as long as the file system allows: skip its holes.
        if scanner.layout() == Layout::Text && tail::is_zero(&bytes) {
            let after = at.plus(to_u64(bytes.len()));
            rest.skip_hole(source.next_written(after)?);
        }
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::batch::{Life, Spec, finish};
    use seawall_format::scan::Limit;
    use seawall_format::{Epoch, Geometry, LogId, RecordType, SegmentHeader, SegmentId};

    fn header() -> SegmentHeader {
        SegmentHeader {
            geometry: Geometry::DEFAULT,
            log: LogId(3),
            id: SegmentId::FIRST,
            epoch: Epoch(9),
            base: Lsn::FIRST,
            carried: None,
            size: 1 << 20,
            pred: None,
            pred_chain: 0,
            layout: Layout::Binary,
            record_type: RecordType::of(seawall_format::CodecId::Raw),
            time_us: 0,
        }
    }

    /// Searches zeros with one batch in the middle, in windows of `size` bytes.
    fn found_in_windows_of(size: usize) -> HeaderSearch {
        let header = header();
        let scanner = Scanner::new(&header, header.size, Limit::Open);
        let start = scanner.offset();
        let mut bytes = vec![0; 4096];
        let at = start.plus(1000);
        let mut batch = vec![0; HEADER_SIZE];
        seawall_format::frame::push_unbound(&mut batch, b"seven", false);
        let (first, confirmed) = (Lsn::new(7).unwrap(), Lsn::new(5));
        let spec = Spec { first, count: 1, is_void: false, confirmed, chain: 0, time_us: 0 };
        finish(&mut batch, spec, at, &Life::of(&header));
        bytes[1000..1000 + batch.len()].copy_from_slice(&batch);
        let mut rest = HeaderSearch::new(&scanner, start.plus(8), start.0 + 4096);
        while let Some(at) = rest.next_window() {
            let from = usize::try_from(at.0 - start.0).unwrap();
            rest.scan_window(&scanner, at, &bytes[from..(from + size).min(4096)]);
        }
        rest
    }

    #[test]
    fn a_header_across_two_windows_is_found() {
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
