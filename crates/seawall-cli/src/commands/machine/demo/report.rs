//! The report of the demo: an HTML page without scripts, a chart, and the figures as JSON.

use super::outcome::Done;
use super::speed::why_not_ranked;
use seawall_io::{Draft, Storage};
use seawall_measure::machine::IN_MEMORY;
use seawall_measure::page::escaped;
use seawall_measure::scratch::Watched;
use seawall_output::report::Failure;
use std::io;
use std::path::Path;

/// A directory that gets its final name once the report is complete.
pub(super) struct Report<'a> {
    folder: &'a Path,
    draft: Draft,
    _watched: Watched,
}

impl<'a> Report<'a> {
    /// Creates the temporary directory, so that an unusable location is reported before the work.
    pub(super) fn begin(folder: &'a Path) -> Result<Self, Failure> {
        let fail = |error| Failure::of_page(&error, folder);
        let draft = Draft::create(folder).map_err(fail)?;
        Ok(Self { folder, draft, _watched: Watched::draft_of(folder).map_err(fail)? })
    }

    /// Writes all files; `said` has the output lines of the demo.
    pub(super) fn write(self, done: &Done, said: &[String]) -> Result<(), Failure> {
        let chart = done.speed.as_deref().map(super::chart::rates);
        let put = || -> io::Result<()> {
            let storage = self.draft.storage();
            let file = |name: &str, text: &str| {
                let file = storage.create(name)?;
                file.write_at(text.as_bytes(), 0)?;
                file.sync()
            };
            file("demo.json", &format!("{}\n", serde_json::to_string_pretty(done)?))?;
            if let Some(chart) = &chart {
                file("speed.svg", chart)?;
            }
            file("report.html", &page(done, said, chart.as_deref()))?;
            storage.sync_dir()
        };
        put().map_err(|error| Failure::of_page(&error, self.folder))?;
        self.draft.finish().map_err(|error| Failure::of_page(&error, self.folder))
    }
}

fn page(done: &Done, said: &[String], chart: Option<&str>) -> String {
    let state = if done.kept() { "kept" } else { "broken" };
    let toned = |line: &String| {
        let line = escaped(line);
        match line.strip_suffix("ok") {
            Some(start) => format!("{start}<b class=kept>ok</b>\n"),
            None => line.replace("BROKEN", "<b class=broken>BROKEN</b>") + "\n",
        }
    };
    let lines: String = said.iter().map(toned).collect();
    let speed = chart.map_or_else(
        || {
            let why = if done.in_memory { IN_MEMORY } else { "the fast demo measures no speed" };
            format!("<p>Not measured: {why}.</p>")
        },
        |chart| {
            let why = done.speed.as_deref().and_then(why_not_ranked);
            let ranked = why.map_or(String::new(), |why| format!(" {}.", escaped(&why)));
            let note =
                "Medians of alternating slices: first the one, then the other, on this disk.";
            format!("<figure>{chart}<figcaption>{note}{ranked}</figcaption></figure>")
        },
    );
    let body = include_str!("report.html")
        .replace("@state@", state)
        .replace("@verdict@", &escaped(done.verdict().0))
        .replace("@seed@", &done.seed.to_string())
        .replace("@version@", env!("CARGO_PKG_VERSION"))
        .replace("@speed@", &speed)
        .replace("@lines@", &lines);
    seawall_measure::page::page("seawall demo", &body)
}
