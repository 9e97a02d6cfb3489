//! One trial: a command in a copy of the tree, with or without a planted bug, and its outcome.

use super::bug::{Bug, CargoCommand};
use super::copy::Copy;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time after which a test counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// Maximum time of a build.
const BUILD_PATIENCE: Duration = Duration::from_secs(1800);

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The command failed with the bug; its first error.
    Caught(String),
    /// The command passed with the bug.
    Missed,
    /// The command failed otherwise than the head of the patch says.
    Otherwise(String),
    /// The command's program type-checks with the bug; the command did not run.
    Compiles,
    /// The patch or the command is out of date; the reason.
    Stale(String),
}

impl Outcome {
    /// The outcome in one word.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Caught(_) => "caught",
            Self::Missed => "MISSED",
            Self::Otherwise(_) => "OTHER",
            Self::Compiles => "compiles",
            Self::Stale(_) => "STALE",
        }
    }

    /// Details of the outcome.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Caught(said) | Self::Otherwise(said) => said,
            Self::Missed => "the command passes with the bug in the tree",
            Self::Compiles => "",
            Self::Stale(why) => why,
        }
    }
}

/// How to try a bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Trial {
    /// Run its command.
    #[default]
    Run,
    /// Only type-check the command's program.
    Compile,
}

/// Plants a bug, tries it, and removes it.
pub(super) fn planted(copy: &Copy, bug: &Bug, trial: Trial) -> io::Result<Outcome> {
    if let Err(error) = copy.plant(&bug.name) {
        return Ok(Outcome::Stale(format!("the patch does not apply: {error}")));
    }
    let outcome = match trial {
        Trial::Run => with_the_bug(copy, bug),
        Trial::Compile => compiled(copy, &bug.caught_by),
    };
    copy.take_out(&bug.name)?;
    outcome
}

fn compiled(copy: &Copy, command: &CargoCommand) -> io::Result<Outcome> {
    let checked = run(copy, &command.check(), BUILD_PATIENCE)?;
    if succeeded(checked.as_ref()) {
        return Ok(Outcome::Compiles);
    }
    Ok(Outcome::Stale(format!("it does not compile: {}", first_error(checked.as_ref()))))
}

fn with_the_bug(copy: &Copy, bug: &Bug) -> io::Result<Outcome> {
    let command = &bug.caught_by;
    let built = run(copy, &command.build(), BUILD_PATIENCE)?;
    if !succeeded(built.as_ref()) {
        return Ok(Outcome::Stale(format!("it does not build: {}", first_error(built.as_ref()))));
    }
    Ok(judged(bug, run(copy, command, PATIENCE)?))
}

/// The outcome of a command that ran with the bug; `None` if it did not end.
fn judged(bug: &Bug, output: Option<Output>) -> Outcome {
    let Some(output) = output else {
        let said = format!("it hangs for {} s", PATIENCE.as_secs());
        return if bug.hangs { Outcome::Caught(said) } else { Outcome::Otherwise(said) };
    };
    if output.status.success() {
        return Outcome::Missed;
    }
    let said = said(&bug.caught_by, &output);
    match &bug.says {
        Some(expected) if !text(&output).contains(expected) => {
            Outcome::Otherwise(format!("not `{expected}`: {said}"))
        }
        _ => Outcome::Caught(said),
    }
}

/// Runs the named tests of `program` in the sound tree; returns whether each name matched a test
/// and all passed.
pub(super) fn all_pass(copy: &Copy, program: &CargoCommand, names: &[&str]) -> io::Result<bool> {
    let patience = names.iter().fold(BUILD_PATIENCE, |sum, _| sum + PATIENCE);
    let Some(output) = run(copy, &program.with_tests(names), patience)? else { return Ok(false) };
    let text = text(&output);
    let passed: Vec<&str> = text.lines().filter_map(passed_test).collect();
    let is_there = |name: &&str| passed.iter().any(|test| test.contains(name));
    Ok(output.status.success() && names.iter().all(is_there))
}

/// The name of the passed test in a line of output, if there is one.
fn passed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
}

