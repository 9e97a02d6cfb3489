//! Rules on modules: in product crates imports lead downward, and everywhere files and folders are
//! not too big.

use super::Breach;
use crate::modules::{Crate, Import, Path};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of files in a folder, without tests.
const FILES_MAX: usize = 15;
/// Maximum lines of code in a file, without tests, comments and blank lines.
const LINES_MAX: usize = 500;

/// The modules at the root of a crate, lowest layer first. A module imports from its own folder and
/// from lower layers, but not from other modules of its layer.
const ORDERS: &[(&str, &[&[&str]])] = &[
    (
        "crates/seawall/",
        &[
            &["base"],
            &["files"],
            &["scan"],
            &["parity"],
            &["read", "write"],
            &["recover"],
            &["maintenance"],
            &["log", "reader"],
            &["paper"],
        ],
    ),
    (
        "crates/seawall-format/",
        &[
            &["ids", "time", "fields", "refused"],
            &["checksum", "types", "encryption"],
            &["files"],
            &["binary"],
            &["text"],
            &["content", "tail", "layout"],
            &["scan"],
        ],
    ),
    (
        "crates/seawall-replay/",
        &[
            &["operation", "merge", "progress", "dump"],
            &["record_summary", "store", "snapshot"],
            &["error", "source"],
            &["transactions"],
            &["apply"],
            &["bulk"],
            &["small"],
            &["replay"],
        ],
    ),
    (
        "crates/seawall-io/",
        &[
            &[
                "clock", "entropy", "failure", "futex", "prefetch", "process", "secret", "status",
                "storage", "transfer",
            ],
            &["memory"],
            &["aligned", "direct"],
            &["posix"],
        ],
    ),
    (
        "crates/seawall-output/",
        &[&["text", "width", "prometheus"], &["report"], &["color"], &["stdout"], &["look"]],
    ),
    (
        "crates/seawall-cli/",
        &[&["output"], &["select", "stores"], &["args"], &["commands"], &["main"]],
    ),
];

/// Finds imports from a higher layer, or from another module of the same layer.
pub(super) fn upward(tree: &[Source]) -> Vec<Breach> {
    crates(tree).iter().flat_map(|(folder, modules)| upward_in(modules, order_of(folder))).collect()
}

fn upward_in(modules: &Crate<'_>, order: &[&[&str]]) -> Vec<Breach> {
    if order.is_empty() {
        return Vec::new();
    }
    let layer = |module: &Path| {
        let name = module.first()?;
        order.iter().position(|layer| layer.contains(&name.as_str()))
    };
    let named = modules.files().filter(|(module, _)| !module.is_empty());
    let mut found: Vec<Breach> = named
        .filter(|(module, _)| layer(module).is_none())
        .map(|(_, file)| (file.into(), 1, "give it a layer in xtask/src/rules/layers.rs".into()))
        .collect();
    for import in modules.imports() {
        let (Some(from), Some(to)) = (layer(&import.from), layer(&import.to)) else { continue };
        let is_beside = from == to && import.from.first() != import.to.first();
        if to > from || is_beside {
            let place = if is_beside { "beside" } else { "above" };
            let advice = format!("`{}` is {place} it: move one of them", import.to.join("::"));
            found.push((modules.file(&import.from).into(), import.line, advice));
        }
    }
    found
}

/// Finds imports through the crate root, which is for users of the crate.
pub(super) fn facade(tree: &[Source]) -> Vec<Breach> {
    let mut found = Vec::new();
    for (_, modules) in crates(tree) {
        let by_root = |import: &Import| import.is_through_root || import.to.is_empty();
        for import in modules.imports().iter().filter(|import| by_root(import)) {
            if !import.from.is_empty() {
                let advice = "import it from the module that defines it, not from the crate's root";
                found.push((modules.file(&import.from).into(), import.line, advice.into()));
            }
        }
    }
    found
}

/// Finds modules that import each other in a cycle: one finding per component.
pub(super) fn cycles(tree: &[Source]) -> Vec<Breach> {
    crates(tree).iter().flat_map(|(_, modules)| cycles_in(modules)).collect()
}

