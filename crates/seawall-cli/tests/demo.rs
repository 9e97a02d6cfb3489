//! `seawall demo`: it exits with 0 only if every promise held.

use crate::tool;

use tool::{Folder, skipped};

/// A directory that is in memory on most systems.
const MEMORY: &str = "/dev/shm";

fn has_memory_beside_a_disk(folder: &Folder) -> bool {
    let doctor = |place| folder.run(&format!("doctor {place}"), b"").code;
    let has = doctor(MEMORY) == 10 && doctor(".") != 10;
    if !has {
        skipped(&format!("this needs {MEMORY} in memory, and a disk here"));
    }
    has
}

#[test]
fn fast_demo_keeps_every_guarantee_and_cleans_up() {
    let folder = Folder::new("demo");
    let ran = folder.run("demo --fast --seed 7 --dir . --color always", b"");
    assert_eq!(ran.fine().text().matches("\u{1b}[32mok").count(), 6, "{ran:?}");
    let text = anstream::adapter::strip_str(ran.text()).to_string();
    assert!(text.contains("0 lost") && !text.contains("BROKEN"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn demo_json_equals_its_text_and_keep_leaves_the_logs() {
    let folder = Folder::new("demo-json");
    // As on systems where /tmp is in memory: the demo takes the current directory, which is on a
    // disk.
    let (memory, place) = if has_memory_beside_a_disk(&folder) {
        (format!("TMPDIR={MEMORY}"), "")
    } else {
        (String::new(), "--dir .")
    };
    let line = format!("{memory} seawall demo --fast --seed 7 {place} --keep --report told --json");
    let ran = folder.shell(&line, b"");
    let found = &ran.fine().json()[0];
    assert!(memory.is_empty() || found["in_memory"] == false, "{ran:?}");
    check_report(&folder, found);
    assert_eq!((&found["schema"], &found["kills"]), (&"seawall.demo/1".into(), &20.into()));
    assert_eq!((&found["lost"], &found["found"]), (&0.into(), &found["acknowledged"]));
    let rescue = &found["rescue"];
    assert!(rescue["all_others"] == true && rescue["lost_records"].as_u64() > Some(1), "{rescue}");
    let parity = &found["parity"];
    let both = parity["bit_corrected"] == true && parity["block_corrected"] == true;
    assert!(both && parity["records"].as_u64() > Some(1), "{parity}");
    let kept = folder.names(".").remove(0);
    assert!(kept.starts_with("seawall-demo-"), "{kept}");
    assert_eq!(folder.run(&format!("verify {kept}/parity.wal"), b"").code, 4);
    folder.run(&format!("verify {kept}/rescued.wal"), b"").fine();
    folder.run(&format!("verify {kept}/earthquakes.wal"), b"").fine();
    assert_eq!(folder.run(&format!("verify {kept}/damaged.wal"), b"").code, 5);
}

/// Checks that the report is a page without scripts and has the same figures as `said`.
fn check_report(folder: &Folder, said: &serde_json::Value) {
    assert_eq!(folder.names("told"), ["demo.json", "report.html"]);
    let kept: serde_json::Value =
        serde_json::from_slice(&folder.read("told/demo.json")).expect("JSON");
    assert_eq!(&kept, said);
    let page = String::from_utf8(folder.read("told/report.html")).expect("text");
    let lost = format!("{:>9} lost", 0);
    assert!(page.contains(&lost) && page.contains("--seed 7"), "{page}");
    assert!(!page.contains("<script") && !page.contains('@') && !page.contains("http"), "{page}");
    // An existing report is never overwritten, and is found before the work begins.
    folder.run("demo --fast --report told", b"").refused(9);
    folder.run("demo --fast --report no/where", b"").refused(1);
}

#[test]
fn demo_without_a_usable_directory_exits_1() {
    Folder::new("demo-nowhere").run("demo --fast --dir nowhere", b"").refused(1);
}

#[test]
fn demo_does_not_measure_a_file_system_in_memory() {
    let folder = Folder::new("demo-memory");
    if !has_memory_beside_a_disk(&folder) {
        return;
    }
    // In memory, the report omits the speed.
    let ran = folder.run(&format!("demo --dir {MEMORY} --report told"), b"");
    let found: serde_json::Value = serde_json::from_slice(&folder.read("told/demo.json")).unwrap();
    assert_eq!((&found["in_memory"], &found["speed"]), (&true.into(), &serde_json::Value::Null));
    let note = "this is memory, not a disk: the speed means nothing";
    assert!(ran.fine().text().contains(note), "{ran:?}");
    assert!(!ran.text().contains("syncs a second"), "{ran:?}");
    let bench = format!("bench append --dir {MEMORY} --writers 1 --time 0.1");
    let ran = folder.run(&bench, b"");
    assert!(ran.fine().err.contains(note), "{ran:?}");
}

#[test]
fn writer_of_the_demo_needs_no_thread() {
    let folder = Folder::new("demo-threads");
    let writer = "RUST_MIN_STACK=1152921504606846976 seawall demo-writer log 0";
    let ran = folder.shell(&format!("{{ {writer}; echo $? > code; }} | head -n 3"), b"");
    assert_eq!(ran.fine().text().lines().count(), 3, "{ran:?}");
    assert_eq!(folder.read("code"), b"0\n", "{ran:?}");
}
