//! The datagrams between sender and witness: one for each count, and the answers.
//!
//! ```text
//! byte  size  field, little-endian
//!    0     8  magic        "SWHOLD01"
//!    8     8  run          a random number; the witness answers with magic and run
//!   16     8  number       1 and up
//!   24     8  time         microseconds since the sender has started
//!   32     8  announced    the same, when the power failure was announced; all ones: it was not
//!   40     8  ended        1: the sender was stopped by hand, otherwise 0
//! ```

const MAGIC: &[u8; 8] = b"SWHOLD01";
/// The size of a count in bytes.
pub(super) const SIZE: usize = 48;
/// The size of an answer in bytes.
pub(super) const ANSWER_SIZE: usize = 16;

/// The content of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) run: u64,
    pub(super) number: u64,
    pub(super) time_us: u64,
    /// When the power failure was announced.
    pub(super) announced_us: Option<u64>,
    /// The sender was stopped by hand.
    pub(super) is_last: bool,
}

impl Count {
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let announced_us = self.announced_us.unwrap_or(u64::MAX);
        let magic = u64::from_le_bytes(*MAGIC);
        let last = u64::from(self.is_last);
        let fields = [magic, self.run, self.number, self.time_us, announced_us, last];
        let mut bytes = [0; SIZE];
        let encoded = fields.map(u64::to_le_bytes);
        bytes.iter_mut().zip(encoded.as_flattened()).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Decodes a datagram; `None` if another program sent it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, []) = bytes.as_chunks::<8>() else { return None };
        let [magic, rest @ ..] = fields else { return None };
        let [run, number, time_us, announced_us, last] = rest else { return None };
        let field = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        (magic == MAGIC).then(|| Self {
            run: field(run),
            number: field(number),
            time_us: field(time_us),
            announced_us: Some(field(announced_us)).filter(|us| *us != u64::MAX),
            is_last: field(last) == 1,
        })
    }

    /// Returns the witness's answer to a count of this run.
    pub(super) fn answer(run: u64) -> [u8; ANSWER_SIZE] {
        let mut bytes = [0; ANSWER_SIZE];
        let fields = MAGIC.iter().copied().chain(run.to_le_bytes());
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_survives_its_encoding_and_other_bytes_are_refused() {
        for announced_us in [None, Some(0), Some(77)] {
            for is_last in [false, true] {
                let count = Count { run: 9, number: 3, time_us: 81, announced_us, is_last };
                assert_eq!(Count::decode(&count.encode()), Some(count));
                let mut other = count.encode();
                other[0] ^= 1;
                assert_eq!(Count::decode(&other), None);
                assert_eq!(Count::decode(&count.encode()[1..]), None);
            }
        }
        assert_eq!(Count::decode(&[]), None);
        assert_eq!(Count::decode(&[0; SIZE + 8]), None);
    }
}
