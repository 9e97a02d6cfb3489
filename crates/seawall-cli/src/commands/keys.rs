//! The verbs that make and replace keys.

pub(super) mod keygen;
pub(super) mod rekey;
