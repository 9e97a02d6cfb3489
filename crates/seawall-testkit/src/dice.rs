//! Numbers that follow from a seed: whatever is drawn here is drawn again by the same seed.

/// A source of choices that follow from a seed.
///
/// # Examples
///
/// ```
/// use seawall_testkit::Dice;
///
/// let (mut one, mut other) = (Dice::new(7), Dice::new(7));
/// assert_eq!(one.below(100), other.below(100));
/// ```
#[derive(Clone, Debug)]
pub struct Dice(u64);

/// Odd, so that the state visits all 64-bit numbers.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Dice {
    /// The choices that belong to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(STRIDE)))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        mix(self.0)
    }

    /// A number from 0 up to `end`, without it; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any().checked_rem(end).unwrap_or(0)
    }

    /// True once in `turns`, on average.
    pub fn one_in(&mut self, turns: u64) -> bool {
        self.below(turns) == 0
    }

    /// One of these; `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(choices.len()).expect("fits in 64 bits");
        choices.get(usize::try_from(self.below(count)).expect("less than a length"))
    }
}

/// The output function of Steele, Lea and Flood's `SplitMix64`.
fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
