//! Random bits for epochs and log ids.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of random bits for the log.
pub trait Entropy: Debug + Send + Sync {
    /// 64 new random bits, never zero.
    ///
    /// # Errors
    ///
    /// The operating system's error.
    fn random(&self) -> io::Result<u64>;

    /// Fills `bytes` with new random bits.
    ///
    /// # Errors
    ///
    /// The operating system's error. The contents of `bytes` are useless then.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        for part in bytes.chunks_mut(8) {
            let random = self.random()?.to_le_bytes();
            part.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
        }
        Ok(())
    }
}

/// The operating system's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn random(&self) -> io::Result<u64> {
        loop {
            let mut bytes = [0; 8];
            let read = fill(&mut bytes)?;
            let number = u64::from_le_bytes(bytes);
            if read == bytes.len() && number != 0 {
                return Ok(number);
            }
        }
    }

    fn fill(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let read = fill(bytes)?;
            bytes = bytes.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn fill(bytes: &mut [u8]) -> io::Result<usize> {
    let flags = rustix::rand::GetRandomFlags::empty();
    Ok(rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut *bytes, flags))?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn fill(bytes: &mut [u8]) -> io::Result<usize> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let device =
        rustix::io::retry_on_intr(|| rustix::fs::open("/dev/urandom", flags, Mode::empty()))?;
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(&device, &mut *bytes))?)
}

/// Numbers that look random and follow from a seed, for tests and simulation.
///
/// No number repeats. They are predictable: never use them as keys.
///
/// # Examples
///
/// ```
/// use seawall_io::{Entropy, SeededEntropy};
///
/// let (one, other) = (SeededEntropy::new(7), SeededEntropy::new(7));
/// assert_eq!(one.random()?, other.random()?);
/// assert_ne!(one.random()?, one.random()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The sequence for `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn random(&self) -> io::Result<u64> {
        loop {
            let state = self.state.fetch_add(STRIDE, Ordering::Relaxed).wrapping_add(STRIDE);
            let number = splitmix64(state);
            if number != 0 {
                return Ok(number);
            }
        }
    }
}

/// Odd, so that the state visits all 64-bit numbers.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of Steele, Lea and Flood's `SplitMix64`; different states, different
/// numbers.
fn splitmix64(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_entropy_differs_each_time() {
        assert_ne!(SystemEntropy.random().unwrap(), SystemEntropy.random().unwrap());
    }

    #[test]
    fn seed_gives_the_published_sequence() {
        let entropy = SeededEntropy::new(1_234_567);
        let numbers = [(); 3].map(|()| entropy.random().unwrap());
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, published);
    }

    #[test]
    fn zero_is_never_returned() {
        let before_zero = SeededEntropy::new(0_u64.wrapping_sub(STRIDE));
        assert_ne!(before_zero.random().unwrap(), 0);
    }
}
