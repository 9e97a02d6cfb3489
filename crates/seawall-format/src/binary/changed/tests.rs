//! Each flipped bit in a batch's records is attributed to a length, a checksum or a payload.

use super::*;
use crate::binary::batch::{self, Spec};
use crate::ids::{Epoch, LogId};
use crate::types::Compression;
use ChangedPart::{Checksum, Length, Payload};

const LIFE: Life = Life {
    salt: Salt::new(LogId(3), Epoch(9)),
    epoch: Epoch(9),
    batch_max: 4096,
    block: 512,
    in_flight_max: 1,
    compression_max: Compression::None,
    is_encrypted: false,
};
const AT: Offset = Offset(6144);
const RECORDS: [&[u8]; 3] = [b"of eight", b"of fourteen by", b""];

fn body() -> (BatchHeader, Vec<u8>) {
    let mut bytes = vec![0; batch::HEADER_SIZE];
    for record in RECORDS {
        frame::push_unbound(&mut bytes, record, false);
    }
    let (first, confirmed, kind) = (Lsn::new(7).unwrap(), Lsn::new(5), BodyKind::Frames);
    let spec = Spec { first, count: 3, kind, confirmed, chain: 99, time_us: 1 };
    batch::finish(&mut bytes, spec, AT, &LIFE);
    let header = BatchHeader::decode(&bytes, AT, &LIFE).unwrap();
    (header, bytes.split_off(batch::HEADER_SIZE))
}

fn changed(change: impl FnOnce(&mut [u8])) -> Option<ChangedPart> {
    let (header, mut body) = body();
    change(&mut body);
    changed_part(&body, (&header, AT), &LIFE)
}

#[test]
fn each_bit_names_its_part() {
    let mut at = 0;
    for record in RECORDS {
        let head = [(at..at + 4, Length), (at + 4..at + 8, Checksum)];
        let payload = at + 8..at + 8 + record.len();
        for (bytes, part) in head.into_iter().chain([(payload, Payload)]) {
            for (byte, bit) in bytes.flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
                let found = changed(|body| body[byte] ^= 1 << bit);
                assert_eq!(found, Some(part), "bit {bit} of byte {byte}");
            }
        }
        at += frame::size_on_disk(record.len());
    }
}

#[test]
fn whole_fields_name_their_part() {
    assert_eq!(changed(|body| body[4..8].fill(0x5a)), Some(Checksum));
    assert_eq!(changed(|body| body[16..20].fill(0)), Some(Length));
    assert_eq!(changed(|body| body[8..16].fill(0)), Some(Payload));
}

#[test]
fn two_changed_parts_and_none_are_not_named() {
    assert_eq!(changed(|_| ()), None);
    assert_eq!(changed(|body| body[39] ^= 1), None, "padding");
    assert_eq!(changed(|body| body.fill(0)), None);
    let two_payloads = |body: &mut [u8]| [8, 24].into_iter().for_each(|at| body[at] ^= 1);
    assert_eq!(changed(two_payloads), None);
    let length_and_checksum = |body: &mut [u8]| [0, 4].into_iter().for_each(|at| body[at] ^= 1);
    assert_eq!(changed(length_and_checksum), None);
}
