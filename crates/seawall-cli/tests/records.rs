//! Appending and printing records: any bytes, every format, and pipes that close.

use crate::tool;

use std::io::{BufRead, BufReader, Read};
use tool::Folder;

/// Records with every byte, and the cases that are easily lost: empty records, newlines, zeros.
fn any_bytes() -> Vec<Vec<u8>> {
    let all: Vec<u8> = (0..=255).collect();
    vec![all, vec![], b"\n".to_vec(), vec![0; 9], b"last".to_vec(), vec![0xfe; 100_000]]
}

fn counted(records: &[Vec<u8>]) -> Vec<u8> {
    let length = |record: &[u8]| u32::try_from(record.len()).expect("short").to_le_bytes();
    records.iter().flat_map(|record| [&length(record), record.as_slice()].concat()).collect()
}

#[test]
fn length_prefixed_records_are_read_back_byte_for_byte() {
    let folder = Folder::new("len32");
    let stream = counted(&any_bytes());
    let ran = folder.run("append log --format len32 --ack", &stream);
    assert_eq!(ran.fine().text(), "1\n2\n3\n4\n5\n6\n");
    assert_eq!(folder.run("cat log -o len32", b"").fine().out, stream);
    let copied = folder.shell("seawall cat log -o len32 | seawall append copy --format len32", b"");
    copied.fine();
    assert_eq!(folder.run("cat copy -o len32", b"").fine().out, stream);
}

#[test]
fn lines_are_any_bytes_and_the_last_needs_no_newline() {
    let folder = Folder::new("lines");
    folder.run("append log", b"one\n\n\xff\0\r\nlast").fine();
    assert_eq!(folder.run("cat log -o raw", b"").fine().out, b"one\n\n\xff\0\r\nlast\n");
    let shown = folder.run("cat log", b"");
    assert_eq!(shown.fine().text(), "1\tone\n2\t\n3\t0xff000d\n4\tlast\n");
    let json = folder.run("cat log --json", b"").json();
    assert_eq!(json[2]["data"]["base64"], "/wAN");
    assert_eq!((&json[0]["lsn"], &json[0]["data"]), (&1.into(), &"one".into()));
    assert!(json[0]["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn empty_input_creates_an_empty_log() {
    let folder = Folder::new("none");
    for format in ["lines", "json", "len32", "raw"] {
        let ran = folder.run(&format!("append {format} --format {format} --ack --json"), b"");
        assert_eq!(ran.fine().json()[0]["records"], 0);
        assert_eq!(folder.run(&format!("cat {format}"), b"").fine().text(), "");
        assert_eq!(folder.run(&format!("stat {format} --json"), b"").json()[0]["records"], 0);
    }
}

#[test]
fn raw_input_becomes_one_record() {
    let folder = Folder::new("raw");
    folder.run("append log --format raw", b"a\nb\n").fine();
    assert_eq!(folder.run("cat log -o len32", b"").fine().out, b"\x04\0\0\0a\nb\n");
}

#[test]
fn json_keeps_values_and_field_order() {
    let folder = Folder::new("json");
    let lines = "{\"z\":1,\"a\":[null,true,-7,1.25e-7,\"x\\ny\"]}\n18446744073709551615\n\"s\"\n{}";
    folder.run("append log --format json", lines.as_bytes()).fine();
    let expected = lines.lines().zip(1..).map(|(line, lsn)| format!("{lsn}\t{line}"));
    let shown = folder.run("cat log", b"");
    assert!(shown.fine().text().lines().eq(expected), "{shown:?}");
    let shown = folder.shell("seawall cat log --json | grep -c '\"data\":{\"z\":1,\"a\":'", b"");
    assert_eq!(shown.text(), "1\n");
    assert_eq!(folder.run("stat log --json", b"").json()[0]["codec"], "msgpack");
}

#[test]
fn refused_lines_are_named_and_the_others_appended() {
    let folder = Folder::new("refused");
    let lines = b"1\n\nnonsense\n{\"a\":1,\"a\":2}\n99999999999999999999\n2\n";
    let ran = folder.run("append log --format json --ack", lines);
    let said = ran.refused(1);
    for line in 2..=5 {
        assert!(said.contains(&format!("line {line} refused")), "{said}");
    }
    assert_eq!(ran.text(), "1\n2\n");
    assert_eq!(folder.run("cat log", b"").fine().text(), "1\t1\n2\t2\n");
    let ran = folder.run("append log --format json", "\n".repeat(30).as_bytes());
    let named = ran.refused(1).lines().filter(|line| line.contains("refused: ")).count();
    assert_eq!((named, ran.err.contains("20 more refused")), (10, true));
}

#[test]
fn oversized_record_is_refused_and_the_others_appended() {
    let folder = Folder::new("large");
    let huge = vec![b'x'; (8 << 20) + 1];
    let input = [b"a\n", huge.as_slice(), b"\nb"].concat();
    let ran = folder.run("append log --ack", &input);
    assert!(ran.refused(1).contains("line 2 refused: too large"), "{ran:?}");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), "a\nb\n");
    let largest = &huge[..(8 << 20) - 56];
    folder.run("append log --format raw", largest).fine();
    let found = folder.run("cat log -o raw --from 3", b"");
    assert!(found.fine().out.strip_suffix(b"\n") == Some(largest));
    folder.run("append log --format raw", &huge).refused(1);
}

