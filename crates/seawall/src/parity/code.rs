//! The Reed-Solomon code over the blocks of a stripe.

use reed_solomon_simd::{Error, ReedSolomonDecoder, ReedSolomonEncoder};
use seawall_format::parity::{Known, Places};
use std::fmt;

/// The library rejects counts and sizes that format.md does not allow, and no others.
const POSSIBLE: &str = "as many blocks, of the size, as the code was made for";

/// Computes the slots of one segment's stripes.
pub(crate) struct Coder {
    places: Places,
    encoder: ReedSolomonEncoder,
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coder").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Coder {
    pub(crate) fn new(places: Places) -> Self {
        let (data, parity) = (places.scheme().data(), places.scheme().parity());
        let encoder = ReedSolomonEncoder::new(data, parity, places.block()).expect(POSSIBLE);
        Self { places, encoder }
    }

    /// The slot of stripe `number`: its checksums and parity blocks. `stripe` is the whole stripe,
    /// with zeros after `covered` bytes.
    pub(crate) fn slot(&mut self, number: u64, stripe: &[u8], covered: usize) -> Vec<u8> {
        let block = self.places.block();
        let mut checksums: Vec<u32> = stripe.chunks_exact(block).map(Known::checksum).collect();
        let mut parity = Vec::with_capacity(self.places.scheme().parity() * block);
        for data in stripe.chunks_exact(block) {
            self.encoder.add_original_shard(data).expect(POSSIBLE);
        }
        let encoded = self.encoder.encode().expect(POSSIBLE);
        for computed in encoded.recovery_iter() {
            checksums.push(Known::checksum(computed));
            parity.extend_from_slice(computed);
        }
        let mut slot = Known { number, covered, checksums }.encode(&self.places);
        slot.append(&mut parity);
        slot
    }
}

/// The blocks of a stripe that differ from their checksums. `stripe` has zeros in place of bytes
/// that are not covered or cannot be read.
pub(crate) fn lost_blocks(places: &Places, known: &Known, stripe: &[u8]) -> Vec<usize> {
    let blocks = stripe.chunks_exact(places.block()).zip(&known.checksums).enumerate();
    let lost = blocks.filter(|(_, (block, checksum))| Known::checksum(block) != **checksum);
    lost.map(|(number, _)| number).collect()
}

/// Whether the parity blocks of a slot match their checksums.
pub(crate) fn has_sound_parity(places: &Places, known: &Known, slot: &[u8]) -> bool {
    let parity = slot.get(places.known_size()..).unwrap_or_default().chunks_exact(places.block());
    let sums = known.checksums.iter().skip(places.scheme().data());
    let sound = parity.zip(sums).filter(|(block, sum)| Known::checksum(block) == **sum);
    sound.count() == places.scheme().parity()
}

