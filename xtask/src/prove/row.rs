//! A row of the table of planted bugs: a patch, and the command that must fail with it.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// One planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Of the patch, without its ending.
    pub(super) name: String,
    /// What must fail.
    pub(super) run: Act,
}

/// A command of the table, word by word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Act {
    /// Variables that are set for it: name and value.
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

/// The rows of `table`, a document.
///
/// # Errors
///
/// The first row that cannot be understood.
pub(super) fn rows(table: &str) -> Result<Vec<Row>, String> {
    table.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

fn row(line: &str) -> Result<Row, String> {
    // A bar within code would end a column for whoever renders the table, too.
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, _, command, _] = columns.as_slice() else {
        return Err(format!("not three columns: {line}"));
    };
    let name = name.trim_matches('`').to_owned();
    let run = Act::new(command.trim_matches('`')).map_err(|why| format!("{name}: {why}"))?;
    Ok(Row { name, run })
}

impl Act {
    /// Takes a command line apart: blanks part words, double quotes keep blanks in one.
    pub(super) fn new(line: &str) -> Result<Self, String> {
        let mut words = words(line);
        let is_variable = |word: &String| word.split_once('=').is_some_and(|(n, _)| is_name(n));
        let first = words.iter().position(|word| !is_variable(word)).unwrap_or(words.len());
        let words_left = words.split_off(first);
        let pair = |word: &String| word.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
        let act = Self { variables: words.iter().filter_map(pair).collect(), words: words_left };
        match act.verb() {
            Some("test" | "run") => Ok(act),
            _ => Err(format!("`{line}` is neither `cargo test` nor `cargo run`")),
        }
    }

    /// The arguments of cargo; a toolchain may stand before it.
    fn verb(&self) -> Option<&str> {
        let mut words = self.words.iter().map(String::as_str).skip_while(|w| w.starts_with('+'));
        let cargo = words.next();
        words.find(|word| !word.starts_with('+')).filter(|_| cargo == Some("cargo"))
    }

    /// Whether it runs tests, and so says how many.
    pub(super) fn is_test(&self) -> bool {
        self.verb() == Some("test")
    }

    /// The command that builds what this runs, and runs nothing: what does not build catches
    /// nothing.
    pub(super) fn build(&self) -> Self {
        let mut built = self.clone();
        built.words.clear();
        for word in self.words.iter().take_while(|word| *word != "--") {
            match word.as_str() {
                "test" if self.is_test() && !built.words.iter().any(|w| w == "--no-run") => {
                    built.words.extend(["test".to_owned(), "--no-run".to_owned()]);
                }
                "run" if !self.is_test() => built.words.push("build".to_owned()),
                _ => built.words.push(word.clone()),
            }
        }
        built
    }

    /// The command, ready to start in `folder`.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let (program, arguments) = self.words.split_first().expect("the verb was looked at");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={value:?} ")?;
        }
        f.write_str(&self.words.join(" "))
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn words(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut quoted = false;
    let mut word = String::new();
    for letter in line.chars().chain([' ']) {
        match letter {
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_its_rows_and_nothing_else() {
        let table = "# Bugs\n\n| patch | breaks | catches |\n|---|---|---|\n\
                     | `a-b` | c `d` | `cargo test -p e --test f g` |\n\nText.\n";
        let run = Act::new("cargo test -p e --test f g").unwrap();
        assert_eq!(rows(table).unwrap(), [Row { name: "a-b".to_owned(), run }]);
    }

    #[test]
    fn a_row_that_is_not_understood_is_named() {
        for line in ["| `a` | b |", "| `a` | b | `make` |", "| `a` | b | `cargo bench` |"] {
            let why = rows(line).unwrap_err();
            assert!(why.contains('a'), "{why}");
        }
    }

    #[test]
    fn what_builds_a_command_runs_nothing() {
        for (line, expected) in [
            ("cargo test -p a --test test b", "cargo test --no-run -p a --test test b"),
            ("cargo test -p a -- --exact b", "cargo test --no-run -p a"),
            ("cargo run --release -p a -- run", "cargo build --release -p a"),
            ("cargo +nightly test a", "cargo +nightly test --no-run a"),
            ("RUSTFLAGS=\"--cfg a\" cargo test", "RUSTFLAGS=\"--cfg a\" cargo test --no-run"),
        ] {
            // The second `test` of the first line is the name of a file.
            assert_eq!(Act::new(line).unwrap().build().to_string(), expected, "{line}");
        }
    }
}
