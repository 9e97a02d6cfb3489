//! Deterministic random numbers: the same seed gives the same sequence.

/// A source of random choices, determined by a seed.
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
    /// Creates the generator for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(STRIDE)))
    }

    /// Returns any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        mix(self.0)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.any().checked_rem(end).unwrap_or(0)
    }

    /// Returns true once in `turns` calls, on average.
    pub fn one_in(&mut self, turns: u64) -> bool {
        self.below(turns) == 0
    }

    /// Returns an index into `length` items; 0 if there are none.
    pub fn index(&mut self, length: usize) -> usize {
        let end = u64::try_from(length).expect("fits in 64 bits");
        usize::try_from(self.below(end)).expect("the number is below a length")
    }

    /// Returns a byte.
    pub fn byte(&mut self) -> u8 {
        self.any().to_le_bytes()[0]
    }

    /// Returns fewer than `end` bytes.
    pub fn bytes(&mut self, end: usize) -> Vec<u8> {
        let length = self.index(end);
        self.many(length, Self::byte)
    }

    /// Returns `count` values made by `draw`.
    pub fn many<T>(&mut self, count: usize, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| draw(self)).collect()
    }

    /// Returns one of the choices; `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.index(choices.len()))
    }
}

/// Checks `property` with the seeds below `count`. Prints the seed if it panics.
///
/// # Examples
///
/// ```
/// seawall_testkit::each_seed(100, |dice| {
///     let bytes = dice.bytes(20);
///     assert_eq!(bytes.iter().rev().rev().count(), bytes.len());
/// });
/// ```
pub fn each_seed(count: u64, mut property: impl FnMut(&mut Dice)) {
    for seed in 0..count {
        let named = Named(seed);
        property(&mut Dice::new(seed));
        drop(named);
    }
}

/// Prints the seed if the property panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with Dice::new({})", self.0);
        }
    }
}

/// The output function of Steele, Lea and Flood's `SplitMix64`.
fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
