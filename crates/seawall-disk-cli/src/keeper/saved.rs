//! The fate of the memory of the last server, as a start finds it.

/// The fate of the memory of the last server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    /// No keeper has memory that can be used.
    Nothing,
    /// It is in the dump area, except for some runs.
    Dumped { lost_runs: u32 },
    /// All of it is on the image, or was discarded: the dump area is broken.
    Home,
}
