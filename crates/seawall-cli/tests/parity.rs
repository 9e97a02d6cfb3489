//! Parity on the command line: the setting of a log, which damage it restores, and `protect`.

use crate::tool;

use seawall::{Log, Options, Raw};
use serde_json::{Value, json};
use tool::{Folder, Ran};

const SEGMENT: &str = "log/000000000001.seg";
const PARITY: &str = "log/000000000001.parity";
const BLOCK: usize = 4096;
/// Where the batches of a segment begin: section 3 of format.md.
const BATCHES: usize = 4 * BLOCK + 65_536;

fn lines() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("record {n:05} is here\n").into_bytes()).collect()
}

/// Writes the records of `lines` to a new log of one segment and closes it.
fn log(name: &str, options: &str) -> Folder {
    let folder = Folder::new(name);
    folder.run(&format!("append log -q {options}"), &lines()).fine();
    folder
}

fn answer(ran: &Ran) -> Value {
    ran.json().remove(0)
}

fn stat(folder: &Folder) -> Value {
    answer(folder.run("stat log --json", b"").fine())
}

fn zeros(folder: &Folder, blocks: &[usize]) {
    for block in blocks {
        folder.overwrite(SEGMENT, BATCHES + block * BLOCK, &[0; BLOCK]);
    }
}

#[test]
fn flipped_bit_is_restored_for_every_reader_with_exit_4() {
    let folder = log("parity-bit", "--parity 16+2");
    folder.run("append log", b"needle\n").fine();
    folder.flip(SEGMENT, b"needle");
    let damaged = folder.read(SEGMENT);
    let found = folder.run("verify log --json", b"");
    let said = answer(&found);
    assert_eq!((found.code, &said["verdict"]), (4, &json!("correctable")));
    assert_eq!((&said["records"], &said["damage"][0]["lost_from"]), (&json!(20_001), &Value::Null));
    let mended = said["mended"].as_array().unwrap();
    assert_eq!(mended.len(), 1);
    assert_eq!(mended[0]["file"], "000000000001.seg");
    assert_eq!(
        (&mended[0]["by"], mended[0]["bytes"].as_u64() > Some(20)),
        (&json!("parity"), true)
    );
    let at = damaged.windows(5).rposition(|bytes| bytes == b"eedle").unwrap() - 1;
    assert_eq!(mended[0]["offset"], at / BLOCK * BLOCK);
    let text = folder.run("verify log", b"");
    let line = format!("byte 0x{at:08x}: bit 4 was flipped, in record 20001");
    assert!(text.text().contains(&line), "{}", text.text());
    assert!(text.text().contains("next: seawall repair log --yes"), "{}", text.text());

    // The plan shows the effect of the repair and gives up no record.
    let plan = folder.run("repair log", b"");
    assert_eq!(plan.code, 4, "{plan:?}");
    assert!(plan.text().contains("ALL RECORDS READABLE"), "{}", plan.text());
    assert!(plan.text().contains("leaves no damage"), "{}", plan.text());
    for part in ["replica", "cut-tail", "skip-damaged"] {
        assert!(!plan.text().contains(part), "{part}: {}", plan.text());
    }

    let ran = folder.run("cat log -o raw", b"");
    assert!(ran.refused(4).contains("1 place is damaged; parity restores the bytes"), "{ran:?}");
    assert!(ran.err.contains("seawall repair log --yes"), "{}", ran.err);
    assert_eq!(ran.out, [lines(), b"needle\n".to_vec()].concat());
    for (verb, all) in [
        ("cat log -o raw --from 20001 --to 20001", true),
        ("tail log -n 1 -o raw", true),
        ("cat log -o raw --skip-damaged -n 1", false),
    ] {
        let ran = folder.run(verb, b"");
        assert_eq!(ran.text(), if all { "needle\n" } else { "record 00000 is here\n" });
        // A reader that stops before the damage does not report it.
        if all {
            ran.refused(4);
        } else {
            ran.fine();
        }
    }
    let told = folder.run("stat log --json", b"");
    assert_eq!((told.code, &answer(&told)["parity_lacking"]), (4, &json!([])));
    assert_eq!(folder.read(SEGMENT), damaged, "a reader changes nothing");

    // Appending continues in another segment and reports the repair.
    let ran = folder.run("append log", b"more\n");
    assert!(ran.fine().err.contains("repaired from parity"), "{ran:?}");
    assert!(folder.read(SEGMENT)[BATCHES..at + 6] == damaged[BATCHES..at + 6]);
    assert_eq!(answer(&folder.run("verify log --json", b""))["records"], 20_002);
}

