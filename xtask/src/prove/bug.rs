//! One planted bug: its patch, what it breaks, and the command that must fail with it.

use crate::planted::Head;
use crate::tree;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// A planted bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bug {
    /// The name of the patch file, without its extension.
    pub(super) name: String,
    pub(super) breaks: String,
    pub(super) caught_by: CargoCommand,
    /// Part of what the command prints when it fails.
    pub(super) says: Option<String>,
    /// Whether the command does not end by itself.
    pub(super) hangs: bool,
}

/// A cargo command line, split into words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CargoCommand {
    /// Names and values of the environment variables set for the command.
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

/// Reads the heads of all patches under proof/ in the tree at `root`, in order of name.
///
/// # Errors
///
/// A patch cannot be read, or its head is malformed.
pub(super) fn read_all(root: &Path) -> io::Result<Vec<Bug>> {
    let mut bugs = Vec::new();
    for entry in root.join("proof").read_dir()? {
        let path = entry?.path();
        let is_patch = path.extension().is_some_and(|ending| ending == "patch");
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_patch) {
            let bug = Bug::parse(name, &tree::read(&path)?);
            bugs.push(bug.map_err(|why| io::Error::other(format!("proof/{name}.patch: {why}")))?);
        }
    }
    bugs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(bugs)
}

impl Bug {
    fn parse(name: &str, patch: &str) -> Result<Self, String> {
        let Head { breaks, caught_by, says, hangs } = Head::of(patch)?;
        let caught_by = CargoCommand::new(caught_by)?;
        let says = says.map(str::to_owned);
        Ok(Self { name: name.to_owned(), breaks: breaks.to_owned(), caught_by, says, hangs })
    }
}

