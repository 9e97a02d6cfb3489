//! A set of LSNs, with one bit for each LSN in its range.

use seawall::Lsn;

const WORD: u64 = 64;

/// A set of LSNs that are at least `base`.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    base: Lsn,
    words: Vec<u64>,
}

impl Bits {
    /// Creates an empty set for LSNs from `base` on.
    pub(crate) fn from(base: Lsn) -> Self {
        Self { base, words: Vec::new() }
    }

    /// Adds `lsn` to the set.
    ///
    /// # Panics
    ///
    /// Panics if `lsn` is below the base: records are read from the base on.
    pub(crate) fn insert(&mut self, lsn: Lsn) {
        let (word, bit) = self.place(lsn).expect("records are read from the base on");
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        *self.words.get_mut(word).expect("the words were extended above") |= bit;
    }

    /// Returns whether the set contains `lsn`.
    pub(crate) fn contains(&self, lsn: Lsn) -> bool {
        let word = self.place(lsn).and_then(|(word, bit)| Some(self.words.get(word)? & bit));
        word.is_some_and(|found| found != 0)
    }

    fn place(&self, lsn: Lsn) -> Option<(usize, u64)> {
        let at = lsn.get().checked_sub(self.base.get())?;
        Some((usize::try_from(at / WORD).ok()?, 1 << (at % WORD)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_contains_exactly_what_was_inserted() {
        let lsn = |number| Lsn::new(number).unwrap();
        let mut bits = Bits::from(lsn(100));
        let put = [100, 163, 164, 9_000];
        for number in put {
            bits.insert(lsn(number));
        }
        let found: Vec<u64> = (1..20_000).filter(|&number| bits.contains(lsn(number))).collect();
        assert_eq!(found, put);
    }
}
