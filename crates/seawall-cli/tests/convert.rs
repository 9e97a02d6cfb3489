//! `seawall convert` as a process: conversions are lossless, damaged input gives its intact prefix,
//! and existing files are never changed.

#![expect(clippy::unwrap_used, reason = "a test reports failure by panicking")]

use crate::tool;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use tool::Folder;

const FORMATS: [&str; 5] = ["seawall", "cwal", "cwal-text", "json", "msgpack"];

/// A log of the `CWal` library, in its binary form.
fn cwal(entries: &[&[u8]]) -> Vec<u8> {
    let entry = |data: &&[u8]| {
        let length = u64::try_from(data.len()).unwrap();
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, data);
        let crc = u32::try_from(crc).unwrap();
        [&length.to_le_bytes(), *data, &crc.to_le_bytes()].concat()
    };
    entries.iter().flat_map(entry).collect()
}

/// Runs a conversion and returns its exit code and its JSON output.
fn convert(folder: &Folder, arguments: &str) -> (i32, Value) {
    let ran = folder.run(&format!("convert {arguments} --json"), b"");
    let mut answers = ran.json();
    assert_eq!(answers.len(), 1, "{ran:?}");
    (ran.code, answers.remove(0))
}

/// Whether conversions left no temporary files in the folder.
fn is_tidy(folder: &Folder) -> bool {
    folder.names(".").iter().all(|name| !name.starts_with('.'))
}

#[test]
fn bytes_survive_conversion_to_every_format_and_back() {
    let folder = Folder::new("convert-bytes");
    let every_byte: Vec<u8> = (0..=255).collect();
    let entries: [&[u8]; 8] =
        [b"text", b"", b"\xff\xfe", &every_byte, b"a\nb", b"{\"a\":1}", &[0; 40], b"end"];
    folder.write("source", &cwal(&entries));
    for format in FORMATS {
        let (code, told) = convert(&folder, &format!("source {format} --from cwal --to {format}"));
        assert_eq!((code, &told["entries"], &told["to"]), (0, &8.into(), &format.into()));
        let codec = if ["json", "msgpack"].contains(&format) { "--codec raw" } else { "" };
        let line = format!("{format} back-{format} --from {format} --to cwal {codec}");
        let (code, told) = convert(&folder, &line);
        assert_eq!((code, &told["entries"]), (0, &8.into()), "{told}");
        assert_eq!(folder.read(&format!("back-{format}")), folder.read("source"), "{format}");
    }
    let text = folder.read("cwal-text");
    assert!(text.starts_with(b"4 text 999008199\n0  0\n2 \xff\xfe "), "{text:?}");
    let shown = String::from_utf8(folder.read("json")).unwrap();
    assert!(shown.starts_with("\"text\"\n\"\"\n{\"base64\":\"//4=\"}\n"), "{shown}");
    assert_eq!(folder.run("cat seawall -o len32", b"").fine().out[..8], *b"\x04\0\0\0text");
    assert!(is_tidy(&folder));
}

#[test]
fn json_values_survive_conversion_to_every_format_and_back() {
    let folder = Folder::new("convert-values");
    let values = "{\"z\":1,\"a\":[null,true,-7,1.25,0.1],\"t\":\"x\\ny\"}\n\
                  18446744073709551615\n-9223372036854775808\n1e-7\n\"text\"\n[]\n{}\n\
                  {\"base64\":\"//4=\"}\n{\"base64\":1}\nnull\n";
    folder.write("source", values.as_bytes());
    for format in FORMATS {
        let codec = if format.starts_with("cwal") { "--codec json" } else { "" };
        let line = format!("source {format} --from json --to {format} {codec}");
        assert_eq!(convert(&folder, &line).1["entries"], 10);
        let line = format!("{format} back-{format} --from {format} --to json {codec}");
        assert_eq!(convert(&folder, &line).0, 0);
        let back = String::from_utf8(folder.read(&format!("back-{format}"))).unwrap();
        assert_eq!(back, values, "{format}");
    }
    folder.run("convert source packed.cwal --to cwal --codec msgpack", b"").fine();
    folder.run("convert packed.cwal packed --to msgpack --codec msgpack", b"").fine();
    assert_eq!(folder.read("packed"), folder.read("msgpack"));
    let shown = folder.run("cat seawall --json", b"");
    assert_eq!(shown.fine().json()[0]["data"]["a"][4], 0.1);
}

