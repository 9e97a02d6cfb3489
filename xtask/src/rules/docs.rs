//! Rules on documents: links resolve, the book has all pages, and decisions are numbered.

use super::{Breach, in_file};
use crate::links::{relative_links, resolve};
use crate::source::Source;

const ADR_FOLDER: &str = "docs/adr/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Finds relative links to files that do not exist.
pub(super) fn links(tree: &[Source]) -> Vec<Breach> {
    let exists = |path: &str| {
        let inside = format!("{path}/");
        path.is_empty() || tree.iter().any(|s| s.path == path || s.path.starts_with(&inside))
    };
    let mut found = Vec::new();
    for source in tree.iter().filter(|source| source.extension() == "md") {
        for (line, target) in relative_links(&source.text) {
            if resolve(&source.path, &target).is_none_or(|path| !exists(&path)) {
                let advice = format!("`{target}` does not exist: fix the link");
                found.push((source.path.clone(), line, advice));
            }
        }
    }
    found
}

/// Finds pages that are missing from the book.
pub(super) fn pages(tree: &[Source]) -> Vec<Breach> {
    let Some(summary) = tree.iter().find(|source| source.path == SUMMARY) else { return vec![] };
    let listed: Vec<String> = relative_links(&summary.text)
        .iter()
        .filter_map(|(_, target)| resolve(&summary.path, target))
        .collect();
    let is_page = |source: &&Source| {
        let is_decision = source.path.starts_with(ADR_FOLDER);
        source.path.starts_with("docs/") && source.extension() == "md" && !is_decision
    };
    let pages = tree.iter().filter(is_page).filter(|source| source.path != SUMMARY);
    pages
        .filter(|page| !listed.contains(&page.path))
        .flat_map(|page| in_file(page, Some(1), &format!("list it in {SUMMARY}")))
        .collect()
}

/// Finds decisions whose number is not the next one.
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
    fn a_page_that_the_book_leaves_out_is_found() {
        let book = |summary: &str| {
            let at = |path: &str| Source::new(path, "");
            let summary = Source::new(SUMMARY, summary);
            vec![summary, at("docs/A.md"), at("docs/cli/b.md"), at("docs/adr/0001-a.md")]
        };
        assert_eq!(pages(&book("- [a](A.md)\n- [b](cli/b.md)\n")), []);
        let left: Vec<_> = pages(&book("[a](A.md)\n")).into_iter().map(|found| found.0).collect();
        assert_eq!(left, ["docs/cli/b.md"]);
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
