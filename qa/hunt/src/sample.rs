//! Logs in memory of which every byte is known: the location of each record, and the evidence that
//! confirms it.

use crate::random::Random;
use seawall::encryption::{Key, Padding};
use seawall::format::{CodecId, Geometry};
use seawall::{Compression, Layout, Log, LogReader, Lsn, Maintenance, Options, Raw};
use seawall_format::batch::BatchHeader;
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{
    AUTHENTICATOR_AT, AUTHENTICATOR_SIZE, HEADER_SIZE, MANIFEST_SLOT_SIZE, Manifest, Mark,
    MarkSlot, Offset, SegmentHeader, SegmentId,
};
use seawall_io::{ManualClock, SeededEntropy, Storage};
use seawall_testkit::MemStorage;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// A log of plain bytes.
pub type Bytes = Log<[u8], Raw>;

/// Returns the content of each file of a device. A reader may sync a file but must not change it.
#[must_use]
pub fn contents(device: &MemStorage) -> Vec<(String, Option<Vec<u8>>)> {
    device.names().into_iter().map(|name| (name.clone(), device.bytes(&name))).collect()
}

/// How the writing of a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The log was closed, and the machine rebooted.
    Closed,
    /// `confirm` returned, then the power was cut.
    Confirmed,
    /// The power was cut after the last acknowledgement.
    PowerCut,
    /// The process was killed after the last acknowledgement, so `live` belongs to the current
    /// boot.
    Killed,
}

/// The size of a log and of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A few kilobytes, with the smallest possible blocks.
    Tiny,
    /// A few hundred kilobytes in several segments.
    Small,
    /// Several mebibytes, with the default sizes.
    Large,
}

/// What happens to a log before its writing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Only appends.
    Plain,
    /// The log is also closed and reopened, truncated at both ends, and gets a checkpoint.
    Eventful,
}

/// How the batches of a log are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Neither compressed nor encrypted.
    Plain,
    /// Compressed.
    Compressed,
    /// Encrypted.
    Encrypted,
    /// Compressed, encrypted and padded.
    Both,
}

/// The key of the encrypted logs.
pub const KEY: [u8; 32] = [7; 32];

/// The properties of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The layout of its records.
    pub layout: Layout,
    /// How its writing ended.
    pub end: End,
    /// Its size.
    pub scale: Scale,
    /// What happened before its writing ended.
    pub past: Past,
    /// How its batches are stored.
    pub encoding: Encoding,
    /// The seed of its content. Logs that differ only in the seed share no content.
    pub seed: u64,
}

/// A log, its records, and the evidence in it.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The properties of the log.
    pub kind: Kind,
    /// The device as the end of writing left it.
    pub device: MemStorage,
    /// The files of the log.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The files some records earlier.
    pub earlier: BTreeMap<String, Vec<u8>>,
    /// The LSN of the first record.
    pub first: u64,
    /// The checkpoint: no record before it is needed.
    pub checkpoint: u64,
    /// The records, all acknowledged.
    pub records: Vec<Vec<u8>>,
    /// The first and last LSN of each atomic set of several records.
    pub sets: Vec<RangeInclusive<u64>>,
    /// Where the batch or line of each record is.
    pub stored: BTreeMap<u64, Stored>,
    /// The file with the records of the newest segment.
    pub newest: String,
    /// The file with the header of the newest segment.
    pub newest_head: String,
    /// The last LSN and the end offset of each batch or set of the newest segment.
    pub ends: Vec<(u64, usize)>,
    /// The evidence that records were durable.
    pub evidence: Vec<Evidence>,
}

/// The batch or line that holds a record, and the header of its segment.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The file with the batch or line.
    pub file: String,
    /// Its bytes. Those of a line begin with the end of the line before it.
    pub bytes: Range<usize>,
    /// The file with the header.
    pub head: String,
}

/// Bytes that confirm that all records up to an LSN were durable.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The file with the bytes.
    pub file: String,
    /// The ranges of the bytes.
    pub bytes: Vec<Range<usize>>,
    /// The highest confirmed LSN.
    pub confirmed: u64,
    /// Only the first intact evidence with this flag in the list counts.
    pub is_final: bool,
}

