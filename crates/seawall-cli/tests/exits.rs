//! Exit codes, and the three lines of every error message, which scripts rely on.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test reports failure by panicking"
)]

use crate::tool;

use std::io::{BufRead, BufReader, Write};
use tool::Folder;

const SEGMENT: &str = "log/000000000001.seg";

#[test]
fn missing_path_exits_1_for_readers() {
    let folder = Folder::new("missing");
    for verb in ["cat", "verify", "stat"] {
        folder.run(&format!("{verb} nowhere"), b"").refused(1);
    }
    folder.run("append --no-create nowhere", b"x\n").refused(1);
    folder.run("append no/where", b"x\n").refused(1);
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn path_without_a_log_exits_8_and_is_unchanged() {
    let folder = Folder::new("foreign");
    folder.write("file", b"not a log");
    folder.make_folder("empty");
    folder.make_folder("foreign");
    folder.write("foreign/notes.txt", b"mine");
    for place in ["file", "empty", "foreign"] {
        for verb in ["cat", "verify", "stat"] {
            folder.run(&format!("{verb} {place}"), b"").refused(8);
        }
    }
    for place in ["file", "foreign", "--no-create empty"] {
        folder.run(&format!("append {place}"), b"x\n").refused(8);
    }
    assert_eq!(folder.names("foreign"), ["notes.txt"]);
    assert_eq!(folder.names("empty"), [""; 0]);
    assert_eq!(folder.read("file"), b"not a log");
}

#[test]
fn symbolic_link_to_a_log_is_followed() {
    let folder = Folder::new("link");
    folder.run("append log", b"x\n").fine();
    folder.make_link("log", "link");
    for place in ["link", "link/"] {
        folder.run(&format!("append {place}"), b"y\n").fine();
        for verb in ["cat", "verify", "stat"] {
            folder.run(&format!("{verb} {place}"), b"").fine();
        }
    }
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "x\ny\ny\n");
    folder.make_link("nowhere", "dangling");
    folder.run("cat dangling", b"").refused(1);
}

#[test]
fn io_error_names_path_and_cause_once() {
    let folder = Folder::new("once");
    folder.make_link("circle", "circle");
    let ran = folder.run("cat circle", b"");
    let said = ran.refused(1);
    let first = said.lines().next().expect("an error has a line");
    assert!(first.starts_with("seawall: cannot open circle: "), "{ran:?}");
    assert_eq!(first.matches("circle").count(), 1, "{ran:?}");
    assert_eq!(first.matches("symbolic links").count(), 1, "{ran:?}");
}

#[test]
fn log_is_accessible_only_to_its_owner_with_any_umask() {
    for umask in ["000", "022", "077"] {
        let folder = Folder::new(&format!("umask-{umask}"));
        folder
            .shell(&format!("umask {umask}; seawall append log; seawall copy log c"), b"x\n")
            .fine();
        for place in ["log", "c"] {
            assert_eq!(folder.mode(place), 0o700, "{place}");
            let names = folder.names(place);
            assert!(names.len() > 1);
            for name in names {
                assert_eq!(folder.mode(&format!("{place}/{name}")), 0o600, "{place}/{name}");
            }
        }
    }
}

#[test]
fn draft_version_exits_8_with_conversion_advice() {
    let folder = Folder::new("draft");
    folder.run("append log", b"x\n").fine();
    say_version(&folder, [0, 2]);
    for verb in ["append", "cat", "verify", "stat"] {
        let ran = folder.run(&format!("{verb} log"), b"");
        let said = ran.refused(8);
        assert!(said.contains("draft 2 of a format, version 0"), "{ran:?}");
        assert!(said.contains("seawall cat log -o len32"), "{ran:?}");
    }
}