#[test]
fn broken_length_prefixed_stream_reports_its_offset() {
    let folder = Folder::new("broken");
    let ran = folder.run("append log --format len32 --ack", b"\x01\0\0\0a\x05\0\0\0bc");
    assert!(ran.refused(1).contains("byte 5"), "{ran:?}");
    assert_eq!(ran.text(), "1\n");
    let ran = folder.run("append log --format len32", b"\0\0\0\0\xff\xff\xff\x7fx");
    let said = ran.refused(1);
    assert!(said.contains("byte 4") && said.contains("largest record"), "{said}");
    assert_eq!(folder.run("cat log -o len32", b"").fine().out, b"\x01\0\0\0a\0\0\0\0");
}

#[test]
fn invalid_message_pack_is_refused() {
    let folder = Folder::new("msgpack");
    let input = counted(&[vec![0x81, 0xa1, b'a', 1], vec![0xc1], vec![7]]);
    let ran = folder.run("append log --codec msgpack --format len32 --ack", &input);
    assert!(ran.refused(1).contains("record 2 refused"), "{ran:?}");
    assert_eq!(folder.run("cat log", b"").fine().text(), "1\t{\"a\":1}\n2\t7\n");
    folder.run("append log", b"text\n").fine();
    assert_eq!(folder.run("cat log --from 3", b"").fine().text(), "3\t\"text\"\n");
}

/// A timestamp, the only extension that `MessagePack` defines itself, and one of each length.
#[test]
fn message_pack_extensions_are_appended_and_shown() {
    let folder = Folder::new("extensions");
    let stamp = [&[0x81, 0xa1, b't', 0xd6, 0xff][..], &[0x65, 0, 0, 0]].concat();
    let of = |length: usize| {
        [&[0xc8][..], &[0, u8::try_from(length).unwrap(), 7], &vec![1; length]].concat()
    };
    let records = [stamp, of(0), of(3), of(200), vec![0x92, 0xd4, 5, 9, 1]];
    folder.run("append log --codec msgpack --format len32", &counted(&records)).fine();
    let ran = folder.run("cat log -o len32", b"");
    assert_eq!(ran.fine().out, counted(&records));
    let ran = folder.run("cat log -n 1", b"");
    let shown = "1\t{\"t\":{\"extension\":-1,\"bytes\":{\"base64\":\"ZQAAAA==\"}}}\n";
    assert_eq!((ran.fine().text(), ran.err.as_str()), (shown, ""));
    folder.run("convert log file --to msgpack", b"").fine();
    folder.run("convert file back --to seawall", b"").fine();
    assert_eq!(folder.run("cat back -o len32", b"").fine().out, counted(&records));
}

#[test]
fn acknowledgements_and_summary_are_json_on_request() {
    let folder = Folder::new("summary");
    let ran = folder.run("append log --ack --json", b"a\nbc\n");
    let lines = ran.fine().json();
    assert_eq!((&lines[0]["lsn"], &lines[1]["lsn"]), (&1.into(), &2.into()));
    assert_eq!(lines[2]["schema"], "seawall.append/1");
    assert_eq!((&lines[2]["records"], &lines[2]["bytes"]), (&2.into(), &3.into()));
    assert_eq!(lines[2]["failovers"], 0);
    assert_eq!((&lines[2]["first_lsn"], &lines[2]["last_lsn"]), (&1.into(), &2.into()));
    let ran = folder.run("append log --level buffered --ack", b"c\nd\n");
    assert_eq!(ran.fine().text(), "3\n4\n");
}

#[test]
fn ranges_are_inclusive() {
    let folder = Folder::new("ranges");
    folder.run("append log", b"1\n2\n3\n4\n5\n").fine();
    let cat = |options: &str| {
        folder.run(&format!("cat log -o raw {options}"), b"").fine().text().replace('\n', "")
    };
    assert_eq!(cat("--from 2 --to 4"), "234");
    assert_eq!(cat("--from 4"), "45");
    assert_eq!(cat("--to 1"), "1");
    assert_eq!(cat("-n 2"), "12");
    assert_eq!(cat("--from 3 -n 1"), "3");
    assert_eq!(cat("--from 9"), "");
    assert_eq!(cat("-n 0"), "");
}

