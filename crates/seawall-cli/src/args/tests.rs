//! Command lines in help texts and documents are valid, and their tables match the code.

use super::*;
use seawall_output::report::{MEANINGS, TABLE};
use std::collections::BTreeSet;

const EXPLAIN: &str = include_str!("../commands/help/explain.txt");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// The words of a shell command line, up to the first pipe or redirection.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for character in line.chars() {
        let begun = word.get_or_insert_default();
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('\'' | '"', None) => quote = Some(character),
            // A command substitution counts as one word.
            ('(', None) if begun.ends_with('$') => quote = Some(')'),
            (' ', None) => words.extend(word.take()),
            ('|' | '<' | '>' | '#' | ';' | '&' | ')', None) => break,
            _ => begun.push(character),
        }
    }
    words.extend(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The words of every `seawall` command line in a line of code.
fn command_lines(line: &str) -> impl Iterator<Item = Vec<String>> {
    let starts = line.match_indices("seawall ").filter(|(at, _)| {
        let before = line.get(..*at).unwrap_or_default().trim();
        before.is_empty() || before.ends_with(['|', '(', ';', '&']) || before == "chrt -f 1"
    });
    starts.map(|(at, _)| words(line.get(at..).unwrap_or_default()))
}

#[track_caller]
fn understood(words: &[String]) {
    let parsed = shown().try_get_matches_from(words);
    if let Err(error) = parsed {
        let is_answer = !error.use_stderr();
        assert!(is_answer, "{words:?}: {error}");
    }
}

/// Every verb that has no subcommands.
fn leaves(command: &Command) -> Vec<Command> {
    let verbs: Vec<_> =
        command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
    if verbs.is_empty() {
        return vec![command.clone()];
    }
    verbs.into_iter().flat_map(leaves).collect()
}

#[test]
fn every_verb_has_three_valid_examples() {
    let verbs = leaves(&shown());
    assert!(verbs.len() >= 15, "{}", verbs.len());
    for verb in verbs {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let name = verb.get_name();
        let examples = help.strip_prefix("Examples:\n").unwrap_or_else(|| panic!("{name}: {help}"));
        let lines: Vec<&str> = examples.lines().take_while(|line| line.starts_with("  ")).collect();
        let ours: Vec<_> = lines.into_iter().flat_map(command_lines).collect();
        assert!(ours.len() >= 3, "{name}: {help}");
        for words in ours {
            understood(&words);
        }
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{name}: {help}");
    }
}

#[test]
fn documents_show_only_valid_command_lines() {
    for (name, text, least) in [
        ("README.md", include_str!("../../../../README.md"), 5),
        ("operations.md", OPERATIONS, 5),
        ("disk.md", include_str!("../../../../docs/disk.md"), 4),
    ] {
        let mut fenced = false;
        let mut seen = 0;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if fenced {
                for words in command_lines(line) {
                    understood(&words);
                    seen += 1;
                }
            }
        }
        assert!(seen >= least, "{name}: {seen}");
    }
}

/// The exit codes in a list whose lines begin with one code, or several separated by commas.
fn listed<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<u8> {
    let codes = lines.filter_map(|line| {
        let codes = line.split_once(" |").map_or(line, |(codes, _)| codes);
        codes.split(", ").map(|code| code.trim().parse().ok()).collect::<Option<Vec<u8>>>()
    });
    codes.flatten().collect()
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[test]
fn documented_exit_codes_match_the_code() {
    // `TABLE` lacks the codes of a panic, a signal and a closed pipe: they have no rank.
    let all: BTreeSet<u8> =
        TABLE.map(|row| row.1).into_iter().chain([101, 129, 130, 141, 143]).collect();
    let (_, table) = OPERATIONS.split_once("\n## Exit codes\n").expect("the table");
    let rows = table.lines().take_while(|line| !line.starts_with('#'));
    let rows = rows.filter_map(|line| line.strip_prefix("| "));
    assert_eq!(listed(rows), all);
    assert_eq!(listed(MEANINGS.into_iter().map(|(codes, _)| codes)), all);

    for (codes, meaning) in MEANINGS {
        // Punctuation inside a meaning separates its parts: the first one is the heading.
        let heading = meaning.split([';', ':', '(']).next().expect("a meaning").trim();
        let row = format!("\n| {codes} | {}", capitalized(heading));
        assert!(OPERATIONS.contains(&row), "{row}");
        for code in codes.split(", ") {
            let topic = format!("exit code {code}\n{}", capitalized(heading));
            assert!(EXPLAIN.replace('\n', " ").contains(&topic.replace('\n', " ")), "{topic}");
        }
        assert!(exit_codes().contains(&format!("{codes:>3}  {meaning}\n")), "{meaning}");
    }

    let mut ranked = TABLE;
    ranked.sort_by_key(|row| std::cmp::Reverse(row.2));
    let order = ranked.map(|row| row.1.to_string()).join(", ");
    let order = format!("the exit code is the worst: {order}.");
    assert!(OPERATIONS.contains(&order), "{order}");
    assert!(help!("verify").contains(&order), "{order}");
}

#[test]
fn color_is_parsed_before_other_options() {
    let read = |line: &str| color_of(line.split(' ').map(str::to_owned));
    assert_eq!(read("verify log"), ColorWhen::Auto);
    assert_eq!(read("verify --color never log"), ColorWhen::Never);
    assert_eq!(read("--color=always verify"), ColorWhen::Always);
    assert_eq!(read("--color=always verify --color never"), ColorWhen::Never);
    assert_eq!(read("--colors always verify --color pink -- --color never"), ColorWhen::Auto);
}
