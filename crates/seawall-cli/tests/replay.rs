//! `seawall replay`: committed transactions are delivered once each, and everything else is
//! reported.

use crate::tool;

use seawall::{Log, Options};
use seawall_io::{Clock, SystemClock};
use seawall_replay::{Change, Operation};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Duration;
use tool::{Folder, Ran};

/// A program that stores the batches it receives in the file `state`, with its place in the first
/// line. For each batch (`$batch`) it runs the shell code `$1` before it stores the batch and `$2`
/// after.
const KEEPER: &str = r#"
[ -f state ] || echo '{"place":null}' > state
head -n 1 state
while IFS= read -r batch; do
  place=${batch#*'"place":'}; place="${place%%\}*}}"
  applied=${place#*'"applied":'}; applied=${applied%%,*}
  eval "$1"
  { printf '{"place":%s}\n' "$place"; tail -n +2 state; printf '%s\n' "$batch"; } > new
  mv new state
  eval "$2"
  printf '{"place":%s}\n' "$place"
done
"#;

/// Shell code that reads a batch and answers with its place.
const SAYS: &str = r#"read -r b; b="${b#*\"place\":}"; printf "{\"place\":%s}}\n" "${b%%\}*}""#;

/// Three transactions: the first is committed, the second aborted, the third unfinished.
const BANK: &str = r#"{"begin":1}
{"change":[1,{"put":{"table":"","key":"ada","value":"300"}}]}
{"begin":2}
{"change":[2,{"put":{"table":"","key":"bob","value":"900"}}]}
{"begin":3}
{"change":[1,{"put":{"table":"","key":"cyd","value":"50"}}]}
{"commit":1}
{"abort":2}
{"change":[3,{"delete":{"table":"","key":"ada"}}]}
"#;

/// A folder with a keeper and a log of `records`, which are lines of JSON.
fn bank(name: &str, records: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("keeper", KEEPER.as_bytes());
    folder.run("append log --format json -q", records.as_bytes()).fine();
    folder
}

/// `count` transactions of one change each.
fn many(count: u64) -> String {
    let one = |n: u64| {
        format!(r#"{{"atomic":[{{"put":{{"table":"","key":"{n}","value":"v"}}}}]}}"#) + "\n"
    };
    (1..=count).map(one).collect()
}

/// Replays into the keeper, with shell code to run before and after it stores a batch.
fn keep(folder: &Folder, (before, behind): (&str, &str), options: &str) -> Ran {
    folder.write("before", before.as_bytes());
    folder.write("behind", behind.as_bytes());
    let program = r#"sh keeper "$(cat before)" "$(cat behind)""#;
    folder.shell(&format!("seawall replay log --into 'cmd:{program}' {options}"), b"")
}

/// The LSNs of the commits that the keeper stored, in order of arrival.
fn kept(folder: &Folder) -> Vec<u64> {
    #[derive(serde::Deserialize)]
    struct Batch {
        transactions: Vec<Transaction>,
    }
    #[derive(serde::Deserialize)]
    struct Transaction {
        lsn: u64,
    }
    let state = String::from_utf8(folder.read("state")).expect("text");
    let batches = state.lines().skip(1);
    let batches = batches.map(|line| serde_json::from_str::<Batch>(line).expect("a batch"));
    let transactions = batches.flat_map(|batch| batch.transactions);
    transactions.map(|transaction| transaction.lsn).collect()
}

#[test]
fn committed_transactions_are_printed_in_commit_order() {
    let folder = bank("replay-json", BANK);
    let ran = folder.run("replay log --into json:-", b"");
    let expected = json!({"lsn": 7, "changes": [
        {"lsn": 2, "put": {"table": "", "key": "ada", "value": "300"}},
        {"lsn": 6, "put": {"table": "", "key": "cyd", "value": "50"}},
    ]});
    assert_eq!(ran.fine().json(), vec![expected.clone()]);
    assert!(ran.err.contains("1 transaction written") && ran.err.contains("transaction 3, since"));
    folder.run("append log --format json -q", b"{\"commit\":3}\n").fine();
    let ran = folder.run("replay log --into json:- -q", b"");
    assert_eq!((ran.fine().json().len(), ran.err.as_str()), (2, ""));
    let last = json!({"lsn": 10, "changes": [
        {"lsn": 9, "delete": {"table": "", "key": "ada"}},
    ]});
    // The transaction began before LSN 8, but was committed after it.
    assert_eq!(folder.run("replay log --into json:- --from 8 -q", b"").json(), [last]);
    assert_eq!(folder.run("replay log --into json:- --until 9 -q", b"").json(), [expected]);
    let both = folder.run("replay log --into json:- --from 8 --until 9 -q", b"");
    assert_eq!(both.fine().text(), "");
    assert_eq!(folder.run("replay log --into json:- --from 11 -q", b"").fine().text(), "");
    let beyond = folder.run("replay log --into json:- --from 12", b"");
    assert!(beyond.refused(2).contains("ends at LSN 10"), "{beyond:?}");

    folder.run("replay log --into json:file -q", b"").fine();
    assert_eq!(folder.read("file"), folder.run("replay log --into json:- -q", b"").out);
    folder.run("replay log --into json:file -q", b"").fine();
    folder.run("replay log --into json:file --until 9", b"").refused(9);
    folder.run("replay log --into json:nowhere/file", b"").refused(1);
    folder.run("replay log --into json:plan --dry-run", b"").fine();
    assert!(!folder.names(".").contains(&"plan".to_owned()));
}

#[test]
fn operations_are_read_with_every_codec() {
    let folder = Folder::new("replay-codecs");
    for (name, options) in [
        ("raw", ""),
        ("json", "--format json --codec json"),
        ("msgpack", "--format json"),
        ("text", "--format json --log-format json"),
    ] {
        folder.run(&format!("append {name} {options} -q"), BANK.as_bytes()).fine();
        let ran = folder.run(&format!("replay {name} --into json:- -q"), b"");
        assert_eq!(ran.fine().json()[0]["lsn"], 7, "{name}");
    }
}

#[test]
fn program_gets_each_transaction_once_despite_kills() {
    let folder = bank("replay-killed", &many(40));
    // Killed before it stores the batch, and after that but before its answer.
    for (before, behind) in [("[ $applied -lt 12 ] || kill $$", ""), ("", "kill -9 $$")] {
        let ran = keep(&folder, (before, behind), "--batch 4");
        let said = ran.refused(1);
        assert!(said.contains("the program ended without an answer"), "{said}");
        assert!(said.contains("committed at LSN 9 .. 12"), "{said}");
    }
    assert_eq!(kept(&folder), (1..=12).collect::<Vec<_>>());
    let ran = keep(&folder, ("", ""), "--batch 4 --json");
    let found = &ran.fine().json()[0];
    assert_eq!(
        (&found["schema"], &found["applied"], &found["had_already"]),
        (&"seawall.replay/1".into(), &28.into(), &1.into()),
        "the last one that it had is looked at"
    );
    assert_eq!((&found["batches"], &found["changes"]), (&7.into(), &28.into()));
    assert_eq!((&found["applied_lsn"], &found["needed_from_lsn"]), (&40.into(), &40.into()));
    assert_eq!(kept(&folder), (1..=40).collect::<Vec<_>>());
    let ran = keep(&folder, ("", ""), "--json");
    assert_eq!(ran.fine().json()[0]["applied"], 0);
    assert_eq!(kept(&folder).len(), 40);
}

#[test]
fn interrupted_replay_continues_at_the_place_of_the_program() {
    let folder = bank("replay-interrupted", &many(5_000));
    let mut command = folder.command("replay log --batch 1 -q --into");
    let mut child = command.arg("cmd:sh keeper; touch ended").spawn().unwrap();
    let wait_for = |file: &str| {
        while !folder.names(".").contains(&file.to_owned()) {
            SystemClock::new().sleep(Duration::from_millis(1));
        }
    };
    wait_for("state");
    while kept(&folder).len() < 3 {
        SystemClock::new().sleep(Duration::from_millis(1));
    }
    // Not SIGINT: a shell that runs the tests in the background ignores it, and child processes
    // inherit that.
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success() && !child.wait().unwrap().success());
    // The program finishes its current batch.
    wait_for("ended");
    let count = u64::try_from(kept(&folder).len()).unwrap();
    assert!(count < 5_000, "it was interrupted");
    assert_eq!(kept(&folder), (1..=count).collect::<Vec<_>>());
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), (1..=5_000).collect::<Vec<_>>());
}

