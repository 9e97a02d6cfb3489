//! `cargo xtask long`: checks that take too long for a test. Each part is a program that prints a
//! result and fails if a promise is broken.

use crate::tree;
use seawall_io::{Clock, SystemClock};
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};

/// A long check.
#[derive(Debug)]
struct Part {
    name: &'static str,
    /// A description, and about how long it takes.
    about: &'static str,
    /// The command, word by word.
    command: &'static [&'static str],
    /// Arguments that `cargo xtask long` adds.
    deep: &'static [&'static str],
}

const CARGO: &str = "cargo";
const MODEL: &[&str] = &[CARGO, "run", "--release", "--locked", "-q", "-p", "seawall-model", "--"];

/// All parts. The last line of a part's output is its result.
const PARTS: &[Part] = &[
    Part {
        name: "prove",
        about: "every planted bug is caught; an hour",
        command: &[CARGO, "xtask", "prove"],
        deep: &[],
    },
    Part {
        name: "prove-compile",
        about: "every planted bug compiles; 5 minutes",
        command: &[CARGO, "xtask", "prove"],
        deep: &["--compile"],
    },
    Part {
        name: "syscalls",
        about: "every system call fails once in every way; 10 minutes",
        command: &[CARGO, "run", "--release", "--locked", "-q", "-p", "seawall-syscalls", "--"],
        deep: &["--all"],
    },
    Part {
        name: "damage",
        about: "every kind of damage in the list; 10 seconds",
        command: &[
            CARGO,
            "run",
            "--release",
            "--locked",
            "-q",
            "-p",
            "seawall-hunt",
            "--",
            "damage",
        ],
        deep: &[],
    },
    Part {
        name: "model",
        about: "the format's rules, in every crash state of small workloads; a minute",
        command: MODEL,
        deep: &["check", "1"],
    },
    Part {
        name: "model-faults",
        about: "the format's rules after one fault in some states of small workloads; 10 minutes",
        command: MODEL,
        deep: &["faults", "64"],
    },
    Part {
        name: "model-random",
        about: "the format's rules, in random workloads; ten minutes",
        command: MODEL,
        deep: &["random", "600", "7"],
    },
    Part {
        name: "model-disk",
        about: "the virtual disk's rules, in every state of larger workloads; 5 minutes",
        command: MODEL,
        deep: &["disk", "long"],
    },
    Part {
        name: "model-planted",
        about: "whether the model notices each dropped rule; 10 minutes, fails for some",
        command: MODEL,
        deep: &["planted"],
    },
    Part {
        name: "corrupt",
        about: "a million corruptions from one bit to a mebibyte; ten minutes on an idle core",
        command: &[CARGO, "run", "--release", "-p", "seawall-hunt", "--", "corrupt"],
        deep: &[],
    },
    Part {
        name: "simulate",
        about: "many lives of one log on a failing disk; an hour",
        command: &[CARGO, "run", "--release", "--locked", "-q", "-p", "seawall-sim", "--"],
        deep: &["--seconds", "3600"],
    },
    Part {
        name: "schedules",
        about: "a million schedules of the log's threads; 10 minutes",
        command: &[
            "env",
            "SEAWALL_SCHEDULES=1000000",
            CARGO,
            "test",
            "--release",
            "--locked",
            "-q",
        ],
        deep: &["-p", "seawall-scheduled", "--test", "schedules"],
    },
    Part {
        name: "kernel",
        about: "300 power cuts of ext4 under a real kernel; 10 minutes",
        command: &["python3", "proof/kernel/run.py"],
        deep: &["cuts"],
    },
    Part {
        name: "aws-lc-rs",
        about: "both libraries encrypt alike; 3 minutes; needs a C compiler",
        command: &[CARGO, "test", "--locked", "-q", "-p", "seawall-format", "--lib"],
        deep: &["--features", "json,aws-lc-rs"],
    },
    Part {
        name: "zstd",
        about: "logs that zstd compresses, as others; 5 minutes; needs a C compiler",
        command: &[CARGO, "test", "--locked", "-q", "-p", "seawall-tests"],
        deep: &["--features", "zstd", "--test", "all", "compress", "--", "--include-ignored"],
    },
    Part {
        name: "miri",
        about: "the format, and the border to C, under Miri; 20 minutes; needs nightly with miri",
        command: &[CARGO, "+nightly", "miri", "test", "--lib", "-p", "seawall-ffi"],
        deep: &["-p", "seawall-format", "--features", "seawall-format/json"],
    },
    Part {
        name: "sanitizers",
        about: "C programs, and an instrumented library; 5 minutes; needs nightly with rust-src",
        command: &["bash", "crates/seawall-ffi/tests/sanitizers.sh"],
        deep: &[],
    },
    Part {
        name: "mutants",
        about: "changes of the format's code that no test notices; an hour; needs cargo-mutants",
        command: &["env", "CARGO_PROFILE_MUTANTS_OPT_LEVEL=0", CARGO, "mutants"],
        deep: &["-p", "seawall-format", "--", "--lib"],
    },
    Part {
        name: "coverage",
        about: "the lines that tests run; 10 minutes; needs cargo-llvm-cov",
        command: &[CARGO, "llvm-cov", "--tests", "--summary-only"],
        deep: &["-p", "seawall-format", "-p", "seawall-io", "-p", "seawall"],
    },
    Part {
        name: "fuzz",
        about: "every fuzz target for ten minutes; needs cargo-fuzz and a nightly toolchain",
        command: &["bash", "qa/fuzz/run.sh"],
        deep: &["600"],
    },
    Part {
        name: "peers",
        about: "seawall-compare builds, and every log in it keeps its records; 10 minutes",
        command: &["env", "-C", "qa/compare", CARGO, "test"],
        deep: &["--release", "--locked"],
    },
    Part {
        name: "stores",
        about: "replays into fjall, killed midway; 5 minutes, mostly to build fjall",
        command: &["env", "-C", "stores", CARGO, "test"],
        deep: &["--locked"],
    },
    Part {
        name: "package",
        about: "the crates to be published build from their packages alone; 5 minutes",
        command: &[CARGO, "package", "--locked", "--workspace"],
        deep: &[],
    },
    Part {
        name: "kills",
        about: "2,000 lives of one log end by kill -9; 5 minutes",
        command: &["bash", "proof/life/kills.sh"],
        deep: &["2000"],
    },
    Part {
        name: "follow",
        about: "a million records, followed through rolls, prunes and restarts; 10 seconds",
        command: &["bash", "proof/life/follow.sh"],
        deep: &[],
    },
    Part {
        name: "units",
        about: "systemd starts, kills and boots keeper, server and database; root, 20 seconds",
        command: &["bash", "proof/life/units.sh"],
        deep: &[],
    },
    Part {
        name: "full",
        about: "a disk that is filled and freed; 10 seconds",
        command: &["bash", "proof/life/full.sh"],
        deep: &[],
    },
];

