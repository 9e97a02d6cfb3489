//! Golden files of encrypted logs: each way to write one, then torn, damaged and forged ones.

use super::Case;
use super::damaged::{Changed, Find};
use super::image::Files;
use super::observe::KEY;
use super::written::{Life, SETS};
use crate::fixup;
use seawall::encryption::{Key, Padding};
use seawall::parity::Parity;
use seawall::{Compression, Layout, Lsn, Options};
use seawall_format::SegmentHeader;

const ONE: &str = "000000000001.seg";
const TWO: &str = "000000000002.seg";
const THREE: &str = "000000000003.seg";

/// Sets whose batches have several chunks.
const SMALL: [&[usize]; 9] =
    [&[150], &[80, 0, 100], &[300], &[500], &[560], &[150, 150, 150], &[500], &[250], &[20]];

fn keyed(options: Options) -> Options {
    options.key(Key::new(&KEY)).encrypt(Padding::Off)
}

/// Begins an encrypted log and appends these sets.
fn log(sets: &[&[usize]], change: impl FnOnce(Options) -> Options) -> Life {
    let mut life = Life::begin(Layout::Binary, |options| change(keyed(options)));
    life.append(sets);
    life
}

fn padded(padding: Padding) -> Files {
    log(&SETS, |options| options.encrypt(padding)).closed()
}

fn compressed() -> Files {
    let lz4 = |options: Options| options.compression(Compression::Lz4).encode_sizes(0, 300);
    let life = log(&SMALL, lz4);
    assert!(life.log().stats().bytes < life.log().stats().plain_bytes, "it is compressed");
    life.closed()
}

/// All features that can be combined.
fn all_at_once() -> Files {
    let mut life = log(&SMALL[..5], |options| {
        let options = options.compression(Compression::Lz4).encode_sizes(0, 300);
        let options = options.encrypt(Padding::Padme).parity("4+2".parse().ok());
        options.name_ahead(true).writes_in_flight(2).stream_batch(1, 1)
    });
    life.log().renew_log_key().unwrap();
    life.append(&SMALL[5..]);
    life.power_cut()
}

/// The first two segments use the first key of the log, the others the second.
fn renewed() -> Life {
    let mut life = log(&SETS[..5], |options| options);
    life.log().renew_log_key().unwrap();
    life.append(&SETS[5..]);
    life
}

/// Written with another user key at first, which was then replaced with the key of these files.
fn rewrapped() -> Files {
    let mut life = log(&SETS[..3], |options| options.key(Key::new(&[9; 32])));
    life.log().change_key(&Key::new(&KEY)).unwrap();
    life.append(&SETS[3..]);
    life.closed()
}

/// Not encrypted until it was opened with a key.
fn later() -> Files {
    let mut life = Life::begin(Layout::Binary, |options| options);
    life.append(&SETS[..4]);
    life.close();
    life.open(2, keyed);
    life.append(&SETS[4..]);
    life.closed()
}

/// The fourth segment reuses the file of the second.
fn reused() -> Files {
    let mut life = log(&[&[860_usize] as &[usize]; 5], |options| options);
    life.log().truncate_before(Lsn::new(5).unwrap()).unwrap();
    life.append(&[&[860], &[300], &[40]]);
    let files = life.power_cut();
    assert!(files.keys().any(|name| name.contains(".before")), "a file is used again");
    files
}

fn in_flight() -> Files {
    let change =
        |options: Options| options.writes_in_flight(3).stream_batch(1, 1).segment_size(16 * 512);
    log(&[&[800], &[800], &[300], &[200, 200], &[700]], change).power_cut()
}

fn named_ahead() -> Files {
    let sets: [&[usize]; 6] = [&[800], &[800], &[300], &[200, 200], &[700], &[40]];
    log(&sets, |options| options.name_ahead(true)).power_cut()
}

/// Returns each case with its files.
pub(super) fn all() -> Vec<(Case, Files)> {
    let parity: Option<Parity> = "4+2".parse().ok();
    let sizes = Padding::multiple_of(256).unwrap();
    let all = [
        ("encrypted", "encrypted, three segments, closed", padded(Padding::Off)),
        (
            "encrypted-not-closed",
            "the same, left by a power cut",
            log(&SETS, |options| options).power_cut(),
        ),
        ("encrypted-padme", "encrypted, sizes of PADME", padded(Padding::Padme)),
        ("encrypted-multiple", "encrypted, sizes that are multiples of 256", padded(sizes)),
        ("encrypted-compressed", "encrypted and compressed, several chunks a batch", compressed()),
        (
            "encrypted-parity",
            "encrypted, parity of four blocks and two",
            log(&SETS, |options| options.parity(parity)).closed(),
        ),
        ("encrypted-renewed", "encrypted, two keys of the log", renewed().closed()),
        ("encrypted-rewrapped", "encrypted, and the user's key was replaced", rewrapped()),
        ("encrypted-later", "plain, then encrypted", later()),
        ("encrypted-reused", "encrypted, a segment in a file of a removed one", reused()),
        ("encrypted-in-flight", "encrypted, with several writes in flight", in_flight()),
        ("encrypted-named-ahead", "encrypted, segments named ahead", named_ahead()),
        (
            "encrypted-all",
            "all of it at once: compressed, padded, with parity, in flight, two keys of the log",
            all_at_once(),
        ),
    ];
    all.into_iter().map(|(name, what, files)| (Case::of(name, what, &files), files)).collect()
}

/// Returns the cases derived from other ones.
pub(super) fn changed(find: &Find<'_>) -> Vec<Case> {
    let log = || Changed::new(find, "encrypted");
    let (first, _) = log().batch(ONE, 1);
    let (last, _) = log().batch(THREE, usize::MAX);
    let crashed = Changed::new(find, "encrypted-in-flight");
    let newest = crashed.before.keys().rfind(|name| name.contains(".seg")).unwrap().clone();
    let (_, end) = crashed.batch(&newest, usize::MAX);
    let parity = || Changed::new(find, "encrypted-parity");
    let (block, _) = parity().batch(TWO, 0);
    // A chunk's payload begins after the batch header, the prefix and the chunk header.
    let chunk = 48 + 24 + 40;
    let mut forged = log().flip(THREE, last + chunk + 5);
    fixup::segment(forged.file(THREE));
    let mut forged_head = log().set(TWO, 184, &[1]);
    fixup::segment(forged_head.file(TWO));
    let header = SegmentHeader::decode(&log().before[TWO]).unwrap();
    let header = SegmentHeader { authenticator: None, ..header }.encode();
    let stripped = log().set(TWO, 0, &header);
    vec![
        log().flip(ONE, first + chunk + 5).case("encrypted-chunk", "one bit of a chunk"),
        log().flip(ONE, first + 48 + 9).case("encrypted-code", "one bit of the code of a batch"),
        crashed.zero(&newest, end - 512, 512).case("encrypted-torn", "row body-torn"),
        parity().zero(TWO, block, 200).case("encrypted-parity-one", "a block of a stripe"),
        log().zero("keys", 0, 136).case("encrypted-keys-slot", "the newer slot of keys"),
        Case::from("encrypted-keys-lost", "keys are lost", "from encrypted\nremove keys\n"),
        Case::from(
            "encrypted-keys-older",
            "keys as they were before the log got another one",
            "from encrypted-renewed\ntake encrypted keys keys\n",
        ),
        forged.case("encrypted-forged", "a chunk of someone without the key, right checksums"),
        forged_head.case("encrypted-forged-head", "a header of someone without the key, likewise"),
        stripped.case("encrypted-stripped", "a header that says that nothing is encrypted"),
    ]
}