#[test]
fn json_values_keep_their_text_in_a_json_log() {
    let folder = Folder::new("convert-text");
    folder.write("source", b"{ \"z\": 1.10,\n\"a\": 123456789012345678901234567890 } [ ]");
    let minified = "{\"z\":1.10,\"a\":123456789012345678901234567890}\n[]\n";
    folder.run("convert source log --to seawall --codec json", b"").fine();
    assert_eq!(folder.run("stat log --json", b"").json()[0]["codec"], "json");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), minified);
    folder.run("convert log again --to seawall", b"").fine();
    folder.run("convert again back --to json", b"").fine();
    assert_eq!(folder.read("back"), minified.as_bytes());
    assert_eq!(convert(&folder, "source log --to seawall --codec json").1["made"], false);
    folder.run("convert log packed --to seawall --codec msgpack", b"").refused(1);
    folder.write("twice", b"{\"a\":1,\"\\u0061\":2}");
    let ran = folder.run("convert twice made --to seawall --codec json", b"");
    assert!(ran.refused(1).contains("comes twice") && !folder.path("made").exists(), "{ran:?}");
}

#[test]
fn conversion_that_would_lose_the_schema_is_refused() {
    use seawall::{Log, Options, Positional};
    let folder = Folder::new("convert-typed");
    let make = |name: &str, schema| {
        let log: Log<(u8, String), Positional> =
            Options::new().schema(schema).open(folder.path(name)).unwrap();
        log.append(&(7, "a".to_owned())).unwrap();
        log.close().unwrap();
    };
    make("plain", 0);
    make("typed", 3);
    for name in ["plain", "typed"] {
        folder.run(&format!("convert {name} {name}.json --to json"), b"").fine();
        assert_eq!(folder.read(&format!("{name}.json")), b"[7,\"a\"]\n");
    }
    folder.run("convert plain made --to seawall", b"").fine();
    assert_eq!(folder.run("stat made --json", b"").json()[0]["codec"], "positional");
    let ran = folder.run("convert typed lost --to seawall", b"");
    assert!(ran.refused(2).contains("seawall copy") && !folder.path("lost").exists(), "{ran:?}");
}

#[test]
fn inexact_conversion_is_refused_and_creates_nothing() {
    let folder = Folder::new("convert-refused");
    folder.write("long", b"1 2\n[18446744073709551616] 4");
    folder.write("digits", b"1\n2\n0.10000000000000000001");
    folder.write("object", b"\"text\" \"text\" {}");
    for (source, target) in [
        ("long", "--to msgpack"),
        ("long", "--to seawall"),
        ("digits", "--to seawall"),
        ("object", "--to cwal --codec raw"),
        ("object", "--to seawall --codec raw"),
    ] {
        let ran = folder.run(&format!("convert {source} made --from json {target}"), b"");
        let told = ran.refused(1);
        let place = format!("{source}, byte {}\n", if source == "object" { 14 } else { 4 });
        assert!(told.contains("entry 3 ") && told.contains(&place), "{told}");
        assert!(!folder.path("made").exists() && is_tidy(&folder), "{:?}", folder.names("."));
    }
    folder.write("large", &cwal(&[b"small", &vec![b'x'; 9 << 20]]));
    let ran = folder.run("convert large made --from cwal --to seawall", b"");
    assert!(ran.refused(1).contains("entry 2 ") && ran.err.contains("large, byte 17"), "{ran:?}");
    assert!(!folder.path("made").exists() && is_tidy(&folder));
    folder.run("convert large made --from cwal --to json", b"").fine();
}

