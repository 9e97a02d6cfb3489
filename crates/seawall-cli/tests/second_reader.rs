//! docs/format.md suffices to read a log: docs/reader.py, a second reader written from that text
//! and not from the code, agrees with `seawall cat` on sound, torn and damaged logs.
//!
//! Without `python3` each test is skipped and prints so, even if the output of passing tests is
//! hidden.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::tool;

use seawall_io::{Entropy, SeededEntropy, SystemEntropy};
use std::io::{self, BufRead, BufReader, Write};
use std::sync::OnceLock;
use tool::{Folder, Ran};

pub(crate) const READER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reader.py");
/// Prints the path of the interpreter, because `python3` may be a slow wrapper script.
const PYTHON: &str =
    "python3 -c 'import sys; assert sys.version_info >= (3, 8); print(sys.executable)'";
const SEGMENT: &str = "log/000000000001.seg";
const SECTOR: usize = 512;
const BLOCK: usize = 4096;
/// Where the batches of a segment begin: section 3 of format.md.
const BATCHES: usize = 4 * BLOCK + 65_536;
const FLIPS: usize = 50;

/// The interpreter, if one is installed that can run the reader.
pub(crate) fn python(folder: &Folder) -> Option<&'static str> {
    static PLACE: OnceLock<Option<String>> = OnceLock::new();
    let found = PLACE.get_or_init(|| {
        let ran = folder.shell(PYTHON, b"");
        (ran.code == 0).then(|| ran.text().trim().to_owned())
    });
    found.as_deref()
}

/// Runs the second reader on a log. It needs only the standard library: without `-S`, the search
/// for other packages can take ten times as long as reading.
fn read(folder: &Folder, log: &str) -> Ran {
    let python = python(folder).expect("a test without an interpreter is skipped");
    folder.shell(&format!("'{python}' -S '{READER}' {log}"), b"")
}

/// A folder, if the second reader can run.
pub(crate) fn folder(name: &str) -> Option<Folder> {
    let folder = Folder::new(name);
    if python(&folder).is_some() {
        return Some(folder);
    }
    // Written to stderr directly, because the harness hides the output of passing tests.
    let _ = writeln!(
        io::stderr(),
        "{name}: SKIPPED: no python3 of 3.8 or later is installed; docs/reader.py was NOT compared"
    );
    None
}

/// Checks that both readers show the same records and the same end of a log.
#[track_caller]
fn both(folder: &Folder, log: &str) -> Ran {
    let cat = folder.run(&format!("cat {log} -o hex"), b"");
    let read = read(folder, log);
    let report =
        || format!("{} {}\n{} {}\n{}", cat.code, ends(&cat), read.code, ends(&read), read.err);
    assert!(cat.out == read.out, "cat, reader: {}\n{}", report(), cat.err);
    // Only `cat` looks past the damage and can tell with exit code 4 that all records are readable.
    let code = if cat.code == 4 { 5 } else { cat.code };
    assert_eq!(code, read.code, "{}\n{}", report(), cat.err);
    if code == 5 {
        let names = |word| read.err.lines().last().is_some_and(|line| line.contains(word));
        assert!(["segment ", "offset 0x", "LSN "].into_iter().all(names), "{}", read.err);
    }
    read
}

/// The exit code and the number of records on which both readers agree for `log`.
#[track_caller]
fn says(folder: &Folder) -> (i32, usize) {
    let read = both(folder, "log");
    (read.code, count(&read))
}

/// The number of records in an output, and its last line.
fn ends(ran: &Ran) -> String {
    let last = ran.text().lines().last().unwrap_or_default();
    format!("{} records to {}", count(ran), last.get(..40).unwrap_or(last))
}

fn count(ran: &Ran) -> usize {
    ran.text().lines().count()
}

fn lines(count: usize, length: usize) -> Vec<u8> {
    let line = |n: usize| {
        [format!("{:04}", n % 10_000).into_bytes(), vec![b'.'; length - 4], vec![b'\n']].concat()
    };
    (0..count).flat_map(line).collect()
}

