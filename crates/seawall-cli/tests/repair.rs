//! `repair`: a plan that changes nothing, a new log with every intact record, or a log that ends
//! before the damage.

use crate::tool;

use serde_json::{Value, json};
use tool::{Folder, Ran};

/// A log of a hundred records with record 40 damaged.
fn damaged(name: &str) -> Folder {
    let folder = Folder::new(name);
    let lines: Vec<u8> =
        (1..=100).flat_map(|n| format!("record {n:03} is here\n").into_bytes()).collect();
    folder.run("append log", &lines).fine();
    folder.flip("log/000000000001.seg", b"record 040");
    folder
}

fn answer(ran: &Ran) -> Value {
    assert_eq!(ran.err, "");
    let answer = ran.json().remove(0);
    assert!(answer.get("schema").is_some_and(|schema| schema == "seawall.repair/1"));
    answer
}

/// Every file of the log with its content, without the quarantine.
fn state(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let names = folder.names("log").into_iter().filter(|name| name != "quarantine");
    names.map(|name| (name.clone(), folder.read(&format!("log/{name}")))).collect()
}

#[test]
fn plan_names_the_loss_and_the_options_and_changes_nothing() {
    let folder = damaged("repair-plan");
    let before = state(&folder);
    let ran = folder.run("repair log --json", b"");
    let plan = answer(&ran);
    assert_eq!((ran.code, &plan["verdict"]), (5, &json!("lost")));
    assert_eq!((&plan["records"], &plan["done"]), (&json!(99), &Value::Null));
    assert_eq!(plan["damage"][0]["lost_from"], 40);
    assert_eq!(plan["cut_tail"]["last_lsn"], 39);
    assert_eq!(plan["cut_tail"]["intact_given_up"], 60);
    assert_eq!(plan["cut_tail"]["given_up"], json!([{ "from": 40, "to": 100 }]));
    let said = folder.run("repair log", b"");
    for words in ["LSN 40", "--salvage-to NEW", "keeps 99 records", "--cut-tail --yes", "LSN 39"] {
        assert!(said.text().contains(words), "{words}: {}", said.text());
    }
    // Without --yes, `--cut-tail` only prints the plan, too.
    assert_eq!(folder.run("repair log --cut-tail", b"").text(), said.text());
    assert!(state(&folder) == before);
}

#[test]
fn salvage_keeps_lsns_and_does_not_change_the_source() {
    let folder = damaged("repair-salvage");
    let before = state(&folder);
    let ran = folder.run("repair log --salvage-to new --json", b"");
    let done = answer(&ran);
    assert_eq!((ran.code, &done["done"], &done["records"]), (5, &json!("salvage"), &json!(99)));
    assert_eq!(done["given_up"], json!([{ "from": 40, "to": 40 }]));
    assert!(state(&folder) == before, "the source is only read");
    let verdict = folder.run("verify new --json", b"").fine().json().remove(0);
    assert_eq!((&verdict["verdict"], &verdict["records"]), (&json!("clean"), &json!(99)));
    assert_eq!(verdict["given_up"], done["given_up"]);
    assert!(folder.run("verify new", b"").fine().text().contains("given up   LSN 40"));
    let cat = folder.run("cat new", b"");
    assert_eq!(cat.code, 0);
    assert_eq!(cat.err, "seawall: record 40 given up by a repair\n");
    assert!(cat.text().contains("\n41\trecord 041 is here\n"));
    assert_eq!(folder.run("append new --ack", b"one more\n").fine().text(), "101\n");
    assert!(folder.run("repair log --salvage-to new", b"").refused(9).contains("target"));
}

#[test]
fn cut_tail_ends_the_log_before_the_damage() {
    let folder = damaged("repair-cut");
    folder.run("append log", b"refused\n").refused(5);
    let ran = folder.run("repair log --cut-tail --yes --json", b"");
    let done = answer(&ran);
    assert_eq!((ran.code, &done["done"], &done["last_lsn"]), (5, &json!("cut-tail"), &json!(39)));
    assert_eq!(done["intact_given_up"], 60);
    assert_eq!(done["given_up"], json!([{ "from": 40, "to": 100 }]));
    assert_eq!(folder.run("append log --ack", b"on it goes\n").fine().text(), "40\n");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text().lines().count(), 40);
    folder.run("verify log --strict", b"").fine();
    let again = answer(&folder.run("repair log --cut-tail --yes --json", b""));
    assert_eq!((&again["last_lsn"], &again["damage"]), (&json!(40), &json!([])));
}

