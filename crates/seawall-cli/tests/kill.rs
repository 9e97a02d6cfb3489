//! Records acknowledged before a kill -9 exist afterwards, tested from outside the process.

#![allow(clippy::indexing_slicing, reason = "a test reports failure by panicking")]

use crate::tool;

use seawall_io::{Clock, Entropy, SeededEntropy, SystemClock, SystemEntropy};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tool::Folder;

const KILLS: usize = 20;
const IN_FLIGHT: usize = 100;

/// Runs `append` and kills it; returns the first acknowledged LSN and the number of complete
/// acknowledgements.
fn live_and_die(folder: &Folder, run: usize, delay: Duration) -> (Option<u64>, u64) {
    let level = ["synced", "confirmed", "buffered"][run % 3];
    let mut append = folder.start(&format!("append log --ack -q --level {level}"));
    let mut stdin = append.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(append.stdout.take().expect("a pipe"));
    // This many lines may be in flight: some share a commit, some have their own.
    let (sent, answered) = mpsc::sync_channel(IN_FLIGHT);
    let feeder = std::thread::spawn(move || {
        for n in 0_u64.. {
            let line = format!("{run} {n}\n");
            if sent.send(()).is_err() || stdin.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    });
    let (said, heard) = mpsc::channel();
    let listener = std::thread::spawn(move || {
        let (mut first, mut count, mut line) = (None, 0, String::new());
        while acks.read_line(&mut line).expect("text") > 0 && line.ends_with('\n') {
            let lsn: u64 = line.trim_end().parse().expect("a number");
            assert_eq!(*first.get_or_insert(lsn) + count, lsn, "numbers go up by one");
            let _ = answered.recv();
            if count == 0 {
                let _ = said.send(());
            }
            count += 1;
            line.clear();
        }
        (first, count)
    });
    // Every fifth run is killed before its first acknowledgement, perhaps while it opens the log.
    if !run.is_multiple_of(5) {
        let _ = heard.recv_timeout(Duration::from_secs(30));
    }
    let _ = heard.recv_timeout(delay);
    append.kill().expect("kill it");
    append.wait().expect("it is dead");
    feeder.join().expect("the feeder returns");
    listener.join().expect("the listener returns")
}

#[test]
fn records_acknowledged_before_a_kill_exist_once_and_in_order() {
    let folder = Folder::new("kill");
    let seed = SystemEntropy.random().unwrap();
    println!("seed {seed}");
    let dice = SeededEntropy::new(seed);
    let mut acknowledged = vec![];
    for run in 0..KILLS {
        let delay_us_max = if run % 5 == 0 { 20_000 } else { 250_000 };
        let delay = Duration::from_micros(dice.random().unwrap() % delay_us_max);
        let (first, count) = live_and_die(&folder, run, delay);
        acknowledged.extend((0..count).map(|n| (first.unwrap() + n, run, n)));
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());

    let found = folder.run("cat log -o json", b"");
    let mut lines = vec![];
    for (record, lsn) in found.fine().json().iter().zip(1_u64..) {
        assert_eq!(record["lsn"], lsn, "no gap");
        lines.push(record["data"].as_str().unwrap().to_owned());
    }
    // Each run sent its lines in order, so the log must hold a prefix of them.
    let mut next = [0_u64; KILLS];
    for line in &lines {
        let (run, number) = line.split_once(' ').unwrap();
        let expected = &mut next[run.parse::<usize>().unwrap()];
        assert_eq!(number, expected.to_string(), "in order, once");
        *expected += 1;
    }
    for (lsn, run, n) in &acknowledged {
        let line = lines.get(usize::try_from(lsn - 1).unwrap());
        assert_eq!(line, Some(&format!("{run} {n}")), "record {lsn} was acknowledged");
    }
    folder.run("verify log", b"").fine();
}

/// Sends a signal that the program can handle.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("run kill").success(), "{name}");
}

/// How a process ended: its signal, if any, and its output.
#[derive(Debug)]
struct Ended {
    signal: Option<i32>,
    out: String,
    err: String,
}

/// Whether this process was started with the signal ignored, as by `nohup` or in the background of
/// a shell. Its child processes then ignore it, too, as they should.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let is_ignored = mask & (1 << (signal - 1)) != 0;
    if is_ignored {
        eprintln!("skipped: signal {signal} is ignored here");
    }
    is_ignored
}

