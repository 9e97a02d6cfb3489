//! Parity: writes it beside a segment and rebuilds damaged blocks from it.

pub(crate) mod backfill;
pub(crate) mod code;
pub(crate) mod reconstruct;
pub(crate) mod writer;

pub use crate::parity::backfill::Protection;
pub use seawall_format::parity::{NoScheme, Scheme as Parity};
