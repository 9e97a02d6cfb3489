//! The modules of a crate and their imports from each other.

use crate::source::{Source, Token};
use std::collections::{BTreeMap, BTreeSet};

/// The names from the root of a crate to a module or an item.
pub(crate) type Path = Vec<String>;

const ITEMS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod", "macro_rules"];
/// Longer than any chain of re-exports: stops at a cycle of them.
const STEPS_MAX: usize = 16;

/// A reference to another module, outside of tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The module that imports.
    pub(crate) from: Path,
    /// The module that defines what is imported.
    pub(crate) to: Path,
    /// The line in the file of `from`.
    pub(crate) line: usize,
    /// Whether the path leads through a name in the root of the crate.
    pub(crate) is_through_root: bool,
}

/// The modules of one crate.
#[derive(Debug)]
pub(crate) struct Crate<'a> {
    modules: BTreeMap<Path, Module<'a>>,
}

#[derive(Debug)]
struct Module<'a> {
    source: &'a Source,
    /// The names that the file defines at its top level.
    items: BTreeSet<String>,
    /// The names that its `use` declarations bring into scope, with their paths as written.
    names: BTreeMap<String, Path>,
    /// The line and path of each `use` declaration and each other mention.
    mentions: Vec<(usize, Path)>,
}

/// The module that a path in the crate leads to.
struct Target {
    module: Path,
    is_through_root: bool,
}

impl<'a> Crate<'a> {
    /// Parses the sources of one crate; `src` is their folder, with `/` at its end.
    pub(crate) fn new(src: &str, tree: &'a [Source]) -> Self {
        let mut modules = BTreeMap::new();
        for source in tree.iter().filter(|source| source.is_rust()) {
            let name = source.path.strip_prefix(src);
            if let Some(path) = name.and_then(|name| name.strip_suffix(".rs")).map(module_path) {
                modules.insert(path, Module::new(source));
            }
        }
        let for_tests: Vec<Path> = modules
            .iter()
            .flat_map(|(path, module)| modules_for_tests(module.source).map(|m| join(path, &[m])))
            .collect();
        modules.retain(|path, _| !for_tests.iter().any(|tests| path.starts_with(tests)));
        Self { modules }
    }

    /// Every module with the path of its file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.modules.iter().map(|(path, module)| (path, module.source.path.as_str()))
    }

    /// The path of the file of `module`.
    pub(crate) fn file(&self, module: &Path) -> &str {
        self.modules.get(module).map_or("", |module| &module.source.path)
    }

    /// All imports between the modules, in order.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (from, module) in &self.modules {
            for (line, path) in &module.mentions {
                let Some(target) = self.absolute(from, path, 0).and_then(|p| self.resolve(&p, 0))
                else {
                    continue;
                };
                if target.module != *from || target.is_through_root {
                    let (to, is_through_root) = (target.module, target.is_through_root);
                    found.push(Import { from: from.clone(), to, line: *line, is_through_root });
                }
            }
        }
        found
    }

    /// Resolves `path`, as written in the module `from`, to a path from the root; `None` if it
    /// leaves the crate.
    fn absolute(&self, from: &Path, path: &[String], step: usize) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            _ if step > STEPS_MAX => None,
            "crate" => Some(rest.to_vec()),
            "self" => Some(join(from, rest)),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let kept = from.get(..from.len().checked_sub(ups)?)?;
                Some(join(kept, path.get(ups..)?))
            }
            _ if self.modules.contains_key(&join(from, std::slice::from_ref(first))) => {
                Some(join(from, path))
            }
            _ => {
                let named = self.modules.get(from)?.names.get(first)?;
                let named = (named.first() != Some(first)).then_some(named)?;
                Some(join(&self.absolute(from, named, step + 1)?, rest))
            }
        }
    }

    /// The module that defines the item at `path`, after following re-exports.
    fn resolve(&self, path: &[String], step: usize) -> Option<Target> {
        let depth = (0..=path.len()).rev().find(|depth| {
            path.get(..*depth).is_some_and(|module| self.modules.contains_key(module))
        })?;
        let (module, rest) = path.split_at_checked(depth)?;
        let target = |is_item| Target {
            module: module.to_vec(),
            is_through_root: is_item && module.is_empty(),
        };
        let Some((name, deeper)) = rest.split_first() else { return Some(target(false)) };
        let here = self.modules.get(module)?;
        if here.items.contains(name) || step > STEPS_MAX {
            return Some(target(true));
        }
        let Some(named) = here.names.get(name) else { return Some(target(true)) };
        let absolute = self.absolute(&module.to_vec(), named, 0);
        let Some(absolute) = absolute.filter(|absolute| *absolute != path) else {
            // A name of another crate counts only as an import through the root.
            return module.is_empty().then(|| target(true));
        };
        let mut target = self.resolve(&join(&absolute, deeper), step + 1)?;
        target.is_through_root |= module.is_empty();
        Some(target)
    }
}

