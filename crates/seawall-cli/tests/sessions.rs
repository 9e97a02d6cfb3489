//! The terminal sessions of the documents, line by line: what they show is what happens.

mod tool;

use tool::Folder;

/// Every `console` block of a document, run in one folder; `[..]` stands for any text in a line,
/// four spaces for a tab.
fn runs_as_it_stands(document: &str, text: &str) {
    let folder = Folder::new(document);
    let mut commands = 0;
    for step in steps(text) {
        commands += 1;
        let ran = folder.shell(&format!("{{ {}\n}} 2>&1", step.command), b"");
        let said = ran.text().replace('\t', "    ");
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        let shown = step.output.len() == said.len()
            && step.output.iter().zip(&said).all(|(shown, said)| fits(shown, said));
        assert!(shown, "{document}: {}\nsays:\n{}\n", step.command, said.join("\n"));
    }
    assert!(commands > 0, "{document} has no session");
}

/// A command and the lines that it prints.
struct Step {
    command: String,
    output: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut found: Vec<Step> = vec![];
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            found.push(Step { command: command.to_owned(), output: vec![] });
        } else if let Some(step) = found.last_mut().filter(|_| inside) {
            match line.strip_prefix("> ") {
                Some(more) if step.output.is_empty() => step.command.extend(["\n", more]),
                _ => step.output.push(line.trim_end().to_owned()),
            }
        }
    }
    found
}

/// Whether a line is as shown.
fn fits(shown: &str, said: &str) -> bool {
    let Some((start, rest)) = shown.split_once("[..]") else { return shown == said };
    let Some(mut left) = said.strip_prefix(start) else { return false };
    loop {
        if fits(rest, left) {
            return true;
        }
        let mut letters = left.chars();
        if letters.next().is_none() {
            return false;
        }
        left = letters.as_str();
    }
}

#[test]
fn the_paper_s_experiments_by_hand() {
    runs_as_it_stands("PAPER", include_str!("../../../docs/PAPER.md"));
}

#[test]
fn a_line_that_is_not_as_shown_is_noticed() {
    assert!(fits("a [..] c", "a b b c") && fits("[..]", "") && fits("x", "x"));
    assert!(!fits("a [..] c", "a b b d") && !fits("x", "y") && !fits("x[..]y", "xyz"));
}