/// Waits for the end of a process while its input stays open.
fn ended(mut child: Child) -> Ended {
    let stdin = child.stdin.take();
    let clock = SystemClock::new();
    while child.try_wait().expect("look at it").is_none() {
        if clock.now() > Duration::from_secs(60) {
            child.kill().expect("kill it");
        }
        clock.sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("wait for it");
    drop(stdin);
    Ended {
        signal: output.status.signal(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

#[test]
fn append_stops_cleanly_on_a_signal_and_reports_the_rest() {
    // In parallel, because each run mostly waits.
    std::thread::scope(|scope| {
        for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
            if !is_ignored(number) {
                scope.spawn(move || stop_append(name, number));
            }
        }
    });
}

fn stop_append(name: &str, number: i32) {
    let folder = Folder::new(&format!("signal{name}"));
    let mut append = folder.start("append log --ack");
    let stdin = append.stdin.as_mut().expect("a pipe");
    stdin.write_all(b"one\ntwo\nthr").expect("it reads");
    let mut acks = BufReader::new(append.stdout.take().expect("a pipe"));
    for lsn in ["1\n", "2\n"] {
        let mut line = String::new();
        acks.read_line(&mut line).expect("text");
        assert_eq!(line, lsn);
    }
    // A partial line may be read after the earlier lines are acknowledged: wait for it.
    SystemClock::new().sleep(Duration::from_millis(300));
    signal(&append, name);
    let ended = ended(append);
    assert_eq!(ended.signal, Some(number), "{ended:?}");
    assert!(ended.err.contains("appended 2 records to log: LSN 1 .. 2"), "{ended:?}");
    assert!(ended.err.contains("its 3 bytes are not appended"), "{ended:?}");
    let found = folder.run("stat log --json", b"").fine().json().remove(0);
    assert_eq!((&found["closed_lsn"], &found["records"]), (&2.into(), &2.into()), "{found}");
    let verdict = folder.run("verify log --strict --json", b"").fine().json().remove(0);
    assert_eq!(verdict["tail"]["state"], "clean");
}

/// Ctrl-C on `producer | seawall append`: the producer dies first, in the middle of a record.
#[test]
fn append_takes_no_unfinished_record_of_an_interrupted_producer() {
    if is_ignored(15) {
        return;
    }
    let clock = SystemClock::new();
    for (format, records) in [("lines", 1), ("json", 1), ("raw", 0), ("len32", 0)] {
        // A run counts only if the signal was sent within the time that `append` allows for it.
        let mut tries = 0..200;
        let ended = loop {
            tries.next().expect("a signal can be sent in time");
            let folder = Folder::new(&format!("producer-{format}"));
            let mut append = folder.start(&format!("append log --ack --format {format}"));
            let mut stdin = append.stdin.take().expect("a pipe");
            let mut acks = BufReader::new(append.stdout.take().expect("a pipe"));
            stdin.write_all(if records == 1 { b"1\n23" } else { b"1\n2" }).expect("it reads");
            if records == 1 {
                acks.read_line(&mut String::new()).expect("text");
            }
            // Let it read the partial record, and then the end of its input.
            clock.sleep(Duration::from_millis(100));
            let closed = clock.now();
            drop(stdin);
            clock.sleep(Duration::from_millis(20));
            // If it has ended, it missed the signal.
            let _ = seawall_host::send_signal(&append, seawall_host::Notice::End);
            let took = clock.now() - closed;
            append.stdout = None;
            let ended = ended(append);
            if took < Duration::from_millis(90) {
                let found = folder.run("stat log --json", b"");
                break (ended, found.json().remove(0)["records"].clone());
            }
        };
        let (ended, found) = ended;
        assert_eq!((ended.signal, found), (Some(15), records.into()), "{format}: {ended:?}");
        assert!(ended.err.contains("the input ended inside a record"), "{format}: {ended:?}");
    }
}

#[test]
fn append_ignores_a_signal_that_its_parent_ignores() {
    let folder = Folder::new("nohup");
    let mut shell = Command::new("sh");
    let line = format!("trap '' HUP; exec '{}' append log --ack", env!("CARGO_BIN_EXE_seawall"));
    shell.args(["-c", &line]).current_dir(folder.path("."));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().expect("start a shell");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(child.stdout.take().expect("a pipe"));
    for (line, lsn) in [("one\n", "1\n"), ("two\n", "2\n")] {
        stdin.write_all(line.as_bytes()).expect("it reads");
        let mut said = String::new();
        acks.read_line(&mut said).expect("text");
        assert_eq!(said, lsn);
        signal(&child, "-HUP");
        // Let the signal arrive before the next line.
        SystemClock::new().sleep(Duration::from_millis(300));
    }
    drop(stdin);
    assert!(child.wait().expect("wait for it").success());
}

#[test]
fn append_stops_when_its_acknowledgements_are_not_read() {
    let folder = Folder::new("unheard");
    let mut append = folder.start("append log --ack");
    append.stdin.as_mut().expect("a pipe").write_all(b"one\n").expect("it reads");
    let mut acks = BufReader::new(append.stdout.take().expect("a pipe"));
    acks.read_line(&mut String::new()).expect("text");
    drop(acks);
    // `append` ends although its input stays open and sends nothing.
    let ended = ended(append);
    assert_eq!((ended.signal, ended.out.as_str()), (Some(13), ""), "{ended:?}");
    assert!(ended.err.contains("has closed the pipe"), "{ended:?}");
    assert!(ended.err.contains("appended 1 record to log: LSN 1\n"), "{ended:?}");
    let code = "{ { echo a; sleep 1; echo b; sleep 1; echo c; } | seawall append log --ack -q; \
                echo $? > code; } | true";
    folder.shell(code, b"").fine();
    assert_eq!(folder.read("code"), b"141\n");
    let found = folder.run("stat log --json", b"").fine().json().remove(0);
    assert_eq!(found["closed_lsn"], found["last_lsn"], "{found}");
}

#[test]
fn append_stops_on_a_signal_while_nothing_reads_its_acknowledgements() {
    if is_ignored(15) {
        return;
    }
    for options in ["--ack", "--ack --json"] {
        let folder = Folder::new("unread");
        let mut append = folder.start(&format!("append log {options}"));
        let mut stdin = append.stdin.take().expect("a pipe");
        // The input stays open, and the acknowledgements of these records do not fit into the pipe.
        let feeder = std::thread::spawn(move || {
            let _ = stdin.write_all(&b"x\n".repeat(100_000));
            stdin
        });
        let stored = || folder.run("stat log --json", b"").out;
        let is_blocked = |stat: &[u8]| {
            let stat = serde_json::from_slice::<serde_json::Value>(stat).ok();
            stat.is_some_and(|stat| stat["last_lsn"].as_u64() > Some(30_000))
        };
        while !is_blocked(&stored()) {
            SystemClock::new().sleep(Duration::from_millis(20));
        }
        signal(&append, "-TERM");
        let ended = ended(append);
        drop(feeder.join().expect("the feeder returns"));
        assert_eq!(ended.signal, Some(15), "{options}: {}", ended.err);
        assert!(ended.err.contains("nothing reads the acknowledgements"), "{}", ended.err);
        let last = ended.out.lines().count();
        let line = |lsn| {
            if options == "--ack" { format!("{lsn}\n") } else { format!("{{\"lsn\":{lsn}}}\n") }
        };
        assert_eq!(ended.out, (1..=last).map(line).collect::<String>(), "whole lines in order");
        assert!(ended.err.contains(&format!("from LSN {} on", last + 1)), "{}", ended.err);
        let verdict = folder.run("verify log --strict --json", b"").fine().json().remove(0);
        assert!(verdict["last_lsn"].as_u64() > Some(30_000), "{verdict}");
    }
}

#[test]
fn interrupted_conversion_leaves_no_file() {
    if is_ignored(15) {
        return;
    }
    for to in ["cwal", "seawall"] {
        let folder = Folder::new(&format!("litter-convert-{to}"));
        folder.write("source", &b"{\"a\":[1,2,3,4,5,6,7,8]}\n".repeat(2_000_000));
        let mut started = folder.start(&format!("convert source made --from json --to {to}"));
        while !folder.names(".").iter().any(|name| name.starts_with('.')) {
            assert!(started.try_wait().expect("look at it").is_none(), "it ended early");
        }
        signal(&started, "-TERM");
        let ended = ended(started);
        assert_eq!((ended.signal, folder.names(".")), (Some(15), vec!["source".to_owned()]));
    }
}

#[test]
fn interrupted_measurements_leave_no_files() {
    // In parallel, because no time is measured.
    std::thread::scope(|scope| {
        for (line, name) in [
            ("bench append --time 30", "seawall-bench"),
            ("probe --time 60", "seawall-probe"),
            ("demo --dir . --report told", "seawall-demo"),
        ] {
            for (how, number) in [("-INT", 2), ("-TERM", 15)] {
                if !is_ignored(number) {
                    scope.spawn(move || interrupt((line, name), (how, number)));
                }
            }
        }
    });
}

fn interrupt((line, name): (&str, &str), (how, number): (&str, i32)) {
    let folder = Folder::new(&format!("litter-{name}{how}"));
    let mut started = folder.start(line);
    let is_busy = || folder.names(".").iter().any(|found| found.starts_with(name));
    while !is_busy() {
        let early = started.try_wait().expect("look at it");
        assert!(early.is_none(), "{line}: {early:?}: {:?}", ended(started));
        SystemClock::new().sleep(Duration::from_millis(20));
    }
    SystemClock::new().sleep(Duration::from_millis(300));
    signal(&started, how);
    let ended = ended(started);
    assert_eq!(ended.signal, Some(number), "{line}: {ended:?}");
    assert_eq!(folder.names("."), [""; 0], "{line} {how}");
}