fn cycles_in(modules: &Crate<'_>) -> Vec<Breach> {
    let imports = modules.imports();
    let inside =
        imports.iter().filter(|i| i.from != i.to && !i.from.is_empty() && !i.to.is_empty());
    let mut graph: BTreeMap<&Path, BTreeMap<&Path, usize>> = BTreeMap::new();
    for import in inside {
        graph.entry(&import.from).or_default().entry(&import.to).or_insert(import.line);
    }
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    let mut found = Vec::new();
    for module in graph.keys() {
        if seen.contains(module) {
            continue;
        }
        let component: BTreeSet<&Path> = reached(&graph, module)
            .into_iter()
            .filter(|other| reached(&graph, other).contains(module))
            .collect();
        let shortest =
            component.iter().filter_map(|start| cycle(&graph, start)).min_by_key(Vec::len);
        if let Some([start, next, ..]) = shortest.as_deref() {
            let line = graph.get(start).and_then(|to| to.get(next)).copied().unwrap_or(1);
            let names: Vec<String> =
                shortest.iter().flatten().map(|module| module.join("::")).collect();
            let advice =
                format!("{} modules import each other: {}", component.len(), names.join(" -> "));
            found.push((modules.file(start).into(), line, advice));
        }
        seen.extend(component);
    }
    found
}

type Graph<'a> = BTreeMap<&'a Path, BTreeMap<&'a Path, usize>>;

/// The modules that can be reached from `start`, including itself only if it is in a cycle.
fn reached<'a>(graph: &Graph<'a>, start: &Path) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Path> = vec![start];
    while let Some(module) = next.pop() {
        for to in graph.get(module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(*to) {
                next.push(to);
            }
        }
    }
    found
}

/// The shortest cycle through `start`, which is both its first and its last module.
fn cycle<'a>(graph: &Graph<'a>, start: &'a Path) -> Option<Vec<&'a Path>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for to in graph.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [way.as_slice(), &[*to]].concat();
            if *to == start {
                return Some(longer);
            }
            if seen.insert(*to) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// Finds folders with too many files to keep in mind.
pub(super) fn crowded(tree: &[Source]) -> Vec<Breach> {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for source in tree.iter().filter(|source| is_code(source)) {
        if let Some((folder, _)) = source.path.rsplit_once('/') {
            *folders.entry(folder).or_default() += 1;
        }
    }
    let crowded = folders.into_iter().filter(|(_, files)| *files > FILES_MAX);
    crowded
        .map(|(folder, files)| {
            (
                folder.into(),
                1,
                format!("{files} files: sort them into folders, {FILES_MAX} in each"),
            )
        })
        .collect()
}

/// Finds files that are so long that they likely hold more than one idea.
pub(super) fn long_files(tree: &[Source]) -> Vec<Breach> {
    let sized =
        tree.iter().filter(|source| is_code(source)).map(|source| (source, source.code_lines()));
    sized
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(source, lines)| {
            let advice = format!("{lines} lines of code: split it, {LINES_MAX} in each");
            (source.path.clone(), 1, advice)
        })
        .collect()
}

fn is_code(source: &Source) -> bool {
    source.is_rust() && source.path.contains("/src/") && !source.is_test_file()
}

fn order_of(folder: &str) -> &'static [&'static [&'static str]] {
    ORDERS.iter().find(|(name, _)| *name == folder).map_or(&[], |(_, order)| order)
}

