//! Parity beside each segment, so that blocks which a device lost can be computed again.
//! FORMAT.md section 10.
//!
//! It stands in a file of its own: the log is read in one pass as if there were none, its offsets
//! are the same, and a log without parity pays nothing. [`code`] computes, [`track`] follows the
//! writer, [`heal`] finds the bytes that damage took.

mod code;
mod heal;
mod track;

pub(crate) use heal::{Beside, Heal, hides_end, knows_more, make_up, survey_mended};
pub use heal::{Protection, protect, protect_in, protection, protection_in};
pub(crate) use track::{Settling, Tracker};
