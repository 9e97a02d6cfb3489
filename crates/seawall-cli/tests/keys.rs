//! Encrypted logs on the command line: written and read with a key, refused without it, and
//! rekeyed.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test reports failure by panicking"
)]

use crate::tool;

use std::io::{BufRead, BufReader, Write};
use tool::Folder;

const RECORDS: &[u8] = b"the first secret\nanother secret\n";
const KEY: &str = "--key-file log.key";

/// A folder with two keys and an encrypted log of two records.
fn encrypted(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.run("keygen log.key", b"").fine();
    folder.run("keygen other.key", b"").fine();
    folder.run(&format!("append log --encrypt {KEY}"), RECORDS).fine();
    folder
}

fn text(folder: &Folder, log: &str, key: &str) -> String {
    folder.run(&format!("cat {log} -o raw --key-file {key}"), b"").fine().text().to_owned()
}

#[test]
fn key_file_name_that_is_not_utf_8_is_refused() {
    let folder = Folder::new("keys-name");
    let ran = folder.shell("seawall keygen \"$(printf 'k\\377')\"", b"");
    assert!(ran.refused(1).contains("does not end in a UTF-8 file name"), "{ran:?}");
    assert!(folder.names(".").is_empty());
}

#[test]
fn key_file_is_private_random_and_never_replaced() {
    let folder = Folder::new("keygen");
    let made = folder.run("keygen one.key", b"");
    assert!(made.fine().text().contains("next: seawall append LOG --encrypt"), "{made:?}");
    let told = folder.run("keygen other.key --json", b"").fine().json().remove(0);
    assert_eq!((&told["schema"], &told["file"]), (&"seawall.keygen/1".into(), &"other.key".into()));
    let [one, other] = ["one.key", "other.key"].map(|name| folder.read(name));
    assert_eq!((one.len(), folder.mode("one.key") & 0o777), (32, 0o600));
    assert_ne!(one, other);
    folder.run("keygen one.key", b"").refused(9);
    assert_eq!(folder.read("one.key"), one);
    folder.run("keygen nowhere/one.key", b"").refused(1);
}

#[test]
fn records_of_an_encrypted_log_show_only_with_its_key() {
    let folder = encrypted("keys-read");
    for (file, _) in folder.contents("log") {
        let bytes = folder.read(&file);
        assert!(!bytes.windows(6).any(|part| part == b"secret"), "{file}");
    }
    assert_eq!(text(&folder, "log", "log.key").as_bytes(), RECORDS);
    let last = folder.run(&format!("tail log -n 1 -o raw {KEY}"), b"");
    assert_eq!(last.fine().text(), "another secret\n");
    let found = folder.run(&format!("tail log -n 1 -o raw --where .=x {KEY}"), b"");
    assert_eq!(found.fine().text(), "");
    folder.run(&format!("append log {KEY}"), b"third\n").fine();
    let json = folder.run(&format!("convert log all.json --to json {KEY}"), b"");
    assert_eq!(json.code, 0, "{json:?}");
    assert!(folder.read("all.json").windows(6).any(|part| part == b"secret"));
    // A log converted or salvaged from an encrypted one is encrypted with the same key.
    folder.run(&format!("convert log copied --to seawall {KEY}"), b"").fine();
    folder.run(&format!("convert log copied --to seawall {KEY}"), b"").fine();
    folder.run(&format!("repair log --salvage-to salvaged {KEY}"), b"").fine();
    folder.run("copy log backup", b"").fine();
    for copy in ["copied", "salvaged", "backup"] {
        assert_eq!(text(&folder, copy, "log.key"), text(&folder, "log", "log.key"), "{copy}");
        folder.run(&format!("cat {copy}"), b"").refused(7);
    }
    folder.run(&format!("truncate log --after 1 --yes {KEY}"), b"").fine();
    assert_eq!(text(&folder, "log", "log.key"), "the first secret\n");
    folder.run(&format!("protect log {KEY}"), b"").fine();
    folder.run("protect log", b"").fine();
    let operations = br#"{"atomic":[{"put":{"table":"","key":"k","value":"v"}}]}"#;
    folder.run(&format!("append operations --encrypt {KEY}"), operations).fine();
    let replayed = folder.run(&format!("replay operations --into json:- -q {KEY}"), b"");
    assert_eq!(replayed.fine().json().len(), 1);
}

