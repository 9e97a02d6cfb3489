//! Rules on the proofs: the tests and planted bugs that documents name exist, and each planted bug
//! has its row.

use super::Breach;
use crate::links::resolve;
use crate::source::Source;

const TABLE: &str = "proof/README.md";
const PROOF: &str = "docs/PROOF.md";
/// The documents whose links name tests and planted bugs.
const PAGES: &[&str] = &[PROOF, "docs/losses.md"];

/// Finds links of these documents whose text names no test or planted bug of the file they lead to.
pub(super) fn named(tree: &[Source]) -> Vec<Breach> {
    let mut found = vec![];
    for source in tree.iter().filter(|source| PAGES.contains(&source.path.as_str())) {
        for (line, name, target) in source.lines().flat_map(|(at, text)| named_links(at, text)) {
            let path = resolve(&source.path, target).unwrap_or_default();
            // That the file is there is another rule's business.
            let file = tree.iter().find(|source| source.path == path);
            if let Some(why) = file.and_then(|file| amiss(file, name)) {
                found.push((source.path.clone(), line, format!("`{name}`: {why}")));
            }
        }
    }
    found
}

/// Line, code and target of each link whose text is code.
fn named_links(line: usize, text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.split("[`").skip(1).filter_map(move |rest| {
        let (name, rest) = rest.split_once("`](")?;
        Some((line, name, rest.split(')').next()?))
    })
}

fn amiss(file: &Source, name: &str) -> Option<String> {
    let is_there = match file.extension() {
        "rs" => file.text.contains(&format!("fn {name}(")),
        "patch" => file.path == format!("proof/{name}.patch"),
        _ => return None,
    };
    (!is_there).then(|| format!("{} has no such test or bug", file.path))
}

/// Finds planted bugs without a row in the table of proof/README.md, with two, and rows without a
/// patch.
pub(super) fn planted(tree: &[Source]) -> Vec<Breach> {
    let Some(table) = tree.iter().find(|source| source.path == TABLE) else { return vec![] };
    let rows: Vec<(usize, &str)> = table.lines().filter_map(row).collect();
    let mut found = vec![];
    for (line, name) in &rows {
        let path = format!("proof/{name}.patch");
        if !tree.iter().any(|source| source.path == path) {
            found.push((TABLE.to_owned(), *line, format!("there is no {path}")));
        }
        if rows.iter().any(|(other, same)| same == name && other < line) {
            found.push((TABLE.to_owned(), *line, format!("`{name}` has a row above")));
        }
    }
    for patch in tree.iter().filter(|source| source.extension() == "patch") {
        let name = patch.path.strip_prefix("proof/").and_then(|path| path.strip_suffix(".patch"));
        if !rows.iter().any(|(_, row)| Some(*row) == name) {
            found.push((patch.path.clone(), 1, format!("give it a row in {TABLE}")));
        }
    }
    found
}

fn row((line, text): (usize, &str)) -> Option<(usize, &str)> {
    text.strip_prefix("| `").and_then(|rest| rest.split('`').next()).map(|name| (line, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(proof: &str, table: &str) -> Vec<Source> {
        vec![
            Source::new(PROOF, proof),
            Source::new(TABLE, table),
            Source::new("crates/a/tests/b.rs", "#[test]\nfn a_is_b() {}\n"),
            Source::new("proof/say-c.patch", "+c\n"),
        ]
    }

    const ROW: &str = "| `say-c` | c | `cargo test` |\n";

    #[test]
    fn a_test_or_bug_that_is_named_and_not_there_is_found() {
        let test = "../crates/a/tests/b.rs";
        for (proof, count) in [
            (format!("[`a_is_b`]({test})"), 0),
            (format!("[`a_is`]({test}), [`a_is_b`]({test})"), 1),
            ("[`say-c`](../proof/say-c.patch) [b](../crates/a/tests/b.rs)".to_owned(), 0),
            ("[`say-d`](../proof/say-c.patch)".to_owned(), 1),
            ("[`cargo xtask prove`](../proof/README.md)".to_owned(), 0),
        ] {
            assert_eq!(named(&tree(&format!("A.\n{proof}\n"), ROW)).len(), count, "{proof}");
        }
    }

    #[test]
    fn every_page_that_names_bugs_is_checked() {
        for page in PAGES {
            let mut tree = tree("", ROW);
            tree.push(Source::new(page, "[`say-d`](../proof/say-c.patch)\n"));
            assert_eq!(named(&tree).first().map(|breach| breach.0.as_str()), Some(*page));
        }
    }

    #[test]
    fn every_planted_bug_has_one_row() {
        for (table, count) in [
            (ROW.to_owned(), 0),
            (String::new(), 1),
            (ROW.repeat(2), 1),
            (ROW.replace('c', "d"), 2),
        ] {
            assert_eq!(planted(&tree("", &table)).len(), count, "{table}");
        }
    }
}
