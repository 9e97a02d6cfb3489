//! What is said about command lines is true: examples are such, and documents have no others.

use super::*;

/// The words of a line of shell from `seawall` on, up to what the shell makes of the rest.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for character in line.chars() {
        let begun = word.get_or_insert_default();
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('\'' | '"', None) => quote = Some(character),
            // What another program says stands for one word.
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

/// Every command line of ours in a text: what stands behind `seawall ` in its lines of code.
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

/// Every verb without verbs below it.
fn leaves(command: &Command) -> Vec<Command> {
    let verbs: Vec<_> =
        command.get_subcommands().filter(|verb| verb.get_name() != "help").collect();
    if verbs.is_empty() {
        return vec![command.clone()];
    }
    verbs.into_iter().flat_map(leaves).collect()
}

#[test]
fn every_verb_has_three_examples_that_it_understands() {
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
fn documents_show_command_lines_that_there_are() {
    for (name, text) in [
        ("README.md", include_str!("../../../../README.md")),
        ("operations.md", include_str!("../../../../docs/operations.md")),
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
        assert!(seen >= 5, "{name}: {seen}");
    }
}

#[test]
fn the_colour_is_known_before_the_rest_is_read() {
    let read = |line: &str| color_of(line.split(' ').map(str::to_owned));
    assert_eq!(read("verify log"), ColorWhen::Auto);
    assert_eq!(read("verify --color never log"), ColorWhen::Never);
    assert_eq!(read("--color=always verify"), ColorWhen::Always);
    assert_eq!(read("--color=always verify --color never"), ColorWhen::Never);
    assert_eq!(read("--colors always verify --color pink -- --color never"), ColorWhen::Auto);
}
