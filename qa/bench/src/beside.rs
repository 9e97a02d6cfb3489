//! Options that all benches share: the baseline to compare with, and the page to write.

use crate::args::Beside;
use crate::baseline::{Baseline, Unfit};
use crate::compared::Compared;
use crate::failure::Failure;
use crate::page::PageFile;
use seawall_measure::machine::is_real_time;
use seawall_measure::scratch::Watched;
use serde_json::{Value, json};
use std::path::Path;

/// The result of an earlier build to compare with, and its file.
#[derive(Debug)]
pub(crate) struct Past<'a> {
    pub(crate) baseline: Baseline,
    path: &'a Path,
}

impl<'a> Past<'a> {
    /// Reads the baseline, if one was requested. It must have the same `settings`.
    pub(crate) fn read(
        args: &'a Beside,
        settings: &[(&str, Value)],
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = args.baseline.as_deref() else { return Ok(None) };
        let baseline = Baseline::read(path, settings).map_err(|unfit| failure(&unfit, path))?;
        Ok(Some(Self { baseline, path }))
    }

    /// Converts an error of the baseline, naming its file.
    pub(crate) fn failure(&self, unfit: &Unfit) -> Failure {
        failure(unfit, self.path)
    }

    /// Compares a contest with the same contest of the baseline.
    pub(crate) fn compare(&self, compared: &mut Compared) -> Result<(), Failure> {
        let done = compared.compare(&self.baseline, is_real_time());
        done.map_err(|unfit| self.failure(&unfit))
    }

    /// The baseline's file and whether its run was ranked, as JSON.
    pub(crate) fn as_json(&self) -> Value {
        json!({ "file": self.path.display().to_string(), "ranked": self.baseline.is_ranked() })
    }
}

fn failure(unfit: &Unfit, path: &Path) -> Failure {
    let place = path.display();
    match unfit {
        Unfit::Io(_) => {
            Failure::new(unfit, place, "give the file that --json of an earlier build went to")
        }
        Unfit::Other(_) => {
            Failure::usage(unfit, place, "measure both builds by the same command, with --json")
        }
    }
}

/// The page to write, if one was requested.
#[derive(Debug)]
pub(crate) struct Report<'a>(Option<(PageFile, &'a Path, Watched)>);

impl<'a> Report<'a> {
    /// Creates the page's temporary file, so that an unusable path is reported before measuring.
    pub(crate) fn begin(path: Option<&'a Path>) -> Result<Self, Failure> {
        let begin = |path: &'a Path| -> Result<_, Failure> {
            let fail = |error| Failure::of_page(&error, path);
            let page = PageFile::begin(path).map_err(fail)?;
            Ok((page, path, Watched::draft_of(path).map_err(fail)?))
        };
        Ok(Self(path.map(begin).transpose()?))
    }

    /// Writes the page, if one was requested. `title` is the command line without its options.
    pub(crate) fn write(self, title: &str, body: impl FnOnce() -> String) -> Result<(), Failure> {
        let Some((page, path, _watched)) = self.0 else { return Ok(()) };
        let version = env!("CARGO_PKG_VERSION");
        let body = body() + &format!("<footer>seawall {version}: {title}</footer>\n");
        page.write(title, &body).map_err(|error| Failure::of_page(&error, path))
    }
}
