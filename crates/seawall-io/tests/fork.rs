//! A log in a process that forks: the child writes nothing, even in its own pid namespace. These
//! tests have their own binary, because a child inherits the locks of all open logs. They are in
//! this crate because forking needs unsafe code.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use rustix::thread::{UnshareFlags, unshare_unsafe};
use seawall::{Error, Log, Lsn, Options, Raw, Result};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};

type Bytes = Log<[u8], Raw>;

/// Set in the first process of the pid namespace.
const FIRST: &str = "SEAWALL_TEST_FIRST_PROCESS";

#[test]
fn forked_child_writes_nothing() {
    write_beside_a_child(&folder("fork"), in_child);
}

/// As in a container whose first process forks into a sandbox: parent and child both have id 1.
#[test]
fn forked_child_with_the_id_of_its_parent_writes_nothing() {
    if std::env::var_os(FIRST).is_some() {
        assert_eq!(std::process::id(), 1);
        return write_beside_a_child(&folder("fork-first"), |act: Act| {
            std::thread::spawn(move || {
                // SAFETY: the descriptor table stays shared, so the descriptors of other threads
                // stay open.
                unsafe { unshare_unsafe(UnshareFlags::NEWPID) }.unwrap();
                in_child(move || format!("process {}, {}", std::process::id(), act()))
            })
            .join()
            .unwrap()
            .strip_prefix("process 1, ")
            .expect("the child has the parent's id")
            .to_owned()
        });
    }
    let namespace = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc"]);
        unshare
    };
    if !namespace().arg("true").output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("skipped: this process may not make a pid namespace");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let test = "forked_child_with_the_id_of_its_parent_writes_nothing";
    let ran = namespace().arg(this).args(["--exact", test, "--nocapture"]).env(FIRST, "1").output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn forked_child_writes_a_log_that_it_opens_itself() {
    let folder = folder("fork-own");
    let log = Arc::new(open(&folder.join("of-the-parent")));
    let of_the_child = folder.join("of-the-child");
    let said = in_child(move || {
        let own = Arc::new(open(&of_the_child));
        let appended = verdict(&own.append(b"child 1"));
        let both = [Arc::clone(&log), Arc::clone(&own)];
        let in_grandchild = in_child(move || {
            let [log, own] = both.each_ref().map(|log| verdict(&log.append(b"grandchild")));
            format!("{log}, {own}")
        });
        let then = verdict(&own.append(b"child 2"));
        format!("{appended}; {}; {in_grandchild}; {then}", verdict(&log.append(b"child")))
    });
    assert_eq!(said, "appended; forked; forked, forked; appended");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn thread_with_descriptors_of_its_own_writes_into_its_own_file() {
    let folder = folder("fork-table");
    let other = |number: usize| folder.join(format!("other-{number}"));
    let record = vec![7; 1 << 20];
    let (unshared, is_unshared) = mpsc::channel();
    let (opened, are_opened) = mpsc::channel();
    std::thread::scope(|scope| {
        let path = folder.join("log");
        let record = &record;
        let writer = scope.spawn(move || {
            // SAFETY: this thread uses no descriptor of the other threads from here on.
            unsafe { unshare_unsafe(UnshareFlags::FILES) }.unwrap();
            unshared.send(()).unwrap();
            are_opened.recv().unwrap();
            let log = open(&path);
            for _ in 0..4 {
                log.append(record).unwrap();
            }
            log.close().unwrap();
        });
        is_unshared.recv().unwrap();
        // These files get the numbers that the log's files get in the other thread.
        let others: Vec<_> =
            (0..60).map(|number| std::fs::File::create_new(other(number)).unwrap()).collect();
        opened.send(()).unwrap();
        writer.join().unwrap();
        drop(others);
    });
    for number in 0..60 {
        assert_eq!(std::fs::metadata(other(number)).unwrap().len(), 0, "other-{number}");
    }
    let log = open(&folder.join("log"));
    let records: Result<Vec<_>> = log.read_from(Lsn::FIRST).unwrap().collect();
    assert!(records.unwrap().iter().map(|(_, found)| found).eq([&record; 4]));
    drop(log);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Forks with `fork` while a log is open, and checks that only the parent can write.
fn write_beside_a_child(folder: &Path, fork: impl Fn(Act) -> String) {
    let path = folder.join("log");
    let log = Arc::new(open(&path));
    log.append(b"parent 1").unwrap();
    let of_the_child = Arc::clone(&log);
    let said = fork(Box::new(move || {
        let log = &of_the_child;
        let calls = [
            log.append(b"child").map(drop),
            log.flush().map(drop),
            log.truncate_after(None).map(drop),
        ];
        calls.map(|result| verdict(&result)).join(", ")
    }));
    log.append(b"parent 2").unwrap();
    Arc::into_inner(log).expect("the child's copy is gone").close().unwrap();
    assert_eq!(said, "forked, forked, forked");
    let log = open(&path);
    let records: Result<Vec<_>> = log.read_from(Lsn::FIRST).unwrap().collect();
    let records: Vec<_> = records.unwrap().into_iter().map(|(_, record)| record).collect();
    assert_eq!(records, [b"parent 1", b"parent 2"]);
    drop(log);
    std::fs::remove_dir_all(folder).unwrap();
}

type Act = Box<dyn Fn() -> String + Send + Sync>;

/// Runs `act` in a forked child and returns its output.
fn in_child(act: impl Fn() -> String + Send + Sync + 'static) -> String {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let mut child = Command::new("true");
    let before_exec = move || writer.write_all(act().as_bytes());
    // SAFETY: glibc and musl keep their allocator usable in a forked child, and no other thread of
    // the parent holds a lock that `act` takes.
    unsafe { child.pre_exec(before_exec) };
    let status = child.status().unwrap();
    assert!(status.success(), "{status}");
    drop(child);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    said
}

fn verdict<T>(result: &Result<T>) -> String {
    match result {
        Ok(_) => "appended".to_owned(),
        Err(Error::Forked { .. }) => "forked".to_owned(),
        Err(error) => format!("{error:#}"),
    }
}

fn open(path: &Path) -> Bytes {
    Options::new().preallocate(false).open(path).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let name = format!("seawall-test-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