#[test]
fn newer_log_exits_8_and_names_its_version() {
    let folder = Folder::new("newer");
    folder.run("append log", b"x\n").fine();
    say_version(&folder, [7, 0]);
    for verb in ["append", "cat", "verify", "stat"] {
        let ran = folder.run(&format!("{verb} log"), b"");
        assert!(ran.refused(8).contains("version 7"), "{ran:?}");
    }
    let ran = folder.run("verify log --json", b"");
    assert_eq!((ran.code, &ran.json()[0]["verdict"]), (8, &"format".into()));
}

/// Sets the version and the draft number in both slots of the manifest.
fn say_version(folder: &Folder, [version, draft]: [u16; 2]) {
    for slot in [0, 4096] {
        let mut preamble = folder.read("log/manifest")[slot..slot + 16].to_vec();
        preamble[8..10].copy_from_slice(&version.to_le_bytes());
        preamble[10..12].copy_from_slice(&draft.to_le_bytes());
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &preamble[..12]);
        preamble[12..].copy_from_slice(&u32::try_from(crc).unwrap().to_le_bytes());
        folder.overwrite("log/manifest", slot, &preamble);
    }
}

#[test]
fn second_writer_exits_6_and_readers_see_acknowledged_records() {
    let folder = Folder::new("busy");
    let mut writer = folder.start("append log --ack");
    let mut stdin = writer.stdin.take().unwrap();
    let mut acks = BufReader::new(writer.stdout.take().unwrap());
    // A single line is appended as soon as its newline arrives, although the pipe stays open.
    stdin.write_all(b"lone\n").unwrap();
    let mut ack = String::new();
    acks.read_line(&mut ack).unwrap();
    assert_eq!(ack, "1\n");
    folder.run("append log", b"x\n").refused(6);
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "lone\n");
    let ran = folder.run("stat log --json", b"");
    assert_eq!(ran.fine().json()[0]["in_use"], true);
    assert_eq!(folder.run("verify log --json", b"").fine().json()[0]["records"], 1);
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    folder.run("append log", b"x\n").fine();
}

#[test]
fn usage_errors_exit_2() {
    let folder = Folder::new("usage");
    for wrong in [
        "",
        "nonsense",
        "cat",
        "cat log --from 0",
        "append log --level high",
        "verify",
        "export x",
        "bench compare",
        "append log --compress",
    ] {
        assert_eq!(folder.run(wrong, b"").code, 2, "{wrong}");
    }
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn options_that_contradict_the_log_exit_2_by_name() {
    let folder = Folder::new("mismatch");
    folder.run("append log --segment-size 2MiB", b"x\n").fine();
    assert!(folder.run("append log --codec msgpack", b"").refused(2).contains("the log has raw"));
    assert!(folder.run("append log --format json", b"1\n").refused(2).contains("codec raw"));
    let ran = folder.run("append log --segment-size 4MiB", b"");
    assert!(ran.refused(2).contains("the log has 2097152"), "{ran:?}");
    folder.run("append new --segment-size 64K", b"").refused(2);
    folder.run("append log --segment-size 2MiB --codec raw --level confirmed", b"y\n").fine();
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "x\ny\n");
}

