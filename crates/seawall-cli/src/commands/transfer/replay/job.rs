//! One replay: its input, and how it ended.

use super::answer::Answer;
use super::failure;
use crate::args::Replay as Args;
use crate::commands::transfer::operations::OperationLog;
use crate::output::progress::Progress;
use seawall::Lsn;
use seawall_output::report::{Exit, Failure};
use seawall_replay::{Bounds, Replay};
use std::time::Duration;

/// A replay and its input.
pub(super) struct Job<'a> {
    pub(super) args: &'a Args,
    pub(super) source: OperationLog,
    /// The last record to read; `None` for all.
    pub(super) until: Option<Lsn>,
    pub(super) progress: Progress,
}

/// How a replay ended.
pub(super) enum Ended {
    Told(Answer),
    /// The reader of the output closed the pipe.
    Unheard(Exit),
}

impl Job<'_> {
    /// Configures the replay from the options.
    pub(super) fn replay(&self) -> Replay {
        let from = self.args.from.and_then(Lsn::new);
        let replay = Replay::new().partitions(self.args.threads).batches(self.bounds());
        let replay = from.into_iter().fold(replay, Replay::from);
        let replay = if self.args.accept.adopt { replay.adopt() } else { replay };
        let skips = self.args.accept.skip_incomplete;
        let replay = if skips { replay.skip_incomplete() } else { replay };
        self.until.into_iter().fold(replay, Replay::until)
    }

    pub(super) fn bounds(&self) -> Bounds {
        match self.args.batch.0 {
            // A fixed size is not reduced for slow batches.
            Some(size) => Bounds {
                changes_min: size,
                changes_max: size,
                time_max: Duration::MAX,
                ..Bounds::default()
            },
            None => Bounds::default(),
        }
    }

    pub(super) fn failure(&self, error: &seawall_replay::Error) -> Failure {
        failure::of(error, self.args)
    }
}