#[test]
fn two_lost_blocks_of_sixteen_are_rebuilt_and_three_are_named() {
    for (layout, blocks, code) in
        [("16+2", &[3, 9][..], 4), ("16+2", &[3, 4, 9], 5), ("4+3", &[1, 2, 3], 4)]
    {
        let folder = log("parity-blocks", &format!("--parity {layout}"));
        zeros(&folder, blocks);
        let said = folder.run("verify log --json", b"");
        assert_eq!(said.code, code, "{layout} {blocks:?}");
        let mended = if code == 4 { blocks.len() } else { 0 };
        assert_eq!(answer(&said)["mended"].as_array().map(Vec::len), Some(mended));
        let cat = folder.run("cat log -o raw", b"");
        assert_eq!((cat.refused(code).is_empty(), cat.out == lines()), (false, code == 4));
        if code == 4 {
            assert!(folder.run("verify log", b"").text().contains("bytes differed, from 0x000"));
        }
    }
}

/// `copy` copies files unchanged; it must not report records as lost if every reader can restore
/// them.
#[test]
fn copy_of_a_restorable_log_advises_a_repair() {
    let folder = log("parity-copy", "--parity 16+2");
    zeros(&folder, &[3, 9]);
    let ran = folder.run("copy log there", b"");
    let said = ran.refused(4);
    assert!(said.contains("no record is lost") && !said.contains("lost:"), "{said}");
    assert!(said.contains("next: seawall repair log --yes"), "{said}");
    assert!(!folder.path("there").exists());
    assert_eq!(folder.run("repair log --yes", b"").code, 0);
    folder.run("copy log there", b"").fine();
    assert!(folder.run("cat there -o raw", b"").fine().out == lines());

    zeros(&folder, &[3, 4, 9]);
    let said = folder.run("copy log again", b"");
    assert!(said.refused(5).contains("lost: records"), "{said:?}");
}

#[test]
fn invalid_parity_exits_2_and_creates_no_log() {
    let folder = Folder::new("parity-usage");
    for wrong in ["16", "16+0", "2+3", "65+2", "yes", "+", "16-2", ""] {
        let ran = folder.run(&format!("append log --parity={wrong}"), b"x\n");
        assert_eq!(ran.code, 2, "{wrong}");
        assert!(ran.err.contains("e.g. 16+2") && ran.err.contains("; none turns"), "{}", ran.err);
        assert_eq!(folder.run(&format!("protect log --parity={wrong}"), b"").code, 2, "{wrong}");
    }
    assert_eq!(folder.names("."), [""; 0]);
    folder.run("protect log", b"").refused(1);
    folder.make_folder("log");
    folder.run("protect log", b"").refused(8);
}

#[test]
fn parity_setting_is_kept_until_changed() {
    let folder = log("parity-keeps", "");
    let found = stat(&folder);
    assert_eq!((&found["parity"], &found["parity_bytes"]), (&Value::Null, &json!(0)));
    assert!(folder.run("stat log", b"").text().contains("parity       none\n"));
    folder.run("append log --parity 8+2", b"").fine();
    folder.run("append log", b"x\n").fine();
    let found = stat(&folder);
    assert_eq!((&found["parity"], &found["parity_lacking"]), (&json!("8+2"), &json!([])));
    assert_eq!(found["parity_covered"], found["parity_of_bytes"]);
    assert!(found["parity_bytes"].as_u64() > Some(BLOCK as u64), "{found}");
    let line = "parity       8+2   all records have some, in ";
    assert!(folder.run("stat log", b"").text().contains(line));
    folder.run("append log --parity none", b"").fine();
    assert_eq!(stat(&folder)["parity"], Value::Null);
}