#[test]
fn program_continues_before_an_unfinished_transaction() {
    let folder = bank("replay-unfinished", BANK);
    let ran = keep(&folder, ("", ""), "--dry-run");
    assert!(ran.fine().text().contains("1 transaction would be applied"), "{ran:?}");
    assert!(ran.text().contains("nothing was changed"), "{ran:?}");
    assert_eq!(kept(&folder), [0; 0]);
    let ran = keep(&folder, ("", ""), "");
    assert!(ran.fine().text().contains("needed       from LSN 3 on"), "{ran:?}");
    assert_eq!(kept(&folder), [7]);
    folder.run("append log --format json -q", b"{\"commit\":3}\n").fine();
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), [7, 10]);
    // The end of the log is then truncated.
    folder.run("truncate log --after 9 --yes -q", b"").fine();
    let ran = keep(&folder, ("", ""), "");
    assert!(ran.refused(1).contains("has applied LSN 10, but the log ends before"), "{ran:?}");
}

#[test]
fn wrong_answer_of_a_program_is_reported_with_its_range() {
    let folder = bank("replay-wrong", BANK);
    let new = r#"echo "{\"place\":null}""#;
    for (program, expected) in [
        ("exit 3".to_owned(), "ended without an answer, with exit status: 3"),
        ("echo hi".to_owned(), "began with `hi`"),
        ("printf hi".to_owned(), "printed `hi` without a newline"),
        (r#"echo "{\"here\":7}""#.to_owned(), "`place` is missing"),
        (r#"echo "{\"place\":{\"applied\":7}}""#.to_owned(), "missing field `restart`"),
        (format!("{new}; read b; exit 4"), "LSN 7 .. 7"),
        (format!("{new}; read b; exit 4"), "exit status: 4"),
        (format!("{new}; exec < /dev/null; sleep 0"), "LSN 7 .. 7"),
        (format!("{new}; read b; echo ok"), "answered `ok`, expected {\"place\":{\"log\":"),
        (format!("{new}; {new}; read b"), "answered `{\"place\":null}`"),
        (format!("{new}; read b; yes | tr -d \"\\n\""), "without a newline"),
        (format!("{new}; {SAYS}; cat; echo more"), "printed more than the protocol allows: `more`"),
        (format!("{new}; {SAYS}; cat; exit 5"), "ended with exit status: 5"),
        // These would go on: they are reported and ended.
        (format!("{new}; {SAYS}; cat; echo more; exec sleep 60"), "allows: `more`"),
        (format!("{new}; read b; exec >&-; exec sleep 60"), "closed its output without an answer"),
    ] {
        let ran = folder.shell(&format!("seawall replay log --into 'cmd:{program}'"), b"");
        assert!(ran.refused(1).contains(expected), "{program}: {ran:?}");
    }
}

/// The batch is larger than the pipes. The program fills its output, which this process must read.
#[test]
fn program_that_answers_before_it_has_the_batch_is_stopped() {
    let folder = Folder::new("replay-early");
    let value = "v".repeat(1 << 20);
    let put = format!(r#"{{"atomic":[{{"put":{{"table":"","key":"k","value":"{value}"}}}}]}}"#);
    folder.run("append log --format json -q", put.as_bytes()).fine();
    let new = r#"echo "{\"place\":null}""#;
    let place = r#"b=$(head -c 200); b="${b#*\"place\":}"; printf "{\"place\":%s}}\n" "${b%%\}*}""#;
    for (program, expected) in [
        (format!("{new}; cat"), "without a newline"),
        (format!("{new}; yes"), "answered `y`, expected {\"place\":{\"log\":"),
        (format!("{new}; {place}; cat"), "before the whole batch was sent"),
        (format!("{new}; exec >&-; head -c 9 > /dev/null; exit 7"), "exit status: 7"),
        (format!("{new}; exec <&-; yes"), "LSN 1 .. 1"),
    ] {
        let line = format!("timeout 120 '{}' replay log --into 'cmd:{program}'", crate::PROGRAM);
        let ran = folder.shell(&line, b"");
        assert!(ran.refused(1).contains(expected), "{program}: {ran:?}");
    }
}

#[test]
fn user_learns_why_a_silent_program_gets_nothing() {
    let folder = bank("replay-silent", BANK);
    let program = "until grep -q \"has to begin with\" err; do sleep 0.1; done; echo hi";
    let replay = format!("seawall replay log --into 'cmd:{program}' 2> err");
    let ran = folder.shell(&format!("{replay}; code=$?; cat err >&2; exit $code"), b"");
    assert!(ran.refused(1).contains("has printed nothing"), "{ran:?}");
    assert!(ran.err.contains("began with `hi`"), "{ran:?}");
}

#[test]
fn invalid_operation_and_missing_begin_are_reported() {
    let folder = bank("replay-others", "{\"atomic\":[]}\n{\"transfer\":10}\n");
    let ran = folder.run("replay log --into json:-", b"");
    assert!(ran.refused(2).contains("LSN 2 is not an operation"), "{ran:?}");
    assert!(ran.err.contains("seawall cat log --from 2 -n 1"), "{ran:?}");
    let ran = folder.run("replay log --into json:- --until 1 -q", b"");
    assert_eq!(ran.fine().json().len(), 1);
    folder.run("append text -q", b"plain text\n").fine();
    let ran = folder.run("replay text --into json:-", b"");
    assert!(ran.refused(2).contains("LSN 1 is not an operation"), "{ran:?}");
    assert!(ran.err.contains("append operations with --format json"), "{ran:?}");
    folder.run("append headless --format json -q", b"{\"commit\":4}\n").fine();
    let ran = folder.run("replay headless --into json:-", b"");
    assert!(ran.refused(1).contains("transaction 4, which has no begin"), "{ran:?}");
    folder.run("replay nowhere --into json:-", b"").refused(1);
    folder.write("file", b"");
    folder.run("replay file --into json:-", b"").refused(8);
}

/// A transaction of one change to table `t`.
fn of_table(change: &str) -> String {
    let row = match change {
        "put" => r#","key":"k","value":"v""#,
        "delete" => r#","key":"k""#,
        "merge" => r#","key":"k","operator":"append","operand":"x""#,
        _ => "",
    };
    format!(r#"{{"atomic":[{{"{change}":{{"table":"t"{row}}}}}]}}"#) + "\n"
}

#[test]
fn rows_of_a_table_that_was_never_created_are_refused() {
    let cases: [(&[&str], &str); 7] = [
        (&["put"], "LSN 1: put into table `t`, key `k`: no such table"),
        (&["delete"], "LSN 1: delete from table `t`, key `k`: no such table"),
        (&["merge"], "LSN 1: merge into table `t`, key `k`: no such table"),
        (&["drop_table"], "LSN 1: drop table `t`: no such table"),
        (&["create_table", "put", "drop_table", "put"], "LSN 4: put into table `t`, key `k`: no"),
        (&["create_table", "create_table"], "LSN 2: create table `t`: the table already exists"),
        (&["create_table", "put", "drop_table", "create_table", "merge", "delete"], ""),
    ];
    for (changes, expected) in cases {
        let folder =
            bank("replay-tables", &changes.iter().map(|it| of_table(it)).collect::<String>());
        let into_json = folder.run("replay log --into json:-", b"");
        let into_file = folder.run("replay log --into json:out", b"");
        let into_program = keep(&folder, ("", ""), "--batch 1");
        for ran in [into_json, into_file, into_program] {
            if expected.is_empty() {
                ran.fine();
                continue;
            }
            let said = ran.refused(1);
            assert!(said.contains(expected) && said.contains("a row needs an existing"), "{said}");
        }
        let count = if expected.is_empty() { changes.len() } else { changes.len() - 1 };
        assert_eq!(kept(&folder).len(), count, "what was before it is kept: {changes:?}");
        assert_eq!(folder.names(".").contains(&"out".to_owned()), expected.is_empty());
    }
}

/// A replay that continues knows the tables created by earlier transactions, if the log still has
/// them.
#[test]
fn replay_that_continues_knows_the_tables_from_before() {
    let folder = bank("replay-tables-later", &(of_table("create_table") + &of_table("put")));
    keep(&folder, ("", ""), "-q").fine();
    folder.run("append log --format json -q", of_table("put").as_bytes()).fine();
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), [1, 2, 3]);
    assert_eq!(folder.run("replay log --into json:- --from 3 -q", b"").fine().json().len(), 1);
    folder.run("append log --format json -q", of_table("drop_table").as_bytes()).fine();
    keep(&folder, ("", ""), "-q").fine();
    folder.run("append log --format json -q", of_table("put").as_bytes()).fine();
    assert!(keep(&folder, ("", ""), "").refused(1).contains("LSN 5: put into table `t`"));
    let ran = folder.run("replay log --into json:- --from 5", b"");
    assert!(ran.refused(1).contains("LSN 5: put into table `t`"), "{ran:?}");
}

#[test]
fn contradicting_options_are_refused() {
    let folder = bank("replay-usage", BANK);
    let ran = folder.run("replay log --into stack:place", b"");
    let said = ran.refused(2);
    for part in [
        "no store `stack`: this program has no built-in store",
        "`cargo install --path stores/cli` (in the repository) gives one with fjall",
    ] {
        assert!(said.contains(part), "{said}");
    }
    folder.run("replay log --into json:- --threads 2", b"").refused(2);
    for wrong in [
        "",
        "--into nothing",
        "--into json:",
        "--into json:- --batch 0",
        "--into json:- --until noon",
        "--into json:- --from 0",
        "--into json:- --threads 0",
    ] {
        assert_eq!(folder.run(&format!("replay log {wrong}"), b"").code, 2, "{wrong}");
    }
}

#[test]
fn until_a_time_excludes_later_records() {
    let folder = bank("replay-time", &many(2));
    let first = folder.run("cat log --json", b"").json()[1]["time"].as_str().unwrap().to_owned();
    // Append until the clock shows another microsecond.
    let mut last = first.clone();
    while last == first {
        folder.run("append log --format json -q", many(1).as_bytes()).fine();
        last = folder.run("tail log -n 1 --json", b"").json()[0]["time"].as_str().unwrap().into();
    }
    let count = |until: &str| {
        let ran = folder.run(&format!("replay log --into json:- -q --until {until}"), b"");
        ran.fine().json().len()
    };
    assert_eq!(count(&first), 2);
    assert!(count(&last) > 2 && count("2999-01-01T00:00:00Z") == count(&last));
    let ran = folder.run("replay log --into json:- --until 1999-01-01T00:00:00Z", b"");
    assert!(ran.refused(2).contains("begins after that time"), "{ran:?}");
}

#[test]
fn pruned_log_serves_a_current_program_and_refuses_a_new_one() {
    let folder = Folder::new("replay-truncated");
    folder.write("keeper", KEEPER.as_bytes());
    let value = "x".repeat(60_000);
    let one = |n: u64| {
        format!(r#"{{"atomic":[{{"put":{{"table":"","key":"{n}","value":"{value}"}}}}]}}"#)
    };
    let records: String = (1..=60).map(|n| one(n) + "\n").collect();
    let append = "append log --format json --segment-size 1MiB -q";
    folder.run(append, records.as_bytes()).fine();
    keep(&folder, ("", ""), "-q --until 50").fine();
    folder.run("truncate log --before 51 --yes -q", b"").fine();
    let oldest = folder.run("cat log -n 1 --json", b"").json()[0]["lsn"].as_u64().unwrap();
    assert!(oldest > 1, "a segment is gone");
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), (1..=60).collect::<Vec<_>>());
    folder.remove("state");
    let ran = keep(&folder, ("", ""), "");
    assert!(ran.refused(1).contains("needs the records from LSN 1 on"), "{ran:?}");
    // The store is loaded with the earlier state, so the replay may start at the oldest record.
    folder.remove("state");
    keep(&folder, ("", ""), &format!("-q --from {oldest}")).fine();
    assert_eq!(kept(&folder), (oldest..=60).collect::<Vec<_>>());
    let ran = folder.run("replay log --into json:- -q", b"");
    assert_eq!(ran.fine().json()[0]["lsn"], oldest);
}

#[test]
fn closed_pipe_ends_replay_silently() {
    let folder = bank("replay-closed", &many(20_000));
    let ran = folder.shell("seawall replay log --into json:- | head -n 1 | grep -c lsn", b"");
    assert_eq!((ran.fine().text(), ran.err.as_str()), ("1\n", ""));
    let mut child = folder.start("replay log --into json:-");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    // The result cannot be printed, but the replay is complete.
    let folder = bank("replay-unheard", BANK);
    let line = "seawall replay log --into 'cmd:sh keeper' >&-; echo $?";
    assert!(folder.shell(line, b"").text().trim().len() == 1);
    assert_eq!(kept(&folder), [7]);
}

/// After a power cut, the last of ten acknowledged records is overwritten.
#[test]
fn replay_until_a_lost_record_reports_the_ambiguous_tail() {
    let folder = Folder::new("replay-until-lost");
    folder.write("keeper", KEEPER.as_bytes());
    let quiet = Options::new().idle_mark(None).preallocate(false);
    let log: Log<Operation> = quiet.open(folder.path("written")).unwrap();
    for number in 1..=10 {
        log.append(&Change::put("", number.to_string(), "v").into()).unwrap();
    }
    folder.make_folder("log");
    for name in ["manifest", "000000000001.seg"] {
        folder.write(&format!("log/{name}"), &folder.read(&format!("written/{name}")));
    }
    log.close().unwrap();
    let end = folder.run("verify log --json", b"").json()[0]["tail"]["offset"].as_u64().unwrap();
    folder.overwrite("log/000000000001.seg", usize::try_from(end).unwrap() - 64, &[0xff; 64]);

    for until in ["", "--until 10", "--until 99"] {
        let ran = folder.run(&format!("replay log --into json:- -q {until}"), b"");
        assert!(ran.refused(3).contains("ambiguous tail"), "{until}: {ran:?}");
        assert_eq!(ran.json().len(), 9);
        keep(&folder, ("", ""), &format!("-q --dry-run {until}")).refused(3);
        keep(&folder, ("", ""), &format!("-q {until}")).refused(3);
    }
    assert_eq!(kept(&folder), (1..=9).collect::<Vec<_>>());
    // The damage is after the last record to read.
    for until in [8, 9] {
        let ran = folder.run(&format!("replay log --into json:- -q --until {until}"), b"");
        assert_eq!(ran.fine().json().len(), until);
    }
    keep(&folder, ("", ""), "-q --until 5").fine();
}

#[test]
fn damage_ends_a_replay_with_its_exit_code() {
    let folder = bank("replay-damaged", &many(2));
    let needle = many(1).replace("\"1\"", "\"needle\"");
    folder.run("append log --format json -q", needle.as_bytes()).fine();
    folder.run("append log --format json -q", many(1).as_bytes()).fine();
    folder.flip("log/000000000001.seg", b"needle");
    let ran = folder.run("replay log --into json:-", b"");
    assert!(ran.refused(5).contains("damaged"), "{ran:?}");
    keep(&folder, ("", ""), "").refused(5);
    keep(&folder, ("", ""), "--until 2 -q").fine();
    assert_eq!(kept(&folder), [1, 2]);
}

/// A file is cut after its last record. `cat` shows every record, too.
#[test]
fn damage_that_loses_no_record_is_reported_after_the_replay() {
    let folder = bank("replay-cut", &many(3));
    let segment = "log/000000000001.seg";
    let whole = folder.read(segment);
    folder.write(segment, &whole[..whole.len() - 4096]);
    assert_eq!(folder.run("cat log --json", b"").json().len(), 3);
    for options in ["", "--until 2999-01-01T00:00:00Z", "--from 2", "--dry-run"] {
        let ran = folder.run(&format!("replay log --into json:- -q {options}"), b"");
        assert!(ran.refused(4).contains("no record is lost"), "{options}: {ran:?}");
        let expected = [("--from 2", 2), ("--dry-run", 0)];
        let expected =
            expected.iter().find(|(of, _)| *of == options).map_or(3, |(_, count)| *count);
        assert_eq!(ran.json().len(), expected, "{options}");
    }
    for _ in 0..2 {
        keep(&folder, ("", ""), "-q").refused(4);
        assert_eq!(kept(&folder), [1, 2, 3]);
    }
}

#[test]
fn ambiguous_tail_is_reported_after_the_replay() {
    let folder = bank("replay-unsure", &many(1));
    let at = folder.run("verify log --json", b"").json()[0]["tail"]["offset"].as_u64().unwrap();
    folder.overwrite("log/000000000001.seg", usize::try_from(at).unwrap(), &[0xff; 2000]);
    let ran = folder.run("replay log --into json:- -q", b"");
    assert!(ran.refused(3).contains("ambiguous tail"), "{ran:?}");
    assert_eq!(ran.json().len(), 1);
    keep(&folder, ("", ""), "-q").refused(3);
    assert_eq!(kept(&folder), [1]);
    folder.run("replay log --into json:- -q --until 1", b"").fine();
}

#[test]
fn progress_of_a_replay_is_reported() {
    let folder = bank("replay-progress", &many(2_000));
    let ran = folder.shell("seawall replay log --into json:- -q --progress fd:7 7> heard", b"");
    assert_eq!(ran.fine().json().len(), 2_000);
    let heard = String::from_utf8(folder.read("heard")).unwrap();
    let last: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
    assert_eq!(last, json!({"done": 2_000, "total": 2_000, "unit": "records"}));
}

/// Truncates the log after LSN 5 and appends more records than were removed.
fn regrow(folder: &Folder) {
    folder.run("truncate log --after 5 --yes -q", b"").fine();
    folder.run("append log --format json -q", many(7).as_bytes()).fine();
}

#[test]
fn program_with_truncated_records_is_refused() {
    let folder = bank("replay-regrown", &many(10));
    keep(&folder, ("", ""), "-q").fine();
    regrow(&folder);
    for options in ["", "--dry-run", "--adopt"] {
        let ran = keep(&folder, ("", ""), options);
        let said = ran.refused(9);
        assert!(said.contains("has applied LSN 10, but the log has another record"), "{said}");
        assert!(said.contains("log, replayed into cmd:sh keeper"), "{said}");
        assert!(said.contains(": empty from this log"), "{said}");
    }
    assert_eq!(kept(&folder), (1..=10).collect::<Vec<_>>());
    folder.remove("state");
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), (1..=12).collect::<Vec<_>>());
}