#[test]
fn closed_pipe_ends_cat_silently() {
    let folder = Folder::new("closed-cat");
    let lines: Vec<u8> = (0..100_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    folder.run("append log -q", &lines).fine();
    let mut cat = folder.start("cat log");
    let mut line = String::new();
    BufReader::new(cat.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut said = String::new();
    cat.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((line.as_str(), said.as_str()), ("1\t0\n", ""));
    assert_eq!(cat.wait().unwrap().code(), Some(0));
}

#[test]
fn help_shows_examples_for_every_verb() {
    let folder = Folder::new("help");
    for verb in
        ["append", "cat", "tail", "truncate", "explain", "verify", "stat", "bench append", "demo"]
    {
        let ran = folder.run(&format!("{verb} --help"), b"");
        let text = ran.fine().text();
        assert!(text.matches("\n  seawall ").count() + text.matches("chrt").count() >= 2, "{text}");
        assert!(text.contains("Examples:"), "{text}");
    }
}

#[test]
fn json_log_keeps_the_text_of_every_value() {
    let folder = Folder::new("json-codec");
    let lines =
        "{ \"z\": 1, \"a\": [1.10, 1E400, 123456789012345678901234567890] }\n\"s\"\n\nnull\n[1\n";
    let ran = folder.run("append log --format json --codec json --ack", lines.as_bytes());
    let said = ran.refused(1);
    assert!(said.contains("line 3 refused") && said.contains("line 5 refused"), "{said}");
    assert_eq!(ran.text(), "1\n2\n3\n");
    let first = "{\"z\":1,\"a\":[1.10,1E400,123456789012345678901234567890]}";
    let expected = format!("1\t{first}\n2\t\"s\"\n3\tnull\n");
    assert_eq!(folder.run("cat log", b"").fine().text(), expected);
    let shown = folder.run("cat log -n 1 --json", b"");
    assert!(shown.fine().text().ends_with(&format!("\"data\":{first}}}\n")), "{shown:?}");
    assert_eq!(folder.run("cat log -o raw", b"").fine().text(), format!("{first}\n\"s\"\nnull\n"));
    assert_eq!(folder.run("stat log --json", b"").json()[0]["codec"], "json");
}

#[test]
fn json_log_accepts_json_in_every_input_format() {
    let folder = Folder::new("json-formats");
    let ran = folder.run("append log --codec json --ack", b"a \"line\"\n\n\xff\n");
    assert!(ran.refused(1).contains("line 3 refused: not UTF-8"), "{ran:?}");
    folder.run("append log --format json", b"{\"a\" : 1}\n").fine();
    let input = counted(&[b"[ 1 ]".to_vec(), b"[".to_vec()]);
    let ran = folder.run("append log --format len32", &input);
    assert!(ran.refused(1).contains("record 2 refused"), "{ran:?}");
    folder.run("append log --format raw", b" {\n}\n").fine();
    let shown = folder.run("cat log", b"");
    assert_eq!(
        shown.fine().text(),
        "1\t\"a \\\"line\\\"\"\n2\t\"\"\n3\t{\"a\":1}\n4\t[1]\n5\t{}\n"
    );
    folder.run("append log --codec msgpack", b"x\n").refused(2);
    folder.run("append raw --codec raw", b"x\n").fine();
    assert!(folder.run("append raw --format json", b"1\n").refused(2).contains("codec raw"));
}

#[test]
fn log_of_a_later_schema_can_be_appended_to_and_truncated() {
    use seawall::{Json, Log, Options};
    let folder = Folder::new("schema");
    let options = Options::new().type_name("order").schema(2);
    let log: Log<Vec<u32>, Json> = options.open(folder.path("log")).unwrap();
    log.append(&vec![1]).unwrap();
    log.close().unwrap();
    folder.run("append log --format json", b"[2]\n[3]\n").fine();
    folder.run("truncate log --after 2 --yes", b"").fine();
    let stat = folder.run("stat log --json", b"").json();
    assert_eq!((&stat[0]["type_name"], &stat[0]["record_schema"]), (&"order".into(), &2.into()));
    assert!(folder.run("stat log", b"").fine().text().contains("order, schema 2"));
    let log: Log<Vec<u32>, Json> = options.open(folder.path("log")).unwrap();
    let found: Vec<_> = log.read_from(seawall::Lsn::FIRST).unwrap().map(Result::unwrap).collect();
    assert_eq!(found.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [[1], [2]]);
    let plain = folder.run("append plain", b"x\n");
    plain.fine();
    let stat = folder.run("stat plain --json", b"").json();
    assert_eq!(
        (&stat[0]["type_name"], &stat[0]["record_schema"]),
        (&serde_json::Value::Null, &0.into())
    );
    assert_eq!(stat[0]["format"], "1");
}

#[test]
fn fill_blocks_takes_a_block_for_each_record() {
    let folder = Folder::new("fill-blocks");
    let end = |log: &str| {
        let segment = folder.read(&format!("{log}/000000000001.seg"));
        segment.iter().rposition(|byte| *byte != 0).unwrap()
    };
    for (log, option) in [("plain", ""), ("filled", "--fill-blocks")] {
        for text in [b"one\n", b"two\n"] {
            folder.run(&format!("append {log} {option}"), text).fine();
        }
    }
    let ends = [end("plain"), end("filled")];
    assert_eq!(ends[1] / 4096, ends[0] / 4096 + 1, "{ends:?}");
    let told = folder.run("append new --log-format json --fill-blocks", b"1\n");
    assert!(told.refused(2).contains("omit one of them"), "{}", told.err);
    assert!(!folder.path("new").exists());
    folder.run("append readable --log-format json --format json", b"1\n").fine();
    let told = folder.run("append readable --format json --fill-blocks", b"2\n");
    assert!(told.refused(2).contains("its lines have no padding"), "{}", told.err);
}

#[test]
fn sync_every_excludes_a_level_and_acknowledges_all() {
    let folder = Folder::new("sync-every");
    let ran = folder.run("append log --sync-every 2 --ack", b"one\ntwo\nthree\n");
    assert_eq!(ran.fine().text(), "1\n2\n3\n");
    let told = &folder.run("stat log --json", b"").fine().json()[0];
    assert_eq!((&told["level"], &told["records"]), (&"buffered".into(), &3.into()), "{told}");
    for options in ["--sync-every 0", "--sync-every two", "--sync-every 2 --level synced"] {
        assert_eq!(folder.run(&format!("append log {options}"), b"four\n").code, 2, "{options}");
    }
    assert_eq!(folder.run("cat log", b"").fine().text().lines().count(), 3);
}

/// The reader of the output may end early, as `head` does.
#[test]
fn closed_pipe_does_not_hide_a_reported_loss() {
    let folder = Folder::new("cat-head");
    let lines: Vec<u8> = (1..=20_000).flat_map(|n| format!("{n:050}\n").into_bytes()).collect();
    folder.run("append log -q", &lines).fine();
    folder.flip("log/000000000001.seg", &lines[..50]);
    for options in ["", "--skip-damaged"] {
        let line = format!("{{ seawall cat log {options}; echo exit $? >&2; }} | head -n 1");
        let ran = folder.shell(&line, b"");
        assert!(ran.err.contains("is damaged") && ran.err.contains("exit 5"), "{options}: {ran:?}");
    }
    // The reader ends before the damage.
    folder.run("append other -q", &[lines.clone(), b"last\n".to_vec()].concat()).fine();
    folder.shell("seawall cat other | head -n 1", b"").fine();
}

/// C1 control characters and DEL need no escape in JSON, but a terminal obeys them.
#[test]
fn values_are_printed_without_terminal_escapes() {
    let folder = Folder::new("escapes");
    let value = "{\"a\u{9b}2J\":\"\u{7f}\u{202e}\u{eb}\",\"b\":[\"\u{9b}0m\"]}";
    let shown = "{\"a\\u009b2J\":\"\\u007f\\u202e\u{eb}\",\"b\":[\"\\u009b0m\"]}";
    folder.run("append json --format json --codec json", value.as_bytes()).fine();
    folder.run("append packed --format json", value.as_bytes()).fine();
    folder.run("append readable --format json --log-format json", value.as_bytes()).fine();
    folder.run("append raw", value.as_bytes()).fine();
    for log in ["json", "packed", "readable"] {
        for verb in ["cat", "tail"] {
            let ran = folder.run(&format!("{verb} {log}"), b"");
            assert_eq!(ran.fine().text(), format!("1\t{shown}\n"), "{verb} {log}");
        }
    }
    for log in ["json", "packed", "readable", "raw"] {
        let ran = folder.run(&format!("cat {log} --fields b"), b"");
        assert_eq!(ran.fine().text(), "1\t[\"\\u009b0m\"]\n", "{log}");
        let ran = folder.run(&format!("cat {log} --json"), b"");
        assert!(!ran.fine().text().contains(['\u{9b}', '\u{7f}', '\u{202e}']), "{log}: {ran:?}");
        let data = &ran.json()[0]["data"];
        let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        assert_eq!(text, value, "{log}");
    }
}
