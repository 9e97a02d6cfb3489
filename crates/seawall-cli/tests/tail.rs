//! `seawall tail`: the last records and new ones, without a gap, and the cursor file is never
//! ahead.

use crate::tool;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout};
use std::sync::mpsc;
use std::time::Duration;
use tool::Folder;

const PATIENCE: Duration = Duration::from_secs(20);

fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    numbers.flat_map(|n| format!("record {n}\n").into_bytes()).collect()
}

/// Reads the lines of a program that may never end, with a timeout.
struct Listener(mpsc::Receiver<String>);

impl Listener {
    fn new(out: ChildStdout) -> Self {
        let (said, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.map(|line| said.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Self(heard)
    }

    #[track_caller]
    fn next(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("it says something")
    }
}

fn end(mut child: Child) {
    child.kill().expect("kill it");
    child.wait().expect("it is dead");
}

#[test]
fn last_records_are_printed_in_every_shape() {
    let folder = Folder::new("tail-last");
    folder.run("append log", &lines(1..=25)).fine();
    let tail =
        |options: &str| folder.run(&format!("tail log {options}"), b"").fine().text().to_owned();
    assert_eq!(tail("").lines().count(), 10);
    assert!(tail("").starts_with("16\trecord 16\n"));
    assert_eq!(tail("-n 2 -o raw"), "record 24\nrecord 25\n");
    assert_eq!(tail("-n 0"), "");
    assert_eq!(tail("-n 1000").lines().count(), 25);
    assert_eq!(tail("-n 1 -o hex"), "25\t7265636f7264203235\n");
    let json = folder.run("tail log -n 1 --json", b"").json();
    assert_eq!((&json[0]["lsn"], &json[0]["data"]), (&25.into(), &"record 25".into()));
    assert!(json[0]["time"].is_string());
    folder.run("append empty", b"").fine();
    assert_eq!(folder.run("tail empty", b"").fine().text(), "");
}

/// The state after a kill between a batch's sync and the update for readers: the log has more
/// records than `live` says.
#[test]
fn last_records_are_those_that_cat_shows() {
    let folder = Folder::new("tail-killed-writer");
    folder.run("append log", &lines(1..=5)).fine();
    let live = folder.read("log/live");
    folder.run("append log", &lines(6..=9)).fine();
    folder.write("log/live", &live);
    let shown = folder.run("cat log", b"").fine().text().to_owned();
    let tail = folder.run("tail log -n 2", b"").fine().text().to_owned();
    assert!(shown.ends_with(&tail) && tail.lines().count() == 2, "{shown} {tail}");
}

#[test]
fn only_damage_in_the_last_records_exits_5() {
    let folder = Folder::new("tail-damage");
    for text in ["one\n", "needle\n", "three\n", "four\n"] {
        folder.run("append log", text.as_bytes()).fine();
    }
    folder.flip("log/000000000001.seg", b"needle");
    assert_eq!(folder.run("tail log -n 2 -o raw", b"").fine().text(), "three\nfour\n");
    let ran = folder.run("tail log -n 4 -o raw", b"");
    ran.refused(5);
    assert_eq!(ran.text(), "one\n");
}

#[test]
fn records_of_another_process_arrive_once_durable() {
    let folder = Folder::new("tail-follow");
    folder.run("append log --segment-size 1MiB", &lines(1..=5)).fine();
    let mut tail = folder.start("tail log -f -n 1 -o raw");
    let heard = Listener::new(tail.stdout.take().unwrap());
    assert_eq!(heard.next(), "record 5");
    // A writer that stays open across several segments.
    let mut append = folder.start("append log --ack");
    let mut stdin = append.stdin.take().unwrap();
    let acks = Listener::new(append.stdout.take().unwrap());
    stdin.write_all(b"record 6\n").unwrap();
    assert_eq!((acks.next(), heard.next()), ("6".into(), "record 6".into()));
    let filler = "x".repeat(1000);
    for n in 7..=3000 {
        stdin.write_all(format!("{n} {filler}\n").as_bytes()).unwrap();
    }
    for n in 7..=3000 {
        assert!(heard.next().starts_with(&format!("{n} ")), "{n}");
    }
    drop(stdin);
    assert!(append.wait().unwrap().success());
    // A writer that is started later.
    folder.run("append log", b"last\n").fine();
    assert_eq!(heard.next(), "last");
    assert!(folder.names("log").iter().filter(|name| name.contains(".seg")).count() > 1);
    end(tail);
}

#[test]
fn closed_pipe_ends_tail_of_an_idle_log() {
    let folder = Folder::new("tail-head");
    folder.run("append log", &lines(1..=2)).fine();
    let mut tail = folder.start("tail log -f -n 2");
    let mut out = BufReader::new(tail.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "1\trecord 1\n2\trecord 2\n");
    drop(out);
    let (said, heard) = mpsc::channel();
    let mut stderr = tail.stderr.take().unwrap();
    std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        said.send(text).unwrap();
    });
    assert_eq!(heard.recv_timeout(PATIENCE).expect("it ends"), "");
    assert_eq!(tail.wait().unwrap().code(), Some(0));
}

