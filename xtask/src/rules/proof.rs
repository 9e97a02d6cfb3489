//! Rules on proofs: the tests and planted bugs that documents name exist, and each planted bug has
//! a complete head.

use super::Breach;
use crate::links::resolve;
use crate::planted::Head;
use crate::source::Source;

const TESTING: &str = "docs/testing.md";
/// The documents whose links name tests and planted bugs.
const PAGES: &[&str] = &[TESTING, "docs/losses.md"];

/// Finds links in these documents whose text is not a test or planted bug of the linked file.
pub(super) fn named(tree: &[Source]) -> Vec<Breach> {
    let mut found = vec![];
    for source in tree.iter().filter(|source| PAGES.contains(&source.path.as_str())) {
        for (line, name, target) in source.lines().flat_map(|(at, text)| named_links(at, text)) {
            let path = resolve(&source.path, target).unwrap_or_default();
            // Another rule checks that the file exists.
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

/// Finds planted bugs whose head lacks a line.
pub(super) fn planted(tree: &[Source]) -> Vec<Breach> {
    let patches = tree.iter().filter(|source| source.extension() == "patch");
    let faults = patches.filter_map(|patch| {
        let why = Head::of(&patch.text).err()?;
        Some((patch.path.clone(), 1, why))
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(proof: &str) -> Vec<Source> {
        vec![
            Source::new(TESTING, proof),
            Source::new("crates/a/tests/b.rs", "#[test]\nfn a_is_b() {}\n"),
            Source::new("proof/say-c.patch", "+c\n"),
        ]
    }

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
            assert_eq!(named(&tree(&format!("A.\n{proof}\n"))).len(), count, "{proof}");
        }
    }

    #[test]
    fn every_page_that_names_bugs_is_checked() {
        for page in PAGES {
            let mut tree = tree("");
            tree.push(Source::new(page, "[`say-d`](../proof/say-c.patch)\n"));
            assert_eq!(named(&tree).first().map(|breach| breach.0.as_str()), Some(*page));
        }
    }

    #[test]
    fn planted_bug_without_a_head_is_found() {
        let patch = |text: &str| planted(&[Source::new("proof/say-c.patch", text)]).len();
        assert_eq!(patch("# breaks: C.\n# caught by: cargo test c\ndiff --git a/c b/c\n"), 0);
        assert_eq!(patch("# caught by: cargo test c\ndiff --git a/c b/c\n"), 1);
    }
}
