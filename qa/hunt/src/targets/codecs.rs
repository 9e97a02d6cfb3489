//! Fuzz target for codecs: a decoded record, encoded again, decodes to the same record.

use seawall::{Codec, Json, MessagePack, Positional};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A record with every kind of value that a record may hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u64,
    below: i64,
    text: String,
    floats: Vec<f64>,
    small: Option<f32>,
    named: BTreeMap<String, Part>,
    wide: i128,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Part {
    Nothing,
    One(u8),
    Two(f64, bool),
    Named { left: Box<Part>, right: char },
}

pub(super) fn run(data: &[u8]) {
    there_and_back::<Json>(data);
    there_and_back::<MessagePack>(data);
    there_and_back::<Positional>(data);
    let floats: Vec<_> = data.chunks_exact(8).map(|bytes| f64::from_bits(of(bytes))).collect();
    let record = Record { floats, ..record() };
    let (mut json, mut packed) = (vec![], vec![]);
    let is_json = <Json as Codec<Record>>::encode(&record, &mut json).is_ok();
    assert_eq!(is_json, record.floats.iter().all(|float| float.is_finite()), "{record:?}");
    if is_json {
        assert_eq!(bits(&<Json as Codec<Record>>::decode(&json).unwrap()), bits(&record));
    }
    <MessagePack as Codec<Record>>::encode(&record, &mut packed).unwrap();
    assert_eq!(bits(&<MessagePack as Codec<Record>>::decode(&packed).unwrap()), bits(&record));
}

fn of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn bits(record: &Record) -> (Vec<u64>, String) {
    let floats = record.floats.iter().map(|float| float.to_bits()).collect();
    (floats, format!("{:?}", Record { floats: vec![], ..record.clone() }))
}

fn there_and_back<C: Codec<Record, Item = Record>>(data: &[u8]) {
    let Ok(found) = C::decode(data) else { return };
    let mut again = vec![];
    C::encode(&found, &mut again).expect("what was decoded can be encoded");
    let back = C::decode(&again).expect("what was encoded can be decoded");
    assert_eq!(bits(&back), bits(&found));
}

fn record() -> Record {
    let right = Part::Named { left: Box::new(Part::Two(-0.0, true)), right: '\u{1d11e}' };
    let named = [("a \"b\"".to_owned(), right), (String::new(), Part::Nothing)];
    Record {
        id: u64::MAX,
        below: i64::MIN,
        text: "\u{e9}\n\"\\".to_owned(),
        floats: vec![0.1, 1e300, 5e-324],
        small: Some(0.1),
        named: named.into_iter().chain([("c".to_owned(), Part::One(7))]).collect(),
        wide: i128::MIN,
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    fn one<C: Codec<Record> + Debug>() -> Vec<u8> {
        let mut bytes = vec![];
        C::encode(&record(), &mut bytes).unwrap();
        bytes
    }
    vec![one::<Json>(), one::<MessagePack>(), one::<Positional>()]
}
