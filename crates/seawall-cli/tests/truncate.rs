//! Truncation at both ends: nothing is removed without `--yes`, and with it no more than announced.

use crate::tool;
use seawall_format::Manifest;

use seawall_io::{Entropy, SeededEntropy};
use std::io::{BufRead, BufReader, Write};
use tool::Folder;

fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    numbers.flat_map(|n| format!("{n:0100}\n").into_bytes()).collect()
}

/// A log of several segments.
fn long(folder: &Folder) -> u64 {
    folder.run("append log --segment-size 1MiB", &lines(1..=30_000)).fine();
    assert!(segments(folder).len() >= 3, "{:?}", segments(folder));
    30_000
}

fn segments(folder: &Folder) -> Vec<String> {
    folder.names("log").into_iter().filter(|name| name.contains(".seg")).collect()
}

fn state(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let names = folder.names("log").into_iter();
    let files = names.filter(|name| name.contains(['.', 'm']) && !name.contains("quarantine"));
    files.map(|name| (name.clone(), folder.read(&format!("log/{name}")))).collect()
}

#[test]
fn truncate_changes_nothing_without_yes_and_exactly_the_plan_with_it() {
    let folder = Folder::new("truncate-before");
    let last = long(&folder);
    for before in [1, 5000, 15_000, 1_000_000] {
        let untouched = state(&folder);
        let command = format!("truncate log --before {before} --json");
        let said = folder.run(&command, b"").fine().json().remove(0);
        folder.run(&format!("{command} --dry-run"), b"").fine();
        assert!(state(&folder) == untouched, "a dry run is dry");
        let (was, before_bytes) = (segments(&folder).len(), bytes(&folder));
        let mut did = folder.run(&format!("{command} --yes"), b"").fine().json().remove(0);
        assert_eq!(did["done"], true);
        did["done"] = false.into();
        assert_eq!(said, did);
        let gone = u64::try_from(was - segments(&folder).len()).unwrap();
        assert_eq!(said["segments"], gone);
        assert_eq!(said["bytes"], before_bytes - bytes(&folder));
        let oldest = said["oldest_lsn"].as_u64().unwrap();
        assert!(oldest <= before, "{said}");
        let found = folder.run("stat log --json", b"").fine().json().remove(0);
        assert_eq!((&found["oldest_lsn"], &found["last_lsn"]), (&oldest.into(), &last.into()));
        let cat = folder.run("cat log -o raw", b"");
        assert_eq!(cat.fine().text().lines().next().unwrap(), format!("{oldest:0100}"));
        assert_eq!(cat.text().lines().count(), usize::try_from(last + 1 - oldest).unwrap());
    }
    let oldest = folder.run("stat log --json", b"").json()[0]["oldest_lsn"].as_u64().unwrap();
    assert!(oldest > 1);
    // No file was reused, so that older programs can read the log.
    let slots = Manifest::decode_file(&folder.read("log/manifest"));
    assert!(slots.into_iter().all(|slot| !slot.unwrap().reuses));
    for verb in ["cat log --from 1", "truncate log --after 1", "truncate log --after 1 --yes"] {
        let ran = folder.run(verb, b"");
        assert!(ran.refused(1).contains(&format!("records before {oldest} were")), "{ran:?}");
    }
    folder.write("at", b"1\n");
    folder.run("tail log --cursor-file at", b"").refused(1);
    assert_eq!(
        folder.run(&format!("cat log -n 1 --from {oldest}"), b"").fine().text().len(),
        100 + 2 + oldest.to_string().len()
    );
    folder.run("verify log --strict", b"").fine();
}

#[test]
fn each_kind_of_log_is_truncated_as_planned() {
    let folder = Folder::new("truncate-kinds");
    folder.run("keygen key", b"").fine();
    // Records that cannot be compressed.
    let entropy = SeededEntropy::new(1);
    let word = |_| format!("{:016x}", entropy.random().expect("it never fails"));
    let record = |_| (0..6).map(word).collect::<String>() + "\n";
    let records: Vec<u8> = (1..=30_000).flat_map(|n| record(n).into_bytes()).collect();
    for (kind, key) in [
        ("--encrypt", "--key-file key"),
        ("--compress lz4", ""),
        ("--log-format json", ""),
        ("--parity 4+1", ""),
        ("--parity 4+1 --encrypt", "--key-file key"),
    ] {
        folder.shell("rm -rf log", b"").fine();
        folder.run(&format!("append log --segment-size 1MiB {kind} {key}"), &records).fine();
        let command = format!("truncate log --before 29000 --json {key}");
        let said = folder.run(&command, b"").fine().json().remove(0);
        let oldest = said["oldest_lsn"].as_u64();
        assert!(said["segments"].as_u64() > Some(0) && oldest > Some(1), "{kind}: {said}");
        folder.run(&format!("{command} --yes"), b"").fine();
        let stat = folder.run(&format!("stat log --json {key}"), b"").fine().json().remove(0);
        assert_eq!(
            (stat["oldest_lsn"].as_u64(), &stat["records"]),
            (oldest, &(30_001 - oldest.unwrap()).into()),
            "{kind}"
        );
    }
}