#[test]
fn protect_adds_missing_parity_and_a_dry_run_nothing() {
    let folder = log("protect", "");
    let plan = folder.run("protect log --dry-run --json", b"");
    let plan = answer(plan.fine());
    assert_eq!((&plan["schema"], &plan["dry_run"]), (&json!("seawall.protect/1"), &json!(true)));
    assert_eq!((&plan["made"], &plan["covered"]), (&json!([1]), &json!(0)));
    let text = folder.run("protect log --dry-run", b"");
    assert!(text.fine().text().contains("would make 16+2 beside segment 1"), "{}", text.text());
    assert!(text.text().contains("nothing was changed"), "{}", text.text());
    assert!(!folder.names("log").contains(&"000000000001.parity".to_owned()));

    let done = answer(folder.run("protect log --json --progress fd:2", b"").fine());
    assert_eq!((&done["parity"], &done["kept"]), (&json!("16+2"), &Value::Null));
    assert_eq!((&done["made"], &done["lacking"]), (&json!([1]), &json!([])));
    assert_eq!((&done["covered"], &done["covered_before"]), (&done["bytes"], &json!(0)));
    let again = folder.run("protect log", b"");
    assert!(again.fine().text().contains("nothing: all records have parity"), "{again:?}");
    assert!(again.text().contains("append log --parity 16+2 < /dev/null"), "{again:?}");
    zeros(&folder, &[2, 3]);
    let ran = folder.run("cat log -o raw", b"");
    assert_eq!((ran.code, ran.out == lines()), (4, true));
}

/// The damaged bytes contradict their parity. The advice was to remove the parity, which alone has
/// the records.
#[test]
fn protect_refuses_damage_that_parity_restores() {
    let folder = log("protect-restorable", "--parity 16+2");
    folder.flip(SEGMENT, b"record 15000");
    // The parity of records before it is damaged, too: it would be made again from there on.
    let at = folder.read(PARITY).len() / 4;
    folder.overwrite(PARITY, at, &[0xa5; 64]);
    for words in ["protect log", "protect log --dry-run"] {
        let ran = folder.run(words, b"");
        let said = ran.refused(4);
        assert!(said.contains("seawall repair log --yes"), "{said}");
        assert!(!said.contains("remove"), "{said}");
    }
    folder.run("repair log --yes", b"").fine();
    folder.run("protect log", b"").fine();
    assert_eq!(folder.run("cat log -o raw", b"").fine().out, lines());
}

/// Parity computed over damaged records would pass the damage off as sound data.
#[test]
fn protect_refuses_a_damaged_log() {
    let folder = log("protect-damaged", "");
    folder.run("append log", b"needle\n").fine();
    folder.run("append log", b"behind\n").fine();
    let sound = folder.read(SEGMENT);
    folder.flip(SEGMENT, b"needle");
    assert!(folder.run("protect log", b"").refused(5).contains("record 20001"));
    folder.run("protect log --dry-run", b"").refused(5);
    // A damaged batch header: every record is readable, but there is no parity to restore the
    // header.
    let at = sound.windows(6).position(|bytes| bytes == b"needle").unwrap();
    folder.write(SEGMENT, &sound);
    folder.overwrite(SEGMENT, at - 56 + 8, &[0xff]);
    folder.run("protect log", b"").refused(4);
    assert!(!folder.names("log").contains(&"000000000001.parity".to_owned()));
}

/// A text log that was reformatted is sound, but no longer matches its parity.
#[test]
fn protect_gives_advice_for_changed_records() {
    let folder = Folder::new("protect-edited");
    folder.run("append log -q --log-format json --format json --parity 16+2", b"1\n2\n").fine();
    let text = String::from_utf8(folder.read("log/000000000001.jsonl")).unwrap();
    folder.write("log/000000000001.jsonl", text.replace("\"lsn\":2", "\"lsn\": 2").as_bytes());
    folder.run("verify log", b"").fine();
    let said = folder.run("protect log", b"");
    for words in ["build 000000000001.parity: the records contradict", "then remove that file"] {
        assert!(said.refused(1).contains(words), "{said:?}");
    }
    folder.remove("log/000000000001.parity");
    let made = answer(folder.run("protect log --json", b"").fine());
    assert_eq!((&made["made"], &made["covered"]), (&json!([1]), &made["bytes"]));
}