#[test]
fn flipped_bit_exits_5_and_the_lost_record_is_named() {
    let folder = Folder::new("flipped");
    folder.run("append log", b"before\n").fine();
    folder.run("append log", b"needle\n").fine();
    folder.run("append log", b"behind\n").fine();
    folder.flip(SEGMENT, b"needle");
    let ran = folder.run("verify log --json", b"");
    let found = &ran.json()[0];
    assert_eq!((ran.code, &found["verdict"], &found["exit"]), (5, &"lost".into(), &5.into()));
    assert_eq!((&found["schema"], &found["records"]), (&"seawall.verify/1".into(), &2.into()));
    let damage = &found["damage"][0];
    assert_eq!((&damage["lost_from"], &damage["lost_to"]), (&2.into(), &2.into()));
    assert_eq!((&damage["segment"], &damage["cause"]), (&1.into(), &"body".into()));
    assert!(folder.run("verify log", b"").text().contains("LSN 2 "), "text names it");

    let ran = folder.run("cat log -o raw", b"");
    ran.refused(5);
    assert_eq!(ran.text(), "before\n");
    let ran = folder.run("cat log -o raw --skip-damaged", b"");
    ran.refused(5);
    assert_eq!(ran.text(), "before\nbehind\n");
    assert_eq!(folder.run("cat log -o raw --to 1", b"").fine().text(), "before\n");
    assert_eq!(folder.run("cat log -o raw --from 3", b"").fine().text(), "behind\n");
    folder.run("append log", b"x\n").refused(5);
    for shape in ["", "--json", "--prometheus"] {
        let ran = folder.run(&format!("stat log {shape}"), b"");
        assert!(ran.text().to_lowercase().contains("lost"), "{ran:?}");
        assert_eq!((ran.code, ran.err.as_str()), (5, ""), "{shape}");
    }
}

#[test]
fn missing_first_segment_exits_5_for_every_reader() {
    let folder = Folder::new("first");
    let lines: Vec<u8> = (0..200_000).flat_map(|n| format!("{n:012}\n").into_bytes()).collect();
    folder.run("append log --segment-size 1MiB -q", &lines).fine();
    folder.remove(SEGMENT);
    let ran = folder.run("cat log", b"");
    ran.refused(5);
    assert_eq!(ran.text(), "");
    let ran = folder.run("verify log --json", b"");
    assert_eq!((ran.code, &ran.json()[0]["damage"][0]["lost_from"]), (5, &1.into()));
    let ran = folder.run("cat log --skip-damaged -o raw", b"");
    ran.refused(5);
    assert!(ran.text().ends_with("000000199999\n"));
}

#[test]
fn torn_tail_exits_0_unless_strict_and_an_ambiguous_one_3() {
    let folder = Folder::new("tail");
    // After this record the next batch header would cross a sector boundary.
    folder.run("append log", &[b'x'; 424]).fine();
    let at = folder.run("verify log --json", b"").json()[0]["tail"]["offset"].as_u64().unwrap();
    let at = usize::try_from(at).unwrap();
    assert_eq!(at % 512, 480);
    folder.overwrite(SEGMENT, at, &[0xff; 20]);
    let ran = folder.run("verify log --json", b"");
    assert_eq!(ran.fine().json()[0]["verdict"], "torn");
    assert_eq!(folder.run("verify log --strict", b"").code, 3);
    folder.run("stat log", b"").fine();
    assert_eq!(folder.run("cat log -o hex", b"").fine().text().len(), 2 + 848 + 1);

    folder.overwrite(SEGMENT, at, &[0xff; 2000]);
    let ran = folder.run("verify log --json", b"");
    assert_eq!((ran.code, &ran.json()[0]["verdict"]), (3, &"unsure".into()));
    let ran = folder.run("verify log", b"");
    assert!(ran.text().contains("next: seawall repair log  "), "{}", ran.text());
    assert_eq!(folder.run("stat log", b"").code, 3);
    let ran = folder.run("cat log", b"");
    ran.refused(3);
    assert_eq!(ran.text().len(), 2 + 424 + 1);
    assert_eq!(folder.run("cat log -n 1", b"").code, 0);
    // The new logs no longer show what may be lost, so the command that makes them says so.
    for made in ["copy log copied", "repair log --salvage-to salvaged"] {
        let ran = folder.run(made, b"");
        assert!(ran.refused(3).contains("ambiguous tail"), "{made}: {ran:?}");
        let new = made.rsplit(' ').next().unwrap();
        assert_eq!(folder.run(&format!("cat {new} -o raw"), b"").fine().text().len(), 424 + 1);
    }

    // Whatever opens the log for writing says where it moved the ambiguous bytes.
    folder.shell("cp -r log cut", b"").fine();
    let ran = folder.run("truncate cut --after none --yes", b"");
    assert!(ran.fine().err.contains("kept in cut/quarantine"), "{ran:?}");
    let ran = folder.run("append log", b"y\n");
    assert!(ran.fine().err.contains("quarantine"), "{ran:?}");
    let kept = ran.err.split_once("kept in ").unwrap().1.lines().next().unwrap();
    assert_eq!(folder.read(kept), [0xff; 2000]);
    folder.run("verify log --strict", b"").fine();
}

