//! The verbs that verify, show, copy, truncate and repair logs.

pub(super) mod copy;
pub(super) mod mended;
pub(super) mod protect;
pub(super) mod repair;
pub(super) mod stat;
pub(super) mod truncate;
pub(super) mod verify;