/// Appends lines, each in its own batch, and kills the writer.
fn append_and_kill(folder: &Folder, level: &str, (count, length): (usize, usize)) {
    let command = "append log --ack -q --segment-size 1MiB --level";
    let mut writer = folder.start(&format!("{command} {level}"));
    let mut stdin = writer.stdin.take().unwrap();
    let mut acks = BufReader::new(writer.stdout.take().unwrap());
    for line in lines(count, length).split_inclusive(|byte| *byte == b'\n') {
        stdin.write_all(line).unwrap();
        acks.read_line(&mut String::new()).unwrap();
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // `live` would tell `cat` up to which LSN the writer was durable. After a reboot that is
    // unknown.
    folder.remove("log/live");
}

fn segments(folder: &Folder) -> Vec<String> {
    let names = folder.names("log").into_iter().filter(|name| name.contains(".seg"));
    names.map(|name| format!("log/{name}")).collect()
}

/// Writes a log of several segments by truncations and recoveries, with batches that are no longer
/// valid.
fn short(folder: &Folder) {
    folder.run("append log --segment-size 1MiB", &lines(30, 200)).fine();
    folder.run("truncate log --after 20 --yes", b"").fine();
    append_and_kill(folder, "synced", (5, 700));
    folder.run("append log", &lines(30, 90)).fine();
    folder.run("truncate log --after 52 --yes", b"").fine();
    folder.run("append log", &lines(10, 90)).fine();
    folder.run("truncate log --after 55 --yes", b"").fine();
    append_and_kill(folder, "confirmed", (3, 70));
    assert!(segments(folder).len() >= 4, "{:?}", segments(folder));
}

#[test]
fn empty_log_has_no_records_and_empty_directory_no_log() {
    let Some(folder) = folder("second-empty") else { return };
    folder.run("append log", b"").fine();
    assert_eq!(says(&folder), (0, 0));
    folder.make_folder("nothing");
    assert_eq!(both(&folder, "nothing").code, 8);
    for (manifest, code) in [(b"SEAWALLM", 0), (b"SEAWALLS", 8)] {
        folder.write("nothing/manifest", manifest);
        assert_eq!(both(&folder, "nothing").code, code);
    }
    // An interrupted creation: no manifest, and an empty segment.
    folder.remove("log/manifest");
    folder.remove("log/live");
    assert_eq!(both(&folder, "log").code, 0);
}

#[test]
fn both_readers_agree_on_sound_logs() {
    let Some(folder) = folder("second-sound") else { return };
    folder.run("append log --segment-size 1MiB", b"\na\n\0\xff\n\nfour\nfive5\n").fine();
    assert_eq!(count(&both(&folder, "log")), 6);
    folder.run("truncate log --after none --yes", b"").fine();
    assert_eq!(count(&both(&folder, "log")), 0);
    folder.run("append log", &lines(14, 80_000)).fine();
    folder.run("truncate log --after 12 --yes", b"").fine();
    assert_eq!(says(&folder), (0, 12));
    folder.run("truncate log --after none --yes", b"").fine();
    short(&folder);
    assert_eq!(says(&folder), (0, 58));
    folder.run("append log", &lines(14, 80_000)).fine();
    folder.run("truncate log --before 60 --yes", b"").fine();
    let found = both(&folder, "log");
    assert!(!found.text().starts_with("1\t"), "{}", ends(&found));
    assert!(found.text().lines().last().unwrap().starts_with("72\t"), "{}", ends(&found));
}

#[test]
fn second_reader_ignores_parity_and_reports_damage() {
    let Some(folder) = folder("second-parity") else { return };
    folder.run("append log --segment-size 1MiB --parity 16+2", &lines(9, 200)).fine();
    folder.run("append log", b"needle\n").fine();
    folder.run("append log --parity 2+1", &lines(14, 80_000)).fine();
    let parity = |folder: &Folder| {
        let names = folder.names("log").into_iter();
        names.filter(|name| name.ends_with(".parity")).collect::<Vec<_>>()
    };
    assert_eq!(parity(&folder).len(), segments(&folder).len());
    assert_eq!(says(&folder), (0, 24));
    folder.run("append log --parity none", &lines(1, 50)).fine();
    assert_eq!(says(&folder), (0, 25));
    for name in parity(&folder) {
        folder.write(&format!("log/{name}"), b"garbage");
    }
    assert_eq!(says(&folder), (0, 25));
    let name = parity(&folder).remove(0);
    folder.remove(&format!("log/{name}"));
    folder.run("protect log", b"").fine();
    assert_eq!(says(&folder), (0, 25));
    // `cat` restores the record from parity. The second reader ignores parity and stops before it.
    folder.flip(SEGMENT, b"needle");
    let cat = folder.run("cat log -o hex", b"");
    assert_eq!((cat.code, count(&cat)), (4, 25));
    let read = read(&folder, "log");
    assert_eq!((read.code, count(&read)), (5, 9));
    assert!(cat.out.starts_with(&read.out));
}

#[test]
fn tail_of_a_killed_writer_is_torn_or_ambiguous() {
    let Some(folder) = folder("second-torn") else { return };
    append_and_kill(&folder, "synced", (6, 2000));
    let sound = folder.read(SEGMENT);
    assert_eq!(says(&folder), (0, 6));
    let end = sound.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let last = (end - 2000 - 56) / 8 * 8;
    let mut codes = vec![];
    let ends = (last / SECTOR..=end / SECTOR).map(|sector| sector * SECTOR);
    for (from, to) in ends.clone().map(|at| (at.max(last), at + SECTOR)).chain([(last, end)]) {
        let zeros = vec![0; to - from];
        folder.overwrite(SEGMENT, from, &zeros);
        let found = both(&folder, "log");
        assert_eq!(count(&found), 5, "zeros from {from:#x}");
        codes.push(found.code);
        folder.write(SEGMENT, &sound);
    }
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
    for at in [last + 8, last + 60, end - 1] {
        folder.overwrite(SEGMENT, at, &[sound[at] ^ 1]);
        assert_eq!(says(&folder), (3, 5), "{at:#x}");
        folder.write(SEGMENT, &sound);
    }
    folder.overwrite(SEGMENT, end + (9 << 16), b"far away");
    assert_eq!(count(&both(&folder, "log")), 6);
}

#[test]
fn stale_live_file_hides_no_record_from_either_reader() {
    let Some(folder) = folder("second-old-live") else { return };
    tool::append_and_leave_an_old_live(&folder, (9, 4));
    assert_eq!(says(&folder), (0, 9));
    // Nor does it make a lost record look like the end of the log.
    let sound = folder.read(SEGMENT);
    let at = sound.windows(6).position(|bytes| bytes == b"line 3").unwrap();
    folder.overwrite(SEGMENT, at, b"mine 3");
    assert_eq!(says(&folder), (5, 2));
}

#[test]
fn records_given_up_by_a_repair_are_skipped_and_reported() {
    let Some(folder) = folder("second-void") else { return };
    folder.run("append log --segment-size 1MiB", &lines(20, 50)).fine();
    folder.run("append log", b"needle\n").fine();
    folder.run("append log", &lines(20, 50)).fine();
    folder.flip(SEGMENT, b"needle");
    assert_eq!(says(&folder), (5, 20));
    folder.run("repair log --salvage-to new", b"");
    let found = both(&folder, "new");
    assert_eq!((found.code, count(&found)), (0, 40));
    assert_eq!(found.err, "reader: LSN 21 to 21 were given up\n");
    let cat = folder.run("cat new -o hex", b"");
    assert!(cat.err.contains("record 21 given up"), "{cat:?}");
}

#[test]
fn both_readers_refuse_another_version() {
    let Some(folder) = folder("second-version") else { return };
    folder.run("append log --segment-size 1MiB", &lines(3, 50)).fine();
    for (name, slot, field) in
        [("log/manifest", 0, 8), ("log/manifest", BLOCK, 10), (SEGMENT, 0, 8), (SEGMENT, 0, 10)]
    {
        let sound = folder.read(name);
        let mut preamble = sound[slot..slot + 16].to_vec();
        preamble[field] += 1;
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &preamble[..12]);
        preamble[12..].copy_from_slice(&u32::try_from(crc).unwrap().to_le_bytes());
        folder.overwrite(name, slot, &preamble);
        assert_eq!(says(&folder), (8, 0), "{name}");
        folder.write(name, &sound);
    }
}

