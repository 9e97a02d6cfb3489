//! The end of a life, and the state of the device after it.

use seawall_testkit::Dice;
use seawall_testkit::{CrashOutcome, MemStorage, Pending, What};

use crate::plan::{Cut, End, Unit};

impl End {
    /// The step after which the device refuses all calls.
    pub(crate) fn step(self) -> Option<u64> {
        match self {
            Self::Kill(step) | Self::Power(step, _) | Self::Detach(step, _) => Some(step),
            Self::Close | Self::Drop => None,
        }
    }

    /// Whether a sector may be half written or garbled, so that the end of the log can look like
    /// damage.
    pub(crate) fn may_tear(self) -> bool {
        let tears = [Unit::Byte, Unit::Block];
        matches!(self, Self::Power(_, cut) | Self::Detach(_, cut) if tears.contains(&cut.unit))
    }

    /// Returns the device as the next life finds it.
    pub(crate) fn left(self, device: &MemStorage) -> MemStorage {
        match self {
            Self::Close | Self::Drop | Self::Kill(_) => device.kill(),
            Self::Power(_, cut) => device.power_cut(cut.lands()),
            Self::Detach(_, cut) => device.detach(cut.lands()),
        }
    }
}

impl Cut {
    /// Decides for each pending item, in order, how much of it reaches the device.
    fn lands(self) -> impl FnMut(&Pending) -> CrashOutcome {
        let mut dice = Dice::new(self.seed);
        let style = dice.below(6);
        let prefix = dice.below(24);
        let mut turn = 0;
        let mut pages: Vec<((String, u64), bool)> = vec![];
        move |item| {
            turn += 1;
            if self.unit == Unit::Chosen {
                return CrashOutcome::from(self.seed >> ((turn - 1) % 64) & 1 == 1);
            }
            match style {
                0 => return CrashOutcome::Lost,
                1 => return CrashOutcome::Whole,
                2 => return CrashOutcome::from(turn <= prefix),
                _ => {}
            }
            match (self.unit, item.what) {
                (Unit::Byte, What::Sector(_)) if dice.one_in(3) => {
                    let at = usize::try_from(dice.below(512)).expect("a small number");
                    if dice.one_in(2) { CrashOutcome::First(at) } else { CrashOutcome::Behind(at) }
                }
                (Unit::Block, What::Sector(_)) if dice.one_in(2) => CrashOutcome::Garbled(512),
                (Unit::Page, What::Sector(number)) => {
                    let page = (item.file.clone(), number / 8);
                    let known = pages.iter().find(|(other, _)| *other == page);
                    let lands = known.map_or_else(|| dice.one_in(2), |(_, lands)| *lands);
                    pages.push((page, lands));
                    CrashOutcome::from(lands)
                }
                _ => CrashOutcome::from(dice.one_in(2)),
            }
        }
    }
}