impl Kind {
    /// All kinds of one scale.
    #[must_use]
    pub fn all(scale: Scale) -> Vec<Self> {
        let mut kinds = vec![];
        let stored = [
            (Layout::Binary, Encoding::Plain),
            (Layout::Text, Encoding::Plain),
            (Layout::Binary, Encoding::Compressed),
            (Layout::Binary, Encoding::Encrypted),
            (Layout::Binary, Encoding::Both),
        ];
        for (layout, encoding) in stored {
            for past in [Past::Plain, Past::Eventful] {
                for end in [End::Closed, End::Confirmed, End::PowerCut, End::Killed] {
                    kinds.push(Self { layout, end, scale, past, encoding, seed: 1 });
                }
            }
        }
        kinds
    }

    fn geometry(self) -> (Geometry, u64, u64) {
        let is_text = self.layout == Layout::Text;
        match self.scale {
            Scale::Tiny => {
                let least = if is_text { 1024 } else { 7 * 512 };
                (Geometry { block: 512, reach: 512, batch_max: 1024 }, least, 10 * 512)
            }
            Scale::Small => {
                let least = if is_text { 16 << 10 } else { 128 << 10 };
                (Geometry { batch_max: 64 << 10, ..Geometry::DEFAULT }, least, 256 << 10)
            }
            Scale::Large => (Geometry::DEFAULT, 1 << 20, 8 << 20),
        }
    }

    /// The options to open a log of this kind; `luck` selects the random bits.
    #[must_use]
    pub fn options(self, luck: u64) -> Options {
        let (geometry, least, most) = self.geometry();
        let clock = ManualClock::new();
        clock.set_wall_us(1 + luck);
        let options = Options::new()
            .geometry(geometry, least)
            .segment_size(most)
            .idle_mark(None)
            .preallocate(false)
            .name_ahead(true)
            .env(Arc::new(clock), Arc::new(SeededEntropy::new(luck)));
        if self.layout == Layout::Text {
            return options.codec(CodecId::Json).layout(Layout::Text);
        }
        let (options, chunk_max) = match self.encoding {
            Encoding::Plain => return options,
            Encoding::Compressed => (options.compression(Compression::Lz4), 300),
            Encoding::Encrypted => (self.with_key(options), 400),
            Encoding::Both => {
                let options = self.with_key(options).compression(Compression::Lz4);
                (options.encrypt(Padding::Padme), 400)
            }
        };
        if self.scale == Scale::Tiny { options.encode_sizes(0, chunk_max) } else { options }
    }

    /// Whether the log is encrypted.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        matches!(self.encoding, Encoding::Encrypted | Encoding::Both)
    }

    fn is_compressed(self) -> bool {
        matches!(self.encoding, Encoding::Compressed | Encoding::Both)
    }

    /// Adds the key to `options` if the log is encrypted.
    #[must_use]
    pub fn with_key(self, options: Options) -> Options {
        if self.is_encrypted() { options.key(Key::new(&KEY)) } else { options }
    }

    /// Opens a reader for the log, with the key.
    ///
    /// # Errors
    ///
    /// As [`LogReader::open_any_in`].
    pub fn reader(self, storage: Arc<dyn Storage>) -> seawall::Result<LogReader<[u8], Raw>> {
        self.with_key(Options::new()).open_any_reader_in(storage)
    }

    /// Returns the maintenance of the log, with the key.
    #[must_use]
    pub fn maintenance<'a>(self, storage: &Arc<dyn Storage>) -> Maintenance<'a> {
        let maintenance = Maintenance::on(storage);
        if self.is_encrypted() { maintenance.key(Key::new(&KEY)) } else { maintenance }
    }

    /// The ranges that belong to a structure of `size` bytes at `at`: its own bytes, and its
    /// authenticator if the log is encrypted.
    #[must_use]
    pub fn stored(self, at: usize, size: usize) -> Vec<Range<usize>> {
        let proof = at + AUTHENTICATOR_AT..at + AUTHENTICATOR_AT + AUTHENTICATOR_SIZE;
        let proof = self.is_encrypted().then_some(proof);
        std::iter::once(at..at + size).chain(proof).collect()
    }

    /// The number of record sets, and the size of the largest record.
    fn amount(self) -> (usize, usize) {
        match (self.scale, self.layout) {
            (Scale::Tiny, _) => (14, 600),
            (Scale::Small, _) => (120, 8000),
            (Scale::Large, Layout::Binary) => (400, 120_000),
            (Scale::Large, _) => (60, 120_000),
        }
    }
}

