//! docs/format.md agrees with the code: every byte table, and a test for each row of the recovery
//! table.

use std::collections::{BTreeMap, BTreeSet};

const TEXT: &str = include_str!("../../../docs/format.md");
/// The files with the tests of the recovery table's rows.
const TESTS: [&str; 2] = [
    include_str!("../src/recover/decision/tests.rs"),
    include_str!("../../seawall-format/src/tail.rs"),
];

/// The tables of dumps, which a test of another package compares.
const DUMP_TABLES: [&str; 3] = ["dump header", "dump chunk", "dump end"];

/// The rows of each named table: a code block of `TEXT` whose fence has the word `text` and the
/// name.
fn tables() -> BTreeMap<&'static str, Vec<Vec<&'static str>>> {
    let mut found = BTreeMap::new();
    let mut lines = TEXT.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```text ") else { continue };
        let head = lines.next().unwrap_or_default();
        let table = rows(head, lines.by_ref().take_while(|line| *line != "```"));
        let known = found.insert(name, table);
        assert!(known.is_none(), "the table {name} is in format.md twice");
    }
    found
}

/// The cells of each row. A column begins where its word in the head begins. A line with only a
/// last cell continues the row above: it is the rest of a value, which is not compared.
fn rows(head: &str, lines: impl Iterator<Item = &'static str>) -> Vec<Vec<&'static str>> {
    let starts: Vec<usize> = head.split_whitespace().filter_map(|word| head.find(word)).collect();
    let cells = |line: &'static str| -> Vec<&'static str> {
        let ends = starts.iter().skip(1).copied().chain([line.len()]);
        let cell = |(from, to): (&usize, usize)| line.get(*from..to.min(line.len()));
        starts.iter().zip(ends).map(|range| cell(range).unwrap_or_default().trim()).collect()
    };
    let is_row = |cells: &Vec<&str>| cells.iter().rev().skip(1).any(|cell| !cell.is_empty());
    let rows: Vec<_> = lines.map(cells).filter(is_row).collect();
    assert!(rows.iter().all(|row| row.first() != Some(&"")), "a row without a first cell: {head}");
    rows
}

/// Offset, size and name of each field, as in format.md.
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
fn every_byte_table_in_format_md_matches_the_code() {
    let text = tables();
    for (name, table) in seawall_format::tables() {
        let rows = text.get(name).unwrap_or_else(|| panic!("format.md has no table {name}"));
        assert_eq!(fields_of_text(rows), fields_of_code(table), "table {name}");
    }
}

#[test]
fn no_byte_table_is_missing_in_code_or_format_md() {
    let code = seawall_format::tables();
    let mut names: BTreeSet<_> = code.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), code.len());
    assert!(names.insert("recovery"), "which is no byte table");
    for name in DUMP_TABLES {
        assert!(names.insert(name), "of no file of a log");
    }
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
