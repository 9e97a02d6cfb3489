//! The rules of tidy.

mod code;
mod crates;
mod docs;
mod layers;
mod proof;
mod text;

use crate::source::Source;

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the root.
    pub(crate) path: String,
    /// The line number, starting at 1.
    pub(crate) line: usize,
    /// The name of the rule.
    pub(crate) rule: &'static str,
    /// How to fix it.
    pub(crate) advice: String,
}

/// A rule of tidy, which finds all its violations in the tree.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The name in findings.
    pub(crate) name: &'static str,
    /// A one-line description.
    pub(crate) about: &'static str,
    look: fn(&[Source]) -> Vec<Breach>,
}

/// Path, line and advice.
type Breach = (String, usize, String);

const fn rule(name: &'static str, about: &'static str, look: fn(&[Source]) -> Vec<Breach>) -> Rule {
    Rule { name, about, look }
}

/// All rules.
pub(crate) const RULES: &[Rule] = &[
    rule(
        "first-line",
        "a Rust file begins with a `//!` line that names its idea",
        text::first_line,
    ),
    rule("ascii", "sources are ASCII", text::ascii),
    rule(
        "white-space",
        "no tab, no trailing white space, one newline at the end",
        text::white_space,
    ),
    rule("columns", "a Rust line has 100 columns at most, URLs aside", text::columns),
    rule("words", "nothing names one machine or how the work was organised", text::words),
    rule(
        "unfinished",
        "no `todo!`, `dbg!`, ignored test or note to fix it later",
        code::unfinished,
    ),
    rule("skipped", "a test reports what it skips where cargo shows it", code::hidden_skips),
    rule("cast", "no `as` to an integer outside of tests", code::casts),
    rule("unwrap", "no `.unwrap()` outside of tests", code::unwrap),
    rule("machine", "files, clocks and sleep belong to seawall-io", code::machine),
    rule(
        "unsafe",
        "`unsafe` only where it is allowed, and under a `// SAFETY:`",
        code::unsafe_code,
    ),
    rule("forbid-unsafe", "the root of every other crate forbids it", crates::forbid_unsafe),
    rule("floor", "a crate depends on lower floors only", crates::floors),
    rule("dependency", "an ADR names every dependency", crates::dependencies),
    rule("test", "each file of tests is part of a program", crates::tests_that_never_run),
    rule("package", "a published crate includes no file from outside its folder", crates::packages),
    rule("layer", "a module imports from lower layers only", layers::upward),
    rule("facade", "inside a crate nothing is imported from its root", layers::facade),
    rule("cycle", "no modules import each other", layers::cycles),
    rule("crowded", "a folder of sources has 15 files at most", layers::crowded),
    rule("long", "a file has 500 lines of code at most", layers::long_files),
    rule("link", "a relative link leads to a file of the tree", docs::links),
    rule("book", "docs/SUMMARY.md lists every page", docs::pages),
    rule("proof", "documents name tests and planted bugs that exist", proof::named),
    rule("planted", "each planted bug has a head: what it breaks, what catches it", proof::planted),
    rule("adr", "ADRs are numbered from 0001 without gaps", docs::adr_numbers),
];

/// Returns all violations of all rules, sorted by place.
pub(crate) fn look(tree: &[Source]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES
        .iter()
        .flat_map(|rule| (rule.look)(tree).into_iter().map(|breach| (rule.name, breach)))
        .map(|(rule, (path, line, advice))| Finding { path, line, rule, advice })
        .collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Describes files that may be too long, tests not counted. These are no violations.
pub(crate) fn smells(tree: &[Source]) -> Vec<String> {
    let ours = tree.iter().filter(|source| source.is_ours());
    let sized = ours.map(|source| (source.size(), &source.path));
    sized
        .filter_map(|(lines, path)| match lines {
            0..=400 => None,
            401..=700 => Some(format!("smell: {path}: {lines} lines; is it one idea?")),
            _ => Some(format!("SMELL: {path}: {lines} lines; this is more than one idea")),
        })
        .collect()
}

/// Violations of one rule in one file.
fn in_file<'a>(
    source: &Source,
    lines: impl IntoIterator<Item = usize> + 'a,
    advice: &str,
) -> Vec<Breach> {
    lines.into_iter().map(|line| (source.path.clone(), line, advice.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No lines. A plain `[]` has no type if other crates can compare a number with more than
    /// numbers.
    pub(super) const NOWHERE: [usize; 0] = [];

    /// The lines of a file at `path` that violate `rule`.
    pub(super) fn caught(rule: fn(&[Source]) -> Vec<Breach>, path: &str, text: &str) -> Vec<usize> {
        rule(&[Source::new(path, text)]).into_iter().map(|(_, line, _)| line).collect()
    }

    #[test]
    fn findings_come_sorted_by_place_under_the_name_of_their_rule() {
        let tree = [
            Source::new("crates/b/src/a.rs", "//! A.\nfn a() { todo!() }\n"),
            Source::new("crates/a/src/b.rs", "fn a() { x.unwrap() }\n"),
        ];
        let found: Vec<_> = look(&tree).into_iter().map(|f| (f.path, f.rule)).collect();
        let expected = [
            ("crates/a/src/b.rs".to_owned(), "first-line"),
            ("crates/a/src/b.rs".to_owned(), "unwrap"),
            ("crates/b/src/a.rs".to_owned(), "unfinished"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn long_files_smell_and_their_tests_do_not_count() {
        let smell_of = |code: usize, tests: usize| {
            let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(tests));
            let text = format!("{}{tests}", "// a\n".repeat(code));
            smells(&[Source::new("crates/a/src/a.rs", &text)]).join("")
        };
        assert_eq!(smell_of(400, 1000), "");
        assert!(smell_of(401, 0).starts_with("smell"));
        assert!(smell_of(701, 0).starts_with("SMELL"));
    }

    #[test]
    fn names_of_rules_differ() {
        let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
    }
}
