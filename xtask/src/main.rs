//! Tasks of this repository: `cargo xtask tidy`, `cargo xtask prove` and others.

#![forbid(unsafe_code)]

mod allowed;
mod book;
mod critical;
mod json;
mod links;
mod long;
mod mask;
mod modules;
mod planted;
mod prove;
mod rules;
mod source;
mod tidy;
mod tree;

use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <chore>

Chores:
  tidy    checks the rules of docs/STYLE.md that the compiler and clippy do not check, and counts
          the critical lines of the virtual disk
  rules   lists the rules that tidy checks
  book    builds a book from docs/ with mdBook
  damage  damages logs in many ways and prints what Seawall and other logs do with the damage
          (--json: one object for each row); fails if a promise is broken
  prove [NAME...] [--jobs N] [--json]
          plants each bug of proof/, or those named, in a copy of the tree and runs the command in
          its head; fails if a command passes with the bug, or a patch is out of date
  prove --list [NAME...] [--json]
          prints a table of the bugs: name, what breaks, which command catches it
  prove --check [NAME...]
          only checks whether the patches apply and their tests exist
  prove --compile [NAME...] [--jobs N] [--json]
          only checks whether the tree compiles with each bug: seconds for each
  prove --carry BASE [--renames SCRIPT] [NAME...]
          rewrites patches that apply to the commit BASE but no longer to HEAD, by merging.
          SCRIPT TREE [FILE...] repeats the moves and renames of HEAD in a checkout of BASE.
          Prints the patches that must be rewritten by hand
  syscalls [--all]
          fails every 60th system call of a log once in each way (--all: every call) and checks
          the log afterwards; `--help` lists the options
  long [PART...]
          runs checks that take too long for a test; without a part, lists them

Exit codes: 0 success, 1 findings or an error, 2 usage
";

fn main() -> ExitCode {
    let chores: Vec<String> = std::env::args().skip(1).collect();
    let chores: Vec<&str> = chores.iter().map(String::as_str).collect();
    let done = match chores.as_slice() {
        ["tidy"] => tidy::run(),
        ["rules"] => list_rules(),
        ["book"] => book::run(),
        ["prove", arguments @ ..] => match prove::run(arguments) {
            Some(done) => done,
            None => return usage(),
        },
        [name @ ("damage" | "syscalls"), arguments @ ..] => {
            return long::hand_over(name, arguments);
        }
        ["long", parts @ ..] => match long::run(parts) {
            Some(done) => done,
            None => return usage(),
        },
        ["help" | "--help" | "-h"] => io::stdout().write_all(HELP.as_bytes()).map(|()| true),
        _ => return usage(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let _ = io::stderr().write_all(HELP.as_bytes());
    ExitCode::from(2)
}

fn list_rules() -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for rule in rules::RULES {
        writeln!(out, "{:<14}{}", rule.name, rule.about)?;
    }
    Ok(true)
}
