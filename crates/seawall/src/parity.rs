//! Parity beside each segment, so that blocks which a device lost can be computed again.
//! FORMAT.md section 10.
//!
//! It stands in a file of its own: the log is read in one pass as if there were none, its offsets
//! are the same, and a log without parity pays nothing. [`code`] computes, [`track`] follows the
//! writer, [`heal`] finds the bytes that damage took, and [`protect`](mod@protect) makes what is
//! lacking.

mod code;
mod heal;
mod protect;
mod track;

pub(crate) use heal::{Beside, Heal, hides_end, keeps_all, knows_more, survey_mended, survey_now};
pub(crate) use protect::make_up;
pub use protect::{Protection, protect, protect_in, protection, protection_in};
pub(crate) use track::{Settling, Tracker};
