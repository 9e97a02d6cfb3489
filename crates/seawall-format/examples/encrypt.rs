//! Encrypts batches of one record, to see what that costs: `time encrypt WAY SIZE COUNT`. Ways are
//! `plain` (checksums only), `encrypt`, and `open`, which encrypts one batch and opens it so often.

use seawall_format::batch::{BatchHeader, BodyKind, HEADER_SIZE, Life, Spec, finish};
use seawall_format::encrypted::Encryptor;
use seawall_format::encryption::{LogKey, SegmentKeys};
use seawall_format::{
    Compression, EncryptedSizes, Epoch, LogId, Lsn, Offset, Salt, SegmentId, SegmentRef, frame,
};
use std::hint::black_box;

const AT: Offset = Offset(81_920);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, way, size, count] = arguments.as_slice() else { panic!("encrypt WAY SIZE COUNT") };
    let size: usize = size.parse().expect("a size in bytes");
    let count: u64 = count.parse().expect("how often");
    let (log, epoch) = (LogId(3), Epoch(9));
    let life = Life {
        salt: Salt::new(log, epoch),
        is_encrypted: way != "plain",
        epoch,
        batch_max: 8 << 20,
        block: 4096,
        in_flight_max: 1,
        compression_max: Compression::None,
    };
    let mut plain = vec![0; HEADER_SIZE];
    frame::push_unbound(&mut plain, &vec![0x5a; size], false);
    let (first, kind, confirmed) = (Lsn::FIRST, BodyKind::Frames, None);
    let spec = Spec { first, count: 1, kind, confirmed, chain: 7, time_us: 1 };
    let keys = || {
        let segment = SegmentRef { id: SegmentId::FIRST, epoch };
        SegmentKeys::derive(&LogKey::new(&[1; 32]), log, segment)
    };
    let mut number = 0_u64;
    let draw = move || {
        number += 1;
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        Ok(nonce)
    };
    let (encryptor, mut stored) = (Encryptor::new(keys(), EncryptedSizes::default(), draw), vec![]);
    let encrypt = |plain: &[u8], stored: &mut Vec<u8>| {
        let encrypted = encryptor.encode((plain, spec), (AT, &life), stored);
        finish(stored, encrypted.expect("nonces do not fail"), AT, &life);
    };
    match way.as_str() {
        "plain" => {
            for _ in 0..count {
                stored.clear();
                stored.extend_from_slice(black_box(&plain));
                finish(&mut stored, spec, AT, &life);
            }
        }
        "encrypt" => (0..count).for_each(|_| encrypt(black_box(&plain), &mut stored)),
        "open" => {
            encrypt(&plain, &mut stored);
            let header = BatchHeader::decode(&stored, AT, &life).expect("it was just made");
            let (keys, mut memory) = (keys(), vec![]);
            for _ in 0..count {
                let body = black_box(stored.split_at(HEADER_SIZE).1);
                let opened = keys.open((&header, body), (AT, &life), &mut memory);
                assert_eq!(opened, Ok(true));
            }
        }
        other => panic!("{other}: no way to measure"),
    }
    black_box(stored);
}
