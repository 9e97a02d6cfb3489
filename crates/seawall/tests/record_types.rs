//! The record type of a log: codec, type name and schema number. A mismatch is refused by name, and
//! each record is decoded by the schema it was written with, whatever happened since.

#![cfg(feature = "json")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

use crate::common;

use common::lives::cuts;
use common::{again, lsn, tiny};
use seawall::format::CodecId;
use seawall::versioned::{Upgraded, Versioned};
use seawall::{
    Codec, Error, Json, Log, LogReader, Lsn, Maintenance, MessagePack, Options, Positional, Raw,
};
use seawall_io::Storage;
use seawall_testkit::MemStorage;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

fn storage(device: &MemStorage) -> Arc<dyn Storage> {
    Arc::new(device.clone())
}

/// Schema 0.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Euros {
    euros: u64,
}

/// Schema 1.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Cents {
    cents: u64,
}

/// Schema 2: two fields of one type that a positional codec would mix up.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Payment {
    account: u64,
    cents: u64,
}

impl Versioned for Cents {
    const NAME: &'static str = "payment";
    const SCHEMA: u32 = 1;

    fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, seawall::CodecError> {
        assert_eq!(schema, 0);
        let old = <Positional as Codec<Euros>>::decode(payload)?;
        Ok(Self { cents: old.euros * 100 })
    }
}

impl Versioned for Payment {
    const NAME: &'static str = "payment";
    const SCHEMA: u32 = 2;

    fn upgrade(schema: u32, payload: &[u8]) -> Result<Self, seawall::CodecError> {
        let old = match schema {
            0 => Cents::upgrade(schema, payload)?,
            1 => <Positional as Codec<Cents>>::decode(payload)?,
            other => return Err(format!("no schema {other}").into()),
        };
        Ok(Self { account: 0, cents: old.cents })
    }
}

type Old = Log<Euros, Positional>;
type Middle = Log<Cents, Upgraded<Positional>>;
type New = Log<Payment, Upgraded<Positional>>;

fn payment(account: u64, cents: u64) -> Payment {
    Payment { account, cents }
}