/// Exit code: nothing was tested.
const SKIPPED: i32 = 77;

/// Runs the named parts, or lists all if `names` is empty; false if one fails, `None` if one does
/// not exist.
///
/// # Errors
///
/// A part cannot be started, or the result cannot be written.
pub(crate) fn run(names: &[&str]) -> Option<io::Result<bool>> {
    if names.is_empty() {
        return Some(list());
    }
    let part = |name: &&str| PARTS.iter().find(|part| part.name == *name);
    let parts: Option<Vec<&Part>> = names.iter().map(part).collect();
    parts.map(|parts| run_all(&parts))
}

/// Runs the part `name` with `arguments` in place of those that `long` adds; returns its exit code.
pub(crate) fn hand_over(name: &str, arguments: &[&str]) -> ExitCode {
    let part = PARTS.iter().find(|part| part.name == name).expect("a chore names a part");
    match start(part, arguments).and_then(|mut command| command.status()) {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "xtask: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() -> io::Result<bool> {
    let mut out = io::stdout().lock();
    for part in PARTS {
        writeln!(out, "{:<14} {}", part.name, part.about)?;
    }
    Ok(true)
}

fn run_all(parts: &[&Part]) -> io::Result<bool> {
    let clock = SystemClock::new();
    let mut lines = vec![];
    let mut all_well = true;
    for part in parts {
        writeln!(io::stderr(), "== {}: {}", part.name, part.about)?;
        let began = clock.now();
        let output = start(part, part.deep)?.stdout(Stdio::piped()).spawn()?.wait_with_output()?;
        io::stdout().write_all(&output.stdout)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figure = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let outcome = match output.status.code() {
            Some(0) => "ok",
            Some(SKIPPED) => "SKIPPED",
            _ => "FAILED",
        };
        all_well &= outcome != "FAILED";
        let took = clock.now().saturating_sub(began).as_secs();
        lines.push(format!("{:<14} {outcome:<8} {took:>6} s  {figure}", part.name));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", lines.join("\n"))?;
    Ok(all_well)
}

fn start(part: &Part, arguments: &[&str]) -> io::Result<Command> {
    let (program, words) = part.command.split_first().expect("a part has a command");
    let mut command = Command::new(program);
    command.args(words).args(arguments).current_dir(tree::root()?);
    // Variables that cargo sets for xtask are not meant for the cargo that it starts.
    command.env_remove("CARGO_MANIFEST_DIR").stdin(Stdio::null());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names_of_their_own_and_others_are_refused() {
        let names: std::collections::BTreeSet<_> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), PARTS.len());
        assert!(run(&["prove", "nonsense"]).is_none());
    }

    #[test]
    fn every_script_and_folder_of_a_part_is_in_the_tree() {
        let root = tree::root().unwrap();
        for part in PARTS.iter().filter(|part| part.command[0] == "bash") {
            assert!(root.join(part.command[1]).is_file(), "{}", part.name);
        }
        for part in PARTS.iter().filter(|part| part.command.starts_with(&["env", "-C"])) {
            assert!(root.join(part.command[2]).is_dir(), "{}", part.name);
        }
    }
}
