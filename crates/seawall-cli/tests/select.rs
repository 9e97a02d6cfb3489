//! `--where` and `--fields` as a process: only matching records and named fields are printed.

use crate::tool;

use tool::Folder;

const ORDERS: &[u8] = b"\
{\"order\":{\"id\":1,\"items\":[\"tea\"]},\"total\":10,\"who\":\"Ann\"}
{\"order\":{\"id\":2,\"items\":[\"rum\"]},\"total\":20.5,\"who\":\"Bob\"}
{\"order\":{\"id\":3},\"total\":\"20.5\",\"who\":\"Ann\\tB\"}
{\"total\":40,\"who\":\"Ann\"}
";

/// The same records as `MessagePack`, as lines of text, and as JSON in both layouts.
fn logs(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.run("append packed --format json", ORDERS).fine();
    folder.run("append text", ORDERS).fine();
    folder.run("append json --format json --codec json", ORDERS).fine();
    folder.run("append readable --format json --log-format json", ORDERS).fine();
    folder
}

/// The LSNs of the records that a command prints.
#[track_caller]
fn numbers(folder: &Folder, line: &str) -> String {
    let ran = folder.shell(line, b"");
    let number = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    ran.fine().text().lines().map(number).collect::<Vec<_>>().join(" ")
}

#[test]
fn matching_records_are_printed_with_every_codec() {
    let folder = logs("where");
    for (conditions, expected) in [
        ("--where order.id=2", "2"),
        ("--where who=Ann", "1 4"),
        ("--where who=Ann --where 'total>=40'", "4"),
        ("--where 'total<=20.50'", "1 2"),
        ("--where 'total=\"20.5\"'", "3"),
        ("--where 'order.id!=2'", "1 3"),
        ("--where order.items.0=rum", "2"),
        ("--where 'total>10' -n 1", "2"),
        ("--where 'total>10' --from 3", "4"),
        ("--where no=1", ""),
    ] {
        for log in ["packed", "text", "json", "readable"] {
            let line = format!("seawall cat {log} {conditions}");
            assert_eq!(numbers(&folder, &line), expected, "{line}");
        }
    }
}

#[test]
fn tail_counts_matching_records() {
    let folder = logs("where-tail");
    for (options, expected) in [
        ("-n 1 --where who=Ann", "4"),
        ("-n 2 --where who=Ann", "1 4"),
        ("-n 5 --where who=Ann", "1 4"),
        ("-n 1 --where order.id=1", "1"),
        ("-n 0 --where who=Ann", ""),
        ("--where 'total<30'", "1 2"),
    ] {
        let line = format!("seawall tail packed {options}");
        assert_eq!(numbers(&folder, &line), expected, "{line}");
    }
    // The cursor file advances past records that do not match.
    let line = "seawall tail packed --where order.id=1 --cursor-file at; cat at";
    assert_eq!(numbers(&folder, line), "1 5");
}

#[test]
fn damage_is_reported_among_matching_records() {
    let folder = Folder::new("where-damage");
    for id in [1, 2, 1, 2] {
        let line = format!("{{\"id\":{id},\"text\":\"needle{id}\"}}\n");
        folder.run("append log", line.as_bytes()).fine();
    }
    folder.flip("log/000000000001.seg", b"needle2");
    let ran = folder.run("cat log --where id=1", b"");
    ran.refused(5);
    assert_eq!(ran.text().lines().count(), 1);
    let ran = folder.run("cat log --where id=1 --skip-damaged", b"");
    ran.refused(5);
    assert_eq!(ran.text().lines().count(), 2);
    folder.run("tail log --where id=1 -n 1", b"").fine();
    folder.run("tail log --where id=1 -n 2", b"").refused(5);
    folder.run("tail log --where id=2 -n 1", b"").fine();
    // The unreadable record may be the second match from the end.
    folder.run("tail log --where id=2 -n 2", b"").refused(5);
}

#[test]
fn fields_are_columns_or_an_object() {
    let folder = logs("fields");
    let ran = folder.run("cat packed --fields who,order.id,order.items", b"");
    let expected = "1\tAnn\t1\t[\"tea\"]\n2\tBob\t2\t[\"rum\"]\n3\tAnn\\tB\t3\t\n4\tAnn\t\t\n";
    assert_eq!(ran.fine().text(), expected);
    let json = folder.run("cat text --fields order.id,who -o json -n 1", b"").fine().json();
    assert_eq!(json[0]["data"].to_string(), r#"{"order":{"id":1},"who":"Ann"}"#);
    assert_eq!((&json[0]["lsn"], json[0]["time"].is_string()), (&1.into(), true));
    for shape in ["raw", "hex", "len32"] {
        folder.run(&format!("cat packed --fields who -o {shape}"), b"").refused(2);
    }
    let whole = folder.run("cat text --where order.id=2 -o raw", b"");
    assert_eq!(
        whole.fine().out,
        ORDERS.split(|byte| *byte == b'\n').nth(1).map(|line| [line, b"\n"].concat()).unwrap()
    );
}

#[test]
fn record_without_json_matches_nothing_and_is_reported() {
    let folder = Folder::new("where-plain");
    folder.run("append log", b"plain\n{\"a\":1}\n{\"a\":1\n7\n").fine();
    let ran = folder.run("cat log --where a=1", b"");
    assert_eq!(ran.fine().text(), "2\t{\"a\":1}\n");
    assert!(ran.err.contains("2 records that are not JSON do not match"), "{ran:?}");
    let ran = folder.run("cat log --fields a", b"");
    assert_eq!(ran.fine().text(), "1\t\n2\t1\n3\t\n4\t\n");
    assert!(ran.err.contains("2 records that are not JSON have no fields"), "{ran:?}");
}

#[test]
fn invalid_expression_exits_2_and_names_its_column() {
    let folder = logs("where-wrong");
    for (expression, column) in [("id", 3), ("=1", 1), ("a..b=1", 3), ("a==1", 3), ("a<null", 3)] {
        for verb in ["cat", "tail"] {
            let ran = folder.shell(&format!("seawall {verb} packed --where '{expression}'"), b"");
            assert!(ran.code == 2 && ran.text().is_empty(), "{ran:?}");
            assert!(ran.err.contains(&format!("column {column}: ")), "{expression}: {ran:?}");
        }
    }
    assert_eq!(folder.run("cat packed --fields a..b", b"").code, 2);
    assert_eq!(folder.run("cat packed --where", b"").code, 2);
}

#[test]
fn comma_inside_quotes_is_part_of_a_name() {
    let folder = Folder::new("fields-commas");
    folder.run("append log --format json", br#"{"a,b":1,"c":{"d\",e":2},"f":3}"#).fine();
    for (fields, expected) in [
        (r#"'"a,b"'"#, "1"),
        (r#"'"a,b",f'"#, "1\t3"),
        (r#"'f,c."d\",e"' --fields '"a,b"'"#, "3\t2\t1"),
        (r#"'"f","c"'"#, "3\t{\"d\\\",e\":2}"),
    ] {
        let ran = folder.shell(&format!("seawall cat log --fields {fields}"), b"");
        assert_eq!(ran.fine().text(), format!("1\t{expected}\n"), "{fields}");
    }
    for wrong in ["''", "'f,'", r#"'"f'"#, r#"'"a,b'"#] {
        assert_eq!(
            folder.shell(&format!("seawall cat log --fields {wrong}"), b"").code,
            2,
            "{wrong}"
        );
    }
}