/// Rebuilds the `lost` blocks of a stripe, in their order, from the other blocks and the slot.
/// `None` if more blocks are lost than valid parity can restore, or if the result does not match
/// the checksums.
pub(crate) fn rebuild(
    places: &Places,
    (known, slot): (&Known, &[u8]),
    (stripe, lost): (&[u8], &[usize]),
) -> Option<Vec<Vec<u8>>> {
    let (scheme, block) = (places.scheme(), places.block());
    let decode = || -> Result<Option<Vec<Vec<u8>>>, Error> {
        let mut code = ReedSolomonDecoder::new(scheme.data(), scheme.parity(), block)?;
        for (number, data) in stripe.chunks_exact(block).enumerate() {
            if !lost.contains(&number) {
                code.add_original_shard(number, data)?;
            }
        }
        let parity = slot.get(places.known_size()..).unwrap_or_default().chunks_exact(block);
        let sums = known.checksums.iter().skip(scheme.data());
        let sound = parity.zip(sums).enumerate();
        let sound = sound.filter(|(_, (block, sum))| Known::checksum(block) == **sum);
        let mut left = lost.len();
        for (number, (data, _)) in sound {
            code.add_recovery_shard(number, data)?;
            left = left.saturating_sub(1);
        }
        if left > 0 {
            return Ok(None);
        }
        let restored = code.decode()?;
        Ok(lost
            .iter()
            .map(|number| restored.restored_original(*number).map(<[u8]>::to_vec))
            .collect())
    };
    let found = decode().ok()??;
    let is_known = |(number, block): (&usize, &Vec<u8>)| {
        known.checksums.get(*number) == Some(&Known::checksum(block))
    };
    lost.iter().zip(&found).all(is_known).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_format::parity::Scheme;
    use seawall_format::{
        CodecId, Compression, Epoch, Geometry, Layout, LogId, Lsn, RecordType, SegmentHeader,
        SegmentId,
    };

    fn places(scheme: Scheme, block: u32) -> Places {
        let header = SegmentHeader {
            geometry: Geometry { block, reach: block, batch_max: 4096 },
            log: LogId(7),
            authenticator: None,
            id: SegmentId::FIRST,
            epoch: Epoch(77),
            base: Lsn::FIRST,
            carried: None,
            size: 1 << 20,
            pred: None,
            pred_chain: 0,
            layout: Layout::Binary,
            is_reused: false,
            named_ahead: false,
            in_flight_max: 1,
            compression_max: Compression::None,
            record_type: RecordType { codec: CodecId::Raw, name: String::new(), schema: 0 },
            time_us: 3,
        };
        Places::of(&header, scheme)
    }

    /// A stripe of pseudo-random bytes, with zeros from `covered` on.
    fn stripe(places: &Places, covered: usize) -> Vec<u8> {
        let size = usize::try_from(places.stripe_size()).unwrap();
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            state.to_le_bytes()[6]
        };
        let mut bytes: Vec<u8> = (0..size).map(|_| next()).collect();
        bytes[covered..].fill(0);
        bytes
    }

    #[test]
    fn any_lost_blocks_up_to_the_parity_count_can_be_rebuilt() {
        for (said, block) in [("16+2", 4096), ("4+1", 512), ("2+2", 512), ("64+16", 512)] {
            let places = places(said.parse().unwrap(), block);
            let covered = usize::try_from(places.stripe_size()).unwrap() - 700;
            let (whole, block) = (stripe(&places, covered), places.block());
            let slot = Coder::new(places).slot(5, &whole, covered);
            assert_eq!(slot.len(), places.slot_size());
            let known = Known::decode(&slot, 5, &places).unwrap();
            assert!(lost_blocks(&places, &known, &whole).is_empty());
            let (data, parity) = (places.scheme().data(), places.scheme().parity());
            for first in 0..data {
                let mut damaged = whole.clone();
                let mut lost: Vec<_> = (0..parity).map(|n| (first + n * 3) % data).collect();
                lost.sort_unstable();
                lost.dedup();
                for number in &lost {
                    damaged[number * block + first] ^= 0x10;
                }
                assert_eq!(lost_blocks(&places, &known, &damaged), lost);
                let found = rebuild(&places, (&known, &slot), (&damaged, &lost)).unwrap();
                for (number, found) in lost.iter().zip(&found) {
                    assert_eq!(found, &whole[number * block..][..block], "{said}: {number}");
                }
                // Each lost parity block reduces how many data blocks can be rebuilt.
                let mut less = slot.clone();
                *less.last_mut().unwrap() ^= 1;
                let left = rebuild(&places, (&known, &less), (&damaged, &lost));
                assert_eq!(left.is_some(), lost.len() < parity);
            }
            if data > parity {
                let lost: Vec<_> = (0..=parity).collect();
                assert_eq!(rebuild(&places, (&known, &slot), (&whole, &lost)), None);
            }
        }
    }

    #[test]
    fn rebuilt_block_is_used_only_if_its_checksum_matches() {
        let places = places(Scheme::DEFAULT, 512);
        let covered = usize::try_from(places.stripe_size()).unwrap();
        let whole = stripe(&places, covered);
        let slot = Coder::new(places).slot(0, &whole, covered);
        let known = Known::decode(&slot, 0, &places).unwrap();
        let mut damaged = whole;
        damaged[600] ^= 1;
        damaged[5000] ^= 1;
        // Only one of the two lost blocks is listed, so the computed block is wrong.
        assert_eq!(rebuild(&places, (&known, &slot), (&damaged, &[1])), None);
        assert_eq!(rebuild(&places, (&known, &slot[..200]), (&damaged, &[1, 9])), None);
        assert!(rebuild(&places, (&known, &slot), (&damaged, &[1, 9])).is_some());
    }

    /// The field of format.md section 10, implemented from its text.
    struct Field {
        /// The polynomial of each element of the library; `element` is the inverse.
        plain: Vec<u32>,
        element: Vec<u16>,
    }

    impl Field {
        const BASIS: [u32; 16] = [
            1, 44_234, 15_374, 5694, 50_562, 60_718, 37_196, 16_402, 27_800, 4312, 27_250, 47_360,
            64_952, 64_308, 65_336, 39_198,
        ];

        fn new() -> Self {
            let plain = |element: u32| {
                let bases = Self::BASIS.iter().enumerate();
                bases
                    .filter(|(bit, _)| element >> bit & 1 == 1)
                    .fold(0, |sum, (_, base)| sum ^ base)
            };
            let plain: Vec<u32> = (0..1 << 16).map(plain).collect();
            let mut element = vec![0; 1 << 16];
            for (number, plain) in plain.iter().enumerate() {
                element[usize::try_from(*plain).unwrap()] = u16::try_from(number).unwrap();
            }
            Self { plain, element }
        }

        fn product(&self, a: u16, b: u16) -> u16 {
            let (mut a, b) = (self.plain[usize::from(a)], self.plain[usize::from(b)]);
            let mut product = 0;
            for bit in 0..16 {
                if b >> bit & 1 == 1 {
                    product ^= a;
                }
                a <<= 1;
                if a >> 16 == 1 {
                    a ^= 0x1_002D;
                }
            }
            self.element[usize::try_from(product).unwrap()]
        }
    }

    /// Other versions of the library and other implementations must compute the same parity.
    #[test]
    fn parity_blocks_match_the_sums_of_the_format() {
        let field = Field::new();
        let places = places(Scheme::DEFAULT, 512);
        let covered = usize::try_from(places.stripe_size()).unwrap();
        let stripe = stripe(&places, covered);
        let slot = Coder::new(places).slot(0, &stripe, covered);
        let parity = &slot[places.known_size()..];
        // Element `number` of a block: 32 low bytes, then their 32 high bytes.
        let element = |block: &[u8], number: usize| {
            let at = number / 32 * 64 + number % 32;
            u16::from_le_bytes([block[at], block[at + 32]])
        };
        for which in 0..2 {
            let found = &parity[which * 512..][..512];
            for number in 0..256 {
                let sum = stripe.chunks_exact(512).zip(2_u16..).fold(0, |sum, (block, index)| {
                    let factor = index ^ 1 ^ u16::try_from(which).unwrap();
                    sum ^ field.product(factor, element(block, number))
                });
                assert_eq!(element(found, number), sum, "block {which}, element {number}");
            }
        }
    }
}
