//! Damages closed logs that have parity. Damage within the strength of parity must be corrected,
//! bit for bit, for every reader. Beyond it, every lost record must be reported. See format.md
//! section 10.

use crate::random::Random;
use crate::sample::{Bytes, Encoding, End, Kind, Past, Scale, contents, open};
use seawall::damage::{Damage, Lost};
use seawall::format::Geometry;
use seawall::parity::Parity;
use seawall::verify::Verdict;
use seawall::{Error, Layout, Lsn, Options};
use seawall_format::parity::{Head, Known, Places};
use seawall_format::{HEADER_SIZE, SegmentId};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The parity schemes to test.
pub const SCHEMES: [&str; 3] = ["2+1", "4+2", "16+2"];

/// Block size: larger than a sector, and small enough that a segment holds several stripes.
const BLOCK: u32 = 1024;

/// A closed log with parity, its records, and the layout of its stripes.
#[derive(Debug)]
struct Protected {
    kind: Kind,
    scheme: Parity,
    device: MemStorage,
    records: Vec<Vec<u8>>,
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    head: String,
    data: String,
    /// The blocks of each stripe that its parity slot covers.
    stripes: Vec<Vec<Range<usize>>>,
}

/// Total results of many cases.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of cases within the strength of parity: all damage was corrected.
    pub within: u64,
    /// Number of cases beyond the strength of parity.
    pub beyond: u64,
    /// Number of records that were lost and reported.
    pub named: u64,
    /// Number of damaged blocks.
    pub blocks: u64,
    /// The broken promises, each with the number of its case.
    pub broken: Vec<(u64, String)>,
}

/// The logs to damage.
#[derive(Debug)]
pub struct Bench {
    seed: u64,
    logs: Vec<Protected>,
}

/// A log with random damage.
struct Case<'a> {
    log: &'a Protected,
    damaged: MemStorage,
    is_beyond: bool,
    is_refused: bool,
    what: Vec<String>,
}

/// The kinds of logs that are damaged.
fn kinds() -> impl Iterator<Item = Kind> {
    let stored = [
        (Layout::Binary, Encoding::Plain),
        (Layout::Text, Encoding::Plain),
        (Layout::Binary, Encoding::Encrypted),
        (Layout::Binary, Encoding::Both),
    ];
    let (end, scale, past) = (End::Closed, Scale::Tiny, Past::Plain);
    stored.into_iter().map(move |(layout, encoding)| Kind {
        layout,
        end,
        scale,
        past,
        encoding,
        seed: 1,
    })
}

fn options(kind: Kind, luck: u64) -> Options {
    let least = if kind.layout == Layout::Text { 2048 } else { 7 * u64::from(BLOCK) };
    let geometry = Geometry { block: BLOCK, reach: BLOCK, batch_max: 2048 };
    kind.options(luck).geometry(geometry, least).segment_size(40 * u64::from(BLOCK))
}

impl Protected {
    fn make(kind: Kind, scheme: Parity) -> Self {
        let device = MemStorage::new();
        let log = open(&options(kind, 1).parity(Some(scheme)), &device).unwrap();
        let mut random = Random::new(u64::try_from(scheme.data()).unwrap());
        let mut records = vec![];
        for _ in 0..120 {
            let mut bytes = vec![0; random.size(1000)];
            random.fill(&mut bytes);
            if kind.layout == Layout::Text {
                let digits = bytes.iter().map(|byte| char::from(b'a' + byte % 26));
                bytes = format!("\"{}\"", digits.collect::<String>()).into_bytes();
            }
            log.append(&bytes).unwrap();
            records.push(bytes);
        }
        log.close().unwrap();
        // The device as it is after a reboot.
        let device = device.power_cut(|_| true);
        let segments = segments(&device);
        assert!(segments.len() > 2, "several segments");
        Self { kind, scheme, device, records, segments }
    }
}

