//! Pages for people: one file of HTML without scripts, with its charts in it.

use seawall_io::{Access, PosixStorage, Storage};
use std::io;
use std::path::Path;

/// A whole page; `body` is HTML.
#[must_use]
pub fn page(title: &str, body: &str) -> String {
    include_str!("page.html").replace("@title@", &escaped(title)).replace("@body@", body)
}

/// Text as it stands in HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A table: the first row is its head, the first cell of each row names it.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let row = |(place, cells): (usize, &Vec<String>)| {
        let cell = |(column, cell): (usize, &String)| {
            let tag = if place == 0 || column == 0 { "th" } else { "td" };
            format!("<{tag}>{}</{tag}>", escaped(cell))
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().enumerate().map(row).collect();
    format!("<table>\n{rows}</table>\n")
}

/// A page that gets its name when it is whole.
#[derive(Debug)]
pub struct PageFile {
    storage: PosixStorage,
    name: String,
    draft: String,
}

impl PageFile {
    /// Begins it, so that a place where it cannot be is known before the work.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the path does not end in a name in UTF-8;
    /// [`io::ErrorKind::AlreadyExists`] if there is something by that name, or by that name with
    /// `.partial` behind it.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| {
            let what = "this path does not end in a name in UTF-8";
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let storage = PosixStorage::open(&parent.unwrap_or(Path::new(".")).canonicalize()?)?;
        let draft = format!("{name}.partial");
        storage.create(&draft)?;
        Ok(Self { storage, name, draft })
    }

    /// Writes it; nothing else is there by this name then.
    ///
    /// # Errors
    ///
    /// Whatever the device says; there is no page then.
    pub fn write(self, title: &str, body: &str) -> io::Result<()> {
        let file = self.storage.open(&self.draft, Access::ReadWrite)?;
        file.write_at(page(title, body).as_bytes(), 0)?;
        file.sync()?;
        self.storage.rename(&self.draft, &self.name)?;
        self.storage.sync_dir()
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        // After a failure; a page that was written has another name.
        let _ = self.storage.remove(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_table_is_text() {
        let rows = [vec![String::new(), "a <b>".to_owned()], vec!["c & d".to_owned(), "1".into()]];
        let html = table(&rows);
        assert!(html.contains("<tr><th></th><th>a &lt;b&gt;</th></tr>"), "{html}");
        assert!(html.contains("<tr><th>c &amp; d</th><td>1</td></tr>"), "{html}");
    }
}