/// Each change is detected by a single check or piece of evidence.
#[test]
fn both_readers_detect_each_loss_from_one_piece_of_evidence() {
    let Some(folder) = folder("second-evidence") else { return };
    folder.run("append log --segment-size 1MiB", b"first\n").fine();
    folder.run("append log", b"needle\n").fine();
    let sound = folder.read(SEGMENT);
    let at = sound.windows(6).position(|bytes| bytes == b"needle").unwrap();
    // Padding after the payload: the checksum of the body covers it.
    folder.overwrite(SEGMENT, at + 7, &[1]);
    assert_eq!(says(&folder), (5, 1));
    // Remove the last batch: the clean close recorded its LSN.
    folder.overwrite(SEGMENT, at - 56, &[0; 64]);
    assert_eq!(says(&folder), (5, 1));
    // Make the file shorter than its header says.
    folder.write(SEGMENT, &sound[..sound.len() - BLOCK]);
    assert_eq!(says(&folder), (5, 2));
}

#[test]
fn both_readers_miss_confirmed_records_of_a_killed_writer() {
    let Some(folder) = folder("second-killed") else { return };
    append_and_kill(&folder, "confirmed", (3, 500));
    let sound = folder.read(SEGMENT);
    assert_eq!(says(&folder), (0, 3));
    let batch = |n: usize| BATCHES + n * (48 + 8 + 504);
    // Erase the marks and all but the last batch: its header confirms the earlier records.
    folder.overwrite(SEGMENT, BLOCK, &[0; 2 * BLOCK]);
    folder.overwrite(SEGMENT, batch(0), &[0; 2 * 560]);
    assert_eq!(says(&folder), (5, 0));
    // Erase the last batch: a mark confirms it.
    folder.write(SEGMENT, &sound);
    folder.overwrite(SEGMENT, batch(2), &[0; 560]);
    assert_eq!(says(&folder), (5, 2));
    folder.overwrite(SEGMENT, BLOCK, &[0; 2 * BLOCK]);
    assert_eq!(says(&folder), (0, 2));
}

