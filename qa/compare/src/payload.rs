//! The payloads to write, determined by a seed and a number, and the check that they are read back.

use seawall_measure::machine::Stopwatch;
use seawall_measure::slice::{Slice, nanoseconds};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// The smallest payload: only its number.
pub(crate) const SIZE_MIN: usize = 8;
/// Number of records per measured read time.
pub(crate) const GROUP: u64 = 1_000;
const SEED: u64 = 0x5ea_3a11;

/// All payloads of one size: noise from a seed, combined with a different key for each number.
/// Making a payload must cost next to nothing compared with any reader.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    noise: Vec<u64>,
    size: usize,
}

impl Payloads {
    pub(crate) fn new(size: usize) -> Self {
        let noise = (1..).map(|place| mixed(SEED.wrapping_mul(place))).take(size.div_ceil(8));
        Self { noise: noise.collect(), size }
    }

    /// Writes payload `number` into `into`: its number, then bytes that do not compress.
    fn fill(&self, number: u64, into: &mut [u8]) {
        let key = mixed(SEED ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (words, rest) = into.as_chunks_mut::<8>();
        for (word, noise) in words.iter_mut().zip(&self.noise) {
            *word = (noise ^ key).to_le_bytes();
        }
        let last = self.noise.last().map_or([0; 8], |noise| (noise ^ key).to_le_bytes());
        rest.iter_mut().zip(last).for_each(|(byte, noise)| *byte = noise);
        if let Some(head) = into.first_chunk_mut::<8>() {
            *head = number.to_le_bytes();
        }
    }

    /// Returns the first `count` payloads, starting with number 0.
    pub(crate) fn first(&self, count: usize) -> Vec<Vec<u8>> {
        let one = |number| {
            let mut payload = vec![0; self.size];
            self.fill(number, &mut payload);
            payload
        };
        (0..).map(one).take(count).collect()
    }
}

fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The order in which a reader may deliver records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// 0, 1, 2, ...
    #[default]
    Ascending,
    /// Any order, as several threads wrote them.
    Any,
    /// Any order, from a damaged log: wrong records are counted, and reading continues.
    Damaged,
}

/// The records that a damaged log delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivered {
    /// Unchanged records, each counted once.
    pub(crate) intact: u64,
    /// Changed records, and records that were delivered before.
    pub(crate) wrong: u64,
}

impl Display for Delivered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} intact, {} wrong", self.intact, self.wrong)
    }
}

impl Delivered {
    /// Parses the output of `Display`. Returns zeros for any other text.
    pub(crate) fn parse(text: &str) -> Self {
        let numbers = text.strip_suffix(" wrong").and_then(|text| text.split_once(" intact, "));
        let [intact, wrong] = numbers
            .map_or([0, 0], |(intact, wrong)| [intact, wrong].map(|n| n.parse().unwrap_or(0)));
        Self { intact, wrong }
    }
}

/// Compares the records that a peer delivers with the payloads as they were written.
#[derive(Debug, Default)]
pub(crate) struct Check {
    order: Order,
    payloads: Payloads,
    expected: Vec<u8>,
    /// The records delivered so far, if they may come in any order.
    seen: Vec<bool>,
    count: u64,
    /// Number of the first record of this reading, and of the next record.
    start: u64,
    read: u64,
    wrong: Option<String>,
    /// The records of a damaged log.
    found: Delivered,
    /// When to stop reading; `None` to read to the end.
    until: Option<Duration>,
    watch: Option<Stopwatch>,
    last: Duration,
    times: Vec<u32>,
}

impl Check {
    /// Creates a check for `count` payloads of `size` bytes.
    pub(crate) fn new(count: usize, size: usize, order: Order) -> Self {
        Self {
            order,
            payloads: Payloads::new(size),
            expected: vec![0; size],
            seen: if order == Order::Ascending { vec![] } else { vec![false; count] },
            count: u64::try_from(count).expect("fits in 64 bits"),
            start: 0,
            read: 0,
            wrong: None,
            found: Delivered::default(),
            until: None,
            watch: None,
            last: Duration::ZERO,
            times: vec![],
        }
    }

    /// Starts a reading at record `start`, for the duration `until` or to the end.
    pub(crate) fn begin(&mut self, start: u64, until: Option<Duration>) {
        (self.start, self.read, self.until) = (start, start, until);
        (self.watch, self.last) = (Some(Stopwatch::start()), Duration::ZERO);
    }