/// After a crash nothing proves that the last records are durable: they may not be on the disk yet.
#[test]
fn protect_reports_what_needs_an_open_first() {
    let folder = log("protect-crashed", "");
    folder.run("append log", b"first\n").fine();
    let log: Log<[u8], Raw> = Options::new().idle_mark(None).open(folder.path("log")).unwrap();
    log.append(b"second").unwrap();
    // As after a power cut: `live` would be from an earlier boot, so it is left out.
    folder.make_folder("crashed");
    for name in folder.names("log").iter().filter(|name| !["live", "lock"].contains(&&***name)) {
        folder.write(&format!("crashed/{name}"), &folder.read(&format!("log/{name}")));
    }
    log.close().unwrap();
    for words in ["protect crashed --dry-run", "protect crashed"] {
        let text = folder.run(words, b"");
        assert!(text.fine().text().contains("16+2 beside segment 1: "), "{}", text.text());
        assert!(text.text().contains("lacking    beside segment 1: nothing says that the last"));
        assert!(text.text().contains("seawall append crashed < /dev/null"), "{}", text.text());
    }
    let made = answer(folder.run("protect crashed --json", b"").fine());
    assert_eq!((&made["made"], &made["lacking"]), (&json!([]), &json!([1])));
    let [bytes, covered, unsure] = ["bytes", "covered", "unsure_bytes"].map(|of| made[of].as_u64());
    assert!(unsure > Some(0) && bytes == covered.zip(unsure).map(|(a, b)| a + b), "{made}");
    let text = folder.run("protect crashed", b"");
    assert!(!text.text().contains("made "), "{}", text.text());
    folder.run("append crashed", b"").fine();
    let made = answer(folder.run("protect crashed --json", b"").fine());
    assert_eq!((&made["covered"], &made["unsure_bytes"]), (&made["bytes"], &json!(0)));
}

#[test]
fn protect_of_a_log_in_use_exits_6() {
    let folder = log("protect-busy", "");
    let mut writer = folder.start("append log --ack -q");
    let mut stdin = writer.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"lone\n").unwrap();
    let mut ack = String::new();
    let mut stdout = std::io::BufReader::new(writer.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut ack).unwrap();
    folder.run("protect log", b"").refused(6);
    folder.run("protect log --dry-run", b"").fine();
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    folder.run("protect log", b"").fine();
}

#[test]
fn open_adds_the_parity_that_a_killed_writer_left_out() {
    let folder = Folder::new("parity-killed");
    let mut writer = folder.start("append log --ack -q --parity 16+2");
    let mut stdin = writer.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"one\ntwo\n").unwrap();
    let mut ack = String::new();
    let mut stdout = std::io::BufReader::new(writer.stdout.take().unwrap());
    for _ in 0..2 {
        std::io::BufRead::read_line(&mut stdout, &mut ack).unwrap();
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    folder.run("append log", b"three\n").fine();
    let found = stat(&folder);
    assert_eq!((&found["parity_lacking"], &found["records"]), (&json!([]), &json!(3)));
}

#[test]
fn damaged_parity_loses_nothing_and_protect_rewrites_it() {
    let folder = log("parity-bad", "--parity 16+2");
    let other = log("parity-bad-other", "--parity 4+1");
    let sound = folder.read(PARITY);
    let garbage: Vec<u8> = (0..sound.len()).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
    let half = sound.len() / 2;
    let half_garbage = [&sound[..half], &garbage[half..]].concat();
    let cut = [vec![], sound[..100].to_vec(), sound[..half].to_vec()];
    let strangers = [&cut[..], &[garbage, half_garbage, other.read(PARITY)]].concat();
    for (number, stranger) in strangers.iter().enumerate() {
        folder.write(PARITY, stranger);
        assert_eq!(folder.run("verify log", b"").fine().code, 0, "{number}");
        let found = stat(&folder);
        assert_eq!(found["parity_lacking"], json!([1]), "{number}: {found}");
        let text = folder.run("stat log", b"");
        assert!(text.text().contains("next: seawall protect log"), "{number}: {text:?}");
        let done = answer(folder.run("protect log --json", b"").fine());
        assert_eq!((&done["made"], &done["lacking"]), (&json!([1]), &json!([])), "{number}");
        let damaged = folder.read(SEGMENT);
        zeros(&folder, &[4, 5]);
        assert_eq!(folder.run("verify log", b"").code, 4, "{number}");
        folder.write(SEGMENT, &damaged);
    }
    // A folder in place of the parity file is reported, and the log stays readable.
    folder.remove(PARITY);
    folder.make_folder(PARITY);
    folder.run("verify log", b"").fine();
    assert!(folder.run("protect log", b"").refused(1).contains("000000000001.parity"));
}