#[test]
fn both_readers_miss_carried_records() {
    let Some(folder) = folder("second-carried") else { return };
    // Records longer than a block: the first shares no block with the records that the open carries
    // over.
    append_and_kill(&folder, "synced", (3, 5000));
    append_and_kill(&folder, "synced", (1, 500));
    assert_eq!(says(&folder), (0, 4));
    let newest = segments(&folder).pop().unwrap();
    assert_ne!(newest, SEGMENT);
    folder.overwrite(&newest, BATCHES, &[0; 4 * BLOCK]);
    assert_eq!(says(&folder), (5, 1));
}

#[test]
fn both_readers_miss_lost_files_and_show_no_truncated_record() {
    let Some(folder) = folder("second-files") else { return };
    short(&folder);
    let mut names = segments(&folder);
    names.push("log/manifest".to_owned());
    for name in names {
        let sound = folder.read(&name);
        folder.remove(&name);
        assert_eq!(both(&folder, "log").code, 5, "{name}");
        folder.write(&name, &[0; 2 * BLOCK]);
        assert_eq!(both(&folder, "log").code, 5, "{name}");
        folder.write(&name, &sound);
    }
    // Replace the newest segment by one of another log, and by an older one of this log.
    folder.run("append other --segment-size 1MiB", b"other\n").fine();
    let newest = segments(&folder).pop().unwrap();
    for stranger in [folder.read("other/000000000001.seg"), folder.read(SEGMENT)] {
        folder.write(&newest, &stranger);
        assert_eq!(both(&folder, "log").code, 5);
    }
}

#[test]
fn both_readers_stop_at_the_same_flipped_bit() {
    let Some(folder) = folder("second-flips") else { return };
    short(&folder);
    let sound = both(&folder, "log");
    assert_eq!(sound.code, 0);
    let mut places = vec![];
    for name in segments(&folder).into_iter().chain(["log/manifest".to_owned()]) {
        let used = folder.read(&name);
        let used =
            used.chunks(SECTOR).enumerate().filter(|(_, bytes)| bytes.iter().any(|b| *b > 0));
        places.extend(used.map(|(sector, _)| (name.clone(), sector * SECTOR)));
    }
    let seed = SystemEntropy.random().unwrap();
    println!("seed {seed}");
    let dice = SeededEntropy::new(seed);
    let throw = |sides: usize| {
        usize::try_from(dice.random().unwrap() % u64::try_from(sides).unwrap()).unwrap()
    };
    let mut stopped = 0;
    for _ in 0..FLIPS {
        let (name, sector) = &places[throw(places.len())];
        let (at, bit) = (sector + throw(SECTOR), throw(8));
        println!("{name} {at:#x} bit {bit}");
        let bytes = folder.read(name);
        folder.overwrite(name, at, &[bytes[at] ^ 1 << bit]);
        let found = both(&folder, "log");
        assert!(sound.out.starts_with(&found.out), "nothing else is shown");
        assert!(found.code > 0 || found.out == sound.out, "nothing is missing unsaid");
        stopped += usize::from(found.code > 0);
        folder.write(name, &bytes);
    }
    assert!(stopped > FLIPS / 10, "{stopped} of {FLIPS} were damage");
}