    /// Checks one record. Returns whether the reader should deliver another.
    pub(crate) fn take(&mut self, payload: &[u8]) -> bool {
        let number = match (self.order, payload.first_chunk::<8>()) {
            (Order::Any | Order::Damaged, Some(head)) => u64::from_le_bytes(*head),
            _ => self.read,
        };
        self.payloads.fill(number, &mut self.expected);
        if self.order == Order::Damaged {
            let is_intact = payload == self.expected && self.is_new(number);
            let count = if is_intact { &mut self.found.intact } else { &mut self.found.wrong };
            *count += 1;
            return true;
        }
        if payload != self.expected {
            self.wrong = Some(format!("record {} is not what was written", self.read));
            return false;
        }
        if self.order == Order::Any && !self.is_new(number) {
            self.wrong = Some(format!("the record written as {number} came twice, or is not ours"));
            return false;
        }
        self.read += 1;
        !self.read.is_multiple_of(GROUP) || self.goes_on()
    }

    fn is_new(&mut self, number: u64) -> bool {
        let place = usize::try_from(number).ok().and_then(|place| self.seen.get_mut(place));
        place.is_some_and(|seen| !std::mem::replace(seen, true))
    }

    fn goes_on(&mut self) -> bool {
        let now = self.elapsed();
        self.times.push(nanoseconds(now.saturating_sub(std::mem::replace(&mut self.last, now))));
        self.until.is_none_or(|until| now < until)
    }

    fn elapsed(&self) -> Duration {
        self.watch.as_ref().map(Stopwatch::elapsed).unwrap_or_default()
    }

    /// Ends a reading and returns its number of records and its duration. Fails if a record is
    /// wrong or missing.
    pub(crate) fn end(&mut self) -> Result<(u64, Duration), String> {
        let took = self.elapsed();
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        let is_enough = self.until.is_some_and(|until| took >= until);
        if self.read != self.count && !is_enough {
            return Err(format!("{} of {} records came back", self.read, self.count));
        }
        if self.read > self.count {
            return Err(format!("{} records came back, and {} went in", self.read, self.count));
        }
        Ok((self.read - self.start, took))
    }

    /// The records of a damaged log so far.
    pub(crate) fn delivered(&self) -> Delivered {
        self.found
    }

    /// Summarises several readings: their rate, and the time of each group of records.
    pub(crate) fn slice(&mut self, read: u64, spent: Duration) -> Slice {
        let per_second = seawall_measure::human::to_f64(read) / spent.as_secs_f64().max(1e-9);
        Slice { per_second, times: std::mem::take(&mut self.times) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &[Vec<u8>], order: Order) -> Result<(u64, Duration), String> {
        let mut check = Check::new(3, 20, order);
        check.begin(0, None);
        let _ = records.iter().all(|record| check.take(record));
        check.end()
    }

    #[test]
    fn a_reader_must_deliver_exactly_what_was_written() {
        let records = Payloads::new(20).first(4);
        assert_eq!(read(&records[..3], Order::Ascending).unwrap().0, 3);
        let mut turned = records[..3].to_vec();
        turned.swap(0, 2);
        assert_eq!(read(&turned, Order::Any).unwrap().0, 3);
        read(&turned, Order::Ascending).unwrap_err();
        read(&records[..2], Order::Ascending).unwrap_err();
        read(&records[..2], Order::Any).unwrap_err();
        read(&records, Order::Ascending).unwrap_err();
        read(&records, Order::Any).unwrap_err();
        read(&[records[0].clone(), records[0].clone(), records[1].clone()], Order::Any)
            .unwrap_err();
    }

    #[test]
    fn a_changed_byte_is_found_wherever_it_is() {
        for place in 0..20 {
            let mut records = Payloads::new(20).first(3);
            records[1][place] ^= 1;
            read(&records, Order::Ascending).unwrap_err();
            read(&records, Order::Any).unwrap_err();
        }
    }

    #[test]
    fn records_of_a_damaged_log_are_counted_as_intact_or_wrong() {
        let mut records = Payloads::new(20).first(3);
        records[1][15] ^= 1;
        records.push(records[0].clone());
        let mut check = Check::new(3, 20, Order::Damaged);
        assert!(records.iter().all(|record| check.take(record)));
        let delivered = check.delivered();
        assert_eq!(delivered, Delivered { intact: 2, wrong: 2 });
        assert_eq!(Delivered::parse(&delivered.to_string()), delivered);
    }

    #[test]
    fn payloads_do_not_repeat() {
        let records = Payloads::new(24).first(2_000);
        let parts: std::collections::BTreeSet<_> =
            records.iter().flat_map(|record| record[8..].chunks(8)).collect();
        assert_eq!(parts.len(), 4_000);
    }
}
