//! The C header: it is generated from the sources, and every function in it has the guard against
//! panics.

use crate::toolchain::{Scratch, crate_folder};
use std::fs;

/// The sources of the interface, in the order of the header.
const SOURCES: [&str; 13] = [
    "lib",
    "status",
    "error",
    "pointer",
    "options",
    "log",
    "append",
    "ticket",
    "read",
    "reader",
    "report",
    "maintenance",
    "stats",
];

/// Pointer types with checks, and the plain pointers that C sees.
const POINTERS: [(&str, &str); 4] =
    [("InMut<", "*mut "), ("In<", "*const "), ("Out<", "*mut "), ("Freed<", "*mut ")];

/// Replaces pointer types with checks by plain pointers: cbindgen would give them names.
fn plain(source: &str) -> String {
    let mut plain = source.to_owned();
    for (checked, pointer) in POINTERS {
        while let Some(start) = plain.find(&format!(" {checked}")).map(|space| space + 1) {
            let end = start + plain[start..].find('>').unwrap();
            let inner = plain[start + checked.len()..end].to_owned();
            plain.replace_range(start..=end, &format!("{pointer}{inner}"));
        }
    }
    plain
}

fn generated() -> String {
    let scratch = Scratch::new();
    let config = cbindgen::Config::from_file(crate_folder().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        let source = fs::read_to_string(crate_folder().join(format!("src/{name}.rs"))).unwrap();
        // cbindgen would read the modules of lib.rs a second time.
        let is_module = |line: &&str| {
            (line.starts_with("mod ") || line.starts_with("pub mod ")) && line.ends_with(';')
        };
        let source = source.lines().filter(|line| !is_module(line)).collect::<Vec<_>>().join("\n");
        let path = scratch.join(format!("{name}.rs"));
        // Only pointer.rs keeps these types, because it defines them.
        fs::write(&path, if name == "pointer" { source } else { plain(&source) }).unwrap();
        builder = builder.with_src(path);
    }
    let mut header = vec![];
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

/// `SEAWALL_BLESS=1` writes the header instead.
#[test]
fn header_is_what_the_sources_say() {
    let path = crate_folder().join("include/seawall.h");
    let generated = generated();
    if std::env::var_os("SEAWALL_BLESS").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == generated,
        "include/seawall.h is out of date: SEAWALL_BLESS=1 cargo test -p seawall-ffi header"
    );
}

/// The names and bodies of all exported functions.
pub(crate) fn exported() -> Vec<(String, String)> {
    let mut found = vec![];
    for entry in fs::read_dir(crate_folder().join("src")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for function in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (head, body) = function.split_once(" {\n").unwrap();
            let name = head.split(['(', ' ']).find(|word| word.starts_with("seawall_")).unwrap();
            let body = body.split("\n}\n").next().unwrap();
            found.push((name.to_owned(), body.to_owned()));
        }
    }
    found
}

#[test]
fn every_exported_function_catches_panics() {
    let guards = ["guard::status(", "guard::value(", "guard::bare(", "change(&", "set(&"];
    let functions = exported();
    assert!(functions.len() > 60, "{}", functions.len());
    for (name, body) in functions {
        // Skips constants, and statements before the guard that cannot panic.
        let lines = body.lines().map(str::trim);
        let calls = |line: &str| guards.iter().any(|guard| line.starts_with(guard));
        let first = lines
            .filter(|line| !line.starts_with("//") && !line.starts_with("const "))
            .find(|line| !line.contains("AtomicPtr::new(context);"));
        assert!(first.is_some_and(calls), "{name} has no guard: {first:?}");
    }
}

#[test]
fn header_declares_every_exported_function_once() {
    let header = generated();
    for (name, _) in exported() {
        let is_hidden = name == "seawall_test_panic";
        let times = header.matches(&format!(" {name}(")).count();
        let times = times + header.matches(&format!("*{name}(")).count();
        assert_eq!(times, usize::from(!is_hidden), "{name}");
    }
}
