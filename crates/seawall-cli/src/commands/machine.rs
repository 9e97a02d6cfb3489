//! The verbs that measure and check this machine.

pub(super) mod bench;
pub(super) mod demo;
pub(super) mod doctor;
pub(super) mod probe;
