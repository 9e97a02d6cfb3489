//! The promise, tried from outside: what was acknowledged before a kill -9 is there afterwards.

#![allow(clippy::indexing_slicing, reason = "in a test a panic is the report")]

use crate::tool;

use seawall_io::{Entropy, SeededEntropy, SystemEntropy};
use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::time::Duration;
use tool::Folder;

const KILLS: usize = 20;
const IN_FLIGHT: usize = 100;

/// One life of `append`: how many acknowledgements came in whole lines, and the first number.
fn live_and_die(folder: &Folder, run: usize, delay: Duration) -> (Option<u64>, u64) {
    let level = ["synced", "confirmed", "buffered"][run % 3];
    let mut append = folder.start(&format!("append log --ack -q --level {level}"));
    let mut stdin = append.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(append.stdout.take().expect("a pipe"));
    // So many lines are on their way at most: some share a commit, some are alone.
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
    // Now and then it dies before its first acknowledgement, while it opens the log.
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
fn what_was_acknowledged_before_a_kill_is_there_once_and_in_order() {
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
    // Each run gave lines in order from its first: whatever is there of it is a prefix.
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