#[test]
fn each_record_is_decoded_with_its_own_schema() {
    let device = MemStorage::new();
    let log: Old = tiny(1).open_in(storage(&device)).unwrap();
    log.append(&Euros { euros: 1 }).unwrap();
    drop(log);
    let log: Middle = again(1).open_in(storage(&device)).unwrap();
    log.append(&Cents { cents: 250 }).unwrap();
    log.append(&Cents { cents: 251 }).unwrap();
    drop(log);
    let log: New = again(2).open_in(storage(&device)).unwrap();
    let reader: LogReader<Payment, Upgraded<Positional>> =
        LogReader::open_in(storage(&device)).unwrap();
    let mut behind = reader.follow(Lsn::FIRST).unwrap();
    log.append(&payment(7, 300)).unwrap();
    let expected = [payment(0, 100), payment(0, 250), payment(0, 251), payment(7, 300)];
    for (number, expected) in (1..).zip(&expected) {
        assert_eq!(log.get(lsn(number)).unwrap().as_ref(), Some(expected));
        assert_eq!(reader.get(lsn(number)).unwrap().as_ref(), Some(expected));
        let (_, followed) = behind.next_within(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(followed, *expected);
    }
    for entries in [log.read_from(Lsn::FIRST), reader.read_from(Lsn::FIRST)] {
        let found: Vec<_> = entries.unwrap().map(|entry| entry.unwrap().1).collect();
        assert_eq!(found, expected);
    }
    assert_eq!((reader.codec(), reader.type_name()), (CodecId::Positional, "payment"));
    let mut cursor = reader.cursor(Lsn::FIRST).unwrap();
    let mut schemas = vec![];
    while let Some(record) = cursor.next_record().unwrap() {
        schemas.push(record.schema);
    }
    assert_eq!(schemas, [0, 1, 1, 2]);
}

#[test]
fn positional_record_of_an_older_schema_needs_an_upgrade() {
    let device = MemStorage::new();
    let log: Log<Payment, Positional> = tiny(1).open_in(storage(&device)).unwrap();
    log.append(&payment(7, 300)).unwrap();
    drop(log);
    let log: Log<Payment, Positional> = again(2).schema(1).open_in(storage(&device)).unwrap();
    log.append(&payment(8, 400)).unwrap();
    let refused = log.get(Lsn::FIRST).unwrap_err();
    assert!(matches!(refused, Error::Decode { lsn: Lsn::FIRST, .. }), "{refused:?}");
    assert_eq!(log.get(lsn(2)).unwrap(), Some(payment(8, 400)));
}

/// The error messages of a writer and a reader that open the log with these options, if refused.
fn refusals(device: &MemStorage, asked: &Options) -> [Option<String>; 2] {
    let log = asked.open_in::<[u8], Raw>(storage(&device.kill()));
    let reader = asked.open_reader_in::<[u8], Raw>(storage(device));
    for error in [log.as_ref().err(), reader.as_ref().err()].into_iter().flatten() {
        assert!(matches!(error, Error::Mismatch { .. }), "{error:?}");
    }
    [log.err(), reader.err()].map(|error| error.map(|error| error.to_string()))
}

#[test]
fn different_codec_or_type_or_higher_schema_is_refused_by_name() {
    let device = MemStorage::new();
    let mine = || tiny(1).codec(CodecId::Json).type_name("order").schema(2);
    drop(mine().open_in::<[u8], Raw>(storage(&device)).unwrap());
    for (asked, why) in [
        (mine(), None),
        (mine().type_name(""), None),
        (mine().schema(3), None),
        (
            mine().codec(CodecId::MessagePack),
            Some("codec mismatch: the log has json, but msgpack was requested"),
        ),
        (
            mine().type_name("bill"),
            Some("type name mismatch: the log has order, but bill was requested"),
        ),
        (mine().schema(1), Some("schema mismatch: the log has 2, but 1 was requested")),
    ] {
        let why = why.map(|why| format!("log memory: {why}"));
        assert_eq!(refusals(&device, &asked), [why.clone(), why]);
    }
    let unsaid = tiny(1).codec(CodecId::Json);
    assert!(refusals(&device, &unsaid).iter().all(Option::is_some), "0 is the lowest schema");
}

#[test]
fn log_without_a_type_name_adopts_the_first_one() {
    let device = MemStorage::new();
    let open = |seed, name: &str| {
        again(seed).type_name(name).open_in::<[u8], Raw>(storage(&device)).map(drop)
    };
    open(1, "").unwrap();
    open(2, "order").unwrap();
    open(3, "").unwrap();
    open(4, "bill").unwrap_err();
    open(5, "order").unwrap();
    let too_long = open(6, &"n".repeat(65)).unwrap_err();
    assert!(matches!(too_long, Error::InvalidOption { .. }), "{too_long:?}");
    drop(tiny(7).type_name("n".repeat(64)).open_in::<[u8], Raw>(storage(&MemStorage::new())));
}

#[test]
fn reader_overtaken_by_a_higher_schema_returns_an_error() {
    let device = MemStorage::new();
    drop(tiny(1).schema(1).open_in::<[u8], Raw>(storage(&device)).unwrap());
    let reader = Options::new().schema(1).open_reader_in::<[u8], Raw>(storage(&device)).unwrap();
    let mut follower = reader.follow(Lsn::FIRST).unwrap();
    let log = again(2).schema(2).open_in::<[u8], Raw>(storage(&device)).unwrap();
    log.append(b"new").unwrap();
    log.append(b"newer").unwrap();
    for _ in 0..3 {
        let told = follower.next_within(Duration::from_secs(5)).unwrap_err();
        let why = "log memory: schema mismatch: the log has 2, but 1 was requested";
        assert_eq!(told.to_string(), why);
        assert_eq!(follower.position(), Lsn::FIRST, "stored, it leads to the first new record");
    }
    assert!(matches!(reader.get(Lsn::FIRST), Err(Error::Mismatch { .. })));
    reader.read_from(Lsn::FIRST).unwrap().next().unwrap().unwrap_err();
}

thread_local! {
    /// How the codec `Failing` fails at the record "2".
    static FAILURE: Cell<Option<Failure>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
enum Failure {
    Error,
    Panic,
}

/// A codec that cannot decode the record "2" at times.
enum Failing {}

impl Codec<[u8]> for Failing {
    type Item = Vec<u8>;
    const ID: CodecId = CodecId::Raw;

    fn encode(record: &[u8], payload: &mut Vec<u8>) -> Result<(), seawall::CodecError> {
        payload.extend_from_slice(record);
        Ok(())
    }

    fn decode(payload: &[u8]) -> Result<Vec<u8>, seawall::CodecError> {
        match FAILURE.get().filter(|_| payload == b"2") {
            None => Ok(payload.to_vec()),
            Some(Failure::Error) => Err("not yet".into()),
            Some(Failure::Panic) => panic!("a codec of the test panics"),
        }
    }
}

type FailingLog = Log<[u8], Failing>;
type FailingReader = LogReader<[u8], Failing>;

/// A log of the records "1", "2" and "3", in one batch or in three segments, and a reader of it.
fn of_three_records(in_segments: bool) -> (FailingLog, FailingReader) {
    let device = MemStorage::new();
    let mut log: FailingLog = tiny(1).open_in(storage(&device)).unwrap();
    if in_segments {
        for (schema, record) in (1..).zip([b"1", b"2", b"3"]) {
            log.append(record).unwrap();
            log.close().unwrap();
            log = again(1).schema(schema).open_in(storage(&device)).unwrap();
        }
    } else {
        log.append_batch([b"1".as_slice(), b"2", b"3"]).unwrap();
    }
    let reader = Options::new().schema(9).open_reader_in(storage(&device)).unwrap();
    (log, reader)
}

#[test]
fn follower_stays_at_a_record_that_is_not_decoded() {
    for in_segments in [false, true] {
        let (log, reader) = of_three_records(in_segments);
        for mut follower in [log.follow(Lsn::FIRST).unwrap(), reader.follow(Lsn::FIRST).unwrap()] {
            let mut next =
                || follower.next_within(Duration::from_secs(5)).map(|next| next.unwrap());
            assert_eq!(next().unwrap(), (Lsn::FIRST, b"1".to_vec()));
            for failure in [Failure::Error, Failure::Panic, Failure::Error, Failure::Error] {
                FAILURE.set(Some(failure));
                match (catch_unwind(AssertUnwindSafe(&mut next)), failure) {
                    (Ok(Err(Error::Decode { lsn, .. })), Failure::Error) => {
                        assert_eq!(lsn.get(), 2);
                    }
                    (Err(_), Failure::Panic) => {}
                    (told, _) => panic!("{told:?}"),
                }
            }
            FAILURE.set(None);
            assert_eq!(
                (next().unwrap(), next().unwrap()),
                ((lsn(2), b"2".to_vec()), (lsn(3), b"3".to_vec()))
            );
        }
        for mut follower in [log.follow(lsn(2)).unwrap(), reader.follow(lsn(2)).unwrap()] {
            for failure in [Failure::Error, Failure::Panic] {
                FAILURE.set(Some(failure));
                let next = || follower.next_within(Duration::ZERO).unwrap_err();
                let _ = catch_unwind(AssertUnwindSafe(next));
                assert_eq!(follower.position(), lsn(2));
            }
            FAILURE.set(None);
        }
    }
}

#[test]
fn reading_ends_at_a_record_that_is_not_decoded_unless_damage_is_skipped() {
    for in_segments in [false, true] {
        let (log, reader) = of_three_records(in_segments);
        FAILURE.set(Some(Failure::Error));
        let read = |entries: Result<seawall::Records<[u8], Failing>, Error>| {
            let mut entries = entries.unwrap();
            let found: Vec<_> = entries.by_ref().map(Result::ok).collect();
            assert!(entries.next().is_none());
            found.into_iter().map(|entry| entry.map(|(lsn, _)| lsn.get())).collect::<Vec<_>>()
        };
        assert_eq!(read(log.read_from(Lsn::FIRST)), [Some(1), None]);
        assert_eq!(read(reader.read_from(Lsn::FIRST)), [Some(1), None]);
        let reader = reader.skip_damaged(true);
        assert_eq!(read(reader.read_from(Lsn::FIRST)), [Some(1), None, Some(3)]);
        FAILURE.set(None);
    }
}

/// Options of a program whose records have that schema.
fn of_schema(schema: u32, seed: u64) -> Options {
    again(seed).schema(schema)
}

/// The payload of record `number`, as a program of that schema writes it. No two are the same, and
/// none contains a zero.
fn payload(schema: u32, number: u64) -> Vec<u8> {
    format!("record {number} of schema {schema}, {}", "x".repeat(60)).into_bytes()
}

/// Appends `count` records, or fewer if the device fails, without a clean close. Returns how many
/// records are acknowledged.
fn append(device: &MemStorage, (schema, seed): (u32, u64), count: u64) -> u64 {
    let Ok(log) = of_schema(schema, seed).open_in::<[u8], Raw>(storage(device)) else { return 0 };
    let first = log.durable().map_or(1, |last| last.get() + 1);
    for number in first..first + count {
        if log.append(&payload(schema, number)).is_err() {
            break;
        }
    }
    let acknowledged = log.durable().map_or(0, Lsn::get);
    device.stop_after(0);
    drop(log);
    acknowledged
}

/// The schemas of all records, in order. Checks that each record is the one that a program of its
/// schema wrote.
#[track_caller]
fn schemas(device: &MemStorage) -> Vec<u32> {
    let any = Options::new().schema(u32::MAX);
    let reader: LogReader<[u8], Raw> = any.open_reader_in(storage(device)).unwrap();
    let mut cursor = reader.cursor(Lsn::FIRST).unwrap();
    let mut found = vec![];
    while let Some(record) = cursor.next_record().unwrap() {
        let expected = payload(record.schema, record.lsn.get());
        let shown = String::from_utf8_lossy(record.payload);
        assert_eq!(record.payload, expected, "schema {}, {shown}", record.schema);
        found.push(record.schema);
    }
    found
}

/// Logs of schema 1 with two records: closed, killed with records that nothing confirms, or killed
/// with a torn write after them.
fn left_by_the_old() -> Vec<(&'static str, MemStorage)> {
    let closed = MemStorage::new();
    let log = of_schema(1, 1).open_in::<[u8], Raw>(storage(&closed)).unwrap();
    log.append(&payload(1, 1)).unwrap();
    log.append(&payload(1, 2)).unwrap();
    log.close().unwrap();
    let killed = MemStorage::new();
    assert_eq!(append(&killed, (1, 1), 2), 2);
    let killed = killed.kill();
    let torn = killed.kill();
    torn.edit("000000000001.seg", |bytes| bytes[5 * 512 + 2 * 144..][..100].fill(0x55));
    vec![("closed", closed.kill()), ("killed", killed), ("torn", torn)]
}

#[test]
fn schema_change_interrupted_anywhere_keeps_each_records_schema() {
    let (mut states, mut refused) = (0, 0);
    for (state, before) in left_by_the_old() {
        let whole = before.kill();
        let log = of_schema(2, 2).open_in::<[u8], Raw>(storage(&whole)).unwrap();
        log.append(&payload(2, 3)).unwrap();
        let steps = whole.steps();
        drop(log);
        assert_eq!(schemas(&whole), [1, 1, 2], "{state}");
        for stop in 0..=steps {
            let device = before.kill();
            device.stop_after(stop);
            let acknowledged = append(&device, (2, 2), 1);
            let killed = std::iter::once((0, device.kill()));
            for (mask, left) in cuts(&device, stop, 64).into_iter().chain(killed) {
                let what = format!("{state}, step {stop} of {steps}, kept {mask:b}");
                states += 1;
                // The old program is refused, or finds the log as it was before.
                let old = left.kill();
                match of_schema(1, 3).open_in::<[u8], Raw>(storage(&old)) {
                    Ok(log) => assert_eq!(log.durable(), Lsn::new(2), "{what}"),
                    Err(Error::Mismatch { what: "schema", .. }) => refused += 1,
                    Err(error) => panic!("{what}: {error}"),
                }
                let log = of_schema(2, 4).open_in::<[u8], Raw>(storage(&left)).expect(&what);
                let last = log.durable().map_or(0, Lsn::get);
                assert!(last >= acknowledged.max(2), "{what}");
                log.append(&payload(2, last + 1)).unwrap();
                let expected = [&[1, 1][..], &vec![2; usize::try_from(last - 1).unwrap()]].concat();
                assert_eq!(schemas(&left), expected, "{what}");
            }
        }
    }
    assert!(states > 300 && refused > 50, "{states} states, {refused} refused");
}

/// A log with four records of schema 1, in two batches, and two of schema 2.
fn of_two_schemas() -> MemStorage {
    let device = MemStorage::new();
    let log = of_schema(1, 1).open_in::<[u8], Raw>(storage(&device)).unwrap();
    for first in [1, 3] {
        let set = [payload(1, first), payload(1, first + 1)];
        log.append_batch(set.iter().map(Vec::as_slice)).unwrap();
    }
    log.close().unwrap();
    let log = of_schema(2, 2).open_in::<[u8], Raw>(storage(&device)).unwrap();
    log.append(&payload(2, 5)).unwrap();
    log.append(&payload(2, 6)).unwrap();
    log.close().unwrap();
    device.kill()
}

#[test]
fn copy_keeps_the_schema_of_each_record() {
    let (device, target) = (of_two_schemas(), MemStorage::new());
    Maintenance::on(&storage(&device)).back_up_to(&storage(&target)).unwrap();
    assert_eq!(schemas(&target), [1, 1, 1, 1, 2, 2]);
}

#[test]
fn salvage_keeps_the_schema_of_each_record() {
    let (device, target) = (of_two_schemas(), MemStorage::new());
    Maintenance::on(&storage(&device)).salvage_to(storage(&target)).unwrap();
    assert_eq!(schemas(&target), [1, 1, 1, 1, 2, 2]);
    let log = of_schema(2, 3).open_in::<[u8], Raw>(storage(&target)).unwrap();
    log.append(&payload(2, 7)).unwrap();
    assert_eq!(schemas(&target), [1, 1, 1, 1, 2, 2, 2]);
    of_schema(1, 4).open_in::<[u8], Raw>(storage(&target.kill())).unwrap_err();
}

/// Appends three records of that schema in one batch, none of them in a set, and closes the log.
fn add_a_batch(device: &MemStorage, (schema, seed): (u32, u64)) {
    let log = of_schema(schema, seed).open_in::<[u8], Raw>(storage(device)).unwrap();
    let first = log.durable().map_or(1, |last| last.get() + 1);
    let numbers = [first, first + 1, first + 2];
    let tickets = numbers.map(|number| log.submit(&payload(schema, number)).unwrap());
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap().get()), numbers);
    log.close().unwrap();
}

