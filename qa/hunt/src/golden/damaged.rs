//! Golden files derived from other ones: torn, damaged, edited, or of a newer version.

use super::Case;
use super::image::Files;
use seawall_format::batch::BatchHeader;
use seawall_format::scan::{Limit, Scanner, Step, Window};
use seawall_format::{Epoch, LogId, Offset, Salt, SegmentHeader};
use std::fmt::Write;

const ONE: &str = "000000000001.seg";
const TWO: &str = "000000000002.seg";
const THREE: &str = "000000000003.seg";
const FOUR: &str = "000000000004.seg";
const FIRST_TEXT: &str = "000000000001.jsonl";
const PARITY: &str = "000000000002.parity";

/// Returns the files of the case with that name.
pub(super) type Find<'a> = dyn Fn(&str) -> Files + 'a;

pub(super) fn all(find: &Find<'_>) -> Vec<Case> {
    [torn(find), damaged(find), evidence(find), texts(find), mended(find), newer(find), moved()]
        .into_iter()
        .chain([reused(find), in_flight(find), named_ahead(find)])
        .flatten()
        .collect()
}

/// The files of a case before and after changes.
pub(super) struct Changed {
    base: &'static str,
    pub(super) before: Files,
    now: Files,
}

impl Changed {
    pub(super) fn new(find: &Find<'_>, base: &'static str) -> Self {
        let before = find(base);
        Self { base, now: before.clone(), before }
    }

    pub(super) fn file(&mut self, name: &str) -> &mut Vec<u8> {
        self.now.get_mut(name).unwrap()
    }

    pub(super) fn flip(mut self, name: &str, at: usize) -> Self {
        self.file(name)[at] ^= 0x10;
        self
    }

    pub(super) fn zero(mut self, name: &str, at: usize, size: usize) -> Self {
        self.file(name)[at..at + size].fill(0);
        self
    }