#[test]
fn orphan_segments_change_no_plan() {
    let folder = Folder::new("truncate-orphans");
    long(&folder);
    let planned = |log: &str| {
        let ran = folder.run(&format!("truncate {log} --before 20000 --json"), b"");
        ran.fine().json().remove(0)
    };
    let expected = planned("log");
    assert!(expected["segments"].as_u64() > Some(1), "{expected}");
    for (kind, orphan) in [
        ("copy", folder.read("log/000000000001.seg")),
        ("copy", folder.read("log/000000000002.seg")),
        ("empty", vec![]),
        ("empty", vec![0; 4096]),
    ] {
        folder.shell("rm -rf with && cp -r log with", b"").fine();
        folder.write("with/000000000099.seg", &orphan);
        let verified = folder.run("verify with --json", b"").fine().json().remove(0);
        assert_eq!(verified["orphans"][0]["kind"], kind, "{verified}");
        let mut said = planned("with");
        said["log"] = expected["log"].clone();
        assert_eq!(said, expected, "{kind}");
        folder.run("truncate with --before 20000 --yes", b"").fine();
        let stat = folder.run("stat with --json", b"").fine().json().remove(0);
        assert_eq!(stat["oldest_lsn"], expected["oldest_lsn"], "{kind}");
        folder.run("verify with --strict", b"").fine();
    }
}

fn bytes(folder: &Folder) -> u64 {
    segments(folder).iter().map(|name| folder.read(&format!("log/{name}")).len() as u64).sum()
}

#[test]
fn truncated_records_never_return() {
    let folder = Folder::new("truncate-after");
    folder.run("append log", b"a\nb\nc\nd\n").fine();
    let ran = folder.run("truncate log --after 2", b"");
    let text = ran.fine().text();
    assert!(text.contains("2 records would be removed") && text.contains("LSN 3 .. 4"), "{text}");
    assert!(text.contains("seawall truncate log --after 2 --yes"), "{text}");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "a\nb\nc\nd\n");
    let ran = folder.run("truncate log --after 2 --yes --json", b"").fine().json().remove(0);
    assert_eq!(ran["schema"], "seawall.truncate/1");
    assert_eq!((&ran["records"], &ran["next_lsn"]), (&2.into(), &3.into()));
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "a\nb\n");
    assert_eq!(folder.run("append log --ack", b"e\n").fine().text(), "3\n");
    let text = folder.run("truncate log --after 3 --yes", b"").fine().text().to_owned();
    assert!(text.contains("nothing"), "{text}");
    folder.run("truncate log --after none --yes", b"").fine();
    assert_eq!(folder.run("cat log", b"").fine().text(), "");
    assert_eq!(folder.run("append log --ack", b"f\n").fine().text(), "1\n");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "f\n");
    folder.run("verify log --strict", b"").fine();
}

/// `none` means before the first remaining record, whatever its LSN.
#[test]
fn pruned_log_can_be_emptied() {
    let folder = Folder::new("truncate-none");
    let last = long(&folder);
    let before =
        folder.run("truncate log --before 25000 --yes --json", b"").fine().json().remove(0);
    let oldest = before["oldest_lsn"].as_u64().unwrap();
    assert!(oldest > 1);
    let command = "truncate log --after none --json";
    let mut said = folder.run(command, b"").fine().json().remove(0);
    assert_eq!((&said["first_lsn"], &said["last_lsn"]), (&oldest.into(), &last.into()));
    assert_eq!(said["next_lsn"], oldest);
    let text = folder.run("truncate log --after none", b"").fine().text().to_owned();
    assert!(text.contains("seawall truncate log --after none --yes"), "{text}");
    said["done"] = true.into();
    let did = folder.run(&format!("{command} --yes"), b"").fine().json().remove(0);
    assert_eq!(did, said);
    assert_eq!(folder.run("cat log", b"").fine().text(), "");
    folder.run("verify log --strict", b"").fine();
    assert!(folder.run("truncate log --after none --yes", b"").fine().text().contains("nothing"));
    assert_eq!(folder.run("append log --ack", b"new\n").fine().text(), format!("{oldest}\n"));
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "new\n");
}

