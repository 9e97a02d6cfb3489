//! A source file as the rules see it: its lines, its tokens and its tests.

use crate::mask::{mask, word_length};

/// A text file.
#[derive(Debug)]
pub(crate) struct Source {
    /// The path relative to the root, separated by `/`.
    pub(crate) path: String,
    /// The content.
    pub(crate) text: String,
    /// The text without comments and literals; empty if this is not Rust.
    pub(crate) code: String,
    tokens: Vec<Token>,
    /// First and last line of each item under `#[test]` or `#[cfg(test)]`.
    tests: Vec<(usize, usize)>,
    /// The same for each `const _`, where `from` cannot be called and nothing remains at run time.
    checks: Vec<(usize, usize)>,
}

/// A name, a number, or a single other character.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The line number, starting at 1.
    pub(crate) line: usize,
    /// The text as written.
    pub(crate) word: String,
}

impl Source {
    /// Parses a file.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if extension(path) == "rs" { mask(text) } else { String::new() };
        let tokens = tokens(&code);
        let tests =
            ["#[test]", "#[cfg(test)]", "#[cfg(all(test,"].map(|a| items(&tokens, a)).concat();
        let checks = items(&tokens, "const _:");
        Self { path: path.into(), text: text.into(), code, tokens, tests, checks }
    }

    /// The part of the name after the last dot.
    pub(crate) fn extension(&self) -> &str {
        extension(&self.path)
    }

    /// Whether this is a Rust file.
    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    /// Whether this is a Rust file under the full set of rules.
    pub(crate) fn is_ours(&self) -> bool {
        // The model shares nothing with the product, not even its rules; compare and fuzz are
        // separate workspaces.
        const APART: &[&str] = &["qa/compare/", "qa/fuzz/", "qa/model/"];
        let below = |folder: &&str| self.path.starts_with(*folder);
        let is_apart = APART.iter().any(below);
        self.is_rust() && ["crates/", "qa/", "xtask/"].iter().any(below) && !is_apart
    }

    /// The lines with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The tokens of the code.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The lines of code that contain `pattern`, with any white space between its tokens.
    pub(crate) fn find(&self, pattern: &str) -> Vec<usize> {
        find(&self.tokens, pattern).into_iter().map(|(_, line)| line).collect()
    }

    /// The lines of code outside of tests that contain `pattern`.
    pub(crate) fn find_outside_tests(&self, pattern: &str) -> Vec<usize> {
        self.find(pattern).into_iter().filter(|line| !self.is_test(*line)).collect()
    }

    /// Whether `line` belongs to a test.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.is_test_file() || is_within(&self.tests, line)
    }

    /// Whether `line` belongs to a compile-time assertion.
    pub(crate) fn is_compile_time_check(&self, line: usize) -> bool {
        is_within(&self.checks, line)
    }

    /// The number of lines outside of tests.
    pub(crate) fn size(&self) -> usize {
        self.lines().filter(|(line, _)| !self.is_test(*line)).count()
    }

    /// The number of lines of code outside of tests, without comments and blank lines.
    pub(crate) fn code_lines(&self) -> usize {
        let code = (1..).zip(self.code.lines()).filter(|(_, code)| !code.trim().is_empty());
        code.filter(|(line, _)| !self.is_test(*line)).count()
    }

    /// Whether the whole file is a test.
    pub(crate) fn is_test_file(&self) -> bool {
        let mut parts = self.path.rsplit('/');
        parts.next() == Some("tests.rs") || parts.any(|part| part == "tests" || part == "benches")
    }
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn tokens(code: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (line, mut rest) in (1..).zip(code.lines()) {
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            let (word, tail) = rest.split_at(word_length(rest).max(first.len_utf8()));
            found.push(Token { line, word: word.into() });
            rest = tail;
        }
    }
    found
}

/// The index and line of each place where the tokens of `pattern` appear in a row.
fn find(code: &[Token], pattern: &str) -> Vec<(usize, usize)> {
    let pattern = tokens(pattern);
    let same = |window: &[Token]| window.iter().zip(&pattern).all(|(a, b)| a.word == b.word);
    let windows = code.windows(pattern.len().max(1)).enumerate();
    windows.filter(|(_, w)| same(w)).filter_map(|(i, w)| Some((i, w.first()?.line))).collect()
}

fn is_within(ranges: &[(usize, usize)], line: usize) -> bool {
    ranges.iter().any(|(from, to)| (*from..=*to).contains(&line))
}

/// First and last line of each item that begins with `pattern`.
fn items(code: &[Token], pattern: &str) -> Vec<(usize, usize)> {
    let item = |(at, line): (usize, usize)| (line, end_of_item(code.get(at..).unwrap_or_default()));
    find(code, pattern).into_iter().map(item).collect()
}

/// The last line of the item at the start of `code`: its closing brace, or its semicolon.
fn end_of_item(code: &[Token]) -> usize {
    let mut depth = 0_usize;
    for token in code {
        match token.word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (token.word == "}" || token.word == ";") {
            return token.line;
        }
    }
    code.last().map_or(0, |token| token.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
//! Doc.
fn one() { two :: three() }
#[cfg(test)]
use a::{b, c};
fn four() {}
#[test]
#[expect(lint, reason = \"}\")]
fn five() {
    two::three();
}
fn six() {}
";

    #[test]
    fn a_pattern_is_found_over_white_space() {
        let source = Source::new("crates/a/src/lib.rs", TEXT);
        assert_eq!(source.find("two::three("), [2, 9]);
        assert!(source.find("thre").is_empty());
    }

    #[test]
    fn items_under_a_test_attribute_are_tests_and_no_more() {
        let source = Source::new("crates/a/src/lib.rs", TEXT);
        let tests: Vec<usize> = (1..=11).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [3, 4, 6, 7, 8, 9, 10]);
        assert_eq!(source.find_outside_tests("two::three"), [2]);
        assert_eq!(source.size(), 4);
    }

    #[test]
    fn files_of_tests_are_tests_from_end_to_end() {
        for path in ["crates/a/tests/b.rs", "crates/a/src/tests.rs", "crates/a/benches/b.rs"] {
            assert!(Source::new(path, TEXT).is_test(2), "{path}");
        }
        assert!(!Source::new("crates/tests.d/src/a.rs", TEXT).is_test(2));
    }
}
