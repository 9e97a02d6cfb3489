//! Commands around a log: the doctor, completions, manual pages, colour, progress, verbose notes.

use crate::tool;

use seawall_measure::tour::stations;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use tool::{Folder, Ran, skipped};

/// A directory in memory, if this system has one.
fn in_memory() -> Option<&'static str> {
    let place = "/dev/shm";
    let ran = Folder::new("tools-probe").run(&format!("doctor {place} --json"), b"");
    let found = Path::new(place).is_dir() && ran.text().contains("tmpfs");
    if !found {
        skipped(&format!("{place} is not in memory here"));
    }
    found.then_some(place)
}

fn records(count: u32) -> Vec<u8> {
    (1..=count).flat_map(|n| format!("{n} {}\n", "x".repeat(1000)).into_bytes()).collect()
}

#[test]
fn doctor_reports_a_file_system_in_memory() {
    let Some(place) = in_memory() else { return };
    let folder = Folder::new("doctor-memory");
    let ran = folder.run(&format!("doctor {place}"), b"");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(
        ran.text().contains("broken   file system") && ran.text().contains("next: "),
        "{ran:?}"
    );
    let ran = folder.run(&format!("doctor {place} --json"), b"");
    let found = &ran.json()[0];
    assert_eq!((ran.code, &found["schema"]), (10, &"seawall.doctor/1".into()));
    assert_eq!((&found["state"], &found["exit"]), (&"broken".into(), &10.into()));
    let check = &found["checks"][1];
    assert_eq!((&check["name"], &check["state"]), (&"file-system".into(), &"broken".into()));
    let ran = folder.run("explain 10", b"");
    assert!(ran.fine().text().contains("doctor"), "{ran:?}");
}

#[test]
fn doctor_leaves_no_files_and_fits_in_80_columns() {
    let folder = Folder::new("doctor-here");
    folder.make_folder("place");
    let ran = folder.run("doctor place", b"");
    assert!([0, 10].contains(&ran.code), "{ran:?}");
    assert!(ran.text().lines().count() > 8, "{ran:?}");
    for line in ran.text().lines().filter(|line| line.contains(", ")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_eq!(folder.names("place"), [""; 0]);
    folder.run("doctor nowhere", b"").refused(1);
    folder.write("file", b"");
    folder.run("doctor file", b"").refused(1);
}

#[test]
fn doctor_exits_1_where_no_log_can_be_created() {
    let place = Path::new("/proc");
    if !place.join("self").exists() {
        skipped("there is no /proc here");
        return;
    }
    let folder = Folder::new("doctor-nowhere");
    let ran = folder.run("doctor /proc --json", b"");
    assert_eq!((ran.code, &ran.json()[0]["state"]), (1, &"unusable".into()), "{ran:?}");
    let ran = folder.run("doctor /proc", b"");
    assert!(ran.code == 1 && ran.text().contains("NO LOG CAN BE WRITTEN HERE"), "{ran:?}");
}

#[test]
fn doctor_warns_of_limits() {
    let folder = Folder::new("doctor-limits");
    let ran = folder.shell("ulimit -n 40; ulimit -f 100; seawall doctor . --json", b"");
    let checks = ran.json()[0]["checks"].clone();
    for name in ["open-files", "file-size"] {
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == name).unwrap();
        assert_eq!(check["state"], "warning", "{check}");
        assert!(check["next"].as_str().unwrap().contains("ulimit"), "{check}");
    }
}

#[test]
fn completions_are_valid_shell_scripts() {
    let folder = Folder::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = folder.run(&format!("completions {shell}"), b"");
        let script = ran.fine().text();
        for word in ["skip-damaged", "doctor", "salvage-to"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("demo-writer"), "{shell}: hidden");
        folder.write(shell, script.as_bytes());
    }
    for shell in ["bash", "zsh", "fish"] {
        let read = Command::new(shell).arg("-n").arg(folder.path(shell)).output();
        match read {
            Ok(read) => assert!(read.status.success() && read.stderr.is_empty(), "{read:?}"),
            Err(_) => skipped(&format!("there is no {shell} here")),
        }
    }
    assert_eq!(folder.run("completions", b"").code, 2);
    assert_eq!(folder.run("completions dos", b"").code, 2);
}