/// The file is named like a segment after the newest one.
#[test]
fn both_readers_distinguish_an_orphan_from_a_lost_segment() {
    let Some(folder) = folder("second-orphan") else { return };
    folder.run("append other", b"1\n2\n").fine();
    let puts = [
        (": > log/000000000099.seg", 0),
        ("head -c 99999 /dev/zero > log/000000000099.seg", 0),
        ("cp log/000000000001.seg log/000000000099.seg", 0),
        ("cp other/000000000001.seg log/000000000099.seg", 0),
        ("echo > log/000000000099.seg", 5),
        (": > log/000000000099.seg; echo > log/000000000099.parity", 5),
        (": > log/000000000099.seg; echo > log/000000000098.seg", 5),
    ];
    for (put, code) in puts {
        folder.shell("rm -rf log", b"");
        folder.run("append log --segment-size 1MiB", &lines(30, 200)).fine();
        folder.shell(put, b"");
        assert_eq!(says(&folder), (code, 30), "{put}");
        // Without the mark of a clean close, a segment may have followed.
        let mut manifest = folder.read("log/manifest");
        for at in [304, BLOCK + 304] {
            manifest[at..at + 8].fill(0);
        }
        folder.write("log/manifest", &manifest);
        assert_eq!(says(&folder), (code.max(3), 30), "{put}");
        // Once a record follows the close, the file may have been a segment.
        folder.shell("rm -f log/00000000009*", b"");
        append_and_kill(&folder, "confirmed", (1, 70));
        folder.shell(put, b"");
        assert_eq!(says(&folder), (5, 31), "{put}");
    }
}

/// Changes a file with statements in the language of the second reader, whose functions are `R`.
/// They get the file as `data` and its first bytes as the header `head` of a segment.
fn alter(folder: &Folder, name: &str, statements: &str) {
    let docs = READER.strip_suffix("/reader.py").unwrap();
    let script = format!(
        "import sys\nsys.path[:0] = ['{docs}']\nimport reader as R\n\
         def sign(start, end, log, epoch, at):\n    \
             crc = R.crc32c(data[start + 4:end]) ^ R.place(log, epoch, at)\n    \
             data[start:start + 4] = crc.to_bytes(4, 'little')\n\
         data = bytearray(open('{name}', 'rb').read())\nhead = R.HEADER(data)\n{statements}\n\
         open('{name}', 'wb').write(data)\n"
    );
    let python = python(folder).expect("a test without an interpreter is skipped");
    folder.shell(&format!("'{python}' -S -B -"), script.as_bytes()).fine();
}

#[test]
fn seal_that_names_no_successor_is_not_valid() {
    let Some(folder) = folder("second-seal") else { return };
    folder.run("append log --segment-size 1MiB", &lines(3, 50)).fine();
    for (next_id, says_now) in [(0, (0, 3)), (2, (5, 3))] {
        let seal = format!(
            "at = 3 * head.block\n\
             data[at + 4:at + 48] = b'SEAL' + R.numbers(head.epoch, 8, {next_id}, 0, 0)\n\
             sign(at, at + 48, head.log, head.epoch, at)"
        );
        alter(&folder, SEGMENT, &seal);
        assert_eq!(says(&folder), says_now, "next id {next_id}");
    }
}

#[test]
fn encrypted_slot_without_an_authenticator_does_not_count() {
    let Some(folder) = folder("second-slot") else { return };
    folder.run("append log --segment-size 1MiB", &lines(3, 50)).fine();
    for slot in [0, BLOCK] {
        let sound = folder.read("log/manifest");
        let encrypts = format!(
            "at = {slot}\nslot = R.MANIFEST(data, at)\ndata[at + 120] |= R.ENCRYPTS\n\
             crc = R.crc32c(data[at + 20:at + 208]) ^ R.place(slot.log, 0, at)\n\
             data[at + 16:at + 20] = crc.to_bytes(4, 'little')"
        );
        alter(&folder, "log/manifest", &encrypts);
        assert_eq!(says(&folder), (0, 3), "slot at {slot}");
        folder.write("log/manifest", &sound);
    }
}

/// The layout in a slot is that of the segments to come.
#[test]
fn slot_of_the_readable_layout_hides_no_binary_segment() {
    let Some(folder) = folder("second-layout") else { return };
    folder.run("append log --segment-size 1MiB --codec json", b"1\n2\n").fine();
    folder.run("append log", b"3\n").fine();
    for slot in [0, BLOCK] {
        let sound = folder.read("log/manifest");
        let readable = format!(
            "at = {slot}\nslot = R.MANIFEST(data, at)\n\
             data[at + 120:at + 124], data[at + 126], data[at + 135] = bytes(4), 1, 0\n\
             crc = R.crc32c(data[at + 20:at + 208]) ^ R.place(slot.log, 0, at)\n\
             data[at + 16:at + 20] = crc.to_bytes(4, 'little')"
        );
        alter(&folder, "log/manifest", &readable);
        assert_eq!(says(&folder), (0, 3), "slot at {slot}");
        folder.write("log/manifest", &sound);
    }
}