impl<'a> Module<'a> {
    fn new(source: &'a Source) -> Self {
        let tokens: Vec<&Token> =
            source.tokens().iter().filter(|token| !source.is_test(token.line)).collect();
        let mut module =
            Self { source, items: BTreeSet::new(), names: BTreeMap::new(), mentions: Vec::new() };
        let mut braces = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let after = tokens.get(at + 1..).unwrap_or_default();
            match token.word.as_str() {
                "{" => braces.push(opens_module(tokens.get(..at).unwrap_or_default())),
                "}" => drop(braces.pop()),
                "use" if after.first().is_some_and(|next| next.word != "<") => {
                    let end = after.iter().position(|t| t.word == ";").unwrap_or(after.len());
                    let tree = after.get(..end).unwrap_or_default();
                    module.add_use(token.line, tree, &braces);
                    at += end + 1;
                }
                word if ITEMS.contains(&word) && braces.is_empty() => module.add_item(after),
                _ if begins_a_path(tokens.get(..at).unwrap_or_default()) => {
                    let path = chain(tokens.get(at..).unwrap_or_default());
                    let path = leads_on(&path).then(|| lifted(path, inside(&braces))).flatten();
                    module.mentions.extend(path.map(|path| (token.line, path)));
                }
                _ => {}
            }
            at += 1;
        }
        module
    }

    fn add_item(&mut self, after: &[&Token]) {
        let name = after.iter().find(|t| t.word != "!" && t.word != "unsafe" && t.word != "fn");
        self.items.extend(name.map(|token| token.word.clone()));
    }

    fn add_use(&mut self, line: usize, tree: &[&Token], braces: &[bool]) {
        let words: Vec<&str> = tree.iter().map(|token| token.word.as_str()).collect();
        for (path, alias) in flat(&words, &[]) {
            let Some(path) = lifted(path, inside(braces)) else { continue };
            if let Some(name) = alias.or_else(|| path.last().cloned()).filter(|_| braces.is_empty())
            {
                self.names.insert(name, path.clone());
            }
            self.mentions.push((line, path));
        }
    }
}

/// The path of a module: `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `lib.rs` is the root.
fn module_path(name: &str) -> Path {
    let name = name.strip_suffix("/mod").unwrap_or(name);
    if name == "lib" { Path::new() } else { name.split('/').map(str::to_owned).collect() }
}

fn join(start: &[String], rest: &[String]) -> Path {
    [start, rest].concat()
}

/// The modules that `source` declares only for tests.
fn modules_for_tests(source: &Source) -> impl Iterator<Item = String> {
    source.tokens().windows(3).filter_map(|window| match window {
        [a, name, c] if a.word == "mod" && c.word == ";" && source.is_test(name.line) => {
            Some(name.word.clone())
        }
        _ => None,
    })
}

/// Whether the `{` after `before` opens a module.
fn opens_module(before: &[&Token]) -> bool {
    matches!(before, [.., keyword, _] if keyword.word == "mod")
}

/// The number of inline modules that enclose the code.
fn inside(braces: &[bool]) -> usize {
    braces.iter().filter(|is_module| **is_module).count()
}

/// Whether a path can begin after `before`: not within another path or a `pub(in path)`.
fn begins_a_path(before: &[&Token]) -> bool {
    match before {
        [.., open, token] if token.word == "in" => open.word != "(",
        [.., token] => token.word != ":" || !matches!(before, [.., colon, _] if colon.word == ":"),
        [] => true,
    }
}

/// The path at the start of `tokens`: names joined by `::`.
fn chain(tokens: &[&Token]) -> Path {
    let is_name = |token: &&Token| token.word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut path = Path::new();
    let mut rest = tokens;
    while let Some((name, tail)) = rest.split_first().filter(|(name, _)| is_name(name)) {
        path.push(name.word.clone());
        match tail {
            [a, b, tail @ ..] if a.word == ":" && b.word == ":" => rest = tail,
            _ => break,
        }
    }
    path
}

/// Whether the path starts with a module; a type in scope was imported elsewhere.
fn leads_on(path: &[String]) -> bool {
    path.len() > 1 && path.first().is_some_and(|name| name.starts_with(char::is_lowercase))
}

/// `path` as written outside the `depth` inline modules that enclose it; `None` if it leads no
/// further than those modules.
fn lifted(path: Path, depth: usize) -> Option<Path> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    if depth == 0 || path.first().is_some_and(|first| first == "crate") {
        Some(path)
    } else {
        (ups > depth).then(|| path.get(depth..).unwrap_or_default().to_vec())
    }
}

