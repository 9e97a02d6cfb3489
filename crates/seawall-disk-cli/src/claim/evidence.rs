//! Decides whether a waiting dump may be written to the image: only if nothing newer was written.

use crate::state::settings::{Mark, Settings};
use seawall_output::text::utc;
use std::path::PathBuf;

/// The image may have changed up to this much later than the start of a dump or the last progress
/// record: a write of the server can still be in progress. A write by another program within this
/// time is not detected.
pub(super) const MOMENT_US: u64 = 2_000_000;

/// What is known about a waiting dump and the image.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The settings in the state directory.
    pub(super) settings: Option<Settings>,
    /// The identity of the image.
    pub(super) image: Option<String>,
    /// The mark on the image.
    pub(super) mark: Option<Mark>,
    /// When the image last changed, in microseconds since 1970, if known.
    pub(super) changed_us: Option<u64>,
    /// When the dump began.
    pub(super) dumped_us: Option<u64>,
    /// When writing the dump to the image last made progress, if it was started.
    pub(super) homing_us: Option<u64>,
}

/// Why a dump is not written to the image without `--dump apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The dump was made for another image, or its image is unknown.
    OtherImage,
    /// The image was served with another directory since.
    ServedElsewhere(PathBuf),
    /// The image was served with this directory since, and the directory was restored from an older
    /// copy.
    ServedSince,
    /// The image has lost its mark.
    MarkGone,
    /// An older version made the dump and did not record the time.
    NoTime,
    /// The image was changed since the dump was made.
    ChangedSince { changed_us: u64, dumped_us: u64 },
    /// The image was last changed before it was served: the clock was set back, or the file was
    /// restored from an older copy.
    ChangedBefore { changed_us: u64, since_us: u64 },
}

impl Evidence {
    /// Returns the first reason for doubt.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let Some(settings) = &self.settings else { return Some(Doubt::OtherImage) };
        if settings.image.is_none() || settings.image != self.image {
            return Some(Doubt::OtherImage);
        }
        self.doubt_of_mark(settings).or_else(|| self.doubt_of_time(settings))
    }

    fn doubt_of_mark(&self, settings: &Settings) -> Option<Doubt> {
        let Some(mark) = &self.mark else {
            // A file system without extended attributes never had a mark.
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
            Self::OtherImage => f.write_str("it belongs to another image"),
            Self::ServedElsewhere(dir) => {
                write!(
                    f,
                    "the image has since been served with another directory, {}",
                    dir.display()
                )
            }
            Self::ServedSince => f.write_str(
                "the image has since been served with this directory, which was restored to an \
                 earlier state",
            ),
            Self::MarkGone => f.write_str(
                "the image has lost the mark of this directory: it was replaced, or restored",
            ),
            Self::NoTime => {
                f.write_str("an older version made it: it is unknown whether the image changed")
            }
            Self::ChangedSince { changed_us, dumped_us } => write!(
                f,
                "the image was changed at {}, and the dump was made at {}",
                utc(*changed_us),
                utc(*dumped_us)
            ),
            Self::ChangedBefore { changed_us, since_us } => write!(
                f,
                "the image was changed at {}, but it was served from {} on: the clock was set back",
                utc(*changed_us),
                utc(*since_us)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::settings::Homing;

    const DUMPED: u64 = 1_000_000_000;

    fn mark(state: u64, serve: u64) -> Mark {
        Mark { state, serve, is_open: true, dir: "/b".into() }
    }

    /// A dump whose image has not changed since the dump began.
    fn sound() -> Evidence {
        let settings = Settings {
            image: Some("file 7".to_owned()),
            state: Some(1),
            serve: 5,
            is_marked: true,
            since_us: Some(DUMPED - 500),
            homing: None,
            is_armed: true,
            has_lost: false,
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
    fn dump_of_the_unchanged_image_is_written_back() {
        let homing = Some(Homing { generation: 1, time_us: DUMPED + 9_000_000 });
        for evidence in [
            sound(),
            // A power cut lost the last changes of the image file.
            Evidence { changed_us: Some(DUMPED - 500), ..sound() },
            // A write was in progress when the dump began.
            Evidence { changed_us: Some(DUMPED + MOMENT_US), ..sound() },
            // The server was killed while writing the dump to the image.
            Evidence {
                changed_us: Some(DUMPED + 9_000_000 + MOMENT_US),
                homing_us: Some(DUMPED + 9_000_000),
                ..noted(|settings| settings.homing = homing)
            },
            // The server was killed between recording progress in the directory and on the image.
            Evidence { mark: Some(mark(1, 4)), ..sound() },
            // The file system does not support marks.
            Evidence { mark: None, ..noted(|settings| settings.is_marked = false) },
            // The image is a device: it has no mark and no times.
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
    fn possibly_newer_image_blocks_the_dump() {
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
