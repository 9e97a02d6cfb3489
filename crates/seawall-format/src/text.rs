//! Records as lines of JSON, and their sets. format.md section 9.

#[cfg(feature = "json")]
pub(crate) mod canonical;
#[cfg(feature = "json")]
pub(crate) mod line;
#[cfg_attr(not(feature = "json"), path = "text/stub.rs")]
pub mod line_set;

#[cfg(feature = "json")]
pub use line::{Content, ENVELOPE_MAX, Found, LINE_START, Line, Read, is_valid_data, read};
