//! Zstandard frames in the form that the format allows are read, all others are refused.

use super::*;

/// `text(200)` compressed with `zstd -1 --no-check`, version 1.5.4.
const GOLDEN: &[u8] = &[
    0x28, 0xB5, 0x2F, 0xFD, 0x20, 0xC8, 0xF5, 0x00, 0x00, 0xB8, 0x7B, 0x22, 0x69, 0x64, 0x22, 0x3A,
    0x31, 0x37, 0x2C, 0x22, 0x6E, 0x61, 0x6D, 0x65, 0x22, 0x3A, 0x22, 0x73, 0x61, 0x6D, 0x65, 0x22,
    0x7D, 0x01, 0x00, 0x5D, 0x4A, 0xCD, 0x26,
];

fn text(size: usize) -> Vec<u8> {
    b"{\"id\":17,\"name\":\"same\"}".iter().copied().cycle().take(size).collect()
}

fn frame(plain: &[u8]) -> Vec<u8> {
    Compressor::new().compress(plain).to_vec()
}

/// The decompressed frame, or `None` unless that has exactly `size` bytes.
fn read(frame: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut plain = vec![0; size];
    decompress(frame, &mut plain).then_some(plain)
}

#[test]
fn frame_is_read_back_unchanged_whatever_its_size() {
    let mut compressor = Compressor::new();
    let sizes = [8, 255, 256, 257, 65_535, 65_792, 1 << 19, (1 << 19) + 1, 1 << 20, 3 << 20];
    for size in sizes {
        let plain = text(size);
        let frame = compressor.compress(&plain).to_vec();
        assert_eq!(frame[4] & 0x3F, ONE_SEGMENT, "{size}");
        assert!(read(&frame, size) == Some(plain), "{size}");
        assert_eq!(read(&frame, size - 1), None);
        assert_eq!(read(&frame, size + 1), None);
    }
}

#[test]
fn golden_frame_is_read() {
    assert_eq!(read(GOLDEN, 200), Some(text(200)));
}

#[test]
fn other_forms_of_a_frame_are_refused() {
    let plain = text(5000);
    let made = |parameter| {
        let (mut encoder, mut frame) = (CCtx::create(), Vec::with_capacity(9000));
        encoder.set_parameter(parameter).unwrap();
        encoder.compress2(&mut frame, &plain).unwrap();
        frame
    };
    assert!(read(&made(CParameter::CompressionLevel(9)), 5000).is_some(), "any level");
    for (what, parameter) in [
        ("a checksum", CParameter::ChecksumFlag(true)),
        ("no size", CParameter::ContentSizeFlag(false)),
        ("a window", CParameter::WindowLog(10)),
    ] {
        let mut plain = vec![0; 5000];
        let frame = made(parameter);
        assert!(DCtx::create().decompress(&mut plain[..], &frame).is_ok(), "{what} is valid");
        assert!(read(&frame, 5000).is_none(), "{what}");
    }
    let frame = frame(&plain);
    for more in [vec![0], frame_of_nothing(), skipped()] {
        assert!(read(&[&*frame, &more].concat(), 5000).is_none(), "{more:?} after it");
        assert!(read(&[&*more, &frame].concat(), 5000).is_none(), "{more:?} before it");
    }
    for size in 0..frame.len() {
        assert_eq!(read(&frame[..size], 5000), None, "cut after {size}");
    }
}

fn frame_of_nothing() -> Vec<u8> {
    frame(&[])
}

/// An empty skippable frame.
fn skipped() -> Vec<u8> {
    [0x184D_2A50_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat()
}

#[test]
fn no_flipped_bit_makes_the_decoder_fail_otherwise() {
    let plain = text(700);
    let good = frame(&plain);
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // A flipped bit may decode to another text: only the checksum of the chunk detects that.
        assert!(read(&bytes, 700).is_none_or(|found| found.len() == 700));
    }
    assert_eq!(read(&good, 700), Some(plain), "the decoder works as before");
}