fn flip_a_bit(device: &MemStorage, segment: &str, record: &[u8]) {
    device.edit(segment, |bytes| {
        let at = bytes.windows(record.len()).position(|window| window == record).unwrap();
        bytes[at] ^= 1;
    });
}

#[test]
fn truncation_keeps_the_schema_of_carried_records() {
    for (segment, lost, left) in [
        ("000000000001.seg", payload(1, 3), &[1, 1][..]),
        ("000000000002.seg", payload(2, 6), &[1, 1, 1, 2, 2]),
    ] {
        let device = MemStorage::new();
        add_a_batch(&device, (1, 1));
        add_a_batch(&device, (2, 2));
        flip_a_bit(&device, segment, &lost);
        let done = Maintenance::on(&storage(&device)).truncate_damaged_tail().unwrap();
        assert_eq!(done.last.map(Lsn::get), u64::try_from(left.len()).ok());
        assert_eq!(schemas(&device), left);
        add_a_batch(&device, (2, 3));
        assert_eq!(schemas(&device), [left, &[2, 2, 2]].concat());
    }
}

#[test]
fn record_without_a_json_form_is_refused_and_changes_nothing() {
    let device = MemStorage::new();
    let log: Log<Vec<Option<f64>>, Json> = tiny(1).open_in(storage(&device)).unwrap();
    log.append(&vec![Some(0.5), None]).unwrap();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let refused = log.append(&vec![None, Some(value)]).unwrap_err();
        let why = format!("[1]: {value} is not a JSON number").replace("inf", "infinity");
        assert!(
            matches!(&refused, Error::Encode { source, .. } if source.to_string() == why),
            "{refused:?}"
        );
        log.append_batch([&vec![], &vec![Some(value)]]).unwrap_err();
        log.submit(&vec![Some(value)]).unwrap_err();
    }
    let lsn = log.append(&vec![Some(-0.0)]).unwrap();
    assert_eq!(lsn.get(), 2);
    let back = log.get(lsn).unwrap().unwrap();
    assert_eq!(back.first().unwrap().unwrap().to_bits(), (-0.0_f64).to_bits());
    let bytes = LogReader::<Vec<Option<f64>>, Json>::open_in(storage(&device)).unwrap();
    let mut cursor = bytes.cursor(Lsn::FIRST).unwrap();
    assert_eq!(cursor.next_record().unwrap().unwrap().payload, b"[0.5,null]");
}

