//! `seawall disk measure-holdup`: the machine that loses power, and its witness.

use super::*;
use seawall_host::{Notice, send_signal};

/// The sender or the witness; killed on drop if it still runs.
struct Side {
    child: Child,
    says: BufReader<std::process::ChildStderr>,
}

impl Side {
    fn start(folder: &Folder, arguments: &str) -> Self {
        let mut child =
            folder.command(&format!("disk measure-holdup {arguments}")).spawn().unwrap();
        let says = BufReader::new(child.stderr.take().unwrap());
        Self { child, says }
    }

    /// Reads standard error up to a line that contains `text`, and returns that line.
    fn says(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "it never says {text}");
        }
        line
    }

    /// Waits for the end; returns the exit code and standard output.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a witness and a sender, and waits until the witness hears the sender.
fn pair(folder: &Folder, more: (&str, &str)) -> (Side, Side) {
    let mut witness = Side::start(folder, &format!("--witness 0 {}", more.0));
    let line = witness.says("UDP port");
    let port = line.trim_end().rsplit(' ').next().unwrap();
    let mut sender = Side::start(folder, &format!("--to 127.0.0.1:{port} {}", more.1));
    sender.says("hears the counts");
    (witness, sender)
}

#[test]
#[cfg(target_os = "linux")]
fn witness_tells_how_long_the_machine_ran_on_after_the_announcement() {
    let folder = Folder::new("holdup");
    let (mut witness, mut sender) = pair(&folder, ("--json", ""));
    send_signal(&sender.child, Notice::Power).unwrap();
    witness.says("was announced");
    std::thread::park_timeout(Duration::from_millis(300));
    sender.child.kill().unwrap();
    let (code, text) = witness.ended();
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &answer["schema"]), (Some(0), &"seawall.disk.measure-holdup/1".into()));
    let held_up = answer["held_up_ms"].as_f64().unwrap();
    assert!((200.0..60_000.0).contains(&held_up), "{answer}");
    assert_eq!((&answer["announced"], &answer["stopped_by_hand"]), (&true.into(), &false.into()));
    assert!(answer["counts"].as_u64().unwrap() > 10, "{answer}");
}

#[test]
fn monitor_announces_the_power_failure_and_a_sender_that_is_stopped_says_so() {
    let folder = Folder::new("holdup-monitor");
    let power = "--power command:./power";
    folder.write("power", b"#!/bin/sh\n! test -e battery\n");
    Command::new("chmod").arg("+x").arg(folder.path("power")).status().unwrap();
    let (mut witness, sender) = pair(&folder, ("", power));
    folder.write("battery", b"");
    witness.says("was announced");
    send_signal(&sender.child, Notice::End).unwrap();
    assert_eq!(sender.ended(), (Some(0), String::new()));
    let (code, text) = witness.ended();
    assert!(code == Some(0) && text.contains("ran on for at least "), "{text}");
    let ran = folder.run(&format!("disk measure-holdup --to 127.0.0.1:1 {power}"), b"");
    assert!(ran.refused(1).contains("it is on battery already"), "{ran:?}");
}

#[test]
fn first_line_of_a_pipe_is_waited_for() {
    let folder = Folder::new("holdup-pipe");
    let lines = "for n in $(seq 100); do sleep 0.05; echo battery || exit; done 2> /dev/null";
    let sends = "seawall disk measure-holdup --to 127.0.0.1:1 --power fd:0";
    let ran = folder.shell(&format!("({lines}) | {sends}"), b"");
    assert!(ran.refused(1).contains("it is on battery already"), "{ran:?}");
}

#[test]
fn without_an_announcement_there_is_no_result() {
    let folder = Folder::new("holdup-silent");
    let (mut witness, sender) = pair(&folder, ("", ""));
    send_signal(&sender.child, Notice::End).unwrap();
    witness.says("stopped before a power failure: no result");
    assert_eq!(witness.ended(), (Some(1), String::new()));
}

#[test]
fn one_side_has_to_be_chosen() {
    let folder = Folder::new("holdup-usage");
    for arguments in ["", "--to a:1 --witness 2", "--witness 2 --power ok", "--witness 99999"] {
        assert_eq!(folder.run(&format!("disk measure-holdup {arguments}"), b"").code, 2);
    }
}