#[test]
fn damaged_source_gives_its_intact_prefix_and_exits_5() {
    let folder = Folder::new("convert-damaged");
    folder.write("json", b"{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
    for format in ["cwal", "cwal-text", "msgpack"] {
        folder.run(&format!("convert json {format} --to {format}"), b"").fine();
    }
    folder.run("convert json two --to json", b"").fine();
    folder.write("two", b"{\"n\":1}\n{\"n\":2}\n");
    for (format, cause) in [
        ("cwal", "checksum"),
        ("cwal-text", "checksum"),
        ("msgpack", "checksum"),
        ("json", "syntax"),
    ] {
        let bytes = folder.read(format);
        let third = bytes.len() / 3 * 2;
        let (changed, torn) = (&mut bytes.clone(), &bytes[..bytes.len() - 3]);
        let at = changed.iter().rposition(|byte| *byte == b'n').unwrap();
        changed[at] = if format == "json" { b'\n' } else { b'm' };
        for (name, content, cause) in
            [("changed", &changed[..], cause), ("torn", torn, "cut-short")]
        {
            folder.write("source", content);
            let codec = if format.starts_with("cwal") { "--codec json" } else { "" };
            let target = format!("made-{name}-{format}");
            let line = format!("source {target} --from {format} --to json {codec}");
            let ran = folder.run(&format!("convert {line}"), b"");
            let told = ran.refused(5);
            assert!(
                told.contains("entry 3 ") && told.contains(&format!("byte {third}\n")),
                "{told}"
            );
            assert_eq!(folder.read(&target), folder.read("two"), "{target}");
            let (code, told) = convert(&folder, &line);
            let expected = json!({ "entry": 3, "offset": third, "segment": null, "cause": cause });
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&told["damage"][name], value, "{format}: {told}");
            }
            assert_eq!((code, &told["entries"], &told["made"]), (5, &2.into(), &false.into()));
            assert_eq!(folder.run(&format!("explain {cause}"), b"").code, 0);
        }
    }
}

#[test]
fn verbs_that_read_name_a_foreign_format_and_how_to_convert_it() {
    let folder = Folder::new("convert-at-sight");
    let values = b"{\"n\":1}\n{\"n\":2}\n";
    folder.run("append log --format json -q", values).fine();
    for (format, expected) in [
        ("cwal", "a file of CWal"),
        ("cwal-text", "a file of CWal in its text form"),
        ("msgpack", "a file of MessagePack records with CRC-32"),
        ("json", "a file of JSON values"),
    ] {
        folder.run(&format!("convert log f.{format} --from seawall --to {format}"), b"").fine();
        for verb in ["cat", "verify", "stat"] {
            let said = folder.run(&format!("{verb} f.{format}"), b"").refused(8).to_owned();
            assert!(said.contains(&format!("not a Seawall log, but {expected}\n")), "{said}");
            let (_, next) = said.split_once("next: ").unwrap();
            assert!(next.contains(&format!("then seawall {verb} f.seawall")), "{said}");
            let line = next.lines().next().and_then(|line| line.split_once(';')).unwrap().0;
            folder.shell(line, b"").fine();
            assert_eq!(folder.run("cat f.seawall -o json", b"").fine().json().len(), 2);
            folder.shell("rm -r f.seawall", b"").fine();
        }
        let told = &folder.run(&format!("verify f.{format} --json"), b"").json()[0];
        assert_eq!((&told["verdict"], &told["exit"]), (&"format".into(), &8.into()), "{told}");
    }
    folder.run("append raw -q", b"one\ntwo\n").fine();
    folder.run("convert raw strings --from seawall --to json", b"").fine();
    let said = folder.run("cat strings", b"").refused(8).to_owned();
    assert!(said.contains("a file of JSON values\n"), "{said}");
    let others = [
        ("text", &b"42 is a number\n"[..]),
        ("table", b"\"name\",\"size\"\n"),
        ("empty", b""),
        ("any", b"\x01x"),
    ];
    for (name, content) in others {
        folder.write(name, content);
        let said = folder.run(&format!("verify {name}"), b"").refused(8).to_owned();
        assert!(said.contains("not a Seawall log: a file; a log is a directory"), "{said}");
    }
}

#[test]
fn damaged_log_gives_the_records_before_the_damage() {
    let folder = Folder::new("convert-damaged-log");
    for record in ["one", "two", "three"] {
        folder.run("append log", record.as_bytes()).fine();
    }
    folder.flip("log/000000000001.seg", b"two");
    let (code, told) = convert(&folder, "log made --from seawall --to json");
    assert_eq!((code, &told["entries"]), (5, &1.into()), "{told}");
    assert_eq!((&told["damage"]["entry"], &told["damage"]["segment"]), (&2.into(), &1.into()));
    assert!(told["damage"]["offset"].as_u64().unwrap() > 0 && told["damage"]["cause"] == "body");
    assert_eq!(folder.read("made"), b"\"one\"\n");
}

