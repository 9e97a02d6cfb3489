//! Rules on the text of files, regardless of its meaning.

use super::{Breach, in_file};
use crate::mask::is_word;
use crate::source::Source;

const COLUMNS_MAX: usize = 100;

/// Split, so that this file does not violate its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const FOLDERS_OF_ONE_MACHINE: &[&str] = &[concat!("/t", "mp/"), concat!("/ho", "me/")];
const TALK_OF_THE_WORK: &[&str] =
    &[concat!("sub", "agent"), concat!("this ", "session"), concat!("earlier ", "session")];

/// Finds Rust files that do not begin with a `//!` line.
pub(super) fn first_line(tree: &[Source]) -> Vec<Breach> {
    let ours = tree.iter().filter(|source| source.is_ours());
    ours.filter(|source| !source.text.starts_with("//! "))
        .flat_map(|source| in_file(source, [1], "begin with a `//!` line that names the idea"))
        .collect()
}

/// Finds characters outside of ASCII.
pub(super) fn ascii(tree: &[Source]) -> Vec<Breach> {
    let advice = "write ASCII: an escape in a string, words in a comment";
    let sources = tree.iter().filter(|source| is_source(source));
    sources
        .flat_map(|source| in_file(source, lines_where(source, |l| !l.is_ascii()), advice))
        .collect()
}

/// Finds tabs, trailing white space, and files that do not end with exactly one newline.
pub(super) fn white_space(tree: &[Source]) -> Vec<Breach> {
    let mut found = Vec::new();
    for source in tree.iter().filter(|s| is_source(s) || s.extension() == "md") {
        let untidy = |line: &str| line.contains('\t') || line != line.trim_end();
        // `split`, because `lines` removes carriage returns.
        let lines = (1..).zip(source.text.split('\n')).filter(|(_, line)| untidy(line));
        let lines: Vec<usize> = lines.map(|(line, _)| line).collect();
        found.extend(in_file(source, lines, "remove the tab or the trailing white space"));
        if !source.text.ends_with('\n') || source.text.ends_with("\n\n") {
            let last = source.lines().count();
            found.extend(in_file(source, [last], "end the file with one newline"));
        }
    }
    found
}

/// Finds long lines of Rust.
pub(super) fn columns(tree: &[Source]) -> Vec<Breach> {
    let too_long = |line: &str| line.chars().count() > COLUMNS_MAX && !line.contains("://");
    let rust = tree.iter().filter(|source| source.is_rust());
    rust.flat_map(|source| in_file(source, lines_where(source, too_long), "break the line at 100"))
        .collect()
}

/// Finds text that only makes sense to the authors: their paths and how they worked.
pub(super) fn words(tree: &[Source]) -> Vec<Breach> {
    let advice = "name no path of one machine, and nothing of how the work was organised";
    tree.iter().flat_map(|s| in_file(s, lines_where(s, names_the_workplace), advice)).collect()
}

fn names_the_workplace(line: &str) -> bool {
    let line = line.to_lowercase();
    let in_folder = |folder: &&str| {
        line.match_indices(*folder).any(|(at, _)| {
            line.get(at + folder.len()..).is_some_and(|rest| rest.starts_with(is_word))
        })
    };
    MACHINE_PATHS.iter().chain(TALK_OF_THE_WORK).any(|words| line.contains(words))
        || FOLDERS_OF_ONE_MACHINE.iter().any(in_folder)
}

fn is_source(source: &Source) -> bool {
    ["rs", "toml", "sh"].contains(&source.extension()) || source.path.starts_with(".ci/")
}

fn lines_where(source: &Source, breaks: impl Fn(&str) -> bool) -> Vec<usize> {
    source.lines().filter(|(_, text)| breaks(text)).map(|(line, _)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOWHERE, caught};
    use super::*;

    const RUST: &str = "crates/a/src/a.rs";

    #[test]
    fn a_file_without_a_first_doc_line_is_found() {
        assert_eq!(caught(first_line, RUST, "use a;\n"), [1]);
        assert_eq!(caught(first_line, RUST, "//! A.\nuse a;\n"), NOWHERE);
        assert_eq!(caught(first_line, "README.md", "use a;\n"), NOWHERE);
    }

    #[test]
    fn characters_outside_of_ascii_are_found_in_sources() {
        for path in [RUST, "Cargo.toml", "a.sh", ".ci/run"] {
            assert_eq!(caught(ascii, path, "a\nb \u{2192} c\n"), [2], "{path}");
        }
        assert_eq!(caught(ascii, "README.md", "\u{2192}\n"), NOWHERE);
    }

    #[test]
    fn tabs_and_trailing_white_space_are_found() {
        assert_eq!(caught(white_space, RUST, "a\n\tb\nc \nd\r\n"), [2, 3, 4]);
    }

    #[test]
    fn a_file_ends_with_one_newline() {
        assert_eq!(caught(white_space, RUST, "a\nb"), [2]);
        assert_eq!(caught(white_space, RUST, "a\n\n"), [2]);
        assert_eq!(caught(white_space, "docs/a.md", "a\n"), NOWHERE);
    }

    #[test]
    fn the_hundred_and_first_column_is_found_unless_a_url_needs_it() {
        assert_eq!(caught(columns, RUST, &format!("a\n{}\n", "b".repeat(101))), [2]);
        assert_eq!(caught(columns, RUST, &format!("{}\n", "b".repeat(100))), NOWHERE);
        assert_eq!(caught(columns, RUST, &format!("// https://{}\n", "b".repeat(101))), NOWHERE);
    }

    #[test]
    fn paths_of_one_machine_are_found_in_any_file() {
        let [first, second] = FOLDERS_OF_ONE_MACHINE else { panic!("two folders") };
        for path in [MACHINE_PATHS, &[&format!("{first}a"), &format!("{second}a")]].concat() {
            assert_eq!(caught(words, "docs/a.md", &format!("a\nsee {path}b\n")), [2], "{path}");
        }
        assert_eq!(
            caught(words, "docs/a.md", &format!("{first}, {first} and network/\n")),
            NOWHERE
        );
    }

    #[test]
    fn words_about_how_the_work_was_organised_are_found() {
        for talk in TALK_OF_THE_WORK {
            assert_eq!(caught(words, "a.txt", &format!("A {}s\n", talk.to_uppercase())), [1]);
        }
    }
}