/// The first run was killed after it changed the log, and before it answered.
#[test]
fn repair_that_runs_again_answers_once_as_the_killed_one_would() {
    let whole = damaged("repair-cut-whole");
    let expected = answer(&whole.run("repair log --cut-tail --yes --json", b""));
    let folder = damaged("repair-cut-killed");
    let killed = seawall::Maintenance::at(folder.path("log")).until_reported();
    drop({ killed }.truncate_damaged_tail().unwrap());
    let plan = folder.run("repair log", b"");
    assert!(plan.fine().text().contains("--cut-tail --yes reports them"), "{}", plan.text());
    let ran = folder.run("repair log --cut-tail --yes --json", b"");
    let done = answer(&ran);
    for field in ["last_lsn", "damage", "intact_given_up"] {
        assert_eq!(done[field], expected[field], "{field}");
    }
    assert_eq!(ran.code, 5);
    folder.run("repair log --cut-tail --yes --json", b"").fine();

    let folder = Folder::new("repair-mend-killed");
    folder.run("append log", b"one\ntwo\n").fine();
    folder.run("copy log backup", b"").fine();
    folder.remove("log/000000000001.seg");
    let killed = seawall::Maintenance::at(folder.path("log")).until_reported();
    drop(killed.replicas([folder.path("backup")]).repair().unwrap());
    assert_eq!(folder.run("repair log --from-replica backup --yes", b"").code, 3);
    folder.run("repair log --from-replica backup --yes", b"").fine();
}

#[test]
fn sound_log_needs_no_repair() {
    let folder = Folder::new("repair-sound");
    folder.run("append log", b"one\n").fine();
    assert!(folder.run("repair log", b"").fine().text().contains("nothing to repair"));
    let done = answer(folder.run("repair log --salvage-to new --json", b"").fine());
    assert_eq!((&done["records"], &done["given_up"]), (&json!(1), &json!([])));
}

#[test]
fn impossible_repair_is_reported() {
    let folder = damaged("repair-refused");
    folder.run("repair nothing", b"").refused(1);
    folder.run("repair log --yes", b"").refused(2);
    assert_eq!(folder.run("repair log --cut-tail --salvage-to new", b"").code, 2);
    let error = folder.run("repair log --from-replica other", b"");
    let said = error.refused(1);
    assert!(said.contains("no such replica: other") && said.contains("where: other"), "{said}");
    folder.make_folder("empty");
    let said = folder.run("repair log --from-replica empty", b"");
    assert!(said.refused(8).contains("where: empty"), "{}", said.err);
    folder.run("append other", b"one\n").fine();
    let error = folder.run("repair log --from-replica other", b"");
    let said = error.refused(2);
    assert!(
        said.contains("the replica belongs to another log") && said.contains("(other)"),
        "{said}"
    );
    assert!(!said.contains("the option") && !said.contains("the the"), "{said}");
    for itself in ["log", "./log", "log/../log"] {
        let said = folder.run(&format!("repair log --from-replica {itself}"), b"");
        assert!(said.refused(2).contains("the log itself"), "{}", said.err);
    }
    // Without a manifest the log cannot be truncated, only salvaged to a new log.
    folder.remove("log/manifest");
    assert!(!folder.run("repair log", b"").text().contains("--cut-tail"));
    folder.run("repair log --cut-tail --yes", b"").refused(5);
    let done = answer(&folder.run("repair log --salvage-to new --json", b""));
    assert_eq!(done["records"], 99);
    folder.run("append new", b"on it goes\n").fine();
}

/// A log of 100 records, of which the header of the first batch is damaged: all can be read.
fn readable(name: &str) -> Folder {
    let folder = Folder::new(name);
    for records in [1..=50, 51..=100] {
        let lines = records.flat_map(|n| format!("record {n:03}\n").into_bytes());
        folder.run("append log", &lines.collect::<Vec<u8>>()).fine();
    }
    let segment = folder.read("log/000000000001.seg");
    let first = segment.windows(10).position(|bytes| bytes == b"record 001");
    let first = first.expect("the record is there");
    // The header of the batch begins at the block before the first record.
    folder.overwrite("log/000000000001.seg", first / 4096 * 4096, &[0xff; 4]);
    folder
}

