//! What the program measures: one file per verb.

pub(crate) mod append;
pub(crate) mod compress;
pub(crate) mod cwal;
pub(crate) mod disk;
pub(crate) mod encrypt;
pub(crate) mod frame;
pub(crate) mod helios;
pub(crate) mod open;
pub(crate) mod paper;
pub(crate) mod parity;
pub(crate) mod read;
pub(crate) mod replay;
pub(crate) mod roll;
pub(crate) mod stream;