#[test]
fn program_of_another_log_is_refused_and_of_a_copy_accepted() {
    let folder = bank("replay-other-log", &many(10));
    keep(&folder, ("", ""), "-q").fine();
    folder.run("append other --format json -q", many(15).as_bytes()).fine();
    folder.run("copy log copied -q", b"").fine();
    // A converted log has the same records but another log id.
    folder.run("convert log lines --from seawall --to json -q", b"").fine();
    folder.run("convert lines converted --from json --to seawall -q", b"").fine();
    let program = r#"sh keeper "" """#;
    let replay =
        |log: &str| folder.shell(&format!("seawall replay {log} --into 'cmd:{program}'"), b"");
    for log in ["other", "converted"] {
        let ran = replay(log);
        assert!(ran.refused(9).contains("the store belongs to the log with id"), "{ran:?}");
    }
    replay("copied").fine();
    assert_eq!(kept(&folder), (1..=10).collect::<Vec<_>>());
}

#[test]
fn program_of_an_earlier_version_gets_advice_and_can_be_adopted() {
    let folder = bank("replay-older", &many(10));
    for old in [
        r#"echo "{\"applied\":null,\"restart\":null}"; cat"#,
        r#"echo "{\"applied\":4,\"restart\":5}"; cat"#,
        r#"echo "{\"place\":null}"; read b; echo "{\"applied\":10}"; cat"#,
    ] {
        let ran = folder.shell(&format!("seawall replay log --into 'cmd:{old}'"), b"");
        let said = ran.refused(1);
        assert!(said.contains("let it store the whole `place` received"), "{said}");
    }
    // The position of an earlier version, in the current format.
    keep(&folder, ("", ""), "-q --until 4").fine();
    let numbers = "{\"place\":{\"applied\":4,\"restart\":5}}\n";
    let state = String::from_utf8(folder.read("state")).unwrap();
    let batches = state.split_once('\n').unwrap().1;
    folder.write("state", format!("{numbers}{batches}").as_bytes());
    let ran = keep(&folder, ("", ""), "");
    let said = ran.refused(9);
    assert!(said.contains("written by an earlier version"), "{said}");
    assert!(said.contains("the same command with --adopt, once"), "{said}");
    // Adopting stores a current place even if there is nothing new to replay.
    keep(&folder, ("", ""), "-q --until 4 --adopt").fine();
    keep(&folder, ("", ""), "-q").fine();
    assert_eq!(kept(&folder), (1..=10).collect::<Vec<_>>());
    let ran = folder.run("replay log --into json:- --adopt", b"");
    assert!(ran.refused(2).contains("json stores no position"), "{ran:?}");
}