/// Opens a log on `device`.
///
/// # Errors
///
/// As [`Options::open`].
pub fn open(options: &Options, device: &MemStorage) -> seawall::Result<Bytes> {
    options.open_in(Arc::new(device.clone()))
}

impl Sample {
    /// Writes the log of this kind.
    ///
    /// # Panics
    ///
    /// If the log returns an error, which must not happen in memory.
    #[must_use]
    pub fn make(kind: Kind) -> Self {
        let mut writing = Writing::begin(kind);
        let (sets, _) = kind.amount();
        for turn in 0..sets {
            if kind.past == Past::Eventful {
                writing.happens(turn, sets);
            }
            if turn == sets * 3 / 4 {
                writing.earlier = files(&writing.device);
            }
            writing.append();
        }
        writing.end()
    }

    /// Returns a record by its LSN.
    #[must_use]
    pub fn record(&self, lsn: u64) -> Option<&[u8]> {
        let index = usize::try_from(lsn.checked_sub(self.first)?).ok()?;
        self.records.get(index).map(Vec::as_slice)
    }

    /// The records of the atomic set that holds record `lsn`.
    #[must_use]
    pub fn set_of(&self, lsn: u64) -> RangeInclusive<u64> {
        let set = self.sets.iter().find(|set| set.contains(&lsn));
        set.cloned().unwrap_or(lsn..=lsn)
    }

    /// The LSN of the last record.
    ///
    /// # Panics
    ///
    /// Never: a log in memory has fewer than 2^64 records.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::try_from(self.records.len()).expect("in memory") - 1
    }
}

/// A log that is being written.
struct Writing {
    kind: Kind,
    device: MemStorage,
    log: Option<Bytes>,
    random: Random,
    first: u64,
    checkpoint: u64,
    /// All records since LSN 1.
    records: Vec<Vec<u8>>,
    sets: Vec<RangeInclusive<u64>>,
    earlier: BTreeMap<String, Vec<u8>>,
    lives: u64,
}

impl Writing {
    fn begin(kind: Kind) -> Self {
        let device = MemStorage::new();
        let mut writing = Self {
            kind,
            device,
            log: None,
            random: Random::new(kind.seed),
            first: 1,
            checkpoint: 1,
            records: vec![],
            sets: vec![],
            earlier: BTreeMap::new(),
            lives: 0,
        };
        writing.open();
        writing
    }

    fn open(&mut self) {
        self.lives += 1;
        let options = self.kind.options(self.kind.seed << 32 | self.lives);
        self.log = Some(open(&options, &self.device).unwrap());
    }

    fn log(&self) -> &Bytes {
        self.log.as_ref().unwrap()
    }

    /// Appends one or three records: as one set, or as separate sets submitted together.
    fn append(&mut self) {
        let (_, most) = self.kind.amount();
        let mut size = || if self.random.once_in(8) { 0 } else { self.random.size(most) };
        let sizes = match size() % 4 {
            0 => vec![size() / 4, size() / 4, size() / 4],
            _ => vec![size()],
        };
        let is_set = self.random.once_in(2);
        let next = self.next();
        let records: Vec<Vec<u8>> =
            (next..).zip(sizes).map(|(lsn, size)| payload(self.kind, lsn, size)).collect();
        if is_set {
            self.log().append_batch(records.iter().map(Vec::as_slice)).unwrap();
        } else {
            // Records that are submitted before any wait share a write.
            let tickets: Vec<_> =
                records.iter().map(|record| self.log().submit(record).unwrap()).collect();
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        }
        self.records.extend(records);
        if is_set && self.next() - next > 1 {
            self.sets.push(next..=self.next() - 1);
        }
    }

    fn next(&self) -> u64 {
        u64::try_from(self.records.len()).unwrap() + 1
    }

