//! Rules on Rust code. Comments and literals are ignored, except where a rule says so.

use super::crates::MAY_BE_UNSAFE;
use super::{Breach, in_file};
use crate::mask::is_word;
use crate::source::Source;

const GROUND: &[&str] = &["crates/seawall-io/", "crates/seawall-host/"];
const MACHINE: &[&str] = &["Instant::now", "SystemTime::now", "thread::sleep"];
const INTEGERS: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "_"];
const UNFINISHED: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
/// Split, so that this file does not violate its own rule.
const NOTES: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

/// Split for the same reason.
const HIDDEN_SKIP: &str = concat!("eprintln!(", "\"SKIPPED");

/// Finds reports of skipped tests that cargo captures. Literals count.
pub(super) fn hidden_skips(tree: &[Source]) -> Vec<Breach> {
    let rust = tree.iter().filter(|source| source.is_rust());
    rust.flat_map(|source| {
        let hidden = source.lines().filter(|(_, text)| text.contains(HIDDEN_SKIP));
        let lines: Vec<usize> = hidden.map(|(line, _)| line).collect();
        in_file(source, lines, "write it to `io::stderr()`: cargo hides what a passing test prints")
    })
    .collect()
}

/// Finds unfinished code: stubs, ignored tests, notes to fix something later.
pub(super) fn unfinished(tree: &[Source]) -> Vec<Breach> {
    let mut found = Vec::new();
    for source in tree.iter().filter(|source| source.is_rust()) {
        for pattern in UNFINISHED {
            found.extend(in_file(source, source.find(pattern), "finish it, or remove it"));
        }
        let noted = source.lines().filter(|(_, text)| has_note(text)).map(|(line, _)| line);
        let noted: Vec<usize> = noted.collect();
        found.extend(in_file(source, noted, "fix it now, or write down in docs why not"));
    }
    found
}

fn has_note(text: &str) -> bool {
    text.split(|c| !is_word(c)).any(|word| NOTES.contains(&word))
}

/// Finds `as` to an integer, which can truncate silently. The check is lexical and ignores the
/// source type.
pub(super) fn casts(tree: &[Source]) -> Vec<Breach> {
    let ours = tree.iter().filter(|source| source.is_ours());
    ours.flat_map(|source| {
        in_file(source, cast_lines(source), "use `from` or `try_from`, which cannot truncate")
    })
    .collect()
}

fn cast_lines(source: &Source) -> Vec<usize> {
    let mut found = Vec::new();
    // `use a::Trait as _;` is not a cast.
    let mut in_use = false;
    for pair in source.tokens().windows(2) {
        let [token, next] = pair else { continue };
        match token.word.as_str() {
            "use" => in_use = next.word != "<",
            ";" => in_use = false,
            "as" if !in_use && INTEGERS.contains(&next.word.as_str()) => found.push(token.line),
            _ => {}
        }
    }
    found.retain(|line| !source.is_test(*line) && !source.is_compile_time_check(*line));
    found
}

/// Finds `.unwrap()`.
pub(super) fn unwrap(tree: &[Source]) -> Vec<Breach> {
    let advice = "return the error, or say with `expect` why there is none";
    let ours = tree.iter().filter(|source| source.is_ours());
    ours.flat_map(|s| in_file(s, s.find_outside_tests(".unwrap()"), advice)).collect()
}

/// Finds code that bypasses seawall-io and seawall-host, tests included.
pub(super) fn machine(tree: &[Source]) -> Vec<Breach> {
    let advice = "go through seawall-io: the simulator cannot see this";
    let mut found = Vec::new();
    for source in tree.iter().filter(|s| s.is_ours() && !is_ground(s)) {
        let files = source.tokens().iter().filter(|token| token.word == "fs");
        found.extend(in_file(source, files.map(|token| token.line), advice));
        for pattern in MACHINE {
            found.extend(in_file(source, source.find(pattern), advice));
        }
    }
    found
}

fn is_ground(source: &Source) -> bool {
    GROUND.iter().any(|folder| source.path.starts_with(folder))
}

/// Finds `unsafe` outside of the allowed crates, and inside them without a `SAFETY` comment.
pub(super) fn unsafe_code(tree: &[Source]) -> Vec<Breach> {
    let mut found = Vec::new();
    for source in tree.iter().filter(|source| source.is_rust()) {
        let lines = source.find("unsafe");
        if !MAY_BE_UNSAFE.iter().any(|place| source.path.starts_with(place)) {
            found.extend(in_file(source, lines, "give seawall-io a safe call for this"));
            continue;
        }
        // Exported function names are excepted: the linker refuses duplicates.
        let exports = source.find("#[unsafe(no_mangle)]");
        let lines = lines.into_iter().filter(|line| !exports.contains(line));
        let bare = lines.filter(|line| !is_justified(source, *line));
        let bare: Vec<usize> = bare.collect();
        found.extend(in_file(source, bare, "say above it, after `// SAFETY:`, why it is sound"));
    }
    found
}