#[test]
fn log_in_use_is_a_source_but_not_a_target() {
    let folder = Folder::new("convert-in-use");
    let mut writer = folder.start("append log --ack");
    let mut stdin = writer.stdin.take().unwrap();
    let mut acks = BufReader::new(writer.stdout.take().unwrap());
    for _ in 0..2 {
        stdin.write_all(b"record\n").unwrap();
        acks.read_line(&mut String::new()).unwrap();
    }
    let (code, told) = convert(&folder, "log made --to json");
    assert_eq!((code, &told["entries"], &told["unsure_tail"]), (0, &2.into(), &false.into()));
    folder.write("other", b"1");
    folder.run("convert other log --to seawall", b"").refused(9);
    stdin.write_all(b"record\n").unwrap();
    drop(stdin);
    assert!(writer.wait().unwrap().success());
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "record\n".repeat(3));
}

#[test]
fn stale_live_file_hides_no_record_from_convert() {
    let folder = Folder::new("convert-old-live");
    tool::append_and_leave_an_old_live(&folder, (9, 4));
    let (code, told) = convert(&folder, "log made --to json");
    assert_eq!((code, &told["entries"]), (0, &9.into()), "{told}");
    let lines = (1..=9).fold(String::new(), |lines, n| lines + &format!("\"line {n}\"\n"));
    assert_eq!(String::from_utf8(folder.read("made")).unwrap(), lines);
}

#[test]
fn convert_names_records_given_up_by_a_repair() {
    let folder = Folder::new("convert-given-up");
    for record in ["one", "two", "three", "four"] {
        folder.run("append log", record.as_bytes()).fine();
    }
    folder.flip("log/000000000001.seg", b"two");
    folder.flip("log/000000000001.seg", b"four");
    folder.run("repair log --salvage-to mended", b"");
    let ran = folder.run("convert mended made --to json", b"");
    ran.fine();
    for number in [2, 4] {
        assert!(ran.err.contains(&format!("record {number} given up by a repair")), "{ran:?}");
    }
    assert_eq!(folder.read("made"), b"\"one\"\n\"three\"\n");
    let told = convert(&folder, "mended made --to json").1;
    assert_eq!(told["given_up"], json!([{ "from": 2, "to": 2 }, { "from": 4, "to": 4 }]));
}

/// Such a target may have had other records, or has others LSNs.
#[test]
fn target_with_an_ambiguous_tail_or_records_given_up_is_not_the_same() {
    let folder = Folder::new("convert-target-unsure");
    folder.write("source", &[&[b'"'][..], &[b'x'; 422], b"\""].concat());
    let command = "convert source made --from json --to seawall --codec json";
    folder.run(command, b"").fine();
    assert!(folder.run(command, b"").fine().text().contains("there already"));
    let at = folder.run("verify made --json", b"").json()[0]["tail"]["offset"].as_u64().unwrap();
    folder.overwrite("made/000000000001.seg", usize::try_from(at).unwrap(), &[0xff; 2000]);
    assert_eq!(folder.run("verify made", b"").code, 3);
    let before = folder.contents("made");
    assert!(folder.run(command, b"").refused(3).contains("ambiguous tail"));
    assert_eq!(folder.contents("made"), before);

    folder.run("append log --codec raw --level confirmed", b"one\ntwo\nthree\n").fine();
    for (lost, name) in [(&b"two"[..], "middle"), (b"three", "end")] {
        folder.shell(&format!("cp -r log {name}.wal"), b"").fine();
        folder.flip(&format!("{name}.wal/000000000001.seg"), lost);
        folder.run(&format!("repair {name}.wal --salvage-to {name}"), b"");
        folder.run(&format!("convert {name} {name}.cwal --to cwal"), b"").fine();
        let command = format!("convert {name}.cwal {name} --from cwal --to seawall");
        folder.run(&command, b"").refused(9);
    }
}

