//! Golden files with compressed batches, built by hand: intact, torn, damaged, refused.

use super::Case;
use super::handmade::Content::{self, Compressed, Records, Undecodable, Void};
use super::handmade::{header, log_of};
use super::image::Files;
use seawall_format::{Compression, SegmentHeader};

const FILE: &str = "000000000001.seg";

/// Records with repeated words, as in typical logs.
const TEXT: [&str; 6] = [
    "{\"account\":1,\"action\":\"deposit\",\"amount\":100,\
     \"note\":\"the note of a deposit, a deposit\"}",
    "{\"account\":2,\"action\":\"deposit\",\"amount\":250,\
     \"note\":\"the note of a deposit, a deposit\"}",
    "{\"account\":1,\"action\":\"withdraw\",\"amount\":50,\
     \"note\":\"the note of a withdrawal, it is\"}",
    "{\"account\":3,\"action\":\"deposit\",\"amount\":100,\
     \"note\":\"the note of a deposit, a deposit\"}",
    "{\"account\":2,\"action\":\"withdraw\",\"amount\":10,\
     \"note\":\"the note of a withdrawal, it is\"}",
    "{\"account\":3,\"action\":\"deposit\",\"amount\":900,\
     \"note\":\"the note of a deposit, a deposit\"}",
];

/// Text that LZ4 cannot make shorter.
const NOISE: &str = "\
    GT_d7FguoV8FW;n?FbB0JxXujr4qqaaABvvLOz;AxzXMcU1vsHiQMaRiNTN9Ox98whGcTZc,1UWb5f\
    xzpF7S/T_G7nVLe3lAR/UsRJ;lNONwktN9ugk:ZeESG61she-QAq!q0nv3Vth1Ls6v=6+O9JL8ZsoW\
    :w-Rxl+I/,*UiTeNU.J+HLRwb8,GPJ7K*TSJS0Sw5UQ=s_vzU9Kk1v=1M,Idzu4xCxf8CvgroOx9y,\
    e1";

fn compressing() -> SegmentHeader {
    SegmentHeader { size: 8192, compression_max: Compression::Lz4, ..header() }
}

/// Returns each case with its files.
pub(super) fn all() -> Vec<(Case, Files)> {
    let log = |contents: &[Content<'_>]| log_of(&compressing(), contents, contents.len());
    let sound = [
        Compressed(&TEXT, 0),
        Records(&["as it is"], 0),
        Compressed(&[TEXT[0], TEXT[1], TEXT[1], NOISE, TEXT[2], TEXT[3], "", TEXT[4], TEXT[5]], 0),
        Void(4),
        Compressed(&TEXT, 400),
        Records(&["the last one"], 0),
    ];
    let middle = |batch| log(&[Records(&["one"], 0), batch, Records(&["behind"], 0)]);
    let torn = |batch| {
        let contents = [Records(&[TEXT[0], TEXT[1]], 0), Compressed(&TEXT, 0), batch];
        let mut files = log_of(&compressing(), &contents, 2);
        let file = files.get_mut(FILE).unwrap();
        let end = file.iter().rposition(|byte| *byte != 0).unwrap() / 512 * 512;
        file[end..end + 512].fill(0);
        files
    };
    // Damages the second batch, which begins after the header of the first and one frame.
    let damaged = |from: usize| {
        let mut files = middle(Compressed(&TEXT, 0));
        let at = usize::try_from(compressing().data_start()).unwrap() + 48 + 16;
        files.get_mut(FILE).unwrap()[at + from] ^= 0x10;
        files
    };
    let without_bit = SegmentHeader { compression_max: Compression::None, ..compressing() };
    let refused = log_of(&without_bit, &[Records(&["one"], 0), Compressed(&TEXT, 0)], 2);
    let all = [
        ("compressed", "compressed batches among others", log(&sound)),
        (
            "compressed-torn",
            "a compressed batch of which a sector is missing",
            torn(Compressed(&TEXT, 0)),
        ),
        ("compressed-chunk", "a chunk of a compressed batch is damaged", damaged(48 + 8 + 32 + 20)),
        ("compressed-prefix", "the prefix of a compressed batch is damaged", damaged(48 + 4)),
        ("compressed-header", "the header of a compressed batch is damaged", damaged(9)),
        (
            "undecodable",
            "a compressed batch with right checksums, of which a chunk does not decode",
            middle(Undecodable(&TEXT)),
        ),
        (
            "undecodable-end",
            "the same as the last batch, which nothing confirms",
            log_of(&compressing(), &[Records(&["one"], 0), Undecodable(&TEXT)], 1),
        ),
        (
            "compressed-unannounced",
            "a compressed batch in a segment that may not have one",
            refused,
        ),
    ];
    all.into_iter().map(|(name, what, files)| (Case::of(name, what, &files), files)).collect()
}
