//! Logs with the codecs `Cbor` and `Ron`.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use seawall::{Cbor, Codec, Error, Log, LogReader, MessagePack, Ron};
use seawall_testkit::MemStorage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Event {
    Opened,
    Named(String),
    Moved { x: f64, y: Option<i64>, tags: BTreeMap<String, Vec<u8>> },
    Nested(Box<Self>),
}

fn events() -> Vec<Event> {
    let tags = BTreeMap::from([("a \"b\"".to_owned(), vec![0, 255]), (String::new(), vec![])]);
    vec![
        Event::Opened,
        Event::Named("K\u{e4}se\n\u{1F9C0}".to_owned()),
        Event::Moved { x: -0.1, y: Some(i64::MIN), tags },
        Event::Nested(Box::new(Event::Moved { x: 1e300, y: None, tags: BTreeMap::new() })),
    ]
}

fn nested(depth: u32) -> Event {
    (0..depth).fold(Event::Opened, |inner, _| Event::Nested(Box::new(inner)))
}

fn options() -> seawall::Options {
    seawall::Options::new()
}

fn records_survive<C: Codec<Event, Item = Event>>() -> Arc<MemStorage> {
    let storage = Arc::new(MemStorage::new());
    let log: Log<Event, C> = options().open_in(storage.clone()).unwrap();
    for event in events() {
        log.append(&event).unwrap();
    }
    // The first record is as deep as each codec allows. No reader could decode the second one.
    log.append(&nested(40)).unwrap();
    let refused = log.append(&nested(500)).unwrap_err();
    assert!(matches!(refused, Error::Encode { .. }), "{refused:?}");
    let last = log.append(&Event::Opened).unwrap();
    assert_eq!(last.get(), 6, "a refused record takes no number");
    log.close().unwrap();
    let reader: LogReader<Event, C> = LogReader::open_in(storage.clone()).unwrap();
    let found: Vec<Event> =
        reader.read_from(seawall::Lsn::FIRST).unwrap().map(|entry| entry.unwrap().1).collect();
    let written = events().into_iter().chain([nested(40), Event::Opened]);
    assert_eq!(found, written.collect::<Vec<_>>());
    storage
}

#[test]
fn records_in_cbor_and_in_ron_survive_and_are_not_mixed_up() {
    let (cbor, ron) = (records_survive::<Cbor>(), records_survive::<Ron>());
    let wrong = options().open_in::<Event, Ron>(cbor.clone()).unwrap_err();
    assert!(matches!(wrong, Error::Mismatch { .. }), "{wrong}");
    let wrong = options().open_in::<Event, Cbor>(ron.clone()).unwrap_err();
    assert!(matches!(wrong, Error::Mismatch { .. }), "{wrong}");
    let wrong = options().open_in::<Event, MessagePack>(ron).unwrap_err();
    assert!(matches!(wrong, Error::Mismatch { .. }), "{wrong}");
}

#[test]
fn bytes_that_are_no_record_are_refused() {
    let decode_cbor = <Cbor as Codec<Event>>::decode;
    let mut payload = vec![];
    Cbor::encode(&Event::Opened, &mut payload).unwrap();
    decode_cbor(&payload).unwrap();
    payload.push(0);
    decode_cbor(&payload).unwrap_err();
    decode_cbor(&[]).unwrap_err();
    decode_cbor(&vec![0x9f; 100_000]).unwrap_err();
    let decode_ron = <Ron as Codec<Event>>::decode;
    for text in ["", "Opened Opened", "Moved(x:1)", "\"", &"Nested(".repeat(100_000)] {
        decode_ron(text.as_bytes()).unwrap_err();
    }
    decode_ron(&[0xff]).unwrap_err();
    assert_eq!(decode_ron(b" Opened // as a person edits it").unwrap(), Event::Opened);
}