#[test]
fn cursor_file_skips_and_repeats_no_record() {
    let folder = Folder::new("tail-cursor");
    let tail = || {
        let ran = folder.run("tail log -n 3 -o raw --cursor-file at", b"");
        let text = ran.fine().text().replace('\n', ",").replace("record ", "");
        (text, String::from_utf8(folder.read("at")).unwrap())
    };
    folder.run("append log", &lines(1..=9)).fine();
    assert_eq!(tail(), ("7,8,9,".into(), "10\n".into()), "-n at first");
    assert_eq!(tail(), (String::new(), "10\n".into()));
    folder.run("append log", &lines(10..=2100)).fine();
    let (text, at) = tail();
    assert!(text.split(',').take(2091).eq((10..=2100).map(|n| n.to_string())), "all of them");
    assert_eq!(at, "2101\n");
    assert_eq!(folder.names(".").iter().filter(|name| name.contains("at")).count(), 1);
    for nonsense in ["", "0\n", "here\n"] {
        folder.write("at", nonsense.as_bytes());
        assert!(
            folder
                .run("tail log --cursor-file at", b"")
                .refused(1)
                .contains("does not hold an LSN")
        );
    }
    folder.run("tail log --cursor-file no/where", b"").refused(1);
}

#[test]
fn cursor_file_touches_no_other_file_and_keeps_its_permissions() {
    let folder = Folder::new("tail-cursor-beside");
    folder.run("append log", &lines(1..=9)).fine();
    folder.write("at.new", b"mine");
    let tail = "tail log -o raw --cursor-file at";
    folder.run(tail, b"").fine();
    assert_eq!((folder.mode("at"), folder.read("at.new")), (0o600, b"mine".to_vec()));
    folder.run("append log", b"more\n").fine();
    // A killed process with the same number may have left a file.
    let line = format!("chmod 640 at; touch .at.$$.0.new; exec '{}' {tail}", crate::PROGRAM);
    assert_eq!(folder.shell(&line, b"").fine().text(), "more\n");
    assert_eq!((folder.mode("at"), folder.read("at")), (0o640, b"11\n".to_vec()));
    let left = folder.names(".").into_iter().filter(|name| name.starts_with(".at")).count();
    assert_eq!((left, folder.read("at.new")), (1, b"mine".to_vec()));
}

/// A cursor file under the name of the log's next segment would damage the log.
#[test]
fn cursor_file_inside_the_log_is_refused() {
    let folder = Folder::new("tail-cursor-inside");
    folder.run("append log", &lines(1..=3)).fine();
    folder.shell("mkdir -p log/quarantine; ln -s log link", b"").fine();
    let before = folder.names("log");
    for place in ["log/000000000002.seg", "log/quarantine/at", "link/at", "log/live"] {
        let said =
            folder.run(&format!("tail log --cursor-file {place}"), b"").refused(2).to_owned();
        assert!(said.contains(&format!("{place} is inside the log l")), "{place}: {said}");
        assert_eq!(folder.names("log"), before, "{place}");
    }
    folder.run("verify log", b"").fine();
}

