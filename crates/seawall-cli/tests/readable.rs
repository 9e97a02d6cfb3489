//! The readable log as a process: `jq`, `tail -f` and an editor work on it, every command does, and
//! a kill loses no acknowledged record.

#![allow(clippy::indexing_slicing, reason = "a test reports failure by panicking")]

use crate::tool;

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;
use tool::{Folder, skipped};

const TEXT: &str = "log/000000000001.jsonl";
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a tool is installed; prints that the test is skipped if not.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        skipped(&format!("there is no {tool} here, and nobody has tried whether it works"));
    }
    found
}

fn orders(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let line = |n| format!("{{\"id\":{n},\"op\":\"buy\",\"price\":1.50}}\n");
    numbers.flat_map(|n| line(n).into_bytes()).collect()
}

fn with_log(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.run("append log --format json --log-format json", &orders(1..=20)).fine();
    folder
}

#[test]
fn jq_reads_the_files_and_its_reformatted_output_is_valid() {
    if !has("jq") {
        return;
    }
    let folder = with_log("readable-jq");
    let sum = folder.shell("jq -s 'map(.data.id) | add' log/*.jsonl", b"").fine().text().to_owned();
    assert_eq!(sum, "210\n");
    let third = folder.shell("jq -c 'select(.lsn == 3).data.id' log/*.jsonl", b"");
    assert_eq!(third.fine().text(), "3\n");
    // Pretty-printed with sorted members. Some versions of jq write 1.50 as 1.5, which changes the
    // record, so the test uses integers.
    let integers: Vec<u8> =
        (1..=20).flat_map(|n| format!("{{\"b\":{n},\"a\":[1]}}\n").into_bytes()).collect();
    folder.run("append pretty --format json --log-format json", &integers).fine();
    let place = "pretty/000000000001.jsonl";
    folder.shell(&format!("jq -S . {place} > new && cat new > {place}"), b"").fine();
    assert!(folder.read(place).starts_with(b"{\n  \"confirmed\""));
    let found = folder.run("verify pretty --json", b"").fine().json().remove(0);
    assert_eq!((&found["verdict"], &found["records"]), (&"clean".into(), &20.into()));
    folder.run("append pretty --format json", b"{\"b\":21}\n").fine();
    let shown = folder.run("cat pretty --json", b"").fine().text().to_owned();
    assert_eq!(shown.lines().count(), 21, "{shown}");
    assert!(folder.names("pretty").contains(&"000000000002.jsonl".to_owned()));
}

#[test]
fn tail_f_shows_each_record_as_it_comes() {
    if !has("tail") {
        return;
    }
    let folder = with_log("readable-tail-f");
    let mut tail = Command::new("tail")
        .args(["-n", "1", "-f", TEXT])
        .current_dir(folder.path(""))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("start tail");
    let (said, heard) = mpsc::channel();
    let lines = BufReader::new(tail.stdout.take().expect("a pipe")).lines();
    std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .map(|line| said.send(line))
            .take_while(Result::is_ok)
            .for_each(drop);
    });
    let next = || heard.recv_timeout(PATIENCE).expect("it says something");
    assert!(next().starts_with("{\"lsn\":20,"));
    let mut append = folder.start("append log --format json --ack -q");
    let mut stdin = append.stdin.take().expect("a pipe");
    for number in 21..=30 {
        stdin.write_all(&orders(number..=number)).expect("it reads");
        let line = next();
        assert!(line.starts_with(&format!("{{\"lsn\":{number},\"confirmed\":")), "{line}");
    }
    drop(stdin);
    assert!(append.wait().expect("it ends").success());
    tail.kill().expect("kill it");
    tail.wait().expect("it is dead");
}