/// Runs `man` on a page, if it is installed; returns its warnings and its output.
fn shown_by_man(page: &Path) -> Option<(String, String)> {
    let man = Command::new("man")
        .args(["--warnings", "-P", "cat", "-l"])
        .arg(page)
        .env("MANWIDTH", "80")
        .env("LC_ALL", "C.UTF-8")
        .output();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let shown = man.ok().filter(|man| man.status.success() && man.stdout.len() > 400);
    // Ignore other messages of `man`, which depend on the system.
    let warnings = |text: String| text.lines().filter(|line| line.contains("warning")).collect();
    shown.map(|man| (warnings(text(man.stderr)), text(man.stdout)))
}

#[test]
fn every_verb_has_a_readable_manual_page() {
    let folder = Folder::new("man");
    folder.make_folder("pages");
    folder.run("man --dir pages", b"").fine();
    let names = folder.names("pages");
    for verb in
        ["", "-append", "-cat", "-verify", "-bench-append", "-doctor", "-disk-serve", "-man"]
    {
        assert!(names.contains(&format!("seawall{verb}.1")), "{verb}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("demo-writer")));
    assert!(names.len() >= 17, "{names:?}");
    let main = folder.run("man", b"");
    assert!(main.fine().text().contains(".TH seawall 1"), "{main:?}");
    assert_eq!(main.out, folder.read("pages/seawall.1"));
    for name in &names {
        let Some((warnings, shown)) = shown_by_man(&folder.path(&format!("pages/{name}"))) else {
            skipped(&format!("no man here that shows {name}"));
            continue;
        };
        assert_eq!(warnings, "", "{name}");
        assert!(shown.contains("SYNOPSIS") && shown.contains("DESCRIPTION"), "{name}: {shown}");
    }
    // Lists stay lists, and options that take a value show it.
    let (_, codes) = main.text().split_once("Exit codes:\n").expect("exit codes");
    let codes: Vec<&str> = codes.lines().take_while(|line| !line.starts_with('.')).collect();
    // man joins lines that begin at the margin.
    let is_kept = |line: &&str| line.is_empty() || line.starts_with(' ');
    assert!(codes.len() > 10 && codes.iter().all(is_kept), "{codes:?}");
    let cat = String::from_utf8(folder.read("pages/seawall-cat.1")).expect("text");
    let synopsis = cat.split(".SH").find(|part| part.starts_with(" SYNOPSIS")).expect("a synopsis");
    assert!(synopsis.contains("LSN") && synopsis.contains("COUNT"), "{synopsis}");
    // Existing pages are replaced, but a missing directory is not created.
    folder.run("man --dir pages", b"").fine();
    folder.run("man --dir nowhere", b"").refused(1);
}

#[test]
fn colour_is_optional_and_does_not_change_the_words() {
    let folder = Folder::new("colour");
    folder.run("append log", b"one\nneedle\n").fine();
    let is_coloured = |ran: &Ran| ran.text().contains('\u{1b}');
    let plain = folder.run("verify log --color never", b"");
    assert!(!is_coloured(&plain) && plain.text().contains("   clean"));
    assert!(!is_coloured(&folder.run("verify log", b"")), "a pipe is no terminal");
    let painted = folder.run("--color always verify log", b"");
    assert!(painted.text().contains("\u{1b}[32mclean"), "{painted:?}");
    let with = |variables: &str, options: &str| {
        let line = format!("{variables} seawall verify log {options}");
        folder.shell(&format!("export {}; {}", variables, &line[variables.len()..]), b"")
    };
    assert!(is_coloured(&with("CLICOLOR_FORCE=1", "")));
    assert!(!is_coloured(&with("CLICOLOR_FORCE=1", "--color never")));
    assert!(!is_coloured(&with("CLICOLOR_FORCE=1 NO_COLOR=1", "")));
    assert!(is_coloured(&with("NO_COLOR=1", "--color always")));
    folder.flip("log/000000000001.seg", b"needle");
    for verb in ["verify", "repair"] {
        let ran = folder.run(&format!("{verb} log --color always"), b"");
        assert!(ran.text().contains("\u{1b}[31mDAMAGED, RECORDS LOST"), "{ran:?}");
    }
    let usage = folder.run("verify --color always --nonsense", b"");
    assert!(usage.code == 2 && usage.err.contains('\u{1b}'), "{usage:?}");
    let usage = folder.shell("CLICOLOR_FORCE=1 seawall verify --color never --nonsense", b"");
    assert!(usage.code == 2 && !usage.err.contains('\u{1b}'), "{usage:?}");
    let data = folder.run("cat log --color always --skip-damaged", b"");
    assert_eq!(data.text(), "1\tone\n", "records are never coloured");
}

#[test]
fn progress_is_reported_to_programs() {
    let folder = Folder::new("progress");
    folder.run("append log -q", &records(20_000)).fine();
    folder.run("convert log log.cwal --to cwal -q", b"").fine();
    for line in [
        "seawall verify log --progress fd:7 -q",
        "seawall copy log copy --progress=fd:7 -q",
        "seawall repair log --salvage-to saved --progress fd:7 -q",
        "seawall cat log --progress fd:7 > catted",
        "seawall convert log.cwal new --from cwal --to seawall --progress fd:7 -q",
    ] {
        let ran = folder.shell(&format!("{line} 7> heard"), b"");
        assert_eq!(ran.fine().text(), "", "{line}");
        let heard = String::from_utf8(folder.read("heard")).unwrap();
        let mut done = 0;
        assert!(heard.lines().count() >= 1, "{line}");
        for at in heard.lines() {
            let at: Value = serde_json::from_str(at).expect("JSON");
            assert_eq!(at["unit"], "bytes");
            assert!(at["done"].as_u64().unwrap() >= done, "{heard}");
            done = at["done"].as_u64().unwrap();
            assert!(at["total"].as_u64().is_none_or(|total| done <= total), "{heard}");
        }
        if line.contains("verify") || line.contains("copy") || line.contains("repair") {
            let last: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
            assert_eq!(last["done"], last["total"], "{line}");
        }
    }
    let ran = folder.shell("seawall verify log --progress fd:7", b"");
    assert!(ran.refused(2).contains("descriptor 7"), "{ran:?}");
    assert_eq!(folder.run("verify log --progress loud", b"").code, 2);
    // The reader of the progress is gone: the command continues.
    let ran =
        folder.shell("{ seawall verify log --progress fd:7 -q; echo $? >&2; } 7>&1 | true", b"");
    assert_eq!(ran.err, "0\n");
}

#[test]
fn verbose_notes_go_to_standard_error() {
    let folder = Folder::new("notes");
    folder.run("append log", b"x\n").fine();
    let ran = folder.run("cat log -v -n 1", b"");
    assert_eq!(ran.fine().text(), "1\tx\n");
    let notes: Vec<&str> = ran.err.lines().collect();
    assert!(notes[0].contains("log=log") && notes[0].contains("count=1"), "{ran:?}");
    assert!(notes[1].ends_with("/log: codec raw"), "{ran:?}");
    assert!(notes[2].starts_with("seawall: exit 0 after "), "{ran:?}");
    assert_eq!(folder.run("cat log -v -q", b"").code, 2);
    let ran = folder.run("cat nowhere -v", b"");
    assert!(ran.refused(1).ends_with('\n') && ran.err.contains("exit 1 after"), "{ran:?}");
}

#[test]
fn stat_shows_record_sizes() {
    let folder = Folder::new("sizes");
    let lines = format!("{}{}\n", "0123456789\n".repeat(99), "x".repeat(5000));
    folder.run("append log", lines.as_bytes()).fine();
    let ran = folder.run("stat log --json", b"");
    let found = &ran.fine().json()[0];
    for (field, size) in [("size_p50", 10), ("size_p99", 10), ("size_max", 5000)] {
        assert_eq!(found[field], size, "{field}");
    }
    let sizes = found["sizes"].as_array().unwrap();
    assert_eq!(sizes[0], json!({"from": 8, "to": 15, "count": 99}));
    assert_eq!(sizes[9], json!({"from": 4096, "to": 8191, "count": 1}));
    let counted: u64 = sizes.iter().map(|group| group["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, found["records"].as_u64().unwrap());
    let text = folder.run("stat log", b"").fine().text().to_owned();
    assert!(text.contains("p50 10 bytes   p99 10 bytes   max 4.9 KiB   \u{2588}"), "{text}");
    assert!(text.contains("format 1"), "{text}");
    folder.run("append empty", b"").fine();
    let found = &folder.run("stat empty --json", b"").fine().json()[0];
    assert_eq!((&found["size_p50"], &found["sizes"]), (&Value::Null, &json!([])));
    assert!(!folder.run("stat empty", b"").fine().text().contains("record size"));
}

#[test]
fn closed_pipe_ends_every_verb_silently() {
    let folder = Folder::new("pipes");
    folder.run("append log -q", &records(5000)).fine();
    for line in ["cat log", "cat log --fields a", "man", "completions bash", "doctor", "stat log"] {
        let shell = format!("{{ seawall {line}; echo $? > code; }} | head -n 1 > first");
        let ran = folder.shell(&shell, b"");
        let warned = ran.err.lines().all(|line| line.contains("not JSON"));
        assert!(warned, "{line}: {ran:?}");
        let code = String::from_utf8(folder.read("code")).unwrap();
        assert!(["0\n", "10\n"].contains(&code.as_str()), "{line}: {code}");
    }
}

#[test]
fn stat_shows_the_newest_checkpoint() {
    use seawall::{Log, Lsn, Raw};
    let folder = Folder::new("stat-checkpoint");
    folder.run("append log -q", b"a\nb\nc\n").fine();
    assert!(folder.run("stat log --json", b"").fine().json()[0]["checkpoint_lsn"].is_null());
    let log: Log<[u8], Raw> = Log::open(folder.path("log")).unwrap();
    log.checkpoint(Lsn::new(2).unwrap()).unwrap();
    log.close().unwrap();
    assert_eq!(folder.run("stat log --json", b"").fine().json()[0]["checkpoint_lsn"], 2);
    assert!(folder.run("stat log", b"").fine().text().contains("checkpoint   LSN 2"));
}

/// The result of one `probe`, shared by the tests of its JSON output.
struct Probed {
    ran: Ran,
    /// The files left in the measured directory.
    left: Vec<String>,
    /// The progress of the streams.
    heard: String,
}

fn probed() -> &'static Probed {
    static PROBED: OnceLock<Probed> = OnceLock::new();
    PROBED.get_or_init(|| {
        let folder = Folder::new("probe-here");
        folder.make_folder("place");
        let line = "seawall probe place --time 0.1 --json --progress fd:7 7> heard";
        let ran = folder.shell(line, b"");
        assert!([0, 10].contains(&ran.code) && ran.err.is_empty(), "{ran:?}");
        let heard = String::from_utf8(folder.read("heard")).expect("text");
        Probed { ran, left: folder.names("place"), heard }
    })
}

#[test]
fn probe_measures_every_method_and_leaves_no_files() {
    let Probed { ran, left, .. } = probed();
    let found = &ran.json()[0];
    assert_eq!((&found["schema"], &found["exit"]), (&"seawall.probe/1".into(), &ran.code.into()));
    let contests = found["contests"].as_array().unwrap();
    let names: Vec<_> = contests.iter().map(|contest| contest["name"].as_str().unwrap()).collect();
    let expected = ["ways", "files", "sizes", "threads", "processors"];
    // With only one processor there is nothing to compare.
    let count = if stations().is_empty() { 4 } else { 5 };
    assert_eq!(names, expected[..count]);
    for contest in contests {
        assert!(contest["rounds"].as_u64() >= Some(12), "{contest}");
        let rows = contest["rows"].as_array().unwrap();
        assert!(rows.len() >= 2 && rows[0]["verdict"] == "first", "{contest}");
        for row in rows {
            let number = |name: &str| row[name].as_f64().unwrap();
            let (lowest, highest) = (number("per_s_lowest"), number("per_s_highest"));
            assert!(0.0 < lowest && lowest <= number("per_s") && number("per_s") <= highest);
            assert!(number("p50_us") <= number("p99_us"), "{row}");
        }
    }
    assert_eq!(*left, [""; 0]);
}

#[test]
fn probe_measures_streams_to_every_kind_of_file() {
    let Probed { ran, heard, .. } = probed();
    let streams = &ran.json()[0]["streams"];
    if streams.is_null() {
        skipped("there are no direct writes here");
        return;
    }
    assert!(streams["rounds"].as_u64() >= Some(12), "{streams}");
    assert!(streams.get("noise").is_some() && streams.get("others_share").is_some(), "{streams}");
    let atomic = &streams["atomic_write_bytes_max"];
    assert!(atomic.is_null() || atomic.is_u64(), "{streams}");
    let rows = streams["rows"].as_array().unwrap();
    let way = |row: &Value| json!([row["blocks"], row["in_flight"], row["write_bytes"]]);
    let mut expected = vec![json!(["written", 1, 1 << 20])];
    for blocks in ["growing", "allocated", "written"] {
        expected.extend([1, 2, 4].map(|in_flight| json!([blocks, in_flight, 256 << 10])));
    }
    assert_eq!(rows.iter().map(way).collect::<Vec<_>>(), expected);
    for row in rows {
        for (median, quartiles) in
            [("mb_per_s", "mb_per_s_quartiles"), ("ratio", "ratio_quartiles")]
        {
            let [low, high] = [0, 1].map(|end| row[quartiles][end].as_f64().unwrap());
            let median = row[median].as_f64().unwrap();
            assert!(0.0 < low && low <= median && median <= high, "{row}");
        }
        assert!(row["p50_us"].as_f64() <= row["p99_us"].as_f64(), "{row}");
    }
    let last: Value = serde_json::from_str(heard.lines().last().unwrap()).unwrap();
    assert_eq!((&last["unit"], &last["total"]), (&"rounds".into(), &streams["rounds"]));
}

#[test]
fn probe_reports_a_refused_file_and_leaves_none() {
    let folder = Folder::new("probe-refused");
    // The limit allows the files of the other measurements, but not those of the streams.
    let ran = folder.shell("ulimit -f 40000; seawall probe --time 0.1", b"");
    assert!(ran.refused(1).contains("give a directory with 300 MiB"), "{ran:?}");
    let is_last = ran.text().contains("every thread in its file");
    assert!(is_last && !ran.text().contains("1 MiB in flight"), "{ran:?}");
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
#[cfg(target_os = "linux")]
fn probe_without_threads_exits_1_before_it_measures() {
    let folder = Folder::new("probe-threads");
    // The stacks of its threads are larger than the memory that the limit leaves.
    let line = "ulimit -v 3000000; export RUST_MIN_STACK=268435456; seawall probe --time 0.1";
    let ran = folder.shell(line, b"");
    assert!(ran.refused(1).contains("cannot start 16 threads"), "{ran:?}");
    assert_eq!(folder.names("."), [""; 0]);
}

#[test]
fn probe_labels_its_advice_and_reports_failures() {
    let folder = Folder::new("probe-text");
    let ran = folder.run("probe --time 0.1", b"");
    for part in [
        "file system",
        "direct",
        "growing",
        "1 MiB",
        "16 threads",
        "a stream of",
        "cache",
        "not ranked",
    ] {
        let is_there = ran.text().contains(part);
        // This row is missing if the file system has no direct writes.
        assert!(is_there || part == "direct", "{part}: {ran:?}");
    }
    for line in ran.text().lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    folder.run("probe nowhere", b"").refused(1);
    assert_eq!(folder.run("probe --time 0", b"").code, 2);
}

#[test]
fn probe_of_a_file_system_in_memory_exits_10() {
    let folder = Folder::new("probe-memory");
    let Some(place) = in_memory() else { return };
    let ran = folder.run(&format!("probe {place} --time 0.1"), b"");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.text().contains("broken   file system"), "{ran:?}");
}

/// The output of a command on a terminal of `columns` columns, if `script` is installed to emulate
/// one.
fn on_a_terminal(folder: &Folder, columns: u32, command: &str) -> Option<String> {
    let line = format!(
        "COLUMNS={columns} script -qec \"'{}' {command}\" /dev/null < /dev/null",
        crate::PROGRAM
    );
    let ran = folder.shell(&line, b"");
    let shown = anstream::adapter::strip_str(ran.text()).to_string().replace('\r', "");
    if ran.code == 127 || shown.is_empty() {
        skipped("there is no script here");
        return None;
    }
    Some(shown)
}

#[test]
fn tables_fit_the_terminal_width() {
    let folder = Folder::new("width");
    folder.run("append log", b"one\nneedle\ntwo\n").fine();
    folder.flip("log/000000000001.seg", b"needle");
    for verb in ["verify", "stat"] {
        let plain = folder.run(&format!("{verb} log"), b"");
        assert!(plain.text().lines().any(|line| line.len() > 50), "{plain:?}");
        let Some(shown) = on_a_terminal(&folder, 50, &format!("{verb} log")) else { return };
        assert!(shown.lines().count() > plain.text().lines().count(), "{shown}");
        let is_command = |line: &str| line.contains("seawall ");
        let fits = |line: &str| line.chars().count() <= 50 || is_command(line);
        assert!(shown.lines().all(fits), "{shown}");
    }
}

#[test]
fn version_is_printed_by_every_option() {
    let folder = Folder::new("version");
    let version = env!("CARGO_PKG_VERSION");
    for line in ["version", "--version", "-V", "cat -V", "bench append --version"] {
        let ran = folder.run(line, b"");
        assert!(ran.fine().text().trim_end().ends_with(version), "{line}: {ran:?}");
    }
    for line in ["explain nonsense", "disk config"] {
        let ran = folder.run(line, b"");
        let said = format!("{}{}", ran.text(), ran.err);
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{line}: {said}");
    }
}
