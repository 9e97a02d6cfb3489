//! The verbs that write and print records.

pub(super) mod append;
pub(super) mod cat;
mod cursor_file;
pub(super) mod intact;
mod printer;
mod signals;
pub(super) mod tail;
