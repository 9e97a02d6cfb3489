//! Pseudo-random numbers: the same seed repeats the same run.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EA_4A11)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a size fits in 64 bits");
        usize::try_from(self.draw() % end).expect("it is below a size")
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.draw().is_multiple_of(times)
    }

    /// Returns a size from 1 to `max`; each power of two is as likely as the next.
    pub fn size(&mut self, max: usize) -> usize {
        let bits = usize::try_from(max.max(1).ilog2()).expect("at most 63") + 1;
        let top = 1_usize << self.below(bits);
        (top + self.below(top)).min(max)
    }

    /// Picks an element of `of`.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let noise = self.draw().to_le_bytes();
            chunk.copy_from_slice(&noise[..chunk.len()]);
        }
    }
}