#[test]
fn no_record_of_a_readable_log_is_given_up() {
    let folder = readable("repair-readable");
    assert_eq!(folder.run("cat log -o raw --skip-damaged", b"").text().lines().count(), 100);
    let before = state(&folder);
    let plan = answer(&folder.run("repair log --cut-tail --json", b""));
    assert_eq!((&plan["verdict"], &plan["records"]), (&json!("correctable"), &json!(100)));
    assert_eq!(plan["cut_tail"]["given_up"], json!([{ "from": 51, "to": 100 }]));
    let said = folder.run("repair log --cut-tail", b"");
    for words in ["--cut-tail is refused", "50 intact records, LSN 51 .. 100", "--salvage-to NEW"] {
        assert!(said.text().contains(words), "{words}: {}", said.text());
    }
    for options in ["--yes", "--cut-tail --yes", "--cut-tail --yes --json"] {
        let ran = folder.run(&format!("repair log {options}"), b"");
        let said = ran.refused(2);
        assert!(said.contains("all records are readable"), "{options}: {said}");
        assert!(said.contains("seawall repair log --salvage-to NEW"), "{options}: {said}");
        assert!(state(&folder) == before, "{options}");
    }
    assert_eq!(
        answer(folder.run("repair log --salvage-to new --json", b"").fine())["records"],
        100
    );
}

/// Two copies of a log, each with further records of its own.
fn diverged(name: &str, records: std::ops::RangeInclusive<u32>) -> Folder {
    let folder = Folder::new(name);
    let lines: Vec<u8> = (1..=100).flat_map(|n| format!("shared {n:03}\n").into_bytes()).collect();
    folder.run("append a", &lines).fine();
    folder.shell("cp -a a b", b"").fine();
    for log in ["a", "b"] {
        let lines = records.clone().flat_map(|n| format!("{log} says record {n}\n").into_bytes());
        folder.run(&format!("append {log}"), &lines.collect::<Vec<u8>>()).fine();
    }
    folder
}

#[test]
fn diverged_replica_is_not_trusted_over_remaining_bytes() {
    for last in [101, 103] {
        let folder = diverged(&format!("repair-diverged-{last}"), 101..=last);
        let content = folder.read("a/000000000001.seg");
        let needle = b"a says record 101";
        let at = content.windows(needle.len()).position(|bytes| bytes == needle).unwrap();
        folder.overwrite("a/000000000001.seg", at + 2, b"XXXX");
        let before: Vec<_> = folder.names("a").into_iter().collect();
        let was = folder.read("a/000000000001.seg");
        let done = folder.run("repair a --from-replica b --yes --json", b"");
        assert_eq!(done.code, 5, "{} {}", done.text(), done.err);
        let done = answer(&done);
        let lost = (&done["damage"][0]["lost_from"], &done["damage"][0]["lost_to"]);
        assert_eq!(lost, (&json!(101), &json!(101)), "{done}");
        assert_eq!(done["mend"]["refused"], json!([{ "from": 101, "to": 101 }]));
        assert!(folder.read("a/000000000001.seg") == was && folder.names("a") == before);
        let said = folder.run("repair a --from-replica b", b"");
        assert!(said.text().contains("not taken  LSN 101"), "{}", said.text());
        let shown = folder.run("cat a --skip-damaged -o raw", b"");
        assert!(!shown.text().contains("b says"), "{}", shown.text());
    }
}

/// A replica may be damaged at the same place, or share its files with the log by hard links.
#[test]
fn records_that_the_replica_lost_too_are_not_called_refused() {
    let folder = diverged("repair-both", 101..=110);
    folder.flip("a/000000000001.seg", b"a says record 103");
    folder.shell("cp -al a links", b"").fine();
    let refused = |replica: &str| {
        let plan = answer(&folder.run(&format!("repair a --from-replica {replica} --json"), b""));
        assert_eq!(plan["damage"][0]["lost_from"], 103);
        plan["mend"]["refused"].clone()
    };
    assert_eq!(refused("links"), json!([]));
    assert_eq!(refused("b"), json!([{ "from": 103, "to": 103 }]));
    folder.flip("b/000000000001.seg", b"b says record 103");
    assert_eq!(refused("b"), json!([]));
}

#[test]
fn salvage_reports_what_rests_on_a_replica_as_a_repair_in_place_does() {
    let folder = diverged("repair-alone", 101..=110);
    folder.remove("a/000000000001.seg");
    let saved = folder.run("repair a --from-replica b --salvage-to new", b"");
    let saved_json = folder.run("repair a --from-replica b --salvage-to new2 --json", b"");
    let saved_json = (saved_json.code, answer(&saved_json));
    folder.shell("cp -a a a2", b"").fine();
    let mended = folder.run("repair a --from-replica b --yes", b"");
    let mended_json = folder.run("repair a2 --from-replica b --yes --json", b"");
    let mended_json = (mended_json.code, answer(&mended_json));
    assert_eq!((saved.code, mended.code), (3, 3), "{} {}", saved.text(), mended.text());
    assert_eq!((saved_json.0, mended_json.0), (3, 3));
    for ran in [&saved, &mended] {
        assert!(ran.text().contains("unknown    LSN "), "{}", ran.text());
        assert!(ran.text().contains("only the replica has its content"), "{}", ran.text());
    }
    for field in ["end_by_replica", "unproven", "refused", "not_taken_to"] {
        assert_eq!(saved_json.1[field], mended_json.1["mend"][field], "{field}");
    }
    assert_ne!(saved_json.1["unproven"], json!([]));
}

