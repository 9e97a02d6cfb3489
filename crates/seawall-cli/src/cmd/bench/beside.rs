//! What every bench shares: the earlier build that it is compared with, and the page of it.

use crate::args::Beside;
use crate::report::{Exit, Failure};
use crate::scratch::Watched;
use seawall_measure::baseline::{Baseline, Unfit};
use seawall_measure::contest::Contest;
use seawall_measure::machine::is_real_time;
use seawall_measure::page::PageFile;
use serde_json::{Value, json};
use std::path::Path;

/// The earlier build that a bench is compared with, and its file.
pub(super) struct Past<'a> {
    pub(super) baseline: Baseline,
    path: &'a Path,
}

impl<'a> Past<'a> {
    /// Reads it, if there is to be one: it must have been measured with the same `settings`.
    pub(super) fn read(
        args: &'a Beside,
        settings: &[(&str, Value)],
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = args.baseline.as_deref() else { return Ok(None) };
        let baseline = Baseline::read(path, settings).map_err(|unfit| failure(&unfit, path))?;
        Ok(Some(Self { baseline, path }))
    }

    /// Refuses unless it has contests by these names that asked the same.
    pub(super) fn has(
        &self,
        contests: impl Iterator<Item = (&'static str, String)>,
    ) -> Result<(), Failure> {
        for (name, asks) in contests {
            self.baseline.contest(name, &asks).map_err(|unfit| self.failure(&unfit))?;
        }
        Ok(())
    }

    /// Something in it is not to be found.
    pub(super) fn failure(&self, unfit: &Unfit) -> Failure {
        failure(unfit, self.path)
    }

    /// Tells programs which file it was.
    pub(super) fn add_to(&self, answer: &mut Value) {
        let (file, ranked) = (self.path.display().to_string(), self.baseline.is_ranked());
        if let Some(members) = answer.as_object_mut() {
            members.insert("baseline".to_owned(), json!({ "file": file, "ranked": ranked }));
        }
    }
}

/// Puts what came of a contest beside the earlier build, if there is one.
pub(super) fn compare(contest: &mut Contest, past: Option<&Past<'_>>) -> Result<(), Failure> {
    let Some(past) = past else { return Ok(()) };
    contest.compare(&past.baseline, is_real_time()).map_err(|unfit| past.failure(&unfit))
}

fn failure(unfit: &Unfit, path: &Path) -> Failure {
    let (exit, next) = match unfit {
        Unfit::Io(_) => (Exit::Failed, "give the file that --json of an earlier build went to"),
        Unfit::Other(_) => (Exit::Usage, "measure both builds by the same command, with --json"),
    };
    Failure::new(exit, unfit).at(path.display()).next(next)
}

/// The page that was asked for, if one was.
pub(super) struct Report<'a>(Option<(PageFile, &'a Path, Watched)>);

impl<'a> Report<'a> {
    /// Begins it, so that a place where it cannot be is known before the work.
    pub(super) fn begin(path: Option<&'a Path>) -> Result<Self, Failure> {
        let begin = |path: &'a Path| -> Result<_, Failure> {
            let fail = |error| Failure::of_page(&error, path);
            let page = PageFile::begin(path).map_err(fail)?;
            Ok((page, path, Watched::draft_of(path).map_err(fail)?))
        };
        Ok(Self(path.map(begin).transpose()?))
    }

    /// Writes it; `title` is the command line without its options.
    pub(super) fn write(self, title: &str, body: impl FnOnce() -> String) -> Result<(), Failure> {
        let Some((page, path, _watched)) = self.0 else { return Ok(()) };
        let version = env!("CARGO_PKG_VERSION");
        let body = body() + &format!("<footer>seawall {version}: {title}</footer>\n");
        page.write(title, &body).map_err(|error| Failure::of_page(&error, path))
    }
}
