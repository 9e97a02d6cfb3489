//! Segments that were removed, and whose bytes still stand on the device.
//!
//! A device that is told at once to discard 64 MiB may take ten milliseconds for it, and the next
//! barrier waits. So they go a few at a time, by the preparer; and at once where there is no
//! preparer, or somebody needs the room.

use crate::base::sync::{Mutex, MutexGuard};
use seawall_io::File;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

/// What is given back of one file at a time, for each file that waits. Where a scheduler tries
/// interleavings segments are small.
const PIECE: u64 = if cfg!(seawall_scheduled) { 1 << 10 } else { 256 << 10 };

/// The files, oldest first.
#[derive(Debug)]
pub(crate) struct Retired {
    /// Whether there is somebody to give them back bit by bit.
    is_tended: bool,
    /// Held while a piece is given back, which may take long: the other lock is not.
    in_hand: Mutex<()>,
    files: Mutex<VecDeque<Rest>>,
}

/// What is left of one.
#[derive(Debug)]
struct Rest {
    file: Arc<dyn File>,
    length: u64,
}

impl Retired {
    pub(crate) fn new(is_tended: bool) -> Self {
        Self { is_tended, in_hand: Mutex::default(), files: Mutex::default() }
    }

    /// Takes a file that has no name any more.
    pub(crate) fn add(&self, file: Arc<dyn File>) {
        // One whose length is not to be had goes at once, as a short one does.
        let length = file.len().unwrap_or(0);
        if self.is_tended && length > PIECE {
            self.lock().push_back(Rest { file, length });
        }
    }

    /// Whether nothing waits but what is being given back.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Gives back a piece of the oldest: the more files there are, the larger.
    pub(crate) fn give_back_some(&self) {
        let _hand = self.hand();
        let mut files = self.lock();
        let count = u64::try_from(files.len()).expect("fits in 64 bits");
        let Some(Rest { file, length }) = files.pop_front() else { return };
        drop(files);
        let length = length.saturating_sub(PIECE * count);
        if file.set_len(length).is_ok() && length > 0 {
            self.lock().push_front(Rest { file, length });
        }
    }

    /// Gives back everything; whether there was anything.
    pub(crate) fn give_back_all(&self) -> bool {
        let _hand = self.hand();
        let files = std::mem::take(&mut *self.lock());
        !files.is_empty()
    }

    /// Does what needs room on the device; where there is none, once more with what is given back.
    pub(crate) fn for_room<R>(&self, mut act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull && self.give_back_all() => {
                act()
            }
            done => done,
        }
    }

    fn hand(&self) -> MutexGuard<'_, ()> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Rest>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_io::{Access, MemStorage, Storage};

    /// Files of so many pieces, held, and where their lengths can be seen.
    fn held(is_tended: bool, pieces: &[u64]) -> (Retired, impl Fn() -> Vec<u64>) {
        let (storage, retired) = (MemStorage::new(), Retired::new(is_tended));
        let name = |number: usize| number.to_string();
        for (number, pieces) in pieces.iter().enumerate() {
            let file = storage.create(&name(number)).expect("a free name");
            file.set_len(pieces * PIECE).expect("it has room");
            retired.add(file);
        }
        let count = pieces.len();
        let length = move |number| {
            let file = storage.open(&name(number), Access::Read).expect("it is there");
            file.len().expect("it has one") / PIECE
        };
        (retired, move || (0..count).map(&length).collect())
    }

    #[test]
    fn one_goes_piece_by_piece_and_more_go_faster() {
        let (retired, lengths) = held(true, &[4]);
        for left in [3, 2, 1, 0] {
            assert!(!retired.is_empty());
            retired.give_back_some();
            assert_eq!(lengths(), [left]);
        }
        assert!(retired.is_empty());
        retired.give_back_some();
        let (retired, lengths) = held(true, &[4, 4, 4]);
        for left in [[1, 4, 4], [0, 4, 4], [0, 2, 4], [0, 0, 4], [0, 0, 3]] {
            retired.give_back_some();
            assert_eq!(lengths(), left);
        }
        assert!(retired.give_back_all() && retired.is_empty());
    }

    #[test]
    fn what_is_short_and_what_nobody_tends_is_not_held() {
        assert!(held(true, &[0, 1]).0.is_empty());
        assert!(held(false, &[4]).0.is_empty());
    }

    #[test]
    fn who_needs_room_has_what_is_held_and_tries_once_more() {
        for (pieces, kind, expected) in [
            (&[4][..], io::ErrorKind::StorageFull, 2),
            (&[], io::ErrorKind::StorageFull, 1),
            (&[4], io::ErrorKind::PermissionDenied, 1),
        ] {
            let (retired, _) = held(true, pieces);
            let mut tries = 0;
            let done = retired.for_room(|| {
                tries += 1;
                let has_room = !pieces.is_empty() && retired.is_empty();
                if has_room { Ok(()) } else { Err(kind.into()) }
            });
            assert_eq!((tries, done.is_ok()), (expected, expected == 2), "{kind} {pieces:?}");
        }
    }
}
