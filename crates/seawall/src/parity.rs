//! Parity: writes it beside a segment and rebuilds damaged blocks from it.

pub(crate) mod backfill;
pub(crate) mod code;
pub(crate) mod reconstruct;
pub(crate) mod writer;