#[test]
fn several_logs_exit_with_the_worst_code() {
    let folder = Folder::new("several");
    folder.run("append good", b"x\n").fine();
    folder.run("append bad", b"needle\nx\n").fine();
    folder.flip("bad/000000000001.seg", b"needle");
    let ran = folder.run("verify good bad good --json", b"");
    assert_eq!(ran.code, 5);
    let verdicts: Vec<_> = ran.json().iter().map(|found| found["verdict"].clone()).collect();
    assert_eq!(verdicts, ["clean", "lost", "clean"]);
    folder.make_folder("empty");
    folder.write("file", b"not a log");
    // A wrong name next to a damaged log must not hide that records are lost.
    for logs in ["bad nowhere good", "nowhere bad", "bad empty good", "file bad nowhere"] {
        assert_eq!(folder.run(&format!("verify {logs}"), b"").code, 5, "{logs}");
    }
    folder.run("verify empty nowhere good", b"").refused(8);
    folder.run("verify good nowhere", b"").refused(1);
    let help = folder.run("verify --help", b"");
    assert!(help.fine().text().contains("5, 4, 3, 7"), "{help:?}");
}

#[test]
fn creation_on_a_full_disk_can_be_retried() {
    let folder = Folder::new("full");
    for blocks in [0, 1, 8, 100, 1000] {
        let line = format!("ulimit -f {blocks}; seawall append log --ack");
        let ran = folder.shell(&line, b"x\n");
        let said = ran.refused(1);
        for part in ["the file size limit (ulimit -f)", "--segment-size"] {
            assert!(said.contains(part), "{blocks}: {said}");
        }
        assert_eq!(ran.text(), "", "{blocks}");
    }
    assert_eq!(folder.run("append log --ack", b"x\n").fine().text(), "1\n");
    folder.run("verify log", b"").fine();
}

#[test]
fn disk_that_fills_up_keeps_acknowledged_records() {
    let folder = Folder::new("fills");
    let lines: Vec<u8> = (1..=200_000).flat_map(|n| format!("{n:0100}\n").into_bytes()).collect();
    let ran = folder.shell("ulimit -f 5000; seawall append log --ack", &lines);
    assert!(ran.refused(1).contains("nothing that was acknowledged is lost"), "{ran:?}");
    for part in ["send the rest again", "(ulimit -f)", "--segment-size"] {
        assert!(ran.err.contains(part), "{ran:?}");
    }
    let acknowledged = ran.text().lines().count();
    assert!(acknowledged > 1000, "{acknowledged}");
    let found = folder.run("cat log -o raw", b"");
    assert!(found.fine().text().lines().count() >= acknowledged);
    let numbers = (1..).map(|n| format!("{n:0100}"));
    assert!(found.text().lines().zip(numbers).all(|(line, number)| line == number));
    folder.run("append log --ack", b"more\n").fine();
}

#[test]
fn no_verb_is_ended_by_the_limit_on_file_sizes() {
    let folder = Folder::new("file-limit");
    let lines: Vec<u8> = (0..2000).flat_map(|n| format!("{n:0100}\n").into_bytes()).collect();
    folder.run("append log -q", &lines).fine();
    let verbs = [
        "convert log out.cwal --to cwal",
        "convert log out.wal --to seawall",
        "copy log copy",
        "append log --encrypt --key-file key -q",
        "append plain -q < log.txt",
        "cat log > log.txt",
    ];
    folder.run("keygen key", b"").fine();
    folder.shell("seawall cat log -o raw > log.txt", b"").fine();
    for verb in verbs {
        let ran = folder.shell(&format!("ulimit -f 16; seawall {verb}"), &lines);
        ran.refused(1);
    }
    folder.shell("ulimit -f 0; seawall keygen another", b"").refused(1);
    assert_eq!(folder.names("."), ["key", "log", "log.txt", "plain"]);
}