    /// Does what an eventful log undergoes before set `turn` of `sets`.
    fn happens(&mut self, turn: usize, sets: usize) {
        let lsn = |number: u64| Lsn::new(number).unwrap();
        if turn == sets / 4 {
            self.log.take().unwrap().close().unwrap();
            self.open();
        } else if turn == sets / 2 {
            let kept = self.next() - 3;
            self.log().truncate_after(Lsn::new(kept)).unwrap();
            self.records.truncate(usize::try_from(kept).unwrap());
            // A set that the truncation shortens ends there.
            self.sets = self.sets.iter().map(|set| *set.start()..=kept.min(*set.end())).collect();
            // The next records reuse LSNs of removed ones, and must differ from them.
            self.kind.seed += 1000;
        } else if turn == sets * 3 / 4 && self.kind.is_encrypted() {
            self.log().renew_log_key().unwrap();
        } else if turn == sets * 5 / 8 {
            self.checkpoint = self.next() - 1;
            self.log().checkpoint(lsn(self.checkpoint)).unwrap();
        } else if turn == sets * 11 / 16 {
            let half = self.checkpoint / 2;
            self.first = self.log().truncate_before(lsn(half.max(1))).unwrap().get();
        }
    }

    fn end(mut self) -> Sample {
        let log = self.log.take().unwrap();
        let device = match self.kind.end {
            End::Closed => {
                log.close().unwrap();
                self.device.power_cut(|_| false)
            }
            End::Confirmed => {
                log.confirm().unwrap();
                self.device.power_cut(|_| false)
            }
            End::PowerCut => self.device.power_cut(|_| false),
            End::Killed => self.device.kill(),
        };
        let files = files(&device);
        let head_of = |name: &&String| SegmentId::from_file_name(name).is_some();
        let newest_head = files.keys().rfind(head_of).unwrap().clone();
        let header = begun_header(&files[&newest_head]);
        let skipped = usize::try_from(self.first - 1).unwrap();
        let mut sample = Sample {
            kind: self.kind,
            device,
            earlier: self.earlier,
            first: self.first,
            checkpoint: self.checkpoint,
            records: self.records.split_off(skipped),
            sets: self.sets,
            stored: BTreeMap::new(),
            newest: header.data_name(),
            newest_head,
            ends: vec![],
            evidence: vec![],
            files,
        };
        sample.find_evidence(&header);
        sample.find_records();
        sample
    }
}

/// Decodes the header of a segment. If the segment was named ahead, its first batch supplies the
/// missing fields.
fn begun_header(file: &[u8]) -> SegmentHeader {
    let header = SegmentHeader::decode(file).unwrap();
    if !header.named_ahead {
        return header;
    }
    let start = usize::try_from(header.data_start()).unwrap();
    BatchHeader::begins(&header, &file[start..]).unwrap()
}

/// The payload of record `lsn`. All payloads differ, except for the shortest.
pub(crate) fn payload(kind: Kind, lsn: u64, size: usize) -> Vec<u8> {
    let mut random = Random::new(kind.seed << 32 ^ lsn);
    let mut bytes = vec![0; size];
    if kind.is_compressed() && !random.once_in(4) {
        let mut part = [0; 24];
        random.fill(&mut part);
        bytes.iter_mut().zip(part.iter().cycle()).for_each(|(byte, part)| *byte = *part);
    } else if random.once_in(4) {
        // A valid record of mostly zeros, which looks much like unwritten space.
        bytes.iter_mut().step_by(97).for_each(|byte| *byte = random.draw().to_le_bytes()[0]);
    } else {
        random.fill(&mut bytes);
    }
    match (kind.layout, size) {
        (Layout::Binary, _) => bytes,
        (_, 0..8) => format!("{}", lsn % 10).into_bytes(),
        _ => {
            let plain = |byte: &u8| char::from(b' ' + byte % 94).to_string();
            let text: String = bytes.iter().take(size - 7).map(plain).collect();
            format!("[{},\"{}\"]", lsn % 10, text.replace(['"', '\\'], "/")).into_bytes()
        }
    }
}

/// Returns all files of a device but the lock file, which is empty.
#[must_use]
pub fn files(device: &MemStorage) -> BTreeMap<String, Vec<u8>> {
    let names = device.list().unwrap_or_default().into_iter().filter(|name| name != "lock");
    names.filter_map(|name| device.bytes(&name).map(|bytes| (name, bytes))).collect()
}