/// Commands that need the key of the log; those in `ACCEPT` only accept one.
const NEED: [&str; 9] = [
    "append log",
    "cat log",
    "tail log",
    "truncate log --after 1 --yes",
    "repair log --salvage-to new",
    "repair log --cut-tail --yes",
    "convert log new --to json",
    "replay log --into json:-",
    "rekey log --new-key-file other.key",
];
const ACCEPT: [&str; 5] =
    ["verify log", "stat log", "copy log new", "protect log", "repair log --yes"];

#[test]
fn missing_or_wrong_key_exits_7_and_changes_nothing() {
    let folder = encrypted("keys-refused");
    // A torn tail, which opening the log for append would remove.
    let end = folder.read("log/000000000001.seg").len();
    folder.overwrite("log/000000000001.seg", end - 600, &[7; 600]);
    folder.write("short.key", &[7; 31]);
    folder.write("long.key", &[7; 33]);
    let before = folder.contents("log");
    let all = folder.names(".");
    for verb in NEED {
        let refused = folder.run(verb, b"x\n");
        let said = refused.refused(7);
        assert!(said.contains("next: give the key with --key-file"), "{verb}: {said}");
        assert_eq!((folder.contents("log"), folder.names(".")), (before.clone(), all.clone()));
    }
    for verb in NEED.iter().chain(&ACCEPT) {
        for key in ["other.key", "none.key", "short.key", "long.key"] {
            let refused = folder.run(&format!("{verb} --key-file {key}"), b"x\n");
            let said = refused.refused(7);
            assert!(said.contains("another key") == (key == "other.key"), "{verb} {key}: {said}");
            assert_eq!((folder.contents("log"), folder.names(".")), (before.clone(), all.clone()));
        }
    }
}

#[test]
fn checks_without_the_key_say_that_the_log_is_encrypted() {
    let folder = encrypted("keys-checked");
    let row = "1 of 1 segment   checked, but not decrypted: that needs --key-file";
    for verb in ["verify log", "stat log"] {
        let said = folder.run(verb, b"");
        assert!(said.fine().text().contains(row), "{verb}: {said:?}");
        let said = folder.run(&format!("{verb} {KEY}"), b"");
        assert!(said.fine().text().contains("1 of 1 segment   decrypted"), "{verb}: {said:?}");
        for (key, decrypted) in [("", false), (KEY, true)] {
            let told = folder.run(&format!("{verb} --json {key}"), b"").fine().json().remove(0);
            assert_eq!(told["encrypted_segments"], 1);
            assert_eq!(told["decrypted"], decrypted);
            assert_eq!((&told["verdict"], &told["records"]), (&"clean".into(), &2.into()));
        }
    }
    let told = folder.run("stat log --json", b"").fine().json().remove(0);
    assert_eq!((&told["oldest_lsn"], told["payload_bytes"].is_null()), (&1.into(), true));
    assert_eq!((&told["encrypts"], told["size_max"].is_null()), (&true.into(), true));
    let told = folder.run(&format!("stat log --json {KEY}"), b"").fine().json().remove(0);
    assert_eq!((&told["payload_bytes"], &told["size_max"]), (&30.into(), &16.into()));
    let verbose = folder.run("verify log -v", b"");
    assert!(verbose.fine().text().contains("clean") && verbose.err.contains("encrypted"));
    folder.run("append plain", b"x\n").fine();
    let told = folder.run("verify plain --json", b"").fine().json().remove(0);
    assert_eq!((&told["encrypted_segments"], told["decrypted"].is_null()), (&0.into(), true));
    let stat = folder.run("stat plain", b"");
    assert!(!stat.fine().text().contains("encrypted"), "{stat:?}");
    let refused = folder.run(&format!("verify plain --json {KEY}"), b"");
    assert_eq!(refused.code, 7, "{refused:?}");
    let told = refused.json().remove(0);
    assert_eq!((&told["verdict"], &told["exit"]), (&"key".into(), &7.into()));
}