/// The paths of a `use` declaration, each with its alias.
fn flat(words: &[&str], prefix: &[String]) -> Vec<(Path, Option<String>)> {
    let mut found = Vec::new();
    for branch in branches(words) {
        let mut path = prefix.to_vec();
        let mut words = branch.iter();
        let mut alias = None;
        while let Some(word) = words.next() {
            match *word {
                ":" | "*" => {}
                "self" if !path.is_empty() => {}
                "as" => alias = words.next().map(|name| (*name).to_owned()),
                "{" => {
                    let inner = words.as_slice();
                    found.extend(flat(inner.get(..inner.len() - 1).unwrap_or_default(), &path));
                    path.clear();
                    break;
                }
                name => path.push(name.to_owned()),
            }
        }
        if !path.is_empty() {
            found.push((path, alias));
        }
    }
    found
}

/// Splits `words` at the commas outside of braces.
fn branches<'w, 'a>(words: &'w [&'a str]) -> Vec<&'w [&'a str]> {
    let mut depth = 0_usize;
    words
        .split(|word| {
            match *word {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *word == ","
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of a crate with these files, as `from -> to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(name, text): &(&str, &str)| Source::new(&format!("c/src/{name}"), text);
        let tree: Vec<Source> = files.iter().map(source).collect();
        let named = |path: &Path| path.join("::");
        let listed = Crate::new("c/src/", &tree).imports().into_iter().map(|import| {
            let root = if import.is_through_root { " by the root" } else { "" };
            format!("{} -> {}{root}", named(&import.from), named(&import.to))
        });
        listed.collect()
    }

    #[test]
    fn every_way_to_write_an_import_is_understood() {
        for text in [
            "use crate::b::B;",
            "use crate::{b::{self, B as C}};",
            "use super::b;",
            "fn f() { super::b::f() }",
            "fn f(b: &crate::b::B) {}",
            "fn f() { use crate::b::*; }",
            "mod inner { use super::super::b::B; }",
            "fn f() { for a in crate::b::all() {} }",
        ] {
            let found = imports(&[("a.rs", text), ("b.rs", "pub struct B;")]);
            assert_eq!(found.first().map(String::as_str), Some("a -> b"), "{text}");
            assert!(found.iter().all(|import| import == "a -> b"), "{text}: {found:?}");
        }
    }

    #[test]
    fn declarations_tests_visibilities_and_other_crates_are_no_imports() {
        for text in [
            "mod c;",
            "pub(in crate::b) struct A;",
            "pub(crate) struct A;",
            "use std::b::B;",
            "use b::B;",
            "mod inner { use super::A; }",
            "fn f() -> impl B + use<'_> {}",
            "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}",
            "#[test]\nfn f() { crate::b::f() }",
            "#[cfg(test)]\nmod sample;",
            "// crate::b::B",
        ] {
            let sample =
                ("a/sample.rs", if text.contains("sample") { "use crate::b::B;" } else { "" });
            let tests = ("a/tests.rs", "use crate::b::B;");
            let found = imports(&[("a.rs", text), ("b.rs", "pub struct B;"), sample, tests]);
            assert_eq!(found, Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn an_import_leads_to_the_module_that_defines_it() {
        let files = |text| {
            let b = ("b.rs", "mod d;\npub use d::D;\npub use d as e;\npub struct B;");
            imports(&[("a.rs", text), b, ("b/d.rs", "pub struct D;")])
        };
        assert_eq!(files("use crate::b::D;"), ["a -> b::d", "b -> b::d", "b -> b::d"]);
        assert_eq!(files("use crate::b::B;")[0], "a -> b");
        assert_eq!(files("use crate::b;\nfn f() { b::D::new() }")[..2], ["a -> b", "a -> b::d"]);
        assert_eq!(files("use crate::b::e::D;")[0], "a -> b::d");
    }

    #[test]
    fn a_name_of_the_root_is_marked() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use b::B;\npub use other::O;\npub struct R;");
        let found =
            |text| imports(&[("a.rs", text), ("b.rs", "pub struct B;"), root])[1..].to_vec();
        assert_eq!(found("use crate::B;"), ["a -> b by the root"]);
        assert_eq!(found("use crate::R;"), ["a ->  by the root"]);
        assert_eq!(found("use crate::O;"), ["a ->  by the root"]);
        assert_eq!(found("use super::*;"), ["a -> "]);
        assert_eq!(found("use crate::b::B;"), ["a -> b"]);
    }

    #[test]
    fn cycles_of_names_end() {
        let b = ("b.rs", "pub use crate::c::X;");
        let c = ("c.rs", "pub use crate::b::X;");
        assert!(imports(&[("a.rs", "use crate::b::X;"), b, c]).len() <= 3);
    }
}