/// The product crates and their folders.
fn crates(tree: &[Source]) -> Vec<(&str, Crate<'_>)> {
    let manifests = tree.iter().filter_map(|source| source.path.strip_suffix("Cargo.toml"));
    let folders = manifests.filter(|folder| folder.starts_with("crates/"));
    folders.map(|folder| (folder, Crate::new(&format!("{folder}src/"), tree))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&[Source]) -> Vec<Breach>;

    /// The findings of `rule` in a crate of these files: name, line, advice.
    fn caught(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
        let mut tree = vec![Source::new("crates/seawall/Cargo.toml", "[package]\n")];
        let source =
            |(name, text): &(&str, &str)| Source::new(&format!("crates/seawall/src/{name}"), text);
        tree.extend(files.iter().map(source));
        let seen = rule(&tree).into_iter().map(|(path, line, advice)| {
            format!("{}:{line}: {advice}", path.trim_start_matches("crates/seawall/src/"))
        });
        seen.collect()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn an_import_from_a_layer_above_or_beside_is_found() {
        let found = |name: &str, text: &str| {
            caught(
                upward,
                &[(name, text), ("scan/b.rs", "pub struct B;"), ("write/c.rs", "pub struct C;")],
            )
        };
        let up = "\nuse crate::scan::b::B;\n";
        assert_eq!(
            found("files/a.rs", up),
            ["files/a.rs:2: `scan::b` is above it: move one of them"]
        );
        let beside = "use crate::write::c::C;\n";
        assert_eq!(
            found("read/a.rs", beside),
            ["read/a.rs:1: `write::c` is beside it: move one of them"]
        );
        for (name, text) in
            [("scan/a.rs", up), ("parity.rs", up), ("lib.rs", up), ("recover/a.rs", beside)]
        {
            assert_eq!(found(name, text), NOTHING, "{name}");
        }
    }

    #[test]
    fn a_module_without_a_layer_is_found() {
        let found = caught(upward, &[("cellar.rs", ""), ("base/a.rs", ""), ("lib.rs", "")]);
        assert_eq!(found, ["cellar.rs:1: give it a layer in xtask/src/rules/layers.rs"]);
    }

    #[test]
    fn an_import_by_way_of_the_root_is_found() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use b::B;\n");
        let found = |text: &str| caught(facade, &[root, ("a.rs", text), ("b.rs", "pub struct B;")]);
        assert_eq!(found("use crate::b::B;\n"), NOTHING);
        assert_eq!(found("\nuse super::B;\n").len(), 1);
        assert!(found("\nuse crate::B;\n")[0].starts_with("a.rs:2: "));
    }

    #[test]
    fn a_cycle_is_found_once_and_shown_at_its_shortest() {
        let a = ("a.rs", "\nuse crate::b::B;\npub struct A;");
        let b = ("b.rs", "use crate::c::C;\npub struct B;");
        let c = ("c.rs", "use crate::a::A;\npub struct C;");
        let d = ("d.rs", "use crate::a::A;\npub struct D;");
        assert_eq!(
            caught(cycles, &[a, b, c, d]),
            ["a.rs:2: 3 modules import each other: a -> b -> c -> a"]
        );
        let short = ("c.rs", "use crate::a::A;\nuse crate::b::B;\npub struct C;");
        assert_eq!(
            caught(cycles, &[a, b, short, d]),
            ["b.rs:1: 3 modules import each other: b -> c -> b"]
        );
        assert_eq!(caught(cycles, &[a, b, ("c.rs", "pub struct C;"), d]), NOTHING);
    }

    #[test]
    fn a_module_and_its_child_are_a_cycle_too() {
        let a = ("a.rs", "mod b;\nuse b::B;\npub struct A;");
        assert_eq!(caught(cycles, &[a, ("a/b.rs", "use super::A;\npub struct B;")]).len(), 1);
        let only_declared = ("a.rs", "mod b;\npub struct A;");
        assert_eq!(caught(cycles, &[only_declared, ("a/b.rs", "use super::A;")]), NOTHING);
    }

    #[test]
    fn a_crowded_folder_outside_the_product_is_found_too() {
        let names = (0..=FILES_MAX).map(|n| format!("qa/bench/src/a{n}.rs"));
        let tree: Vec<_> = names.map(|name| Source::new(&name, "")).collect();
        assert_eq!(crowded(&tree).len(), 1);
    }

    #[test]
    fn a_crowded_folder_is_found_and_its_tests_do_not_count() {
        let names: Vec<String> = (0..=FILES_MAX).map(|n| format!("base/a{n}.rs")).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(caught(crowded, &files)[0].starts_with("base:1: 16 files"));
        files.pop();
        files.push(("base/tests.rs", ""));
        assert_eq!(caught(crowded, &files), NOTHING);
    }

    #[test]
    fn a_long_file_is_found_and_comments_and_tests_do_not_count() {
        let text = |lines: usize| {
            format!(
                "{}{}#[cfg(test)]\nmod tests {{\n    a();\n}}\n",
                "// a\n\n".repeat(LINES_MAX),
                "a();\n".repeat(lines)
            )
        };
        assert_eq!(caught(long_files, &[("a.rs", &text(LINES_MAX))]), NOTHING);
        assert_eq!(caught(long_files, &[("a.rs", &text(LINES_MAX + 1))]).len(), 1);
    }
}