/// Runs a command in the sound tree: `None` if it passes, otherwise why it proves nothing.
pub(super) fn unplanted(copy: &Copy, command: &CargoCommand) -> io::Result<Option<String>> {
    let built = run(copy, &command.build(), BUILD_PATIENCE)?;
    if !succeeded(built.as_ref()) {
        let why = first_error(built.as_ref());
        return Ok(Some(format!("the sound tree does not build: {why}")));
    }
    Ok(match run(copy, command, PATIENCE)? {
        None => Some("it hangs in the sound tree".to_owned()),
        Some(output) if !output.status.success() => {
            Some(format!("it fails in the sound tree: {}", said(command, &output)))
        }
        Some(output) if command.is_test() && passed(&output) == 0 => {
            Some("no test has this name".to_owned())
        }
        Some(_) => None,
    })
}

/// Runs a command; returns its output and status, or `None` if it exceeded the time limit and was
/// killed.
fn run(copy: &Copy, command: &CargoCommand, patience: Duration) -> io::Result<Option<Output>> {
    let mut command = command.command(copy.tree());
    command
        .env("CARGO_TARGET_DIR", copy.target())
        // There are many builds, and none is debugged.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_TERM_COLOR", "never")
        .env("RUST_BACKTRACE", "0")
        // Variables that cargo sets for xtask are not meant for the cargo that it starts.
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    wait(&mut command, patience)
}

fn wait(command: &mut Command, patience: Duration) -> io::Result<Option<Output>> {
    let child = command.spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match ended.recv_timeout(patience) {
        Ok(output) => output.map(Some),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("no process was waited for")),
        Err(RecvTimeoutError::Timeout) => {
            let group = group.ok_or_else(|| io::Error::other("a process without a number"))?;
            kill_process_group(group, Signal::KILL)?;
            // The copy is in use until the process group has ended.
            let _ = ended.recv();
            Ok(None)
        }
    }
}

fn succeeded(output: Option<&Output>) -> bool {
    output.is_some_and(|output| output.status.success())
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn first_error(output: Option<&Output>) -> String {
    let text = output.map_or_else(|| "it takes too long".to_owned(), text);
    text.lines().find(|line| line.starts_with("error")).unwrap_or(&text).chars().take(160).collect()
}

/// The number of tests that passed.
fn passed(output: &Output) -> usize {
    let count = |line: &str| -> Option<usize> {
        line.split_once("test result: ok. ")?.1.split(' ').next()?.parse().ok()
    };
    text(output).lines().filter_map(count).sum()
}

/// The first error of a failed command: for a test, the panic message.
fn said(command: &CargoCommand, output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = if command.is_test() { text(output) } else { complaint };
    let mut lines = text.lines();
    let panic = lines.find(|line| line.contains("panicked at")).and_then(|_| lines.next());
    // Lines of cargo itself begin with blanks.
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with(' '));
    let line = panic.filter(|_| command.is_test()).or(first);
    line.unwrap_or("nothing").trim().chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn bug(says: Option<&str>, hangs: bool) -> Bug {
        Bug {
            name: "a".to_owned(),
            breaks: "A.".to_owned(),
            caught_by: CargoCommand::new("cargo test a").unwrap(),
            says: says.map(str::to_owned),
            hangs,
        }
    }

    fn ended(code: i32) -> Output {
        let stdout = b"thread 'a' panicked at a.rs:1:2:\na is gone\n".to_vec();
        Output { status: ExitStatus::from_raw(code << 8), stdout, stderr: vec![] }
    }

    #[test]
    fn failure_counts_only_if_the_head_says_how() {
        for (says, hangs, output, expected) in [
            (None, false, Some(ended(0)), "MISSED"),
            (None, false, Some(ended(101)), "caught"),
            (Some("is gone"), false, Some(ended(101)), "caught"),
            (Some("is late"), false, Some(ended(101)), "OTHER"),
            (Some("is gone"), false, Some(ended(0)), "MISSED"),
            (None, false, None, "OTHER"),
            (Some("is gone"), false, None, "OTHER"),
            (None, true, None, "caught"),
        ] {
            let outcome = judged(&bug(says, hangs), output);
            assert_eq!(outcome.name(), expected, "{says:?} {hangs} {outcome:?}");
        }
    }
}
