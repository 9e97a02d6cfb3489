//! Rules on crates: their dependencies on each other, and the use of `unsafe`.

use super::{Breach, in_file};
use crate::source::Source;

/// Where `unsafe` is allowed. The disk's transports will be added when they exist.
pub(super) const MAY_BE_UNSAFE: &[&str] = &["crates/seawall-ffi/", "crates/seawall-io/"];

/// The crates of each floor. A crate may depend on lower floors only.
const FLOORS: &[&[&str]] = &[
    &["seawall-format", "seawall-io"],
    // seawall-scheduled and seawall-loom are seawall, and seawall-disk-scheduled is seawall-disk,
    // compiled with other locks.
    &["seawall", "seawall-host", "seawall-scheduler"],
    &[
        "seawall-scheduled",
        "seawall-loom",
        "seawall-disk",
        "seawall-disk-scheduled",
        "seawall-replay",
        "seawall-raft",
        "seawall-testkit",
        "seawall-foreign",
        "seawall-measure",
        "seawall-features",
    ],
    &["seawall-output"],
    &["seawall-disk-cli"],
    &["seawall-cli", "seawall-ffi", "seawall-sim", "seawall-tables", "seawall-model", "xtask"],
    &["seawall-fjall", "seawall-redb", "seawall-rocksdb", "seawall-sqlite", "seawall-store-tests"],
    // Benchmarks depend on the crates that they measure.
    &["seawall-hunt", "seawall-with-stores", "seawall-bench", "seawall-tests", "seawall-syscalls"],
    &["seawall-bench-with-stores", "seawall-compare", "seawall-fuzz", "seawall-rig"],
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// A line of a manifest that names a dependency.
struct Dependency {
    line: usize,
    name: String,
}

/// Finds crate roots that do not forbid `unsafe`.
pub(super) fn forbid_unsafe(tree: &[Source]) -> Vec<Breach> {
    let roots = tree.iter().filter(|source| is_root(source));
    let bound = roots.filter(|s| !MAY_BE_UNSAFE.iter().any(|place| s.path.starts_with(place)));
    bound
        .filter(|source| source.find(FORBID).is_empty())
        .flat_map(|source| in_file(source, [1], "write `#![forbid(unsafe_code)]` in the head"))
        .collect()
}

fn is_root(source: &Source) -> bool {
    let in_bin = source.path.contains("/src/bin/");
    source.is_ours()
        && (in_bin || source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs"))
}

/// Finds dependencies on the same floor or a higher one; those of tests are ignored.
pub(super) fn floors(tree: &[Source]) -> Vec<Breach> {
    let mut found = Vec::new();
    for manifest in manifests(tree) {
        let name = package_name(manifest);
        let Some(floor) = floor_of(&name) else {
            found.extend(in_file(
                manifest,
                [1],
                "give the crate a floor in xtask/src/rules/crates.rs",
            ));
            continue;
        };
        let too_high = |d: &Dependency| floor_of(&d.name).is_some_and(|below| below >= floor);
        for dependency in dependencies_of(manifest).into_iter().filter(too_high) {
            let advice =
                format!("{name} is on floor {floor}: it cannot lean on {}", dependency.name);
            found.push((manifest.path.clone(), dependency.line, advice));
        }
    }
    found
}

/// Finds dependencies that no ADR names; those of tests are ignored.
pub(super) fn dependencies(tree: &[Source]) -> Vec<Breach> {
    let adrs: Vec<&Source> = tree.iter().filter(|s| s.path.starts_with("docs/adr/")).collect();
    let is_named = |name: &str| adrs.iter().any(|adr| adr.text.contains(&format!("`{name}`")));
    let mut found = Vec::new();
    for manifest in manifests(tree) {
        for dependency in dependencies_of(manifest) {
            if floor_of(&dependency.name).is_none() && !is_named(&dependency.name) {
                let advice = format!("say in docs/adr why `{}` is needed", dependency.name);
                found.push((manifest.path.clone(), dependency.line, advice));
            }
        }
    }
    found
}

/// Finds test files that no test program includes: with `autotests = false` cargo does not find
/// them.
pub(super) fn tests_that_never_run(tree: &[Source]) -> Vec<Breach> {
    let listing = manifests(tree).filter(|m| m.text.contains("\nautotests = false\n"));
    let folders = listing.filter_map(|m| {
        let folder = m.path.strip_suffix("Cargo.toml")?;
        Some((m, format!("{folder}tests/")))
    });
    let mut found = Vec::new();
    for (manifest, folder) in folders {
        let all = format!("{folder}all.rs");
        let all = tree.iter().find(|source| source.path == all);
        // The folder may be a separate package.
        let own = format!("{folder}Cargo.toml");
        let own = tree.iter().find(|source| source.path == own);
        let is_run = |name: &str| {
            let program = format!("\n[[test]]\nname = \"{name}\"\n");
            let is_module = |all: &Source| all.text.contains(&format!("\nmod {name};\n"));
            let names_it = |manifest: &Source| manifest.text.contains(&program);
            names_it(manifest) || own.is_some_and(names_it) || all.is_some_and(is_module)
        };
        for source in tree {
            let Some(name) = source.path.strip_prefix(&folder) else { continue };
            let Some(name) = name.strip_suffix("/mod.rs").or(name.strip_suffix(".rs")) else {
                continue;
            };
            if !name.contains('/') && !is_run(name) {
                let advice =
                    format!("write `mod {name};` in {folder}all.rs: these tests never run");
                found.push((source.path.clone(), 1, advice));
            }
        }
    }
    found
}

/// Finds files that a published crate includes from outside its folder: its package would lack
/// them.
pub(super) fn packages(tree: &[Source]) -> Vec<Breach> {
    let published = manifests(tree).filter(|m| !m.text.contains("\npublish = false\n"));
    let mut found = Vec::new();
    for folder in published.filter_map(|m| m.path.strip_suffix("Cargo.toml")) {
        let sources = format!("{folder}src/");
        for source in tree.iter().filter(|s| s.is_rust() && s.path.starts_with(&sources)) {
            let depth = source.path.matches('/').count() - folder.matches('/').count();
            let mut before = "";
            for (line, text) in source.lines() {
                let is_doctest = before.contains("doctest");
                before = text;
                if source.is_test(line) || is_doctest || !leaves(text, depth) {
                    continue;
                }
                let advice = format!("move the file into {folder}: the package lacks it");
                found.push((source.path.clone(), line, advice));
            }
        }
    }
    found
}

/// Whether the line includes a file from more than `depth` folders up.
fn leaves(line: &str, depth: usize) -> bool {
    let ways = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];
    let path = ways.iter().find_map(|way| line.split_once(way)).map(|(_, path)| path);
    path.is_some_and(|path| path.matches("../").count() > depth)
}

fn floor_of(name: &str) -> Option<usize> {
    FLOORS.iter().position(|crates| crates.contains(&name))
}

/// Manifests of crates. One that only defines a workspace has no dependencies.
fn manifests(tree: &[Source]) -> impl Iterator<Item = &Source> {
    let is_crate = |source: &&Source| source.text.lines().any(|line| line == "[package]");
    tree.iter().filter(|source| source.path.ends_with("/Cargo.toml")).filter(is_crate)
}

fn package_name(manifest: &Source) -> String {
    let name = manifest.text.lines().find_map(|line| line.strip_prefix("name = "));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// Parses as much TOML as the manifests of this repository use.
fn dependencies_of(manifest: &Source) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut inside = false;
    for (line, text) in manifest.lines() {
        if let Some(section) = text.strip_prefix('[').and_then(|t| t.split(']').next()) {
            let (table, name) = match section.rsplit_once("dependencies.") {
                Some((kind, name)) => (format!("{kind}dependencies"), Some(name)),
                None => (section.to_owned(), None),
            };
            let counts = table.ends_with("dependencies") && !table.ends_with("dev-dependencies");
            inside = counts && name.is_none();
            if let Some(name) = name.filter(|_| counts) {
                found.push(Dependency { line, name: name.trim_matches('"').to_owned() });
            }
        } else if inside && let Some(name) = dependency_name(text) {
            found.push(Dependency { line, name });
        }
    }
    found
}

fn dependency_name(text: &str) -> Option<String> {
    let (key, value) = text.split_once('=')?;
    if key.trim_start().starts_with('#') {
        return None;
    }
    if let Some((_, package)) = value.split_once("package = \"") {
        return package.split('"').next().map(str::to_owned);
    }
    key.trim().split('.').next().map(|name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{NOWHERE, caught};
    use super::*;

    const IO: &str = "crates/seawall-io/Cargo.toml";

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n{rest}\n")
    }

    #[test]
    fn a_root_that_does_not_forbid_unsafe_is_found() {
        for root in ["src/lib.rs", "src/main.rs", "src/bin/b.rs"] {
            let path = format!("crates/seawall/{root}");
            assert_eq!(caught(forbid_unsafe, &path, "//! #![forbid(unsafe_code)]\n"), [1]);
            assert_eq!(caught(forbid_unsafe, &path, "//! A.\n#![forbid(unsafe_code)]\n"), NOWHERE);
        }
        assert_eq!(caught(forbid_unsafe, "crates/seawall/src/a.rs", "//! A.\n"), NOWHERE);
        assert_eq!(caught(forbid_unsafe, "crates/seawall-io/src/lib.rs", "//! A.\n"), NOWHERE);
    }

    #[test]
    fn leaning_on_the_same_floor_or_a_higher_one_is_found() {
        for other in ["seawall-format", "seawall", "seawall-disk", "seawall-cli"] {
            let text =
                manifest("seawall-io", &format!("[dependencies]\n{other} = {{ path = \"\" }}"));
            assert_eq!(caught(floors, IO, &text), [4], "{other}");
        }
        let text = manifest("seawall", "[dependencies]\nseawall-io.workspace = true");
        assert_eq!(caught(floors, "crates/seawall/Cargo.toml", &text), NOWHERE);
    }

    #[test]
    fn every_way_to_write_a_dependency_is_understood() {
        for rest in [
            "\n[dependencies.seawall]\npath = \"\"",
            "[target.'cfg(unix)'.dependencies]\nseawall.workspace = true",
            "[build-dependencies]\n\"seawall\" = \"1\"",
            "[dependencies]\nlog = { package = \"seawall\" }",
        ] {
            assert_eq!(caught(floors, IO, &manifest("seawall-io", rest)), [4], "{rest}");
        }
    }

    #[test]
    fn tests_may_lean_on_anything() {
        for rest in
            ["[dev-dependencies]\nseawall = \"1\"", "[dev-dependencies.seawall]\npath = \"\""]
        {
            assert_eq!(caught(floors, IO, &manifest("seawall-io", rest)), NOWHERE, "{rest}");
        }
    }

    #[test]
    fn a_file_of_tests_that_no_program_includes_is_found() {
        let package = "[package]\nname = \"seawall\"\nautotests = false\n";
        let program = "\n[[test]]\nname = \"all\"\n";
        let tree = |all: &str| {
            [
                Source::new("crates/a/Cargo.toml", &format!("{package}{program}")),
                Source::new("crates/a/tests/all.rs", all),
                Source::new("crates/a/tests/b.rs", "//! B.\n"),
                Source::new("crates/a/tests/c/mod.rs", "//! C.\n"),
                Source::new("crates/a/tests/c/d.rs", "//! D.\n"),
            ]
        };
        let found = |all: &str| -> Vec<String> {
            tests_that_never_run(&tree(all)).into_iter().map(|(path, ..)| path).collect()
        };
        assert_eq!(found("//! All.\n\nmod b;\nmod c;\n"), Vec::<String>::new());
        assert_eq!(found("//! All.\n\nmod b;\n"), ["crates/a/tests/c/mod.rs"]);
        assert_eq!(found("//! All.\n\nmod c;\n"), ["crates/a/tests/b.rs"]);

        // The program may belong to a package in the folder.
        let mut tree = Vec::from(tree("//! All.\n\nmod b;\nmod c;\n"));
        tree.remove(0);
        tree.push(Source::new("crates/a/Cargo.toml", package));
        tree.push(Source::new("crates/a/tests/Cargo.toml", program));
        assert_eq!(tests_that_never_run(&tree).len(), 0);
        tree.pop();
        assert_eq!(tests_that_never_run(&tree).len(), 1);
    }

    #[test]
    fn a_file_from_outside_a_published_crate_is_found() {
        let found = |manifest: &str, path: &str, text: &str| -> Vec<usize> {
            let tree = [Source::new("crates/a/Cargo.toml", manifest), Source::new(path, text)];
            packages(&tree).into_iter().map(|(_, line, _)| line).collect()
        };
        let published = manifest("seawall-a", "");
        let private = manifest("seawall-a", "publish = false\n");
        let (lib, deep) = ("crates/a/src/lib.rs", "crates/a/src/b/c.rs");
        let outside = "//! A.\nconst A: &str = include_str!(\"../../b.txt\");\n";
        assert_eq!(found(&published, lib, outside), [2]);
        assert_eq!(found(&private, lib, outside), NOWHERE);
        assert_eq!(found(&published, deep, outside), NOWHERE);
        assert_eq!(found(&published, deep, &outside.replace("../../", "../../../")), [2]);
        let doctest = "//! A.\n#[cfg(doctest)]\n#[doc = include_str!(\"../../b.txt\")]\n";
        assert_eq!(found(&published, lib, doctest), NOWHERE);
    }

    #[test]
    fn a_crate_without_a_floor_is_found() {
        assert_eq!(caught(floors, "crates/a/Cargo.toml", &manifest("seawall-a", "")), [1]);
        assert_eq!(caught(floors, "stores/Cargo.toml", "[workspace]\nmembers = []\n"), NOWHERE);
    }

    #[test]
    fn a_dependency_that_no_adr_names_is_found() {
        let text =
            manifest("seawall", "[dependencies]\nserde = \"1\"\n# a = \"1\"\nseawall-io = \"1\"");
        let tree = |adr: &str| {
            [Source::new("crates/a/Cargo.toml", &text), Source::new("docs/adr/0001-a.md", adr)]
        };
        let found = dependencies(&tree("We take `serde_json`, not serde.\n"));
        assert_eq!(found.iter().map(|(_, line, _)| *line).collect::<Vec<_>>(), [4]);
        assert_eq!(dependencies(&tree("We take `serde`.\n")), []);
    }
}
