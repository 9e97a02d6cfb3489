//! Whether a dump that waits may be written home: only where nothing newer can have been written.

use super::settings::{Mark, Settings};
use crate::output::text::utc;
use std::path::PathBuf;

/// A write of the server's own that is under way when a dump begins, or when it is noted how far
/// one has come home, changes the image that much later at most. What another program writes in
/// that time is not seen.
pub(super) const MOMENT_US: u64 = 2_000_000;

/// What is known of a dump that waits and of the image that came.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// What the directory notes.
    pub(super) settings: Option<Settings>,
    /// The identity of the image that came.
    pub(super) image: Option<String>,
    /// The mark that it bears.
    pub(super) mark: Option<Mark>,
    /// When it changed last, in microseconds since 1970, where that is known.
    pub(super) changed_us: Option<u64>,
    /// When the dump began.
    pub(super) dumped_us: Option<u64>,
    /// When it was last on its way home, if it was.
    pub(super) homing_us: Option<u64>,
}

/// Why a dump is not written to the image without `--dump apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// It was made for another image, or that is unknown.
    OtherImage,
    /// The image was served with another directory since.
    ServedElsewhere(PathBuf),
    /// The image was served with this directory since, which was put back to what it was before.
    ServedSince,
    /// The image has lost its mark.
    MarkGone,
    /// An older version dumped, and did not note when.
    NoTime,
    /// The image was changed since.
    ChangedSince { changed_us: u64, dumped_us: u64 },
    /// The image was last changed before it was served: the clock was set back, or it is a file
    /// that was put back.
    ChangedBefore { changed_us: u64, since_us: u64 },
}

impl Evidence {
    /// The first reason for doubt.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let Some(settings) = &self.settings else { return Some(Doubt::OtherImage) };
        if settings.image.is_none() || settings.image != self.image {
            return Some(Doubt::OtherImage);
        }
        self.doubt_of_mark(settings).or_else(|| self.doubt_of_time(settings))
    }

    fn doubt_of_mark(&self, settings: &Settings) -> Option<Doubt> {
        let Some(mark) = &self.mark else {
            // A file system without marks never had one.
            return settings.is_marked.then_some(Doubt::MarkGone);
        };
        if Some(mark.state) != settings.state {
            return Some(Doubt::ServedElsewhere(mark.dir.clone()));
        }
        (mark.serve > settings.serve).then_some(Doubt::ServedSince)
    }

    fn doubt_of_time(&self, settings: &Settings) -> Option<Doubt> {
        let changed_us = self.changed_us?;
        let Some(dumped_us) = self.dumped_us else { return Some(Doubt::NoTime) };
        if let Some(since_us) = settings.since_us.filter(|since_us| changed_us < *since_us) {
            return Some(Doubt::ChangedBefore { changed_us, since_us });
        }
        let own_us = self.homing_us.map_or(dumped_us, |homing_us| homing_us.max(dumped_us));
        let is_own = changed_us <= own_us.saturating_add(MOMENT_US);
        (!is_own).then_some(Doubt::ChangedSince { changed_us, dumped_us })
    }
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherImage => f.write_str("it is of another image"),
            Self::ServedElsewhere(dir) => {
                write!(f, "the image was served since with another directory, {}", dir.display())
            }
            Self::ServedSince => f.write_str(
                "the image was served since with this directory, which was put back to an earlier \
                 state",
            ),
            Self::MarkGone => f.write_str(
                "the image has lost the mark of this directory: it was replaced, or put back",
            ),
            Self::NoTime => {
                f.write_str("an older version dumped it, and whether the image changed is unknown")
            }
            Self::ChangedSince { changed_us, dumped_us } => write!(
                f,
                "the image was changed at {}, and the dump was made at {}",
                utc(*changed_us),
                utc(*dumped_us)
            ),
            Self::ChangedBefore { changed_us, since_us } => write!(
                f,
                "the image was changed at {}, by a clock that was set back: it was served from {} \
                 on",
                utc(*changed_us),
                utc(*since_us)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::Homing;
    use super::*;

    const DUMPED: u64 = 1_000_000_000;

    fn mark(state: u64, serve: u64) -> Mark {
        Mark { state, serve, is_open: true, dir: "/b".into() }
    }

    /// A dump of an image that was not written since.
    fn sound() -> Evidence {
        let settings = Settings {
            image: Some("file 7".to_owned()),
            state: Some(1),
            serve: 5,
            is_marked: true,
            since_us: Some(DUMPED - 500),
            homing: None,
        };
        Evidence {
            settings: Some(settings),
            image: Some("file 7".to_owned()),
            mark: Some(mark(1, 5)),
            changed_us: Some(DUMPED),
            dumped_us: Some(DUMPED),
            homing_us: None,
        }
    }

    fn noted(change: impl FnOnce(&mut Settings)) -> Evidence {
        let mut evidence = sound();
        change(evidence.settings.as_mut().unwrap());
        evidence
    }

    #[test]
    fn a_dump_of_the_image_as_it_is_goes_home() {
        let homing = Some(Homing { generation: 1, time_us: DUMPED + 9_000_000 });
        for evidence in [
            sound(),
            // The power failed, and the last changes of the file were not kept.
            Evidence { changed_us: Some(DUMPED - 500), ..sound() },
            // A write was under way.
            Evidence { changed_us: Some(DUMPED + MOMENT_US), ..sound() },
            // Killed on its way home.
            Evidence {
                changed_us: Some(DUMPED + 9_000_000 + MOMENT_US),
                homing_us: Some(DUMPED + 9_000_000),
                ..noted(|settings| settings.homing = homing)
            },
            // Killed between the note and the mark of a way home.
            Evidence { mark: Some(mark(1, 4)), ..sound() },
            // A file system without marks.
            Evidence { mark: None, ..noted(|settings| settings.is_marked = false) },
            // A device.
            Evidence {
                mark: None,
                changed_us: None,
                dumped_us: None,
                ..noted(|settings| settings.is_marked = false)
            },
        ] {
            assert_eq!(evidence.doubt(), None, "{evidence:?}");
        }
    }

    #[test]
    fn whatever_may_be_newer_keeps_a_dump_where_it_is() {
        let changed = |changed_us| Evidence { changed_us: Some(changed_us), ..sound() };
        let late = DUMPED + MOMENT_US + 1;
        let since = Doubt::ChangedSince { changed_us: late, dumped_us: DUMPED };
        let before = Doubt::ChangedBefore { changed_us: DUMPED - 501, since_us: DUMPED - 500 };
        for (evidence, doubt) in [
            (Evidence { settings: None, ..sound() }, Doubt::OtherImage),
            (Evidence { image: Some("file 8".to_owned()), ..sound() }, Doubt::OtherImage),
            (Evidence { image: None, ..noted(|noted| noted.image = None) }, Doubt::OtherImage),
            (Evidence { mark: Some(mark(2, 5)), ..sound() }, Doubt::ServedElsewhere("/b".into())),
            (noted(|settings| settings.state = None), Doubt::ServedElsewhere("/b".into())),
            (Evidence { mark: Some(mark(1, 6)), ..sound() }, Doubt::ServedSince),
            (Evidence { mark: None, ..sound() }, Doubt::MarkGone),
            (Evidence { dumped_us: None, ..sound() }, Doubt::NoTime),
            (changed(late), since.clone()),
            (Evidence { homing_us: Some(DUMPED - 1), ..changed(late) }, since),
            (changed(DUMPED - 501), before),
        ] {
            assert_eq!(evidence.doubt(), Some(doubt), "{evidence:?}");
        }
    }
}