/// The cursor file never runs ahead of the output: across kills, every record is printed at least
/// once and in order.
#[test]
fn killed_follower_continues_without_a_gap() {
    let folder = Folder::new("tail-killed");
    folder.run("append log", b"record 1\n").fine();
    let mut append = folder.start("append log");
    let mut stdin = append.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        for n in 2..=20_000 {
            stdin.write_all(format!("record {n}\n").as_bytes()).unwrap();
        }
    });
    let (mut next, mut lives) = (1_u64, 0);
    while next <= 20_000 && lives < 1000 {
        let mut tail = folder.start("tail log -f -n 1000000 -o raw --cursor-file at");
        let heard = Listener::new(tail.stdout.take().unwrap());
        for _ in 0..2000.min(20_001 - next.min(20_000)) {
            let line = heard.next();
            let number: u64 = line.strip_prefix("record ").unwrap().parse().unwrap();
            assert!(number <= next, "after {} comes {number}", next - 1);
            next = next.max(number + 1);
        }
        end(tail);
        // Read the rest of the output: a reader of the pipe would lose none of it.
        while let Ok(line) = heard.0.recv() {
            if let Some(Ok(number)) = line.strip_prefix("record ").map(str::parse::<u64>) {
                assert!(number <= next, "after {} comes {number}", next - 1);
                next = next.max(number + 1);
            }
        }
        lives += 1;
    }
    assert!(lives > 3, "{lives}");
    feeder.join().unwrap();
    assert!(append.wait().unwrap().success());
}

/// Repairs gave up records 5, 8 and 9 of nine.
#[test]
fn records_given_up_are_neither_counted_nor_truncated() {
    let folder = Folder::new("tail-given-up");
    folder.run("append damaged --level confirmed", &lines(1..=9)).fine();
    for number in ["record 5", "record 8", "record 9"] {
        folder.flip("damaged/000000000001.seg", number.as_bytes());
    }
    assert_eq!(folder.run("repair damaged --salvage-to log", b"").code, 5);
    let tail = |options: &str| {
        let text = folder.run(&format!("tail log -o raw {options}"), b"").fine().text().to_owned();
        text.replace("record ", "").replace('\n', " ")
    };
    let ends = [(0, ""), (2, "6 7 "), (3, "4 6 7 "), (5, "2 3 4 6 7 "), (99, "1 2 3 4 6 7 ")];
    for (count, expected) in ends {
        assert_eq!(tail(&format!("-n {count}")), expected, "{count}");
    }
    // A reader of the damaged log had read all of them.
    for position in ["8", "9", "10"] {
        folder.write("at", format!("{position}\n").as_bytes());
        assert_eq!(tail("--cursor-file at"), "", "{position}");
        assert_eq!(folder.read("at"), format!("{position}\n").as_bytes());
    }
    folder.write("at", b"11\n");
    folder.run("tail log --cursor-file at", b"").refused(1);
    folder.write("at", b"10\n");
    for end in ["--after 7", "--after 8", "--before 1", "--after 7 --yes"] {
        let done = folder.run(&format!("truncate log {end} --json"), b"").fine().json().remove(0);
        assert_eq!((&done["records"], &done["next_lsn"]), (&0.into(), &10.into()), "{end}");
    }
    assert_eq!(folder.run("append log --ack", b"record 10\n").fine().text(), "10\n");
    assert_eq!((tail("--cursor-file at"), tail("-n 3")), ("10 ".into(), "6 7 10 ".into()));
}

#[test]
fn pruned_position_exits_1_with_the_next_position() {
    let folder = Folder::new("tail-gone");
    folder.run("append log", &lines(1..=9)).fine();
    folder.write("at", b"10\n");
    folder.run("truncate log --after 5 --yes", b"").fine();
    let said = folder.run("tail log --cursor-file at", b"").refused(1).to_owned();
    assert!(said.contains("next record is 6"), "{said}");
    assert_eq!(folder.read("at"), b"10\n");
    folder.run("append log --level confirmed", &lines(6..=9)).fine();
    assert_eq!(folder.run("tail log --cursor-file at", b"").fine().text(), "");
}
