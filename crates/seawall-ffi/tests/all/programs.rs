//! The programs in `tests/programs` and `examples`: compiled without a warning, run under
//! sanitizers.

use crate::sanitizers::checked;
use crate::toolchain::{Scratch, crate_folder, has, run, skip};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) const C: &[&str] = &["-std=gnu99"];

pub(crate) fn program(name: &str) -> PathBuf {
    crate_folder().join("tests/programs").join(name)
}

/// Compiles a program and runs it on a fresh log.
fn passes(compiler: &str, standard: &[&str], name: &str) {
    let scratch = Scratch::new();
    if let Some(built) = checked(&scratch, (compiler, standard, &program(name))) {
        run(Command::new(built).arg(scratch.join("log")));
    }
}

#[test]
fn every_function_works_from_c() {
    passes("gcc", C, "calls.c");
}

#[test]
fn garbage_has_a_status_and_a_panic_too() {
    passes("gcc", C, "garbage.c");
}

/// Tries 2 seeds, or as many as `SEAWALL_FFI_SEEDS` says.
#[test]
fn random_calls_have_a_status() {
    let scratch = Scratch::new();
    let Some(built) = checked(&scratch, ("gcc", C, &program("random.c"))) else { return };
    let seeds = std::env::var("SEAWALL_FFI_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        run(Command::new(&built).arg(scratch.join(format!("log-{seed}"))).arg(seed.to_string()));
    }
}

#[test]
fn threads_share_a_handle_and_one_closes_it() {
    passes("gcc", C, "threads.c");
}

#[test]
fn both_faces_work_from_cpp() {
    passes("g++", &["-std=c++20"], "faces.cpp");
}

/// Compiles without creating a program. The folder of headers is not passed as a system folder, in
/// which warnings would be ignored.
pub(crate) fn parses(compiler: &str, (language, standard): (&str, &str), source: &Path) {
    let mut compile = Command::new(compiler);
    compile.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", language]);
    compile.arg(format!("-std={standard}")).arg("-I").arg(crate_folder().join("include"));
    if standard == "c++17" {
        // Programs without exceptions use the other class.
        let mut without = Command::new(compiler);
        without.args(["-fno-exceptions", "-Werror", "-fsyntax-only", "-x", language, "-std=c++17"]);
        run(without.arg(crate_folder().join("include/seawall.hpp")));
    }
    run(compile.arg(source));
}

/// Checks every standard except the one that `both_faces_work_from_cpp` uses.
fn parses_all(c: &str, cpp: &str, standards: &[&str]) {
    for standard in ["gnu99", "gnu2x"].into_iter().filter(|_| has(c)) {
        parses(c, ("c", standard), &program("calls.c"));
    }
    for standard in standards.iter().filter(|_| has(cpp)) {
        parses(cpp, ("c++", standard), &program("faces.cpp"));
    }
}

#[test]
fn gcc_has_no_warning_in_any_standard() {
    parses_all("gcc", "g++", &["c++17", "c++2b"]);
}

#[test]
fn clang_has_no_warning_in_any_standard() {
    parses_all("clang", "clang++", &["c++17", "c++20", "c++2b"]);
}

/// Runs an example twice: it appends a record, then reads it.
fn example(compiler: &str, name: &str) {
    let scratch = Scratch::new();
    let source = crate_folder().join("examples").join(name);
    let Some(built) = checked(&scratch, (compiler, &[], &source)) else { return };
    let log = scratch.join("orders.wal");
    assert_eq!(run(Command::new(&built).arg(&log)), "logged 1\n");
    assert_eq!(run(Command::new(&built).arg(&log)), "redo 1: order: 3 apples\nlogged 2\n");
    let failed = Command::new(&built).arg(crate_folder().join("Cargo.toml")).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).contains("Cargo.toml"));
}

#[test]
fn examples_work() {
    example("gcc", "orders.c");
    example("g++", "orders.cpp");
}

/// Runs a writer until it has acknowledged `count` records, kills it, and returns the last number
/// that it printed.
fn kill_after(writer: &Path, log: &Path, (acknowledged, count): (u64, u64)) -> u64 {
    let mut command = Command::new(writer);
    command.arg(log).arg(acknowledged.to_string()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut last = acknowledged;
    for _ in 0..count {
        match lines.next() {
            Some(line) => last = line.unwrap().parse().unwrap(),
            None => panic!("the writer ended: {:?}", process.wait()),
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    // Lines printed before the kill count too.
    lines.map(|line| line.unwrap_or_default().parse().unwrap_or(last)).fold(last, u64::max)
}

/// Runs in a small tmpfs, which only this process sees.
#[test]
fn full_disk_refuses_records_until_there_is_space() {
    let scratch = Scratch::new();
    let Some(built) = checked(&scratch, ("gcc", C, &program("full.c"))) else { return };
    let script = "mount -t tmpfs -o size=8m none \"$1\" || exit 77; exec \"$2\" \"$1\"";
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "--map-root-user", "bash", "-c", script, "full"]);
    let small = scratch.join("small");
    std::fs::create_dir(&small).unwrap();
    let ran = alone.arg(small).arg(built).output();
    let Some(ran) = ran.ok().filter(|ran| ![Some(1), Some(77)].contains(&ran.status.code())) else {
        return skip("no file system of memory can be mounted: no full disk was tried");
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn records_that_a_cpp_writer_acknowledged_survive_kills() {
    let scratch = Scratch::new();
    let source = program("lives.cpp");
    let Some(writer) = checked(&scratch, ("g++", &["-std=c++17"], &source)) else { return };
    let log = scratch.join("log");
    let mut acknowledged = 0;
    for life in 0..12 {
        acknowledged = kill_after(&writer, &log, (acknowledged, 1 + life * 17 % 90));
    }
    assert!(acknowledged > 100, "{acknowledged}");
}