/// A newer program wrote that batch. `cat` goes on after damage, and so finds it.
#[test]
fn both_readers_refuse_an_unknown_batch_after_damage() {
    let Some(folder) = folder("second-unknown") else { return };
    append_and_kill(&folder, "confirmed", (4, 500));
    let unknown = format!(
        "name = '{SEGMENT}'\nat, batch = list(R.Segment(name, 1, None).headers())[2]\n\
         data[at + 7] |= 0x10\nsign(at, at + 48, head.log, head.epoch, at)"
    );
    alter(&folder, SEGMENT, &unknown);
    assert_eq!(says(&folder), (8, 2));
    // In the payload, and in the header, of the first batch.
    for (at, shown) in [(BATCHES + 99, 0), (BATCHES + 17, 0)] {
        let sound = folder.read(SEGMENT);
        folder.overwrite(SEGMENT, at, &[sound[at] ^ 1]);
        assert_eq!(says(&folder), (8, shown), "{at:#x}");
        folder.write(SEGMENT, &sound);
    }
}

/// The checksum of a frame serves to find records in damage. That of the body covers it.
#[test]
fn checksum_of_a_frame_does_not_matter_in_a_valid_batch() {
    let Some(folder) = folder("second-frame") else { return };
    folder.run("append log --segment-size 1MiB", b"1\n2\nneedle\n").fine();
    let last_frame = "at = data.index(b'needle') - 4\ndata[at] ^= 1\n\
         at, batch = [found for found in R.Segment(name, 1, None).headers()][-1]\n\
         start, end = at + 48, at + 48 + batch.length\n\
         crc = R.crc32c(data[start:end]) ^ R.place(head.log, head.epoch, start)\n\
         data[at + 24:at + 28] = crc.to_bytes(4, 'little')\n\
         sign(at, at + 48, head.log, head.epoch, at)";
    alter(&folder, SEGMENT, &format!("name = '{SEGMENT}'\n{last_frame}"));
    assert_eq!(says(&folder), (0, 3));
}

#[test]
fn both_readers_show_the_plain_segments_before_those_whose_keys_are_lost() {
    let Some(folder) = folder("second-keys") else { return };
    folder.run("append log --segment-size 1MiB", &lines(20, 50)).fine();
    folder.run("keygen key", b"").fine();
    folder.run("append log --encrypt --key-file key", &lines(20, 50)).fine();
    folder.remove("log/keys");
    let cat = folder.run("cat log -o hex --key-file key", b"");
    let read = read(&folder, "log key");
    assert_eq!((read.code, count(&read), read.text()), (cat.code, 20, cat.text()), "{}", read.err);
}

/// Pipes, directories, links, and files with a hole of a tebibyte.
#[test]
fn both_readers_read_regular_files_only_and_no_more_than_a_log_has() {
    let Some(folder) = folder("second-regular") else { return };
    let puts = [
        ("mkfifo log/000000000099.seg", (0, 30)),
        ("mkdir log/000000000099.seg", (0, 30)),
        ("ln -s 000000000001.seg log/000000000099.seg", (0, 30)),
        ("truncate -s 1T log/000000000099.seg", (5, 30)),
        ("truncate -s 1T log/000000000001.seg", (0, 30)),
        ("truncate -s 1T log/manifest", (0, 30)),
        ("rm log/manifest; mkfifo log/manifest", (1, 0)),
        ("rm log/manifest; mkdir log/manifest", (1, 0)),
        ("mv log/manifest m; ln -s ../m log/manifest", (1, 0)),
        ("mv log/000000000001.seg s; ln -s ../s log/000000000001.seg", (5, 0)),
        ("rm log/000000000001.seg; mkfifo log/000000000001.seg", (5, 0)),
    ];
    for (put, says_now) in puts {
        folder.shell("rm -rf log", b"");
        folder.run("append log --segment-size 1MiB", &lines(30, 200)).fine();
        folder.shell(put, b"").fine();
        assert_eq!(says(&folder), says_now, "{put}");
    }
}
