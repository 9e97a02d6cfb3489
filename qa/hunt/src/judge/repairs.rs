//! Checks what repairs of a damaged log keep: a salvage all that is readable, a truncation of the
//! tail all records before the damage.

use super::{Case, Reading, lost};
use seawall::damage::{Damage, Lost};
use seawall::recovery::TailState;
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Lsn};
use seawall_format::SegmentId;
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Case<'_> {
    /// Checks that a salvage writes a sound log with all readable records except those of broken
    /// sets, or refuses the log with `NotALog`.
    pub(super) fn salvages(&self, skipping: &Reading) {
        let source: Arc<dyn Storage> = Arc::new(self.damaged.kill());
        let target: Arc<dyn Storage> = Arc::new(MemStorage::new());
        let rescued = match self.sample.kind.maintenance(&source).salvage_to(target.clone()) {
            Ok(rescued) => rescued,
            Err(Error::NotALog { .. }) => {
                assert_eq!(skipping.delivered, BTreeSet::new(), "readable, and no log");
                return;
            }
            Err(error) => panic!("salvage: {error}"),
        };
        let found = self.sample.kind.maintenance(&target).verify();
        let found = found.unwrap_or_else(|error| panic!("the rescued: {error}"));
        assert_eq!(found.verdict, Verdict::Clean, "the rescued log: {found:?}");
        let kept = self.read_repaired(target, false);
        let count = |of: &BTreeSet<u64>| u64::try_from(of.len()).unwrap();
        assert_eq!((found.records, rescued.records), (count(&kept), count(&kept)));
        let lacks: BTreeSet<_> = skipping.delivered.difference(&kept).copied().collect();
        assert!(count(&lacks) <= rescued.broken_sets, "{lacks:?} are not rescued: {rescued:?}");
        for lsn in lacks {
            let is_named = super::names(rescued.given_up.iter().copied(), lsn);
            assert!(is_named, "record {lsn} is readable, and silently not rescued: {rescued:?}");
            let is_whole = |lsn| lsn < self.sample.first || skipping.delivered.contains(&lsn);
            // A line in a wrong place can make others a set.
            let is_broken = self.change.act.is_copy() || !self.sample.set_of(lsn).all(is_whole);
            assert!(is_broken, "record {lsn} of no broken set is not rescued: {rescued:?}");
        }
        let more: Vec<_> = kept.difference(&skipping.delivered).collect();
        assert!(more.is_empty(), "{more:?} are rescued, and no reader shows them");
    }

    /// The records that a repaired log delivers.
    fn read_repaired(&self, storage: Arc<dyn Storage>, skip: bool) -> BTreeSet<u64> {
        let reader = self.sample.kind.reader(storage).expect("it is a log").skip_damaged(skip);
        let mut reading = Reading::default();
        self.read_to_the_end(reader.cursor(reader.oldest().unwrap()).unwrap(), &mut reading);
        assert!(skip || reading.errors == 0, "it is clean, and its reader meets damage");
        reading.delivered
    }

    /// Checks that truncating the damaged tail leaves a sound log with the records before the
    /// damage, or is refused because of damage.
    pub(super) fn cuts(&self, found: &Verification, skipping: &Reading) {
        let device = self.damaged.kill();
        let storage: Arc<dyn Storage> = Arc::new(device.clone());
        let cut = match self.sample.kind.maintenance(&storage).truncate_damaged_tail() {
            Ok(cut) => cut,
            Err(Error::Damaged { .. }) => return,
            Err(error) => panic!("cut: {error}"),
        };
        let after = self.sample.kind.maintenance(&storage).verify();
        let after = after.unwrap_or_else(|error| panic!("after a cut: {error}"));
        // Like an open, a truncation does not read bodies before the checkpoint.
        let is_needed = |lost: &Lost| lost.to.is_none_or(|to| to.get() >= self.sample.checkpoint);
        let is_sound = !lost(&after.damage).any(|lost| is_needed(&lost));
        assert!(after.verdict == Verdict::Clean || is_sound, "after a cut: {after:?}");
        assert_eq!(after.tail, TailState::Clean, "after a cut: {after:?}");
        // It reads those of the whole segment that holds the checkpoint.
        let checked = self.sample.stored.get(&self.sample.checkpoint);
        let checked = checked.and_then(|stored| SegmentId::from_file_name(&stored.head));
        let needed = found.damage.iter().filter(|damage| {
            damage.segment >= checked || damage.lost.as_ref().is_none_or(is_needed)
        });
        let mut before = skipping.delivered.clone();
        needed.for_each(|damage| before.retain(|lsn| self.is_before(*lsn, damage)));
        let kept = self.read_repaired(storage, true);
        let lacks: Vec<_> = before.difference(&kept).collect();
        assert!(lacks.is_empty(), "a cut takes {lacks:?} from before the damage: {found:?}");
        assert_eq!(kept.last().copied(), cut.last.map(Lsn::get), "the end of {cut:?}");
    }

    /// Whether record `lsn`, and the set that holds it, end before `damage`.
    fn is_before(&self, lsn: u64, damage: &Damage) -> bool {
        let stored = &self.sample.stored[self.sample.set_of(lsn).end()];
        let at = (damage.segment, usize::try_from(damage.offset.0).unwrap());
        (SegmentId::from_file_name(&stored.head), stored.bytes.end) <= at
    }
}