/// Transaction 1 was aborted; the program restarted and used its number again. Of the records, the
/// abort and the second begin were lost.
#[test]
fn transaction_that_lost_a_record_is_refused_and_can_be_skipped() {
    let folder = Folder::new("replay-given-up");
    folder.write("keeper", KEEPER.as_bytes());
    let put = |key: &str| {
        format!(r#"{{"change":[1,{{"put":{{"table":"","key":"{key}","value":"v"}}}}]}}"#)
    };
    let put = [put("old"), put("new")];
    let records = [r#"{"begin":1}"#, &put[0], r#"{"abort":1}"#, r#"{"begin":1}"#, &put[1]];
    let records = records.join("\n") + "\n{\"commit\":1}\n" + &many(1);
    folder.run("append log --format json -q", records.as_bytes()).fine();
    let segment = "log/000000000001.seg";
    folder.flip(segment, b"abort");
    let begin = folder.read(segment).windows(5).rposition(|bytes| bytes == b"begin").unwrap();
    folder.overwrite(segment, begin, b"Begin");
    assert_eq!(folder.run("repair log --salvage-to new", b"").code, 5);

    for target in ["json:-", "json:file", "'cmd:sh keeper'"] {
        let ran = folder.shell(&format!("seawall replay new --into {target}"), b"");
        let said = ran.refused(5);
        assert!(said.contains("LSN 6 commits transaction 1, but a repair of the log gave up"));
        assert!(said.contains("records 3 to 4 before it"), "{said}");
        assert!(said.contains("the same command with --skip-incomplete"), "{said}");
        assert_eq!(ran.text(), "");
    }
    let ran = folder.run("replay new --into json:- --skip-incomplete", b"");
    assert_eq!((ran.code, ran.json()[0]["lsn"].clone(), ran.json().len()), (0, json!(7), 1));
    assert!(ran.err.contains("given up     2 records; skipped 1 incomplete for that"), "{ran:?}");
    let answer = folder.run("replay new --into json:file --skip-incomplete --json", b"").json();
    assert_eq!((&answer[0]["given_up"], &answer[0]["incomplete"]), (&json!(2), &json!(1)));
}

/// A new target starts after the records that were given up.
#[test]
fn transaction_whose_begin_was_given_up_before_the_start_is_incomplete() {
    let folder = bank("replay-lost-begin", BANK);
    let segment = "log/000000000001.seg";
    let begin = folder.read(segment).windows(5).position(|bytes| bytes == b"begin").unwrap();
    folder.overwrite(segment, begin, b"Begin");
    assert_eq!(folder.run("repair log --salvage-to new", b"").code, 5);
    folder.shell("rm -r log && mv new log", b"").fine();
    let ran = keep(&folder, ("", ""), "--from 2");
    let said = ran.refused(5);
    assert!(said.contains("a repair of the log gave up record 1 before it"), "{said}");
    keep(&folder, ("", ""), "--from 2 --skip-incomplete -q").fine();
    folder.remove("state");
    // The last transaction begins within the log, but before the start.
    let late = format!("{{\"begin\":2}}\n{}{{\"commit\":2}}\n", many(1));
    folder.run("append log --format json -q", late.as_bytes()).fine();
    let ran = keep(&folder, ("", ""), "--from 12");
    let said = ran.refused(1);
    assert!(said.contains("no begin") && said.contains("if it began earlier"), "{said}");
}

#[test]
fn records_given_up_at_the_end_are_counted_too() {
    let folder = Folder::new("replay-given-up-end");
    folder.run("append log --format json -q", many(2).as_bytes()).fine();
    let last = r#"{"atomic":[{"put":{"table":"","key":"last","value":"v"}}]}"#;
    folder.run("append log --format json -q", format!("{last}\n").as_bytes()).fine();
    folder.flip("log/000000000001.seg", b"last");
    assert_eq!(folder.run("repair log --salvage-to new", b"").code, 5);
    let given_up = |options: &str| {
        let ran = folder.run(&format!("replay new --into json:file --json {options}"), b"");
        ran.fine().json()[0]["given_up"].clone()
    };
    assert_eq!((given_up(""), given_up("--until 2")), (json!(1), json!(0)));
}

/// Otherwise the records between the end and the start would be skipped for good.
#[test]
fn new_program_cannot_start_after_the_end_of_the_log() {
    let folder = bank("replay-beyond", &many(6));
    let ran = keep(&folder, ("", ""), "--from 500");
    let said = ran.refused(2);
    assert!(said.contains("the log ends at LSN 6") && said.contains("--from 500"), "{said}");
    assert_eq!(kept(&folder), [0; 0]);
    // At the end it can; and it keeps the record before its start as its place.
    keep(&folder, ("", ""), "--from 7").fine();
    let state = String::from_utf8(folder.read("state")).unwrap();
    assert!(state.contains(r#""applied":6"#), "{state}");
    folder.run("append log --format json -q", many(1).as_bytes()).fine();
    keep(&folder, ("", ""), "").fine();
    assert_eq!(kept(&folder), [7]);
}

#[test]
fn prometheus_metrics_show_a_replay_and_its_log() {
    let folder = bank("replay-prometheus", BANK);
    let has = |ran: &Ran, line: &str| ran.fine().text().lines().any(|found| found == line);
    let replayed = folder.run("replay log --into json:all --prometheus", b"");
    assert!(has(&replayed, r#"seawall_replay_applied_transactions{log="log"} 1"#));
    let stat = folder.run("stat log --prometheus", b"");
    assert!(has(&stat, r#"seawall_log_records{log="log"} 9"#));
    assert!(has(&stat, r#"seawall_log_verdict{log="log",verdict="clean"} 1"#));
}
