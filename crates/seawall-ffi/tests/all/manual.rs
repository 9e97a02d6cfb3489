//! The manual page `seawall(3)`: it is complete, and its program works.

use crate::header::exported;
use crate::sanitizers::checked;
use crate::toolchain::{Scratch, crate_folder, has, run};
use std::fs;
use std::process::Command;

fn page() -> String {
    fs::read_to_string(crate_folder().join("man/seawall.3")).unwrap()
}

#[test]
fn manual_names_every_function_and_status() {
    let (page, header) = (page(), crate_folder().join("include/seawall.h"));
    for (function, _) in exported() {
        let is_hidden = function == "seawall_test_panic";
        let is_named = page.contains(&format!(".Fn {function}\n"))
            || page.contains(&format!(".Fn {function} "));
        assert_ne!(is_named, is_hidden, "{function}");
    }
    let header = fs::read_to_string(header).unwrap();
    let statuses = header.lines().filter_map(|line| line.trim().split_once(" = "));
    let statuses = statuses.filter(|(name, _)| name.starts_with("SEAWALL_STATUS_"));
    assert_eq!(statuses.clone().count(), 7);
    for (name, _) in statuses {
        assert!(page.contains(&format!(".It Dv {name}\n")), "{name}");
    }
}

#[test]
fn manual_is_formatted_without_a_warning() {
    if has("groff") {
        let mut groff = Command::new("groff");
        groff.args(["-ww", "-mdoc", "-Tascii", "-z"]).arg(crate_folder().join("man/seawall.3"));
        let warnings = groff.output().unwrap().stderr;
        assert!(warnings.is_empty(), "{}", String::from_utf8_lossy(&warnings));
    }
}

#[test]
fn program_of_the_manual_works() {
    let (scratch, page) = (Scratch::new(), page());
    let (_, program) = page.split_once(".Bd -literal -offset indent\n").unwrap();
    let (program, _) = program.split_once(".Ed\n").unwrap();
    let source = scratch.join("manual.c");
    fs::write(&source, program.replace("\\e", "\\")).unwrap();
    let Some(built) = checked(&scratch, ("gcc", &["-std=gnu99"], &source)) else { return };
    let ran = || run(Command::new(&built).current_dir(scratch.join("")));
    assert_eq!(ran(), "new 3 apples\n");
    assert_eq!(ran(), "redo 3 apples\nnew 3 apples\n");
}