#[test]
fn repair_of_a_sound_log_with_yes_changes_nothing() {
    let folder = Folder::new("repair-yes-sound");
    folder.run("append log", b"one\ntwo\n").fine();
    let before = state(&folder);
    let said = folder.run("repair log --yes", b"");
    assert!(said.fine().text().contains("there is nothing to repair"), "{}", said.text());
    assert_eq!(answer(folder.run("repair log --yes --json", b"").fine())["verdict"], "clean");
    assert!(state(&folder) == before);
}

#[test]
fn replica_restores_damaged_records() {
    let folder = Folder::new("repair-replica");
    let lines: Vec<u8> =
        (1..=100).flat_map(|n| format!("record {n:03} is here\n").into_bytes()).collect();
    folder.run("append log", &lines).fine();
    folder.run("copy log copy", b"").fine();
    let sound = folder.read("log/000000000001.seg");
    folder.flip("log/000000000001.seg", b"record 040");
    let before = state(&folder);
    let ran = folder.run("repair log --from-replica copy --json", b"");
    let plan = answer(&ran);
    assert_eq!((ran.code, &plan["done"], &plan["records"]), (5, &Value::Null, &json!(99)));
    let mend = &plan["mend"];
    assert_eq!((&mend["verdict"], &mend["records"]), (&json!("clean"), &json!(100)));
    let change = &mend["changes"][0];
    assert_eq!((&change["was"], &change["by"]), (&json!("bit"), &json!("replica")));
    assert!(change["place"].as_str().is_some_and(|place| place.starts_with("record 40, payload")));
    let said = folder.run("repair log --from-replica copy", b"");
    for words in ["--from-replica copy --yes", "keeps 100 records", "record 40, payload byte"] {
        assert!(said.text().contains(words), "{words}: {}", said.text());
    }
    assert!(state(&folder) == before, "a plan changes nothing");
    // A salvaged log gets the records of the replica, too.
    let saved = folder.run("repair log --from-replica copy --salvage-to new --json", b"");
    assert_eq!(answer(saved.fine())["records"], 100);
    assert!(state(&folder) == before, "the source is only read");
    let done = folder.run("repair log --from-replica copy --yes --json", b"");
    let done = answer(done.fine());
    assert_eq!((&done["done"], &done["damage"]), (&json!("mend"), &json!([])));
    assert!(folder.read("log/000000000001.seg") == sound, "bit for bit");
    let journal = done["quarantine"][0].as_str().unwrap();
    assert!(!folder.read(&format!("log/{journal}")).is_empty());
    folder.run("verify log --strict", b"").fine();
    assert_eq!(folder.run("append log --ack", b"on it goes\n").fine().text(), "101\n");
}

#[test]
fn records_that_a_replica_lacks_are_removed_in_the_same_run() {
    let folder = Folder::new("repair-replica-cut");
    for records in [1..=50, 51..=100] {
        let lines = records.flat_map(|n| format!("record {n:03} is here\n").into_bytes());
        folder.run("append log", &lines.collect::<Vec<u8>>()).fine();
    }
    folder.run("copy log copy", b"").fine();
    folder.flip("log/000000000001.seg", b"record 040");
    folder.flip("log/000000000001.seg", b"record 070");
    folder.flip("copy/000000000001.seg", b"record 070");
    let ran = folder.run("repair log --from-replica copy --cut-tail --yes --json", b"");
    let [done] = &ran.json()[..] else { panic!("one answer: {}", ran.text()) };
    assert_eq!((ran.code, &done["done"], &done["last_lsn"]), (5, &json!("cut-tail"), &json!(69)));
    assert_eq!(done["mend"]["changes"].as_array().map(Vec::len), Some(1));
    assert!(done["quarantine"].as_array().is_some_and(|kept| kept.len() > 1), "{done}");
    assert_eq!(folder.run("append log --ack", b"on it goes\n").fine().text(), "70\n");
    folder.run("verify log --strict", b"").fine();
}
