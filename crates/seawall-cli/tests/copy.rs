//! `seawall copy` as a process: the copy is an independent log, and existing files are never
//! changed.

use crate::tool;

use std::io::{BufRead, BufReader, Write};
use tool::Folder;

#[test]
fn copy_of_a_running_writer_has_all_acknowledged_records() {
    let folder = Folder::new("copy-beside");
    let mut writer = folder.start("append log --ack");
    let mut input = writer.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    for number in 1..=3 {
        writeln!(input, "record {number}").expect("the writer reads");
        assert_eq!(acks.next().unwrap().unwrap(), number.to_string());
    }
    let told = folder.run("copy log copy --json", b"").fine().json().remove(0);
    assert_eq!((&told["first_lsn"], &told["last_lsn"]), (&1.into(), &3.into()));
    drop(input);
    assert!(writer.wait().unwrap().success());
    folder.run("append copy", b"one more\n").fine();
    let copied = folder.run("cat copy -o raw", b"");
    assert_eq!(copied.fine().out, b"record 1\nrecord 2\nrecord 3\none more\n");
}

#[test]
fn existing_target_is_unchanged_with_exit_9() {
    let folder = Folder::new("copy-onto");
    folder.run("append log", b"mine\n").fine();
    folder.run("append other", b"theirs\n").fine();
    assert_eq!(folder.run("copy log other", b"").code, 9);
    assert_eq!(folder.run("cat other -o raw", b"").fine().out, b"theirs\n");
    assert_eq!(folder.run("copy nothing there", b"").code, 1);
    assert!(!folder.path("there").exists(), "a copy of nothing makes nothing");
}

#[test]
fn stale_live_file_hides_no_record_from_copy() {
    let folder = Folder::new("copy-old-live");
    tool::append_and_leave_an_old_live(&folder, (9, 4));
    let told = folder.run("copy log copy --json", b"").fine().json().remove(0);
    assert_eq!((&told["first_lsn"], &told["last_lsn"]), (&1.into(), &9.into()));
    let records = |log| folder.run(&format!("cat {log} -o raw"), b"").fine().text().to_owned();
    let lines = (1..=9).fold(String::new(), |lines, n| lines + &format!("line {n}\n"));
    assert_eq!(records("copy"), lines);
    assert_eq!(records("log"), records("copy"));
}

#[test]
fn records_that_a_repair_gave_up_are_not_counted() {
    let folder = Folder::new("copy-gap");
    for record in ["one", "two", "three"] {
        folder.run("append log", record.as_bytes()).fine();
    }
    let segment = "log/000000000001.seg";
    let at = folder.read(segment).windows(3).position(|bytes| bytes == b"two").unwrap();
    folder.overwrite(segment, at, b"TWO");
    assert_eq!(folder.run("repair log --salvage-to gap", b"").code, 5);
    let said = folder.run("copy gap copied", b"").fine().text().to_owned();
    assert!(said.contains("2 records, LSN 1 .. 3"), "{said}");
    let planned = folder.run("truncate gap --after none --json", b"").fine().json().remove(0);
    assert_eq!((&planned["records"], &planned["last_lsn"]), (&2.into(), &3.into()));
}

#[test]
fn json_has_the_records_and_the_tail_that_the_new_log_does_not_show() {
    let folder = Folder::new("copy-tail");
    // After this record the next batch header would cross a sector boundary.
    folder.run("append log", &[b'x'; 424]).fine();
    let at = folder.run("verify log --json", b"").json()[0]["tail"]["offset"].as_u64().unwrap();
    let at = usize::try_from(at).unwrap();
    for (garbage, state, code) in [(0, "clean", 0), (20, "torn", 0), (2000, "unsure", 3)] {
        folder.overwrite("log/000000000001.seg", at, &vec![0xff; garbage]);
        for made in ["copy log", "repair log --salvage-to"] {
            let ran = folder.run(&format!("{made} {state}-{} --json", made.len()), b"");
            let told = &ran.json()[0];
            assert_eq!((ran.code, &told["tail"]["state"]), (code, &state.into()), "{made}");
            assert_eq!(told["records"], 1, "{made}");
        }
    }
}