#[test]
fn replica_repairs_an_encrypted_log_without_the_key() {
    let folder = encrypted("keys-replica");
    folder.run("copy log copy", b"").fine();
    // Damage the last non-zero byte of the last batch.
    let told = folder.run("verify log --json", b"").fine().json().remove(0);
    let end = usize::try_from(told["tail"]["offset"].as_u64().unwrap()).unwrap();
    let segment = "log/000000000001.seg";
    let at = folder.read(segment)[..end].iter().rposition(|byte| *byte != 0).unwrap();
    folder.overwrite(segment, at, &[0]);
    assert_eq!(folder.run("verify log", b"").code, 5);
    folder.run("repair log --from-replica copy --yes", b"").fine();
    assert_eq!(text(&folder, "log", "log.key").as_bytes(), RECORDS);
}

#[test]
fn existing_log_is_encrypted_from_the_next_segment_on() {
    let folder = Folder::new("keys-later");
    folder.run("keygen log.key", b"").fine();
    folder.run("append log", b"plain\n").fine();
    let before = folder.contents("log");
    let refused = folder.run(&format!("append log {KEY}"), b"x\n");
    assert!(refused.refused(7).contains("the log is not encrypted"), "{refused:?}");
    for usage in ["--encrypt", "--pad block --key-file log.key", "--pad block --encrypt"] {
        assert_eq!(folder.run(&format!("append log {usage}"), b"x\n").code, 2, "{usage}");
    }
    let wrong = folder.run(&format!("append log --encrypt --pad 9 {KEY}"), b"x\n");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    folder.run(&format!("append new --encrypt --log-format json {KEY}"), b"1\n").refused(2);
    assert_eq!(folder.contents("log"), before);
    folder.run(&format!("append log --encrypt --pad 8KiB {KEY}"), b"secret\n").fine();
    // Encrypting again keeps the padding.
    folder.run(&format!("append log --encrypt {KEY}"), b"last\n").fine();
    assert_eq!(paddings(&folder), [8192, 8192]);
    assert_eq!(text(&folder, "log", "log.key"), "plain\nsecret\nlast\n");
    let told = folder.run("verify log", b"");
    assert!(told.fine().text().contains("not decrypted"), "{told:?}");
    folder.run(&format!("append log --encrypt --pad off {KEY}"), b"").fine();
    assert_eq!(paddings(&folder), [0, 0]);
    folder.run("cat log", b"").refused(7);
}

/// The padding in both slots of the manifest.
fn paddings(folder: &Folder) -> [u32; 2] {
    let manifest = folder.read("log/manifest");
    let block = u32::from_le_bytes(manifest[20..24].try_into().unwrap());
    [0, usize::try_from(block).unwrap()].map(|slot| {
        let at = slot + 256 + 12;
        u32::from_le_bytes(manifest[at..at + 4].try_into().unwrap())
    })
}

