//! `seawall-bench compress`: the size of a record and the time for it when it is compressed,
//! encrypted, or both. The records are real ones.

use crate::args::{self, Common};
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::verbs::frame::{in_turns, life};
use seawall::Compression;
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::encoded::{EncodeSizes, Encoder, decode};
use seawall_format::encrypted::Encryptor;
use seawall_format::encryption::{KEY_SIZE, LogKey, NONCE_SIZE, Nonce, SegmentKeys};
use seawall_format::{EncryptedSizes, LogId, Lsn, Offset, SegmentId, SegmentRef, frame};
use seawall_io::{Entropy, SystemEntropy};
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::human::to_f64;
use seawall_measure::pairs::Trouble;
use serde_json::{Value, json};
use std::hint::black_box;
use std::io;

/// One week of earthquakes, one JSON object per line.
const LINES: &str = include_str!("../../../../crates/seawall-cli/data/earthquakes.jsonl");

/// The offset of the first batch of a segment.
const AT: Offset = Offset(80 << 10);

impl Bench for args::Compress {
    const NAME: &'static str = "compress";
    const TITLE: &'static str = "What compression and encryption cost and save";
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "Earthquakes of one week, stored as MessagePack, in batches of some size: the bytes that a \
         record takes in a segment, and the time to make and to read a batch in memory."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![("records", json!(self.records))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let asks = |count: &u32| Batch::new(*count).in_words();
        self.records.iter().map(|count| (Self::NAME, asks(count))).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        for ((name, asks), count) in self.contests().into_iter().zip(&self.records) {
            let batch = Batch::new(*count);
            let standings = hold(&mut batch.ways(), stage.time()).map_err(|t| stage.failure(&t))?;
            stage.keep(Contest { name, asks, standings })?;
        }
        Ok(())
    }
}

/// A batch of earthquakes: space for the batch header, then frames.
struct Batch {
    count: u32,
    payload: usize,
    plain: Vec<u8>,
}

impl Batch {
    fn new(count: u32) -> Self {
        let (mut plain, mut payload) = (vec![0; HEADER_SIZE], 0);
        let lines = LINES.lines().cycle().take(usize::try_from(count).unwrap_or(usize::MAX));
        for line in lines {
            let value: Value = serde_json::from_str(line).expect("the file holds JSON");
            let bytes = rmp_serde::to_vec_named(&value).expect("any JSON can be MessagePack");
            payload += bytes.len();
            frame::push_unbound(&mut plain, &bytes, false);
        }
        Self { count, payload, plain }
    }

    fn spec(&self) -> Spec {
        let (kind, count) = (BodyKind::Frames, self.count);
        Spec { first: Lsn::FIRST, count, kind, confirmed: None, chain: 1, time_us: 1 }
    }

    /// Encodes the batch as it is stored in a segment.
    fn store(&self, encoding: &mut Encoding, stored: &mut Vec<u8>) {
        let (plain, life) = ((&*self.plain, self.spec()), encoding.life);
        let spec = match &mut encoding.encoder {
            None => None,
            Some(Encoders::Plain(encoder)) => encoder.encode(plain, (AT, &life), stored),
            Some(Encoders::Encrypting(encryptor)) => {
                let spec = encryptor.encode(plain, (AT, &life), stored);
                Some(spec.expect("the system has random numbers"))
            }
        };
        if spec.is_none() {
            stored.clone_from(&self.plain);
        }
        finish(stored, spec.unwrap_or(self.spec()), AT, &life);
    }

    fn in_words(&self) -> String {
        let each = |bytes: usize| {
            to_f64(u64::try_from(bytes).unwrap_or(u64::MAX)) / f64::from(self.count.max(1))
        };
        let sizes = Form::all().map(|form| {
            let mut stored = vec![];
            self.store(&mut Encoding::of(form), &mut stored);
            format!("{:.0} {}", each(stored.len()), form.in_words())
        });
        format!(
            "{} records a batch, of {:.0} bytes each; a record takes so many bytes: {}",
            self.count,
            each(self.payload),
            sizes.collect::<Vec<_>>().join(", "),
        )
    }

    fn ways(&self) -> Vec<Entry<'_, Trouble>> {
        let made = Form::all().map(|form| self.made(form));
        made.chain(Form::all().filter_map(|form| self.decoded(form))).collect()
    }

    fn made(&self, form: Form) -> Entry<'_, Trouble> {
        let (mut encoding, mut stored) = (Encoding::of(form), vec![]);
        let make = move || {
            black_box(self).store(&mut encoding, &mut stored);
            black_box(&stored);
        };
        Entry::new(form.made(), in_turns(self.count, make))
    }

    /// Measures the cost of decoding this form. `None` for plain, which needs no decoding.
    fn decoded(&self, form: Form) -> Option<Entry<'_, Trouble>> {
        let (stored, mut frames) = (Stored::new(self, form), vec![]);
        let read = move || {
            let is_plain = stored.header.kind == BodyKind::Frames;
            assert_ne!(stored.decode(&mut frames), is_plain, "what was made here can be read");
            black_box(&frames);
        };
        Some(Entry::new(form.decoded()?, in_turns(self.count, read)))
    }
}

