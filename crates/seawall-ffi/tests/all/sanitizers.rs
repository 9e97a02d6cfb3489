//! Sanitizers: which of them work here, and what each of them detects.
//!
//! A stable Rust compiler does not instrument the library, so the sanitizers see only these parts
//! of it:
//!
//! - memory: what the library allocates and frees, so C code that uses freed memory, frees it again
//!   or leaks it is caught; and what the library passes to functions of the C library, such as
//!   `memcpy` and `strlen`, so a record that ends before its size is caught too. Other loads and
//!   stores of the library are not seen. A handle that is used after its end gets a status, not a
//!   report.
//! - threads: those that the library starts. Its locks are not seen, so reports about its memory,
//!   or about what C passes to a callback, would be false: only programs without these are tried.
//!
//! `cargo xtask long sanitizers` instruments the library, too.

use crate::programs::{C, program};
use crate::toolchain::{Scratch, compile, has, lacks, run};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Memory errors, leaks and undefined behaviour end the program.
const MEMORY: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// A race is reported.
const THREADS: &[&str] = &["-fsanitize=thread", "-O1"];

/// Compiles a program, with sanitizers where they work: a memory error, a leak or undefined
/// behaviour is then a failure. `None` without the compiler.
pub(crate) fn checked(
    scratch: &Scratch,
    (compiler, flags, source): (&str, &[&str], &Path),
) -> Option<PathBuf> {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let works = has(compiler) && *WORKS.get_or_init(|| works(compiler, MEMORY));
    let sanitizers = if works { MEMORY } else { &[] };
    compile(scratch, (compiler, &[flags, sanitizers].concat(), source))
}

/// Whether a program with these flags can be linked and run here.
fn works(compiler: &str, flags: &[&str]) -> bool {
    let scratch = Scratch::new();
    let (source, program) = (scratch.join("empty.c"), scratch.join("empty"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut link = Command::new(compiler);
    link.args(["-x", "c"]).args(flags).arg(&source).arg("-o").arg(&program);
    let is_built = link.output().is_ok_and(|built| built.status.success());
    let works = is_built && Command::new(&program).output().is_ok_and(|ran| ran.status.success());
    if !works {
        lacks(&format!("{} does not work here: programs run without it", flags[0]));
    }
    works
}

/// Whether the library was built with this sanitizer.
fn is_in_the_library(sanitizer: &str) -> bool {
    std::env::var("SEAWALL_FFI_SANITIZER").is_ok_and(|built| built == sanitizer)
}

/// Compiles a program with a sanitizer. `None` without the compiler or the sanitizer.
fn sanitized(scratch: &Scratch, (name, flags): (&str, &[&str])) -> Option<PathBuf> {
    if !has("gcc") || !works("gcc", flags) {
        return None;
    }
    // The runtime that an instrumented library needs may be newer than that of the compiler.
    let runtime = std::env::var("SEAWALL_FFI_RUNTIME").unwrap_or_default();
    let runtime: Vec<&str> = runtime.split_whitespace().collect();
    compile(scratch, ("gcc", &[C, flags, &runtime].concat(), &program(name)))
}

/// A command for a program with a sanitizer.
fn under_sanitizer(built: &Path) -> Command {
    let mut command = Command::new(built);
    let of_library = if is_in_the_library("thread") { "0" } else { "1" };
    command.env("TSAN_OPTIONS", format!("ignore_noninstrumented_modules={of_library}"));
    command
}

/// Checks that each bug of `wrong.c` is reported with its text, and that nothing is reported
/// without a bug.
fn sees(flags: &[&str], bugs: &[(&str, &str)]) {
    let scratch = Scratch::new();
    let Some(built) = sanitized(&scratch, ("wrong.c", flags)) else { return };
    run(under_sanitizer(&built).arg("no_bug").arg(scratch.join("no_bug")));
    for (bug, report) in bugs {
        let mut wrong = under_sanitizer(&built);
        // Without the names of functions, which take half a second to find.
        wrong.env("ASAN_OPTIONS", "symbolize=0");
        let Output { status, stderr, .. } = wrong.arg(bug).arg(scratch.join(bug)).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(
            !status.success() && stderr.contains(report),
            "{bug}: {status}, no {report}: {stderr}"
        );
    }
}

#[test]
fn memory_errors_are_seen() {
    let freed = "AddressSanitizer: heap-use-after-free";
    let overflow = "AddressSanitizer: heap-buffer-overflow";
    sees(
        MEMORY,
        &[
            ("view_outlives_its_buffer", freed),
            ("view_outlives_the_next_lookup", freed),
            ("message_outlives_its_error", freed),
            ("record_is_shorter_than_its_size", overflow),
            ("path_has_no_end", overflow),
            ("handle_is_freed_by_c_too", "AddressSanitizer: attempting double-free"),
            ("handles_are_lost", "LeakSanitizer: detected memory leaks"),
            ("record_is_read_misaligned", "runtime error: load of misaligned address"),
        ],
    );
    if is_in_the_library("address") {
        sees(MEMORY, &[("handle_is_used_after_its_end", freed)]);
    }
}

#[test]
fn races_are_seen() {
    let race = "ThreadSanitizer: data race";
    sees(THREADS, &[("callback_races_with_the_program", race)]);
    if is_in_the_library("thread") {
        let bugs = [
            ("buffer_is_filled_while_its_bytes_are_read", race),
            ("handle_is_freed_during_a_call", race),
        ];
        sees(THREADS, &bugs);
    }
}

#[test]
fn threads_that_share_a_handle_do_not_race() {
    let others: &[_] = &["threads.c", "calls.c", "garbage.c"];
    let programs = if is_in_the_library("thread") { others } else { &others[..1] };
    for name in programs {
        let scratch = Scratch::new();
        let Some(built) = sanitized(&scratch, (name, THREADS)) else { return };
        run(under_sanitizer(&built).arg(scratch.join("log")));
    }
}