/// Opening the log after a kill starts a new segment, so that the segment before it could be
/// removed, too. The plan did not announce that.
#[test]
fn truncation_after_a_kill_removes_no_more_than_planned() {
    let folder = Folder::new("truncate-kill");
    let mut append = folder.start("append log --ack --segment-size 1MiB");
    let mut stdin = append.stdin.take().unwrap();
    let acks = BufReader::new(append.stdout.take().unwrap());
    let feeder = std::thread::spawn(move || {
        stdin.write_all(&lines(1..=12_000)).unwrap();
        stdin
    });
    assert!(acks.lines().any(|line| line.unwrap() == "12000"));
    append.kill().unwrap();
    append.wait().unwrap();
    drop(feeder.join().unwrap());
    let command = "truncate log --before 1000000 --json";
    let said = folder.run(command, b"").fine().json().remove(0);
    let gone = said["records"].as_u64().unwrap();
    assert!((1..12_000).contains(&gone), "{said}");
    folder.run(&format!("{command} --yes"), b"").fine();
    let left = folder.run("cat log -o raw", b"").fine().text().lines().count();
    assert_eq!(left, usize::try_from(12_000 - gone).unwrap());
    folder.run("verify log", b"").fine();
}

/// A plan that cannot be carried out is not offered, and makes no false claims.
#[test]
fn damaged_log_is_refused_with_and_without_yes() {
    let folder = Folder::new("truncate-damaged");
    long(&folder);
    folder.shell("cp -r log missing", b"").fine();
    folder.remove("missing/000000000002.seg");
    folder.flip("log/000000000001.seg", &lines(200..=200)[..100]);
    for (log, end) in
        [("missing", "--before 25000"), ("missing", "--after 9"), ("log", "--after 300")]
    {
        let plan = folder.run(&format!("truncate {log} {end}"), b"");
        let said = plan.refused(5);
        assert!(said.contains("damaged"), "{said}");
        assert!(!plan.text().contains("to do it"), "{}", plan.text());
        assert!(!plan.text().contains("only whole segments"), "{}", plan.text());
        let deed = folder.run(&format!("truncate {log} {end} --yes"), b"");
        assert_eq!(deed.refused(5), said, "{log} {end}");
    }
}

/// The header of a batch is damaged: all records can be read, but the log cannot be opened.
#[test]
fn readable_log_that_cannot_be_opened_is_refused_with_and_without_yes() {
    let folder = Folder::new("truncate-readable");
    for text in ["one\n", "two\n", "three\n"] {
        folder.run("append log", text.as_bytes()).fine();
    }
    let segment = folder.read("log/000000000001.seg");
    let first = segment.windows(3).position(|bytes| bytes == b"one").unwrap();
    folder.overwrite("log/000000000001.seg", first / 4096 * 4096, &[0xff; 4]);
    assert_eq!(folder.run("cat log -o raw --skip-damaged", b"").text().lines().count(), 3);
    let plan = folder.run("truncate log --after 2", b"");
    let said = plan.refused(4);
    assert!(!plan.text().contains("to do it"), "{}", plan.text());
    assert_eq!(folder.run("truncate log --after 2 --yes", b"").refused(4), said);
    let ran = folder.run("convert log made --to cwal", b"");
    assert!(ran.refused(4).contains("the source is damaged, but no entry is"), "{ran:?}");
    assert!(ran.err.contains("made has all 3 entries"), "{ran:?}");
    let ran = folder.run("convert log made --to cwal --json", b"").json().remove(0);
    assert_eq!((&ran["damage"]["entry"], &ran["entries"]), (&serde_json::Value::Null, &3.into()));
}

#[test]
fn truncate_uses_the_common_exit_codes() {
    let folder = Folder::new("truncate-codes");
    folder.run("append log", b"one\n").fine();
    folder.run("append log", b"needle\n").fine();
    for wrong in [
        "truncate log",
        "truncate log --yes",
        "truncate log --before 0",
        "truncate log --before none",
        "truncate log --before 1 --after 2",
        "truncate log --after 1 --yes --dry-run",
    ] {
        assert_eq!(folder.run(wrong, b"").code, 2, "{wrong}");
    }
    folder.run("truncate nowhere --after 1", b"").refused(1);
    folder.make_folder("foreign");
    folder.run("truncate foreign --after 1 --yes", b"").refused(8);
    let mut writer = folder.start("append log --ack");
    let mut ack = String::new();
    let mut stdin = writer.stdin.take().unwrap();
    stdin.write_all(b"three\n").unwrap();
    let mut acks = BufReader::new(writer.stdout.take().unwrap());
    acks.read_line(&mut ack).unwrap();
    folder.run("truncate log --after 1 --yes", b"").refused(6);
    // Also if there is nothing to remove.
    folder.run("truncate log --before 1 --yes", b"").refused(6);
    folder.run("truncate log --after 9 --yes", b"").refused(6);
    assert!(folder.run("truncate log --after 1", b"").fine().err.contains("a writer has the log"));
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    folder.flip("log/000000000001.seg", b"needle");
    folder.run("truncate log --after 1", b"").refused(5);
    folder.run("truncate log --after 1 --yes", b"").refused(5);
    assert_eq!(folder.run("cat log -n 1 -o raw", b"").fine().text(), "one\n");
}