#[test]
fn unreadable_input_exits_1() {
    let folder = Folder::new("unreadable");
    let ran = folder.shell("seawall append log < .", b"");
    assert!(ran.refused(1).contains("standard input"), "{ran:?}");
    folder.shell("seawall append log <&-", b"").fine();
}

#[test]
fn unwritable_output_exits_1() {
    let folder = Folder::new("devfull");
    let ran = folder.shell("seawall append log --ack > /dev/full", b"x\n");
    ran.refused(1);
    for line in ["cat log", "--help", "cat --help", "--version"] {
        let ran = folder.shell(&format!("seawall {line} > /dev/full"), b"");
        assert!(ran.refused(1).contains("standard output"), "{line}: {ran:?}");
    }
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "x\n");
}

#[test]
fn every_code_and_every_word_of_verify_is_explained() {
    let folder = Folder::new("explain");
    for topic in "0 1 2 3 4 5 6 7 8 9 10 101 body segment-missing torn unsure LOST".split(' ') {
        let ran = folder.run(&format!("explain {topic}"), b"");
        assert!(ran.fine().text().contains("\nnext: "), "{ran:?}");
        assert!(ran.text().lines().all(|line| line.len() <= 80), "{ran:?}");
        let object = &folder.run(&format!("explain {topic} --json"), b"").fine().json()[0];
        assert_eq!(object["schema"], "seawall.explain/1");
        assert_eq!(object["topic"], topic.to_lowercase());
    }
    for topic in ["11", "-1", "nonsense"] {
        assert_eq!(folder.run(&format!("explain {topic}"), b"").code, 2);
    }
    assert!(folder.run("explain 11", b"").refused(2).contains("segment-header"));
    let ran = folder.run("verify nowhere", b"");
    assert!(folder.run(&format!("explain {}", ran.code), b"").text().contains("no such path"));
}

#[test]
fn printed_lsns_and_commands_can_be_pasted() {
    let folder = Folder::new("paste");
    let lines: Vec<u8> = (1..=12_000).flat_map(|n| format!("{n:0100}\n").into_bytes()).collect();
    folder.run("append 'a --segment-size 1MiB", &lines).fine();
    for verb in ["verify", "stat", "repair", "truncate --after 7378", "truncate --before 11999"] {
        let text = folder.run(&format!("{verb} 'a"), b"").text().to_owned();
        for (_, after) in text.match_indices("LSN ").map(|(at, _)| text.split_at(at + 4)) {
            let lsn: String = after.chars().take_while(|c| !c.is_whitespace()).collect();
            let ran = folder.run(&format!("cat 'a --from {lsn} -n 1"), b"");
            assert!(ran.fine().err.is_empty() || lsn == "12001", "{verb}: LSN {lsn}: {ran:?}");
        }
    }
    // LSNs pasted from a report, with separators, are accepted.
    for lsn in ["7378", "7,378", "7_378"] {
        let ran = folder.run(&format!("cat 'a --from {lsn} -n 1 -o raw"), b"");
        assert_eq!(ran.fine().text().trim_start_matches('0'), "7378\n", "{lsn}");
    }
    for lsn in ["-1", "0", "7,", "x"] {
        let ran = folder.run(&format!("cat 'a --from {lsn}"), b"");
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("LSNs are 1, 2, 3") && !ran.err.contains("-- -1"), "{ran:?}");
    }
    let plan = folder.run("truncate 'a --after 7378", b"").text().to_owned();
    let (_, command) = plan.split_once("to do it: ").expect("a command");
    folder.shell(command.trim(), b"").fine();
    assert_eq!(folder.run("stat 'a --json", b"").json()[0]["last_lsn"], 7378);
}