    pub(super) fn set(mut self, name: &str, at: usize, bytes: &[u8]) -> Self {
        self.file(name)[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn cut(mut self, name: &str, length: usize) -> Self {
        self.file(name).truncate(length);
        self
    }

    /// Returns the start and end of batch `number` of a segment; `usize::MAX` means the last batch.
    pub(super) fn batch(&self, name: &str, number: usize) -> (usize, usize) {
        let bytes = &self.before[name];
        let header = SegmentHeader::decode(bytes).unwrap();
        let first = &bytes[usize::try_from(header.data_start()).unwrap()..];
        let begun = Some(&header).filter(|header| header.named_ahead);
        let begun = begun.and_then(|header| BatchHeader::begins(header, first));
        let header = begun.unwrap_or(header);
        let length = u64::try_from(bytes.len()).unwrap();
        let mut scanner = Scanner::new(&header, length, Limit::Open);
        let mut found = vec![];
        while let Step::Batch(batch) = scanner.step(Window { start: Offset(0), bytes }) {
            found.push([batch.offset, batch.end].map(|at| usize::try_from(at.0).unwrap()));
        }
        let [at, end] = found[number.min(found.len() - 1)];
        (at, end)
    }

    /// Sets the checksum at offset `crc` of the structure from `from` to `to`.
    fn sign(mut self, name: &str, (from, crc, to): (usize, usize, usize), epoch: bool) -> Self {
        let bytes = self.file(name);
        let log = LogId(number(bytes, from + 32));
        let epoch = if epoch { number(bytes, from + 48) } else { 0 };
        let at = Offset(u64::try_from(from).unwrap());
        let sum = Salt::new(log, Epoch(epoch)).checksum(at, &bytes[from + crc + 4..to]);
        self.set(name, from + crc, &sum.to_le_bytes())
    }

    /// Sets the version and the draft in the preamble at `at`.
    fn version(mut self, name: &str, at: usize, [version, draft]: [u16; 2]) -> Self {
        self = self.set(name, at + 8, &version.to_le_bytes());
        self = self.set(name, at + 10, &draft.to_le_bytes());
        let sum = seawall_format::parity::Known::checksum(&self.file(name)[at..at + 12]);
        self.set(name, at + 12, &sum.to_le_bytes())
    }

    pub(super) fn case(self, name: &'static str, what: &'static str) -> Case {
        let mut text = format!("from {}\n", self.base);
        for (file, bytes) in &self.before {
            match self.now.get(file) {
                None => writeln!(text, "remove {file}").unwrap(),
                Some(now) => edits(&mut text, file, bytes, now),
            }
        }
        assert!(text.lines().count() > 1, "{name}: nothing was changed");
        Case::from(name, what, &text)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())
}

/// Writes the edits that turn `before` into `now`: the length, and each run of changed bytes.
fn edits(text: &mut String, file: &str, before: &[u8], now: &[u8]) {
    if before.len() != now.len() {
        writeln!(text, "length {file} {:x}", now.len()).unwrap();
    }
    let differs = |at: usize| before.get(at).copied().unwrap_or(0) != now[at];
    let mut at = 0;
    while at < now.len() {
        if !differs(at) {
            at += 1;
            continue;
        }
        // Eight unchanged bytes end a run.
        let is_end = |end: &usize| (*end..end + 8).all(|at| at >= now.len() || !differs(at));
        let end = (at..=now.len()).find(is_end).unwrap();
        let run = &now[at..end];
        if run.len() > 16 && run.iter().all(|byte| *byte == 0) {
            writeln!(text, "zero {file} {at:x} {:x}", run.len()).unwrap();
        } else {
            let digits: Vec<_> = run.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "set {file} {at:x} {}", digits.concat()).unwrap();
        }
        at = end;
    }
}

/// Cases for the rows of the recovery table about what follows the last record.
fn torn(find: &Find<'_>) -> Vec<Case> {
    let wide = || Changed::new(find, "wide");
    let (at, end) = wide().batch(TWO, 0);
    let sector = at / 512 * 512 + 512;
    vec![
        wide().zero(TWO, at, sector - at).case("torn-header", "row header-torn"),
        wide().zero(TWO, sector, end - sector).case("torn-body", "row body-torn"),
        wide().flip(TWO, at + 9).case("unsure-header", "row otherwise: a header, and no zeros"),
        wide().flip(TWO, end - 9).case("unsure-body", "row otherwise: a body, and no zeros"),
        wide()
            .zero(TWO, at, end - at)
            .set(TWO, at + 0x700, &[7])
            .case("unsure-far", "row beyond-window: a byte further away than a write reaches"),
    ]
}

fn damaged(find: &Find<'_>) -> Vec<Case> {
    let closed = || Changed::new(find, "closed");
    let second = closed().batch(ONE, 1);
    let last = closed().batch(THREE, usize::MAX);
    let body = second.0 + 48;
    let mut strange = closed();
    strange.file("manifest").fill(0);
    vec![
        closed().flip(ONE, body + 12).case("body", "one bit of a record's payload"),
        closed().flip(ONE, body + 1).case("length", "one bit of a record's length"),
        closed().flip(ONE, second.0 + 9).case("header", "one bit of a batch's header"),
        closed()
            .zero(ONE, second.0, second.1 - second.0)
            .case("zeros", "a batch in the middle is zeros"),
        closed()
            .flip(ONE, body + 12)
            .flip(TWO, closed().batch(TWO, 0).0 + 60)
            .case("two-segments", "records of two segments"),
        closed().flip(THREE, last.0 + 60).case("last", "the last record; the clean close knows it"),
        closed().flip(TWO, 60).case("segment-header", "row header-unreadable"),
        closed().cut(TWO, 2700).case("cut-file", "an older file is cut within its records"),
        closed().cut(THREE, last.1).case("cut-short", "row cut-short: zeros are missing"),
        strange.case("manifest", "row manifest-unreadable: both slots"),
        closed().zero("manifest", 0, 512).case("manifest-slot", "one slot, which nobody misses"),
        closed().zero(ONE, 1536, 48).case("seal", "a seal, which nobody misses"),
    ]
}

/// Damage to the last records, with different evidence left of them.
fn evidence(find: &Find<'_>) -> Vec<Case> {
    let confirmed = || Changed::new(find, "confirmed");
    let newest = confirmed().now.keys().rfind(|name| name.contains(".seg")).unwrap().clone();
    let (at, _) = confirmed().batch(&newest, usize::MAX);
    let killed = || Changed::new(find, "killed");
    let (killed_at, _) = killed().batch(THREE, usize::MAX);
    vec![
        confirmed().flip(&newest, at + 9).case("mark", "the last batch; a mark knows it"),
        confirmed()
            .flip(&newest, at + 9)
            .zero(&newest, 512, 1024)
            .case("no-mark", "the same, and both marks are lost"),
        killed()
            .flip(THREE, killed_at + 9)
            .case("live", "the last batch, by live alone: that is no evidence"),
        Changed::new(find, "checkpointed")
            .flip("manifest", 600)
            .case("checkpointed-slot", "a slot of the manifest of a pruned log"),
    ]
}

fn texts(find: &Find<'_>) -> Vec<Case> {
    let readable = || Changed::new(find, "reserved");
    let short = || Changed::new(find, "reserved-short");
    let line = |bytes: &[u8], number: usize| {
        let before: usize =
            bytes.split_inclusive(|byte| *byte == b'\n').take(number).map(<[u8]>::len).sum();
        let length = bytes[before..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        (before, before + length)
    };
    let text = readable().before[FIRST_TEXT].clone();
    let (from, to) = line(&text, 1);
    let changed = text[from..].windows(3).position(|three| three == b".50").unwrap() + from + 1;
    let short_text = short().before[FIRST_TEXT].clone();
    let (_, first_end) = line(&short_text, 0);
    let (_, second_end) = line(&short_text, 1);
    let mut spread = readable();
    let shown = String::from_utf8(text.clone()).unwrap();
    let shown = shown.replace("\"data\":{", "\"data\": {\n  ").replacen(
        "{\"lsn\":1,",
        "{ \"lsn\" : 1,\n",
        1,
    );
    *spread.file(FIRST_TEXT) = shown.replace(".50", ".50 ").into_bytes();
    let mut gone = readable();
    gone.file(FIRST_TEXT).drain(from..to);
    vec![
        short()
            .cut(FIRST_TEXT, second_end - 7)
            .case("reserved-torn-line", "row line-torn: half a line"),
        short()
            .cut(FIRST_TEXT, second_end)
            .case("reserved-torn-set", "row line-torn: a set is open"),
        short().flip(FIRST_TEXT, first_end + 9).case("reserved-unsure", "row otherwise, in a text"),
        rewritten(&spread, "reserved-edited", "white space that a person put in"),
        readable()
            .set(FIRST_TEXT, changed, b"4")
            .case("reserved-changed", "a number that is another"),
        rewritten(&gone, "reserved-line-gone", "a line that was deleted"),
        Case::from(
            "reserved-text-missing",
            "row text-missing",
            "from reserved\nremove 000000000002.jsonl\n",
        ),
        Case::from(
            "reserved-head-missing",
            "a head is gone, and its text is there",
            "from reserved\nremove 000000000002.head\n",
        ),
    ]
}

/// A case that stores the whole changed text, because nearly every byte of it differs.
fn rewritten(changed: &Changed, name: &'static str, what: &'static str) -> Case {
    let text: Files = [(FIRST_TEXT.to_owned(), changed.now[FIRST_TEXT].clone())].into();
    let text = super::image::show(&text);
    Case::from(name, what, &format!("from {}\n{text}", changed.base))
}

fn mended(find: &Find<'_>) -> Vec<Case> {
    let parity = || Changed::new(find, "parity");
    let (at, _) = parity().batch(TWO, 0);
    let harm = |blocks: &[usize]| {
        blocks.iter().fold(parity(), |log, block| log.zero(TWO, at + 512 * block, 200))
    };
    vec![
        harm(&[0]).case("parity-one", "a block of a stripe"),
        harm(&[0, 1]).case("parity-two", "two blocks of a stripe, as many as come back"),
        harm(&[0, 1, 2]).case("parity-three", "three blocks of a stripe, one too many"),
        parity().flip(TWO, 60).case("parity-header", "the header of a segment"),
        parity().flip(PARITY, 60).flip(PARITY, 572).case("parity-heads", "both heads of a parity"),
        parity()
            .flip(PARITY, 60)
            .zero(TWO, at, 200)
            .case("parity-one-head", "a head of a parity, and a block of its segment"),
        Case::from(
            "parity-gone",
            "a file of parity is gone, which nobody misses",
            "from parity\nremove 000000000002.parity\n",
        ),
        Changed::new(find, "reserved-parity")
            .zero(FIRST_TEXT, 100, 60)
            .case("reserved-parity-one", "bytes of a text"),
    ]
}

/// Cases where the end of a segment in a reused file differs from the file's old content, or cannot
/// be compared with it.
fn reused(find: &Find<'_>) -> Vec<Case> {
    let log = || Changed::new(find, "reused");
    let (at, end) = log().batch(FOUR, usize::MAX);
    let old = find("not-closed").remove(TWO).unwrap();
    let (sector, table) = (end.next_multiple_of(512), "000000000004.before");
    let mut without = log();
    without.now.remove(table);
    vec![
        without.case("reused-no-table", "a reused file without its table"),
        log().flip(table, 70).case("reused-table", "a reused file with a damaged table"),
        log().flip(FOUR, sector + 700).case("reused-changed", "a changed byte after the end"),
        log()
            .set(FOUR, at / 512 * 512, &old[at / 512 * 512..sector])
            .case("reused-old", "the last block as an earlier segment left it"),
    ]
}

/// Cases where the power was cut while the last two batches were in flight and the first is lost.
fn in_flight(find: &Find<'_>) -> Vec<Case> {
    let log = || Changed::new(find, "in-flight");
    let ((first, _), (second, end)) = (log().batch(TWO, 2), log().batch(TWO, 3));
    let head = SegmentHeader::decode(&log().before[TWO]).unwrap();
    let mut bytes = log().before[TWO][second..second + 48].to_vec();
    // The two records before this batch were not confirmed.
    bytes[20] = 2;
    let sum = head.salt().checksum(Offset(u64::try_from(second).unwrap()), &bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    let cut = || log().set(TWO, second, &bytes);
    vec![
        cut().zero(TWO, first, 512).case("in-flight-first", "the first of two writes is lost"),
        cut()
            .zero(TWO, first, 512)
            .zero(TWO, second + 512, end - second - 512)
            .case("in-flight-both", "the first of two writes is lost, and half of the second"),
        log().zero(TWO, first, 512).case("in-flight-lost", "a confirmed batch is lost"),
    ]
}

/// Cases where the third segment has no batch yet, or its first batch is torn or damaged.
fn named_ahead(find: &Find<'_>) -> Vec<Case> {
    let log = || Changed::new(find, "named-ahead");
    let ((first, _), (last, end)) = (log().batch(TWO, 0), log().batch(TWO, usize::MAX));
    let next = log().before[THREE].len() - first;
    let unbegun = || log().zero(THREE, first, next);
    vec![
        unbegun().case("named-ahead-next", "a segment that has not begun, named by a seal"),
        unbegun()
            .zero(TWO, 3 * 512, 512)
            .case("named-ahead-unnamed", "a segment that has not begun, named by none"),
        unbegun()
            .set(THREE, first + 600, &[1])
            .case("named-ahead-torn", "a part of the first batch"),
        unbegun()
            .zero(TWO, last, end - last)
            .case("named-ahead-sealed", "a record is lost that a seal confirms"),
        log()
            .set(TWO, first + 8, &[0xA5; 16])
            .case("named-ahead-header", "the header of a first batch is damaged"),
        log().zero(TWO, first, 512).case("named-ahead-first", "a part of a first batch is lost"),
    ]
}

/// Files as a newer program may write them one day, and as an older one wrote them.
fn newer(find: &Find<'_>) -> Vec<Case> {
    let closed = || Changed::new(find, "closed");
    let (at, _) = closed().batch(TWO, 0);
    let header = |log: Changed| log.sign(TWO, (0, 16, 192), true);
    let slot = |log: Changed| log.sign("manifest", (512, 16, 720), false);
    let batch = |flag: u8| {
        let log = closed();
        let head = SegmentHeader::decode(&log.before[TWO]).unwrap();
        let mut bytes = log.before[TWO][at..at + 48].to_vec();
        bytes[7] |= flag;
        let sum = head.salt().checksum(Offset(u64::try_from(at).unwrap()), &bytes[4..]);
        log.set(TWO, at, &sum.to_le_bytes()).set(TWO, at + 4, &bytes[4..8])
    };
    let parity = |byte| {
        let log = Changed::new(find, "parity").set(PARITY, byte, &[1]);
        let log = log.set(PARITY, 512 + byte, &[1]);
        log.sign(PARITY, (0, 16, 280), true).sign(PARITY, (512, 16, 792), true)
    };
    vec![
        closed().version("manifest", 0, [2, 0]).case("newer-manifest", "a manifest of version 2"),
        closed().version(TWO, 0, [2, 0]).case("newer-segment", "a segment of version 2"),
        closed().version(TWO, 0, [2, 3]).case("newer-draft", "a segment of a draft of version 2"),
        closed()
            .version("manifest", 0, [0, 2])
            .version("manifest", 512, [0, 2])
            .case("older-draft", "a manifest of the last draft before version 1"),
        header(closed().set(TWO, 104, &[1])).case("newer-feature", "a feature bit of a segment"),
        header(closed().set(TWO, 107, &[0x80])).case("newer-feature-31", "another one"),
        header(closed().set(TWO, 119, &[1])).case("newer-byte", "a byte of a segment's header"),
        header(closed().set(TWO, 108, &[4])).case("newer-codec", "a codec"),
        header(closed().set(TWO, 110, &[2])).case("newer-layout", "a layout"),
        // Feature bit 1 was not in use when this case was made.
        slot(closed().set("manifest", 512 + 120, &[2])).case("newer-log", "a feature of a log"),
        // Feature bit 2 was not in use, either.
        slot(closed().set("manifest", 512 + 120, &[4]))
            .case("newer-log-2", "another feature of it"),
        // Feature bit 3 was not in use, either.
        slot(closed().set("manifest", 512 + 120, &[8])).case("newer-log-3", "a third one"),
        slot(closed().set("manifest", 512 + 135, &[1])).case("newer-log-byte", "a manifest's byte"),
        slot(closed().set("manifest", 512 + 127, &[3])).case("newer-level", "a level"),
        batch(0x10).case("newer-prefix", "a batch with a prefix"),
        batch(0x20).case("newer-stripe", "a batch of parity"),
        batch(0x40).case("newer-encrypted", "an encrypted batch"),
        batch(0x80).case("newer-compressed", "a compressed batch"),
        parity(28).case("newer-parity", "a feature of parity, which the log does not need"),
        parity(80).case("newer-parity-byte", "a byte of parity's head, likewise"),
    ]
}

/// Cases where files are missing, or have the content of others.
fn moved() -> Vec<Case> {
    [
        ("oldest-missing", "row oldest-missing", "closed", "remove 000000000001.seg"),
        ("middle-missing", "row chain-broken", "closed", "remove 000000000002.seg"),
        ("newest-missing", "row newest-missing", "closed", "remove 000000000003.seg"),
        (
            "misplaced",
            "row misplaced: a segment under the name of another",
            "closed",
            "take closed 000000000003.seg 000000000002.seg",
        ),
        (
            "foreign-segment",
            "row misplaced: a segment of another log",
            "closed",
            "take usual-sizes 000000000001.seg 000000000002.seg",
        ),
        (
            "duplicated",
            "a batch stands in the place of another, too",
            "closed",
            "copy 000000000001.seg a00 d0 ad0",
        ),
        (
            "came-back",
            "a segment that a cut took is back, and counts for nothing",
            "cut",
            "take closed 000000000003.seg 000000000003.seg",
        ),
        (
            "unknown-name",
            "a file that is no part of the log",
            "closed",
            "file 000000000001.index 8\n0 0102030405060708",
        ),
        (
            "checkpointed-oldest",
            "the oldest segment of a pruned log is gone",
            "checkpointed",
            "remove 000000000002.seg",
        ),
        (
            "strange-manifest",
            "a manifest of another log",
            "closed",
            "take usual-sizes manifest manifest",
        ),
    ]
    .into_iter()
    .map(|(name, what, base, edits)| Case::from(name, what, &format!("from {base}\n{edits}\n")))
    .collect()
}
