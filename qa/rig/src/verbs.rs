//! What the rig measures and tests: one file per subcommand.

pub(crate) mod bench;
pub(crate) mod clean;
pub(crate) mod crash;
pub(crate) mod detach;
pub(crate) mod device;
pub(crate) mod drill;
pub(crate) mod figures;
pub(crate) mod guest;
pub(crate) mod suite;
pub(crate) mod walk;