#[test]
fn every_codec_is_distinguished_from_the_others() {
    fn reopens<C: Codec<u32, Item = u32>>(device: &MemStorage) -> bool {
        match again(9).open_in::<u32, C>(storage(&device.kill())) {
            Ok(log) => log.get(Lsn::FIRST).unwrap() == Some(7),
            Err(Error::Mismatch { what: "codec", .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
    fn written<C: Codec<u32, Item = u32>>() -> MemStorage {
        let device = MemStorage::new();
        let log = tiny(1).open_in::<u32, C>(storage(&device)).unwrap();
        log.append(&7).unwrap();
        drop(log);
        device
    }
    let logs = [written::<MessagePack>(), written::<Positional>(), written::<Json>()];
    let mut ids = BTreeSet::new();
    for (place, device) in logs.iter().enumerate() {
        let found = [
            reopens::<MessagePack>(device),
            reopens::<Positional>(device),
            reopens::<Json>(device),
        ];
        let mut expected = [false; 3];
        expected[place] = true;
        assert_eq!(found, expected);
        let any = Options::new();
        for codec in [CodecId::MessagePack, CodecId::Positional, CodecId::Json, CodecId::Raw] {
            let any = any.clone().codec(codec);
            if any.open_reader_in::<[u8], Raw>(storage(device)).is_ok() {
                ids.insert(codec.name());
            }
        }
    }
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["json", "msgpack", "positional"]);
}