impl CargoCommand {
    /// Splits a command line at blanks; double quotes keep blanks in a word.
    pub(super) fn new(line: &str) -> Result<Self, String> {
        let mut words = words(line);
        let is_variable = |word: &String| word.split_once('=').is_some_and(|(n, _)| is_name(n));
        let first = words.iter().position(|word| !is_variable(word)).unwrap_or(words.len());
        let words_left = words.split_off(first);
        let pair = |word: &String| word.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()));
        let command =
            Self { variables: words.iter().filter_map(pair).collect(), words: words_left };
        match command.verb() {
            Some("test" | "run") => Ok(command),
            _ => Err(format!("`{line}` is neither `cargo test` nor `cargo run`")),
        }
    }

    /// The subcommand of cargo, which a toolchain may precede.
    fn verb(&self) -> Option<&str> {
        let mut words = self.words.iter().map(String::as_str).skip_while(|w| w.starts_with('+'));
        let cargo = words.next();
        words.find(|word| !word.starts_with('+')).filter(|_| cargo == Some("cargo"))
    }

    /// Whether the command runs tests, and so prints how many passed.
    pub(super) fn is_test(&self) -> bool {
        self.verb() == Some("test")
    }

    /// The name, or part of the name, of the test function that the command runs, if it names one.
    pub(super) fn test_name(&self) -> Option<&str> {
        let mut words = self.words.iter().rev();
        let (last, before) = (words.next()?, words.next()?);
        let is_alone = ["--", "--lib", "--ignored"].contains(&before.as_str());
        let is_value = before.starts_with('-') && !is_alone;
        let name = last.rsplit("::").next().filter(|name| !name.is_empty() && !is_value);
        name.filter(|name| self.is_test() && !name.starts_with('-'))
    }

    /// The package whose tests the command runs, if it names one.
    pub(super) fn package(&self) -> Option<&str> {
        let mut words = self.words.iter();
        words.find(|word| *word == "-p").and_then(|_| words.next()).map(String::as_str)
    }

    /// Splits the command into a command without the test name, and that name; `None` if it does
    /// not run a single test of a program.
    pub(super) fn split_test(&self) -> Option<(Self, &str)> {
        self.test_name()?;
        let (name, words) = self.words.split_last()?;
        let is_plain = !words.iter().any(|word| word == "--");
        let program = Self { variables: self.variables.clone(), words: words.to_vec() };
        is_plain.then_some((program, name))
    }

    /// Returns this command with the names of the tests to run.
    pub(super) fn with_tests(&self, names: &[&str]) -> Self {
        let mut all = self.clone();
        all.words.push("--".to_owned());
        all.words.extend(names.iter().map(|name| (*name).to_owned()));
        all
    }

    /// Returns the command that builds this one's program without running it.
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

    /// Returns the command that type-checks this one's program without generating code.
    pub(super) fn check(&self) -> Self {
        const WITH_VALUE: &[&str] = &["-p", "--features", "--test", "--bin"];
        let mut checked = Self { variables: self.variables.clone(), words: vec![] };
        let (mut has_verb, mut is_value) = (false, false);
        for (number, word) in self.words.iter().take_while(|word| *word != "--").enumerate() {
            let is_verb = !has_verb && number > 0 && !word.starts_with('+');
            if is_verb {
                // Unlike `cargo check`, `cargo test --lib` compiles the unit tests, too.
                checked.words.extend(["check".to_owned(), "--profile".to_owned()]);
                checked.words.push(if self.is_test() { "test" } else { "dev" }.to_owned());
                has_verb = true;
            } else if !has_verb || is_value || (word.starts_with('-') && word != "--release") {
                // Skip the test name, and `--release`: the profile is set above.
                checked.words.push(word.clone());
            }
            is_value = WITH_VALUE.contains(&word.as_str());
        }
        checked
    }

    /// The command, ready to start in `folder`.
    pub(super) fn command(&self, folder: &Path) -> Command {
        let (program, arguments) = self.words.split_first().expect("`new` found a verb");
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl fmt::Display for CargoCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            let value = if value.contains(' ') { format!("{value:?}") } else { value.clone() };
            write!(f, "{name}={value} ")?;
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
    fn patch_gives_its_bug() {
        let patch = "# breaks: C is lost.\n# caught by: cargo test -p e --test f g\ndiff --git a b";
        let expected = Bug {
            name: "a-b".to_owned(),
            breaks: "C is lost.".to_owned(),
            caught_by: CargoCommand::new("cargo test -p e --test f g").unwrap(),
            says: None,
            hangs: false,
        };
        assert_eq!(Bug::parse("a-b", patch), Ok(expected));
    }

    #[test]
    fn command_that_is_neither_test_nor_run_is_refused() {
        for line in ["make", "cargo bench", "A=b"] {
            let why = CargoCommand::new(line).unwrap_err();
            assert!(why.contains(line), "{why}");
        }
    }

    #[test]
    fn command_is_displayed_as_it_was_written() {
        for line in ["A=1 cargo test -p a b", "RUSTFLAGS=\"--cfg a\" cargo test"] {
            assert_eq!(CargoCommand::new(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn test_is_named_by_the_last_word() {
        for (line, expected) in [
            ("cargo test -p a --test b c_is_d", Some("c_is_d")),
            ("cargo test -p a --lib b::tests::c_is_d", Some("c_is_d")),
            ("cargo test -p a --test b -- --ignored c::d_is_e", Some("d_is_e")),
            ("cargo test -p a -- --exact c_is_d", None),
            ("cargo test -p a --test b c::", None),
            ("cargo test -p a --test b", None),
            ("cargo test -p a --lib", None),
            ("cargo run -p a -- run", None),
        ] {
            assert_eq!(CargoCommand::new(line).unwrap().test_name(), expected, "{line}");
        }
    }

    #[test]
    fn tests_of_one_program_run_together() {
        let command = CargoCommand::new("A=1 cargo test -p a --test b c::d").unwrap();
        let (program, name) = command.split_test().unwrap();
        assert_eq!((command.package(), name), (Some("a"), "c::d"));
        let together = program.with_tests(&["c::d", "e"]).to_string();
        assert_eq!(together, "A=1 cargo test -p a --test b -- c::d e");
        for line in ["cargo test -p a --lib", "cargo run -p a -- b", "cargo test -p a -- --exact c"]
        {
            assert_eq!(CargoCommand::new(line).unwrap().split_test(), None, "{line}");
        }
    }

    #[test]
    fn what_checks_a_command_has_no_test_name() {
        for (line, expected) in [
            (
                "A=1 cargo test -p a --test test b",
                "A=1 cargo check --profile test -p a --test test",
            ),
            ("cargo test --lib b::", "cargo check --profile test --lib"),
            ("cargo +nightly test -p a -- --exact b", "cargo +nightly check --profile test -p a"),
            ("cargo run --release -p a -- run", "cargo check --profile dev -p a"),
        ] {
            assert_eq!(CargoCommand::new(line).unwrap().check().to_string(), expected, "{line}");
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
            // The second `test` in the first line is the name of a file.
            let built = CargoCommand::new(line).unwrap().build();
            assert_eq!(built.to_string(), expected, "{line}");
        }
    }
}