fn segments(device: &MemStorage) -> Vec<Segment> {
    let sides =
        device.names().into_iter().filter(|name| SegmentId::from_parity_name(name).is_some());
    let segment = |side: String| {
        let parity = device.bytes(&side).unwrap();
        let head = Head::decode_file(&parity).unwrap();
        let places = Places::of(&head.header, head.scheme);
        let mut stripes = vec![];
        for number in 0.. {
            let at = usize::try_from(places.slot_at(number).0).unwrap();
            let Some(slot) = parity.get(at..) else { break };
            let Some(known) = Known::decode(slot, number, &places) else { break };
            let from = usize::try_from(places.stripe_at(number)).unwrap();
            let blocks = (0..known.covered).step_by(places.block());
            let end = from + known.covered;
            let range = |at: usize| from + at..(from + at + places.block()).min(end);
            stripes.push(blocks.map(range).collect());
        }
        Segment { head: head.header.head_name(), data: head.header.data_name(), stripes }
    };
    sides.map(segment).collect()
}

impl Bench {
    /// Writes the logs.
    ///
    /// # Panics
    ///
    /// Never: the schemes are valid.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let schemes = SCHEMES.map(|said| said.parse().unwrap());
        let logs = kinds().flat_map(|kind| schemes.map(|scheme| Protected::make(kind, scheme)));
        let logs = logs.collect();
        Self { seed, logs }
    }

    /// Number of logs.
    #[must_use]
    pub fn logs(&self) -> usize {
        self.logs.len()
    }

    /// Runs the cases `numbers` and adds their results to `report`.
    pub fn run(&self, numbers: Range<u64>, report: &mut Report) {
        for number in numbers {
            let case = self.draw(number);
            report.blocks += u64::try_from(case.what.len()).unwrap();
            *(if case.is_beyond { &mut report.beyond } else { &mut report.within }) += 1;
            match catch_unwind(AssertUnwindSafe(|| case.judge(&mut self.random(!number)))) {
                Ok(named) => report.named += named,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?");
                    report.broken.push((number, format!("{}: {text}", case.describe())));
                }
            }
        }
    }

    /// Runs case `number` without catching its panic; returns its description.
    ///
    /// # Panics
    ///
    /// If a promise is broken.
    #[must_use]
    pub fn one(&self, number: u64) -> String {
        let case = self.draw(number);
        case.judge(&mut self.random(!number));
        case.describe()
    }

    fn random(&self, number: u64) -> Random {
        Random::new(self.seed.rotate_left(32) ^ number)
    }

    fn draw(&self, number: u64) -> Case<'_> {
        let mut random = self.random(number);
        let log = random.pick(&self.logs);
        let damaged = log.device.kill();
        let is_beyond = random.once_in(4);
        let mut case = Case { log, damaged, is_beyond, is_refused: false, what: vec![] };
        let refuses = random.once_in(6);
        let only = (!random.once_in(8)).then(|| random.below(log.segments.len()));
        for (index, segment) in log.segments.iter().enumerate() {
            if only.is_none_or(|only| only == index) {
                case.harm_segment(&mut random, segment, refuses);
            }
        }
        if is_beyond {
            let segment = random.pick(&log.segments);
            let most = log.scheme.parity();
            let stripes: Vec<_> = segment.stripes.iter().filter(|s| s.len() > most).collect();
            if let Some(stripe) = (!stripes.is_empty()).then(|| *random.pick(&stripes)) {
                let count = most + 1 + random.below(stripe.len() - most);
                for block in some_of(&mut random, stripe, count) {
                    case.harm(&mut random, (&segment.data, block), false);
                }
            }
        }
        case
    }
}

/// Picks up to `count` different elements of `of`.
fn some_of<T: Clone>(random: &mut Random, of: &[T], count: usize) -> Vec<T> {
    let mut left: Vec<T> = of.to_vec();
    (0..count.min(of.len())).map(|_| left.remove(random.below(left.len()))).collect()
}