/// An editor saves a file by replacing it with a new one of the same name.
#[test]
fn editor_may_reformat_a_record_but_not_change_it() {
    let folder = with_log("readable-editor");
    let text = String::from_utf8(folder.read(TEXT)).expect("text");
    let save = |text: &str| {
        folder.remove(TEXT);
        folder.write(TEXT, text.as_bytes());
    };
    save(&text.replace("\"op\":\"buy\",\"price\":1.50", "\"price\": 1.50,\n    \"op\": \"buy\""));
    assert_eq!(folder.run("verify log --json", b"").fine().json()[0]["records"], 20);
    for (from, to) in [
        ("\"id\":7,", "\"id\":8,"),
        ("\"id\":7,", "\"ID\":7,"),
        ("\"id\":7,", ""),
        ("\"id\":7,", "\"id\":7,\"more\":1,"),
    ] {
        save(&text.replace(from, to));
        let ran = folder.run("verify log --json", b"");
        let found = &ran.json()[0];
        assert_eq!((ran.code, &found["verdict"]), (5, &"lost".into()), "{from} {to}");
        let damage = &found["damage"][0];
        assert_eq!((&damage["lost_from"], &damage["lost_to"]), (&7.into(), &7.into()));
        assert_eq!((&damage["segment"], &damage["cause"]), (&1.into(), &"line".into()));
        let start = text.find("{\"lsn\":7,").expect("it is there");
        assert_eq!(damage["offset"], start);
    }
    let ran = folder.run("cat log -o raw --skip-damaged", b"");
    assert_eq!((ran.code, ran.text().lines().count()), (5, 19));
    assert_eq!(folder.run("append log --format json", b"1\n").code, 5);
    let ran = folder.run("repair log --salvage-to new", b"");
    assert_eq!(ran.code, 5);
    folder.run("verify new", b"").fine();
    let given_up = folder.shell("cat new/*.jsonl", b"").fine().text().to_owned();
    assert!(given_up.contains("\"void\":1}"), "{given_up}");
}

#[test]
fn every_verb_works_on_a_readable_log() {
    let folder = with_log("readable-verbs");
    let stat = folder.run("stat log --json", b"").fine().json().remove(0);
    assert_eq!((&stat["log_format"], &stat["codec"]), (&"json".into(), &"json".into()));
    assert!(folder.run("stat log", b"").fine().text().contains("readable, json"));
    let shown = folder.run("cat log --from 20 --json", b"").fine().json().remove(0);
    assert_eq!((&shown["lsn"], &shown["data"]["id"]), (&20.into(), &20.into()));
    let last = "{\"id\":20,\"op\":\"buy\",\"price\":1.50}\n";
    assert_eq!(folder.run("tail log -n 1 -o raw", b"").fine().text(), last);
    // The log stores its codec and layout; another layout is refused.
    folder.run("append log --format json", &orders(21..=21)).fine();
    folder.run("append log --log-format binary", b"1\n").refused(2);
    folder.run("append log --codec raw --log-format json", b"1\n").refused(2);
    folder.run("append log", b"a \"line\"\n").fine();
    assert_eq!(folder.run("tail log -n 1 -o raw", b"").fine().text(), "\"a \\\"line\\\"\"\n");
    let ran =
        folder.run("append log --format json", b"{\"a\":1}\nnot json\n[1,\n{\"a\":1,\"a\":2}\n2\n");
    let told = ran.err.clone();
    assert_eq!(ran.code, 1, "{told}");
    for line in ["line 2 refused", "line 3 refused", "line 4 refused"] {
        assert!(told.contains(line), "{told}");
    }
    folder.run("copy log copy", b"").fine();
    let both = folder.shell("cat log/*.jsonl | cksum; cat copy/*.jsonl | cksum", b"");
    let sums: Vec<_> = both.fine().text().lines().collect();
    assert_eq!(sums[0], sums[1]);
    folder.run("truncate log --after 5 --yes", b"").fine();
    assert_eq!(folder.run("cat log -o raw", b"").fine().text().lines().count(), 5);
    folder.run("append log --format json", &orders(6..=9)).fine();
    folder.run("truncate log --before 6 --yes", b"").fine();
    let kept = folder.run("cat log -o raw", b"").fine().text().to_owned();
    assert_eq!(kept.lines().count(), 4, "{kept}");
    let names = folder.names("log");
    assert!(!names.iter().any(|name| name.starts_with("000000000001")), "{names:?}");
    folder.run("repair log --cut-tail --yes", b"").fine();
    assert_eq!(folder.run("verify log --strict --json", b"").fine().json()[0]["records"], 4);
}