#[test]
fn rekeyed_log_opens_with_the_new_key_only() {
    let folder = encrypted("keys-rekey");
    let stolen = folder.read("log/keys");
    let told = folder.run(&format!("rekey log {KEY} --new-key-file other.key --json"), b"");
    let told = told.fine().json().remove(0);
    assert_eq!((&told["key_changed"], &told["log_key_renewed"]), (&true.into(), &true.into()));
    folder.run(&format!("cat log {KEY}"), b"").refused(7);
    assert_eq!(text(&folder, "log", "other.key").as_bytes(), RECORDS);
    folder.run("append log --key-file other.key", b"after\n").fine();
    // A stolen old `keys` file and the old key do not open later records.
    let keys = folder.read("log/keys");
    folder.write("log/keys", &stolen);
    folder.run(&format!("cat log {KEY}"), b"").refused(7);
    // Also without a key: the numbers of the keys show which records it cannot decrypt.
    let told = folder.run("verify log --json", b"");
    let (code, told) = (told.code, told.json().remove(0));
    let damage = told["damage"].as_array().unwrap();
    assert_eq!((code, &told["verdict"], &told["records"]), (5, &"lost".into(), &2.into()));
    assert_eq!((damage.len(), &damage[0]["cause"]), (1, &"keys".into()), "{damage:?}");
    assert_eq!((&damage[0]["lost_from"], damage[0]["lost_to"].is_null()), (&3.into(), true));
    folder.write("log/keys", &keys);
    folder.run("verify log", b"").fine();
    // Without a new key file, only the log's own key is replaced.
    let renewed = folder.run("rekey log --key-file other.key", b"");
    assert!(renewed.fine().text().contains("new records are encrypted"), "{renewed:?}");
    assert_ne!(folder.read("log/keys"), keys);
    folder.run("append log --key-file other.key", b"last\n").fine();
    let all = [RECORDS, b"after\nlast\n"].concat();
    assert_eq!(text(&folder, "log", "other.key").as_bytes(), all);
    folder.run("append plain", b"x\n").fine();
    let said = folder.run("rekey plain", b"");
    assert!(said.refused(7).contains("cannot decrypt the log: the log is not encrypted\n"));
    folder.run(&format!("rekey plain {KEY}"), b"").refused(7);
}

/// Its own log may be elsewhere, and is unreadable without it.
#[test]
fn moved_file_of_keys_is_named() {
    let folder = encrypted("keys-moved");
    let theirs = folder.read("log/keys");
    folder.run("append plain", b"one\n").fine();
    folder.make_folder("new");
    for log in ["plain", "new"] {
        folder.write(&format!("{log}/keys"), &theirs);
        let ran = folder.run(&format!("append {log} --encrypt {KEY}"), b"secret\n");
        let (_, place) = ran.fine().err.split_once("moved to ").unwrap();
        let place = place.lines().next().unwrap();
        assert!(ran.err.contains("seawall: warning: older keys"), "{ran:?}");
        assert_eq!(folder.read(&format!("{log}/{place}")), theirs, "{log}");
    }
}

#[test]
fn log_in_use_is_not_rekeyed() {
    let folder = encrypted("keys-busy");
    let mut writer = folder.start(&format!("append log --ack {KEY}"));
    let mut input = writer.stdin.take().expect("a pipe");
    let mut acks = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    writeln!(input, "third").expect("the writer reads");
    assert_eq!(acks.next().unwrap().unwrap(), "3");
    let keys = folder.read("log/keys");
    folder.run(&format!("rekey log {KEY} --new-key-file other.key"), b"").refused(6);
    assert_eq!(folder.read("log/keys"), keys);
    drop(input);
    assert!(writer.wait().unwrap().success());
}

#[test]
fn key_comes_from_a_pipe_a_descriptor_or_a_link() {
    let folder = encrypted("keys-sources");
    folder.make_link("log.key", "link.key");
    for line in [
        "seawall cat log -o raw --key-file link.key",
        "seawall cat log -o raw --key-file /dev/fd/7 7<log.key",
        "cat log.key | seawall cat log -o raw --key-file /dev/stdin",
        "mkfifo pipe; cat log.key > pipe & seawall cat log -o raw --key-file pipe",
    ] {
        let read = folder.shell(line, b"");
        assert_eq!(read.fine().out, RECORDS, "{line}");
    }
    // A command opens the log several times, but a pipe delivers the key only once.
    folder.shell("echo x | seawall append log --key-file /dev/fd/7 7<log.key", b"").fine();
    folder.shell("cat log.key | seawall tail log --key-file /dev/stdin", b"").fine();
    folder.shell("cat log.key other.key | seawall cat log --key-file /dev/stdin", b"").refused(7);
    folder.run("cat log --key-file .", b"").refused(7);
}