impl Case<'_> {
    fn describe(&self) -> String {
        let Self { log, what, .. } = self;
        let strength = if self.is_beyond { "beyond" } else { "within" };
        format!("{:?} {}, {strength}: {}", log.kind, log.scheme, what.join(", "))
    }

    /// Damages stripes of a segment, each in at most as many blocks as parity can restore, and
    /// sometimes the header.
    fn harm_segment(&mut self, random: &mut Random, segment: &Segment, refuses: bool) {
        let has_header = random.once_in(3);
        // At least one intact block must remain to show that the file belongs to the segment.
        let blocks: usize = segment.stripes.iter().map(Vec::len).sum();
        let mut left = blocks - usize::from(has_header).min(blocks);
        let sparse = !random.once_in(4);
        for stripe in &segment.stripes {
            if sparse && !random.once_in(3) {
                continue;
            }
            let count = (1 + random.below(self.log.scheme.parity())).min(left);
            left -= count;
            for block in some_of(random, stripe, count) {
                self.harm(random, (&segment.data, block), refuses);
            }
        }
        if has_header && blocks > 1 {
            // A header that the device refuses to read ends every operation, with or without
            // parity.
            self.harm(random, (&segment.head, 0..HEADER_SIZE), false);
        }
    }

    fn harm(&mut self, random: &mut Random, (file, at): (&str, Range<usize>), refuses: bool) {
        let act = random.below(if refuses { 6 } else { 5 });
        let name = ["a bit", "bytes", "a sector", "zeros", "garbage", "refused"][act];
        self.what.push(format!("{name} in {file} {at:?}"));
        if act == 5 {
            self.is_refused = true;
            return self.damaged.fail_read(file, at);
        }
        let place = at.start + random.below(at.len());
        let few = place..(place + random.size(8)).min(at.end);
        let sector = place / 512 * 512;
        let sector = sector.max(at.start)..(sector + 512).min(at.end);
        self.damaged.edit(file, |bytes| match act {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => random.fill(&mut bytes[few]),
            2 => random.fill(&mut bytes[sector]),
            3 => bytes[at].fill(0),
            _ => random.fill(&mut bytes[at]),
        });
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.damaged.clone())
    }

    /// Checks the promises; returns the number of records that are lost, all of them reported.
    fn judge(&self, random: &mut Random) -> u64 {
        let (before, mut missing) = (contents(&self.damaged), BTreeSet::new());
        let named = self.read(&mut missing);
        if !self.is_beyond {
            assert!(missing.is_empty(), "a reader lacks {missing:?}");
            assert_eq!(named, vec![], "and names them");
        }
        for lsn in &missing {
            assert!(names(&named, *lsn), "record {lsn} is silently missing for a reader");
        }
        self.get(random, &missing);
        self.verify(&missing);
        self.open(&missing);
        assert!(contents(&self.damaged) == before, "a reader changes nothing");
        u64::try_from(missing.len()).unwrap()
    }

    /// Returns the records that a reader reports as lost; adds those it does not deliver to
    /// `missing`.
    fn read(&self, missing: &mut BTreeSet<u64>) -> Vec<Lost> {
        let reader = self.log.kind.reader(self.storage()).expect("a reader opens");
        let cursor = reader.skip_damaged(true).cursor(Lsn::FIRST);
        let mut cursor = cursor.unwrap_or_else(|error| panic!("a reader begins: {error}"));
        let (mut named, mut errors) = (vec![], 0);
        // The first record that the reader did not get because the device refused to read.
        let mut refused: Option<Lsn> = None;
        let mut next = Lsn::FIRST;
        missing.extend(1..=u64::try_from(self.log.records.len()).unwrap());
        loop {
            match cursor.next_record() {
                Ok(Some(record)) => {
                    let lsn = record.lsn.get();
                    assert!(missing.remove(&lsn), "record {lsn} comes twice, or never was");
                    assert_eq!(Some(record.payload), self.record(lsn), "record {lsn}");
                    let before = refused.take().zip(record.lsn.previous());
                    named.extend(before.map(|(from, to)| Lost::new(from, Some(to))));
                    next = record.lsn.next();
                }
                Ok(None) => {
                    named.extend(refused.map(|from| Lost::new(from, None)));
                    return named;
                }
                Err(Error::Damaged { damage, .. }) => named.extend(damage.lost),
                Err(error) if self.is_refused && self.is_beyond && errors < 100 => {
                    // The reader need not report the records that it would find there.
                    assert!(matches!(error, Error::Io { .. }), "{error}");
                    refused.get_or_insert(next);
                    errors += 1;
                }
                Err(error) => panic!("a reader fails: {error}"),
            }
        }
    }

    fn record(&self, lsn: u64) -> Option<&[u8]> {
        let index = usize::try_from(lsn.checked_sub(1)?).ok()?;
        self.log.records.get(index).map(Vec::as_slice)
    }

    fn get(&self, random: &mut Random, missing: &BTreeSet<u64>) {
        let reader = self.log.kind.reader(self.storage()).expect("a reader opens");
        for _ in 0..3 {
            let lsn = 1 + u64::try_from(random.below(self.log.records.len())).unwrap();
            match reader.get(Lsn::new(lsn).unwrap()) {
                Ok(Some(found)) => assert_eq!(Some(&found[..]), self.record(lsn), "got {lsn}"),
                Err(Error::Damaged { .. }) if self.is_beyond => {}
                Err(Error::Io { .. }) if self.is_beyond && self.is_refused => {}
                Ok(None) if missing.contains(&lsn) => {}
                other => panic!("get record {lsn}: {other:?}"),
            }
        }
    }

    fn verify(&self, missing: &BTreeSet<u64>) {
        let found = match self.log.kind.maintenance(&self.storage()).verify() {
            Ok(found) => found,
            // `verify` may return no verdict if the device refuses to read.
            Err(Error::Io { .. }) if self.is_refused => return,
            Err(error) => panic!("verify: {error}"),
        };
        if missing.is_empty() {
            assert!(found.verdict <= Verdict::Correctable, "{found:?}");
            let (count, last) = (found.records, found.last_lsn.map(Lsn::get));
            let all = u64::try_from(self.log.records.len()).unwrap();
            assert_eq!((count, last), (all, Some(all)), "verify counts");
        }
        let lost: Vec<Lost> = found.damage.iter().filter_map(|Damage { lost, .. }| *lost).collect();
        for lsn in missing {
            assert!(names(&lost, *lsn), "record {lsn} is silently missing: {found:?}");
        }
    }

    fn open(&self, missing: &BTreeSet<u64>) {
        let device = self.damaged.kill();
        let log: Bytes = match open(&options(self.log.kind, 7), &device) {
            Ok(log) => log,
            Err(Error::Damaged { .. }) if self.is_beyond => return,
            Err(Error::Io { .. }) if self.is_refused => return,
            Err(error) => panic!("open: {error}"),
        };
        assert!(missing.is_empty(), "an open takes a log that lacks {missing:?}");
        let last = u64::try_from(self.log.records.len()).unwrap();
        assert_eq!(log.recovery().last.map(Lsn::get), Some(last), "an open cuts");
        let mut count = 0;
        for entry in log.read_from(Lsn::FIRST).unwrap() {
            match entry {
                Ok((lsn, payload)) => {
                    assert_eq!(lsn.get(), count + 1, "opened, and read");
                    assert_eq!(Some(&payload[..]), self.record(lsn.get()), "opened, record {lsn}");
                }
                Err(Error::Io { .. }) if self.is_refused => return,
                Err(error) => panic!("opened, and read: {error}"),
            }
            count += 1;
        }
        assert_eq!(count, last, "an opened log reads fewer records than it says");
        let next = log.append(b"7").unwrap();
        assert_eq!(next.get(), last + 1, "what it is given next");
    }
}

fn names(lost: &[Lost], lsn: u64) -> bool {
    lost.iter().any(|lost| lost.from.get() <= lsn && lost.to.is_none_or(|to| to.get() >= lsn))
}