/// How a batch is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Lz4,
    Zstd,
    Encrypted,
    Both,
}

impl Form {
    /// The forms that this build supports.
    fn all() -> impl Iterator<Item = Self> {
        let all = [Self::Plain, Self::Lz4, Self::Zstd, Self::Encrypted, Self::Both];
        all.into_iter().filter(|form| form.compression().is_built_in())
    }

    fn compression(self) -> Compression {
        match self {
            Self::Plain | Self::Encrypted => Compression::None,
            Self::Lz4 | Self::Both => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Lz4 => "with lz4",
            Self::Zstd => "with zstd",
            Self::Encrypted => "encrypted",
            Self::Both => "with lz4 and encrypted",
        }
    }

    fn made(self) -> &'static str {
        match self {
            Self::Plain => "made plain",
            Self::Lz4 => "made with lz4",
            Self::Zstd => "made with zstd",
            Self::Encrypted => "made encrypted",
            Self::Both => "made lz4, encrypted",
        }
    }

    fn decoded(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Lz4 => Some("lz4 decoded"),
            Self::Zstd => Some("zstd decoded"),
            Self::Encrypted => Some("encrypted decoded"),
            Self::Both => Some("lz4, encrypted decoded"),
        }
    }

    fn life(self) -> Life {
        let is_encrypted = matches!(self, Self::Encrypted | Self::Both);
        Life { compression_max: Compression::Zstd, is_encrypted, ..life() }
    }
}

/// Encodes batches in one form.
struct Encoding {
    life: Life,
    encoder: Option<Encoders>,
}

enum Encoders {
    Plain(Encoder),
    Encrypting(Box<Encryptor>),
}

impl Encoding {
    fn of(form: Form) -> Self {
        let encryptor = || Encryptor::new(keys(), EncryptedSizes::default(), draw);
        let method = form.compression();
        let encoder = match form {
            Form::Plain => None,
            Form::Lz4 | Form::Zstd => {
                let encoder = Encoder::of(method, EncodeSizes::default());
                Some(Encoders::Plain(encoder.expect("this build has the method")))
            }
            Form::Encrypted | Form::Both => {
                Some(Encoders::Encrypting(encryptor().with_compression(method).into()))
            }
        };
        Self { life: form.life(), encoder }
    }
}

/// A stored batch, as a reader finds it.
struct Stored {
    header: BatchHeader,
    body: Vec<u8>,
    life: Life,
    keys: SegmentKeys,
}

impl Stored {
    fn new(batch: &Batch, form: Form) -> Self {
        let mut stored = vec![];
        batch.store(&mut Encoding::of(form), &mut stored);
        let life = form.life();
        let header = BatchHeader::decode(&stored, AT, &life).expect("it was made here");
        let body = stored.get(HEADER_SIZE..).unwrap_or_default().to_vec();
        Self { header, body, life, keys: keys() }
    }

    /// Decodes the batch into `frames`. Returns false if the batch is stored plain.
    fn decode(&self, frames: &mut Vec<u8>) -> bool {
        let body = black_box(&*self.body);
        if self.life.is_encrypted {
            self.keys.open((&self.header, body), (AT, &self.life), frames) == Ok(true)
        } else {
            decode(&self.header, body, &self.life, frames)
        }
    }
}

/// The keys of the segment that [`life`] describes.
fn keys() -> SegmentKeys {
    let segment = SegmentRef { id: SegmentId::FIRST, epoch: life().epoch };
    SegmentKeys::derive(&LogKey::new(&[7; KEY_SIZE]), LogId(7), segment)
}

/// Draws a random nonce, as a log does.
fn draw() -> io::Result<Nonce> {
    let mut nonce = [0; NONCE_SIZE];
    SystemEntropy.fill(&mut nonce).map(|()| nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_decodes_to_the_plain_frames() {
        let batch = Batch::new(64);
        for form in Form::all().filter(|form| *form != Form::Plain) {
            let (stored, mut frames) = (Stored::new(&batch, form), vec![]);
            assert!(stored.decode(&mut frames), "{form:?}");
            assert_eq!(frames, batch.plain, "{form:?}");
            assert_eq!(stored.life.is_encrypted, stored.header.kind == BodyKind::Encrypted);
        }
    }
}
