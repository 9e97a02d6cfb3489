//! Rules on documents: links lead somewhere, decisions are numbered.

use super::{Breach, in_file};
use crate::source::Source;

const ADR_FOLDER: &str = "docs/adr/";

/// Finds relative links to what is not in the tree.
pub(super) fn links(tree: &[Source]) -> Vec<Breach> {
    let exists = |path: &str| {
        let inside = format!("{path}/");
        path.is_empty() || tree.iter().any(|s| s.path == path || s.path.starts_with(&inside))
    };
    let mut found = Vec::new();
    for source in tree.iter().filter(|source| source.extension() == "md") {
        for (line, target) in relative_links(&source.text) {
            if resolve(&source.path, &target).is_none_or(|path| !exists(&path)) {
                let advice = format!("`{target}` leads nowhere: mend the link");
                found.push((source.path.clone(), line, advice));
            }
        }
    }
    found
}

/// Lines and targets of the links to other files; code is not looked at.
fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let plain: String = text.split('`').step_by(2).collect();
        let targets = plain.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let defined = plain.starts_with('[').then(|| plain.split_once("]: ")).flatten();
        let targets = targets.chain(defined.map(|(_, target)| target.trim()));
        for target in targets {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains(':') {
                found.push((line, file.to_owned()));
            }
        }
    }
    found
}

/// The path that `target` means in the file at `from`; `None` if it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Finds decisions out of number.
pub(super) fn adr_numbers(tree: &[Source]) -> Vec<Breach> {
    let mut adrs: Vec<&Source> = tree.iter().filter(|s| s.path.starts_with(ADR_FOLDER)).collect();
    adrs.sort_by(|a, b| a.path.cmp(&b.path));
    (1..)
        .zip(adrs)
        .flat_map(|(number, adr): (usize, _)| {
            let start = format!("{ADR_FOLDER}{number:04}-");
            let right = adr.path.starts_with(&start) && adr.extension() == "md";
            in_file(adr, (!right).then_some(1), &format!("name it {start}what-it-decides.md"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::caught;
    use super::*;

    fn tree(readme: &str) -> Vec<Source> {
        let readme = Source::new("docs/README.md", readme);
        vec![readme, Source::new("docs/adr/0001-a.md", ""), Source::new("LICENSE", "")]
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        for link in ["[a](b.md)", "[a](../../LICENSE)", "![a](b.svg \"c\")", "[a]: b.md"] {
            let found = links(&tree(&format!("A.\n{link}\n")));
            assert_eq!(found.iter().map(|f| f.1).collect::<Vec<_>>(), [2], "{link}");
        }
    }

    #[test]
    fn links_to_files_folders_and_anchors_are_fine() {
        for link in
            ["[a](adr/0001-a.md#b)", "[a](../LICENSE)", "[a](adr)", "[a](./adr/)", "[a](..)"]
        {
            assert_eq!(links(&tree(&format!("{link}\n"))), [], "{link}");
        }
        assert_eq!(links(&tree("[a](#b) [c](https://d.org/e) [f](mailto:g@h)\n")), []);
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(links(&tree("```\n[a](b.md)\n```\n`[a](b.md)`\n")), []);
        assert_eq!(links(&tree("```\n```\n[a](b.md)\n")).len(), 1);
    }

    #[test]
    fn a_gap_in_the_numbers_is_found() {
        let at = |path: &str| Source::new(path, "");
        let right = [at("docs/adr/0001-a.md"), at("docs/adr/0002-b.md")];
        assert_eq!(adr_numbers(&right), []);
        let gap = [at("docs/adr/0001-a.md"), at("docs/adr/0003-c.md")];
        assert_eq!(adr_numbers(&gap).len(), 1);
        let twice = [at("docs/adr/0001-a.md"), at("docs/adr/0001-b.md")];
        assert_eq!(adr_numbers(&twice).len(), 1);
        assert_eq!(caught(adr_numbers, "docs/adr/notes.txt", ""), [1]);
    }
}