#[test]
fn missing_files_of_a_readable_log_are_named() {
    let folder = Folder::new("readable-missing");
    let line = |n: u64| format!("{n} {}\n", "x".repeat(1000)).into_bytes();
    let lines: Vec<u8> = (1..=3000).flat_map(line).collect();
    folder.run("append log --log-format json --segment-size 1MiB", &lines).fine();
    folder.remove("log/000000000002.jsonl");
    assert!(folder.run("verify log", b"").text().contains("  000000000002.jsonl, offset"));
    folder.remove("log/000000000002.head");
    for verb in ["verify", "repair"] {
        let ran = folder.run(&format!("{verb} log"), b"");
        assert!(ran.text().contains("  000000000002.head, offset"), "{}", ran.text());
        assert!(!ran.text().contains(".seg"), "{}", ran.text());
    }
    let said = folder.run("repair log", b"");
    assert!(said.text().contains("log/000000000002.head, and its 000000000002.jsonl"), "{said:?}");
}

#[test]
fn acknowledged_records_of_a_readable_log_survive_a_kill() {
    let folder = Folder::new("readable-kill");
    let mut acknowledged = 0;
    for life in 0..8_u64 {
        let mut append = folder.start("append log --format json --log-format json --ack -q");
        let mut stdin = append.stdin.take().expect("a pipe");
        let feeder = std::thread::spawn(move || {
            for n in 0_u64.. {
                if stdin.write_all(format!("[{life},{n}]\n").as_bytes()).is_err() {
                    break;
                }
            }
        });
        let acks = BufReader::new(append.stdout.take().expect("a pipe"));
        let mut lines = acks.lines().map_while(Result::ok);
        for _ in 0..20 + life * 7 {
            acknowledged = lines.next().expect("it goes on").parse().expect("a number");
        }
        append.kill().expect("kill it");
        append.wait().expect("it is dead");
        acknowledged = lines.filter_map(|line| line.parse().ok()).last().unwrap_or(acknowledged);
        feeder.join().expect("the feeder returns");
        let found = folder.run("verify log --json", b"").fine().json().remove(0);
        assert!(found["last_lsn"].as_u64() >= Some(acknowledged), "{found}");
    }
    let shown = folder.run("cat log --json", b"").fine().json();
    for (record, lsn) in shown.iter().zip(1_u64..) {
        assert_eq!(record["lsn"], lsn, "no gap");
    }
    let mut last: Option<(u64, u64)> = None;
    for record in &shown {
        let data = (record["data"][0].as_u64().unwrap(), record["data"][1].as_u64().unwrap());
        let follows = match last {
            Some((life, n)) if life == data.0 => data.1 == n + 1,
            _ => data.1 == 0,
        };
        assert!(follows, "{last:?}, then {data:?}");
        last = Some(data);
    }
}

#[test]
fn input_without_a_value_creates_no_log() {
    let folder = Folder::new("no-value");
    for options in ["", "--log-format json", "--codec json"] {
        let ran = folder.run(&format!("append log --format json {options}"), b"{bad\n{worse\n");
        ran.refused(1);
        assert_eq!(folder.names("."), [""; 0], "{options}");
    }
    let ran = folder.run("append log --format json --ack", b"{bad\n{\"a\":1}\n");
    assert_eq!((ran.code, ran.text()), (1, "1\n"), "{ran:?}");
    assert_eq!(folder.run("cat log", b"").fine().text(), "1\t{\"a\":1}\n");
}

/// A hole reads as zeros and holds no records: the written lines are read however long the file is.
#[test]
fn text_with_a_huge_hole_after_its_lines_is_read_to_its_end() {
    let folder = with_log("readable-hole");
    let made = folder.shell(&format!("truncate -s 1T {TEXT}"), b"");
    if made.code != 0 {
        skipped(&format!("this file system has no file of 1 TiB: {}", made.err));
        return;
    }
    let program = env!("CARGO_BIN_EXE_seawall");
    let run =
        |verb: &str, input: &[u8]| folder.shell(&format!("timeout 120 '{program}' {verb}"), input);
    assert_eq!(run("cat log -o raw", b"").fine().text().lines().count(), 20);
    run("verify log", b"").fine();
    assert_eq!(run("append log --format json --ack", b"{\"id\":21}\n").fine().text(), "21\n");
    assert_eq!(run("cat log -o raw", b"").fine().text().lines().count(), 21);
}
