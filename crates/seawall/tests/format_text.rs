//! docs/format.md and the code say the same: every byte table, and a test for each row of the
//! recovery table.

use std::collections::{BTreeMap, BTreeSet};

const TEXT: &str = include_str!("../../../docs/format.md");
/// Where the rows of the recovery table have their tests.
const TESTS: [&str; 2] =
    [include_str!("../src/recover/decision.rs"), include_str!("../../seawall-format/src/tail.rs")];

/// The cells of each row of each named table, without the head.
fn tables() -> BTreeMap<&'static str, Vec<Vec<&'static str>>> {
    let mut found = BTreeMap::new();
    let mut lines = TEXT.lines();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("<!-- table: ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let rows = lines.by_ref().take_while(|line| line.starts_with('|')).skip(2);
        let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect();
        let known = found.insert(name, rows.map(cells).collect());
        assert!(known.is_none(), "the table {name} stands in format.md twice");
    }
    found
}

/// Offset, size and name of each field, as format.md has them.
type Fields = Vec<(String, String, String)>;

fn fields_of_text(rows: &[Vec<&str>]) -> Fields {
    let field = |row: &Vec<&str>| match row.as_slice() {
        [offset, size, name, _value] => {
            ((*offset).to_owned(), (*size).to_owned(), (*name).to_owned())
        }
        other => panic!("a row of four cells: {other:?}"),
    };
    rows.iter().map(field).collect()
}

fn fields_of_code(table: seawall_format::Table) -> Fields {
    let size = |size: usize| if size == 0 { "n".to_owned() } else { size.to_string() };
    let field = |field: &seawall_format::Field| {
        (field.at.to_string(), size(field.size), field.name.to_owned())
    };
    table.iter().map(field).collect()
}

#[test]
fn every_byte_table_of_the_text_is_the_one_in_the_code() {
    let text = tables();
    for (name, table) in seawall_format::tables() {
        let rows = text.get(name).unwrap_or_else(|| panic!("format.md has no table {name}"));
        assert_eq!(fields_of_text(rows), fields_of_code(table), "table {name}");
    }
}

#[test]
fn no_byte_table_stands_in_one_of_them_alone() {
    let code = seawall_format::tables();
    let mut names: BTreeSet<_> = code.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), code.len());
    assert!(names.insert("recovery"), "which is no byte table");
    let text: BTreeSet<_> = tables().into_keys().collect();
    assert_eq!(text, names);
}

#[test]
fn every_row_of_the_recovery_table_has_a_test_with_its_name() {
    let text = tables();
    let tests: Vec<&str> = TESTS.iter().flat_map(|file| test_names(file)).collect();
    for row in text.get("recovery").unwrap() {
        let name = row.first().unwrap().replace('-', "_");
        assert!(tests.iter().any(|test| test.contains(&name)), "no test is named after {name}");
    }
}

fn test_names(file: &str) -> impl Iterator<Item = &str> {
    let tests = file.split("#[test]").skip(1);
    tests.filter_map(|test| test.split_once("fn ")?.1.split_once('(').map(|(name, _)| name))
}
