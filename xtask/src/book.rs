//! docs/ as a book: copies the pages, points links that leave the book to the repository, and runs
//! mdBook.

use crate::links::{relative_links, resolve};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// Where links that leave the book lead.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main");
const BOOK: &str = "target/book";
const SETTINGS: &str = "[book]\ntitle = \"Seawall\"\nlanguage = \"en\"\n\
                        [output.html]\ndefault-theme = \"light\"\n";

/// Builds the book and prints its path; false if mdBook is missing or fails.
///
/// # Errors
///
/// The tree cannot be read, or the copy cannot be written.
pub(crate) fn run() -> io::Result<bool> {
    let root = crate::tree::root()?;
    let book = root.join(BOOK);
    copy(&root, &book)?;
    let mut out = io::stdout().lock();
    let made = Command::new("mdbook").arg("build").arg(&book).stdout(Stdio::null()).status();
    match made {
        Ok(status) if status.success() => {
            writeln!(out, "{}", book.join("book/index.html").display())?;
            Ok(true)
        }
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let advice = "xtask: mdBook is not installed; `cargo install mdbook` gets it";
            writeln!(io::stderr(), "{advice}")?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Copies the summary and the pages that it lists.
#[expect(clippy::disallowed_methods, reason = "these are documents, not logs")]
fn copy(root: &Path, book: &Path) -> io::Result<()> {
    if book.exists() {
        fs::remove_dir_all(book)?;
    }
    let summary = "docs/SUMMARY.md".to_owned();
    let text = fs::read_to_string(root.join(&summary))?;
    let listed = relative_links(&text).into_iter();
    let mut pages: Vec<String> =
        listed.filter_map(|(_, target)| resolve(&summary, &target)).collect();
    pages.push(summary);
    for page in &pages {
        let text = fs::read_to_string(root.join(page))?;
        let inside = page.strip_prefix("docs/").unwrap_or(page);
        let target = book.join("src").join(inside);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(target, with_links_outside(page, &text, &pages))?;
    }
    fs::write(book.join("book.toml"), SETTINGS)
}

/// Returns `text` with its links to files outside the book pointed to the repository.
fn with_links_outside(page: &str, text: &str, pages: &[String]) -> String {
    let mut targets: Vec<String> =
        relative_links(text).into_iter().map(|(_, target)| target).collect();
    targets.sort();
    targets.dedup();
    let mut text = text.to_owned();
    for target in targets {
        if let Some(path) = resolve(page, &target).filter(|path| !pages.contains(path)) {
            text = text.replace(&format!("]({target}"), &format!("]({REPOSITORY}/{path}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let pages = ["docs/A.md".to_owned(), "docs/cli/b.md".to_owned()];
        let text = "[a](../A.md#x) [m](../../model/README.md#y) [o](https://other.org)\n";
        let made = with_links_outside("docs/cli/b.md", text, &pages);
        let outside = format!("{REPOSITORY}/model/README.md#y");
        assert_eq!(made, format!("[a](../A.md#x) [m]({outside}) [o](https://other.org)\n"));
    }
}
