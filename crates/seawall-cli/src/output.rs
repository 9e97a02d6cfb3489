//! Output that only this program has; `seawall_output` has the rest.

pub(crate) mod progress;
pub(crate) mod verbose;
