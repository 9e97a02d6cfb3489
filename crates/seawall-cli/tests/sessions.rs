//! Runs the terminal sessions in documents and checks that they print what the documents show.
//!
//! A block marked `console` is a session. A line after `$ `, with the lines after `> ` that follow
//! it, is given to a shell in which `seawall` is the program; the other lines are the expected
//! output on a terminal. `[..]` matches anything on one line, and a line of `...` matches any
//! lines. All blocks of a chapter (`## `) are one session, in one empty folder. A command that
//! fails is followed by `$ echo $?`, so that a reader learns its exit code.

use crate::tool;

use snapbox::assert::DEFAULT_ACTION_ENV;
use snapbox::{Assert, Data};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tool::{Folder, skipped};

/// Marks the end of each command's output; no program prints this.
const END: &str = "-- end of command, exit";

/// A command and its expected output.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// The number of chapters that began before it in the document.
    chapter: usize,
    line: usize,
    command: String,
    says: String,
}

/// The steps of all sessions of a document.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![];
    let (mut fence, mut chapter) = (None, 0);
    for (number, line) in (1..).zip(text.lines()) {
        let inside = fence == Some("```console");
        if line.starts_with("```") {
            fence = if fence.is_none() { Some(line) } else { None };
        } else if fence.is_none() {
            chapter += usize::from(line.starts_with("## "));
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let command = command.to_owned();
            steps.push(Step { chapter, line: number, command, says: String::new() });
        } else if let (true, Some(step)) = (inside, steps.last_mut()) {
            match line.strip_prefix("> ").filter(|_| step.says.is_empty()) {
                Some(more) => write!(step.command, "\n{more}").expect("a string takes all"),
                None => writeln!(step.says, "{line}").expect("a string takes all"),
            }
        }
    }
    steps
}

/// Builds one shell script of all steps, so that each step sees the effects of those before it.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("exec 2>&1\nstatus=0\n");
    for step in steps {
        let command = &step.command;
        write!(script, "(exit $status)\n{command}\nstatus=$?\nprintf '%s %s\\n' '{END}' $status\n")
            .expect("a string takes all");
    }
    script
}

/// The output and the exit code of each step.
fn said(out: &str) -> Vec<(String, String)> {
    let (mut all, mut one) = (vec![], String::new());
    for line in out.lines() {
        match line.split_once(END) {
            Some((rest, status)) => {
                one.push_str(rest);
                all.push((std::mem::take(&mut one), status.trim().to_owned()));
            }
            None => writeln!(one, "{}", untabbed(line)).expect("a string takes all"),
        }
    }
    all
}

/// Expands tabs to columns that are multiples of eight, as a terminal does.
fn untabbed(line: &str) -> String {
    let mut shown = String::new();
    for (at, part) in line.split('\t').enumerate() {
        let columns = shown.chars().count();
        let blanks = if at == 0 { 0 } else { 8 - columns % 8 };
        shown.extend(std::iter::repeat_n(' ', blanks));
        shown.push_str(part);
    }
    shown
}

/// All documents in a folder of the tree that have sessions.
fn documents(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = root.read_dir().expect("a folder of documents");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    found.retain(|path| !steps(&text(path)).is_empty());
    found.sort();
    found
}

fn text(document: &Path) -> String {
    let text = folder("text", document).read(&document.display().to_string());
    String::from_utf8(text).expect("text")
}

/// A folder for one use of a document, because documents are checked in parallel.
fn folder(usage: &str, document: &Path) -> Folder {
    let name = document.file_stem().expect("a name").to_string_lossy();
    Folder::new(&format!("session-{usage}-{name}"))
}

/// Whether a session needs Python's sqlite3 module and it is missing; then prints that it is
/// skipped.
fn lacks_python(session: &[Step], document: &Path) -> bool {
    const SQLITE: &str = "python3 -c 'import sqlite3";
    let folder = folder("python", document);
    let uses = session.iter().any(|step| step.command.contains(SQLITE));
    let lacks = uses && folder.shell("python3 -c 'import sqlite3'", b"").code != 0;
    if lacks {
        skipped(&format!("no python3 with sqlite3 here for {}", document.display()));
    }
    lacks
}

/// The number of steps of a document, and the differences found.
fn check(document: &Path) -> (usize, Vec<String>) {
    let steps = steps(&text(document));
    let sessions = steps.chunk_by(|one, next| one.chapter == next.chapter);
    let sessions = sessions.filter(|session| !lacks_python(session, document));
    (steps.len(), sessions.flat_map(|session| differences(session, document)).collect())
}

fn differences(steps: &[Step], document: &Path) -> Vec<String> {
    let folder = folder("run", document);
    let ran = folder.shell(&script(steps), b"");
    let said = said(ran.text());
    assert_eq!(said.len(), steps.len(), "{}: {ran:?}", document.display());
    let mut wrong = vec![];
    let assert = Assert::new().action_env(DEFAULT_ACTION_ENV);
    for (at, (step, (heard, status))) in steps.iter().zip(&said).enumerate() {
        let place = format!("{}:{}: {}", document.display(), step.line, step.command);
        let heard = Data::text(heard.clone());
        let same = assert.try_eq(Some(&place), heard, Data::text(step.says.clone()));
        wrong.extend(same.err().map(|why| format!("{place}\n{why}")));
        let is_told = steps.get(at + 1).is_some_and(|next| next.command == "echo $?");
        if status != "0" && !is_told {
            wrong.push(format!("{place}: ended with {status}, and nobody is told"));
        }
    }
    wrong
}

#[test]
fn sessions_in_documents_match_the_program() {
    let found = documents("docs");
    assert!(found.iter().any(|path| path.ends_with("cli.md")), "{found:?}");
    let (steps, wrong): (Vec<usize>, Vec<_>) = std::thread::scope(|scope| {
        let running: Vec<_> = found.iter().map(|one| scope.spawn(|| check(one))).collect();
        running.into_iter().map(|one| one.join().expect("a check does not panic")).unzip()
    });
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(steps.iter().sum::<usize>() >= 40, "{steps:?}");
}

#[test]
fn session_is_parsed_into_commands_and_answers() {
    let text = "$ no\n```console\n$ a \\\n> b\nc\n> d\n$ e\n## no\n```\n## f\n```sh\n$ g\n## no\n\
                ```\n```console\n$ h\n```\n";
    let step = |chapter, line, command: &str, says: &str| Step {
        chapter,
        line,
        command: command.to_owned(),
        says: says.to_owned(),
    };
    let [first, second] = [step(0, 3, "a \\\nb", "c\n> d\n"), step(0, 7, "e", "## no\n")];
    assert_eq!(steps(text), [first, second, step(1, 16, "h", "")]);
    let heard = said("a\nb-- end of command, exit 0\n-- end of command, exit 5\n");
    assert_eq!(heard, [("a\nb".to_owned(), "0".to_owned()), (String::new(), "5".to_owned())]);
}