#[test]
fn equal_target_exits_0_and_a_different_one_is_unchanged_with_9() {
    let folder = Folder::new("convert-target");
    folder.write("source", &cwal(&[b"one", b"two"]));
    folder.write("shorter", &cwal(&[b"one"]));
    folder.write("other", &cwal(&[b"one", b"TWO"]));
    for format in FORMATS {
        for made in [true, false] {
            let (code, told) = convert(&folder, &format!("source {format} --to {format}"));
            assert_eq!((code, &told["made"]), (0, &made.into()), "{told}");
        }
        let before =
            folder.run(&format!("convert {format} before-{format} --from {format} --to json"), b"");
        assert_eq!(before.code, 0, "{before:?}");
        for source in ["shorter", "other"] {
            folder.run(&format!("convert {source} {format} --to {format}"), b"").refused(9);
        }
        folder.write("longer", &cwal(&[b"one", b"two", b"three"]));
        folder.run(&format!("convert longer {format} --to {format}"), b"").refused(9);
        let (code, told) = convert(&folder, &format!("source {format} --to {format}"));
        assert_eq!((code, &told["made"]), (0, &false.into()));
    }
    folder.make_folder("folder");
    folder.make_link("nowhere", "link");
    for target in ["folder", "link", "seawall"] {
        folder.run(&format!("convert source {target} --to cwal"), b"").refused(9);
    }
    for target in ["folder", "link", "cwal"] {
        folder.run(&format!("convert source {target} --to seawall"), b"").refused(9);
    }
    folder.run("convert source seawall --to seawall --codec msgpack", b"").refused(9);
    assert!(is_tidy(&folder) && folder.names("folder").is_empty());
}

#[test]
fn source_format_is_detected_from_the_first_entry() {
    let folder = Folder::new("convert-auto");
    folder.write("source", &cwal(&[b"one", b"two"]));
    for format in FORMATS {
        folder.run(&format!("convert source {format} --to {format}"), b"").fine();
        let (code, told) = convert(&folder, &format!("{format} again-{format} --to {format}"));
        assert_eq!((code, &told["from"]), (0, &format.into()));
    }
    assert_eq!(folder.read("again-msgpack"), folder.read("msgpack"));
    folder.write("noise", b"\xc1\xc1\xc1\xc1");
    folder.write("empty", b"");
    for source in ["noise", "empty"] {
        folder.run(&format!("convert {source} made --to json"), b"").refused(8);
    }
    folder.run("convert empty made --from cwal --to json", b"").fine();
    assert_eq!(folder.read("made"), b"");
}

#[test]
fn invalid_source_is_reported_and_creates_nothing() {
    let folder = Folder::new("convert-source");
    folder.make_folder("folder");
    folder.write("file", b"1");
    folder.run("convert nowhere made --to json", b"").refused(1);
    folder.run("convert folder made --from cwal --to json", b"").refused(8);
    folder.run("convert folder made --to json", b"").refused(8);
    folder.run("convert file made --from seawall --to json", b"").refused(8);
    for (line, why) in [
        ("convert /dev/null made --to json", "not a regular file"),
        ("convert file .. --to json", "does not end in a UTF-8 file name"),
    ] {
        assert!(folder.run(line, b"").refused(1).contains(why), "{line}");
    }
    let line = "touch .made.$$.new; exec '{}' convert file made --to json";
    let ran = folder.shell(&line.replace("{}", env!("CARGO_BIN_EXE_seawall")), b"");
    assert!(ran.refused(1).contains("an interrupted run left its file"), "{ran:?}");
    for left in folder.names(".").iter().filter(|name| name.starts_with('.')) {
        folder.remove(left);
    }
    let ran = folder.run("convert file no/where --to json", b"");
    assert!(ran.refused(1).contains("no such directory: no\n"), "{ran:?}");
    folder.run("convert file made --to msgpack --codec raw", b"").refused(2);
    assert_eq!(folder.run("convert file made", b"").code, 2);
    assert_eq!(folder.names("."), ["file", "folder"]);
    folder.make_link("file", "link");
    folder.run("convert link made --to json", b"").fine();
    assert_eq!(folder.read("made"), b"1\n");
}