/// The ranges of the lines in the range `of`. A line is valid only after a line end, so its range
/// begins with the byte before it.
fn lines(data: &[u8], of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    data[of].split_inclusive(|byte| *byte == b'\n').map(|line| {
        let at = line.as_ptr().addr() - data.as_ptr().addr();
        at.saturating_sub(1)..at + line.len()
    })
}

impl Sample {
    /// Finds the bytes of each record. Of two records with one LSN the later counts: the log was
    /// truncated between them.
    fn find_records(&mut self) {
        let last = self.last();
        for head in self.files.keys().filter(|name| SegmentId::from_file_name(name).is_some()) {
            let header = begun_header(&self.files[head]);
            let file = header.data_name();
            let data = &self.files[&file];
            let length = u64::try_from(data.len()).unwrap();
            let mut scanner = Scanner::new(&header, length, Limit::Open);
            scanner.ends_at(Offset(length));
            while let Step::Batch(batch) = scanner.step(Window { start: Offset(0), bytes: data }) {
                let [at, end] = [batch.offset, batch.end].map(|at| usize::try_from(at.0).unwrap());
                let lsns = batch.header.first.get()..=batch.header.last().get();
                let mut add = |lsn: u64, bytes| {
                    let stored = Stored { file: file.clone(), bytes, head: head.clone() };
                    self.stored.insert(lsn, stored);
                };
                if self.kind.layout == Layout::Text {
                    lsns.zip(lines(data, at..end)).for_each(|(lsn, line)| add(lsn, line));
                } else {
                    lsns.for_each(|lsn| add(lsn, at..end));
                }
            }
        }
        self.stored.retain(|lsn, _| (self.first..=last).contains(lsn));
        assert!(self.stored.keys().copied().eq(self.first..=last), "{:?}", self.stored.keys());
    }

    fn find_evidence(&mut self, header: &SegmentHeader) {
        let number = |lsn: Option<Lsn>| lsn.map_or(0, Lsn::get);
        let mut found = vec![];
        let mut add = |file: &str, bytes: Vec<Range<usize>>, confirmed: u64| {
            found.push(Evidence { file: file.to_owned(), bytes, confirmed, is_final: false });
        };
        let kind = self.kind;
        let carried = number(header.carried).max(header.base.get() - 1);
        add(&self.newest_head, kind.stored(0, HEADER_SIZE), carried);
        let head = &self.files[&self.newest_head];
        for slot in [MarkSlot::A, MarkSlot::B] {
            let at = usize::try_from(slot.offset(header.geometry).0).unwrap();
            if let Some(mark) = Mark::decode(&head[at..], slot, header) {
                add(&self.newest_head, kind.stored(at, 40), number(mark.confirmed));
            }
        }
        let data = &self.files[&self.newest];
        let length = u64::try_from(data.len()).unwrap();
        let mut scanner = Scanner::new(header, length, Limit::Open);
        scanner.ends_at(Offset(length));
        while let Step::Batch(batch) = scanner.step(Window { start: Offset(0), bytes: data }) {
            let [at, end] = [batch.offset, batch.end].map(|at| usize::try_from(at.0).unwrap());
            let confirmed = number(batch.header.confirmed());
            if self.kind.layout == Layout::Text {
                for line in lines(data, at..end) {
                    let line = line.start..line.end - 1;
                    add(&self.newest, std::iter::once(line).collect(), confirmed);
                }
            } else {
                add(&self.newest, std::iter::once(at..at + 48).collect(), confirmed);
            }
            self.ends.push((batch.header.last().get(), end));
        }
        // The newer slot comes first.
        let manifest = &self.files["manifest"];
        let mut slots: Vec<_> = Manifest::decode_file(manifest).into_iter().flatten().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.sequence));
        for slot in slots {
            let closed = slot.closed.filter(|closed| closed.segment == header.reference());
            let at = usize::try_from(slot.offset().0).unwrap();
            found.push(Evidence {
                file: "manifest".to_owned(),
                bytes: kind.stored(at, MANIFEST_SLOT_SIZE),
                confirmed: closed.map_or(0, |closed| number(closed.last)),
                is_final: true,
            });
        }
        self.evidence = found;
    }
}