#[test]
fn empty_range_is_explained_and_a_second_shape_is_refused() {
    let folder = Folder::new("ranges");
    folder.run("append log", b"a\nb\nc\n").fine();
    let ran = folder.run("cat log --from 99", b"");
    assert!(ran.fine().err.contains("the last record is 3"), "{ran:?}");
    let ran = folder.run("cat log --from 10 --to 5", b"");
    assert!(ran.fine().err.contains("--from 10 is after --to 5"), "{ran:?}");
    assert_eq!(folder.run("cat log --from 99 -q", b"").fine().err, "");
    for verb in ["cat", "tail"] {
        folder.run(&format!("{verb} log --json -o raw"), b"").refused(2);
        let ran = folder.run(&format!("{verb} log --json -o json"), b"");
        assert_eq!(ran.fine().json().len(), 3);
    }
}

#[test]
fn advice_fits_the_error() {
    let folder = Folder::new("advice");
    folder.run("append log", b"x\n").fine();
    let name = "x".repeat(300);
    let ran = folder.run(&format!("append {name}"), b"x\n");
    assert!(ran.refused(1).contains("shorter name"), "{ran:?}");
    let ran = folder.run("append log --log-format json", b"x\n");
    assert!(ran.refused(2).contains("omit --log-format"), "{ran:?}");
    let ran = folder.run("append log --segment-size 2MiB", b"x\n");
    assert!(ran.refused(2).contains("omit --segment-size"), "{ran:?}");
    let ran = folder.run("append 'no/where", b"x\n");
    assert!(ran.refused(1).contains("mkdir -p ''\\''no'"), "{ran:?}");
    folder.write("file", b"");
    for place in ["nowhere", "file"] {
        let ran = folder.run(&format!("probe {place}"), b"");
        assert!(!ran.refused(1).contains("--dir"), "{ran:?}");
    }
}

/// The files are named like segments, but this closed log did not write them.
#[test]
fn orphan_file_in_a_closed_log_exits_0_and_is_named() {
    let folder = Folder::new("orphan");
    for (put, kind) in [
        (": > log/000000000009.seg", "empty"),
        ("cp log/000000000001.seg log/000000000009.seg", "copy"),
        ("cp other/000000000001.seg log/000000000009.seg", "foreign"),
    ] {
        folder.shell("rm -rf log other", b"");
        folder.run("append log", b"x\ny\n").fine();
        folder.run("append other", b"z\n").fine();
        folder.shell(put, b"").fine();
        let said = folder.run("verify log", b"");
        assert!(said.fine().text().contains("orphan     000000000009.seg"), "{}", said.text());
        let verdict = folder.run("verify log --json", b"").fine().json().remove(0);
        assert_eq!((&verdict["verdict"], &verdict["records"]), (&"clean".into(), &2.into()));
        let orphan = &verdict["orphans"][0];
        assert_eq!((&orphan["segment"], &orphan["kind"]), (&9.into(), &kind.into()));
        assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "x\ny\n");
        let plan = folder.run("repair log", b"");
        assert!(plan.fine().text().contains("seawall repair log --yes"), "{}", plan.text());
        if kind == "foreign" {
            folder.run("repair log --yes", b"").fine();
        } else {
            let said = folder.run("append log", b"more\n");
            assert!(said.fine().err.contains("000000000009.seg"), "{}", said.err);
        }
        assert!(!folder.names("log").contains(&"000000000009.seg".to_owned()));
        let kept = folder.names("log/quarantine");
        assert!(kept.iter().any(|name| name.ends_with("-000000000009.seg")), "{kept:?}");
    }
}