/// Whether a comment on or above the statement on `line` says why it is sound.
fn is_justified(source: &Source, line: usize) -> bool {
    let declares = |text: &str| text.contains("unsafe fn ") || text.contains("unsafe trait ");
    let lines: Vec<(&str, &str)> =
        source.text.lines().zip(source.code.lines()).take(line).collect();
    let mut upwards = lines.iter().rev();
    let contract = upwards.clone().next().is_some_and(|(text, _)| declares(text));
    upwards.next();
    for (text, code) in upwards {
        let code = code.trim();
        let ended = code.ends_with([';', '{', '}']);
        if text.trim().is_empty() || ended {
            return false;
        }
        if text.contains("// SAFETY:") || (contract && text.contains("/// # Safety")) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOWHERE, caught};
    use super::*;

    const RUST: &str = "crates/seawall/src/a.rs";
    const IO: &str = "crates/seawall-io/src/a.rs";

    #[test]
    fn stubs_and_ignored_tests_are_found_in_code_only() {
        let text =
            "todo!()\nunimplemented! ()\ndbg!(a)\n#[ignore = \"slow\"]\n// todo!()\n\"dbg!\"\n";
        assert_eq!(caught(unfinished, RUST, text), [1, 2, 3, 4]);
    }

    #[test]
    fn notes_to_fix_it_later_are_found_in_comments() {
        for note in NOTES {
            assert_eq!(caught(unfinished, RUST, &format!("// {note}: slow\n")), [1]);
            assert_eq!(caught(unfinished, RUST, &format!("// a{note}\n")), NOWHERE);
        }
    }

    #[test]
    fn skips_that_cargo_hides_are_found() {
        let text = format!("{HIDDEN_SKIP}: no disk\");\nwriteln!(stderr, \"SKIPPED: no disk\");\n");
        assert_eq!(caught(hidden_skips, RUST, &text), [1]);
    }

    #[test]
    fn casts_to_integers_are_found_outside_of_tests() {
        let text = "a as u8;\nb as\n  usize;\n#[test]\nfn c() { d as i64; }\ne as _;\n";
        assert_eq!(caught(casts, RUST, text), [1, 2, 6]);
    }

    #[test]
    fn casts_to_floats_and_renamed_imports_are_left_alone() {
        let text = "a as f64;\nuse b::{C as _, D as E};\n// a as u8\n<F as G>::h();\n";
        assert_eq!(caught(casts, RUST, text), NOWHERE);
        assert_eq!(caught(casts, RUST, "fn a() -> impl B + use<'_> { c as u8 }\n"), [1]);
        assert_eq!(caught(casts, "qa/model/src/a.rs", "a as u8;\n"), NOWHERE);
    }

    #[test]
    fn casts_in_assertions_at_compile_time_are_left_alone() {
        let text = "const _: () = assert!(A <= u32::MAX as usize);\nconst B: u64 = C as u64;\n";
        assert_eq!(caught(casts, RUST, text), [2]);
        let text = "const _: () = {\n    assert!(A as u64 > 1);\n};\nfn b() { c as u8 }\n";
        assert_eq!(caught(casts, RUST, text), [4]);
    }

    #[test]
    fn unwrap_is_found_outside_of_tests() {
        let text =
            "a.unwrap();\nb\n  .unwrap();\nc.unwrap_or(1);\n#[test]\nfn d() { e.unwrap() }\n";
        assert_eq!(caught(unwrap, RUST, text), [1, 3]);
        assert_eq!(caught(unwrap, "crates/seawall/tests/a.rs", text), NOWHERE);
    }

    #[test]
    fn files_clocks_and_sleep_are_found_outside_of_the_ground() {
        let text = "use std::{fs, io};\nInstant::now();\nSystemTime::now();\nthread::sleep(a);\n";
        assert_eq!(caught(machine, RUST, text), [1, 2, 3, 4]);
        assert_eq!(caught(machine, IO, text), NOWHERE);
    }

    #[test]
    fn the_machine_is_found_in_tests_too() {
        assert_eq!(caught(machine, RUST, "#[test]\nfn a() { std::fs::read(b); }\n"), [2]);
    }

    #[test]
    fn unsafe_is_found_outside_of_its_places_even_with_a_reason() {
        assert_eq!(caught(unsafe_code, RUST, "// SAFETY: a.\nunsafe { b() }\n"), [2]);
        assert_eq!(caught(unsafe_code, RUST, "#![forbid(unsafe_code)]\n"), NOWHERE);
    }

    #[test]
    fn unsafe_in_its_places_needs_a_reason_above() {
        assert_eq!(caught(unsafe_code, IO, "let a = 1;\nunsafe { b() }\n"), [2]);
        assert_eq!(caught(unsafe_code, IO, "// SAFETY: a.\n\nunsafe { b() }\n"), [3]);
        assert_eq!(
            caught(unsafe_code, IO, "// SAFETY: a,\n// b.\nlet c =\n    unsafe { d() };\n"),
            NOWHERE
        );
    }

    #[test]
    fn exported_name_needs_no_reason_in_the_places_of_unsafe() {
        let text = "#[unsafe(no_mangle)]\nextern fn a() {}\n";
        assert_eq!(caught(unsafe_code, IO, text), NOWHERE);
        assert_eq!(caught(unsafe_code, RUST, text), [1]);
    }

    #[test]
    fn one_reason_does_not_serve_two_blocks() {
        let text = "// SAFETY: a.\nunsafe { b() };\nunsafe { c() };\n";
        assert_eq!(caught(unsafe_code, IO, text), [3]);
    }

    #[test]
    fn an_unsafe_function_may_state_its_contract_instead() {
        assert_eq!(
            caught(unsafe_code, IO, "/// # Safety\n///\n/// A.\nunsafe fn b() {}\n"),
            NOWHERE
        );
        assert_eq!(caught(unsafe_code, IO, "/// # Safety\nunsafe { b() }\n"), [2]);
    }
}
