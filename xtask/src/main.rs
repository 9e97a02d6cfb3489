//! Chores of this repository: `cargo xtask tidy`, `cargo xtask damage`.

#![forbid(unsafe_code)]

mod allowed;
mod book;
mod damage;
mod links;
mod mask;
mod rules;
mod source;
mod tidy;

use std::io::{self, Write};
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask <chore>

Chores:
  tidy    checks the rules of docs/STYLE.md that the compiler and clippy do not know
  rules   lists them
  book    makes docs/ into a book, by mdBook
  damage  damages logs in every way of a list and prints what Seawall does, beside its peers
          (--json: one object a row); fails if a promise is broken

Exit codes: 0 fine, 1 findings or an error, 2 usage
";

fn main() -> ExitCode {
    let chores: Vec<String> = std::env::args().skip(1).collect();
    let chores: Vec<&str> = chores.iter().map(String::as_str).collect();
    let done = match chores.as_slice() {
        ["tidy"] => tidy::run(),
        ["rules"] => list_rules(),
        ["book"] => book::run(),
        ["damage"] => damage::run(damage::Form::Text),
        ["damage", "--json"] => damage::run(damage::Form::Json),
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
