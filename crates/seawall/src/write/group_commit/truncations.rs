//! How far truncations at the end of the log went, for followers that have not noticed them.

use seawall_format::Lsn;

/// Entries kept. With more, the two oldest become one, so a follower that reads nothing for as many
/// truncations may be told of an earlier one, too.
const ENTRIES_MAX: usize = 1024;

/// The truncations of an open log.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    count: u64,
    /// The number of a truncation and the first LSN that it gave up. Each is lower than in all
    /// later truncations.
    lowest: Vec<(u64, Lsn)>,
}

impl Truncations {
    /// Adds a truncation that gave up `first` and all later records.
    pub(crate) fn push(&mut self, first: Lsn) {
        while self.lowest.pop_if(|(_, other)| *other >= first).is_some() {}
        self.lowest.push((self.count, first));
        self.count += 1;
        if self.lowest.len() > ENTRIES_MAX {
            let (_, oldest) = self.lowest.remove(0);
            self.lowest.iter_mut().take(1).for_each(|(_, first)| *first = oldest);
        }
    }

    /// The lowest LSN that a truncation after the first `seen` ones gave up.
    pub(crate) fn lowest_since(&self, seen: u64) -> Option<Lsn> {
        let mut since = self.lowest.iter().filter(|(number, _)| *number >= seen);
        since.next().map(|(_, first)| *first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(number: u64) -> Lsn {
        Lsn::new(number).expect("not 0")
    }

    #[test]
    fn lowest_truncation_since_any_other_is_known() {
        let firsts = [9, 4, 7, 7, 5, 8];
        let mut truncations = Truncations::default();
        for first in firsts {
            truncations.push(lsn(first));
        }
        for seen in 0..=firsts.len() {
            let lowest = firsts[seen..].iter().min().map(|first| lsn(*first));
            assert_eq!(truncations.lowest_since(u64::try_from(seen).expect("few")), lowest);
        }
    }

    #[test]
    fn old_truncations_are_joined() {
        let mut truncations = Truncations::default();
        for first in 1..=2000 {
            truncations.push(lsn(first));
        }
        assert_eq!(truncations.lowest.len(), ENTRIES_MAX);
        assert_eq!(truncations.lowest_since(0), Some(lsn(1)));
        assert_eq!(truncations.lowest_since(1999), Some(lsn(2000)));
    }
}