#[test]
fn target_inside_the_source_is_refused_and_nothing_is_created() {
    let folder = Folder::new("convert-inside");
    folder.run("append log", b"one\ntwo\n").fine();
    folder.make_folder("log/inner");
    folder.make_link("log", "link");
    let before = folder.contents("log");
    let to_seawall =
        ["log log/new", "link log/000000000002.seg", "log link/new", "log log/inner/x"];
    for line in to_seawall {
        for to in ["seawall", "cwal", "json"] {
            let ran = folder.run(&format!("convert {line} --to {to}"), b"");
            assert!(ran.refused(2).contains("is inside the log"), "{line} {to}: {ran:?}");
        }
    }
    let ran = folder.run("replay log --into json:link/new", b"");
    assert!(ran.refused(2).contains("is inside the log"), "{ran:?}");
    assert_eq!(folder.contents("log"), before);
    folder.run("convert log log-2 --to seawall", b"").fine();
    folder.run("convert log link-2 --to cwal", b"").fine();
    folder.run("verify log", b"").fine();
}

#[test]
fn json_value_over_the_limit_is_refused_and_is_no_damage() {
    let folder = Folder::new("convert-large");
    let large = [&b"\""[..], &vec![b'a'; 65 << 20], b"\"\n"].concat();
    folder.write("first", &large);
    folder.write("second", &[b"1\n", &large[..]].concat());
    for (source, place) in [("first", "entry 1"), ("second", "entry 2")] {
        for to in ["seawall", "cwal"] {
            let ran = folder.run(&format!("convert {source} made --to {to}"), b"");
            let said = ran.refused(1);
            assert!(said.contains(place) && said.contains("more than 67,108,864 bytes"), "{said}");
        }
    }
    assert_eq!(folder.names("."), ["first", "second"]);
}

#[test]
fn target_that_cannot_be_opened_is_not_called_different() {
    let folder = Folder::new("convert-descriptors");
    folder.write("source", b"1\n2\n");
    folder.run("convert source file --to json", b"").fine();
    folder.run("convert source log --to seawall", b"").fine();
    for (target, to) in [("file", "json"), ("log", "seawall")] {
        let codes = (3..30).map(|limit| {
            let line = format!("convert source {target} --from json --to {to}");
            folder.shell(&format!("ulimit -n {limit}; seawall {line}"), b"").code
        });
        let codes: Vec<i32> = codes.collect();
        assert!(!codes.contains(&9), "{target}: {codes:?}");
        assert!(codes.contains(&1) && codes.last() == Some(&0), "{target}: {codes:?}");
    }
}

#[test]
fn deep_json_stays_json_and_is_refused_as_message_pack() {
    let folder = Folder::new("convert-deep");
    folder.write("deep", &[vec![b'['; 200_000], vec![b']'; 200_000]].concat());
    folder.run("convert deep cwal --to cwal", b"").fine();
    folder.run("convert deep log --to seawall", b"").refused(1);
    folder.run("convert cwal back --to json --codec json", b"").fine();
    assert_eq!(folder.read("back"), [folder.read("deep"), b"\n".to_vec()].concat());
}

#[test]
fn zeros_at_the_end_of_a_cwal_log_are_reported_or_damage() {
    let folder = Folder::new("convert-zeros");
    folder.write("source", &[cwal(&[b"one"]), vec![0; 100]].concat());
    let (code, told) = convert(&folder, "source made --from cwal --to json");
    assert_eq!((code, &told["entries"], &told["damage"]["cause"]), (5, &1.into(), &"zeros".into()));
    folder.write("source", &[cwal(&[b"one"]), vec![0; 24]].concat());
    let (code, told) = convert(&folder, "source could --from cwal --to json");
    assert_eq!((code, &told["entries"], &told["zero_entries_at_end"]), (0, &3.into(), &2.into()));
}

#[test]
fn created_files_are_accessible_only_to_their_owner() {
    let folder = Folder::new("convert-mode");
    folder.write("source", b"1");
    folder
        .shell(
            "umask 000; seawall convert source f --to cwal; seawall convert source d --to seawall",
            b"",
        )
        .fine();
    assert_eq!((folder.mode("f"), folder.mode("d")), (0o600, 0o700));
    folder.run("verify d", b"").fine();
    folder.run("append d --codec msgpack --format json", b"2").fine();
}
