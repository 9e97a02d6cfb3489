//! Pages for people: a single HTML file with charts and without scripts.

use crate::baseline::{COLUMNS, Change};
use crate::compared::Compared;
use crate::place::Place;
use seawall_io::{Access, Storage};
use seawall_measure::contest::{Row, Verdict};
use seawall_measure::human::{rounded, times};
use seawall_measure::machine::{Conditions, IN_MEMORY, is_in_memory};
pub use seawall_measure::page::{escaped, page};
use std::io;
use std::path::Path;

/// Escapes text for HTML and shows parts in back-ticks as code.
fn with_code(text: &str) -> String {
    let parts = text.split('`').map(escaped).enumerate();
    let shown = parts.map(|(place, part)| match place % 2 {
        0 => part,
        _ => format!("<code>{part}</code>"),
    });
    shown.collect()
}

/// Formats a table. The first row and the first cell of each row are headers.
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

/// Formats the head of a page: its title, whether its figures are ranked, its introduction, and the
/// folder of the measurement.
#[must_use]
pub fn head(title: &str, conditions: &Conditions, (about, folder): (&str, &Path)) -> String {
    // Uses the full path, because the page may be read elsewhere.
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let says = match conditions.says() {
        says if says.is_empty() => {
            "At real-time priority, with no other program at work worth mentioning.".to_owned()
        }
        says => says.join(" ") + ".",
    };
    let memory = if is_in_memory(&folder) {
        format!("<p class=verdict>{IN_MEMORY}</p>\n")
    } else {
        String::new()
    };
    format!(
        "<h1>{}</h1>\n<p class=verdict>{}</p>\n{memory}<p>{} Measured in <code>{}</code></p>\n",
        escaped(title),
        with_code(&says),
        escaped(about),
        escaped(&folder.display().to_string())
    )
}

/// Formats a contest: its question, the table of results, and the changes since the baseline.
#[must_use]
pub fn contest(compared: &Compared) -> String {
    let contest = &compared.contest;
    let standings = &contest.standings;
    let head = ["", "a second", "p50 us", "p99 us", "p99.9 us", "against the first", ""];
    let row = |row: &Row| {
        let (ratio, verdict) = match row.verdict {
            Verdict::First => (String::new(), String::new()),
            verdict => (times(row.ratio.median), verdict.name().to_owned()),
        };
        let p999 = row.p999_us.map_or("-".to_owned(), rounded);
        let [rate, p50, p99] = [row.per_second.median, row.p50_us, row.p99_us].map(rounded);
        vec![row.name.to_string(), rate, p50, p99, p999, ratio, verdict]
    };
    let head = vec![head.map(str::to_owned).into()];
    let rows: Vec<_> = head.into_iter().chain(standings.rows.iter().map(row)).collect();
    let (low, high) = (standings.noise.lowest, standings.noise.highest);
    let mut notes = format!(
        "The first one against itself: {low:.2}x to {high:.2}x, in {} rounds.",
        standings.rounds
    );
    if let Some(says) = standings.others.says() {
        notes = format!("{notes} {says}.");
    }
    let past = changes(compared.changes());
    let asks = escaped(&contest.asks);
    format!("<h2>{asks}</h2>\n{}<p class=note>{}</p>\n{past}", table(&rows), escaped(&notes))
}

/// Formats the changes of some ways since an earlier build as a table. Empty without changes.
#[must_use]
pub fn changes<'a>(ways: impl Iterator<Item = (&'a str, &'a Change)>) -> String {
    let row = |name: &str, cells: [String; 4]| [name.to_owned()].into_iter().chain(cells).collect();
    let mut rows: Vec<Vec<String>> = ways.map(|(name, change)| row(name, change.cells())).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, row("beside the baseline", COLUMNS.map(str::to_owned)));
    table(&rows)
}

/// A page that is written under a temporary name and renamed when it is complete.
#[derive(Debug)]
pub struct PageFile {
    place: Place,
    draft: String,
}

impl PageFile {
    /// Creates the temporary file, so that an unusable path is reported before the work.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if the path does not end in a UTF-8 name.
    /// [`io::ErrorKind::AlreadyExists`] if a file has that name, or that name followed by
    /// `.partial`.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let place = Place::of(path)?;
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let draft = format!("{}.partial", place.name);
        place.storage.create(&draft)?;
        Ok(Self { place, draft })
    }

    /// Writes the page, durably under its final name.
    ///
    /// # Errors
    ///
    /// If the page cannot be written.
    pub fn write(self, title: &str, body: &str) -> io::Result<()> {
        let Place { storage, name } = &self.place;
        let file = storage.open(&self.draft, Access::ReadWrite)?;
        file.write_at(page(title, body).as_bytes(), 0)?;
        file.sync()?;
        storage.rename(&self.draft, name)?;
        storage.sync_dir()
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        // Removes the temporary file after a failure. A page that was written has been renamed.
        let _ = self.place.storage.remove(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_a_table_is_text() {
        let rows = [vec![String::new(), "a <b>".to_owned()], vec!["c & d".to_owned(), "1".into()]];
        let html = table(&rows);
        assert!(html.contains("<tr><th></th><th>a &lt;b&gt;</th></tr>"), "{html}");
        assert!(html.contains("<tr><th>c &amp; d</th><td>1</td></tr>"), "{html}");
    }
}
