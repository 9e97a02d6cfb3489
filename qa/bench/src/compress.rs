//! `seawall-bench compress`: the bytes and the time that a compressed record takes, with real
//! records.

use crate::args::{self, Common};
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::frame::{in_turns, life};
use seawall::Compression;
use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::encoded::{EncodeSizes, Encoder, decode};
use seawall_format::{Lsn, Offset, frame};
use seawall_measure::contest::{Contest, Entry, hold};
use seawall_measure::human::to_f64;
use seawall_measure::pairs::Trouble;
use serde_json::{Value, json};
use std::hint::black_box;

/// One week of earthquakes, one JSON object per line.
const LINES: &str = include_str!("../../../crates/seawall-cli/data/earthquakes.jsonl");

/// Where the first batch of a segment begins.
const AT: Offset = Offset(80 << 10);

impl Bench for args::Compress {
    const NAME: &'static str = "compress";
    const TITLE: &'static str = "What compression costs and saves";
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
            let mut ways = Batch::new(*count).ways();
            let standings = hold(&mut ways, stage.time()).map_err(|t| stage.failure(&t))?;
            stage.keep(Contest { name, asks, standings })?;
        }
        Ok(())
    }
}

/// A batch of earthquakes: space for a header, then frames.
struct Batch {
    count: u32,
    payload: usize,
    plain: Vec<u8>,
    life: Life,
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
        Self { count, payload, plain, life: Life { may_compress: true, ..life() } }
    }

    fn spec(&self) -> Spec {
        let (kind, count) = (BodyKind::Frames, self.count);
        Spec { first: Lsn::FIRST, count, kind, confirmed: None, chain: 1, time_us: 1 }
    }

    /// The batch as it is stored.
    fn compress(&self, encoder: &mut Encoder, stored: &mut Vec<u8>) {
        let spec = encoder.encode((&self.plain, self.spec()), (AT, &self.life), stored);
        if spec.is_none() {
            stored.clone_from(&self.plain);
        }
        finish(stored, spec.unwrap_or(self.spec()), AT, &self.life);
    }

    fn in_words(&self) -> String {
        let mut stored = vec![];
        self.compress(&mut encoder(), &mut stored);
        let each = |bytes: usize| {
            to_f64(u64::try_from(bytes).unwrap_or(u64::MAX)) / f64::from(self.count.max(1))
        };
        format!(
            "{} records a batch, of {:.0} bytes each; a record takes {:.0} bytes plain and {:.0} \
             with lz4",
            self.count,
            each(self.payload),
            each(self.plain.len()),
            each(stored.len())
        )
    }

    fn ways(self) -> Vec<Entry<'static, Trouble>> {
        let count = self.count;
        let mut stored = vec![];
        self.compress(&mut encoder(), &mut stored);
        let (plain, spec, life) = (self.plain.clone(), self.spec(), self.life);
        let mut bytes = vec![];
        let made_plain = move || {
            bytes.clone_from(black_box(&plain));
            black_box(finish(&mut bytes, spec, AT, &life));
        };
        let header = BatchHeader::decode(&stored, AT, &life).expect("it was made here");
        let (body, mut frames) = (stored.get(HEADER_SIZE..).unwrap_or_default().to_vec(), vec![]);
        let read = move || {
            let is_compressed = header.kind == BodyKind::Encoded;
            let is_read = decode(&header, black_box(&body), &life, &mut frames);
            assert_eq!(is_read, is_compressed, "what was made here can be read");
        };
        let (mut encoder, mut bytes) = (encoder(), vec![]);
        let made = move || {
            self.compress(&mut encoder, &mut bytes);
            black_box(&bytes);
        };
        vec![
            Entry::new("made plain", in_turns(count, made_plain)),
            Entry::new("made with lz4", in_turns(count, made)),
            Entry::new("lz4 decoded", in_turns(count, read)),
        ]
    }
}

fn encoder() -> Encoder {
    let encoder = Encoder::of(Compression::Lz4, EncodeSizes::default());
    encoder.expect("this program has LZ4")
}
