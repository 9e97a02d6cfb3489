//! Whole-log tools: verify, back up, salvage, repair and protect with parity.

pub(crate) mod backup;
pub(crate) mod exclusive;
pub(crate) mod progress;
pub(crate) mod protection;
pub(crate) mod restore;
pub(crate) mod salvage;
pub(crate) mod truncate_damage;
pub(crate) mod verify;
