//! Classifies the bytes after the last batch of the newest segment: requests the bytes that it
//! needs, then says what they are. format.md sections 7 and 9.4.

use crate::fields::sizes::SECTOR;
use crate::ids::{Offset, to_u64};
use crate::scan::scanner::{Cursor, Scanner};
use crate::tail::{Row, Tail, TextTail, classify, is_zero, sector_start, window};
use crate::text::line_set as lines;

/// A classification in progress.
#[derive(Debug)]
pub struct EndScan<'a> {
    scanner: &'a Scanner,
    /// Offset after the last byte of the file that a write reached.
    used: Offset,
    /// Offset of the next byte to show.
    at: Offset,
    /// No byte from here on is shown.
    limit: Offset,
    seen: Seen,
}

/// What the bytes shown so far are.
#[derive(Debug)]
enum Seen {
    /// `None` until the bytes are shown, all at once.
    Batches(Option<Row>),
    Lines(TextTail),
}

impl<'a> EndScan<'a> {
    /// Starts where `scanner` stopped; no write reached the bytes from `used` on.
    #[must_use]
    pub fn new(scanner: &'a Scanner, used: Offset) -> Self {
        let end = scanner.valid_end();
        let mut at = end;
        let (size, seen) = match scanner.cursor {
            Cursor::Binary(_) if used == at => (0, Seen::Batches(Some(Row::Clean))),
            Cursor::Binary(_) => {
                // Whole sectors: a sector of a reused file is compared with what it held before.
                at = sector_start(end);
                let size = end.0 - at.0 + to_u64(window(scanner.life()));
                (size.next_multiple_of(to_u64(SECTOR)), Seen::Batches(None))
            }
            // Bounded, because the size in a forged header can be arbitrarily large.
            Cursor::Text(_) => (lines::write_max(scanner.life()), Seen::Lines(TextTail::default())),
        };
        Self { scanner, used, at, limit: at.plus(size), seen }
    }

    /// The bytes to show next, fewer only at the end of the file. `None` if no more are needed.
    #[must_use]
    pub fn next_read(&self, read_size: u64) -> Option<(Offset, u64)> {
        let left = self.limit.0.saturating_sub(self.at.0);
        match self.seen {
            Seen::Batches(None) => Some((self.at, left)),
            Seen::Batches(Some(_)) => None,
            Seen::Lines(_) => Some((self.at, left.min(read_size))).filter(|_| left > 0),
        }
    }

    /// Examines the bytes requested by [`next_read`](Self::next_read). Returns whether the zeros
    /// after them may be skipped with [`skip_hole`](Self::skip_hole).
    pub fn look(&mut self, bytes: &[u8]) -> bool {
        let after = self.at.plus(to_u64(bytes.len()));
        match &mut self.seen {
            Seen::Batches(row) => {
                let (goes_on, offset) = (self.used > after, self.scanner.valid_end());
                let (next, chain) = (self.scanner.next_lsn(), self.scanner.chain());
                let lead = usize::try_from(offset.0 - self.at.0).expect("less than a sector");
                let (lead, bytes) = bytes.split_at_checked(lead).unwrap_or((bytes, &[]));
                let before = self.scanner.before();
                let tail = Tail { lead, bytes, goes_on, before, offset, next, chain };
                *row = Some(classify(&tail, self.scanner.life()));
                false
            }
            Seen::Lines(tail) => {
                tail.look(bytes);
                self.at = after;
                is_zero(bytes)
            }
        }
    }

    /// Where the bytes shown so far end.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.at
    }

    /// Skips a hole of the file up to `next`, or to its end.
    pub fn skip_hole(&mut self, next: Option<Offset>) {
        self.at = next.unwrap_or(self.limit).max(self.at);
    }

    /// The row that fits, and whether the file contains exactly what the writer wrote.
    #[must_use]
    pub fn row(&self) -> (Row, bool) {
        match self.seen {
            Seen::Batches(row) => (row.unwrap_or(Row::Otherwise), true),
            Seen::Lines(tail) => {
                let set_is_open = self.scanner.part().is_some();
                let row = tail.row(self.used > self.at.min(self.limit), set_is_open);
                let is_all = !set_is_open && self.at == self.scanner.valid_end();
                (row, self.scanner.is_exact() && is_all)
            }
        }
    }
}
